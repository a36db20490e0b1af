"""The GPU table: many fits at once, one large fit, and what the Triton kernel buys; run where there is CUDA.

    python benchmarks/gpu.py [--quick] [--out runs/gpu]

Sizes are the labyrinth's (190 trajectories of 500 steps, 127 states, 4 actions) and BridgeData V2's (60,064 ragged
trajectories, 2.26 million steps, 2048 states, 32 actions), with simulated steps: no data is needed. Every ratio is
against a named reference in the same run.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.models.intentions import Intentions
from prism_irl.models.presets import PRISM
from prism_irl.scale import stacked
from prism_irl.scale.stacked_models import Rows, recurrence
from timing import machine, write


def seconds(work: Callable[[], object], repeat: int = 3) -> float:
    """Median time after a warm-up, with the GPU finished."""
    work()
    times = []
    for _ in range(repeat):
        torch.cuda.synchronize()
        clock = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - clock)
    return float(np.median(times))


def random_walks(n: int, length: int | tuple[int, int], n_states: int, n_actions: int) -> Demonstrations:
    """Trajectories whose actions lean on the state, so that EM has something to find."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(*length, n) if isinstance(length, tuple) else np.full(n, length)
    total = int(lengths.sum())
    states = rng.integers(n_states, size=total)
    phase = np.repeat(rng.integers(2, size=total // 10 + 1), 10)[:total]
    actions = np.where(rng.random(total) < 0.7, (states + phase) % n_actions, rng.integers(n_actions, size=total))
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return Demonstrations(states, actions, offsets, n_states, n_actions)


def fit_all(models: list[Intentions], demos: Demonstrations) -> dict[str, float]:
    """Time of all fits together, and of EM alone."""
    torch.cuda.reset_peak_memory_stats()
    clock = time.perf_counter()
    stacked.fit_together(models, [demos] * len(models), device="cuda")
    torch.cuda.synchronize()
    total = time.perf_counter() - clock
    em = max(start["seconds"] for model in models for start in model.starts_)
    return {"seconds": total, "em_seconds": em, "peak_gb": torch.cuda.max_memory_allocated() / 2**30}


def ablation(iterations: int, n: int | None = None) -> list[Intentions]:
    """The paper's ablation: K = 1..6, five folds' worth of data, three seeds."""
    every = [
        PRISM.paper("labyrinth", n_intentions=K, seed=42 + seed, max_iterations=iterations)
        for seed in range(15)
        for K in range(1, 7)
    ]
    return every[:n]


def chains(iterations: int, n: int = 20) -> list[Intentions]:
    """Fits of recurrent switching, one start each, which begins with a short Markov chain."""
    options: dict[str, Any] = {
        "switching": "recurrent",
        "n_starts": 1,
        "hidden": 32,
        "embedding": 32,
        "warm_up": 2,
        "n_candidates": 1,
    }
    return [Intentions(3, seed=seed, max_iterations=iterations, patience=None, **options) for seed in range(n)]


def kernels(rows: dict[str, Any]) -> None:
    """Forward and backward of the stacked recurrence, Triton against the loop of batched products."""
    F, B, T, H, S, A = 90, 32, 500, 128, 128, 5
    generator = torch.Generator("cuda").manual_seed(0)

    def random(*shape: int, scale: float = 0.3) -> torch.Tensor:
        return (torch.randn(*shape, device="cuda", generator=generator) * scale).requires_grad_()

    n = 200 * T
    index = tuple(
        torch.randint(0, size, (n,), device="cuda", dtype=torch.int32, generator=generator) for size in (S, A)
    )
    first = torch.randint(0, 200, (F, B), device="cuda", generator=generator) * T
    batch = Rows(first, torch.full((F, B), T, device="cuda", dtype=torch.int32), T)
    tables, weight, bias = (random(F, S, H), random(F, A, H)), random(F, H, H, scale=0.08), random(F, H)
    target = torch.randn(F, B, T + 1, H, device="cuda", generator=generator)

    def work() -> tuple[torch.Tensor, ...]:
        hidden = recurrence("rnn", batch, (index[0], index[1]), tables, weight, bias)
        return torch.autograd.grad((hidden * target).sum(), [*tables, weight, bias])

    fast_gradients = work()
    fast = seconds(work)
    os.environ["PRISM_BACKEND"] = "torch"
    try:
        slow_gradients = work()
        slow = seconds(work, 1)
    finally:
        del os.environ["PRISM_BACKEND"]
    error = max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(fast_gradients, slow_gradients, strict=True))
    rows["recurrence, 90 fits × 32 × 500 steps"] = {
        "seconds": fast,
        "reference": "batched products, one launch per step",
        "reference_seconds": slow,
        "ratio": slow / fast,
        "relative_error_of_gradients": error,
    }


def many_fits(rows: dict[str, Any], demos: Demonstrations, iterations: int) -> None:
    """The K ablation and recurrent switching, all fits at once against one at a time on the same GPU."""
    few = 3
    many = fit_all(ablation(iterations), demos)
    # two, three and four intentions: one has no network, and would flatter whoever fits it alone
    alone = sum(fit_all([model], demos)["em_seconds"] for model in ablation(iterations, few + 1)[1:]) / few
    rows[f"K ablation, 90 fits × {iterations} iterations"] = many | {
        "reference": f"one fit at a time on the same GPU, mean of {few}, times 90",
        "reference_seconds": 90 * alone,
        "ratio": 90 * alone / many["em_seconds"],
    }
    many = fit_all(chains(iterations), demos)
    alone = sum(fit_all([model], demos)["seconds"] for model in chains(iterations, few)) / few
    rows[f"recurrent switching, 20 fits × {iterations} iterations"] = many | {
        "reference": f"one fit at a time on the same GPU, mean of {few}, times 20",
        "reference_seconds": 20 * alone,
        "ratio": 20 * alone / many["seconds"],
    }


def large_fit(rows: dict[str, Any]) -> None:
    """One EM iteration of the paper's model at the size of BridgeData V2."""
    bridge = random_walks(60_064, (16, 60), 2048, 32)
    model = PRISM.paper("bridge", batch_size=2048, max_iterations=10)
    result = fit_all([model], bridge)
    per_iteration = np.diff([row["seconds"] for row in model.monitor_])
    rows[f"Bridge size, {bridge.n_steps:,} steps, one EM iteration"] = {
        "seconds": float(np.median(per_iteration)),
        "peak_gb": result["peak_gb"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="20 iterations instead of 180")
    parser.add_argument("--out", type=Path, default=Path("runs/gpu"))
    options = parser.parse_args()
    title, clock = machine(), time.perf_counter()
    iterations = 20 if options.quick else 180
    rows: dict[str, Any] = {}
    demos = random_walks(190, 500, 127, 4)
    first = fit_all(ablation(2), demos)["seconds"] + fit_all(chains(2), demos)["seconds"]
    rows["the first 90 and 20 fits of a process × 2 iterations, kernels compiled or loaded"] = {"seconds": first}
    # what takes longest comes last, and each part is written when it is done
    parts: list[Callable[[dict[str, Any]], None]] = [
        kernels,
        large_fit,
        lambda rows: many_fits(rows, demos, iterations),
    ]
    for part in parts:
        part(rows)
        table = [{"work": work, "time": _time(row), "reference": _reference(row)} for work, row in rows.items()]
        command = "python benchmarks/gpu.py"
        write(options.out, command, title, time.perf_counter() - clock, quick=options.quick, rows=table, measured=rows)
    print(json.dumps(rows, indent=1))


def _time(row: dict[str, Any]) -> str:
    """Seconds, those of EM alone where they are known, and memory."""
    em = f", {row['em_seconds']:.3g} s of EM" if "em_seconds" in row else ""
    memory = f"; {row['peak_gb']:.1f} GB" if "peak_gb" in row else ""
    return f"{row['seconds']:.3g} s{em}{memory}"


def _reference(row: dict[str, Any]) -> str:
    """The reference of the same run and the ratio, where there is one."""
    if "reference" not in row:
        return ""
    return f"{row['reference']}: {row['reference_seconds']:.3g} s, {row['ratio']:.0f}×"


if __name__ == "__main__":
    main()
