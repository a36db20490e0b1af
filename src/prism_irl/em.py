"""Expectation–maximisation over a pair (switching, rewards): Algorithm 1 of the paper, for every pair.

    repeat   w ← P(z_t=k | ξ, ψ, Θ)              expectation
             switching ← argmax (or a step)       Eq. (theta_opt), Eq. (loss)
             rewards   ← weighted counts          Eq. (reward_opt), without IAVI: softmax(Q) = π
    until    the likelihood stops rising: that of the training data where both halves maximise it exactly, else that of
             validation trajectories

A network gives its responsibilities from the very pass that trains it (incremental EM, Neal & Hinton's sense: every
minibatch is an E-step on itself followed by a gradient step), which saves the forward pass over all data that a
separate E-step costs; closed-form switching has its E-step and M-step apart.

Several starts, the best of them kept by the likelihood that stops them. Closed-form EM has little to overfit and much
to lose by stopping early, and a tenth of the data cannot tell good optima apart, so there the training data decides and
validation trajectories choose nothing. Networks overfit, and policies with memory, which back off, do not climb the
likelihood of training data alone; there validation trajectories, taken from the training data, decide
(`benchmarks/stopping.py` measures the rules).
Randomness of iteration i of start j is derived from (seed, j, i), so that a resumed fit equals an uninterrupted one.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from prism_irl import storage
from prism_irl.data.batching import Prepared
from prism_irl.devices import as_array
from prism_irl.errors import InputError
from prism_irl.expectation import (
    EStep,
    e_step,
    emissions,
    expectation,
    improve_in_parts,
    is_in_minibatches,
    labels,
    likelihood,
    m_step,
    some_of,
)
from prism_irl.rewards.base import RewardModel
from prism_irl.switching.base import Switching

__all__ = ["EStep", "e_step", "expectation", "labels", "likelihood", "m_step", "some_of"]

CHECKPOINT_SECONDS = 2.0
CHECKPOINT_SHARE = 0.1
"""Checkpoints of large models are made less often: they may take a tenth of the time."""


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
    log-likelihood per step, seconds since the start began. Validation is always that of the parameters as the iteration
    leaves them. So is train for closed-form switching, and in row 0; for incremental EM it is what the pass of the
    iteration met, each minibatch before its own gradient step and with the policies of the iteration before, so that it
    trails by up to one iteration.
    """

    stopping: Stopping
    exact: bool = False
    rows: list[dict[str, float]] = field(default_factory=list)
    best: int = -1

    def record(self, **row: float) -> bool:
        """Append a row; return whether it is the best so far."""
        if self.exact and self.rows:
            fall = self.rows[-1]["objective"] - row["objective"]
            if fall > 1e-7 * max(1.0, abs(row["objective"])):
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

    def record_iteration(
        self, *, objective: float, train: float, seconds: float, validation: float | None = None
    ) -> bool:
        """Append the row of the next iteration, monitored by what `Stopping.by` names."""
        row = {"iteration": float(len(self.rows)), "objective": objective, "train": train}
        if validation is not None:
            row["validation"] = validation
        by_training = validation is None or self.stopping.by == "training"
        return self.record(**row, monitored=objective if by_training else row["validation"], seconds=seconds)

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
        halves = {"switching": self.switching.state(), "rewards": self.rewards.state()}
        return {
            name: np.array(value)
            for half, state in halves.items()
            for name, value in storage.prefixed(half, state).items()
        }

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
) -> None:
    """Run EM on one start until it is finished, and leave it at its best iteration."""
    clock = saved = time.perf_counter()
    before, pause = start.seconds, CHECKPOINT_SECONDS
    incremental = start.switching.incremental
    step = None if incremental else e_step(start.switching, start.rewards, train)
    if not start.monitor.rows:  # a resumed start has recorded its present parameters already
        reached = likelihood(start.switching, start.rewards, train) if step is None else step.log_likelihood
        _record(start, train, validation, reached)
    while not start.monitor.finished:
        randomness = (seed, start.index, len(start.monitor.rows))
        if step is None:
            reached = improve(start, train, randomness)
        else:
            m_step(start.switching, None if start.fixed_rewards else start.rewards, train, step, randomness)
            step = e_step(start.switching, start.rewards, train)
            reached = step.log_likelihood
        start.seconds = before + time.perf_counter() - clock
        _record(start, train, validation, reached)
        if on_iteration is not None:
            row, limit = start.monitor.rows[-1], start.monitor.stopping.max_iterations
            on_iteration(
                Progress(start.index, n_starts, len(start.monitor.rows) - 1, limit, row["train"], row.get("validation"))
            )
        now = time.perf_counter()
        if checkpoint is not None and now - saved > pause:
            save_start(start, checkpoint)
            saved = time.perf_counter()
            pause = CHECKPOINT_SECONDS * max(1.0, (saved - now) / (CHECKPOINT_SHARE * CHECKPOINT_SECONDS))
    start.restore(start.snapshot)


def improve(start: Start, train: Prepared, seed: Any) -> float:
    """One iteration of incremental EM: a pass of the switching model, then policies from what it saw.

    Returns the likelihood per step that the pass met.
    """
    if is_in_minibatches(start.switching, start.rewards, train):
        return improve_in_parts(start.switching, start.rewards, train, seed, learn=not start.fixed_rewards)
    seen = start.switching.improve(train, emissions(start.switching, start.rewards, train), seed)
    if not start.fixed_rewards:
        start.rewards.maximise(train, seen.responsibilities)
    return float(seen.log_likelihood.mean())


def short_run(
    switching: Switching,
    rewards: RewardModel | None,
    train: Prepared,
    iterations: int,
    *,
    powers: npt.NDArray[np.float64] | None = None,
    emission: npt.NDArray[np.float64] | None = None,
    after: Callable[[int], None] | None = None,
) -> float:
    """Some EM iterations of a closed-form chain, without monitor or stopping: every warm-up, trial and search.

    Parameters
    ----------
    rewards : policies to refit, or None with a fixed ``emission`` (n, K)
    powers : (iterations,), optional
        The emissions enter to these powers (deterministic annealing).
    after : callable, optional
        Called with the number of every iteration when it is done.

    Returns
    -------
    Likelihood per step of the last E-step: of the parameters that the last iteration began with.
    """
    step = EStep(-math.inf)
    for iteration in range(iterations):
        power = 1.0 if powers is None else float(powers[iteration])
        if rewards is not None:
            step = e_step(switching, rewards, train, power)
        else:
            assert emission is not None
            fixed = switching.reads(emission if power == 1.0 else emission * power)
            posterior = switching.expectation(train, fixed, online=False)
            step = EStep(float(posterior.log_likelihood.mean()), None, fixed, posterior)
        m_step(switching, rewards, train, step)
        if after is not None:
            after(iteration)
    return step.log_likelihood


def _record(start: Start, train: Prepared, validation: Prepared | None, reached: float) -> None:
    """Tell the monitor about this iteration, and keep a copy of the parameters when they are the best so far."""
    objective = reached + start.rewards.log_prior() / train.n_steps
    held_out = None if validation is None else likelihood(start.switching, start.rewards, validation)
    if start.monitor.record_iteration(objective=objective, train=reached, validation=held_out, seconds=start.seconds):
        start.snapshot = start.parameters()


# -- checkpoints -------------------------------------------------------------------------------------------------------


def save_start(start: Start, path: Path) -> None:
    """Write everything that an identical continuation needs."""
    tensors = {
        **storage.prefixed("now", start.parameters()),
        **storage.prefixed("training", start.switching.training_state()),
        **storage.prefixed("best", start.snapshot),
    }
    header = {
        "rows": start.monitor.rows,
        "best": start.monitor.best,
        "seconds": start.seconds,
        "fingerprint": start.fingerprint,
    }
    storage.save_tensors(path, tensors, header)


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
        if not (
            0 <= start.monitor.best < len(rows) and all({"monitored", "objective", "train"} <= set(r) for r in rows)
        ):
            raise ValueError("its history is not whole")
    except (RuntimeError, KeyError, ValueError, TypeError, AttributeError) as error:
        raise InputError(f"The checkpoint {path} does not fit this model; start again with --overwrite.") from error
    if start.monitor.finished:
        start.restore(start.snapshot)
        return True
    return False
