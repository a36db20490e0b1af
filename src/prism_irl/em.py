"""Expectation–maximisation over a pair (switching, rewards): Algorithm 1 of the paper, for every pair.

    repeat   w ← P(z_t=k | ξ, ψ, Θ)              expectation
             switching ← argmax (or a step)       Eq. (theta_opt), Eq. (loss)
             rewards   ← weighted counts          Eq. (reward_opt), without IAVI: softmax(Q) = π
    until    the likelihood stops rising: that of the training data where both components maximise it exactly, else
             that of validation trajectories

`em_iteration` is all there is: the E-step adds up statistics over parts of the data, the M-step reads nothing else. A
network gives its responsibilities from the very pass that trains it (incremental EM, Neal & Hinton's sense: every
minibatch is an E-step on itself followed by a gradient step); closed-form switching has its E-step and M-step apart.
Statistics of data in memory, in mapped files and on workers add up to the same, because a trajectory's beliefs never
depend on others.

Several starts, the best of them kept by the likelihood that stops them. Closed-form EM has little to overfit, and a
tenth of the data cannot tell good optima apart, so there the training data decides. Networks overfit, and policies with
memory, which back off, do not climb the likelihood of training data alone; there validation trajectories, taken from
the training data, decide (`benchmarks/stopping.py` measures the rules). Randomness of iteration i of start j is derived
from (seed, j, i), so that a resumed fit equals an uninterrupted one.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial, reduce
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from prism_irl import storage
from prism_irl.arrays import FloatArray, IntArray
from prism_irl.data.batching import Parts, Prepared, Stats
from prism_irl.data.demonstrations import some_trajectories
from prism_irl.data.labels import clamped
from prism_irl.data.mapped import is_mapped
from prism_irl.devices import as_array
from prism_irl.errors import InputError
from prism_irl.rewards.base import RewardModel
from prism_irl.switching.base import Posterior, Switching

CHECKPOINT_SECONDS = 2.0
CHECKPOINT_SHARE = 0.1
"""Checkpoints of large models are made less often: they may take a tenth of the time."""
LARGE, PART = 2**20, 2**18
"""Data of more steps are read in parts of so many, where statistics are a few sums."""
SOME = 2**18
"""Steps of large data that are enough for a first guess, and for a regression that is made once."""
Run = Callable[[Callable[[Prepared], "EStep"], Parts], Iterable["EStep"]]
"""What maps a function over the parts of the data: `map`, or one that sends them to workers."""


class EStep(NamedTuple):
    """Sums over the steps of an E-step: statistics of both components, and the log-likelihood."""

    switching: Stats
    rewards: Stats
    log_likelihood: float

    def __add__(self, other: EStep) -> EStep:  # type: ignore[override]
        """Sums over the steps of both."""
        likelihood = self.log_likelihood + other.log_likelihood
        return EStep(self.switching + other.switching, self.rewards + other.rewards, likelihood)


def em_iteration(
    switching: Switching, rewards: RewardModel, parts: Parts, seed: Any = None, run: Run = map, *, learn: bool = True
) -> float:
    """One iteration; returns the log-likelihood per step that it met.

    ``seed`` fixes the order of minibatches of a network, ``run`` maps the E-step over the parts, which workers may do,
    and ``learn`` says whether the rewards are updated, too.
    """
    step = e_step(switching, rewards, parts, seed, run, learn=learn)
    m_step(switching, rewards if learn else None, step)
    return step.log_likelihood / parts.data.n_steps


def e_step(
    switching: Switching,
    rewards: RewardModel,
    parts: Parts,
    seed: Any = None,
    run: Run = map,
    *,
    power: float = 1.0,
    learn: bool = True,
) -> EStep:
    """Eq. (posterior), with emissions to a power, as statistics of all data; a network learns on the way."""
    of_part = partial(_part_statistics, switching, rewards, seed, power, learn)
    # A network goes through minibatches of all data, in an order of its own.
    found = [of_part(parts)] if switching.incremental else run(of_part, parts)
    return reduce(EStep.__add__, found)


def m_step(switching: Switching, rewards: RewardModel | None, step: EStep) -> None:
    """Both M-steps, Theorem 1: independent given the responsibilities. Without rewards they stay."""
    switching.update(step.switching)
    if rewards is not None:
        rewards.update(step.rewards)


def _part_statistics(
    switching: Switching, rewards: RewardModel, seed: Any, power: float, learn: bool, part: Prepared | Parts
) -> EStep:
    """Statistics of a part; by counts alone where both components allow it, equal up to rounding."""
    parts = part if isinstance(part, Parts) else Parts(part)
    if (counted := _counted(switching, rewards, parts.data, power)) is not None:
        return counted
    of_switching, of_rewards, likelihood = Stats(), Stats(), 0.0
    for one, posterior in switching.visit(parts, partial(emissions, switching, rewards, power=power), seed):
        of_switching = of_switching + switching.statistics(one, posterior)
        if learn:
            of_rewards = of_rewards + rewards.statistics(one, posterior.responsibilities)
        likelihood += float(posterior.log_likelihood.sum())
    return EStep(of_switching, of_rewards, likelihood)


def _counted(switching: Switching, rewards: RewardModel, data: Prepared, power: float = 1.0) -> EStep | None:
    table = rewards.action_table(data.n_steps) if data.demos.partial_labels is None else None
    if table is None:
        return None
    found = switching.counted(data, table.policies if power == 1.0 else table.policies**power)
    return None if found is None else EStep(found.switching, table.statistics(found.pairs), found.log_likelihood)


def parts_of(switching: Switching, rewards: RewardModel, data: Prepared) -> Parts:
    """How these data are read: in parts where they are large, and statistics are a few sums; else all at once.

    A network goes from minibatch to minibatch without keeping a belief for mapped data alone: it is slower.
    """
    observations = data.demos.observations
    fits = not switching.incremental or (observations is not None and is_mapped(observations))
    return Parts(data, PART if is_large(rewards, data) and switching.adds_up and fits else None)


def is_large(rewards: RewardModel, data: Prepared) -> bool:
    """Whether beliefs about these data are better not all there at once."""
    return data.n_steps > LARGE and rewards.adds_up


def some_of(rewards: RewardModel, data: Prepared, seed: int) -> Prepared:
    """Data of which no more than `SOME` steps are asked for, where they are large, else all of them."""
    return data.subset(some_trajectories(data.demos, SOME, seed)) if is_large(rewards, data) else data


def expectation(
    switching: Switching, rewards: RewardModel, data: Prepared, *, online: bool = False, partial_labels: bool = True
) -> Posterior:
    """Beliefs about every step, certain where the intention is known, if ``partial_labels`` are read."""
    logs = emissions(switching, rewards, data, partial_labels=partial_labels)
    return switching.expectation(data, logs, online=online)


def emissions(
    switching: Switching, rewards: RewardModel, data: Prepared, *, power: float = 1.0, partial_labels: bool = True
) -> Any:
    """Emissions log π_k(a_t | s_t), (n, K), as the switching model reads them."""
    logs = rewards.log_likelihood(data)
    logs = clamped(logs, data.demos) if partial_labels else logs
    return switching.reads(logs if power == 1.0 else logs * power)


def likelihood(switching: Switching, rewards: RewardModel, data: Prepared) -> float:
    """Mean log-likelihood per step of an E-step of which nothing else is kept."""
    if (counted := _counted(switching, rewards, data)) is not None:
        return counted.log_likelihood / data.n_steps
    parts = Parts(data, PART if is_large(rewards, data) else None)
    found = (expectation(switching, rewards, part).log_likelihood.sum() for part in parts)
    return float(sum(found)) / data.n_steps


def labels(switching: Switching, rewards: RewardModel, data: Prepared) -> IntArray:
    """Likeliest intention of every step, (n,)."""
    parts = Parts(data, PART if is_large(rewards, data) else None)
    return np.concatenate([expectation(switching, rewards, part).responsibilities.argmax(1) for part in parts])


@dataclass(frozen=True)
class Stopping:
    """When EM ends.

    Parameters
    ----------
    max_iterations : int
    patience : int or None
        Iterations without a rise of the monitored likelihood before stopping; None runs all iterations.
    tolerance : float
        Rise in nats per step that counts.
    by : {"validation", "training"}
        Whose likelihood must rise, and is compared between starts: that of the validation trajectories, where there
        are some, or the training objective, likelihood plus log prior.
    """

    max_iterations: int = 180
    patience: int | None = 10
    tolerance: float = 1e-5
    by: Literal["validation", "training"] = "validation"


class Progress(NamedTuple):
    """What a progress bar shows after an iteration."""

    start: int
    n_starts: int
    iteration: int
    max_iterations: int
    train: float
    validation: float | None


OnIteration = Callable[[Progress], None]


@dataclass
class Monitor:
    """Keeps the history of one start, knows its best iteration, and warns when an exact EM falls.

    ``rows`` holds per iteration: iteration, objective (train plus log prior, per step), train and validation
    log-likelihood per step, seconds since the start began. Both are those of the parameters as the iteration leaves
    them; but train of incremental EM is what the pass of the iteration met, each minibatch before its own gradient
    step, so that it trails by up to one iteration.
    """

    stopping: Stopping
    exact: bool = False
    rows: list[dict[str, float]] = field(default_factory=list)
    best: int = -1

    def record(self, *, objective: float, train: float, seconds: float, validation: float | None = None) -> bool:
        """Append the row of the next iteration, monitored by what `Stopping.by` names; return whether it is the best.

        Without ``validation`` the objective is monitored.
        """
        row = {"iteration": float(len(self.rows)), "objective": objective, "train": train}
        if validation is not None:
            row["validation"] = validation
        by_training = validation is None or self.stopping.by == "training"
        row |= {"monitored": objective if by_training else row["validation"], "seconds": seconds}
        if self.exact and self.rows:
            fall = self.rows[-1]["objective"] - objective
            if fall > 1e-7 * max(1.0, abs(objective)):
                warnings.warn(
                    f"The objective fell by {fall:.2e} nats per step in iteration {row['iteration']:.0f}; an exact EM "
                    "never falls, so the data or the model is ill-conditioned.",
                    RuntimeWarning,
                    stacklevel=3,
                )
        self.rows.append(row)
        improved = self.best < 0 or row["monitored"] > self.rows[self.best]["monitored"] + self.stopping.tolerance
        if improved:
            self.best = len(self.rows) - 1
        return improved

    @property
    def converged(self) -> bool:
        """No rise for ``patience`` iterations."""
        patience = self.stopping.patience
        return patience is not None and len(self.rows) - 1 - self.best >= patience

    @property
    def finished(self) -> bool:
        """Converged, or out of iterations."""
        return self.converged or len(self.rows) > self.stopping.max_iterations


@dataclass
class Start:
    """One run of EM: its pair, its history, and the parameters of its best iteration.

    ``fingerprint`` stands for everything that the run depends on; only a checkpoint with the same one is resumed. With
    ``fixed_rewards`` the policies stay as they are, and EM goes on with the switching alone.
    """

    index: int
    switching: Switching
    rewards: RewardModel
    monitor: Monitor
    snapshot: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
    seconds: float = 0.0
    fingerprint: str = ""
    fixed_rewards: bool = False

    @property
    def score(self) -> float:
        """What starts are compared by, per step: the likelihood that also stops them, see `Stopping.by`."""
        return self.monitor.rows[self.monitor.best]["monitored"]

    def chosen_by_validation(self, n_starts: int) -> list[str]:
        """What validation trajectories decided of this run, one of ``n_starts``; nothing where training decided."""
        if self.monitor.stopping.by == "training" or "validation" not in self.monitor.rows[0]:
            return []
        return ["start", "stopping point"] if n_starts > 1 else ["stopping point"]

    def parameters(self) -> dict[str, npt.NDArray[Any]]:
        """Parameters as they are now, copied."""
        switching = storage.prefixed("switching", self.switching.state())
        found = switching | storage.prefixed("rewards", self.rewards.state())
        return {name: np.array(value) for name, value in found.items()}

    def restore(self, parameters: dict[str, Any]) -> None:
        """Set the parameters, from arrays or tensors."""
        arrays = {name: as_array(value) for name, value in parameters.items()}
        self.switching.load_state(storage.part("switching", arrays))
        self.rewards.load_state(storage.part("rewards", arrays))


def fit_start(
    start: Start,
    train: Prepared,
    validation: Prepared | None,
    *,
    seed: int,
    n_starts: int = 1,
    checkpoint: Path | None = None,
    on_iteration: OnIteration | None = None,
    run: Run = map,
) -> None:
    """Run EM on one start until it is finished, and leave it at its best iteration; ``run`` as in `em_iteration`."""
    clock = saved = time.perf_counter()
    before, pause, n = start.seconds, CHECKPOINT_SECONDS, train.n_steps
    parts, rewards = parts_of(start.switching, start.rewards, train), None if start.fixed_rewards else start.rewards
    ahead = None if start.switching.incremental else e_step(start.switching, start.rewards, parts, run=run)
    if not start.monitor.rows:  # a resumed start has recorded its present parameters already
        reached = likelihood(start.switching, start.rewards, train) if ahead is None else ahead.log_likelihood / n
        _record(start, train, validation, reached)
    while not start.monitor.finished:
        if ahead is None:
            seed_of = (seed, start.index, len(start.monitor.rows))
            reached = em_iteration(start.switching, start.rewards, parts, seed_of, learn=rewards is not None)
        else:  # an iteration whose E-step has been made: its likelihood is that of the parameters that it left
            m_step(start.switching, rewards, ahead)
            ahead = e_step(start.switching, start.rewards, parts, run=run)
            reached = ahead.log_likelihood / n
        start.seconds = before + time.perf_counter() - clock
        _record(start, train, validation, reached)
        if on_iteration is not None:
            *_, row = rows = start.monitor.rows
            limit = start.monitor.stopping.max_iterations
            on_iteration(Progress(start.index, n_starts, len(rows) - 1, limit, row["train"], row.get("validation")))
        now = time.perf_counter()
        if checkpoint is not None and now - saved > pause:
            save_start(start, checkpoint)
            saved = time.perf_counter()
            pause = CHECKPOINT_SECONDS * max(1.0, (saved - now) / (CHECKPOINT_SHARE * CHECKPOINT_SECONDS))
    start.restore(start.snapshot)


def short_run(
    switching: Switching,
    rewards: RewardModel | None,
    train: Prepared,
    iterations: int,
    *,
    powers: FloatArray | None = None,
    emission: FloatArray | None = None,
    after: Callable[[int], None] | None = None,
) -> float:
    """Some EM iterations of a closed-form chain, without monitor or stopping: every warm-up, trial and search.

    Returns the likelihood per step of the last E-step: of the parameters that the last iteration began with. Without
    ``rewards`` to refit the ``emission`` (n, K) is fixed; emissions enter to ``powers`` (iterations,), of deterministic
    annealing; ``after`` is called with the number of every iteration when it is done.
    """
    found = -math.inf
    for iteration in range(iterations):
        power = 1.0 if powers is None else float(powers[iteration])
        if rewards is not None:
            step = e_step(switching, rewards, parts_of(switching, rewards, train), power=power)
            m_step(switching, rewards, step)
            found = step.log_likelihood / train.n_steps
        else:
            assert emission is not None
            fixed = switching.reads(emission if power == 1.0 else emission * power)
            posterior = switching.expectation(train, fixed, online=False)
            switching.update(switching.statistics(train, posterior))
            found = float(posterior.log_likelihood.mean())
        if after is not None:
            after(iteration)
    return found


def _record(start: Start, train: Prepared, validation: Prepared | None, reached: float) -> None:
    """Tell the monitor about this iteration, and keep a copy of the parameters when they are the best so far."""
    objective = reached + start.rewards.log_prior() / train.n_steps
    held_out = None if validation is None else likelihood(start.switching, start.rewards, validation)
    if start.monitor.record(objective=objective, train=reached, validation=held_out, seconds=start.seconds):
        start.snapshot = start.parameters()


# -- checkpoints -------------------------------------------------------------------------------------------------------


def save_start(start: Start, path: Path) -> None:
    """Write everything that an identical continuation needs."""
    tensors = {
        **storage.prefixed("now", start.parameters()),
        **storage.prefixed("training", start.switching.training_state()),
        **storage.prefixed("best", start.snapshot),
    }
    monitor = {"rows": start.monitor.rows, "best": start.monitor.best}
    storage.save_tensors(path, tensors, monitor | {"seconds": start.seconds, "fingerprint": start.fingerprint})


def load_start(start: Start, path: Path) -> bool:
    """Continue from a checkpoint; the pair must be built as it was. Returns whether the start had finished."""
    tensors, header = storage.load_tensors(path)
    if header.get("fingerprint") != start.fingerprint:
        raise InputError(f"The checkpoint {path} was begun with other data or options; begin again without resuming.")
    try:
        # The best parameters first: they are restored at the end, when it is too late to complain.
        for parameters in (storage.part("best", tensors), storage.part("now", tensors)):
            start.restore(parameters)
            start.switching.check_loaded()
        start.switching.load_training_state(storage.part("training", tensors))
        start.snapshot = storage.part("best", tensors)
        # JSON has no −inf, the likelihood of data with an impossible action
        rows = [
            {str(name): -math.inf if value is None else float(value) for name, value in row.items()}
            for row in header["rows"]
        ]
        start.monitor.rows, start.monitor.best = rows, int(header["best"])
        start.seconds = float(header["seconds"])
        whole = all({"monitored", "objective", "train"} <= row.keys() for row in rows)
        if not (whole and 0 <= start.monitor.best < len(rows)):
            raise ValueError("its history is not whole")
    except (RuntimeError, KeyError, ValueError, TypeError, AttributeError) as error:
        raise InputError(f"The checkpoint {path} does not fit this model; start again with --overwrite.") from error
    if start.monitor.finished:
        start.restore(start.snapshot)
        return True
    return False
