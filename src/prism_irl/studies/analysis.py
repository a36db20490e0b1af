"""What the test for intentions does to the data, and to every surrogate in the same way."""

from __future__ import annotations

from dataclasses import dataclass

from prism_irl import limits
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.models.references import NGram

FEW_GROUPS = 4
"""Fewer animals than this are not divided into halves; their trajectories are."""


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
        """Whether habits know the animals: there are several, and folds do not leave whole ones out."""
        return self.by == "trajectory" and demos.n_groups > 1

    def habit(self, demos: Demonstrations) -> NGram:
        """The unfitted habit."""
        return NGram(individuals=self.individuals(demos), seed=self.seed)
