"""`--covariates` and `--time-since`: which models can read them, and what they are told."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from prism_irl import halves
from prism_irl.cli.options import ColumnOptions
from prism_irl.errors import InputError
from prism_irl.switching import SWITCHING

if TYPE_CHECKING:
    from prism_irl.models.base import IntentionModel

NETWORKS = ("recurrent", "independent")
"""Switching that reads the observations of a step anyway."""
LOGITS = ("markov", "state", "ordered", "semi-markov")
"""Switching whose kernel is a logit of the inputs where it is told to read them."""


def with_inputs(model: IntentionModel, columns: ColumnOptions) -> IntentionModel:
    """The model, told to read the inputs where there are some; refused where nothing in it would."""
    pair = getattr(model, "_halves", None)
    name, rewards = ("", "") if pair is None else (halves.name_of(pair()[0], SWITCHING), str(pair()[1]))
    from_rewards = "feature" in rewards.lower()  # policies that are made of the observations
    if not any(columns.covariates()):
        if columns.observations and not from_rewards and name in SWITCHING and name not in (*NETWORKS, "ordered"):
            raise InputError(
                f"{name} switching does not read --network-inputs, nor do these rewards; give the columns as "
                "--covariates of markov switching, or choose --switching recurrent."
            )
        return model
    if from_rewards:
        raise InputError(
            "These policies are made of the observations; leave out --covariates, or choose other rewards."
        )
    if name in NETWORKS:
        return model
    if name in LOGITS and "switching" in model.get_params(deep=False):
        given = model.get_params(deep=False)["switching"]
        options = halves.options_class("switching", name, SWITCHING)() if isinstance(given, str) else given
        model.set_params(switching=dataclasses.replace(options, inputs=True))
        return model
    raise InputError(
        f"{name or type(model).__name__} switching reads no inputs; choose --switching {', '.join(LOGITS)} (without "
        "--method), recurrent or independent."
    )
