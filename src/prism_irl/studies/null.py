"""The null that intentions are tested against: a habit without any, and the same analysis on what it simulates.

A habit is fitted to the data: a back-off n-gram, with accents where the animals are known, or several of them of which
every trajectory has one, where validation trajectories prefer that (a change that is slower than a trajectory, an
animal that nobody named, is no change of mind). Surrogates are simulated from it, with the same starts, lengths, valid
actions and dynamics, and analysed exactly as the data are. Per data set:

- gain: cross-validated log-likelihood per step of a chain of intentions minus that of a habit, of one habit or of
  several, whichever predicts the test folds better; which chain (how many intentions, Markov or switching by the
  state, with or without the memory of the habit) is chosen on validation trajectories in every fold
- agreement: adjusted Rand index between labellings from disjoint halves (of the animals, where there are several)
- alignment: what the intention of a step says about an event (deliveries of water, say), in nats per step; surrogates
  have events as often at every state and action as the data

and p = (1 + number of surrogates that reach the data) / (1 + number of surrogates). Agreement of fits to the *same*
data measures the search; dwell, enrichment and named goals measure the maze: a habit has them all.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prism_irl import __version__, limits
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.devices import limit_threads
from prism_irl.errors import InputError
from prism_irl.evaluation.alignment import information
from prism_irl.evaluation.simulate import walk
from prism_irl.labels import ari
from prism_irl.mdp import MDP
from prism_irl.models.base import IntentionModel
from prism_irl.models.references import Empirical, NGram, Uniform
from prism_irl.models.splits import validation_split
from prism_irl.scale import fanout, remember
from prism_irl.studies.analysis import VALIDATION, Analysis, independent
from prism_irl.studies.cross_validation import data_key
from prism_irl.studies.tested import HALVES, Task, Tested, chain_kind

MIXTURE_GAIN = 1e-3
"""Nats per step on validation trajectories that several habits must gain over one."""
OnPart = Callable[[int, int], None]
Events = Mapping[str, npt.NDArray[np.bool_]]


def run(
    demos: Demonstrations,
    analysis: Analysis,
    *,
    surrogates: int = 19,
    mdp: MDP | None = None,
    jobs: int = 1,
    cache: Path | None = None,
    events: Events | None = None,
    on_part: OnPart | None = None,
) -> Tested:
    """Analyse the data and its surrogates, all parts side by side.

    Parameters
    ----------
    surrogates : B; with 19, p = 0.05 is what a data set that beats them all can reach
    mdp : dynamics that surrogates walk on; counted from the data when absent
    jobs : parts at the same time on this machine; on a cluster inside `scale.fanout.cluster`
    cache : folder that remembers finished parts, by data and settings
    events : name → (n,) bool, what happened at the steps; the alignment of intentions with it is tested, too
    on_part : called with how many parts are done, and how many there are
    """
    if surrogates < 1:
        raise InputError("Give at least one surrogate; 19 allow for p = 0.05, 99 for p = 0.01.")
    limits.check_option("surrogates", surrogates)
    demos.fold_indices(analysis.folds, by=analysis.by)
    known = MDP.from_demonstrations(demos) if mdp is None else mdp
    habit = fit_habits(demos, mdp, analysis).chosen
    parts = [HALVES, *range(analysis.folds)]
    tasks = [Task(data, part) for data in range(surrogates + 1) for part in parts]
    key = hashlib.sha256(f"{data_key(demos, mdp, None)} {analysis!r} {__version__}".encode()).hexdigest()[:24]
    rows = remember.spread(
        _run_part,
        tasks,
        (demos, known, mdp, habit, analysis, fanout.side_by_side(jobs), events),
        partial(_path, cache, key, _events_key(events)),
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


def _path(cache: Path | None, key: str, events: str, task: Task) -> Path | None:
    told = events if task.part == HALVES else ""  # folds know nothing of events
    return None if cache is None else cache / f"{key}{told}-{task.data:04d}-{task.part + 1:02d}.json"


def _events_key(events: Events | None) -> str:
    if not events:
        return ""
    total = hashlib.sha256()
    for name, happened in events.items():
        total.update(name.encode() + np.packbits(happened).tobytes())
    return f"-{total.hexdigest()[:12]}"


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


def _run_part(
    task: Task,
    demos: Demonstrations,
    known: MDP,
    mdp: MDP | None,
    habit: IntentionModel,
    analysis: Analysis,
    parallel: bool,
    events: Events | None = None,
) -> dict[str, Any]:
    if parallel:
        limit_threads(1)
    data = surrogate(habit, demos, known, analysis, task.data)
    if task.part == HALVES:
        happened = {} if events is None else dict(events)
        if task.data and happened:
            happened = surrogate_events(happened, demos, data, np.random.default_rng([analysis.seed, task.data, 1]))
        return _halves(data, mdp, analysis, happened)
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
        "plain": habit.score(test),
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
        budget["plain"] = habit
        budget["habit"] = habits.chosen
        budget["intentions"] = chains[chosen]
        row["per_trajectory"] = {name: trajectory_likelihoods(model, test) for name, model in budget.items()}
    return row


def trajectory_likelihoods(model: Any, demos: Demonstrations) -> list[float]:
    """Log-likelihood of every trajectory."""
    return [float(x) for x in np.add.reduceat(model.log_likelihood(demos), demos.offsets[:-1])]


def _halves(demos: Demonstrations, mdp: MDP | None, analysis: Analysis, events: Events) -> dict[str, Any]:
    """Agreement between labellings of all data by chains fitted to disjoint halves, and their alignment with events."""
    halves = demos.split(0.5, by=independent(demos), seed=analysis.seed)
    fitted = []
    for half in halves:
        habit = analysis.habit(half).fit(half, mdp)
        chains = analysis.candidates(half, habit)
        fitted.append({chain_kind(name): chain.fit(half, mdp).predict(demos) for name, chain in chains.items()})
    both = {name: (labels, fitted[1][name]) for name, labels in fitted[0].items() if name in fitted[1]}
    alignment = {
        event: {name: float(np.mean([information(z, happened) for z in pair])) for name, pair in both.items()}
        for event, happened in events.items()
    }
    return {"agreement": {name: ari(*pair) for name, pair in both.items()}, "alignment": alignment}
