"""Starting points of EM: first responsibilities, before anything is known.

EM ends in the optimum that its start leads to, and on real data most starts lead nowhere. Three kinds: *random*
responsibilities per (state, action); *windows*: since an intention lasts for many steps, stretches of a trajectory are
clustered by what was done where (k-means), which on the frustration gridworld leads to the best known optimum nearly
always instead of one time in five; and *annealed*: random ones, after which a chain first sees its emissions to a power
β that rises to 1 (`annealing_powers`); *goals*: the posterior of goals that end, which the search for places finds. A
fit alternates between the first two unless it is told otherwise.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from scipy import sparse

from prism_irl import em
from prism_irl.arrays import FloatArray, IntArray
from prism_irl.data.batching import Prepared
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.rewards.options import RewardOptions
from prism_irl.switching.chain import Chain
from prism_irl.switching.markov import MarkovChain
from prism_irl.switching.options import SwitchingOptions

StartKind = Literal["random", "windows", "annealed", "goals"]
WINDOW_LENGTHS = (10, 25)
DESCRIBED_LENGTHS = (4, 8, 12)
"""Steps of the windows of robots; phases of manipulation last about that long."""
SURE = 0.8  # of the cluster that a window is in
WARMEST, COOLING = 0.7, 160
"""β that annealing begins with, and the iterations over which it rises to 1."""


def first_responsibilities(
    kind: StartKind,
    demos: Demonstrations,
    n_intentions: int,
    generator: np.random.Generator,
    switching: SwitchingOptions | None = None,
    rewards: RewardOptions | None = None,
) -> FloatArray:
    """Responsibilities (n, K) that the first policies are made from; either half may have its own idea of them."""
    if n_intentions == 1:
        return np.ones((demos.n_steps, 1))
    own = None if switching is None else switching.first_responsibilities(kind, demos, n_intentions, generator)
    if own is not None:
        return own
    described = None if rewards is None else rewards.describe(demos)
    if described is not None:
        spread = described.std(axis=0)
        scaled = described - described.mean(axis=0)
        scaled /= np.where(spread > 1e-9, spread, 1.0)  # in place: these are the largest arrays of a fit
        length = int(generator.choice(DESCRIBED_LENGTHS))
        shift = generator.integers(length, size=demos.n_trajectories)  # so that two starts cut elsewhere
        window = _windows(demos, length, np.repeat(shift, demos.lengths))
        means = np.stack([np.bincount(window, column) for column in scaled.T], axis=1) / np.bincount(window)[:, None]
        if len(means) <= n_intentions:
            return _softened(generator.integers(n_intentions, size=demos.n_steps), n_intentions)
        labels = clusters(means, n_intentions, int(generator.integers(2**31)), max_iter=300)
        return _softened(labels[window], n_intentions)
    if kind == "goals":
        from prism_irl.mdp import MDP
        from prism_irl.rewards.places import posterior_of_goals

        return posterior_of_goals(demos, MDP.from_demonstrations(demos, 0.95), n_intentions)
    return (window_responsibilities if kind == "windows" else random_responsibilities)(demos, n_intentions, generator)


def fixed_run(
    data: Prepared, emission: FloatArray, iterations: int, *, places: FloatArray | None = None
) -> tuple[float, Chain]:
    """Likelihood per step of a Markov chain over fixed emissions (n, K) after some iterations, and the chain.

    With ``places`` (K, d) every intention ends at its own (`switching.places`), which does not move.
    """
    chain: Chain = MarkovChain(emission.shape[1])
    if places is not None:
        from prism_irl.switching.places import PlaceChain

        chain = PlaceChain.at(places)
    return em.short_run(chain, None, data, iterations, emission=emission), chain


def annealing_powers() -> FloatArray:
    """Powers β of the emissions in the iterations of an annealed start (deterministic annealing).

    With π_k(a|s)^β intentions differ less and the likelihood has fewer optima; as β rises, intentions that last come
    apart before those that fit a few steps. Both numbers were chosen on validation windows of the labyrinth.
    """
    return np.linspace(WARMEST, 1.0, COOLING + 1)


def random_responsibilities(demos: Demonstrations, n_intentions: int, generator: np.random.Generator) -> FloatArray:
    """Dirichlet(2) per (state, action), the same at all its visits."""
    per_pair = generator.dirichlet(np.full(n_intentions, 2.0), demos.n_states * demos.n_actions)
    return np.asarray(per_pair[demos.states.astype(np.int64) * demos.n_actions + demos.actions])


def window_responsibilities(demos: Demonstrations, n_intentions: int, generator: np.random.Generator) -> FloatArray:
    """Clusters of short windows by their (state, action) histograms, softened."""
    length = int(generator.choice(WINDOW_LENGTHS))
    # A random phase per start moves the cuts, so that two window starts are not the same start.
    window = _windows(demos, length, generator.integers(length))
    pairs, size = demos.states.astype(np.int64) * demos.n_actions + demos.actions, demos.n_states * demos.n_actions
    counts = sparse.csr_array((np.ones(demos.n_steps), (window, pairs)), shape=(window.max() + 1, size))
    counts.sum_duplicates()
    counts.indices, counts.indptr = counts.indices.astype(np.int32), counts.indptr.astype(np.int32)  # for k-means
    sizes = np.asarray(counts.sum(axis=1)).ravel()
    counts.data = np.sqrt(counts.data / np.repeat(sizes, np.diff(counts.indptr)))
    if counts.shape[0] <= n_intentions:
        return random_responsibilities(demos, n_intentions, generator)
    labels = clusters(counts, n_intentions, int(generator.integers(2**31)), max_iter=20)
    return _softened(labels[window], n_intentions)


def _windows(demos: Demonstrations, length: int, shift: Any) -> IntArray:
    """Number of the window that each step lies in, (n,); windows end with their trajectory."""
    key = demos.trajectory_index * (int(demos.lengths.max()) + 2 * length) + (demos.step_index + shift) // length
    return np.asarray(np.unique(key, return_inverse=True)[1], dtype=np.int64)


def _softened(labels: IntArray, n_intentions: int) -> FloatArray:
    return np.asarray(np.eye(n_intentions)[labels] * SURE + (1.0 - SURE) / n_intentions)


def clusters(points: Any, k: int, seed: int, *, max_iter: int) -> IntArray:
    """Cluster of every row of a matrix (n, m), dense or sparse, (n,), by k-means."""
    import warnings

    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():  # few distinct rows are fine: fewer clusters start, EM grows the rest
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = KMeans(k, n_init=1, max_iter=max_iter, random_state=seed).fit_predict(points)
    return np.asarray(found, dtype=np.int64)
