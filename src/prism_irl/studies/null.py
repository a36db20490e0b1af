"""The null that intentions are tested against: a habit that knows what was done, and the same analysis on surrogates.

Two questions:

- G₁, *is there anything beyond habit?* The cross-validated gain of chains of intentions over a habit with memory
  (`studies.gains`).
- G₂, *do ways end at places beyond what a habit does?* The cross-validated gain of goals that end over the same habit
  (`studies.gains`), where states are places.

Both are ranked among surrogates: simulations of the habit with memory, with the same starts, lengths, valid actions,
dynamics and covariates. They must be as lively as the data: a habit whose rare contexts are shrunk is too tame. So the
shrinkage is lowered until memory is worth as much in surrogates as it is in the data (`match`).

p-values are sequential (Besag & Clifford 1991): no further surrogate after `EXCEEDING` of them have reached the data,
p = exceeding / surrogates; and none after `CLEAR` where none came within `FAR` standard deviations of it.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prism_irl import __version__, limits
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.devices import limit_threads
from prism_irl.errors import InputError
from prism_irl.evaluation.metrics import information
from prism_irl.evaluation.simulate import TableChooser, walk
from prism_irl.labels import ari
from prism_irl.mdp import MDP
from prism_irl.models.base import validation_split
from prism_irl.models.references import Empirical, NGram, Uniform
from prism_irl.rewards.detours import Detours
from prism_irl.scale import fanout
from prism_irl.studies import gains
from prism_irl.studies.cross_validation import data_key
from prism_irl.studies.gains import Analysis, Slow, independent

LEVEL = 0.05
EXCEEDING = 5
"""Surrogates that reach the data before the answer is no."""
CLEAR = 39
"""Surrogates after which a clear answer is yes: 1 / 40 is the level of the stricter of two questions."""
SECOND = 19
"""Surrogates after which another clear answer is yes beside it: 1 / 20 is the level of the second question."""
FAR = 4.0
ENOUGH = 10
"""Surrogates where the interval or the size of the effect have said no already: more would only sharpen p."""
MOST = 199
FLOOR = 1e-3
"""Nats per step below which an effect is too small to matter, whatever its p-value."""
AGREEMENTS = 19
"""Surrogates whose halves are compared, too."""
FITTED, LIVELIEST = 2, 0.25
"""Surrogates per strength of shrinkage that are matched with the data, and the weakest shrinkage."""
FORGETFUL, ALIKE = {"length": 1, "reads": "states", "kernels": False}, {"individuals": False}
"""What a habit without memory, or of animals that are all alike, is fitted with."""
POWERS = (1.0, 1.25, 1.5, 2.0, 3.0)
"""Of the effects of individuals, and of trajectories, which are shrunk, too, in surrogates."""
OTHERS = 3
"""Surrogates of a habit that is shrunk as it was fitted, and of one that is hardly shrunk, beside those of the test."""
RESAMPLES = 2000
PARTS = ("gain", "goals", "halves")
OnPart = Callable[[int, int], None]
"""Called with how many parts are done, and how many there are."""
OnWork = Callable[[int, int, float | None], None]
"""Called with how many parts are done, how many there are at most, and the seconds that are left: NaN before they are
known, None where the pace tells them."""
Events = Mapping[str, npt.NDArray[np.bool_]]
FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


class Task(NamedTuple):
    """One part of the analysis of one data set: 0 is the data itself, 1 and up are surrogates.

    ``backoff`` is the shrinkage of the habit where it is another than that of the test.
    """

    data: int
    part: str
    backoff: float = 0.0


class Question(NamedTuple):
    """One question and its answer: the effect in nats per step with its 95% interval, and where it ranks.

    ``effect`` is G₁, or G₂ beyond what surrogates have on average; ``statistic`` is what is ranked.
    """

    statistic: float
    effect: float
    low: float
    high: float
    surrogates: tuple[float, ...]
    floor: float = FLOOR

    @property
    def reached(self) -> int:
        """Surrogates that reach the data."""
        return sum(other >= self.statistic for other in self.surrogates)

    @property
    def p_value(self) -> float:
        """Besag and Clifford's where it stopped early, else the rank."""
        n = len(self.surrogates)
        return self.reached / n if self.reached >= EXCEEDING else (1 + self.reached) / (1 + n)

    @property
    def counts(self) -> bool:
        """Whether the interval lies above zero and the effect above the floor."""
        return self.low > 0 and self.effect >= self.floor

    @property
    def distance(self) -> float:
        """How far the data are beyond the mean surrogate, in standard deviations of surrogates."""
        spread = float(np.std(self.surrogates)) if len(self.surrogates) > 1 else math.inf
        return float(self.statistic - np.mean(self.surrogates)) / max(spread, 1e-12)

    @property
    def far(self) -> bool:
        """Whether no surrogate comes near."""
        return not self.reached and self.distance > FAR

    def to_json(self, adjusted: float, found: bool) -> dict[str, Any]:
        """What metrics.json keeps, with the p-value after Holm's correction."""
        return {
            "found": found,
            "statistic": self.statistic,
            "effect": self.effect,
            "low": self.low,
            "high": self.high,
            "p_value": self.p_value,
            "p_adjusted": adjusted,
            "floor": self.floor,
            "surrogates": len(self.surrogates),
            "surrogate_mean": float(np.mean(self.surrogates)),
            "surrogate_std": float(np.std(self.surrogates)),
        }

    def settled(self, most: int) -> bool:
        """Whether more surrogates could hardly change the answer."""
        n = len(self.surrogates)
        if n >= most or self.reached >= EXCEEDING:
            return True
        return n >= min(ENOUGH, most) if not self.counts else self.clear

    @property
    def clear(self) -> bool:
        """Whether the answer is a yes that stands, whatever the other question says."""
        return self.counts and len(self.surrogates) >= CLEAR and self.far


@dataclass
class EvidenceResult:
    """What came out.

    Attributes
    ----------
    demos, analysis : what was tested, and how
    habit : NGram
        Fitted to all data; what surrogates were simulated from, with the shrinkage that makes them as lively.
    matching : {"fitted", "chosen", "worth_of_memory", "tried"}
        How the shrinkage was chosen.
    rows : {Task: numbers of this part}
    places : whether there are any
    most : surrogates at most
    """

    demos: Demonstrations
    analysis: Analysis
    habit: NGram
    matching: dict[str, Any]
    places: bool = False
    most: int = MOST
    rows: dict[Task, dict[str, Any]] = field(default_factory=dict)

    def values(self, part: str, name: str, backoff: float = 0.0) -> tuple[float, ...]:
        """A number of all surrogates, in their order."""
        rows = sorted(self.rows.items())
        return tuple(float(row[name]) for task, row in rows if task[1:] == (part, backoff) and task.data > 0)

    def moves(self) -> list[dict[str, Any]]:
        """What surrogates gain on average and at most, by the shrinkage of their habit: "gain" is G₁, "goals" G₂."""
        used = sorted({task.backoff for task in self.rows})
        if len(used) == 1:
            return []
        rows = []
        for backoff in sorted(used, key=lambda value: -(value or self.habit.backoff_)):
            found = {part: self.values(part, "gain", backoff) for part in PARTS[: 1 + self.places]}
            told = {part: {"mean": float(np.mean(own)), "most": max(own)} for part, own in found.items()}
            rows.append({"backoff": backoff or self.habit.backoff_, "used": not backoff, **told})
        return rows

    @property
    def g1(self) -> Question:
        """The gain of intentions over the habit."""
        row = self.rows[Task(0, "gain")]
        own = np.asarray(row["per_trajectory"]["intentions"]) - np.asarray(row["per_trajectory"]["habit"])
        low, high = self.interval(own, np.arange(len(self.demos)))
        return Question(row["gain"], row["gain"], low, high, self.values("gain", "gain"))

    @property
    def g2(self) -> Question | None:
        """The gain of goals over the habit, beyond that of surrogates."""
        if not self.places:
            return None
        row, others = self.rows[Task(0, "goals")], self.values("goals", "gain")
        low, high = self.interval(np.asarray(row["per_trajectory"]), np.asarray(row["trajectories"]))
        mean, error = float(np.mean(others)), float(np.std(others)) / math.sqrt(max(len(others), 1))
        effect = row["gain"] - mean
        return Question(
            row["gain"],
            effect,
            effect - math.hypot(row["gain"] - low, 1.96 * error),
            effect + math.hypot(high - row["gain"], 1.96 * error),
            others,
        )

    def interval(self, totals: FloatArray, trajectories: npt.NDArray[np.int64]) -> tuple[float, float]:
        """95% bootstrap interval per step, over animals where there are several, else over trajectories."""
        total, steps = by_unit(self.demos, totals, trajectories)
        draws = np.random.default_rng(0).integers(len(total), size=(RESAMPLES, len(total)))
        low, high = np.quantile(total[draws].sum(1) / steps[draws].sum(1), [0.025, 0.975])
        return float(low), float(high)

    def p_value(self, part: str, name: str) -> float:
        """Rank of a number of the data among the surrogates that have it."""
        value, others = self.rows[Task(0, part)][name], self.values(part, name)
        return float((1 + sum(other >= value for other in others)) / (1 + len(others)))

    @property
    def unsettled(self) -> list[str]:
        """Parts that need more surrogates, the one farther beyond its surrogates first; none after a clear yes."""
        one, two = self.g1, self.g2
        if one.clear or (two is not None and two.clear):
            return []
        found = [] if one.settled(self.most) else ["gain"]
        if two is not None and not two.settled(self.most):
            beside = two.counts and two.far and len(two.surrogates) >= SECOND
            found += [] if beside and one.counts and one.far else ["goals"]
            found = found[::-1] if two.distance > one.distance else found
        return found


def by_unit(
    demos: Demonstrations, totals: FloatArray, trajectories: npt.NDArray[np.int64]
) -> tuple[FloatArray, FloatArray]:
    """Totals and steps of every animal, where there are several, else of every trajectory."""
    unit = demos.units("group")[trajectories] if independent(demos) == "group" else np.arange(len(trajectories))
    steps = np.bincount(unit, demos.lengths[trajectories]).astype(np.float64)
    there = steps > 0
    return np.bincount(unit, totals)[there].astype(np.float64), steps[there]


def run(
    demos: Demonstrations,
    analysis: Analysis,
    *,
    surrogates: int = MOST,
    mdp: MDP | None = None,
    jobs: int = 1,
    cache: Path | None = None,
    events: Events | None = None,
    others: int = OTHERS,
    quick: bool = False,
    on_part: OnWork | None = None,
) -> EvidenceResult:
    """Analyse the data and surrogates until both questions are settled.

    Parameters
    ----------
    surrogates : simulated at most
    mdp : dynamics that surrogates walk on; counted from the data when absent
    jobs : parts at the same time on this machine; on a cluster inside `scale.fanout.cluster`
    cache : folder that remembers finished parts, by data and settings
    events : name → (n,) bool, what happened at the steps; the alignment of intentions with it is tested, too
    others : surrogates of habits that are shrunk more and less, which show how the answer moves
    quick : settle one question after the other, which tells whether there is evidence, and not always of which kind
    on_part : see `OnWork`
    """
    if surrogates < 1:
        raise InputError(f"--surrogates is {surrogates}; give at least 39 for an answer that can be yes.")
    limits.check_option("surrogates", surrogates)
    demos.fold_indices(analysis.folds, by=analysis.by)
    known = MDP.from_demonstrations(demos) if mdp is None else mdp
    habit, slow, matching = match(analysis.habit(demos).fit(demos, mdp), demos, known, analysis)
    places = gains.find_detours(demos, known)
    found = EvidenceResult(demos, analysis, habit, matching, places is not None, surrogates)
    key = hashlib.sha256(f"{data_key(demos, mdp, None)} {analysis!r} {__version__}".encode()).hexdigest()[:24]
    told = _events_key(events)
    memory = gains.remembered(habit) | {"backoff": matching["fitted"]}
    shared = (demos, known, mdp, habit, slow, analysis, memory, places, fanout.side_by_side(jobs), events)

    def path(task: Task) -> Path | None:
        shrunk = f"-{task.backoff:g}" if task.backoff else ""
        return None if cache is None else cache / f"{key}{told}-{task.data:04d}-{task.part}{shrunk}.json"

    def work_off(tasks: list[Task]) -> None:
        done, began, left = len(found.rows), time.monotonic(), _seconds_left(found, jobs)

        def tell(rows: int) -> None:
            if on_part is not None:
                on_part(done + rows, most, left if math.isnan(left) else max(left - (time.monotonic() - began), 0.0))

        rows = fanout.remembered(_run_part, tasks, shared, path, jobs=jobs, on_rows=tell)
        found.rows |= dict(zip(tasks, rows, strict=True))

    parts = [part for part in PARTS if part != "goals" or places is not None]
    asked = [part for part in parts if part != "halves"]
    backoffs = {matching["fitted"], LIVELIEST} - {matching["chosen"]} if habit.length_ > 1 else set()
    moved = [Task(b, part, backoff) for backoff in sorted(backoffs) for b in range(1, others + 1) for part in asked]
    most = len(parts) + surrogates * len(asked) + min(surrogates, AGREEMENTS) + len(moved)
    work_off([Task(0, part) for part in parts])
    batch = max(EXCEEDING, 1 if jobs == 1 else jobs)
    wanted = asked
    while wanted:
        first = {part: len(found.values(part, "gain")) for part in wanted}
        tasks = [
            Task(first[part] + b, part) for b in range(1, batch + 1) for part in wanted if first[part] + b <= surrogates
        ]
        halves = {Task(task.data, "halves") for task in tasks if task.data <= AGREEMENTS} - found.rows.keys()
        work_off(tasks + sorted(halves))
        wanted = found.unsettled[: 1 if quick else None]
    work_off(moved)
    return found


def _seconds_left(found: EvidenceResult, jobs: int) -> float:
    """What the surrogates that are still needed will take, by those that are done; NaN before the first of them."""
    if Task(1, "gain") not in found.rows:
        return math.nan
    total, wanted = 0.0, 0
    for part in found.unsettled:
        question = found.g1 if part == "gain" else found.g2
        assert question is not None
        done, took = len(question.surrogates), found.values(part, "seconds")
        if not question.counts:
            needed = ENOUGH
        elif question.reached:  # those that have reached the data say when enough of them will have
            needed = math.ceil(EXCEEDING * done / question.reached)
        else:
            needed = CLEAR if question.far else found.most
        wanted = max(wanted, min(needed, found.most))
        total += max(min(needed, found.most) - done, 0) * float(np.mean(took))
    halves = found.values("halves", "seconds")
    total += max(min(wanted, AGREEMENTS) - len(halves), 0) * float(np.mean(halves or [0.0]))
    return total / max(jobs, 1)


def _events_key(events: Events | None) -> str:
    if not events:
        return ""
    total = hashlib.sha256()
    for name, happened in events.items():
        total.update(name.encode() + np.packbits(happened).tobytes())
    return f"-{total.hexdigest()[:12]}"


# -- surrogates as lively as the data ----------------------------------------------------------------------------------


def match(
    habit: NGram, demos: Demonstrations, mdp: MDP, analysis: Analysis
) -> tuple[NGram, Slow | None, dict[str, Any]]:
    """The most shrunk habit whose surrogates are as lively as the data, what is slow, and the steps to both.

    Habits that remember as much, and habits without memory, are fitted to folds of the data, and of every simulation:
    memory must be worth as much in surrogates as in the data. A shrunk habit passes on less than it has learned. What
    sets animals apart is matched first, by a power of the individual effects; then, in the same way, what sets
    trajectories apart, where habits that change about once per trajectory predict better.
    """
    settings = habit.get_params() | gains.remembered(habit)

    def mean(measure: Callable[[Demonstrations], float], simulated: NGram, slow: Slow | None = None) -> float:
        generators = (np.random.default_rng([analysis.seed, 1_000_000 + b]) for b in range(FITTED))
        return float(np.mean([measure(simulate(simulated, slow, demos, mdp, generator)) for generator in generators]))

    def worth(of: Mapping[str, Any]) -> Callable[[Demonstrations], float]:
        return lambda data: _worth(of, settings, data, analysis)

    matching: dict[str, Any] = {"fitted": habit.backoff_}
    if habit.individuals:
        unlike = worth(ALIKE)(demos)
        kinds = {power: habit.livelier(habit.backoff_, power) for power in POWERS}
        enough = (power for power, kind in kinds.items() if mean(worth(ALIKE), kind) >= unlike)
        matching["individuals"] = next(enough, POWERS[-1])
        habit = kinds[matching["individuals"]]
    slow, (gain, power) = None, gains.slow_gain(demos, habit, analysis)
    if gain > gains.MIXTURE_GAIN:
        slow = gains.find_slow(demos, habit, power, analysis)
        ways = {power: slow.livelier(power) for power in POWERS}
        enough = (
            power
            for power, way in ways.items()
            if mean(lambda data: gains.slow_gain(data, habit, analysis)[0], habit, way) >= gain
        )
        matching["slow"] = next(enough, POWERS[-1])
        slow = ways[matching["slow"]]
    own = worth(FORGETFUL)(demos)
    tried: list[dict[str, float]] = []

    def lively(strength: float) -> bool:
        found = mean(worth(FORGETFUL), habit.livelier(strength), slow)
        tried.append({"backoff": strength, "worth_of_memory": found})
        return found >= own

    strengths = [habit.backoff_]
    while habit.length_ > 1 and strengths[-1] > LIVELIEST:
        strengths.append(max(strengths[-1] / 2, LIVELIEST))
    low, high = 0, len(strengths) - 1  # the first strength that is lively enough, by bisection; else the weakest
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if lively(strengths[middle]) else (middle + 1, high)
    matching |= {"chosen": strengths[low], "worth_of_memory": own, "tried": tried}
    return habit.livelier(strengths[low]), slow, matching


def _worth(of: Mapping[str, Any], settings: Mapping[str, Any], demos: Demonstrations, analysis: Analysis) -> float:
    """Nats per step that habits with these settings predict test folds better than others ``of`` less."""
    less = {**settings, **of}
    found = 0.0
    for a, b in demos.fold_indices(min(3, analysis.folds), by=analysis.by):
        train, test = demos.subset(a), demos.subset(b)
        both = [NGram(**options).fit(train).log_likelihood(test).sum() for options in (settings, less)]
        found += float(both[0] - both[1])
    return found / demos.n_steps


class Drifting:
    """Chooses as a habit does, and as the trajectory does from its beginning to its end."""

    def __init__(self, habit: TableChooser, slow: Slow, demos: Demonstrations, trajectories: IntArray) -> None:
        self.habit, self.slow, self.trajectories, self.t = habit, slow, trajectories, 0
        self.last = np.maximum(demos.lengths[trajectories] - 1, 1)

    def weights(self, states: IntArray) -> FloatArray:
        """The habit, and the factors of the trajectory at this time."""
        return self.habit.weights(states) * self.slow.factors(states, self.trajectories, self.t / self.last)

    def take(self, actions: IntArray) -> None:
        """Remember the actions."""
        self.habit.take(actions)
        self.t += 1


def simulate(
    habit: NGram, slow: Slow | None, demos: Demonstrations, mdp: MDP, generator: np.random.Generator
) -> Demonstrations:
    """Let the habit act where the data were taken, every trajectory in its own way."""

    def chooser(trajectories: IntArray) -> Any:
        own = habit.chooser(demos, trajectories)
        return own if slow is None else Drifting(own, slow, demos, trajectories)

    return walk(demos, mdp, generator, chooser)


def surrogate(
    habit: NGram, slow: Slow | None, demos: Demonstrations, mdp: MDP, analysis: Analysis, number: int
) -> Demonstrations:
    """Surrogate ``number`` ≥ 1, or the data themselves for 0; covariates stay where they are."""
    if number == 0:
        return demos
    found = simulate(habit, slow, demos, mdp, np.random.default_rng([analysis.seed, number]))
    return replace(found, observations=demos.observations)


def surrogate_events(
    events: Events, demos: Demonstrations, simulated: Demonstrations, generator: np.random.Generator
) -> dict[str, npt.NDArray[np.bool_]]:
    """Events of a surrogate: as often at every pair of state and action as in the data, and knowing nothing else."""
    n_pairs = demos.n_states * demos.n_actions
    own, other = (them.states.astype(np.int64) * demos.n_actions + them.actions for them in (demos, simulated))
    seen = np.maximum(np.bincount(own, minlength=n_pairs), 1)
    found = {}
    for name, happened in events.items():
        rate = np.bincount(own, happened, minlength=n_pairs) / seen
        found[name] = generator.random(len(other)) < rate[other]
    return found


# -- parts -------------------------------------------------------------------------------------------------------------


def _run_part(
    task: Task,
    demos: Demonstrations,
    known: MDP,
    mdp: MDP | None,
    habit: NGram,
    slow: Slow | None,
    analysis: Analysis,
    memory: Mapping[str, Any],
    places: Detours | None,
    parallel: bool,
    events: Events | None,
) -> dict[str, Any]:
    if parallel:
        limit_threads(1)
    clock = time.perf_counter()
    habit = habit.livelier(task.backoff) if task.backoff else habit
    data = surrogate(habit, slow, demos, known, analysis, task.data)
    if task.part == "goals":
        assert places is not None
        row = _goals(data, places, mdp, analysis, memory, everything=task.data == 0)
    elif task.part == "halves":
        happened = {} if events is None else dict(events)
        if task.data and happened:
            happened = surrogate_events(happened, demos, data, np.random.default_rng([analysis.seed, task.data, 1]))
        row = _halves(data, analysis, happened)
    else:
        row = _gain(data, mdp, analysis, memory, everything=task.data == 0)
    return row | {"seconds": time.perf_counter() - clock}


def _gain(
    demos: Demonstrations, mdp: MDP | None, analysis: Analysis, memory: Mapping[str, Any], *, everything: bool
) -> dict[str, Any]:
    """G₁ over all folds, with the budget of predictability where it is asked for."""
    total: dict[str, FloatArray] = {}
    chosen, several = [], 0
    for train_index, test_index in demos.fold_indices(analysis.folds, by=analysis.by):
        train, test = demos.subset(train_index), demos.subset(test_index)
        models, name, split = gains.fold_gains(train, test, mdp, analysis, memory)
        if everything:
            settings = {**analysis.habit(train).get_params(), **memory, "individuals": False}
            budget: dict[str, Any] = {"uniform": Uniform(), "state": Empirical(), "memory": NGram(**settings)}
            for row_name, model in budget.items():
                found = model.fit(train, mdp).log_likelihood(test)
                models[row_name] = np.add.reduceat(found, test.offsets[:-1])
        for row_name, values in models.items():
            total.setdefault(row_name, np.zeros(len(demos)))[test_index] = values
        chosen.append(name)
        several += split
    row: dict[str, Any] = {
        "gain": float((total["intentions"] - total["habit"]).sum() / demos.n_steps),
        "chain": Counter(chosen).most_common(1)[0][0],
        "several": several,
    }
    if everything:
        row["per_trajectory"] = {name: values.tolist() for name, values in total.items()}
    return row


def _goals(
    demos: Demonstrations,
    places: Detours,
    mdp: MDP | None,
    analysis: Analysis,
    memory: Mapping[str, Any],
    *,
    everything: bool,
) -> dict[str, Any]:
    """G₂ over both folds."""
    kept = gains.sample(demos, analysis)
    data = demos.subset(kept)
    found, goals = gains.goal_gains(data, places, mdp, analysis, memory)
    row: dict[str, Any] = {"gain": float(found.sum() / data.n_steps), "goals": goals}
    return row | ({"per_trajectory": found.tolist(), "trajectories": kept.tolist()} if everything else {})


def _halves(demos: Demonstrations, analysis: Analysis, events: Events) -> dict[str, Any]:
    """Agreement between labellings of all data by chains fitted to disjoint halves, and their alignment with events."""
    labels = []
    for half in demos.split(0.5, by=independent(demos), seed=analysis.seed):
        fitted, held_out = validation_split(half, gains.VALIDATION, analysis.seed)
        labels.append(gains.label(demos, fitted, held_out or fitted, analysis))
    alignment = {
        event: float(np.mean([information(z, happened) for z in labels])) for event, happened in events.items()
    }
    return {"agreement": ari(labels[0], labels[1]), **alignment}
