"""Settings of the gridworld experiment: which methods with which options, and the paper's numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from prism_irl.experiments.harness import NETWORK
from prism_irl.worlds.frustration import FrustrationWorld

METHODS = ("prism-recurrent", "prism", "prism-paper", "hiql", "swirl-1", "iavi", "maxcausalent", "maxent", "bc")
DEMO_METHODS = ("oracle", "prism-recurrent", "prism", "prism-paper", "hiql", "iavi")

PAPER_EVD = {
    "prism-paper": (2.40, 5.60, -1.74, -6.02),
    "hiql": (2.51, 6.12, -1.95, -6.80),
    "iavi": (2.06, 6.74, -1.41, -9.20),
    "maxcausalent": (5.32, 6.67, -3.32, -9.12),
    "maxent": (6.61, 6.76, -4.16, -9.10),
}
"""Table evd of the paper: EVD (MAE) goal, abandon, EVD (s0) goal, abandon."""

EVD_COLUMNS = ("evd_goal", "evd_abandon", "evd_s0_goal", "evd_s0_abandon")


@dataclass(frozen=True)
class Gridworld:
    """Settings of the experiment.

    Parameters
    ----------
    n_trajectories, folds : the paper's 1024 and 5
    only_folds : run these folds only
    seeds : seeds of the fits
    simulation_seed : seed of the data
    starts : starts of each learned method
    paper_iterations : EM iterations of the paper's gate
    chosen : identifiers of the methods to run, all when None
    """

    n_trajectories: int = 1024
    folds: int = 5
    only_folds: tuple[int, ...] | None = None
    seeds: tuple[int, ...] = (0,)
    simulation_seed: int = 1
    starts: int = 4
    max_iterations: int = 180
    paper_iterations: int = 180
    quick: bool = False
    chosen: tuple[str, ...] | None = None
    world: FrustrationWorld = field(default_factory=FrustrationWorld)

    @classmethod
    def small(cls) -> Gridworld:
        """A smaller honest run, for `--quick`."""
        return cls(n_trajectories=640, only_folds=(0, 1), starts=2, paper_iterations=60, quick=True)

    @classmethod
    def demo(cls) -> Gridworld:
        """One split of a small simulation, for `prism demo`."""
        return cls(
            n_trajectories=512,
            only_folds=(0,),
            starts=2,
            max_iterations=60,
            paper_iterations=60,
            quick=True,
            chosen=DEMO_METHODS,
        )

    def options(self) -> dict[str, dict[str, Any]]:
        """Options of each method; a GRU of 32 units was chosen by likelihood on other simulations."""
        discount = {"discount": self.world.discount}
        learned = {
            "n_starts": self.starts,
            "max_iterations": self.max_iterations,
            **discount,
            **NETWORK,
            "batch_size": 64,
        }
        return {
            "prism-recurrent": learned,
            "prism": learned,
            "prism-paper": {"max_iterations": self.paper_iterations},
            "hiql": discount,
            "swirl-1": {"kernel": "table", "n_starts": self.starts},
            "iavi": discount,
            "maxcausalent": discount,
        }
