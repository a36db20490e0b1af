"""Rewards of policies that remember: IAVI on the augmented MDP whose states are contexts.

A context c = (s_{t-l+1}, …, s_t) and an action lead to the context that appends the next state,
P(c'|c, a) = Σ_{s'} P(s'|s_t, a) 1[c' = longest known suffix of (c, s')], so that a policy on short histories is an
ordinary policy again and IAVI applies unchanged: softmax(Q(c, ·)) = π(·|c) exactly. Only contexts that occur are
states; a successor that never occurred is replaced by its longest known suffix. For display, rewards are averaged
over the contexts that end in a node, weighted by how often the intention visits each.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import sparse

from prism_irl.data.contexts import Contexts
from prism_irl.errors import InputError
from prism_irl.mdp import MDP
from prism_irl.rewards.iavi import InverseSolution

FloatArray = npt.NDArray[np.float64]


def context_windows(contexts: Contexts) -> npt.NDArray[np.int64]:
    """The states of every context, newest first, -1 beyond its length, (C, L)."""
    windows = np.full((contexts.n_contexts, contexts.length), -1, dtype=np.int64)
    windows[: contexts.n_states, 0] = np.arange(contexts.n_states)
    for level, (parents, oldest) in enumerate(zip(contexts.parents, contexts.oldest, strict=True), start=1):
        rows = slice(contexts.starts[level], contexts.starts[level + 1])
        windows[rows] = windows[parents]
        windows[rows, level] = oldest
    return windows


def augmented_mdp(mdp: MDP, contexts: Contexts) -> MDP:
    """Return the MDP over contexts, with the discount and the valid actions of ``mdp``.

    Parameters
    ----------
    mdp : MDP
        Dynamics over the S states.
    contexts : Contexts
        The C contexts that occur; with length 1 the result has the dynamics of ``mdp``.
    """
    if mdp.n_states != contexts.n_states:
        raise InputError(
            f"The MDP has {mdp.n_states} states and the contexts are made of {contexts.n_states}; give both the same."
        )
    windows, A = context_windows(contexts), mdp.n_actions
    state = windows[:, 0]
    # Every stored P(s'|s, a), once per context that ends in s.
    rows = (state[:, None] * A + np.arange(A)).ravel()
    pointers = mdp.transitions.indptr
    counts = np.diff(pointers)[rows]
    first = np.repeat(pointers[:-1][rows], counts)
    entry = first + np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    pair = np.repeat(np.arange(len(rows)), counts)  # context · A + action
    successor = mdp.transitions.indices[entry].astype(np.int64)
    extended = np.column_stack([successor, windows[pair // A, :-1]])
    matrix = sparse.csr_array(
        (mdp.transitions.data[entry], (pair, contexts.lookup(extended))), shape=(len(rows), contexts.n_contexts)
    )
    return MDP(matrix, mdp.discount, mdp.valid_actions[state])


def own_visits(contexts: Contexts, counts: FloatArray) -> FloatArray:
    """Visits whose longest known context is c itself, (…, C), from counts (…, C, A) that include longer contexts."""
    visits: FloatArray = np.asarray(counts, dtype=np.float64).sum(-1)
    for level, parents in enumerate(contexts.parents, start=1):
        longer = counts[..., contexts.starts[level] : contexts.starts[level + 1], :].sum(-1)
        for k in np.ndindex(visits.shape[:-1]):
            visits[k] -= np.bincount(parents, weights=longer[k], minlength=contexts.n_contexts)
    # Differences of sums of responsibilities may fall below zero by rounding.
    return np.where(visits > 0.0, visits, 0.0)


def average_per_state(contexts: Contexts, values: FloatArray, visits: FloatArray) -> FloatArray:
    """Mean of values over the contexts that end in each state, weighted by visits.

    Parameters
    ----------
    contexts : Contexts
    values : (K, C, …)
        Of every context; -inf (an invalid action) stays -inf.
    visits : (K, C)
        Weights. A state that is never visited takes the value of its own context of length 1.

    Returns
    -------
    (K, S, …)
    """
    S, state = contexts.n_states, contexts.current_state
    average = np.empty((len(values), S, *values.shape[2:]))
    for k, (own, weight) in enumerate(zip(values, visits, strict=True)):
        total = np.bincount(state, weights=weight, minlength=S)
        seen = total > 0
        share = np.where(seen[state], weight / np.where(seen, total, 1.0)[state], 0.0)
        share[:S][~seen] = 1.0
        gather = sparse.csr_array((share, (state, np.arange(len(state)))), shape=(S, len(state)))
        flat = own.reshape(len(state), -1)
        impossible = np.isneginf(flat)
        mean = gather @ np.where(impossible, 0.0, flat)
        average[k] = np.where(impossible[:S], -np.inf, mean).reshape(average[k].shape)
    return average


def average_solution(contexts: Contexts, solution: InverseSolution, visits: FloatArray) -> InverseSolution:
    """Rewards, Q and V of contexts (K, C, …) as visit-weighted averages per state (K, S, …).

    The averaged reward of a state still has mean 0 over its valid actions. The averaged Q is a summary: its softmax is
    the geometric mean of the policies of the contexts that end in the state, not the policy of any of them.
    """
    rewards, q, values = (average_per_state(contexts, part, visits) for part in solution[:3])
    reached = np.array([np.bincount(contexts.current_state, weights=v, minlength=contexts.n_states) for v in visits])
    return InverseSolution(rewards, q, values, reached < 0.01)  # the same limit as `iavi.unvisited_states`
