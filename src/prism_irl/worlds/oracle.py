"""The exact filter and smoother of a simulated world: the ceiling that no method can pass."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError

Floats = NDArray[np.float64]


class OraclePosterior(NamedTuple):
    """The exact posterior of the intention under the generating process, flat, aligned with the demonstrations.

    Attributes
    ----------
    predicted : (n, K)
        p(z_t | s_≤t, a_<t).
    filtered : (n, K)
        p(z_t | s_≤t, a_≤t).
    smoothed : (n, K)
        p(z_t | s_1..T, a_1..T).
    action_proba : (n, A)
        p(a | s_≤t, a_<t) = Σ_k predicted_k π_k(a | s_t).
    log_likelihood : (n,)
        log action_proba at the action taken; its mean is the predictive log-likelihood.
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

    Parameters
    ----------
    policies : (n, K, A)
        π_k(a | s_t) at every step.
    initial : (H,)
        Distribution of the first hidden state; those of one intention lie side by side, H / K of them.
    kernels, kernel_after : (P, H, H), (n,)
        Transitions of hidden states, and which of them follows each step.
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
