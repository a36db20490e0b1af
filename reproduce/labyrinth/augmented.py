"""The MDP over contexts, written out: what policies that remember walk on, and what `rewards.iavi` solves."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from prism_irl.data.contexts import Contexts
from prism_irl.errors import InputError
from prism_irl.mdp import MDP
from prism_irl.rewards.iavi import context_windows


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
