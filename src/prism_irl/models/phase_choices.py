"""What is chosen before phases are fitted: their order, their number, and what learns from labels.

*Order.* Phases in any order are fitted, and read: where episodes run alike, they come at the same times in all of them,
or in the same sequence, however often each of them returns (`IN_ORDER`). Such episodes are divided into stages.

*Number.* The one for which fits to halves of the episodes label most steps alike, where a number far from `USUAL` must
do so better: phases are a matter of words, and the movement of an arm rarely says how coarse these are.

*Labels.* Where some steps of every phase are known, EM over the others may drown them. What learns is chosen by leaving
labelled episodes out in turn (`CANDIDATES`): the same densities from labelled steps alone, with EM on top, or logistic
regression on windows; each decoded with the order and the lengths that the labels show. What filters and predicts
commands is causal all the same, with densities that learn from these labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from prism_irl.arrays import FloatArray, IntArray
from prism_irl.data.demonstrations import Demonstrations, some_trajectories, steps_of
from prism_irl.data.labels import out_of_order
from prism_irl.errors import InputError
from prism_irl.labels import ari, label_accuracy
from prism_irl.models.choices import left_out

if TYPE_CHECKING:
    from prism_irl.models.phases import Order, Phases

SOME, FEW = 40_000, 4
"""Steps that are looked at to find order, number and stability, and episodes at least."""
IN_ORDER, SHORT, PAIRS, TIMES = -0.3, 0.02, 60, 24
"""Phases come in order where this is not above what time tells of them, minus how far their sequences differ
(`order_shown`). Runs below a `SHORT` share of an episode are left out of its sequence, as many `PAIRS` of episodes are
compared at most, and time is told by so many stretches of an episode."""
FEWEST, USUAL, MOST = 2, 6, 10
"""Numbers of phases that are tried, and the usual one."""
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


class Ordering(NamedTuple):
    """Phases in the order in which they come (K,), the order, why where it was chosen, and by which numbers."""

    stages: IntArray
    order: Order
    why: str | None
    shown: FloatArray


def ordering(model: Phases, demos: Demonstrations) -> Ordering:
    """The order as asked for, as labels show it, or as the movement does."""
    K, known = model.n_intentions, known_steps(demos)
    moment = np.concatenate([(np.arange(n) + 0.5) / n for n in demos.lengths])
    usual = [moment[known == k].mean() if (known == k).any() else (k + 0.5) / K for k in range(K)]
    stages = np.argsort(np.round(usual, 2), kind="stable")  # of ties, the first in number
    where, shown = out_of_order(demos, stages), np.zeros(0)
    if model.order == "once" and where is not None:
        raise InputError(f"{where[0].upper()}{where[1:]}: correct that label, or let phases return (--order free).")
    if model.order != "auto":
        return Ordering(stages, model.order, None, shown)
    if where is not None or whole_paths(demos, known):
        in_order, why = where is None, where or "labelled episodes show it"
    elif len(demos) < 3 or K < 2:
        in_order, why = True, "there are too few of them to say"
    else:
        shown = order_shown(model, demos)
        in_order = bool(shown[0] - shown[1] - 2.0 * shown[2] >= IN_ORDER)
        why = f"the time in an episode tells {shown[0]:.0%} of phases in any order, and their sequences differ by "
        why += f"{shown[1]:.0%} between episodes"
    how = "Every phase comes once and in order" if in_order else "Phases come in any order"
    return Ordering(stages, "once" if in_order else "free", f"{how}: {why}.", shown)


def order_shown(model: Phases, demos: Demonstrations) -> FloatArray:
    """What time tells of phases in any order, and how far their sequences differ between episodes, (3,).

    The last two are edits that turn one sequence into another, and the spread of their lengths, as shares of a length.
    """
    part = replace(demos, partial_labels=None, partial_label_names=None)
    part = _some(part, model.seed)
    labels = model.another(model.n_intentions, "free", n_starts=2).fit(part).predict(part)
    return np.array([told_by_time(labels, part.offsets), *sequence_distance(labels, part.offsets)])


def told_by_time(labels: IntArray, offsets: IntArray) -> float:
    """What the time in an episode tells of its phases: their mutual information as a share of the phases' entropy."""
    time = np.concatenate([np.arange(n) * TIMES // n for n in np.diff(offsets)])
    joint = np.zeros((TIMES, int(labels.max()) + 1))
    np.add.at(joint, (time, labels), 1.0 / len(labels))
    entropy = [-(p[p > 0] * np.log(p[p > 0])).sum() for p in (joint.sum(1), joint.sum(0), joint)]
    return float((entropy[0] + entropy[1] - entropy[2]) / entropy[1]) if entropy[1] > 0 else 1.0


def sequence_distance(labels: IntArray, offsets: IntArray) -> tuple[float, float]:
    """Edits that turn the sequence of phases of one episode into that of another, and the spread of their lengths."""
    sequences = []
    for a, b in pairwise(offsets):
        cuts = np.r_[a, a + 1 + np.flatnonzero(np.diff(labels[a:b])), b]
        runs = [int(labels[i]) for i, j in pairwise(cuts) if j - i >= SHORT * (b - a)]
        sequences.append([k for i, k in enumerate(runs) if i == 0 or runs[i - 1] != k])
    n = len(sequences)
    pairs = [(sequences[i], sequences[(i + gap) % n]) for gap in range(1, min(3, n)) for i in range(n)][:PAIRS]
    edits = [_edits(one, two) / max(len(one), len(two), 1) for one, two in pairs]
    lengths = [len(one) for one in sequences]
    return float(np.mean(edits)), float(np.std(lengths) / (np.mean(lengths) + 1e-9))


def _edits(one: Sequence[int], two: Sequence[int]) -> int:
    """Levenshtein distance."""
    row = list(range(len(two) + 1))
    for i, k in enumerate(one, 1):
        diagonal, row[0] = row[0], i
        for j, other in enumerate(two, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (k != other))
    return row[-1]


def number(model: Phases, demos: Demonstrations) -> tuple[int, Ordering]:
    """The number on which fits to halves of the episodes agree best, a usual one if in doubt, and their order."""
    part = replace(demos, partial_labels=None, partial_label_names=None)
    part = _some(part, model.seed)
    if len(part) < 2:
        raise InputError("One episode does not say how many phases there are; give their number (--intentions).")
    found = ordering(model.another(USUAL, model.order), part)
    halves = [part.subset(np.arange(half, len(part), 2)) for half in (0, 1)]
    for n in range(FEWEST, MOST + 1):
        labels = [model.another(n, found.order).fit(half).predict(part) for half in halves]
        model.tried_.append(label_accuracy(*labels))
    numbers = np.arange(FEWEST, MOST + 1)
    return int(numbers[np.argmax(np.array(model.tried_) - np.log(numbers / USUAL) ** 2)]), found


def learn_by_choice(model: Phases, demos: Demonstrations) -> None:
    """Learn from labels as the candidate that labels episodes left out best."""
    some = demos.subset(some_trajectories(demos, FOLDED, model.seed))
    moved, known = model._movement(some), known_steps(some)
    labelled = labelled_episodes(some)
    parts = [labelled[part] for part in left_out(some.subset(labelled), model.seed, PARTS)] if len(labelled) > 1 else []
    model.chosen_ = dict(CANDIDATES[0])
    for candidate in CANDIDATES if len(parts) > 1 else ():
        right = []
        for part in parts:
            rows = steps_of(some.offsets, part)
            rest = known.copy()
            rest[rows] = -1
            model._learn(some, moved, rest, candidate)
            asked, truth = some.subset(part), known[rows]
            labels = model.labels_of(model._beliefs(asked, model._movement(asked)), asked)
            right.append(float((labels == truth)[truth >= 0].mean()))
        model.choice_.append({**candidate, "label_accuracy": float(np.mean(right))})
    if model.choice_:
        best = max(range(len(CANDIDATES)), key=lambda i: model.choice_[i]["label_accuracy"])
        model.chosen_ = dict(model.choice_[best])
    moved, known = model._movement(demos), known_steps(demos)
    model._learn(demos, moved, known, model.chosen_)
    if len(model.classifier_):  # densities, which filter, learn from what windows say of every step
        model._learn_beliefs(demos, moved, known)


def stability(model: Phases, demos: Demonstrations) -> dict[str, Any] | None:
    """As `Phases.stability`."""
    part = _some(demos, model.seed)
    if len(part) < FEW or model.n_intentions < 2:
        return None
    bare, K = replace(part, partial_labels=None, partial_label_names=None), model.n_intentions
    own, halves = model.predict(part), []
    for half in (0, 1):
        other = model.another(K, model.kept_order, n_starts=2)
        labels = other.fit(bare.subset(np.arange(half, len(bare), 2))).predict(bare)
        shared = np.bincount(labels * K + own, minlength=K * K).reshape(K, K)
        halves.append(linear_sum_assignment(-shared)[1][labels])
    first, second = halves
    both = np.bincount(first[first == second], minlength=K)
    either = np.bincount(first, minlength=K) + np.bincount(second, minlength=K) - both
    return {
        "halves_agreement": float(ari(first, second)),
        "halves_by_phase": (both / np.maximum(either, 1)).tolist(),
    }


def _some(demos: Demonstrations, seed: int) -> Demonstrations:
    """Episodes of about `SOME` steps, `FEW` of them at least where there are as many."""
    most = max(SOME, FEW * int(demos.lengths.max()))
    return demos.subset(some_trajectories(demos, most, seed))


def known_steps(demos: Demonstrations) -> IntArray:
    """Known phase of every step, (n,); −1 where nobody knows it."""
    return (
        np.full(demos.n_steps, -1, np.int64) if demos.partial_labels is None else demos.partial_labels.astype(np.int64)
    )


def labelled_episodes(demos: Demonstrations) -> IntArray:
    """Episodes in which some step is known."""
    return np.flatnonzero(np.logical_or.reduceat(known_steps(demos) >= 0, demos.offsets[:-1]))


def whole_paths(demos: Demonstrations, known: IntArray) -> list[IntArray]:
    """Labels of the episodes in which every step is known."""
    parts = (known[a:b] for a, b in pairwise(demos.offsets))
    return [part for part in parts if (part >= 0).all()]
