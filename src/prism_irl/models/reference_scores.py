"""What stands beside every result: uniform, one intention and a habit, none of which has intentions.

A fit gets their scores on the trajectories on which its own is shown, a comparison gets them as methods. Most of the
predictability of an animal is short memory, so a number without these says little.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from prism_irl import em
from prism_irl.data.contexts import with_memory
from prism_irl.data.demonstrations import Demonstrations, parts_of, some_trajectories
from prism_irl.errors import InputError
from prism_irl.models import registry
from prism_irl.models.intentions import Intentions
from prism_irl.models.registry import Method
from prism_irl.report.verdict import REFERENCES

ONE_POLICY = "single+features"
"""Identifier of the one policy without intentions that stands beside densities."""
MEMORY = 3
"""Steps that the habit of continuous commands remembers."""


def one_policy() -> Intentions:
    """One Gaussian policy for all steps, linear in what is observed: one regression, and nothing to iterate."""
    options: Any = {"switching": "single", "rewards": "features", "n_starts": 1, "validation_fraction": 0.0}
    return Intentions(1, **options, n_candidates=1, warm_up=0, max_iterations=1, device="cpu")


def with_references(methods: Sequence[Method], demos: Demonstrations | None = None) -> list[Method]:
    """The methods asked for, and behind them the references that are not among them.

    Beside densities of continuous data stands one policy without intentions: a probability of tokens is in other units.
    """
    there = {method.id for method in methods}
    known = (ONE_POLICY,) if demos is not None and demos.state_space.continuous else REFERENCES
    return [*methods, *(registry.method(name, None) for name in known if name not in there)]


def check_comparable(methods: Sequence[Method], demos: Demonstrations) -> None:
    """Refuse methods that choose tokens where the data are continuous: their likelihood is no density of commands."""
    if not demos.state_space.continuous:
        return
    for method in methods:
        if not (isinstance(method.model, Intentions) and method.model.reward_options.of_commands):
            raise InputError(
                f"{method.id} gives probabilities of tokens, which cannot be compared with densities of continuous "
                "commands; name pairs with features, landmarks or windows, such as markov+features."
            )


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
    if demos.state_space.continuous:
        return continuous_scores(demos, validation)
    train = demos.subset(np.flatnonzero(~validation))
    rest = demos.subset(np.flatnonzero(validation)) if validation.any() else None
    scores = {}
    for method in with_references([]):
        model = method.model.fit(train)
        found = {"train": model.score(train), "validation": None if rest is None else model.score(rest)}
        scores[method.id] = {"name": method.name, "predictive_ll": found}
    return scores


def continuous_scores(demos: Demonstrations, validation: npt.NDArray[np.bool_]) -> dict[str, dict[str, Any]]:
    """The same for continuous commands: log densities of one Gaussian, of one policy, and of one that remembers.

    Of large data they are fitted to `em.SOME` steps, and scored in parts on all that validation has.
    """
    most = em.SOME if demos.n_steps > em.LARGE else demos.n_steps
    taught, held_out = some_trajectories(demos, most, 0, np.flatnonzero(~validation)), np.flatnonzero(validation)
    scores = {}
    for key, name, seen in (
        ("gaussian", "the same at all times", _blind),
        ("linear", "linear in what is observed", _as_it_is),
        ("memory", f"linear in what is observed and in the last {MEMORY} steps", partial(with_memory, steps=MEMORY)),
    ):
        train = seen(demos.subset(taught))
        model = _Predictor(**one_policy().get_params()).fit(train)
        rest = [model.log_likelihood(seen(part)) for _, part in parts_of(demos, most, held_out)]
        score = float(np.concatenate(rest).mean()) if rest else None
        scores[key] = {"name": name, "predictive_ll": {"train": model.score(train), "validation": score}}
    return scores


class _Predictor(Intentions):
    """Predicts and wants nothing: the reward of a reference, which takes longer than its fit, is nobody's question."""

    def _learn_rewards(self, demos: Demonstrations) -> None:
        """Nothing to learn."""


def _blind(demos: Demonstrations) -> Demonstrations:
    return replace(demos, observations=np.zeros((demos.n_steps, 1), np.float32))


def _as_it_is(demos: Demonstrations) -> Demonstrations:
    return demos
