"""The null that intentions are tested against: a habit without any, and the same analysis on what it simulates.

A habit is fitted to the data: a back-off n-gram, with accents where the animals are known, or several of them of which
every trajectory has one, where validation trajectories prefer that (a change that is slower than a trajectory, an
animal that nobody named, is no change of mind). Surrogates are simulated from it, with the same starts, lengths, valid
actions and dynamics, and analysed exactly as the data are. Per data set:

- gain: cross-validated log-likelihood per step of a chain of intentions minus that of a habit; which habit (one or
  several) and which chain (how many intentions, Markov or switching by the state, with or without the memory of the
  habit) is chosen on validation trajectories in every fold
- agreement: adjusted Rand index between labellings from disjoint halves (of the animals, where there are several)

and p = (1 + number of surrogates that reach the data) / (1 + number of surrogates). Agreement of fits to the *same*
data measures the search; dwell, enrichment and named goals measure the maze: a habit has them all.
"""

from __future__ import annotations

import hashlib
import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prism_irl import __version__
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.devices import limit_threads
from prism_irl.errors import InputError
from prism_irl.evaluation.simulate import walk
from prism_irl.labels import ari
from prism_irl.mdp import MDP
from prism_irl.models.base import IntentionModel
from prism_irl.models.hiql import HIQL
from prism_irl.models.mixture import TrajectoryMixture
from prism_irl.models.pair import PairModel
from prism_irl.models.prism import PRISM
from prism_irl.models.references import Empirical, NGram, Uniform
from prism_irl.models.splits import validation_split
from prism_irl.scale import fanout, remember
from prism_irl.studies.cross_validation import data_key

HALVES = -1
"""The part of an analysis that is no fold: two fits to disjoint halves."""
FEW_GROUPS = 4
"""Fewer animals than this are not divided into halves; their trajectories are."""
VALIDATION = 0.2
"""Share of the training trajectories that stops chains and chooses among them."""
MIXTURES = (3,)
"""Numbers of habits of which every trajectory has one that are tried beside a single one."""
MIXTURE_GAIN = 1e-3
"""Nats per step on validation trajectories that several habits must gain over one."""
FloatArray = npt.NDArray[np.float64]
OnPart = Callable[[int, int], None]


def independent(demos: Demonstrations) -> str:
    """What counts as one independent piece of the data: an animal where there are several, else a trajectory."""
    return "group" if demos.n_groups >= FEW_GROUPS else "trajectory"


@dataclass(frozen=True)
class Analysis:
    """What is done to the data, and to every surrogate in the same way.

    Parameters
    ----------
    intentions : numbers of intentions of the chains
    folds : parts of the cross-validation
    by : what a fold keeps together
    starts, max_iterations : of every chain
    seed : the one source of randomness
    """

    intentions: tuple[int, ...] = (2, 3)
    folds: int = 5
    by: str = "trajectory"
    starts: int = 2
    max_iterations: int = 40
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.intentions or min(self.intentions) < 2:
            raise InputError("Evidence is about two intentions or more; write --intentions 2,3.")
        if self.folds < 2 or self.starts < 1 or self.max_iterations < 1:
            raise InputError("Evidence needs at least 2 folds, 1 start and 1 iteration.")

    def individuals(self, demos: Demonstrations) -> bool:
        """Whether habits and chains know the animals: there are several, and folds do not leave whole ones out."""
        return self.by == "trajectory" and demos.n_groups > 1

    def habit(self, demos: Demonstrations) -> NGram:
        """The unfitted n-gram."""
        return NGram(individuals=self.individuals(demos), seed=self.seed)

    def options(self, demos: Demonstrations, habit: NGram, memory: int) -> dict[str, Any]:
        """Options of chains and mixtures, which are all compared on the same validation trajectories."""
        return {
            "history": memory,
            "backoff": habit.backoff_,
            "individuals": self.individuals(demos),
            "n_starts": self.starts,
            "max_iterations": self.max_iterations,
            "validation_fraction": VALIDATION,
            "stop_by": "validation",
            "recount": True,
            "seed": self.seed,
        }

    def mixtures(self, demos: Demonstrations, habit: NGram) -> dict[str, TrajectoryMixture]:
        """Unfitted habits of which every trajectory has one, by name."""
        options = self.options(demos, habit, habit.length_)
        return {f"{J} habits": TrajectoryMixture(J, **options) for J in MIXTURES}

    def candidates(self, demos: Demonstrations, habit: NGram) -> dict[str, PairModel]:
        """Unfitted chains of intentions, by name: without memory, and with the memory that the habit has chosen."""
        chains: dict[str, PairModel] = {}
        for K, memory in itertools.product(self.intentions, sorted({1, habit.length_})):
            options, suffix = self.options(demos, habit, memory), f", memory {memory}" if memory > 1 else ""
            chains[f"K={K}{suffix}"] = HIQL(K, **options)
            if min(self.intentions) == K:  # one number is enough to show that switches follow the state
                options |= {"warm_up": 10, "n_candidates": 1}
                chains[f"K={K} by state{suffix}"] = PRISM(K, switching="state", rewards="tabular", **options)
        return chains


class Task(NamedTuple):
    """One part of the analysis of one data set: 0 is the data itself, 1 and up are surrogates."""

    data: int
    part: int


@dataclass
class Tested:
    """What came out.

    Attributes
    ----------
    demos : Demonstrations
    analysis : Analysis
    habit : IntentionModel
        Fitted to all data; what the surrogates were simulated from.
    rows : {Task: numbers of this part}
    """

    demos: Demonstrations
    analysis: Analysis
    habit: IntentionModel
    rows: dict[Task, dict[str, Any]] = field(default_factory=dict)

    @property
    def memory(self) -> int:
        """States that the habit of all data sees."""
        return int(getattr(self.habit, "length_", 0) or getattr(self.habit, "history_length_", 1))

    @property
    def several(self) -> bool:
        """Whether some fold of the data preferred several habits to one."""
        return any(row["habits"] != "1 habit" for row in self.folds(0))

    @property
    def surrogates(self) -> list[int]:
        """Numbers of the surrogates."""
        return sorted({task.data for task in self.rows} - {0})

    def folds(self, data: int) -> list[dict[str, Any]]:
        """Rows of the folds of one data set."""
        return [self.rows[task] for task in sorted(self.rows) if task.data == data and task.part != HALVES]

    def gain(self, data: int) -> float:
        """Nats per step that intentions predict better than the habit, over all folds."""
        folds = self.folds(data)
        return float(sum(row["n_steps"] * (row["intentions"] - row["habit"]) for row in folds)) / float(
            sum(row["n_steps"] for row in folds)
        )

    def favourite(self, data: int) -> str:
        """The chain that validation trajectories liked best over all folds."""
        folds = [{_kind(name): score for name, score in row["validation"].items()} for row in self.folds(data)]
        kinds = dict.fromkeys(kind for fold in folds for kind in fold)
        return max(kinds, key=lambda kind: sum(_of_kind(fold, kind) for fold in folds))

    def agreement(self, data: int) -> float:
        """Agreement between labellings from disjoint halves, by the favourite chain."""
        return _of_kind(self.rows[Task(data, HALVES)]["agreement"], self.favourite(data))

    def p_value(self, statistic: Callable[[int], float]) -> float:
        """Rank of the data among the surrogates."""
        value = statistic(0)
        return (1 + sum(statistic(b) >= value for b in self.surrogates)) / (1 + len(self.surrogates))


def _kind(name: str) -> str:
    """Name of a chain without the length of its memory, which differs from fold to fold."""
    return name.partition(",")[0] + (" with memory" if "memory" in name else "")


def _of_kind(found: dict[str, float], kind: str) -> float:
    """Number of this kind of chain; where the habit has no memory, a chain with its memory is the one without."""
    return float(found[kind if kind in found else kind.removesuffix(" with memory")])


def run(
    demos: Demonstrations,
    analysis: Analysis,
    *,
    surrogates: int = 19,
    mdp: MDP | None = None,
    jobs: int = 1,
    cache: Path | None = None,
    on_part: OnPart | None = None,
) -> Tested:
    """Analyse the data and its surrogates, all parts side by side.

    Parameters
    ----------
    surrogates : B; with 19, p = 0.05 is what a data set that beats them all can reach
    mdp : dynamics that surrogates walk on; counted from the data when absent
    jobs : parts at the same time on this machine; on a cluster inside `scale.fanout.cluster`
    cache : folder that remembers finished parts, by data and settings
    on_part : called with how many parts are done, and how many there are
    """
    if surrogates < 1:
        raise InputError("Give at least one surrogate; 19 allow for p = 0.05, 99 for p = 0.01.")
    demos.fold_indices(analysis.folds, by=analysis.by)
    known = MDP.from_demonstrations(demos) if mdp is None else mdp
    habit = fit_habits(demos, mdp, analysis).chosen
    parts = [HALVES, *range(analysis.folds)]
    tasks = [Task(data, part) for data in range(surrogates + 1) for part in parts]
    key = hashlib.sha256(f"{data_key(demos, mdp, None)} {analysis!r} {__version__}".encode()).hexdigest()[:24]
    rows = remember.spread(
        _run_part,
        tasks,
        (demos, known, mdp, habit, analysis, fanout.side_by_side(jobs)),
        partial(_path, cache, key),
        jobs=jobs,
        on_rows=None if on_part is None else lambda done: on_part(done, len(tasks)),
    )
    return Tested(demos, analysis, habit, dict(zip(tasks, rows, strict=True)))


def sequential(demos: Demonstrations, analysis: Analysis, *, most: int = 19, mdp: MDP | None = None) -> dict[str, Any]:
    """Simulate surrogates until one reaches the gain of the data, at most so many; halves are left out.

    Returns
    -------
    gain of the data, surrogate_gains, reached (0 or 1: whether one of them did), p_value (Besag and Clifford's, which
    is the rank where none did) and seconds
    """
    clock = time.perf_counter()
    known = MDP.from_demonstrations(demos) if mdp is None else mdp
    found = Tested(demos, analysis, fit_habits(demos, mdp, analysis).chosen)

    def gain(data: int) -> float:
        for part in range(analysis.folds):
            task = Task(data, part)
            found.rows[task] = _run_part(task, demos, known, mdp, found.habit, analysis, parallel=False)
        return found.gain(data)

    value, gains = gain(0), list[float]()
    while len(gains) < most and not any(other >= value for other in gains):
        gains.append(gain(len(gains) + 1))
    reached = int(any(other >= value for other in gains))
    p_value = 1 / len(gains) if reached else 1 / (1 + most)
    seconds = time.perf_counter() - clock
    return {"gain": value, "surrogate_gains": gains, "reached": reached, "p_value": p_value, "seconds": seconds}


def _path(cache: Path | None, key: str, task: Task) -> Path | None:
    return None if cache is None else cache / f"{key}-{task.data:04d}-{task.part + 1:02d}.json"


class Habits(NamedTuple):
    """The n-gram, and the one of all habits that validation trajectories prefer."""

    plain: NGram
    chosen: IntentionModel
    name: str


def fit_habits(demos: Demonstrations, mdp: MDP | None, analysis: Analysis) -> Habits:
    """One habit for all trajectories, or several of which each has one: whichever predicts validation trajectories."""
    plain = analysis.habit(demos).fit(demos, mdp)
    train, validation = validation_split(demos, VALIDATION, analysis.seed)
    if validation is None:
        return Habits(plain, plain, "1 habit")
    alone = NGram(length=plain.length_, backoff=plain.backoff_, individuals=plain.individuals, seed=analysis.seed).fit(
        train, mdp
    )
    best = Habits(plain, plain, "1 habit")
    reached = alone.score(validation) + MIXTURE_GAIN
    for name, mixture in analysis.mixtures(demos, plain).items():
        score = max(float(start["score"]) for start in mixture.fit(demos, mdp).starts_)
        if score > reached:
            best, reached = Habits(plain, mixture, name), score
    return best


def surrogate(
    habit: IntentionModel, demos: Demonstrations, mdp: MDP, analysis: Analysis, number: int
) -> Demonstrations:
    """Surrogate ``number`` ≥ 1, or the data themselves for 0."""
    if number == 0:
        return demos
    generator = np.random.default_rng([analysis.seed, number])
    return walk(demos, mdp, generator, lambda them: habit.chooser(demos, them))


def _run_part(
    task: Task,
    demos: Demonstrations,
    known: MDP,
    mdp: MDP | None,
    habit: IntentionModel,
    analysis: Analysis,
    parallel: bool,
) -> dict[str, Any]:
    if parallel:
        limit_threads(1)
    data = surrogate(habit, demos, known, analysis, task.data)
    if task.part == HALVES:
        return {"agreement": _halves(data, mdp, analysis)}
    train, test = (data.subset(part) for part in data.fold_indices(analysis.folds, by=analysis.by)[task.part])
    return _fold(train, test, mdp, analysis, everything=task.data == 0)


def _fold(
    train: Demonstrations, test: Demonstrations, mdp: MDP | None, analysis: Analysis, *, everything: bool
) -> dict[str, Any]:
    """Likelihoods on one test fold, per trajectory where they are the data's own."""
    habits = fit_habits(train, mdp, analysis)
    habit = habits.plain
    chains = {name: chain.fit(train, mdp) for name, chain in analysis.candidates(train, habit).items()}
    validation = {name: max(float(start["score"]) for start in chain.starts_) for name, chain in chains.items()}
    chosen = max(validation, key=lambda name: validation[name])
    row: dict[str, Any] = {
        "n_steps": test.n_steps,
        "habit": habits.chosen.score(test),
        "habits": habits.name,
        "intentions": chains[chosen].score(test),
        "chosen": chosen,
        "validation": validation,
        "tested": {name: chain.score(test) for name, chain in chains.items()},
        "memory": habit.length_,
        "backoff": habit.backoff_,
    }
    if everything:
        budget: dict[str, Any] = {
            "uniform": Uniform().fit(train, mdp),
            "state": Empirical().fit(train, mdp),
            "memory": NGram(seed=analysis.seed).fit(train, mdp),
        }
        budget |= {"individuals": habit} if analysis.individuals(train) else {}
        budget["habit"] = habits.chosen
        budget["intentions"] = chains[chosen]
        row["per_trajectory"] = {name: trajectory_likelihoods(model, test) for name, model in budget.items()}
    return row


def trajectory_likelihoods(model: Any, demos: Demonstrations) -> list[float]:
    """Log-likelihood of every trajectory."""
    return [float(x) for x in np.add.reduceat(model.log_likelihood(demos), demos.offsets[:-1])]


def _halves(demos: Demonstrations, mdp: MDP | None, analysis: Analysis) -> dict[str, float]:
    """Agreement between labellings of all data by chains that were fitted to disjoint halves of it."""
    halves = demos.split(0.5, by=independent(demos), seed=analysis.seed)
    fitted = []
    for half in halves:
        habit = analysis.habit(half).fit(half, mdp)
        chains = analysis.candidates(half, habit)
        fitted.append({_kind(name): chain.fit(half, mdp).predict(demos) for name, chain in chains.items()})
    return {name: ari(labels, fitted[1][name]) for name, labels in fitted[0].items() if name in fitted[1]}


def units(tested: Tested) -> Iterator[tuple[str, FloatArray, FloatArray]]:
    """Rows of the budget: name, log-likelihood and steps of every unit (animal, else trajectory) of all folds."""
    demos, analysis = tested.demos, tested.analysis
    order = np.concatenate([test for _, test in demos.fold_indices(analysis.folds, by=analysis.by)])
    unit = demos.units("group")[order] if independent(demos) == "group" else np.arange(len(order))
    steps = np.bincount(unit, demos.lengths[order])
    rows = [row["per_trajectory"] for row in tested.folds(0)]
    for name in (name for name in rows[0] if all(name in row for row in rows)):
        found = np.bincount(unit, np.concatenate([np.asarray(row[name], np.float64) for row in rows]))
        yield name, found.astype(np.float64), steps.astype(np.float64)
