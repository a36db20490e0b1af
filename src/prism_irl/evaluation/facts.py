"""What a report says of a fitted model, read from its public attributes, so that the report never sees a model."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.evaluation.identified import choice_counts, explanation, leaves_choice, often_enough
from prism_irl.labels import mean_dwell, segments

MAX_STATES = 400
"""A map with more places is a fog."""


def fit_facts(model: Any, labels: npt.ArrayLike, offsets: npt.ArrayLike) -> dict[str, Any]:
    """Return what the report's verdict reads of a fitted model, from its public attributes; missing ones stay out."""
    z = np.asarray(labels)
    facts: dict[str, Any] = {
        "n_intentions": model.n_intentions,
        "usage": np.bincount(z, minlength=model.n_intentions) / len(z),
        "mean_dwell": mean_dwell(z, offsets),
        "dwell_per_intention": dwell_per_intention(z, offsets, model.n_intentions),
    }
    if hasattr(model, "converged_"):
        starts = getattr(model, "starts_", [])
        # How many were run; the one that was kept may be earlier.
        run = [start["iterations"] for start in starts if start.get("best") and "iterations" in start]
        facts["em"] = {
            "converged": model.converged_,
            "fixed": getattr(model, "patience", 0) is None,
            "iterations": run[0] if run else getattr(model, "n_iterations_", None),
            "kept": getattr(model, "n_iterations_", None),
            "starts": len(starts) or None,
        }
    if hasattr(model, "agreement_"):
        facts["agreement"] = model.agreement_
    return facts


def dwell_per_intention(labels: npt.ArrayLike, offsets: npt.ArrayLike, n_intentions: int) -> list[float | None]:
    """Mean length of the segments of each intention, None of one that is never used."""
    cut = segments(np.asarray(labels), np.asarray(offsets))
    lengths = (cut.lengths[cut.labels == k] for k in range(n_intentions))
    return [float(own.mean()) if len(own) else None for own in lengths]


def state_rewards(model: Any, *, own: bool = False) -> npt.NDArray[np.float64] | None:
    """(K, S) reward of each state, expected under the intention's own policy; NaN where the intention never is.

    The reward is the level one (`identified.explanation`), which is 0 where there is no choice; with ``own`` the
    representative that the method worked with, as papers show it. None where a model has no rewards over states, no
    policy of each intention to expect them under, or so many states that nobody would see them on a map.
    """
    if getattr(model, "n_states_", MAX_STATES + 1) > MAX_STATES:
        return None
    if not (hasattr(model, "rewards_") and hasattr(model, "policies_")):
        return None
    level = None if own else explanation(model)
    rewards = np.asarray(model.rewards_, np.float64) if level is None else level.rewards
    policies = np.asarray(model.policies_)
    if not len(rewards) == len(policies) == model.n_intentions:  # policies that change with time, say
        return None
    if rewards.ndim == 3:
        # Rows of single states come first in a table of histories; what is never done has no reward to count.
        policies = policies[:, : model.n_states_]
        rewards = (policies * np.where(policies > 0, rewards, 0.0)).sum(-1)
    return _seen(model, rewards)


def state_values(model: Any) -> npt.NDArray[np.float64] | None:
    """(K, S) value of each state under the reward of `state_rewards`; None and NaN as there."""
    found = explanation(model) if getattr(model, "n_states_", MAX_STATES + 1) <= MAX_STATES else None
    return None if found is None or found.values is None else _seen(model, found.values)


def on_map(
    model: Any, demos: Demonstrations, probabilities: npt.ArrayLike
) -> tuple[npt.NDArray[np.float64] | None, npt.NDArray[np.float64] | None]:
    """`state_rewards` and `state_values` as a page shows them: NaN where an intention hardly ever chose, too."""
    often = often_enough(choice_counts(demos, probabilities))
    rewards, values = state_rewards(model), state_values(model)
    if rewards is not None:
        rewards = np.where(often | ~leaves_choice(demos), rewards, np.nan)
    return rewards, None if values is None else np.where(often, values, np.nan)


def _seen(model: Any, rewards: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    unvisited = getattr(model, "unvisited_", None)
    return rewards if unvisited is None else np.where(unvisited, np.nan, rewards)
