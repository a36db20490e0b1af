"""Phases of demonstrations: stages of a task, found from where an arm is, how it moves and what its gripper does.

    x_t | z_t = k   places and movements: normal, diagonal covariance; two-valued columns: Bernoulli (`data.continuous`)
    d | k           lengths as shares of the episode: normal, mean and spread learned
    z               every phase once and in order; where episodes do not run alike, any order (`order`)

Neighbouring steps repeat one another and the columns of an arm repeat one another, so that a likelihood which takes
each for new evidence cuts wherever a sensor's quantum says. Evidence is tempered: all steps of an episode together
count as a handful of independent observations (`WEIGHTS`), divided by the root of the effective dimension of their
block. A border is likelier where the arm pauses and where a gripper opens or closes. A two-valued column that changes
at another time, or another number of times, in every episode is not read; one that opens and closes alike in all of
them, while more phases than its states are asked for, marks phases by itself and counts most (`MARKED`). Where nothing
speaks, phases last equally long. Fitted by EM over whole segments (`switching.segmental`) from equal parts, or where
any order is possible, from k-means. What predicts is causal: filtered beliefs that do not know how long an episode will
be, and a linear-Gaussian policy of commands per phase.

Order, number, and what learns from labels are chosen in `models.phase_choices`.

Choose it for demonstrations of a task; for animals and play, a chain.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from prism_irl.arrays import FloatArray, IntArray
from prism_irl.data.continuous import (
    CONSTANT,
    DIFFERENCE,
    PLACE,
    TWO_VALUED,
    Moved,
    Movement,
    column_names,
    signals,
)
from prism_irl.data.demonstrations import Demonstrations, some_trajectories
from prism_irl.data.labels import FAR, check_known
from prism_irl.data.mapped import chunks
from prism_irl.errors import InputError
from prism_irl.mdp import MDP
from prism_irl.models import phase_choices
from prism_irl.models.base import IntentionModel
from prism_irl.switching import segmental

Order = Literal["auto", "once", "cycle", "free"]
CLASSIFIED = 3_000
"""Labelled steps that a classifier learns from, about, at most."""
SAMPLE = 150_000
"""Steps that EM sees of larger data."""
PART = 2**16
"""Steps that are labelled at a time."""
BINS = 128
"""Bins of an episode at most: borders lie on them."""
WEIGHTS = {"place": 6.0, "motion": 30.0, "switch": 10.0}
MARKED = {"place": 2.0, "motion": 3.0, "switch": 300.0}
"""Independent observations that an episode counts as, per block, where phases have an order: usually, and where a
gripper marks phases."""
PAUSE, TOGGLE = 3.0, 4.0
"""Nats that a border gains per unit of slowness (minus log relative speed), and where a two-valued column changes."""
STEADY, NEAR = 0.5, 0.01
"""Spread of the times at which a two-valued column changes, as a share of that of random times, from which on it is not
read; and how far from such a change a border is near, as a share of the episode."""
FREE_POWER, FREE_PLACE = 0.1, 0.7
"""Power of a step's evidence where phases come in any order, and the scale of places beside movements."""
FLOOR, FREE_FLOOR, POOLED = 0.1, 0.3, 0.7
"""Least variance, in order and in any order, and the share of it that all phases have in common in any order."""
LEAST_SPREAD = 0.05
"""Spread of the length of a phase, as a share of its episode, at least."""


class Shape(NamedTuple):
    """What tells phases apart, (K, …): means and variances of places and movements, probabilities of two values."""

    place: FloatArray
    place_variance: FloatArray
    motion: FloatArray
    motion_variance: FloatArray
    switch: FloatArray


class Found(NamedTuple):
    """What EM finds: `Shape`, and ``lengths`` (K, 2), ``moves`` (K, K) and ``first`` (K,) as in `Phases`."""

    shape: Shape
    lengths: FloatArray
    moves: FloatArray
    first: FloatArray


@dataclass(eq=False, repr=False, kw_only=True)
class Phases(IntentionModel):
    """Phases of demonstrations, in order.

    Parameters
    ----------
    n_intentions : int
        Number of phases K; 0 finds one, which then stands here: the one on which fits to halves of the episodes agree
        best (``tried_``: on which share of the steps), a usual one if in doubt. It is rough.
    order : {"auto", "once", "cycle", "free"}
        Every phase once and in order; in order and from the last to the first again; or any order. "auto" is once where
        labels or the movement show an order (`phase_choices.IN_ORDER`), and any order elsewhere.
    n_starts : int
        Runs of k-means where any order is possible; stages in order begin from equal parts, which is one start.
    max_iterations : int
    seed : int

    Attributes
    ----------
    order_, default_ : what "auto" chose, and why; in_order_ : by which numbers (`phase_choices.order_shown`)
    dropped_ : names of the columns that never change; switches_ : of those that have two values
    read_ : (b,), 1 for two-valued columns that change alike in all episodes and are read
    evidence_ : (5,), weights of places, movements and two-valued columns per step, of pauses and changes at borders
    lengths_ : (K, 2), mean and spread of the length of each phase as a share of its episode
    moves_, first_ : (K, K) and (K,), probabilities of the phase after a phase, and at the beginning
    stages_ : (K,), phases in the order in which they come: that of their number, unless labels show another
    chosen_, choice_ : what learned from labels, and all candidates with the ``label_accuracy`` of episodes left out
    """

    n_intentions: int = 0
    order: Order = "auto"
    n_starts: int = 4
    max_iterations: int = 25
    seed: int = 0

    looks_ahead: ClassVar[bool] = True
    is_density: ClassVar[bool] = True

    # -- fitting -------------------------------------------------------------------------------------------------------

    def fit(self, demos: Demonstrations, mdp: MDP | None = None) -> Self:
        """Find the phases of continuous demonstrations; dynamics are not read."""
        if self.n_intentions < 0:
            raise InputError(f"There are {self.n_intentions} phases to find; ask for one at least.")
        self.tried_: list[float] = []
        order: phase_choices.Ordering | None = None
        if self.n_intentions == 0:
            known = phase_choices.known_steps(demos)
            self.intentions_found_ = bool((known < 0).all())
            self.n_intentions = int(known.max()) + 1
            if self.intentions_found_:
                self.n_intentions, order = phase_choices.number(self, demos)
        K = self.n_intentions
        check_known(demos, K)
        kept = some_trajectories(demos, SAMPLE, self.seed)
        self.n_states_, self.n_actions_ = demos.n_states, demos.n_actions
        movement = Movement.fit(demos, kept)
        self._keep_movement(movement, demos)
        part = demos.subset(kept) if len(kept) < len(demos) else demos
        moved = movement(part)
        self._set_columns(part)
        self.chosen_: dict[str, Any] = {}
        self.choice_: list[dict[str, Any]] = []
        order = phase_choices.ordering(self, part) if order is None else order._replace(stages=np.arange(K))
        self.stages_, self.order_, why, self.in_order_ = order
        self.default_ = None if why is None else {"why": why}
        self._set_evidence(moved, part.offsets)
        known = phase_choices.known_steps(part)
        if len(np.unique(known[known >= 0])) == K:
            phase_choices.learn_by_choice(self, part)
        else:
            self._learn(part, moved, known)
        self._fit_commands(part, moved)
        return self

    def _learn(
        self, demos: Demonstrations, moved: Moved, known: IntArray, candidate: Mapping[str, Any] | None = None
    ) -> None:
        """Find what tells phases apart: from known steps alone, or with those that nobody knows, by EM."""
        offsets, K = demos.offsets, self.n_intentions
        self.classifier_, self.window_, self.columns_ = np.zeros((0, K)), 0, "movement"
        for name in ("monitor_", "starts_", "converged_", "n_iterations_"):  # of EM, which not every candidate needs
            vars(self).pop(name, None)
        labels = None
        if candidate is not None:
            paths = phase_choices.whole_paths(demos, known)
            moves, first = segmental.moved(paths, K)
            ends = np.cumsum([0, *(len(path) for path in paths)])
            lengths = _equal_lengths(K)
            if paths:
                lengths = segmental.run_lengths(np.concatenate(paths), ends, K)
            if self.order_ == "once":
                lengths[:, 1] = np.maximum(lengths[:, 1], LEAST_SPREAD)
            shape = self._shape(moved, np.where((known >= 0)[:, None], np.eye(K)[known], 0.0))
            self._keep(Found(shape, lengths, moves, first))
            if candidate["learner"] == "windows":
                self._classify(demos, moved, known, candidate)
            if candidate["learner"] != "densities and unlabelled steps":
                return
            labels = self._beliefs(demos, moved, _clamp(known, K)).argmax(1)
        self._search(moved, offsets, _clamp(known, K), labels)

    def _classify(self, demos: Demonstrations, moved: Moved, known: IntArray, candidate: Mapping[str, Any]) -> None:
        """Logistic regression of known phases on windows."""
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression

        self.window_, self.columns_ = int(candidate["window"]), str(candidate["columns"])
        steps = np.flatnonzero(known >= 0)
        steps = steps[:: 1 + len(steps) // CLASSIFIED]
        x = _windows(self._seen(demos, moved), demos.offsets, self.window_, steps)
        weights = np.zeros((x.shape[1] + 1, self.n_intentions))
        shown = np.unique(known[steps])
        weights[-1] = -FAR  # of a phase that nobody showed
        weights[-1, shown] = 0.0
        if len(shown) > 1:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # labelled episodes left out say how good it is
                found = LogisticRegression(max_iter=200).fit(x, known[steps])
            own = shown if len(shown) > 2 else shown[1:]
            weights[:, own] = np.column_stack([found.coef_, found.intercept_]).T
        self.classifier_ = weights

    def _seen(self, demos: Demonstrations, moved: Moved) -> FloatArray:
        """What windows are of, (n, r)."""
        if self.columns_ == "movement":
            return np.concatenate([moved.place, moved.motion, moved.switch], axis=1)
        mean = np.concatenate([self.seen_mean_, self.done_mean_])
        spread = np.concatenate([self.seen_spread_, self.done_spread_])
        return np.asarray(np.clip((signals(demos)[0] - mean) / spread, -10, 10))

    def _beliefs(self, demos: Demonstrations, moved: Moved, clamp: FloatArray | float = 0.0) -> FloatArray:
        """P(z_t = k | the whole episode), (n, K): of what learned from labels, or else by densities."""
        if not len(self.classifier_):
            return self._infer(self._log_evidence(moved) + clamp, moved, demos.offsets)[0]
        seen, logs = self._seen(demos, moved), np.empty((demos.n_steps, self.n_intentions))
        for rows in chunks(demos.n_steps, 2**12):
            x = _windows(seen, demos.offsets, self.window_, np.arange(demos.n_steps)[rows])
            logs[rows] = x @ self.classifier_[:-1] + self.classifier_[-1]
        logs -= np.logaddexp.reduce(logs, axis=1)[:, None]
        return self._infer(logs + clamp, moved, demos.offsets)[0]

    def _search(self, moved: Moved, offsets: IntArray, clamp: FloatArray | float, labels: IntArray | None) -> None:
        """EM from labels, from equal parts or from k-means; the best run stays."""
        if labels is not None:
            starts = [labels]
        elif self.order_ == "once":
            moment = np.concatenate([(np.arange(n) + 0.5) / n for n in np.diff(offsets)])
            starts = [self.stages_[np.minimum((moment * self.n_intentions).astype(np.int64), self.n_intentions - 1)]]
        else:
            starts = [self._clusters(moved, self.seed + i) for i in range(max(self.n_starts, 1))]
        self.monitor_: list[dict[str, float]] = []
        self.starts_: list[dict[str, Any]] = []
        runs = [self._run(moved, offsets, labels, clamp) for labels in starts]
        best = max(range(len(runs)), key=lambda i: runs[i][1])
        self.starts_[best]["best"] = True
        self.converged_, self.n_iterations_ = self.starts_[best]["converged"], self.starts_[best]["iterations"]
        self._keep(runs[best][0])

    def _run(self, moved: Moved, offsets: IntArray, labels: IntArray, clamp: FloatArray | float) -> tuple[Found, float]:
        """EM from labels: what it found, and the likelihood that compares starts."""
        K, ordered, began = self.n_intentions, self.order_ == "once", time.perf_counter()
        beliefs = np.eye(K)[labels]
        lengths = _equal_lengths(K) if ordered else segmental.run_lengths(labels, offsets, K)
        moves, first = segmental.moved([labels[a:b] for a, b in pairwise(offsets)], K)
        start, before = float(len(self.starts_)), -np.inf
        for iteration in range(self.max_iterations):
            found = Found(self._shape(moved, beliefs), lengths, moves, first)
            self._keep(found)
            beliefs, score = self._infer(self._log_evidence(moved) + clamp, moved, offsets, hard=self.order_ == "free")
            likelihood = dict.fromkeys(("objective", "train", "monitored"), score)
            self.monitor_.append({"start": start, "iteration": float(iteration), **likelihood})
            if ordered:
                lengths = _share_lengths(beliefs, offsets)
            else:
                labels = beliefs.argmax(1)
                lengths = segmental.run_lengths(labels, offsets, K)
                moves, first = segmental.moved([labels[a:b] for a, b in pairwise(offsets)], K)
            if iteration > 1 and score < before + 1e-5:
                break
            before = score
        converged = iteration + 1 < self.max_iterations
        row = {"score": score, "iterations": iteration, "converged": converged, "best": False}
        self.starts_.append({**row, "seconds": time.perf_counter() - began})
        return Found(found.shape, lengths, moves, first), score

    def _keep(self, found: Found) -> None:
        self._keep_shape(found.shape)
        self.lengths_, self.moves_, self.first_ = found.lengths, found.moves, found.first

    def _keep_shape(self, shape: Shape) -> None:
        self.place_, self.place_variance_ = shape.place, shape.place_variance
        self.motion_, self.motion_variance_ = shape.motion, shape.motion_variance
        self.switch_ = shape.switch

    def _learn_beliefs(self, demos: Demonstrations, moved: Moved, known: IntArray) -> None:
        """Make densities those of the beliefs of whatever learned from known steps."""
        self._keep_shape(self._shape(moved, self._beliefs(demos, moved, _clamp(known, self.n_intentions))))

    def _shape(self, moved: Moved, weights: FloatArray) -> Shape:
        """M-step of what tells phases apart."""
        free = self.order_ == "free"
        floor, shared = (FREE_FLOOR, POOLED) if free else (FLOOR, 0.0)
        total = weights.sum(0)[:, None] + 1e-9
        found = []
        for values, scale in ((moved.place, FREE_PLACE if free else 1.0), (moved.motion, 1.0)):
            mean = weights.T @ values / total
            variance = weights.T @ values**2 / total - mean**2
            pooled = (total * variance).sum(0) / total.sum()
            variance = (total * variance + 5.0 * pooled) / (total + 5.0)
            variance = (1.0 - shared) * variance + shared * pooled
            found += [mean, np.maximum(variance, floor / scale**2)]
        switch = np.clip((weights.T @ moved.switch + 1.0) / (total + 2.0), 0.05, 0.95)
        return Shape(found[0], found[1], found[2], found[3], switch)

    def _clusters(self, moved: Moved, seed: int) -> IntArray:
        """Labels by k-means, with which phases in any order begin."""
        from sklearn.cluster import MiniBatchKMeans

        values = np.concatenate([moved.place * FREE_PLACE, moved.motion, moved.switch], axis=1)
        K = min(self.n_intentions, len(np.unique(values[:10_000], axis=0)))
        found = MiniBatchKMeans(K, n_init=3, batch_size=4096, random_state=seed).fit_predict(values)
        return np.asarray(found, dtype=np.int64)

    # -- evidence ------------------------------------------------------------------------------------------------------

    def _set_evidence(self, moved: Moved, offsets: IntArray) -> None:
        """Weights of the evidence, and which two-valued columns are read."""
        self.typical_ = float(np.median(np.diff(offsets)))
        if self.order_ == "free":
            self.read_ = np.ones(moved.switch.shape[1])
            self.evidence_ = np.array([FREE_POWER, FREE_POWER, FREE_POWER, 0.0, 0.0])
            return
        self.read_, changes = _steady(moved.switch, offsets)
        marked = ((changes > 1) & (changes <= self.n_intentions - 2)).any()
        blocks = {"place": moved.place, "motion": moved.motion, "switch": moved.switch}
        counts = MARKED if marked else WEIGHTS
        weights = [min(counts[name] / self.typical_, 1.0) / np.sqrt(_effective(blocks[name])) for name in blocks]
        self.evidence_ = np.array([*weights, PAUSE, TOGGLE])

    def _log_evidence(self, moved: Moved) -> FloatArray:
        """Tempered log-likelihood of every step, (n, K)."""
        found = np.zeros((len(moved.slow), self.n_intentions))
        for values, mean, variance, weight in (
            (moved.place, self.place_, self.place_variance_, self.evidence_[0]),
            (moved.motion, self.motion_, self.motion_variance_, self.evidence_[1]),
        ):
            if values.shape[1]:
                distance = values**2 @ (1.0 / variance).T - 2.0 * values @ (mean / variance).T
                found -= 0.5 * weight * (distance + (mean**2 / variance + np.log(variance)).sum(1))
        if moved.switch.shape[1]:
            found += self.evidence_[2] * ((moved.switch * self.read_) @ np.log(self.switch_ / (1.0 - self.switch_)).T)
            found += self.evidence_[2] * np.log(1.0 - self.switch_) @ self.read_
        return found

    def _structure(self, length: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Which phases may follow, begin and end an episode of so many bins."""
        if self.order_ == "free":
            return segmental.anything(self.moves_, self.first_)
        moves, first, last = (segmental.once if self.order_ == "once" else segmental.cycle)(self.n_intentions)
        if length < self.n_intentions:
            last = np.zeros_like(last)
        place = np.argsort(self.stages_)
        return np.ascontiguousarray(moves[place][:, place]), first[place], last[place]

    def _infer(
        self, log_evidence: FloatArray, moved: Moved, offsets: IntArray, *, hard: bool = False
    ) -> tuple[FloatArray, float]:
        """Beliefs (n, K) and the log-likelihood per step; ``hard`` ones are those of the likeliest segments."""
        beliefs, total = np.empty_like(log_evidence), 0.0
        tables: dict[int, FloatArray] = {}
        for a, b in pairwise(offsets):
            edges = segmental.borders(b - a, BINS)
            n = len(edges) - 1
            if n not in tables:
                tables[n] = segmental.length_table(self.lengths_[:, 0], self.lengths_[:, 1], n)
            summed = np.concatenate([np.zeros((1, self.n_intentions)), log_evidence[a:b].cumsum(0)])[edges]
            structure = self._structure(n)
            if hard:
                path = np.zeros(n, np.int64)
                total += segmental.viterbi(summed, tables[n], *structure, path)
                binned = np.eye(self.n_intentions)[path]
            else:
                at = np.minimum(edges, b - a - 1)
                border = self.evidence_[3] * moved.slow[a:b][at]
                border += self.evidence_[4] * _near_change(moved.switch[a:b, self.read_ > 0], at)
                binned = np.empty((n, self.n_intentions))
                total += segmental.posterior(summed, tables[n], *structure, border, binned)
            beliefs[a:b] = np.repeat(binned, np.diff(edges), axis=0)
        return beliefs, total / len(log_evidence)

    # -- asking --------------------------------------------------------------------------------------------------------

    def _parts(self, demos: Demonstrations) -> Iterator[tuple[slice, Demonstrations, Moved]]:
        """Trajectories of some hundred thousand steps at a time, with their movement."""
        movement = self._movement
        group = demos.offsets[:-1] // PART
        cuts = [0, *(np.flatnonzero(np.diff(group)) + 1).tolist(), len(demos)]
        for a, b in pairwise(cuts):
            part = demos if len(cuts) == 2 else demos.subset(np.arange(a, b))
            yield slice(int(demos.offsets[a]), int(demos.offsets[b])), part, movement(part)

    def predict_proba(self, demos: Demonstrations) -> FloatArray:
        """P(z_t = k | the whole episode), (n, K); zero where the order of phases forbids it."""
        demos = self._check_new(demos)
        found = np.empty((demos.n_steps, self.n_intentions))
        for rows, part, moved in self._parts(demos):
            found[rows] = self._beliefs(part, moved)
        return found

    def labels_of(self, probabilities: FloatArray, demos: Demonstrations) -> IntArray:
        """Phase of every step, (n,): right at the most steps in expectation, among those that keep the order."""
        if self.order_ == "free":
            return super().labels_of(probabilities, demos)
        moves, first, last = self._structure(self.n_intentions)
        return segmental.best_path(
            probabilities, demos.offsets, np.isfinite(moves), np.isfinite(first), np.isfinite(last)
        )

    def predict(self, demos: Demonstrations) -> IntArray:
        """Phase of every step, (n,), in order where phases have one."""
        return self.labels_of(self.predict_proba(demos), demos)

    decode = predict

    def action_proba(self, demos: Demonstrations) -> FloatArray:
        """Refused: phases give a density of commands."""
        raise InputError("Phases give a density of commands and no probability of an action; use log_likelihood.")

    def log_likelihood(self, demos: Demonstrations) -> FloatArray:
        """Log density of every command given what came before it, (n,): policies mixed by the predicted beliefs."""
        demos = self._check_new(demos)
        found = np.empty(demos.n_steps)
        for rows, part, moved in self._parts(demos):
            predicted = self._forward(moved, part.offsets)[0]
            log_density = self._log_density(part)
            top = log_density.max(1, keepdims=True)
            found[rows] = top[:, 0] + np.log((predicted * np.exp(log_density - top)).sum(1) + 1e-300)
        return found

    def filter_proba(self, demos: Demonstrations) -> FloatArray:
        """P(z_t = k | steps up to t), (n, K), of somebody who does not know how long the episode will be."""
        demos = self._check_new(demos)
        found = np.empty((demos.n_steps, self.n_intentions))
        for rows, part, moved in self._parts(demos):
            found[rows] = self._forward(moved, part.offsets)[1]
        return found

    def stability(self, demos: Demonstrations) -> dict[str, Any] | None:
        """``halves_agreement`` (ARI) of fits to every other episode and to the rest, None of fewer than four episodes.

        ``halves_by_phase`` are the shares, (K,), of the steps that either of them calls by a phase and both do.
        """
        return phase_choices.stability(self, demos)

    @property
    def kept_order(self) -> Order:
        """What was asked for, or chosen."""
        return self.order if self.order != "auto" else "once" if self.order_ == "once" else "free"

    def another(self, n_intentions: int, order: Order, *, n_starts: int = 1) -> Phases:
        """An unfitted model with another number of phases or order, and the same seed."""
        return Phases(n_intentions=n_intentions, order=order, n_starts=n_starts, seed=self.seed)

    def filter(self) -> PhaseFilter:
        """A stream: one (observation, command) in, K probabilities out."""
        self._check_fitted()
        return PhaseFilter(self)

    def _forward(self, moved: Moved, offsets: IntArray) -> tuple[FloatArray, FloatArray]:
        """Predicted and filtered beliefs, (n, K) each."""
        evidence = self._log_evidence(moved)
        hazard, moves, first = self.hazards()
        predicted, filtered = np.empty_like(evidence), np.empty_like(evidence)
        for a, b in pairwise(offsets):
            segmental.forward(evidence[a:b], hazard, moves, first, predicted[a:b], filtered[a:b])
        return predicted, filtered

    def hazards(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """P(a phase ends | it has lasted so many steps), (K, D), where it leads to, (K, K), and first phases (K,)."""
        mean, spread = self.lengths_.T * self.typical_
        longest = int(np.clip((mean + 4 * spread).max(), 2, 4096))
        steps = np.arange(1, longest + 1)
        mass = np.exp(-0.5 * ((steps - mean[:, None]) / np.maximum(spread[:, None], 1.0)) ** 2) + 1e-12
        left = mass[:, ::-1].cumsum(1)[:, ::-1]
        moves, first, _ = self._structure(self.n_intentions)
        moves, first = np.exp(moves), np.exp(first)
        hazard = mass / left
        hazard[moves.sum(1) == 0] = 0.0  # nothing follows the last of phases that come once
        return hazard, moves / np.maximum(moves.sum(1, keepdims=True), 1e-300), first / first.sum()

    # -- commands ------------------------------------------------------------------------------------------------------

    def _fit_commands(self, demos: Demonstrations, moved: Moved) -> None:
        """A linear policy per phase, weighted by the beliefs: what predicts commands."""
        beliefs = self._beliefs(demos, moved)
        x, y = self._inputs(demos), self._commands(demos)
        weights, noise = [], []
        for k in range(self.n_intentions):
            weighted = x * beliefs[:, k : k + 1]
            gram = weighted.T @ x + 1e-3 * len(x) / self.n_intentions * np.eye(x.shape[1])
            found = np.linalg.solve(gram, weighted.T @ y)
            error = (beliefs[:, k : k + 1] * (y - x @ found) ** 2).sum(0) / (beliefs[:, k].sum() + 1e-9)
            weights.append(found)
            noise.append(np.maximum(error, 1e-4))
        self.command_weights_, self.command_noise_ = np.stack(weights), np.stack(noise)

    def _inputs(self, demos: Demonstrations) -> FloatArray:
        seen = (
            np.zeros((demos.n_steps, 0)) if demos.observations is None else np.asarray(demos.observations, np.float64)
        )
        scaled = np.clip((seen - self.seen_mean_) / self.seen_spread_, -10, 10)
        return np.concatenate([np.ones((len(scaled), 1)), scaled], axis=1)

    def _commands(self, demos: Demonstrations) -> FloatArray:
        assert demos.motions is not None
        return np.asarray((np.asarray(demos.motions, np.float64) - self.done_mean_) / self.done_spread_)

    def _log_density(self, demos: Demonstrations) -> FloatArray:
        """Log density of every command under every phase, in the units of the data, (n, K)."""
        x, y = self._inputs(demos), self._commands(demos)
        found = np.empty((len(y), self.n_intentions))
        for k, (weights, noise) in enumerate(zip(self.command_weights_, self.command_noise_, strict=True)):
            found[:, k] = -0.5 * (((y - x @ weights) ** 2 / noise) + np.log(2 * np.pi * noise)).sum(1)
        return found - float(np.log(self.done_spread_).sum())

    # -- what is kept --------------------------------------------------------------------------------------------------

    def _keep_movement(self, movement: Movement, demos: Demonstrations) -> None:
        for name, values in movement.state().items():
            setattr(self, f"movement_{name}_", np.asarray(values, np.float64))
        names = column_names(demos)
        self.dropped_ = movement.named(CONSTANT, names)
        self.switches_ = movement.named(TWO_VALUED, names)

    def _set_columns(self, demos: Demonstrations) -> None:
        """Mean and spread of observations and of commands."""
        values, _ = signals(demos)
        d = 0 if demos.observations is None else demos.observations.shape[1]
        spread = values.std(0)
        spread = np.where(spread > 1e-9, spread, 1.0)
        self.seen_mean_, self.done_mean_ = values[:, :d].mean(0), values[:, d:].mean(0)
        self.seen_spread_, self.done_spread_ = spread[:d], spread[d:]

    @property
    def _movement(self) -> Movement:
        head, tail = "movement_", "_"
        return Movement.from_state(
            {name[len(head) : -len(tail)]: value for name, value in vars(self).items() if name.startswith(head)}
        )


class PhaseFilter:
    """Beliefs of fitted `Phases` along one episode, step by step, from what has been so far."""

    def __init__(self, model: Phases) -> None:
        self._model, self._movement = model, model._movement
        self._hazard, self._moves, self._first = model.hazards()
        self.reset()

    def reset(self) -> None:
        """Begin a new episode."""
        self._ages: FloatArray | None = None
        self._smooth: FloatArray | None = None
        self._mean, self._steps = np.zeros(0), 0

    def step(
        self, *, observation: npt.ArrayLike | None = None, motion: npt.ArrayLike | None = None, **unused: Any
    ) -> FloatArray:
        """Take one step and return P(z_t = k | everything so far), (K,)."""
        if motion is None:
            raise InputError("Phases are of observations and commands; give both of every step.")
        parts = [np.asarray(part, np.float64).ravel() for part in (observation, motion) if part is not None]
        evidence = self._model._log_evidence(self._moved(np.concatenate(parts)))[0]
        if self._ages is None:
            self._ages = np.zeros_like(self._hazard)
            self._ages[:, 0] = self._first
        else:
            ended = self._ages * self._hazard
            stayed = self._ages - ended
            self._ages = np.zeros_like(stayed)
            self._ages[:, 1:] = stayed[:, :-1]
            self._ages[:, -1] += stayed[:, -1]
            self._ages[:, 0] = ended.sum(1) @ self._moves
        joint = self._ages * np.exp(evidence - evidence.max())[:, None]
        self._ages = joint / joint.sum()
        return np.asarray(self._ages.sum(1))

    def _moved(self, values: FloatArray) -> Moved:
        """A step as movement, by means over the past."""
        movement = self._movement
        if len(values) != len(movement.kinds):
            raise InputError(f"The step has {len(values)} numbers, those of the fit had {len(movement.kinds)}.")
        places, differences = values[movement.kinds == PLACE], values[movement.kinds == DIFFERENCE]
        now = np.concatenate([places, differences])
        before = now if self._smooth is None else self._smooth
        self._smooth = before + (now - before) / (1.0 + movement.width)
        self._steps += 1
        here = self._smooth[: len(places)]
        self._mean = here if self._steps == 1 else self._mean + (here - self._mean) / self._steps
        motion = np.concatenate([here - before[: len(places)], self._smooth[len(places) :]])
        return Moved(
            movement.place((here - self._mean)[None]),
            movement.motion(motion[None]),
            movement.switch(values[None]),
            np.zeros(1),
        )


def _clamp(known: IntArray, n_phases: int) -> FloatArray | float:
    """What is added to the evidence where phases are known, (n, K)."""
    steps = np.flatnonzero(known >= 0)
    if not len(steps):
        return 0.0
    clamp = np.zeros((len(known), n_phases))
    clamp[steps] = -FAR
    clamp[steps, known[steps]] = 0.0
    return clamp


def _windows(values: FloatArray, offsets: IntArray, width: int, steps: IntArray) -> FloatArray:
    """Values (n, r) around some steps, (m, (2 w + 1) r); an episode goes on as it ends."""
    episode = np.searchsorted(offsets, steps, side="right") - 1
    around = steps[:, None] + np.arange(-width, width + 1)
    around = np.clip(around, offsets[episode][:, None], offsets[episode + 1][:, None] - 1)
    return np.asarray(values[around].reshape(len(steps), -1))


def _steady(switch: FloatArray, offsets: IntArray) -> tuple[FloatArray, FloatArray]:
    """Which two-valued columns change alike in all episodes, 1 or 0, and how often these do, (b,) each."""
    changes = np.zeros(switch.shape[1])
    for j, column in enumerate(switch.T):
        times = [np.flatnonzero(np.diff(column[a:b])) / (b - a) for a, b in pairwise(offsets)]
        n = int(np.median([len(own) for own in times]))
        alike = [own for own in times if len(own) == n]
        if n and 2 * len(alike) > len(times):
            i = np.arange(1, n + 1)
            random = np.sqrt(i * (n + 1 - i) / ((n + 1) ** 2 * (n + 2)))  # spread of n sorted uniform times
            changes[j] = n * float((np.std(alike, axis=0) / random).mean() < STEADY)
    return np.minimum(changes, 1.0), changes


def _near_change(switch: FloatArray, at: IntArray) -> npt.NDArray[np.bool_]:
    """Whether any two-valued column of one episode, (T, b), changes near some of its steps."""
    changed = np.concatenate([[0], (np.diff(switch, axis=0) != 0).any(1).cumsum()])
    near, last = max(1, int(NEAR * len(switch))), len(switch) - 1
    return np.asarray(changed[np.minimum(at + near, last)] > changed[np.maximum(at - near - 1, 0)])


def _effective(values: FloatArray) -> float:
    """Effective number of dimensions: (Σ λ)² / Σ λ² over the eigenvalues of the correlations, at least 1."""
    kept = values[:, values.std(0) > 1e-9] if values.shape[1] else values
    if kept.shape[1] < 2:
        return 1.0
    eigenvalues = np.linalg.eigvalsh(np.corrcoef(kept.T))
    return float(eigenvalues.sum() ** 2 / (eigenvalues**2).sum())


def _equal_lengths(n_phases: int) -> FloatArray:
    """Mean and spread of the lengths of phases, as shares of the episode, where nothing is known yet, (K, 2)."""
    return np.tile([1.0 / n_phases, max(0.5 / n_phases, LEAST_SPREAD)], (n_phases, 1))


def _share_lengths(beliefs: FloatArray, offsets: IntArray) -> FloatArray:
    """Mean and spread of the expected lengths of phases that come once, as shares of the episode, (K, 2)."""
    summed = np.concatenate([np.zeros((1, beliefs.shape[1])), beliefs.cumsum(0)])
    shares = (summed[offsets[1:]] - summed[offsets[:-1]]) / np.diff(offsets)[:, None]
    mean = shares.mean(0)
    spread = np.sqrt((len(shares) * shares.var(0) + 3 * (0.25 * mean) ** 2) / (len(shares) + 3))
    return np.stack([mean, np.maximum(spread, LEAST_SPREAD)], axis=1)
