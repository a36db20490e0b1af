"""A learned codebook: vector quantisation with exponential averages (the extra ``robots``).

Mini-batches pull the code that is nearest to them, c ← 0.9 c + 0.1 mean(batch members), and codes that nobody uses are
replaced by rows of the batch. Second choice after k-means: it adapts to data that does not end, and its result is used
in the same way, by the nearest code.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from prism_irl.devices import resolve_device
from prism_irl.errors import InputError
from prism_irl.optional import need
from prism_irl.robots.vision.clustering import inertia
from prism_irl.robots.vision.rows import Rows, Vectors


def learned_codebook(
    rows: Rows,
    k: int,
    epochs: int,
    *,
    seed: int,
    device: str = "auto",
    on_progress: Callable[[str, int, int], None] | None = None,
) -> tuple[Vectors, float]:
    """Train ``k`` codes on the rows, a few epochs of shuffled chunks; returns codes (k, m) and their inertia."""
    module = need("vector_quantize_pytorch", "robots")
    n, m = rows.shape
    where = resolve_device(device)
    batch = min(n, max(8192, 4 * k))
    with torch.random.fork_rng(devices=[] if where == "cpu" else [where]):
        torch.manual_seed(seed)
        layer = module.VectorQuantize(
            dim=m, codebook_size=k, decay=0.9, kmeans_init=True, kmeans_iters=10, threshold_ema_dead_code=1
        ).to(where)
        layer.train()
        for epoch in range(epochs):
            done = 0
            for chunk in rows.chunks(batch):
                order = torch.randperm(len(chunk))
                if epoch == 0 and done == 0 and len(chunk) < k:
                    raise InputError(f"The first part of the data has {len(chunk)} rows, fewer than {k} codes.")
                with torch.no_grad():
                    layer(torch.from_numpy(np.array(chunk))[order].to(where)[None])
                done += len(chunk)
                if on_progress is not None:
                    on_progress("learning codes", epoch * n + done, epochs * n)
    codes = layer.codebook.detach().cpu().numpy().reshape(k, m).astype(np.float32)
    return codes, inertia(rows, codes)
