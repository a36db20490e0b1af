"""Speed against named references in the same run, as ratios: `make bench`.

Never an assertion: machines differ. The labyrinth's size is used with simulated steps (190 trajectories of 500), so
that no data is needed; every pair is checked for equal results before it is timed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import numpy as np
import torch
from hmmlearn import base as hmm
from rich.console import Console
from rich.table import Table

from prism_irl.mdp import MDP
from prism_irl.rewards.iavi import IAVI
from prism_irl.switching.inference import infer


def seconds(work: Callable[[], object], repeat: int = 5) -> float:
    """Median wall-clock time after one warm-up call."""
    work()
    times = []
    for _ in range(repeat):
        clock = time.perf_counter()
        work()
        times.append(time.perf_counter() - clock)
    return float(np.median(times))


def maze(n_nodes: int = 127) -> MDP:
    """A binary maze as large as the labyrinth: in-left, in-right, out; leaving at the root."""
    transitions = np.zeros((n_nodes, 3, n_nodes))
    valid = np.zeros((n_nodes, 3), dtype=bool)
    for node in range(n_nodes):
        for action, successor in enumerate((2 * node + 1, 2 * node + 2, max((node - 1) // 2, 0))):
            transitions[node, action, successor if successor < n_nodes else node] = 1.0
            valid[node, action] = successor < n_nodes
    return MDP.from_dense(transitions, discount=0.97, valid_actions=valid)


def iterative_iavi(mdp: MDP, log_policy: np.ndarray, threshold: float) -> np.ndarray:
    """Per-state sweeps, as in the authors' code: least squares in each state until rewards stop changing."""
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


def fixed_point_iavi(mdp: MDP, log_policy: np.ndarray, threshold: float) -> np.ndarray:
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


class Frames(hmm.BaseHMM):
    """hmmlearn with given frame log-likelihoods, scaling implementation."""

    def __init__(self, frames: np.ndarray) -> None:
        super().__init__(n_components=frames.shape[1], implementation="scaling")
        self.frames = frames

    def _compute_log_likelihood(self, X: np.ndarray) -> np.ndarray:
        return self.frames[X[:, 0]]

    def _compute_likelihood(self, X: np.ndarray) -> np.ndarray:
        return np.exp(self.frames[X[:, 0]])


def main() -> None:
    rng = np.random.default_rng(0)
    table = Table(title=f"torch {torch.__version__}, {torch.get_num_threads()} thread(s), {os.cpu_count()} cores")
    for column in ("work", "reference", "reference s", "ours s", "ratio"):
        table.add_column(column, justify="right" if column.endswith(("s", "ratio")) else "left")

    def row(work: str, reference: str, slow: float, fast: float) -> None:
        table.add_row(work, reference, f"{slow:.4g}", f"{fast:.4g}", f"{slow / fast:,.1f}×")

    mdp = maze()
    policy = np.where(mdp.valid_actions, rng.dirichlet(np.ones(3), mdp.n_states) + 0.05, 0.0)
    with np.errstate(divide="ignore"):
        log_policy = np.log(policy / policy.sum(1, keepdims=True))
    solver = IAVI(mdp)
    exact = solver.solve(log_policy).rewards
    np.testing.assert_allclose(fixed_point_iavi(mdp, log_policy, 1e-12), exact, atol=1e-8)
    np.testing.assert_allclose(iterative_iavi(mdp, log_policy, 1e-4), exact, atol=0.05)
    ours = seconds(lambda: solver.solve(log_policy), 50)
    row("IAVI, 127 states", "per-state sweeps, 1e-4", seconds(lambda: iterative_iavi(mdp, log_policy, 1e-4), 1), ours)
    row(
        "IAVI, 127 states",
        "vectorised fixed point, 1e-9",
        seconds(lambda: fixed_point_iavi(mdp, log_policy, 1e-9)),
        ours,
    )

    B, T, K = 190, 500, 3
    log_emission = torch.from_numpy(np.log(rng.uniform(0.05, 1.0, (B, T, K))))
    kernel = torch.softmax(3.0 * torch.eye(K, dtype=torch.float64), dim=-1).log()
    initial = torch.full((K,), 1.0 / K, dtype=torch.float64).log()
    mask = torch.ones(B, T, dtype=torch.bool)

    def own() -> object:
        return infer(initial, kernel.expand(B, T, K, K), log_emission, mask)

    reference = Frames(log_emission.reshape(-1, K).numpy())
    reference.startprob_, reference.transmat_ = initial.exp().numpy(), kernel.exp().numpy()
    X, lengths = np.arange(B * T)[:, None], np.full(B, T)
    beliefs = infer(initial, kernel.expand(B, T, K, K), log_emission, mask)
    np.testing.assert_allclose(reference.predict_proba(X, lengths), beliefs.smoothed.reshape(-1, K), atol=1e-8)
    fast = seconds(own)
    row(
        "forward–backward, 95,000 steps, K=3",
        "hmmlearn, scaling",
        seconds(lambda: reference.score_samples(X, lengths)),
        fast,
    )
    os.environ["PRISM_BACKEND"] = "torch"
    row("forward–backward, 95,000 steps, K=3", "torch, log space", seconds(own), fast)
    Console().print(table)


if __name__ == "__main__":
    main()
