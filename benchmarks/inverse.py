"""IAVI: one linear solve against the authors' per-state sweeps and against a vectorised fixed point."""

from __future__ import annotations

import numpy as np

from prism_irl.maze import maze_mdp
from prism_irl.mdp import MDP
from prism_irl.rewards.iavi import IAVI
from timing import Row, seconds

Array = np.ndarray


def authors_style(mdp: MDP, log_policy: Array, threshold: float) -> Array:
    """Sweep in the manner of the authors' code, over the states in reverse order.

    Each state's least-squares system is built row by row, and wherever the value of a successor is needed, the values
    of all states are taken anew from the table of Q.
    """
    S, A = mdp.valid_actions.shape
    P = mdp.transitions.toarray().reshape(S, A, S)
    r, q = np.zeros((S, A)), np.where(mdp.valid_actions, 0.0, -np.inf)

    def future(s: int, a: int) -> float:
        return float(np.sum(P[s, a] * mdp.discount * np.max(q, axis=1)))

    change = np.inf
    while change > threshold:
        change = 0.0
        for s in reversed(range(S)):
            actions = np.flatnonzero(mdp.valid_actions[s])
            n = len(actions)
            rows, targets = [], []
            for a in actions:
                others = [o for o in actions if o != a]
                rows.append([1.0 if o == a else -1.0 / (n - 1) for o in actions])
                target = log_policy[s, a] - future(s, a)
                if others:
                    logs, futures = sum(log_policy[s, o] for o in others), sum(future(s, o) for o in others)
                    target += (futures - logs) / (n - 1)
                targets.append(target if others else 0.0)
            new = np.linalg.lstsq(np.array(rows), np.array(targets), rcond=None)[0]
            change = max(change, float(np.abs(new - r[s, actions]).max()))
            r[s, actions] = new
            for a in actions:
                q[s, a] = r[s, a] + future(s, a)
    return r


def per_state_sweeps(mdp: MDP, log_policy: Array, threshold: float) -> Array:
    """The same sweeps without what is done twice: vectors over actions, and values kept beside Q."""
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
    """All comparisons, after a check that the four agree."""
    mdp, rng = maze_mdp(), np.random.default_rng(0)
    policy = np.where(mdp.valid_actions, rng.dirichlet(np.ones(mdp.n_actions), mdp.n_states) + 0.05, 0.0)
    with np.errstate(divide="ignore"):
        log_policy = np.log(policy / policy.sum(1, keepdims=True))
    solver = IAVI(mdp)
    exact = solver.solve(log_policy).rewards
    np.testing.assert_allclose(fixed_point(mdp, log_policy, 1e-12), exact, atol=1e-8)
    for sweeps in (authors_style, per_state_sweeps):
        np.testing.assert_allclose(sweeps(mdp, log_policy, 1e-4), exact, atol=0.05)
    ours = seconds(lambda: solver.solve(log_policy), 9, inner=100)
    authors = seconds(lambda: authors_style(mdp, log_policy, 1e-4), 1)
    lean = seconds(lambda: per_state_sweeps(mdp, log_policy, 1e-4), 1)
    vectorised = seconds(lambda: fixed_point(mdp, log_policy, 1e-9))
    return [
        Row("rewards on the labyrinth", "authors-style per-state sweeps to 1e-4", authors, ours, "10,000×"),
        Row("rewards on the labyrinth", "the same sweeps, nothing computed twice", lean, ours),
        Row("rewards on the labyrinth", "vectorised fixed point to 1e-9", vectorised, ours, "50×"),
    ]
