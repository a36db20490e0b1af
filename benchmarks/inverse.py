"""IAVI: one linear solve against the authors' per-state sweeps and against a vectorised fixed point."""

from __future__ import annotations

import numpy as np

from prism_irl.mdp import MDP
from prism_irl.rewards.iavi import IAVI
from timing import Row, seconds

Array = np.ndarray


def maze(n_nodes: int = 127) -> MDP:
    """A binary maze as large as the labyrinth: in-left, in-right, out; leaving at the root."""
    transitions = np.zeros((n_nodes, 3, n_nodes))
    valid = np.zeros((n_nodes, 3), dtype=bool)
    for node in range(n_nodes):
        for action, successor in enumerate((2 * node + 1, 2 * node + 2, max((node - 1) // 2, 0))):
            transitions[node, action, successor if successor < n_nodes else node] = 1.0
            valid[node, action] = successor < n_nodes
    return MDP.from_dense(transitions, discount=0.97, valid_actions=valid)


def per_state_sweeps(mdp: MDP, log_policy: Array, threshold: float) -> Array:
    """As in the authors' code: a least-squares system per state, sweeps over the states until rewards stop changing."""
    S, A = mdp.valid_actions.shape
    P = mdp.transitions.toarray().reshape(S, A, S)
    r, values = np.zeros((S, A)), np.zeros(S)
    while True:
        change = 0.0
        for s in range(S):
            actions = np.flatnonzero(mdp.valid_actions[s])
            future = mdp.discount * P[s, actions] @ values
            eta = log_policy[s, actions] - future
            n = len(actions)
            system = np.eye(n) - (np.ones((n, n)) - np.eye(n)) / max(n - 1, 1) if n > 1 else np.eye(1)
            right = eta - (eta.sum() - eta) / max(n - 1, 1) if n > 1 else np.zeros(1)
            new = np.linalg.lstsq(system, right, rcond=None)[0]
            change = max(change, float(np.abs(new - r[s, actions]).max()))
            r[s, actions], values[s] = new, (new + future).max()
        if change <= threshold:
            return r


def fixed_point(mdp: MDP, log_policy: Array, threshold: float) -> Array:
    """The same fixed point with all states at once."""
    valid = mdp.valid_actions
    counts = valid.sum(1, keepdims=True)
    values, r = np.zeros(mdp.n_states), np.zeros(valid.shape)
    while True:
        future = mdp.discount * mdp.expected_values(values)
        eta = np.where(valid, log_policy - future, 0.0)
        new = np.where(valid, eta - eta.sum(1, keepdims=True) / counts, 0.0)
        values = np.where(valid, new + future, -np.inf).max(1)
        if np.abs(new - r).max() <= threshold:
            return new
        r = new


def rows() -> list[Row]:
    """Both comparisons, after a check that all three agree."""
    mdp, rng = maze(), np.random.default_rng(0)
    policy = np.where(mdp.valid_actions, rng.dirichlet(np.ones(3), mdp.n_states) + 0.05, 0.0)
    with np.errstate(divide="ignore"):
        log_policy = np.log(policy / policy.sum(1, keepdims=True))
    solver = IAVI(mdp)
    exact = solver.solve(log_policy).rewards
    np.testing.assert_allclose(fixed_point(mdp, log_policy, 1e-12), exact, atol=1e-8)
    np.testing.assert_allclose(per_state_sweeps(mdp, log_policy, 1e-4), exact, atol=0.05)
    ours = seconds(lambda: solver.solve(log_policy), 9, inner=100)
    sweeps = seconds(lambda: per_state_sweeps(mdp, log_policy, 1e-4), 1)
    vectorised = seconds(lambda: fixed_point(mdp, log_policy, 1e-9))
    return [
        Row("rewards of 127 states", "per-state sweeps to 1e-4", sweeps, ours, "10,000×"),
        Row("rewards of 127 states", "vectorised fixed point to 1e-9", vectorised, ours, "50×"),
    ]
