"""Phases of demonstrations: stages of a task, found from where an arm is, how it moves and what its gripper does.

    x_t | z_t = k   places and movements: normal, diagonal covariance; two-valued columns: Bernoulli (`data.continuous`)
    d | k           lengths as shares of the episode: normal, mean and spread learned, 0.05 at least
    z               every phase once and in order; where episodes do not run alike in time, any order (`order`)

Neighbouring steps repeat one another and the columns of an arm repeat one another, so that a likelihood which takes
each for new evidence cuts wherever a sensor's quantum says. Evidence is tempered: all steps of an episode together
count as a handful of independent observations (`WEIGHTS`), divided by the root of the effective dimension of their
block. A border is likelier where the arm pauses and where a gripper opens or closes. A two-valued column that changes
at another time, or another number of times, in every episode is not read; one that opens and closes alike in all of
them, while more phases than its states are asked for, marks phases by itself and counts most (`MARKED`). Where nothing
speaks, phases last equally long. Fitted by EM over whole segments (`switching.segmental`) from equal parts, or where
any order is possible, from k-means. What predicts is causal: filtered beliefs that do not know how long an episode will
be, and a linear-Gaussian policy of commands per phase.

Whether phases come in order is found by fitting both (`IN_ORDER`): phases in any order always explain more of the
movement, and where gestures come back far more; and where phases have an order, even those that need not keep it come
at the same time in every episode.

Where some steps of every phase are known, EM over the others may drown them. What learns is chosen by leaving labelled
episodes out in turn (`CANDIDATES`): the same densities from labelled steps alone, with EM on top, or logistic
regression on windows; each decoded with the order and the lengths that the labels show. What filters and predicts
commands is causal all the same, with densities that learn from these labels.

Choose it for demonstrations of a task; for animals and play, a chain.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

from prism_irl.arrays import FloatArray, IntArray
from prism_irl.data.continuous import (
    CONSTANT,
    TWO_VALUED,
    Moved,
    Movement,
    column_names,
    signals,
)
from prism_irl.data.demonstrations import Demonstrations, some_trajectories, steps_of
from prism_irl.data.labels import FAR, check_known, out_of_order
from prism_irl.data.mapped import chunks
from prism_irl.errors import InputError
from prism_irl.labels import ari
from prism_irl.mdp import MDP
from prism_irl.models.base import IntentionModel
from prism_irl.models.choices import left_out
from prism_irl.switching import segmental

Order = Literal["auto", "once", "cycle", "free"]
CLASSIFIED = 3_000
"""Labelled steps that a classifier learns from, about, at most."""
SAMPLE = 150_000
"""Steps that EM sees of larger data."""
PART = 2**18
"""Steps that are labelled at a time."""
BINS = 128
"""Bins of an episode at most: borders lie on them."""
IN_ORDER = 0.35
"""Phases come in order from here on: the mean of what phases in order explain of the movement, as a share of what
phases in any order do, and of what the time in an episode tells of the latter, as a share of their entropy."""
TIMES = 24
"""Stretches of an episode by which that time is told."""
WEIGHTS = {"place": 6.0, "motion": 30.0, "switch": 10.0}
MARKED = {"place": 2.0, "motion": 3.0, "switch": 300.0}
"""Independent observations that an episode counts as, per block, where every phase comes once: usually, and where a
gripper marks phases."""
PAUSE, TOGGLE = 3.0, 4.0
"""Nats that a border gains per unit of slowness (minus log relative speed), and where a two-valued column changes."""
STEADY, NEAR = 0.5, 0.01
"""Spread of the times at which a two-valued column changes, as a share of that of random times, from which on it is not
read; and how far from such a change a border is near, as a share of the episode."""
FREE_POWER, FREE_PLACE = 0.1, 0.7
"""Power of a step's evidence where phases come in any order, and the scale of places beside movements."""
LEAST_SPREAD = 0.05
EQUAL = 0.0
FEWEST, USUAL, MOST, LARGE_GAIN = 2, 5, 10, 0.1
"""Numbers of phases that are tried, the one by which their order is found, and the share of the whole gain that the
last phase must bring."""
SOME = 40_000
"""Steps that are looked at to find their number."""
FOLDED = 10_000
"""Steps on which candidates are compared where episodes are labelled; the labelled ones among them first."""
PARTS = 5
"""Parts of the labelled episodes that are left out in turn, at most."""
CANDIDATES: tuple[dict[str, Any], ...] = (
    {"learner": "windows", "columns": "as they are", "window": 5},
    {"learner": "windows", "columns": "movement", "window": 5},
    {"learner": "windows", "columns": "as they are", "window": 15},
    {"learner": "windows", "columns": "movement", "window": 15},
    {"learner": "densities"},
    {"learner": "densities and unlabelled steps"},
)
"""What may learn from labelled steps; the first where a single episode is labelled."""


class Shape(NamedTuple):
    """What tells phases apart, (K, …): means and variances of places and movements, probabilities of two values."""

    place: FloatArray
    place_variance: FloatArray
    motion: FloatArray
    motion_variance: FloatArray
    switch: FloatArray


class Evidence(NamedTuple):
    """Weights of the blocks per step, of pauses at borders, and how variances are floored and pooled."""

    place: float
    motion: float
    switch: float
    pause: float
    toggle: float
    floor: float
    pooled: float


@dataclass(eq=False, repr=False, kw_only=True)
class Phases(IntentionModel):
    """Phases of demonstrations, in order.

    Parameters
    ----------
    n_intentions : int
        Number of phases K; 0 finds one, which then stands here: the most phases of which the last one still explains a
        tenth of what ten explain more than two, on episodes that were not fitted, beyond what pauses and lengths alone
        say (``tried_``). It is rough: more often than not it is off by two or more.
    order : {"auto", "once", "cycle", "free"}
        Every phase once and in order; in order and from the last to the first again; or any order. "auto" is once where
        labels or the movement show an order (`IN_ORDER`), and any order elsewhere.
    n_starts : int
        Runs of k-means where any order is possible; stages in order begin from equal parts, which is one start.
    max_iterations : int
    seed : int

    Attributes
    ----------
    order_, default_ : what "auto" chose, and why; in_order_ : by which numbers (`IN_ORDER`), where it fitted both
    dropped_ : names of the columns that never change; switches_ : of those that have two values
    read_ : (b,), 1 for two-valued columns that change alike in all episodes and are read
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
        if self.n_intentions == 0:
            labelled = len(_labelled(demos)) > 0
            self.n_intentions = int(known_steps(demos).max()) + 1 if labelled else self._number(demos)
            self.intentions_found_ = not labelled
        check_known(demos, self.n_intentions)
        kept = some_trajectories(demos, SAMPLE, self.seed)
        self.n_states_, self.n_actions_ = demos.n_states, demos.n_actions
        movement = Movement.fit(demos, kept)
        self._keep_movement(movement, demos)
        part = demos.subset(kept) if len(kept) < len(demos) else demos
        moved, offsets = movement(part), part.offsets
        self.typical_ = float(np.median(np.diff(offsets)))
        self._set_columns(part)
        self.chosen_: dict[str, Any] = {}
        self.choice_: list[dict[str, Any]] = []
        known = known_steps(part)
        by_labels = len(np.unique(known[known >= 0])) == self.n_intentions
        if self._read_order(part):
            self._learn_order(part, moved, known)
        else:
            self._set_evidence(moved, offsets)
            if not by_labels:
                self._learn(part, moved, known)
        if by_labels:
            self._learn_by_choice(part)
        self._fit_commands(part, moved)
        return self

    def _read_order(self, demos: Demonstrations) -> bool:
        """Read the order of phases off whole labelled episodes; whether none is asked for and none shown."""
        K, known = self.n_intentions, known_steps(demos)
        moment = np.concatenate([(np.arange(n) + 0.5) / n for n in demos.lengths])
        usual = [moment[known == k].mean() if (known == k).any() else (k + 0.5) / K for k in range(K)]
        self.stages_ = np.argsort(np.round(usual, 2), kind="stable")  # of ties, the first in number
        where = out_of_order(demos, self.stages_)
        self.default_, self.in_order_, self.order_ = None, np.zeros(0), self.order
        if self.order == "auto" and _whole(demos, known):
            self._say_order(where is None, where or "labelled episodes show it")
        elif self.order == "auto" and (len(demos) < 3 or K < 2):
            self._say_order(where is None, "there are too few of them to say" if where is None else where)
        if self.order_ == "once" and where is not None:
            raise InputError(f"{where[0].upper()}{where[1:]}: correct that label, or let phases return (--order free).")
        return self.order_ == "auto"

    def _say_order(self, in_order: bool, why: str) -> None:
        self.order_ = "once" if in_order else "free"
        how = "Every phase comes once and in order" if in_order else "Phases come in any order"
        self.default_ = {"why": f"{how}: {why}."}

    def _learn_order(self, demos: Demonstrations, moved: Moved, known: IntArray) -> None:
        """Learn phases in any order and in order, and keep what the movement shows (`IN_ORDER`)."""
        tried: dict[str, dict[str, Any]] = {}
        explained, where = {}, out_of_order(demos, self.stages_)
        told = 0.0
        for self.order_ in ("free", "once"):
            self._set_evidence(moved, demos.offsets)
            self._learn(demos, moved, known)
            labels = self.labels_of(self._beliefs(demos, moved, _clamp(known, self.n_intentions)), demos)
            explained[self.order_] = _explained(moved, labels)
            if self.order_ == "free":
                told = _told_by_time(labels, demos.offsets)
            tried[self.order_] = dict(vars(self))
            if where is not None:
                break
        shown = np.array([explained.get("once", 0.0) / max(explained["free"], 1e-9), told])
        in_order = bool(shown.mean() >= IN_ORDER) and "once" in tried
        vars(self).update(tried["once" if in_order else "free"], in_order_=shown)
        share = min(float(self.in_order_[0]), 1.0)
        self._say_order(in_order, f"phases in order explain {share:.0%} of what phases in any order do")

    def _learn_by_choice(self, demos: Demonstrations) -> None:
        """Learn from labels as the candidate that labels episodes left out best."""
        some = demos.subset(some_trajectories(demos, FOLDED, self.seed))
        moved, known = self._movement(some), known_steps(some)
        labelled = _labelled(some)
        parts = (
            [labelled[part] for part in left_out(some.subset(labelled), self.seed, PARTS)] if len(labelled) > 1 else []
        )
        self.chosen_ = dict(CANDIDATES[0])
        for candidate in CANDIDATES if len(parts) > 1 else ():
            right = []
            for part in parts:
                rows = steps_of(some.offsets, part)
                rest = known.copy()
                rest[rows] = -1
                self._learn(some, moved, rest, candidate)
                asked, truth = some.subset(part), known[rows]
                labels = self.labels_of(self._beliefs(asked, self._movement(asked)), asked)
                right.append(float((labels == truth)[truth >= 0].mean()))
            self.choice_.append({**candidate, "label_accuracy": float(np.mean(right))})
        if self.choice_:
            best = max(range(len(CANDIDATES)), key=lambda i: self.choice_[i]["label_accuracy"])
            self.chosen_ = dict(self.choice_[best])
        moved, known = self._movement(demos), known_steps(demos)
        self._learn(demos, moved, known, self.chosen_)
        if len(self.classifier_):  # densities, which filter, learn from what windows say of every step
            self._take_shape(self._shape(moved, self._beliefs(demos, moved, _clamp(known, self.n_intentions))))

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
            weights = np.where((known >= 0)[:, None], np.eye(K)[known], 0.0)
            paths = _whole(demos, known)
            moves, first = segmental.moved(paths, K)
            ends = np.cumsum([0, *(len(path) for path in paths)])
            lengths = _runs(np.concatenate([*paths, np.zeros(0, np.int64)]), ends, K)
            if not paths:
                lengths = np.tile([1.0 / K, max(0.5 / K, LEAST_SPREAD)], (K, 1))
            if self.order_ == "once":
                lengths[:, 1] = np.maximum(lengths[:, 1], LEAST_SPREAD)
            self._take({"shape": self._shape(moved, weights), "lengths": lengths, "moves": moves, "first": first})
            if candidate["learner"] == "windows":
                self._classify(demos, moved, known, candidate)
            if candidate["learner"] != "densities and unlabelled steps":
                return
            labels = self._infer(self._log_evidence(moved) + _clamp(known, K), moved, offsets)[0].argmax(1)
        self._search(demos, moved, _clamp(known, K), labels)

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
        """P(z_t = k | the whole episode), (n, K)."""
        if not len(self.classifier_):
            return self._infer(self._log_evidence(moved) + clamp, moved, demos.offsets)[0]
        seen, logs = self._seen(demos, moved), np.empty((demos.n_steps, self.n_intentions))
        for rows in chunks(demos.n_steps, 2**12):
            x = _windows(seen, demos.offsets, self.window_, np.arange(demos.n_steps)[rows])
            logs[rows] = x @ self.classifier_[:-1] + self.classifier_[-1]
        logs -= np.logaddexp.reduce(logs, axis=1)[:, None]
        return self._infer(logs + clamp, moved, demos.offsets)[0]

    def _search(self, demos: Demonstrations, moved: Moved, clamp: FloatArray | float, labels: IntArray | None) -> None:
        """EM from labels, from equal parts or from k-means; the best run stays."""
        offsets = demos.offsets
        if labels is not None:
            starts = [labels]
        elif self.order_ == "once":
            moment = np.concatenate([(np.arange(n) + 0.5) / n for n in np.diff(offsets)])
            starts = [self.stages_[np.minimum((moment * self.n_intentions).astype(np.int64), self.n_intentions - 1)]]
        else:
            starts = [self._clusters(moved, self.seed + i) for i in range(max(self.n_starts, 1))]
        best: dict[str, Any] | None = None
        self.monitor_: list[dict[str, float]] = []
        self.starts_: list[dict[str, Any]] = []
        for i, labels in enumerate(starts):
            began = time.perf_counter()
            found = self._run(moved, offsets, labels, clamp, i)
            row = {"score": found["score"], "iterations": found["iterations"], "converged": found["converged"]}
            self.starts_.append({**row, "seconds": time.perf_counter() - began, "best": False})
            if best is None or found["score"] > best["score"]:
                best = found
        assert best is not None
        for row in self.starts_:
            row["best"] = row["score"] == best["score"]
        self.converged_, self.n_iterations_ = best["converged"], best["iterations"]
        self._take(best)

    def _number(self, demos: Demonstrations) -> int:
        """How many phases episodes have, by the likelihood of those that were not fitted."""
        kept = some_trajectories(demos, SOME, self.seed)
        if len(kept) < 2:
            raise InputError("One episode does not say how many phases there are; give their number (--intentions).")
        fitted, held_out = demos.subset(kept[::2]), demos.subset(kept[1::2])
        order = self.order
        if order == "auto":
            order = Phases(n_intentions=USUAL, n_starts=1, seed=self.seed).fit(fitted)._order
        for n in range(FEWEST, MOST + 1):
            model = Phases(n_intentions=n, order=order, n_starts=1, seed=self.seed).fit(fitted)
            moved = model._movement(held_out)
            evidence = model._log_evidence(moved)
            found, prior = (model._infer(part, moved, held_out.offsets)[1] for part in (evidence, 0.0 * evidence))
            self.tried_.append((found - prior) * held_out.n_steps / len(held_out))  # pauses alone like many borders
        gains = np.diff(self.tried_) / max(max(self.tried_) - self.tried_[0], 1e-9)
        large = np.flatnonzero(gains >= LARGE_GAIN)
        return FEWEST + (int(large[-1]) + 1 if len(large) else 0)

    def _run(
        self, moved: Moved, offsets: IntArray, labels: IntArray, clamp: FloatArray | float, start: int
    ) -> dict[str, Any]:
        """EM from labels; what it found, and the likelihood that compares starts."""
        K = self.n_intentions
        beliefs = np.eye(K)[labels]
        lengths = _runs(labels, offsets, K)
        if self.order_ == "once":
            lengths = np.tile([1.0 / K, max(0.5 / K, LEAST_SPREAD)], (K, 1))
        moves, first = segmental.moved([labels[a:b] for a, b in pairwise(offsets)], K)
        shape, score, before = self._shape(moved, beliefs), -np.inf, -np.inf
        for iteration in range(self.max_iterations):
            shape = self._shape(moved, beliefs)
            self._take({"shape": shape, "lengths": lengths, "moves": moves, "first": first})
            evidence = self._log_evidence(moved) + clamp
            beliefs, score = self._infer(evidence, moved, offsets, hard=self.order_ == "free")
            likelihood = dict.fromkeys(("objective", "train", "monitored"), score)
            self.monitor_.append({"start": float(start), "iteration": float(iteration), **likelihood})
            if self.order_ == "once":
                shares = _shares(beliefs, offsets)
                spread = np.sqrt((len(shares) * shares.var(0) + 3 * (0.25 * shares.mean(0)) ** 2) / (len(shares) + 3))
                mean = (len(shares) * shares.mean(0) + EQUAL / K) / (len(shares) + EQUAL)
                lengths = np.stack([mean, np.maximum(spread, LEAST_SPREAD)], axis=1)
            else:
                labels = beliefs.argmax(1)
                lengths = _runs(labels, offsets, K)
                moves, first = segmental.moved([labels[a:b] for a, b in pairwise(offsets)], K)
            if iteration > 1 and score < before + 1e-5:
                break
            before = score
        converged = iteration + 1 < self.max_iterations
        found = {"shape": shape, "lengths": lengths, "moves": moves, "first": first, "score": score}
        return found | {"iterations": iteration, "converged": converged}

    def _take(self, found: dict[str, Any]) -> None:
        self._take_shape(found["shape"])
        self.lengths_, self.moves_, self.first_ = found["lengths"], found["moves"], found["first"]

    def _take_shape(self, shape: Shape) -> None:
        self.place_, self.place_variance_ = shape.place, shape.place_variance
        self.motion_, self.motion_variance_ = shape.motion, shape.motion_variance
        self.switch_ = shape.switch

    def _shape(self, moved: Moved, weights: FloatArray) -> Shape:
        """M-step of what tells phases apart."""
        evidence = self._evidence
        total = weights.sum(0)[:, None] + 1e-9
        found = []
        for values, scale in ((moved.place, self._place_scale), (moved.motion, 1.0)):
            mean = weights.T @ values / total
            variance = weights.T @ values**2 / total - mean**2
            pooled = (total * variance).sum(0) / total.sum()
            variance = (total * variance + 5.0 * pooled) / (total + 5.0)
            variance = (1.0 - evidence.pooled) * variance + evidence.pooled * pooled
            found += [mean, np.maximum(variance, evidence.floor / scale**2)]
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
        blocks = {"place": moved.place, "motion": moved.motion, "switch": moved.switch}
        dimension = {name: _effective(values) for name, values in blocks.items()}
        self.read_, changes = np.ones(moved.switch.shape[1]), np.zeros(0)
        if self.order_ == "free":
            power = FREE_POWER
            weights = [power, power, power, 0.0, 0.0, 0.3, 0.7]
        else:
            self.read_, changes = _steady(moved.switch, offsets)
            marked = ((changes > 1) & (changes <= self.n_intentions - 2)).any()
            counts = {name: min(n / self.typical_, 1.0) for name, n in (MARKED if marked else WEIGHTS).items()}
            weights = [counts[name] / np.sqrt(dimension[name]) for name in blocks] + [PAUSE, TOGGLE, 0.1, 0.0]
        self.evidence_ = np.array(weights)

    @property
    def _evidence(self) -> Evidence:
        return Evidence(*map(float, self.evidence_))

    @property
    def _place_scale(self) -> float:
        return FREE_PLACE if self.order_ == "free" else 1.0

    def _log_evidence(self, moved: Moved) -> FloatArray:
        """Tempered log-likelihood of every step, (n, K)."""
        weight = self._evidence
        found = np.zeros((len(moved.slow), self.n_intentions))
        for values, mean, variance, w in (
            (moved.place, self.place_, self.place_variance_, weight.place),
            (moved.motion, self.motion_, self.motion_variance_, weight.motion),
        ):
            if values.shape[1]:
                distance = values**2 @ (1.0 / variance).T - 2.0 * values @ (mean / variance).T
                found -= 0.5 * w * (distance + (mean**2 / variance + np.log(variance)).sum(1))
        if moved.switch.shape[1]:
            found += weight.switch * ((moved.switch * self.read_) @ np.log(self.switch_ / (1.0 - self.switch_)).T)
            found += weight.switch * np.log(1.0 - self.switch_) @ self.read_
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
            if hard:
                path = np.zeros(n, np.int64)
                total += segmental.viterbi(summed, tables[n], *self._structure(n), path)
                binned = np.eye(self.n_intentions)[path]
            else:
                at = np.minimum(edges, b - a - 1)
                border = self._evidence.pause * moved.slow[a:b][at]
                border += self._evidence.toggle * _near_change(moved.switch[a:b, self.read_ > 0], at)
                binned = np.empty((n, self.n_intentions))
                total += segmental.posterior(summed, tables[n], *self._structure(n), border, binned)
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
        part = demos.subset(some_trajectories(demos, SOME, self.seed))
        if len(part) < 4 or self.n_intentions < 2:
            return None
        bare, K = replace(part, partial_labels=None, partial_label_names=None), self.n_intentions
        own, halves = self.predict(part), []
        for half in (0, 1):
            model = Phases(n_intentions=K, order=self._order, n_starts=2, seed=self.seed)
            labels = model.fit(bare.subset(np.arange(half, len(bare), 2))).predict(bare)
            shared = np.bincount(labels * K + own, minlength=K * K).reshape(K, K)
            halves.append(linear_sum_assignment(-shared)[1][labels])
        first, second = halves
        both = np.bincount(first[first == second], minlength=K)
        either = np.bincount(first, minlength=K) + np.bincount(second, minlength=K) - both
        return {
            "halves_agreement": float(ari(first, second)),
            "halves_by_phase": (both / np.maximum(either, 1)).tolist(),
        }

    @property
    def _order(self) -> Order:
        """What was asked for, or chosen."""
        return self.order if self.order != "auto" else "once" if self.order_ == "once" else "free"

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
        places, differences = values[movement.kinds == 2], values[movement.kinds == 4]
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


def known_steps(demos: Demonstrations) -> IntArray:
    """Known phase of every step, (n,); −1 where nobody knows it."""
    return (
        np.full(demos.n_steps, -1, np.int64) if demos.partial_labels is None else demos.partial_labels.astype(np.int64)
    )


def _labelled(demos: Demonstrations) -> IntArray:
    """Episodes in which some step is known."""
    return np.flatnonzero(np.logical_or.reduceat(known_steps(demos) >= 0, demos.offsets[:-1]))


def _whole(demos: Demonstrations, known: IntArray) -> list[IntArray]:
    """Labels of the episodes in which every step is known."""
    parts = (known[a:b] for a, b in pairwise(demos.offsets))
    return [part for part in parts if (part >= 0).all()]


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


def _explained(moved: Moved, labels: IntArray) -> float:
    """Share of the variance of movement that phases explain."""
    values = np.concatenate([moved.place, moved.motion, moved.switch], axis=1)
    chosen = np.eye(int(labels.max()) + 1)[labels]
    means = chosen.T @ values / np.maximum(chosen.sum(0), 1.0)[:, None]
    total = ((values - values.mean(0)) ** 2).sum()
    return float(1.0 - ((values - means[labels]) ** 2).sum() / max(float(total), 1e-9))


def _told_by_time(labels: IntArray, offsets: IntArray) -> float:
    """What the time in an episode tells of its phases: their mutual information as a share of the phases' entropy."""
    time = np.concatenate([np.arange(n) * TIMES // n for n in np.diff(offsets)])
    joint = np.zeros((TIMES, int(labels.max()) + 1))
    np.add.at(joint, (time, labels), 1.0 / len(labels))
    entropy = [-(p[p > 0] * np.log(p[p > 0])).sum() for p in (joint.sum(1), joint.sum(0), joint)]
    return float((entropy[0] + entropy[1] - entropy[2]) / entropy[1]) if entropy[1] > 0 else 1.0


def _effective(values: FloatArray) -> float:
    """Effective number of dimensions: (Σ λ)² / Σ λ² over the eigenvalues of the correlations, at least 1."""
    kept = values[:, values.std(0) > 1e-9] if values.shape[1] else values
    if kept.shape[1] < 2:
        return 1.0
    eigenvalues = np.linalg.eigvalsh(np.corrcoef(kept.T))
    return float(eigenvalues.sum() ** 2 / (eigenvalues**2).sum())


def _shares(beliefs: FloatArray, offsets: IntArray) -> FloatArray:
    """Expected length of each phase in each episode, as a share of it, (N, K)."""
    summed = np.concatenate([np.zeros((1, beliefs.shape[1])), beliefs.cumsum(0)])
    return np.asarray((summed[offsets[1:]] - summed[offsets[:-1]]) / np.diff(offsets)[:, None])


def _runs(labels: IntArray, offsets: IntArray, n_phases: int) -> FloatArray:
    """Mean and spread of the lengths of runs of each phase, as shares of their episode, (K, 2)."""
    shares: list[list[float]] = [[] for _ in range(n_phases)]
    for a, b in pairwise(offsets):
        cuts = np.r_[0, np.flatnonzero(np.diff(labels[a:b])) + 1, b - a]
        for start, end in pairwise(cuts):
            shares[labels[a + start]].append((end - start) / (b - a))
    mean = np.array([np.mean(own) if own else 1.0 / n_phases for own in shares])
    counts = np.array([len(own) for own in shares])
    spread = np.array([np.std(own) if len(own) > 1 else 0.5 / n_phases for own in shares])
    spread = np.sqrt((counts * spread**2 + 3 * (0.25 * mean) ** 2) / (counts + 3))
    return np.stack([mean, np.maximum(spread, 0.01)], axis=1)
