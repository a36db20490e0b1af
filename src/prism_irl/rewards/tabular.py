"""Weighted-count policies: the closed-form M-step of tabular rewards, with back-off over short histories.

By the identity softmax(Q) = π the IAVI reward of an intention is a function of its policy, so EM needs only
π_k(a | c) ∝ Σ_t w_tk 1[c_t = c, a_t = a]; rewards are solved afterwards (`rewards.iavi`). A context of length l
shrinks towards its parent, π_l(a|c) = (n_c(a) + m π_{l-1}(a|c')) / (n_c + m), and the policy of length 1 towards
the policy that all intentions share.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from prism_irl.arrays import BoolArray, FloatArray
from prism_irl.data.batching import Stats
from prism_irl.data.contexts import Contexts
from prism_irl.mdp import MDP
from prism_irl.rewards.base import ActionTable, Fit, PolicyTable, Problem
from prism_irl.rewards.iavi import InverseSolution
from prism_irl.rewards.iql import LearningRates, solve_iql


class TabularPolicies(PolicyTable):
    """Policies of K intentions as a table over contexts.

    Parameters
    ----------
    contexts : Contexts
        Rows of the table; with history 1 they are the states.
    valid_actions : (S, A) bool, optional
        An invalid action has probability zero.
    smoothing, backoff : float
        Pseudo-count of every valid action in every state, and strength m of the shrinkage, where contexts are longer.
    """

    learned: ClassVar[tuple[str, ...]] = ("policies", "counts")

    def __init__(
        self,
        n_intentions: int,
        n_actions: int,
        contexts: Contexts,
        valid_actions: BoolArray | None = None,
        *,
        smoothing: float = 0.01,
        backoff: float = 5.0,
    ) -> None:
        self.n_intentions, self.n_actions, self.contexts = n_intentions, n_actions, contexts
        self.smoothing, self.backoff = smoothing, backoff
        states = contexts.current_state
        valid = np.ones((len(states), n_actions), bool) if valid_actions is None else valid_actions[states]
        self.valid: BoolArray = valid
        self.policies: FloatArray = np.broadcast_to(self.uniform, (n_intentions, *valid.shape)).copy()
        self.counts: FloatArray = np.zeros_like(self.policies)

    @classmethod
    def of(cls, problem: Problem, smoothing: float) -> Self:
        """Uniform policies for a problem."""
        K, demos, contexts, backoff, *_ = problem
        return cls(K, demos.n_actions, contexts, demos.valid_actions, smoothing=smoothing, backoff=backoff)

    @property
    def exact(self) -> bool:
        """Whether `update` maximises likelihood plus `log_prior`; shrinking and individual effects come close."""
        return not self.contexts.parents and self.accents is None

    @cached_property
    def uniform(self) -> FloatArray:
        """Uniform over the valid actions of each context, (C, A)."""
        uniform: FloatArray = self.valid / self.valid.sum(-1, keepdims=True)
        return uniform

    def update(self, stats: Stats) -> None:
        """Back-off from short to long contexts, of the weighted counts."""
        self.set_counts(stats["counts"].copy() if self.contexts.parents else stats["counts"])

    def action_table(self, most: int | None = None) -> ActionTable | None:
        """The policies, unless individuals have their own, or a long memory too many."""
        if self.accents is not None or (most is not None and self.policies[0].size + self.n_actions > most):
            return None
        return ActionTable(np.ascontiguousarray(self._padded().T), self._counted)

    def _counted(self, counts: FloatArray) -> Stats:
        """The counts, those of states without a name left out."""
        return Stats(counts=np.ascontiguousarray(counts.T[:, : -self.n_actions]).reshape(self.policies.shape))

    def set_counts(self, counts: FloatArray) -> None:
        """Policies from counts (K, C, A) of steps at their own, longest contexts."""
        add_to_parents(counts, self.contexts)
        self.counts = counts
        self.policies = self._shrink(counts)

    def _shrink(self, counts: FloatArray) -> FloatArray:
        policies, states = np.empty_like(counts), slice(0, self.contexts.n_states)
        prior = self.smoothing * self.valid[states]
        seen = counts[:, states] + prior
        if self.contexts.parents:  # memory is only worth its parameters when every level may borrow from the one below
            seen += self.backoff * normalise(counts[:, states].sum(0) + prior, self.uniform[states])
        policies[:, states] = normalise(seen, self.uniform[states])
        shrink_to_parents(policies, counts, self.contexts, self.backoff, self.uniform)
        return policies

    def log_prior(self) -> float:
        """Σ smoothing · log π: what the pseudo-counts add to the objective (history 1 only)."""
        if self.smoothing == 0 or self.contexts.parents:
            return 0.0
        return float(self.smoothing * np.log(self.policies[:, self.valid]).sum())


class QLearnedPolicies(TabularPolicies):
    """The same policies, whose rewards are learned from the transitions by IQL when EM has ended (`rewards.iql`)."""

    solved: InverseSolution | None = None

    def finish(self, fit: Fit) -> None:
        """Learn rewards, Q and V, every transition weighted by the responsibilities of its step."""
        demos = fit.data.demos.with_valid_actions(fit.mdp.valid_actions)
        weights = fit.responsibilities(fit.data, partial_labels=False)
        self.solved = solve_iql(demos, weights, discount=fit.mdp.discount, rates=LearningRates())

    def solution(self, mdp: MDP) -> InverseSolution | None:
        """What was learned, which no MDP says."""
        return self.solved

    def state(self) -> dict[str, FloatArray]:
        """The table, its counts, and what was learned."""
        found = {} if self.solved is None else self.solved._asdict()
        return super().state() | {f"learned_{name}": value for name, value in found.items() if value is not None}

    def load_state(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Undo `state`."""
        learned = {name: value for name, value in state.items() if name.startswith("learned_")}
        table = {name: value for name, value in state.items() if name not in learned}
        self._set_arrays(table, *super().state())
        if learned:
            self.solved = InverseSolution(**{n.removeprefix("learned_"): v.copy() for n, v in learned.items()})


# -- back-off over a tree of contexts ----------------------------------------------------------------------------------
#
# A step counts for every suffix of its context, and a context of length l shrinks towards its parent.


def add_to_parents(counts: FloatArray, contexts: Contexts) -> None:
    """Add the counts (K, C, A) of every context to those of its suffixes, in place, from long to short ones."""
    starts = contexts.starts
    for level in range(len(contexts.parents), 0, -1):
        parents = contexts.parents[level - 1]
        for table in counts:
            for action in range(counts.shape[-1]):
                table[: starts[level], action] += np.bincount(
                    parents, weights=table[starts[level] : starts[level + 1], action], minlength=starts[level]
                )


def shrink_to_parents(
    policies: FloatArray, counts: FloatArray, contexts: Contexts, strength: float, otherwise: FloatArray
) -> None:
    """Fill in the policies (K, C, A) of all contexts longer than a state, in place, from short to long ones.

    ``counts`` (K, C, A) are of every context and all that end with it, ``strength`` is the weight m of the parent, and
    ``otherwise`` (C, A) are policies of contexts without counts, where the strength is zero.
    """
    for level, parents in enumerate(contexts.parents, start=1):
        rows = slice(contexts.starts[level], contexts.starts[level + 1])
        policies[:, rows] = normalise(counts[:, rows] + strength * policies[:, parents], otherwise[rows])


def normalise(counts: FloatArray, otherwise: FloatArray) -> FloatArray:
    """Rows of counts as probabilities; rows without any count take ``otherwise``."""
    total = counts.sum(-1, keepdims=True)
    return np.where(total > 0, counts / np.where(total > 0, total, 1.0), otherwise)
