"""k-means on a GPU against the same steps on the CPU."""

from __future__ import annotations

from unittest import mock

import torch

from cuda_support import CPU, DEVICE, close, cuda
from prism_irl.robots.vision import clustering
from prism_irl.robots.vision.clustering import assign, kmeans, lloyd_step, update


def blobs(k: int = 6, n: int = 1200, m: int = 8) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    centres = 10 * torch.randn(k, m, generator=generator)
    return centres[torch.arange(n) % k] + torch.randn(n, m, generator=generator)


@cuda(chunk=[100, 5000])
def test_clusters_of_separate_blobs(chunk: int) -> None:
    data = blobs().numpy()
    expected = kmeans(data, 6, backend="torch", device="cpu")
    with mock.patch.object(clustering, "CHUNK", chunk):
        found = kmeans(data, 6, backend="torch", device=str(DEVICE))
    close(found.inertia / expected.inertia, 1.0, 1e-5)
    centroids, wanted = torch.from_numpy(found.centroids), torch.from_numpy(expected.centroids)
    nearest = torch.cdist(centroids, wanted).argmin(1)
    assert sorted(nearest.tolist()) == list(range(6))
    close(centroids, wanted[nearest], 1e-4)


@cuda()
def test_one_step_with_an_empty_cluster() -> None:
    data = blobs()
    centroids = torch.cat([data[:5], torch.full((1, 8), 1e3)])
    sums = lloyd_step(data.to(DEVICE).split(256), centroids.to(DEVICE))
    wanted = lloyd_step(data.split(256), centroids)
    assert wanted[1][5] == 0
    for one, other in zip(sums, wanted, strict=True):
        close(one, other, 1e-5)
    close(update(*sums, centroids.to(DEVICE)), update(*wanted, centroids), 1e-5)
    labels, distances = assign(data.to(DEVICE), centroids.to(DEVICE))
    assert torch.equal(labels.to(CPU), assign(data, centroids)[0])
    close(distances, assign(data, centroids)[1], 1e-5)
