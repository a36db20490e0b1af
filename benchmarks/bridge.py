"""EM iterations on synthetic data of BridgeData's size, in a process of its own: seconds and peak memory.

60,064 trajectories, 2.26 million steps, |S| = 2048, |A| = 32, K = 4, the paper's gate (RNN, 128 units). The fastest
of three iterations counts: other work on the machine can only slow one down.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from pathlib import Path

from timing import Limit, all_cores

N, STEPS, S, A, K = 60_064, 2_260_000, 2048, 32, 4


def limits(n: int = N) -> list[Limit]:
    """Run this file with the same interpreter and read what it prints."""
    done = subprocess.run([sys.executable, str(Path(__file__)), str(n)], check=True, capture_output=True, text=True)
    found = json.loads(done.stdout.splitlines()[-1])
    work = f"Bridge-sized EM iteration, {found['steps']:,} steps"
    return [
        Limit(work, found["seconds"], "s", 15.0),
        Limit(f"{work}, peak memory", found["peak_gb"], "GB", 3.0),
    ]


def main(n: int) -> None:
    import numpy as np
    import torch

    from prism_irl import em
    from prism_irl.data.batching import Parts, Prepared
    from prism_irl.data.contexts import Contexts
    from prism_irl.data.demonstrations import Demonstrations
    from prism_irl.models.starts import random_responsibilities
    from prism_irl.rewards.tabular import TabularPolicies
    from prism_irl.switching.gate import Gate
    from prism_irl.switching.networks import HistoryNetwork, Optimiser

    all_cores()
    rng = np.random.default_rng(0)
    lengths = rng.integers(20, 56, n)
    missing = round(STEPS * n / N) - int(lengths.sum())
    lengths[: abs(missing)] += np.sign(missing)  # 2.26 million exactly
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    steps = int(offsets[-1])
    demos = Demonstrations(
        rng.integers(0, S, steps, dtype=np.uint16), rng.integers(0, A, steps, dtype=np.uint8), offsets, S, A
    )
    contexts = Contexts(S)
    torch.manual_seed(0)
    network = HistoryNetwork(
        "rnn",
        n_states=S,
        n_actions=A,
        n_observations=0,
        n_outputs=K,
        embedding=128,
        hidden=128,
        observe="current",
    )
    gate = Gate(network, K, l1=0.0, kl=0.0, optimiser=Optimiser(learning_rate=1e-3, batch_size=32))
    start = em.Start(0, gate, TabularPolicies(K, A, contexts, smoothing=0.01), em.Monitor(em.Stopping(1, None)))
    some = demos.subset(range(64))
    start.rewards.m_step(Prepared.of(some, contexts), random_responsibilities(some, K, rng))
    em.em_iteration(gate, start.rewards, Parts(Prepared.of(some, contexts)), 0)  # compiles
    data = Prepared.of(demos, contexts)

    def seconds(iteration: int) -> float:
        clock = time.perf_counter()
        em.em_iteration(gate, start.rewards, Parts(data), iteration)
        return time.perf_counter() - clock

    found = {
        "steps": steps,
        "seconds": min(seconds(i) for i in range(3)),
        "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else N)
