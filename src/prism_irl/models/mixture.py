"""Trajectory-level mixture (Babes et al. 2011): every trajectory has one intention, and keeps it.

EM over whole trajectories with weighted-count policies; rewards by IAVI. The null hypothesis of switching: what a
chain gains over it, it gains by changes of mind within trajectories. Its predictions are causal: the belief about
the trajectory's intention grows with every action seen.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from prism_irl.models.base import FloatArray
from prism_irl.models.intentions import Intentions


@dataclass(eq=False, repr=False, kw_only=True)
class TrajectoryMixture(Intentions):
    """Mixture of intentions over trajectories: EM trajectory clustering of Babes et al. 2011.

    `predict` gives the same intention to all steps of a trajectory; `filter_proba` and `filter` give the belief so
    far. Parameters as in `Intentions`; counts are cheap, so they are started ten times.

    Attributes
    ----------
    weights_ : (K,) P(z=k), ρ of the paper
    """

    n_intentions: int = field(default=2, kw_only=False)
    switching: str = field(default="per-trajectory", init=False)
    rewards: str = field(default="tabular", init=False)
    max_iterations: int = 300
    n_starts: int = 10
    device: str = "cpu"

    @property
    def weights_(self) -> FloatArray:
        """P(z=k), (K,)."""
        return self._kept("weights")
