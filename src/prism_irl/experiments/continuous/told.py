"""Rows that are told some labels: one trial of every surgeon but one, whose trials are then labelled.

What windows are, how strongly their covariance is shrunk and how much one of them counts is chosen by the fit itself,
from the labelled trials that it is told anyway (`models.label_choices`): nothing about the surgeon left out has chosen
anything.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prism_irl.data.motions import MotionDemonstrations
from prism_irl.experiments.continuous.data import Data
from prism_irl.experiments.continuous.methods import LINEAR, blind, fit
from prism_irl.rewards.windows import Windows

IntArray = npt.NDArray[np.int64]


class Told(NamedTuple):
    """A row: its name, options of its fits, whether it sees windows, and whether it sees labelled trials alone."""

    name: str
    options: dict[str, Any]
    windowed: bool = False
    alone: bool = False


ONE = {"warm_up": 0, "n_starts": 1, "validation_fraction": 0.0}
TOLD = {
    "told-chosen": Told(
        "One labelled trial per surgeon, windows that its labels choose, and EM on all",
        {"max_iterations": 40, **ONE},
        windowed=True,
    ),
    "told-chosen-alone": Told(
        "One labelled trial per surgeon, windows that its labels choose, nothing else",
        {"max_iterations": 2, **ONE},
        windowed=True,
        alone=True,
    ),
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
    """Labels of one surgeon's trials, by a chain that was told one trial of each other surgeon.

    The chain goes on with EM on the other trials of these surgeons, unless the labelled ones are to stand ``alone``.
    """
    demos = data.demos if row.windowed else blind(data.demos, everything=True)
    assert demos.groups is not None
    train, test = (demos.subset(part) for part in (demos.groups != subject, demos.groups == subject))
    assert train.groups is not None
    assert train.labels is not None
    assert test.labels is not None
    first = [int(np.argmax(train.groups == group)) for group in np.unique(train.groups)]
    known = np.where(np.isin(train.trajectory_index, first), train.labels, -1)  # what has no gesture is a class, too
    names = np.arange(data.n_intentions + 1)
    if row.windowed:  # a gesture that no labelled trial shows is none that could be found
        names = np.unique(known[known >= 0])
        known = np.where(known >= 0, np.searchsorted(names, known), -1)
    train = replace(train, known=known)
    train = train.subset(first) if row.alone else train
    assert isinstance(train, MotionDemonstrations)
    pair = {"switching": "markov", "rewards": Windows(window="auto") if row.windowed else LINEAR}
    model = fit(train, len(names), pair, seed, {**options, **row.options})
    found = model.predict(test) if row.windowed else model.decode(test)
    return Labelled(test.labels.astype(np.int64), names[found].astype(np.int64), dict(model.chosen_))
