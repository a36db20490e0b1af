"""Every named method on two small worlds: what the golden runs fit, by public names alone.

`python tests/golden_cases.py WRITE.npz` fits all of them and writes labels, likelihoods and rewards, and the three
models that stand for a version of the file format. The file under `tests/golden` was written by version 0.1.0, before
the package was rearranged; `tests/golden/test_golden.py` fits again and compares within tolerances that any processor
meets. Version 0.1.0 stopped every EM by validation likelihood, which is said here where it is no longer the default.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import prism_irl as prism
from prism_irl.worlds.frustration import FrustrationWorld
from worlds.labyrinth import LabyrinthWorld

# Few iterations: a network's rounding errors grow with every one, and another processor rounds differently.
SMALL: dict[str, Any] = {"n_starts": 2, "max_iterations": 6}
NET: dict[str, Any] = {
    "learning_rate": 1e-3,
    "hidden": 8,
    "embedding": 8,
    "warm_up": 5,
    "n_candidates": 2,
    "batch_size": 16,
    "device": "cpu",
}

METHODS: dict[str, Callable[[], Any]] = {
    "prism-recurrent": lambda: prism.Intentions(3, switching="recurrent", network="rnn", **SMALL, **NET),
    "prism-recurrent-h2": lambda: prism.Intentions(
        2, switching="recurrent", network="gru", history=2, recount=True, **SMALL, **NET
    ),
    "prism": lambda: prism.Intentions(3, switching="independent", network="rnn", **SMALL, **NET),
    "prism-lstm": lambda: prism.Intentions(2, switching="independent", network="lstm", l1=0.5, kl=0.2, **SMALL, **NET),
    "prism-paper": lambda: prism.PRISM.paper("labyrinth", max_iterations=6, hidden=8, embedding=8, device="cpu"),
    "prism-transformer": lambda: prism.Intentions(2, switching="independent", network="transformer", **SMALL, **NET),
    "prism-markov": lambda: prism.Intentions(
        2, switching="markov", starts="annealed", n_starts=2, n_candidates=1, validation_fraction=0.0, device="cpu"
    ),
    "prism-markov-hauto": lambda: prism.Intentions(
        2,
        switching="markov",
        history="auto",
        backoff="auto",
        recount=True,
        device="cpu",
        stop_by="validation",
        **SMALL,
    ),
    "prism-goals": lambda: prism.GoalPRISM(3, n_starts=2, max_iterations=4, device="cpu"),
    "prism-goals-h1": lambda: prism.GoalPRISM(2, history=1, backoff=5.0, habit=False, n_starts=1, device="cpu"),
    "prism-goals-recurrent": lambda: prism.GoalPRISM(
        2,
        switching="recurrent",
        history=2,
        backoff=4.0,
        n_starts=1,
        max_iterations=3,
        hidden=8,
        embedding=8,
        device="cpu",
    ),
    "hiql": lambda: prism.HIQL(3, n_starts=3, max_iterations=30, stop_by="validation"),
    "hiql-iql": lambda: prism.HIQL(2, rewards="iql", history=1, n_starts=2, max_iterations=10, stop_by="validation"),
    "mixture": lambda: prism.TrajectoryMixture(2, n_starts=3, max_iterations=30, stop_by="validation"),
    "swirl-1": lambda: prism.SWIRL(2, order=1, n_starts=2, max_iterations=4, warm_up=4, device="cpu"),
    "swirl-2": lambda: prism.SWIRL(
        2, order=2, kernel="table", invalid_actions="stay", n_starts=1, max_iterations=4, warm_up=4, device="cpu"
    ),
    "dirl": lambda: prism.DIRL(2, n_rounds=2, steps_per_round=2),
    "iavi": prism.IAVI,
    "iql": lambda: prism.IQL(epochs=3),
    "maxcausalent": lambda: prism.MaxCausalEnt(max_iterations=30),
    "maxent": lambda: prism.MaxEnt(max_iterations=30),
    "uniform": prism.Uniform,
    "empirical": prism.Empirical,
    "ngram": lambda: prism.NGram(max_length=3, reads="states", kernels=False),  # all that version 0.1.0 could do
    "bc": lambda: prism.BehaviourCloning(hidden=8, embedding=8, max_epochs=3, device="cpu"),
    "features": lambda: prism.FeaturePRISM(2, policies="softmax", n_starts=2, max_iterations=5),
    "features-recurrent": lambda: prism.FeaturePRISM(
        2,
        policies="softmax",
        switching="recurrent",
        ordered=True,
        n_starts=1,
        max_iterations=4,
        warm_up=3,
        hidden=8,
        embedding=8,
    ),
}
WITHOUT_REWARDS = ("uniform", "empirical", "ngram", "bc", "dirl", "features", "features-recurrent")
KEPT = ("prism-recurrent-h2", "prism-goals", "swirl-2")
"""Models that are kept as files of version 0.1.0."""
NETWORKS = {name for name in METHODS if name.startswith(("prism", "features-r", "bc"))} - {
    "prism-markov",
    "prism-markov-hauto",
    "prism-goals",
    "prism-goals-h1",
}
"""Trained in float32, whose rounding grows with every iteration."""
NETWORK_KERNELS = {"swirl-1"}
"""The kernel is a network in float64 that quasi-Newton steps improve: a few 1e-5 nats per step between processors."""


def tolerance(name: str) -> float:
    """Nats per step by which a method's log-likelihood may differ between processors."""
    if name in NETWORKS:
        return 1e-2
    return 1e-3 if name in NETWORK_KERNELS else 1e-6


def worlds() -> dict[str, tuple[prism.Demonstrations, prism.MDP]]:
    """A small gridworld and a small labyrinth, each with two numbers per step for policies on features."""
    grid = FrustrationWorld()
    walks = grid.simulate(48, seed=5).demonstrations
    maze = LabyrinthWorld()
    trips = maze.simulate(16, 100, seed=5).demonstrations
    return {
        "gridworld": (_with_features(walks), prism.MDP.from_dense(grid.transitions, 0.9)),
        "labyrinth": (_with_features(trips), maze.mdp),
    }


def _with_features(demos: prism.Demonstrations) -> prism.Demonstrations:
    noise = np.random.default_rng(0).normal(size=(demos.n_steps, 2))
    return replace(demos, observations=(noise + demos.states[:, None] % 5).astype(np.float32))


def run(name: str, demos: prism.Demonstrations, mdp: prism.MDP) -> tuple[Any, dict[str, np.ndarray]]:
    """Fit one method, and what is compared: labels, log-likelihood per trajectory, rewards where it has some."""
    if not name.startswith("features"):
        demos = replace(demos, observations=None)
    model = METHODS[name]()
    model.fit(demos, mdp)
    found = {
        "labels": model.predict(demos).astype(np.int8),
        "log_likelihood": np.add.reduceat(model.log_likelihood(demos), demos.offsets[:-1]),
        "paper_score": np.array(model.paper_score(demos)),
    }
    if name not in WITHOUT_REWARDS:
        found["rewards"] = np.asarray(model.rewards_)
    return model, found


if __name__ == "__main__":
    import numba
    import torch

    torch.set_num_threads(1)  # as in the tests: sums in another order round differently
    numba.set_num_threads(1)
    target = Path(sys.argv[1])
    arrays: dict[str, Any] = {"version": np.array(prism.__version__)}
    for world, (demos, mdp) in worlds().items():
        for name in METHODS:
            model, found = run(name, demos, mdp)
            print(world, name, f"{found['paper_score']:.6f}", flush=True)
            arrays |= {f"{world}/{name}/{key}": value for key, value in found.items()}
            if world == "labyrinth" and name in KEPT:
                model.save(target.parent / "models" / name)
    np.savez_compressed(target, **arrays)
