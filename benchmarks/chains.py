"""Forward–backward and a Baum–Welch iteration against hmmlearn (scaling); goals that end against plain NumPy."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch
from hmmlearn import base as hmm

from prism_irl import em
from prism_irl.data.batching import Parts, Prepared
from prism_irl.data.contexts import Contexts
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.renewal import Renewal, expected_counts
from prism_irl.rewards.tabular import TabularPolicies
from prism_irl.switching.markov import MarkovChain
from timing import Row


class Frames(hmm.BaseHMM):
    """hmmlearn with given frame log-likelihoods, scaling implementation."""

    def __init__(self, frames: np.ndarray) -> None:
        super().__init__(n_components=frames.shape[1], implementation="scaling")
        self.frames = frames

    def _compute_log_likelihood(self, X: np.ndarray) -> np.ndarray:
        return self.frames[X[:, 0]]

    def _compute_likelihood(self, X: np.ndarray) -> np.ndarray:
        return np.exp(self.frames[X[:, 0]])


def steps_like_labyrinth(n: int = 190, length: int = 500, n_states: int = 127, n_actions: int = 3) -> Demonstrations:
    """Random steps in the shape of the labyrinth's training data."""
    rng = np.random.default_rng(0)
    return Demonstrations.from_arrays(
        rng.integers(0, n_states, (n, length)), rng.integers(0, n_actions, (n, length)), n_states=n_states
    )


def rows(n: int = 190) -> list[Row]:
    """Both get the same log-likelihoods (n, K) and give smoothed probabilities and the likelihood."""
    K = 3
    data = Prepared.of(steps_like_labyrinth(n), Contexts(127))
    lengths = data.demos.lengths
    frames = np.log(np.random.default_rng(1).uniform(0.05, 1.0, (data.demos.n_steps, K)))
    emission, chain = torch.from_numpy(frames), MarkovChain(K)
    reference = Frames(frames)
    reference.startprob_, reference.transmat_ = chain.initial.numpy(), chain.kernel.numpy()
    X = np.arange(len(frames))[:, None]
    ours = chain.expectation(data, emission, online=False)
    likelihood, smoothed = reference.score_samples(X, lengths)
    np.testing.assert_allclose(ours.responsibilities, smoothed, atol=1e-8)
    np.testing.assert_allclose(ours.log_likelihood.sum(), likelihood, rtol=1e-9)
    return [
        Row.by_turns(
            f"forward–backward, {len(frames):,} steps, K={K}",
            "hmmlearn, scaling",
            lambda: reference.score_samples(X, lengths),
            lambda: chain.expectation(data, emission, online=False),
            "8×",
            61,  # a disturbance lasts for seconds: enough turns to see past one
            inner=20,
        ),
        _iteration(data, K),
        _goals(data),
    ]


def _iteration(data: Prepared, K: int) -> Row:
    """An EM iteration of a chain over tabular policies: sums alone, beside beliefs about every step."""
    policies, other = (TabularPolicies(K, data.demos.n_actions, Contexts(data.demos.n_states)) for _ in range(2))
    weights = np.random.default_rng(2).dirichlet(np.ones(K), data.n_steps)
    policies.m_step(data, weights)
    other.m_step(data, weights)
    chain, twin = MarkovChain(K), MarkovChain(K)

    def by_beliefs() -> None:
        posterior = em.expectation(twin, other, data)
        twin.update(twin.statistics(data, posterior))
        other.m_step(data, posterior.responsibilities)

    def by_counts() -> None:
        em.em_iteration(chain, policies, Parts(data))

    by_beliefs()
    by_counts()
    np.testing.assert_allclose(policies.policies, other.policies, atol=1e-9)
    work = f"EM iteration of a Markov chain over a table, {data.n_steps:,} steps, K={K}"
    return Row.by_turns(work, "the same by beliefs about every step", by_beliefs, by_counts, "", 21)


def _goals(data: Prepared, K: int = 25) -> Row:
    """Both passes of goals that end, among K places: in O(K) per step, beside matrices (K, K) written plainly."""
    rng, demos = np.random.default_rng(3), data.demos
    table = rng.uniform(0.05, 1.0, (demos.n_states * demos.n_actions, K))
    owner = np.full(demos.n_states, -1)
    owner[rng.choice(demos.n_states, K, replace=False)] = np.arange(K)
    rows, at = demos.states.astype(np.int64) * demos.n_actions + demos.actions, owner[demos.states]
    even, offsets = np.full(K, 1.0 / K), demos.offsets.astype(np.int64)
    chain = Renewal(even, even[None], np.tile([0.05, 0.5, 0.5, 0.5], (K, 1)))

    def plain() -> np.ndarray:
        smoothed = np.empty((demos.n_steps, K))
        for first, last in pairwise(offsets):
            e, f, kernels = table[rows[first:last]], smoothed[first:last], np.empty((last - first, K, K))
            for t in range(last - first):
                leaving = chain.leaving[:, 0].copy()
                if t:
                    before, now = at[first + t - 1], at[first + t]
                    if before >= 0:
                        leaving[before] = chain.leaving[before, 2 if before == now else 3]
                    if now >= 0 and now != before:
                        leaving[now] = chain.leaving[now, 1]
                kernels[t] = np.diag(1 - leaving) + leaving[:, None] * even
                f[t] = (f[t - 1] @ kernels[t] if t else even) * e[t]
                f[t] /= f[t].sum()
            b = np.ones(K)
            for t in range(last - first - 2, -1, -1):
                b = kernels[t + 1] @ (e[t + 1] * b)
                b /= b.sum()
                f[t] *= b
                f[t] /= f[t].sum()
        return smoothed

    counts = np.zeros_like(table)
    np.add.at(counts, rows, plain())
    np.testing.assert_allclose(expected_counts(chain, table, rows, at, offsets).counts, counts, atol=1e-7)
    work = f"both passes of goals that end, {demos.n_steps:,} steps, {K} places"
    return Row.by_turns(work, "plain NumPy", plain, lambda: expected_counts(chain, table, rows, at, offsets), "20×", 3)
