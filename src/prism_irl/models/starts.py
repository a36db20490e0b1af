"""Starting points of EM: first responsibilities, before anything is known.

EM ends in the optimum that its start leads to, and on real data most starts lead nowhere. Three kinds: *random*
responsibilities per (state, action); *windows*: since an intention lasts for many steps, stretches of a trajectory are
clustered by what was done where (k-means), which on the frustration gridworld leads to the best known optimum nearly
always instead of one time in five; and *annealed*: random ones, after which a chain first sees its emissions to a power
β that rises to 1 (`annealing_powers`). A fit alternates between the first two unless it is told otherwise.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy import sparse

from prism_irl.data.demonstrations import Demonstrations

StartKind = Literal["random", "windows", "annealed"]
FloatArray = npt.NDArray[np.float64]
WINDOW_LENGTHS = (10, 25)
WARMEST, COOLING = 0.7, 160
"""β that annealing begins with, and the iterations over which it rises to 1."""


def first_responsibilities(
    kind: StartKind, demos: Demonstrations, n_intentions: int, generator: np.random.Generator
) -> FloatArray:
    """Responsibilities (n, K) that the first policies are made from."""
    if n_intentions == 1:
        return np.ones((demos.n_steps, 1))
    return (window_responsibilities if kind == "windows" else random_responsibilities)(demos, n_intentions, generator)


def annealing_powers() -> FloatArray:
    """Powers β of the emissions in the iterations of an annealed start (deterministic annealing).

    With π_k(a|s)^β intentions differ less and the likelihood has fewer optima; as β rises, intentions that last come
    apart before those that fit a few steps. Both numbers were chosen on validation windows of the labyrinth.
    """
    return np.linspace(WARMEST, 1.0, COOLING + 1)


def random_responsibilities(demos: Demonstrations, n_intentions: int, generator: np.random.Generator) -> FloatArray:
    """Dirichlet(2) per (state, action), the same at all its visits."""
    per_pair = generator.dirichlet(np.full(n_intentions, 2.0), demos.n_states * demos.n_actions)
    return np.asarray(per_pair[_pairs(demos)])


def window_responsibilities(demos: Demonstrations, n_intentions: int, generator: np.random.Generator) -> FloatArray:
    """Clusters of short windows by their (state, action) histograms, softened."""
    length = int(generator.choice(WINDOW_LENGTHS))
    # A random phase per start moves the cuts, so that two window starts are not the same start.
    position = demos.step_index + generator.integers(length)
    key = demos.trajectory_index * (int(demos.lengths.max()) + length) + position // length
    window = np.unique(key, return_inverse=True)[1]
    counts = sparse.csr_array(
        (np.ones(demos.n_steps), (window, _pairs(demos))), shape=(window.max() + 1, demos.n_states * demos.n_actions)
    )
    counts.sum_duplicates()
    counts.indices, counts.indptr = counts.indices.astype(np.int32), counts.indptr.astype(np.int32)  # for k-means
    sizes = np.asarray(counts.sum(axis=1)).ravel()
    counts.data = np.sqrt(counts.data / np.repeat(sizes, np.diff(counts.indptr)))
    if counts.shape[0] <= n_intentions:
        return random_responsibilities(demos, n_intentions, generator)
    cluster = _cluster(counts, n_intentions, generator)[window]
    sure = 0.8
    return np.eye(n_intentions)[cluster] * sure + (1.0 - sure) / n_intentions


def _cluster(points: sparse.csr_array, k: int, generator: np.random.Generator) -> npt.NDArray[np.int64]:
    import warnings

    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():  # few distinct windows are fine: fewer clusters start, EM grows the rest
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = KMeans(k, n_init=1, max_iter=20, random_state=int(generator.integers(2**31))).fit_predict(points)
    return np.asarray(found, dtype=np.int64)


def _pairs(demos: Demonstrations) -> npt.NDArray[np.int64]:
    return demos.states.astype(np.int64) * demos.n_actions + demos.actions
