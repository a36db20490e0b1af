"""Trajectory-level mixture (Babes et al. 2011): every trajectory has one intention, and keeps it.

EM over whole trajectories with weighted-count policies; rewards by IAVI. The null hypothesis of switching: what a
chain gains over it, it gains by changes of mind within trajectories. Its predictions are causal: the belief about
the trajectory's intention grows with every action seen.
"""

from __future__ import annotations

import numpy as np

from prism_irl import em
from prism_irl.data.batching import Prepared
from prism_irl.models.hiql import CountPair
from prism_irl.models.starts import StartKind
from prism_irl.switching.base import Switching
from prism_irl.switching.per_trajectory import PerTrajectory


class TrajectoryMixture(CountPair):
    """Mixture of intentions over trajectories: EM trajectory clustering of Babes et al. 2011.

    `predict` gives the same intention to all steps of a trajectory; `filter_proba` and `filter` give the belief so
    far. Parameters as in `CountPair`.

    Attributes
    ----------
    weights_ : (K,) P(z=k), ρ of the paper
    """

    def _switching(self) -> Switching:
        return PerTrajectory(self.n_intentions)

    @property
    def weights_(self) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        """P(z=k), (K,)."""
        return np.asarray(self.switching_.get_buffer("weights").cpu().numpy(), dtype=np.float64)

    def _begin(self, start: em.Start, train: Prepared, kind: StartKind, generator: np.random.Generator) -> None:
        """Random starts differ between trajectories: what differs within them alone, a mixture cannot keep."""
        if kind != "random":
            return super()._begin(start, train, kind, generator)
        demos = train.whole
        per_trajectory = generator.dirichlet(np.full(self.n_intentions, 0.5), len(demos))
        start.rewards.maximise(train, train.share(per_trajectory[demos.trajectory_index]))
        return None
