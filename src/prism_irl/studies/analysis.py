"""What the test for intentions does to the data, and to every surrogate in the same way."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

from prism_irl import limits
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.models.hiql import HIQL
from prism_irl.models.intentions import Intentions
from prism_irl.models.mixture import TrajectoryMixture
from prism_irl.models.pair import PairModel
from prism_irl.models.references import NGram

FEW_GROUPS = 4
"""Fewer animals than this are not divided into halves; their trajectories are."""
VALIDATION = 0.2
"""Share of the training trajectories that stops chains and chooses among them."""
MIXTURES = (3,)
"""Numbers of habits of which every trajectory has one that are tried beside a single one."""


def independent(demos: Demonstrations) -> str:
    """What counts as one independent piece of the data: an animal where there are several, else a trajectory."""
    return "group" if demos.n_groups >= FEW_GROUPS else "trajectory"


@dataclass(frozen=True)
class Analysis:
    """What is done to the data, and to every surrogate in the same way.

    Parameters
    ----------
    intentions : numbers of intentions of the chains
    folds : parts of the cross-validation
    by : what a fold keeps together
    starts, max_iterations : of every chain
    seed : the one source of randomness
    """

    intentions: tuple[int, ...] = (2, 3)
    folds: int = 5
    by: str = "trajectory"
    starts: int = 2
    max_iterations: int = 40
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.intentions or min(self.intentions) < 2:
            raise InputError("Evidence is about two intentions or more; write --intentions 2,3.")
        if self.folds < 2 or self.starts < 1 or self.max_iterations < 1:
            raise InputError("Evidence needs at least 2 folds, 1 start and 1 iteration.")
        for name in ("folds", "starts", "max_iterations", "seed"):
            limits.check_option(name, getattr(self, name))

    def individuals(self, demos: Demonstrations) -> bool:
        """Whether habits and chains know the animals: there are several, and folds do not leave whole ones out."""
        return self.by == "trajectory" and demos.n_groups > 1

    def habit(self, demos: Demonstrations) -> NGram:
        """The unfitted n-gram."""
        return NGram(individuals=self.individuals(demos), seed=self.seed)

    def options(self, demos: Demonstrations, habit: NGram, memory: int) -> dict[str, Any]:
        """Options of chains and mixtures, which are all compared on the same validation trajectories."""
        return {
            "history": memory,
            "backoff": habit.backoff_,
            "individuals": self.individuals(demos),
            "n_starts": self.starts,
            "max_iterations": self.max_iterations,
            "validation_fraction": VALIDATION,
            "stop_by": "validation",
            "recount": True,
            "seed": self.seed,
        }

    def mixtures(self, demos: Demonstrations, habit: NGram) -> dict[str, TrajectoryMixture]:
        """Unfitted habits of which every trajectory has one, by name."""
        options = self.options(demos, habit, habit.length_)
        return {f"{J} habits": TrajectoryMixture(J, **options) for J in MIXTURES}

    def candidates(self, demos: Demonstrations, habit: NGram) -> dict[str, PairModel]:
        """Unfitted chains of intentions, by name: without memory, and with the memory that the habit has chosen."""
        chains: dict[str, PairModel] = {}
        for K, memory in itertools.product(self.intentions, sorted({1, habit.length_})):
            options, suffix = self.options(demos, habit, memory), f", memory {memory}" if memory > 1 else ""
            chains[f"K={K}{suffix}"] = HIQL(K, **options)
            if min(self.intentions) == K:  # one number is enough to show that switches follow the state
                options |= {"warm_up": 10, "n_candidates": 1}
                chains[f"K={K} by state{suffix}"] = Intentions(K, switching="state", rewards="tabular", **options)
        return chains
