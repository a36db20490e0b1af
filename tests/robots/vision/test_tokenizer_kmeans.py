import numpy as np
import pytest

from prism_irl.errors import InputError
from prism_irl.robots.vision import tokenizer
from prism_irl.robots.vision.tokenizer import kmeans, nearest


@pytest.fixture(scope="module")
def blobs() -> np.ndarray:
    rng = np.random.default_rng(0)
    centres = 4 * rng.normal(size=(12, 5))
    return (centres[rng.integers(12, size=3000)] + 0.5 * rng.normal(size=(3000, 5))).astype(np.float32)


@pytest.fixture(params=["few rows", "many rows"])
def size(request, monkeypatch):
    """As if 3000 rows were few, or more than are clustered at once."""
    monkeypatch.setattr(tokenizer, "SMALL", 20_000_000 if request.param == "few rows" else 10)


def test_inertia_and_tokens_are_those_of_the_nearest_centroids(blobs, size, tmp_path):
    np.save(tmp_path / "blobs.npy", blobs)
    found = kmeans(tmp_path / "blobs.npy", 12)
    exact = ((blobs[:, None] - found.centroids[None]) ** 2).sum(-1)
    np.testing.assert_allclose(found.inertia, exact.min(1).sum(), rtol=1e-3)
    np.testing.assert_array_equal(nearest(blobs, found.centroids), exact.argmin(1))
    assert found.inertia < 0.2 * ((blobs - blobs.mean(0)) ** 2).sum()


def test_seeds_decide(blobs, size):
    runs = [kmeans(blobs, 20, seed=s) for s in (1, 1, 2)]
    np.testing.assert_array_equal(runs[0].centroids, runs[1].centroids)
    assert not np.array_equal(runs[0].centroids, runs[2].centroids)


def test_a_sample_is_nearly_as_good_as_everything(blobs, monkeypatch):
    everything = kmeans(blobs, 12)
    monkeypatch.setattr(tokenizer, "SMALL", 10)
    seen: list[tuple[str, int, int]] = []
    sampled = kmeans(blobs, 12, rows_per_cluster=50, on_progress=lambda *args: seen.append(args))
    assert sampled.inertia < 1.3 * everything.inertia
    assert seen[-1] == ("inertia", 3000, 3000)


def test_fewer_different_rows_than_clusters(size):
    rows = np.repeat(np.eye(3, dtype=np.float32), 10, axis=0)
    found = kmeans(rows, 6)
    assert found.inertia == pytest.approx(0, abs=1e-6)
    assert np.isfinite(found.centroids).all()
    assert len(np.unique(nearest(rows, found.centroids))) == 3


def test_wrong_requests(blobs):
    with pytest.raises(InputError, match="Cannot make 4000 clusters of 3000 rows"):
        kmeans(blobs, 4000)
    with pytest.raises(InputError, match="3 dimensions and the centroids 5"):
        nearest(np.zeros((2, 3)), np.zeros((2, 5), np.float32))
