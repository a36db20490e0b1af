"""Trajectory-level mixture (Babes et al. 2011): every trajectory has one intention, and keeps it.

EM over whole trajectories with weighted-count policies; rewards by IAVI. The null hypothesis of switching: what a
chain gains over it, it gains by changes of mind within trajectories. Its predictions are causal: the belief about
the trajectory's intention grows with every action seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from prism_irl.models.base import FloatArray
from prism_irl.models.hiql import CountPair


@dataclass(eq=False, repr=False, kw_only=True)
class TrajectoryMixture(CountPair):
    """Mixture of intentions over trajectories: EM trajectory clustering of Babes et al. 2011.

    `predict` gives the same intention to all steps of a trajectory; `filter_proba` and `filter` give the belief so
    far. Parameters as in `CountPair`.

    Attributes
    ----------
    weights_ : (K,) P(z=k), ρ of the paper
    """

    def _halves(self) -> tuple[Any, Any]:
        return "per-trajectory", "tabular"

    @property
    def weights_(self) -> FloatArray:
        """P(z=k), (K,)."""
        return self._kept("weights")
