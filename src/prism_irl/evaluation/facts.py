"""What a report says of a fitted model, read from its public attributes, so that the report never sees a model."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

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


def state_rewards(model: Any) -> npt.NDArray[np.float64] | None:
    """(K, S) reward of each state, expected under the intention's own policy; NaN where the intention never is.

    None where a model has no rewards over states, no policy of each intention to expect them under, or so many states
    that nobody would see them on a map.
    """
    if getattr(model, "n_states_", MAX_STATES + 1) > MAX_STATES:
        return None
    if not (hasattr(model, "rewards_") and hasattr(model, "policies_")):
        return None
    rewards, policies = np.asarray(model.rewards_, np.float64), np.asarray(model.policies_)
    if not len(rewards) == len(policies) == model.n_intentions:  # policies that change with time, say
        return None
    if rewards.ndim == 3:
        # Rows of single states come first in a table of histories; what is never done has no reward to count.
        policies = policies[:, : model.n_states_]
        rewards = (policies * np.where(policies > 0, rewards, 0.0)).sum(-1)
    return _seen(model, rewards)


def state_values(model: Any) -> npt.NDArray[np.float64] | None:
    """(K, S) value of each state; None and NaN as in `state_rewards`."""
    values = np.asarray(getattr(model, "values_", None), np.float64) if hasattr(model, "values_") else None
    if values is None or values.ndim != 2 or values.shape[0] != model.n_intentions:
        return None
    return _seen(model, values[:, : model.n_states_]) if model.n_states_ <= MAX_STATES else None


def _seen(model: Any, rewards: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    unvisited = getattr(model, "unvisited_", None)
    return rewards if unvisited is None else np.where(unvisited, np.nan, rewards)
