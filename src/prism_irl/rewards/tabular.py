"""Weighted-count policies: the closed-form M-step of tabular rewards, with back-off over short histories.

By the identity softmax(Q) = π the IAVI reward of an intention is a function of its policy, so EM needs only
π_k(a | c) ∝ Σ_t w_tk 1[c_t = c, a_t = a]; rewards are solved afterwards (`rewards.iavi`). A context of length l
shrinks towards its parent, π_l(a|c) = (n_c(a) + m π_{l-1}(a|c')) / (n_c + m), and the policy of length 1 towards
the policy that all intentions share.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from prism_irl.data.batching import Prepared
from prism_irl.data.contexts import Contexts
from prism_irl.errors import InputError
from prism_irl.rewards.backoff import add_to_parents, normalise, shrink_to_parents
from prism_irl.rewards.base import FloatArray, PolicyTable


class TabularPolicies(PolicyTable):
    """Policies of K intentions as a table over contexts.

    Parameters
    ----------
    n_intentions, n_actions : int
    contexts : Contexts
        Rows of the table; with history 1 they are the states.
    valid_actions : (S, A) bool, optional
        An invalid action has probability zero.
    smoothing : float
        Pseudo-count of every valid action in every state.
    backoff : float
        Strength m of the shrinkage towards shorter histories; used when contexts are longer than 1.
    """

    def __init__(
        self,
        n_intentions: int,
        n_actions: int,
        contexts: Contexts,
        valid_actions: npt.NDArray[np.bool_] | None = None,
        *,
        smoothing: float = 0.01,
        backoff: float = 5.0,
    ) -> None:
        if not (smoothing >= 0 and backoff >= 0):
            raise InputError("The smoothing and the back-off strength must not be negative.")
        self.n_intentions, self.n_actions, self.contexts = n_intentions, n_actions, contexts
        self.smoothing, self.backoff = smoothing, backoff
        states = contexts.current_state
        valid = np.ones((len(states), n_actions), bool) if valid_actions is None else valid_actions[states]
        self.valid: npt.NDArray[np.bool_] = valid
        self.policies: FloatArray = np.broadcast_to(self.uniform, (n_intentions, *valid.shape)).copy()
        self.counts: FloatArray = np.zeros_like(self.policies)

    @property
    def exact(self) -> bool:
        """Whether `maximise` maximises likelihood plus `log_prior`; shrinking and accents are approximations."""
        return not self.contexts.parents and self.accents is None

    @cached_property
    def uniform(self) -> FloatArray:
        """Uniform over the valid actions of each context, (C, A)."""
        uniform: FloatArray = self.valid / self.valid.sum(-1, keepdims=True)
        return uniform

    def maximise(self, data: Prepared, responsibilities: FloatArray) -> None:
        """Weighted counts, then back-off from short to long contexts."""
        self.set_counts(self.weighted_counts(data, responsibilities))

    def choice_table(self, most: int | None = None) -> FloatArray | None:
        """The policies, unless individuals have their own, a subclass another M-step, or a long memory too many."""
        kind = type(self)
        if most is not None and self.policies[0].size + self.n_actions > most:
            return None
        own = kind.maximise is TabularPolicies.maximise and kind.log_likelihood is PolicyTable.log_likelihood
        return np.ascontiguousarray(self._padded().T) if own and self.accents is None else None

    def maximise_counts(self, choices: FloatArray) -> None:
        """Back-off from expected counts."""
        self.set_counts(np.ascontiguousarray(choices.T[:, : -self.n_actions]).reshape(self.policies.shape))

    def set_counts(self, counts: FloatArray) -> None:
        """Policies from counts (K, C, A) of steps at their own, longest contexts."""
        add_to_parents(counts, self.contexts)
        self.counts = counts
        self.policies = self._shrink(counts)

    def _shrink(self, counts: FloatArray) -> FloatArray:
        policies = np.empty_like(counts)
        states = slice(0, self.contexts.n_states)
        prior = self.smoothing * self.valid[states]
        if self.contexts.parents:  # memory is only worth its parameters when every level may borrow from the one below
            shared = normalise(counts[:, states].sum(0) + prior, self.uniform[states])
            policies[:, states] = normalise(counts[:, states] + prior + self.backoff * shared, self.uniform[states])
        else:
            policies[:, states] = normalise(counts[:, states] + prior, self.uniform[states])
        shrink_to_parents(policies, counts, self.contexts, self.backoff, self.uniform)
        return policies

    def log_prior(self) -> float:
        """Σ smoothing · log π: what the pseudo-counts add to the objective (history 1 only)."""
        if self.smoothing == 0 or self.contexts.parents:
            return 0.0
        return float(self.smoothing * np.log(self.policies[:, self.valid]).sum())

    def state(self) -> dict[str, FloatArray]:
        """Return the table and its counts."""
        return {"policies": self.policies, "counts": self.counts}
