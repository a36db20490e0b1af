"""Settings of the robot experiment: sizes, and which options the registered methods get."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prism_irl.experiments.harness import NETWORK, paper_options


@dataclass(frozen=True)
class Bridge:
    """Settings of the experiment.

    Parameters
    ----------
    dataset : folder of a LeRobot, RLDS or raw BridgeData dataset; simulated pick-and-place when None
    n_episodes, simulation_seed, frames : of the simulation
    n_intentions : K of the method table
    n_states, n_actions : sizes of the codebooks
    encoder : "proprio", "pixels", or a vision model; by default states where simulated, pixels elsewhere
    granularity_states : |S| of the granularity table
    starts, network_starts : starts of cheap models and of those with a network
    paper_iterations : EM iterations of the paper's model
    sweep, networks : numbers of intentions, and networks, of the likelihood table
    """

    dataset: Path | None = None
    n_episodes: int = 200
    simulation_seed: int = 0
    frames: bool = False
    n_intentions: int = 5
    n_states: int = 128
    n_actions: int = 32
    encoder: str | None = None
    granularity_states: tuple[int, ...] = (32, 128, 512, 1024)
    starts: int = 8
    network_starts: int = 4
    paper_iterations: int = 150
    sweep: tuple[int, ...] = (1, 2, 3, 4, 5, 6)
    networks: tuple[str, ...] = ("rnn", "lstm", "transformer")
    quick: bool = False

    @classmethod
    def of(cls, dataset: Path | None, *, quick: bool = False) -> Bridge:
        """Paper's sizes on a real dataset, small ones on the simulation; ``quick`` is a smaller honest run."""
        settings: dict[str, Any] = {"dataset": dataset, "quick": quick}
        if dataset is not None:
            settings |= {"n_intentions": 4, "n_states": 2048, "granularity_states": (1024, 2048, 3072, 4096)}
        if quick:
            settings |= {"n_episodes": 40, "starts": 3, "network_starts": 2, "paper_iterations": 20}
            settings |= {"sweep": (2, settings.get("n_intentions", 5)), "networks": ("rnn",)}
            settings |= {"n_states": 64, "granularity_states": (32, 64, 128)}
        return cls(**settings)

    def options(self) -> dict[str, dict[str, Any]]:
        """Options of the registered methods, all of which read tokens."""
        return {
            "prism-paper": paper_options("bridge", max_iterations=self.paper_iterations),
            "hiql": {"n_starts": self.starts},
            "prism-recurrent": {"n_starts": self.network_starts, "max_iterations": 60, "device": "cpu", **NETWORK},
        }
