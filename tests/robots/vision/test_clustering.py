from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from prism_irl.errors import InputError
from prism_irl.robots.vision import clustering
from prism_irl.robots.vision.clustering import inertia, kmeans, nearest

BACKENDS = ("sklearn", "torch")
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def blobs() -> np.ndarray:
    rng = np.random.default_rng(0)
    centres = 4 * rng.normal(size=(12, 5))
    return (centres[rng.integers(12, size=3000)] + 0.5 * rng.normal(size=(3000, 5))).astype(np.float32)


def test_the_paths_reach_the_same_inertia(blobs, tmp_path):
    np.save(tmp_path / "blobs.npy", blobs)
    sources = {"sklearn": blobs, "torch": tmp_path / "blobs.npy"}
    found = {b: kmeans(sources[b], 30, backend=b, max_iterations=50, device="cpu") for b in BACKENDS}
    assert [found[b].backend for b in BACKENDS] == list(BACKENDS)
    best = min(f.inertia for f in found.values())
    assert max(f.inertia for f in found.values()) < 1.04 * best  # small data: local optima differ by a little more
    for clusters in found.values():
        exact = ((blobs[:, None] - clusters.centroids[None]) ** 2).sum(-1)
        np.testing.assert_allclose(clusters.inertia, exact.min(1).sum(), rtol=1e-3)
        np.testing.assert_array_equal(nearest(blobs, clusters.centroids, device="cpu"), exact.argmin(1))
        np.testing.assert_allclose(inertia(blobs, clusters.centroids), clusters.inertia, rtol=1e-3)


@pytest.mark.parametrize("backend", BACKENDS)
def test_seeds_decide(blobs, backend):
    runs = [kmeans(blobs, 20, backend=backend, seed=s, device="cpu") for s in (1, 1, 2)]
    np.testing.assert_array_equal(runs[0].centroids, runs[1].centroids)
    assert not np.array_equal(runs[0].centroids, runs[2].centroids)


def test_a_sample_is_nearly_as_good_as_everything(blobs):
    everything = kmeans(blobs, 12, backend="torch", rows_per_cluster=None, device="cpu")
    seen: list[tuple[str, int, int]] = []
    sampled = kmeans(
        blobs, 12, backend="torch", rows_per_cluster=50, device="cpu", on_progress=lambda *args: seen.append(args)
    )
    assert sampled.inertia < 1.05 * everything.inertia
    assert {label for label, _, _ in seen} == {"clustering", "all rows", "inertia"}
    assert seen[-1] == ("inertia", 3000, 3000)


@pytest.mark.parametrize("backend", BACKENDS)
def test_fewer_different_rows_than_clusters(backend):
    rows = np.repeat(np.eye(3, dtype=np.float32), 10, axis=0)
    found = kmeans(rows, 6, backend=backend, device="cpu")
    assert found.inertia == pytest.approx(0, abs=1e-6)
    assert np.isfinite(found.centroids).all()
    assert len(np.unique(nearest(rows, found.centroids, device="cpu"))) == 3


def test_an_empty_cluster_takes_half_of_the_widest():
    rows = torch.cat([torch.randn(100, 2, generator=torch.Generator().manual_seed(0)), torch.full((5, 2), 50.0)])
    centroids = torch.tensor([[0.0, 0.0], [50.0, 50.0], [1e4, 1e4]])
    step = clustering.lloyd_step([rows], centroids)
    assert step[1].tolist() == [100, 5, 0]
    new = clustering.update(*step, centroids)
    labels, distances = clustering.assign(rows, new)
    assert (torch.bincount(labels, minlength=3) > 0).all()
    assert distances.sum() < step[2].sum()


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 6))
def test_no_iteration_raises_the_inertia(seed, k):
    rows = torch.randn(60, 3, generator=torch.Generator().manual_seed(seed))
    seen: list[float] = []

    def step(centroids):
        sums = clustering.lloyd_step(rows.split(17), centroids)
        seen.append(float(sums[2].sum()))
        return sums

    first = clustering.plus_plus(rows, k, torch.Generator().manual_seed(seed))
    _, iterations = clustering.lloyd(step, first, max_iterations=25, tolerance=0)
    assert iterations == len(seen) > 1
    assert all(later <= earlier * (1 + 1e-5) for earlier, later in pairwise(seen))


def test_chunks_do_not_matter(monkeypatch):
    rows = torch.randn(200, 4, generator=torch.Generator().manual_seed(3)).numpy()
    found = []
    for chunk in (7, 200):
        monkeypatch.setattr(clustering, "CHUNK", chunk)
        found.append(kmeans(rows, 5, backend="torch", device="cpu").centroids)
    np.testing.assert_allclose(*found, atol=1e-5, rtol=0)


def test_wrong_requests(blobs):
    with pytest.raises(InputError, match="Cannot make 4000 clusters of 3000 rows"):
        kmeans(blobs, 4000)
    with pytest.raises(InputError, match="no clustering backend 'magic'"):
        kmeans(blobs, 4, backend="magic")
    with pytest.raises(InputError, match="3 dimensions and the centroids 5"):
        nearest(np.zeros((2, 3)), np.zeros((2, 5), np.float32))
