"""Settings of the gridworld experiment: which methods with which options, and the paper's numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from prism_irl.experiments.harness import NETWORK
from prism_irl.worlds.frustration import FrustrationWorld

METHODS = (
    "prism-recurrent",
    "recurrent+soft-1",
    "prism",
    "prism-paper",
    "prism-paper-starts",
    "hiql",
    "swirl-1",
    "swirl-2",
    "mixture",
    "dirl",
    "iavi",
    "iql",
    "maxcausalent",
    "maxent",
    "ngram",
    "bc",
    "uniform",
)
NAMES = {
    "recurrent+soft-1": "Recurrent switching, planned rewards",
    "prism-paper": "PRISM, paper gate, one random start",
    "prism-paper-starts": "PRISM, paper gate, our starts",
    "bc": "Behaviour cloning",
}
"""What methods are called here where the registry has another name, or none."""
DEMO_METHODS = ("oracle", "prism-recurrent", "prism", "prism-paper", "hiql", "iavi")

PAPER_EVD = {
    "prism-paper": (2.40, 5.60, -1.74, -6.02),
    "hiql": (2.51, 6.12, -1.95, -6.80),
    "iavi": (2.06, 6.74, -1.41, -9.20),
    "maxcausalent": (5.32, 6.67, -3.32, -9.12),
    "maxent": (6.61, 6.76, -4.16, -9.10),
}
"""Table evd of the paper: EVD (MAE) goal, abandon, EVD (s0) goal, abandon.

Of another world: the paper says neither where its barriers are nor what a step in the target is worth, how long
trajectories are or which state s0 is.
"""

EVD_COLUMNS = ("evd_goal", "evd_abandon", "evd_s0_goal", "evd_s0_abandon")


@dataclass(frozen=True)
class Gridworld:
    """Settings of the experiment.

    Parameters
    ----------
    n_trajectories, folds : the paper's 1024 and 5
    only_folds : run these folds only
    seeds : seeds of the fits; spread is over folds and seeds
    simulation_seed : seed of the data
    starts : starts of each learned method
    paper_iterations : EM iterations of the paper's gate
    moved : worlds with other barriers in which recovered rewards are planned with
    chosen : identifiers of the methods to run, all when None
    """

    n_trajectories: int = 1024
    folds: int = 5
    only_folds: tuple[int, ...] | None = None
    seeds: tuple[int, ...] = (0, 1, 2)
    simulation_seed: int = 1
    starts: int = 4
    max_iterations: int = 180
    paper_iterations: int = 180
    moved: int = 20
    quick: bool = False
    chosen: tuple[str, ...] | None = None
    world: FrustrationWorld = field(default_factory=FrustrationWorld)

    @classmethod
    def small(cls) -> Gridworld:
        """A smaller honest run, for `--quick`."""
        return cls(
            n_trajectories=400,
            only_folds=(0, 1),
            seeds=(0,),
            starts=2,
            max_iterations=80,
            paper_iterations=60,
            quick=True,
        )

    @classmethod
    def demo(cls) -> Gridworld:
        """One split of a small simulation, for `prism demo`."""
        return cls(
            n_trajectories=512,
            only_folds=(0,),
            seeds=(0,),
            starts=2,
            max_iterations=60,
            paper_iterations=60,
            moved=0,
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
        swirl = {"kernel": "table", "n_starts": self.starts}
        paper = {"max_iterations": self.paper_iterations}
        return {
            "": discount,
            "prism-recurrent": learned,
            "recurrent+soft-1": {"n_starts": min(self.starts, 2), **discount, **NETWORK},
            "prism": learned,
            "prism-paper": paper,
            "prism-paper-starts": {**paper, "starts": "mixed", "n_starts": self.starts},
            "swirl-1": swirl,
            "swirl-2": swirl,
            **{name: {} for name in ("bc", "dirl", "maxent")},  # as their authors have them
        }
