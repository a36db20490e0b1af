"""Rows that are told some labels: one trial of every surgeon but one, whose trials are then labelled.

What windows are, how strongly their covariance is shrunk and how much one of them counts is chosen by the fit itself,
from the labelled trials that it is told anyway (`models.choices`): nothing about the surgeon left out has chosen
anything.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from continuous.data import Data
from continuous.methods import LINEAR, blind, fit
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.models.intentions import Intentions
from prism_irl.rewards.options import RewardOptions, Windows

IntArray = npt.NDArray[np.int64]


class Told(NamedTuple):
    """A row: its name, options of its fits, whether it sees windows, and what it does with trials without labels.

    "all": EM goes on with them; "labels": it does not see them; "decided": whatever labels more steps right of labelled
    trials that are left out in turn.
    """

    name: str
    options: dict[str, Any]
    windowed: bool = False
    learns: Literal["all", "labels", "decided"] = "all"


ONE = {"warm_up": 0, "n_starts": 1, "validation_fraction": 0.0}
ALL, ALONE = {"max_iterations": 40, **ONE}, {"max_iterations": 2, **ONE}
WINDOWS = "One labelled trial per surgeon, windows that its labels choose"
TOLD = {
    "told-decided": Told(f"{WINDOWS}, EM where they say so", ALL, windowed=True, learns="decided"),
    "told-chosen": Told(f"{WINDOWS}, and EM on all", ALL, windowed=True),
    "told-chosen-alone": Told(f"{WINDOWS}, nothing else", ALONE, windowed=True, learns="labels"),
    "told": Told("One labelled trial per surgeon, and EM on all", {}),
    "told-only": Told("One labelled trial per surgeon, no EM", {"max_iterations": 0, "warm_up": 0, "n_starts": 1}),
}
"""Identifier → row."""


class Labelled(NamedTuple):
    """True and predicted labels of the surgeon left out, and what the labels of the others chose."""

    true: IntArray
    found: IntArray
    chosen: dict[str, Any]


def told(data: Data, subject: str, seed: int, options: dict[str, Any], row: Told) -> Labelled:
    """Labels of one surgeon's trials, by a chain that was told one trial of each other surgeon."""
    demos = data.demos if row.windowed else blind(data.demos, everything=True)
    assert demos.groups is not None
    train, test = (demos.subset(part) for part in (demos.groups != subject, demos.groups == subject))
    assert train.groups is not None
    assert train.labels is not None
    assert test.labels is not None
    first = [int(np.argmax(train.groups == group)) for group in np.unique(train.groups)]
    known = np.where(np.isin(train.trajectory_index, first), train.labels, -1)  # what has no gesture is a class, too
    true = test.labels.astype(np.int64)
    if not row.windowed:
        pair = {"switching": "markov", "rewards": LINEAR}
        model = fit(
            _motions(replace(train, partial_labels=known)),
            data.n_intentions + 1,
            pair,
            seed,
            {**options, **row.options},
        )
        return Labelled(true, model.decode(test), {})
    names = np.unique(known[known >= 0])  # a gesture that no labelled trial shows is none that could be found
    train = replace(train, partial_labels=np.where(known >= 0, np.searchsorted(names, known), -1))
    given = (len(names), seed, options)
    alone = row.learns != "all"
    model = _fitted(train, Windows(window="auto"), *given, alone=alone)
    chosen = dict(model.chosen_)
    if row.learns == "decided":
        shares = [left_out_accuracy(train, Windows(**chosen), *given, alone=alone) for alone in (True, False)]
        chosen |= {"alone_accuracy": shares[0], "em_accuracy": shares[1]}
        if shares[1] > shares[0]:
            model = _fitted(train, model.reward_options, *given, alone=False)
    return Labelled(true, names[model.predict(test)].astype(np.int64), chosen)


def left_out_accuracy(
    train: Demonstrations, windows: Windows, K: int, seed: int, options: dict[str, Any], *, alone: bool
) -> float:
    """Share of right labels in the labelled trial of every training surgeon, by fits that saw none of their trials."""
    assert train.groups is not None
    found = []
    for group in np.unique(train.groups):
        model = _fitted(train.subset(train.groups != group), windows, K, seed, options, alone=alone)
        left = train.subset(_labelled(train) & (train.groups == group))
        assert left.partial_labels is not None
        found.append(float((model.predict(left) == left.partial_labels)[left.partial_labels >= 0].mean()))
    return float(np.mean(found))


def _fitted(
    train: Demonstrations, windows: RewardOptions, K: int, seed: int, options: dict[str, Any], *, alone: bool
) -> Intentions:
    part = train.subset(_labelled(train)) if alone else train
    pair = {"switching": "markov", "rewards": windows}
    return fit(_motions(part), K, pair, seed, {**options, **(ALONE if alone else ALL)})


def _labelled(demos: Demonstrations) -> npt.NDArray[np.bool_]:
    """Which trajectories have a known label, (N,)."""
    assert demos.partial_labels is not None
    return np.logical_or.reduceat(demos.partial_labels >= 0, demos.offsets[:-1])


def _motions(demos: Demonstrations) -> Demonstrations:
    return demos
