"""How time grows with steps, intentions, states and history: curves as CSV and a figure, and the limits on them."""

from __future__ import annotations

import csv
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch

from chains import steps_like_labyrinth
from networks import ours
from prism_irl import em
from prism_irl.data.batching import Parts, Prepared
from prism_irl.data.contexts import Contexts
from prism_irl.rewards.tabular import TabularPolicies
from prism_irl.switching.inference import responsibilities
from prism_irl.switching.markov import MarkovChain
from timing import Limit, by_turns

Curve = dict[int, float]


def curve(works: dict[int, Callable[[], object]], repeat: int, inner: int = 1) -> Curve:
    """Seconds by size, of the fastest turn: other work on the machine can only slow one down."""
    times = by_turns(list(works.values()), repeat, inner).min(axis=1)
    return {size: float(time) for size, time in zip(works, times, strict=True)}


def steps(base: int) -> dict[str, Curve]:
    """An EM iteration of the paper's gate, and an E-step of the chain, on more and more trajectories."""
    gate, chain = {}, {}
    for n in (base, 2 * base, 4 * base):
        data = Prepared.of(steps_like_labyrinth(n), Contexts(127))
        start, emission = ours(data), _emission(data, 3)
        gate[data.demos.n_steps] = partial(em.em_iteration, start.switching, start.rewards, Parts(data), 0)
        chain[data.demos.n_steps] = partial(MarkovChain(3).expectation, data, emission, online=False)
    return {"EM iteration, gate": curve(gate, 21), "E-step, chain": curve(chain, 21, 5)}


def intentions(base: int) -> dict[str, Curve]:
    """E-steps given the prior: Eq. (posterior) and forward–backward."""
    gate, chain = {}, {}
    data = Prepared.of(steps_like_labyrinth(base), Contexts(127))
    for K in (2, 4, 8):
        emission = _emission(data, K)
        logits, padded = torch.randn(base, 500, K), emission.view(base, 500, K)
        gate[K] = partial(responsibilities, logits, padded)
        chain[K] = partial(MarkovChain(K).expectation, data, emission, online=False)
    return {"E-step, independent": curve(gate, 21, 5), "E-step, chain": curve(chain, 21, 5)}


def states(base: int) -> dict[str, Curve]:
    """The same steps over more states: the pass of the chain, and the count table beside it."""
    loop, table = {}, {}
    for S in (128, 512, 2048, 8192):
        data = Prepared.of(steps_like_labyrinth(base, n_states=S), Contexts(S))
        policies, emission = TabularPolicies(3, 3, Contexts(S)), _emission(data, 3)
        w = np.full((data.demos.n_steps, 3), 1 / 3)
        loop[S] = partial(MarkovChain(3).expectation, data, emission, online=False)
        table[S] = partial(policies.maximise, data, w)
    return {"E-step, chain": curve(loop, 21, 5), "count table": curve(table, 9)}


def history(base: int) -> dict[str, Curve]:
    """Policies on longer histories: their weighted counts with back-off."""
    works = {}
    demos = steps_like_labyrinth(base, n_states=16)
    for length in (1, 2, 3, 4):
        contexts = demos.with_history(length)
        data, policies = Prepared.of(demos, contexts), TabularPolicies(3, 3, contexts)
        works[length] = partial(policies.maximise, data, np.full((demos.n_steps, 3), 1 / 3))
    return {"count table": curve(works, 5)}


def _emission(data: Prepared, K: int) -> torch.Tensor:
    return torch.from_numpy(np.log(np.random.default_rng(1).uniform(0.05, 1.0, (data.demos.n_steps, K))))


def measure(base: int) -> dict[str, dict[str, Curve]]:
    """All curves, by what grows."""
    return {
        "steps": steps(base),
        "intentions": intentions(base),
        "states": states(base),
        "history": history(base),
    }


def limits(curves: dict[str, dict[str, Curve]]) -> list[Limit]:
    """What the curves must keep."""
    found = []
    for name, curve in curves["steps"].items():
        sizes = sorted(curve)
        worst = max(curve[b] / curve[a] for a, b in pairwise(sizes))
        found.append(Limit(f"twice the steps, {name}", worst, "×", 2.1))
    E = curves["intentions"]
    found.append(Limit("E-step from K=2 to 8, independent", _growth(E["E-step, independent"], 2, 8), "×", 4.5))
    found.append(Limit("E-step from K=2 to 8, chain", _growth(E["E-step, chain"], 2, 8), "×", 17.0))
    found.append(Limit("64 times the states, E-step", _growth(curves["states"]["E-step, chain"], 128, 8192), "×", 1.2))
    return found


def _growth(curve: Curve, first: int, last: int) -> float:
    return curve[last] / curve[first]


def write(curves: dict[str, dict[str, Curve]], out: Path, images: Path | None) -> Path | None:
    """CSV and figure."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    out.mkdir(parents=True, exist_ok=True)
    with (out / "growth.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["grows", "work", "size", "seconds"])
        for axis, named in curves.items():
            for name, curve in named.items():
                table.writerows([axis, name, size, f"{value:.6g}"] for size, value in curve.items())
    figure, axes = plt.subplots(1, len(curves), figsize=(3.2 * len(curves), 2.8), layout="constrained")
    for ax, (axis, named) in zip(axes, curves.items(), strict=True):
        for name, curve in named.items():
            ax.loglog(list(curve), list(curve.values()), marker="o", label=name)
        ax.set(xlabel=axis, ylabel="seconds" if axis == "steps" else "")
        ax.set_xticks(list(curve), [f"{size:,}" for size in curve])
        ax.minorticks_off()
        ax.legend(frameon=False, fontsize="x-small")
    folder = images or out
    folder.mkdir(parents=True, exist_ok=True)
    for ending in ("svg", "png"):
        figure.savefig(folder / f"bench_growth.{ending}", dpi=150)
    plt.close(figure)
    return folder / "bench_growth.svg"
