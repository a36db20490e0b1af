"""What simulated worlds share: a square grid, seeded draws, and the exact posterior of the truth.

State = size·y + x; y grows upwards, so that (0, 0) is the lower left corner of a map. A chosen action is executed with
probability `success`, otherwise one of the five is drawn uniformly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError


def generator(n_trajectories: int, seed: int | np.random.Generator) -> np.random.Generator:
    """The one source of randomness of a simulation, which has at least one trajectory."""
    if n_trajectories < 1:
        raise InputError(f"n_trajectories is {n_trajectories}; simulate at least 1.")
    return np.random.default_rng(seed)


def cumulative(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cumulative sums that end at exactly one, so that rounding never draws an outcome of probability zero."""
    cdf: NDArray[np.float64] = probabilities.cumsum(axis=-1)
    return cdf / cdf[..., -1:]


def draw(cdf: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw one outcome per row of (N, M) cumulative probabilities."""
    return np.asarray((rng.random((len(cdf), 1)) < cdf).argmax(axis=1), np.int64)


def check_settings(
    world: Any, *, counts: Sequence[str], probabilities: Sequence[str], not_negative: Sequence[str]
) -> None:
    """Refuse settings of a world that are out of range; its ``discount``, where it has one, lies from 0 to below 1."""
    for names, fits, what in (
        (counts, lambda value: value >= 1, "at least 1"),
        (probabilities, lambda value: 0 <= value <= 1, "a probability between 0 and 1"),
        (not_negative, lambda value: 0 <= value < np.inf, "a finite number that is not negative"),
        (("discount",), lambda value: 0 <= value < 1, "a number from 0 to below 1"),
    ):
        for name in (name for name in names if hasattr(world, name)):
            if not fits(getattr(world, name)):
                raise InputError(f"{name} is {getattr(world, name)}; give {what}.")


Floats = NDArray[np.float64]
Cell = tuple[int, int]
ACTIONS = ("up", "down", "left", "right", "stay")
_MOVES = np.array([(0, 1), (0, -1), (-1, 0), (1, 0), (0, 0)])  # (dx, dy)


def check_cells(size: int, cells: Sequence[Cell]) -> None:
    """Refuse cells (x, y) that are not on the grid."""
    for cell in cells:
        if not all(0 <= coordinate < size for coordinate in cell):
            raise InputError(f"cell {cell} lies outside the {size}×{size} grid; move it inside.")


def moves(size: int, barriers: Sequence[Cell] = ()) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """(S, A) where each executed action leads, and (S, A) whether a barrier or the outer wall blocked it."""
    cells = np.stack([np.arange(size**2) % size, np.arange(size**2) // size], axis=1)
    target = cells[:, None] + _MOVES
    blocked = ((target < 0) | (target >= size)).any(axis=2)
    for barrier in barriers:
        blocked |= (target == barrier).all(axis=2)
    blocked[:, ACTIONS.index("stay")] = False
    target = np.where(blocked[..., None], cells[:, None], target)
    return target @ np.array([1, size]), blocked


def slip(successor: NDArray[np.int64], success: float) -> Floats:
    """(S, A, S) the chosen action with probability ``success``, else a uniformly drawn one."""
    executed = np.eye(len(successor))[successor]
    return np.asarray(success * executed + (1 - success) * executed.mean(axis=1, keepdims=True), np.float64)


def target_rewards(n_states: int, targets: Sequence[int]) -> Floats:
    """(K, S, A) rewards that are received in the target: r_k(s, a) = 1[s = target k]."""
    rewards = np.zeros((len(targets), n_states, len(ACTIONS)))
    rewards[np.arange(len(targets)), list(targets)] = 1
    return rewards


def optimal_q(rewards: Floats, transitions: Floats, discount: float) -> Floats:
    """(K, S, A) optimal Q of each reward, by value iteration."""
    values, change = np.zeros(rewards.shape[:2]), np.inf
    while change > 1e-12:
        q = rewards + discount * np.einsum("sat,kt->ksa", transitions, values)
        change = np.abs(q.max(axis=2) - values).max()
        values = q.max(axis=2)
    return np.asarray(q, np.float64)


# -- the exact filter and smoother of a simulated world: the ceiling that no method can pass ---------------------------


class OraclePosterior(NamedTuple):
    """The exact posterior of the intention under the generating process, flat, aligned with the demonstrations.

    ``predicted`` p(z_t | s_≤t, a_<t), ``filtered`` p(z_t | s_≤t, a_≤t) and ``smoothed`` p(z_t | s_1..T, a_1..T), (n, K)
    each; ``action_proba`` (n, A), p(a | s_≤t, a_<t) = Σ_k predicted_k π_k(a | s_t); ``log_likelihood`` (n,), its log at
    the action taken, whose mean is the predictive log-likelihood.
    """

    predicted: Floats
    filtered: Floats
    smoothed: Floats
    action_proba: Floats
    log_likelihood: Floats


def known_ids(demos: Demonstrations, n_states: int, n_actions: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """States and actions (n,) of demonstrations, after a check that a world of this size has all of them."""
    s, a = np.asarray(demos.states, np.int64), np.asarray(demos.actions, np.int64)
    for name, values, n in (("state", s, n_states), ("action", a, n_actions)):
        if values.max() >= n:
            worst = f"{demos.where(int(values.argmax()))} has {name} {values.max()}"
            raise InputError(f"{worst}, but this world has {name}s 0 to {n - 1}.")
    return s, a


def exact_posterior(
    demos: Demonstrations, policies: Floats, initial: Floats, kernels: Floats, kernel_after: NDArray[np.int64]
) -> OraclePosterior:
    """Forward and backward pass over hidden states of which the intention is one part.

    State transitions do not depend on the intention once the action is known, so they drop out of the evidence.
    ``policies`` (n, K, A) are π_k(a | s_t), ``initial`` (H,) the distribution of the first hidden state, of which H / K
    of one intention lie side by side; ``kernel_after`` (n,) says which of the ``kernels`` (P, H, H) follows each step.
    """
    n, K, _ = policies.shape
    emission = np.repeat(policies[np.arange(n), :, demos.actions], len(initial) // K, axis=1)
    predicted, filtered, backward = np.ones((3, *emission.shape))
    evidence = np.ones((n, 1))
    # All trajectories move together, step by step; those that are over drop out.
    times = [demos.offsets[:-1][demos.lengths > t] + t for t in range(int(demos.lengths.max()))]
    for t, now in enumerate(times):
        before = now - 1
        moved = filtered[before, None] @ kernels[kernel_after[before]] if t else initial[None, None]
        predicted[now] = moved[:, 0]
        joint = predicted[now] * emission[now]
        evidence[now] = joint.sum(axis=1, keepdims=True)
        if not (evidence[now] > 0).all():
            place = demos.where(int(now[np.argmin(evidence[now])]))
            raise InputError(f"{place}: no intention of this world can take this action; lower beta.")
        filtered[now] = joint / evidence[now]
    for later in reversed(times[1:]):
        message = emission[later] * backward[later] / evidence[later]
        backward[later - 1] = (kernels[kernel_after[later - 1]] @ message[..., None])[..., 0]

    def intentions(hidden: Floats) -> Floats:
        """Sum out whatever else is hidden: (n, H) to (n, K)."""
        marginal: Floats = hidden.reshape(n, K, -1).sum(axis=2)
        marginal /= marginal.sum(axis=1, keepdims=True)
        return marginal

    prior = intentions(predicted)
    return OraclePosterior(
        predicted=prior,
        filtered=intentions(filtered),
        smoothed=intentions(filtered * backward),
        action_proba=np.einsum("nk,nka->na", prior, policies),
        log_likelihood=np.log(evidence[:, 0]),
    )
