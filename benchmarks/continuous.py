"""EM iterations on 2 million steps × 32 observations × 7 commands, K = 6, beside a plain NumPy EM in the same run.

In a process of its own: seconds of an iteration with a Markov chain and with a recurrent one, peak memory, seconds of a
quarter of the data (growth must be linear), and the plain iteration of `plain_iteration`, which loops over time like a
textbook. Then the milliseconds that `segment --stream` waits for the belief of one step (K = 8), beside that of a
textbook filter in NumPy. `python benchmarks/continuous.py [steps]` prints one JSON object, `… stream` the latter alone.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from pathlib import Path

from timing import Limit

STEPS, D, M, K, LENGTH = 2_000_000, 32, 7, 6, 500


def limits(n: int = STEPS) -> list[Limit]:
    """Run this file with the same interpreter and read what it prints."""
    done = subprocess.run([sys.executable, str(Path(__file__)), str(n)], check=True, capture_output=True, text=True)
    found = json.loads(done.stdout.splitlines()[-1])
    work = f"Continuous EM iteration, {found['steps']:,} steps × {D} × {M}"
    return [
        Limit(f"{work}, Markov chain", found["markov"], "s", 10.0),
        Limit(f"{work}, recurrent chain", found["recurrent"], "s", 10.0),
        Limit(f"{work}, peak memory", found["peak_gb"], "GB", 4.0),
        Limit(f"{work}, share of a plain NumPy iteration", found["markov"] / found["plain"], "", 1.0),
        Limit(f"{work}, four times the data: times the seconds", found["growth"], "", 5.0),
        Limit(f"Belief of one step of a stream, {D} × {M}, K = 8", found["stream"], "ms", 1.0),
        Limit("The same, times a plain NumPy filter", found["stream"] / found["plain_stream"], "", 20.0),
    ]


def main(n: int) -> None:
    import numpy as np

    from prism_irl.data.demonstrations import Demonstrations

    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, D)).astype(np.float32)
    y = rng.standard_normal((n, M)).astype(np.float32)
    tokens = np.zeros(n, np.int64)
    offsets = np.arange(0, n + 1, LENGTH)
    demos = Demonstrations(tokens, tokens, offsets, 1, 1, observations=x, motions=y)
    found = {"steps": n, "markov": iteration(demos, "markov"), "recurrent": iteration(demos, "recurrent")}
    quarter = demos.subset(np.arange(len(demos) // 4))
    found["growth"] = found["markov"] / iteration(quarter, "markov")
    found["peak_gb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    found["plain"] = plain_iteration(x, y, offsets)
    found |= stream()
    print(json.dumps(found))


def iteration(demos: object, switching: str) -> float:
    """Seconds of one EM iteration, the faster of two."""
    import numpy as np

    from prism_irl import em
    from prism_irl.data.batching import Prepared
    from prism_irl.data.continuous import Units
    from prism_irl.models.intentions import Intentions
    from prism_irl.rewards.options import Features

    rewards = Features(ridge=1.0, length_scale=1.0)  # nothing is left to choose before EM
    model = Intentions(K, switching=switching, rewards=rewards, device="cpu", n_starts=1, embedding=16, hidden=16)
    model.units_ = Units.fit(demos)  # type: ignore[arg-type]
    inside = model.units_.apply(demos)  # type: ignore[arg-type]
    model._set_up(inside, None)
    data = Prepared.of(inside, model.contexts_)
    start = model._new_start(0, inside)
    start.rewards.m_step(data, np.random.default_rng(0).dirichlet(np.ones(K), inside.n_steps))
    seconds = []
    for seed in range(2):
        began = time.perf_counter()
        parts = em.parts_of(start.switching, start.rewards, data)
        em.em_iteration(start.switching, start.rewards, parts, (0, 0, seed))
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def stream(n: int = 2000, intentions: int = 8) -> dict[str, float]:
    """Milliseconds per step (median) of a fitted model's filter, and of the same recursion in plain NumPy."""
    import numpy as np

    from prism_irl.data.demonstrations import Demonstrations
    from prism_irl.models.intentions import Intentions

    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((n, D)).astype(np.float32), rng.standard_normal((n, M))
    tokens, cuts = np.zeros(n, np.int64), np.arange(0, n + 1, LENGTH)
    demos = Demonstrations(tokens, tokens, cuts, 1, 1, observations=x, motions=y)
    few = {"n_starts": 1, "max_iterations": 2, "warm_up": 1}
    model = Intentions(intentions, switching="markov", rewards="features", device="cpu", **few).fit(demos)
    weights, kernel = rng.standard_normal((intentions, M, D + 1)), np.full((intentions, intentions), 0.02)
    kernel += (1.0 - kernel.sum(axis=1)) * np.eye(intentions)
    online, belief = model.filter(), np.full(intentions, 1.0 / intentions)
    ours, plain = [], []
    for observation, command in zip(x, y, strict=True):
        began = time.perf_counter()
        online.step(observation=observation, motion=command)
        between = time.perf_counter()
        density = -0.5 * ((command - weights @ np.append(1.0, observation)) ** 2).sum(axis=1)
        belief = belief @ kernel * np.exp(density - density.max())
        belief /= belief.sum()
        plain.append(time.perf_counter() - between)
        ours.append(between - began)
    return {"stream": 1e3 * float(np.median(ours)), "plain_stream": 1e3 * float(np.median(plain))}


def plain_iteration(x: object, y: object, offsets: object) -> float:
    """A textbook EM iteration: forward and backward over time with all trajectories side by side, then regressions."""
    import numpy as np

    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    N, T = len(np.asarray(offsets)) - 1, LENGTH
    design = np.concatenate([np.ones((len(x), 1)), x], axis=1)
    rng = np.random.default_rng(0)
    weights, kernel = rng.standard_normal((K, M, D + 1)) * 0.1, np.full((K, K), 0.02) + 0.88 * np.eye(K)
    began = time.perf_counter()
    density = np.stack([-0.5 * ((y - design @ w.T) ** 2).sum(axis=1) for w in weights], axis=1)
    likelihood = np.exp(density - density.max(axis=1, keepdims=True)).reshape(N, T, K)
    forward, backward = np.empty((N, T, K)), np.ones((N, T, K))
    forward[:, 0] = likelihood[:, 0] / likelihood[:, 0].sum(axis=1, keepdims=True)
    for t in range(1, T):
        step = forward[:, t - 1] @ kernel * likelihood[:, t]
        forward[:, t] = step / step.sum(axis=1, keepdims=True)
    for t in range(T - 2, -1, -1):
        step = (likelihood[:, t + 1] * backward[:, t + 1]) @ kernel.T
        backward[:, t] = step / step.sum(axis=1, keepdims=True)
    smoothed = forward * backward
    smoothed = (smoothed / smoothed.sum(axis=2, keepdims=True)).reshape(-1, K)
    for k in range(K):
        weighted = design * smoothed[:, k, None]
        np.linalg.solve(weighted.T @ design + np.eye(D + 1), weighted.T @ y)
    return time.perf_counter() - began


if __name__ == "__main__":
    if sys.argv[1:] == ["stream"]:
        print(json.dumps(stream()))
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else STEPS)
