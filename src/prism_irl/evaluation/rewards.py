"""What the data decide about rewards, for tables, maps and intervals alike: one reward, and where it is identified.

All rewards r(s, a) that explain a policy are shapings of one another, and exactly one of them averages to 0 over the
valid actions of every state (`MDP.level`). That one is shown, whatever representative a method worked with: a method
that puts its reward on states must book the worth of entering a dead end in the dead end, where nothing is chosen; here
it stands where the choice is made. A state where an intention hardly ever chose has no reward to speak of.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prism_irl.arrays import BoolArray, FloatArray
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.labels import segments

RARE = 5.0
"""Choices of an intention in a state, from which on its reward there is called identified."""


class Explanation(NamedTuple):
    """``rewards`` and ``q`` (K, S, A) and ``values`` (K, S) of K intentions; None of what a model does not have."""

    rewards: FloatArray
    q: FloatArray | None
    values: FloatArray | None


def explanation(model: Any) -> Explanation | None:
    """The level reward of a fitted model with its values; its own where it has no other, None without rewards."""
    level = getattr(model, "canonical_", None)
    own = level[:3] if level is not None else [getattr(model, f"{n}_", None) for n in ("rewards", "q", "values")]
    K, S, A = model.n_intentions, getattr(model, "n_states_", -1), getattr(model, "n_actions_", -1)
    rewards = np.asarray(np.zeros(0) if own[0] is None else own[0], np.float64)
    if rewards.ndim == 2:
        rewards = np.repeat(rewards[..., None], A, axis=2) if A > 0 else rewards
    if rewards.shape != (K, S, A):  # rewards that change with time, say
        return None
    q, values = (None if one is None else np.asarray(one, np.float64) for one in own[1:])
    return Explanation(
        rewards,
        q if q is not None and q.shape == rewards.shape else None,
        values if values is not None and values.shape == rewards.shape[:2] else None,
    )


def choice_counts(demos: Demonstrations, probabilities: npt.ArrayLike) -> FloatArray:
    """How often each intention took each action in each state, Σ_t γ_t(k) [s_t = s, a_t = a], (K, S, A)."""
    S, A = demos.n_states, demos.n_actions
    pair = demos.states.astype(np.int64) * A + demos.actions
    weights = np.asarray(probabilities, np.float64).T
    counts = [np.bincount(pair, weights=w, minlength=S * A) for w in weights]
    return np.stack(counts).astype(np.float64).reshape(-1, S, A)


def often_enough(counts: FloatArray) -> BoolArray:
    """States in which an intention chose at least `RARE` times, (K, S), from `choice_counts`."""
    return np.asarray(counts.sum(axis=-1) >= RARE)


def leaves_choice(demos: Demonstrations) -> BoolArray:
    """States with at least two valid actions, (S,)."""
    if demos.valid_actions is None:
        return np.full(demos.n_states, demos.n_actions > 1)
    return np.asarray(demos.valid_actions.sum(axis=1) > 1)


def where_identified(found: Explanation, demos: Demonstrations, counts: FloatArray) -> BoolArray:
    """States (K, S) whose reward the data decide: chosen in `often_enough`, and not the 0 of a place without a choice.

    A reward that is not level (goals, which are places on purpose) is decided in a dead end by the choices that lead
    there.
    """
    elsewhere = np.abs(found.rewards).max(axis=-1) > 0
    return np.asarray(often_enough(counts) & (leaves_choice(demos) | elsewhere))


MAX_STATES = 400
"""A map with more places is a fog."""


def dwell_per_intention(labels: npt.ArrayLike, offsets: npt.ArrayLike, n_intentions: int) -> list[float | None]:
    """Mean length of the segments of each intention, None of one that is never used."""
    cut = segments(np.asarray(labels), np.asarray(offsets))
    lengths = (cut.lengths[cut.labels == k] for k in range(n_intentions))
    return [float(own.mean()) if len(own) else None for own in lengths]


def state_rewards(model: Any, *, own: bool = False) -> FloatArray | None:
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


def state_values(model: Any) -> FloatArray | None:
    """(K, S) value of each state under the reward of `state_rewards`; None and NaN as there."""
    found = explanation(model) if getattr(model, "n_states_", MAX_STATES + 1) <= MAX_STATES else None
    return None if found is None or found.values is None else _seen(model, found.values)


def on_map(
    model: Any, demos: Demonstrations, probabilities: npt.ArrayLike
) -> tuple[FloatArray | None, FloatArray | None]:
    """`state_rewards` and `state_values` as a page shows them: NaN where an intention hardly ever chose, too."""
    often = often_enough(choice_counts(demos, probabilities))
    rewards, values = state_rewards(model), state_values(model)
    if rewards is not None:
        rewards = np.where(often | ~leaves_choice(demos), rewards, np.nan)
    return rewards, None if values is None else np.where(often, values, np.nan)


def _seen(model: Any, rewards: FloatArray) -> FloatArray:
    unvisited = getattr(model, "unvisited_", None)
    return rewards if unvisited is None else np.where(unvisited, np.nan, rewards)
