"""Simulated studies: two groups of eight animals that differ in nothing, in usage, in switching, or in a goal.

Sizes of the effects, and how animals are counted, were settled with seeds from `PILOT` on; the experiment reports those
below. Seeds 0 to 199 were looked at when it was decided that animals have chains of their own, 1000 to 1199 when each
condition got policies of its own, so that 2000 to 2199 (``prism reproduce study --first-seed 2000``) are those that
settled nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from prism_irl.worlds.cohort import CohortWorld

PILOT = 10_000
EFFECTS: dict[str, dict[str, Any]] = {
    "none": {},
    "usage": {"usage": 1.8},
    "switching": {"switching": 2.0},
    "rewards": {"moved": 0.4},
    "covariate": {"covariate": 1.0},
    "barrier": {"barriers": ((0, 2), (1, 2), (2, 2)), "soft": True},
    "barrier-hard": {"barriers": ((0, 2), (1, 2), (2, 2))},
}
"""Scenario → what the drug does to the cohort; covariate and barriers are the same in both groups."""
RARE = {"covariate": 5, "barrier": 10, "barrier-hard": 10}
"""Scenarios whose fits take longest, of which there is one study in so many."""
MOVED = ((2, 2), (3, 2), (4, 2))
"""Where the barriers go."""
ASKED = {"usage": ("usage",), "switching": ("switch_rate", "dwell", "kernel"), "rewards": ("reward",)}
"""Measures in which an effect counts as found."""


class Study(NamedTuple):
    """One simulated study."""

    scenario: str
    seed: int

    @property
    def id(self) -> str:
        """Name in tables."""
        return f"{self.scenario}-s{self.seed:04d}"


@dataclass(frozen=True)
class Settings:
    """The experiment.

    Parameters
    ----------
    simulations : int
        Studies of every scenario but the `RARE` ones.
    resamples : int
        Of the intervals of a fit.
    imagined : int
        Of the intervals of a prediction.
    starts : int
        Of every fit.
    first_seed : int
        Of the studies of every scenario; the others follow it.
    """

    quick: bool = False
    simulations: int = 200
    resamples: int = 200
    imagined: int = 60
    starts: int = 3
    first_seed: int = 0
    cohort: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def small(cls) -> Settings:
        """A smaller honest run."""
        return cls(quick=True, simulations=6, resamples=20, imagined=20, starts=2)

    def studies(self) -> Iterator[Study]:
        """Every study, the scenarios in turn, so that an interrupted run has some of each."""
        for i in range(self.simulations):
            chosen = (scenario for scenario in EFFECTS if i % RARE.get(scenario, 1) == 0)
            yield from (Study(scenario, self.first_seed + i) for scenario in chosen)

    def world(self, scenario: str) -> CohortWorld:
        """Where a scenario takes place."""
        return CohortWorld(**EFFECTS[scenario], **self.cohort)
