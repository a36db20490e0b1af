"""What stands beside every result: uniform, one intention and a habit, none of which has intentions.

A fit gets their scores on the trajectories on which its own is shown, a comparison gets them as methods. Most of the
predictability of an animal is short memory, so a number without these says little.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.models import registry
from prism_irl.models.registry import Method
from prism_irl.report.findings import REFERENCES


def with_references(methods: Sequence[Method]) -> list[Method]:
    """The methods asked for, and behind them the references that are not among them."""
    there = {method.id for method in methods}
    return [*methods, *(registry.method(name, None) for name in REFERENCES if name not in there)]


def reference_scores(demos: Demonstrations, validation: npt.NDArray[np.bool_]) -> dict[str, dict[str, Any]]:
    """Mean predictive log-likelihood per step of each reference, fitted to the training trajectories alone.

    Parameters
    ----------
    demos : Demonstrations
    validation : (n_trajectories,) bool
        Trajectories that the fit beside it did not train on; all false where there are none.

    Returns
    -------
    {identifier: {"name", "predictive_ll": {"train", "validation"}}}, validation None where there is none
    """
    train = demos.subset(np.flatnonzero(~validation))
    rest = demos.subset(np.flatnonzero(validation)) if validation.any() else None
    scores = {}
    for method in with_references([]):
        model = method.model.fit(train)
        found = {"train": model.score(train), "validation": None if rest is None else model.score(rest)}
        scores[method.id] = {"name": method.name, "predictive_ll": found}
    return scores
