"""k-means on synthetic embeddings: seconds, peak memory and inertia of the three paths, each in its own process.

Run ``python benchmarks/clustering.py`` for a small table, and with ``--full`` for 2.26 million × 384 numbers into 2048
clusters (3.5 GB on disk). ``--backends torch --device cuda`` needs torch and NumPy alone: all rows go to the GPU and
Lloyd's algorithm runs on all of them. Never an assertion: machines differ.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

FULL = (2_260_000, 384, 2048)
SMALL = (100_000, 64, 256)
HERE = Path(__file__).resolve()


def make_data(path: Path, rows: int, columns: int, clusters: int, seed: int = 0) -> None:
    """Rows around twice as many centres as clusters, of unequal weight and spread, written a piece at a time."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(2 * clusters, columns)).astype(np.float32)
    weights = rng.dirichlet(np.full(2 * clusters, 2.0))
    spreads = rng.uniform(0.3, 0.9, size=2 * clusters).astype(np.float32)
    file = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(rows, columns))
    for start in range(0, rows, 50_000):
        n = min(50_000, rows - start)
        which = rng.choice(2 * clusters, size=n, p=weights)
        noise = rng.standard_normal(size=(n, columns), dtype=np.float32)
        file[start : start + n] = centres[which] + spreads[which, None] * noise
    file.flush()


def on_gpu(data: Path, clusters: int, iterations: int, device: str) -> tuple[float, int]:
    """All rows on the device; returns inertia and iterations."""
    import torch

    from prism_irl.robots.vision import clustering as module

    generator = torch.Generator().manual_seed(0)
    rows = torch.from_numpy(np.load(data)).to(device)
    sample = rows[torch.randperm(len(rows), generator=generator)[: max(64 * clusters, 10_000)].to(device)]
    chunks = rows.split(32768)
    centroids, done = module.lloyd(
        lambda means: module.lloyd_step(chunks, means),
        module.plus_plus(sample, clusters, generator),
        max_iterations=iterations,
        tolerance=1e-4,
    )
    return sum(float(module.assign(part, centroids)[1].double().sum()) for part in chunks), done


def in_chunks(data: Path, clusters: int, iterations: int, backend: str, device: str) -> tuple[float, int]:
    """Rows streamed from disk, with a progress bar."""
    from prism_irl.cli.progress import counting
    from prism_irl.robots.vision.clustering import kmeans

    with counting("rows") as report:
        found = kmeans(
            data,
            clusters,
            backend=backend,
            device=device,
            max_iterations=iterations,
            on_progress=lambda what, done, total: report(what, done, total, ""),
        )
    return found.inertia, found.iterations


def one(options: argparse.Namespace) -> None:
    """Run one path and print its result as JSON."""
    clock = time.perf_counter()
    if options.one == "torch" and options.device.startswith("cuda"):
        inertia, iterations = on_gpu(options.data, options.clusters, options.iterations, options.device)
    else:
        inertia, iterations = in_chunks(options.data, options.clusters, options.iterations, options.one, options.device)
    seconds = time.perf_counter() - clock
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(json.dumps({"inertia": inertia, "iterations": iterations, "seconds": seconds, "peak_gb": peak}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="2.26 million rows of 384 numbers, 2048 clusters")
    parser.add_argument("--backends", default=None, help="comma-separated [small: sklearn,torch; full: torch]")
    parser.add_argument("--device", default="cpu", help="of the torch path: cpu or cuda")
    parser.add_argument("--iterations", type=int, default=25)
    parser.add_argument("--data", type=Path, default=None, help="an npy file to reuse, made where it is missing")
    parser.add_argument("--clusters", type=int, default=None)
    parser.add_argument("--one", default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    rows, columns, clusters = FULL if options.full else SMALL
    options.clusters = options.clusters or clusters
    if options.one is not None:
        return one(options)
    backends = options.backends or ("torch" if options.full else "sklearn,torch")
    with tempfile.TemporaryDirectory() as folder:
        data = options.data or Path(folder) / "embeddings.npy"
        if not data.exists():
            print(f"making {rows} × {columns} numbers …", flush=True)
            make_data(data, rows, columns, clusters)
        print(f"{'path':<10}{'inertia':>16}{'ratio':>8}{'passes':>8}{'seconds':>10}{'peak GB':>9}")
        first = None
        for backend in backends.split(","):
            command = [sys.executable, str(HERE), "--one", backend, "--data", str(data), "--device", options.device]
            command += ["--iterations", str(options.iterations), "--clusters", str(options.clusters)]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            found = json.loads(done.stdout.strip().splitlines()[-1])
            first = first or found["inertia"]
            print(
                f"{backend:<10}{found['inertia']:>16.6g}{found['inertia'] / first:>8.4f}{found['iterations']:>8}"
                f"{found['seconds']:>10.1f}{found['peak_gb']:>9.2f}",
                flush=True,
            )
    return None


if __name__ == "__main__":
    main()
