"""Whether a recovered reward is worth more than the policy that it came from: plan with it where the world changes.

What a plan with it earns there under the true reward is measured as a share of what the true reward earns.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from prism_irl.arrays import FloatArray
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.evaluation.truth import Truth, recovered_policies, recovered_rewards
from prism_irl.mdp import MDP
from prism_irl.models.base import IntentionModel

TIE = 1e-9
"""Actions whose values differ by less than this share of the largest value are equally good."""


def plan(mdp: MDP, reward: npt.ArrayLike) -> FloatArray:
    """(S, A) an optimal policy: all actions that are equally good get the same probability."""
    q, v = mdp.value_iteration(reward)
    best = q >= v[:, None] - TIE * max(1.0, float(np.abs(v).max()))
    policy: FloatArray = best / best.sum(axis=1, keepdims=True)
    return policy


@dataclass(frozen=True, eq=False)
class Elsewhere:
    """A world in which a reward is tried: dynamics, true rewards (Z, S, A), and where trajectories begin, (S,)."""

    mdp: MDP
    rewards: FloatArray
    start: FloatArray

    def earned(self, policy: npt.ArrayLike, intention: int) -> float:
        """Discounted return of a policy (S, A) under the true reward of an intention."""
        return float(self.start @ self.mdp.policy_evaluation(policy, self.rewards[intention]))

    @cached_property
    def best(self) -> list[float]:
        """Return of planning with the true reward, per intention."""
        return [self.earned(plan(self.mdp, reward), k) for k, reward in enumerate(self.rewards)]

    def transfer(self, reward: npt.ArrayLike, intention: int) -> float:
        """Return of planning with ``reward`` as a share of that of planning with the true reward of an intention."""
        return self.earned(plan(self.mdp, reward), intention) / self.best[intention]

    def carried(self, policy: npt.ArrayLike, intention: int) -> float:
        """The same share for a policy that is carried over as it is: what there is to gain by a reward."""
        return self.earned(policy, intention) / self.best[intention]


@dataclass(frozen=True, eq=False)
class TruthElsewhere(Truth):
    """The world behind the demonstrations, and others in which recovered rewards are planned with.

    Parameters
    ----------
    elsewhere : the other worlds
    """

    elsewhere: tuple[Elsewhere, ...] = ()

    def __call__(self, model: IntentionModel, test: Demonstrations) -> dict[str, float]:
        """As of a truth; ``transfer_NAME`` and ``carried_NAME`` are means over the other worlds.

        What a plan with the recovered reward, and the recovered policy as it is, earn there.
        """
        found, n_true = super().__call__(model, test), len(self.names)
        policies, rewards = recovered_policies(model, test, n_true), recovered_rewards(model, test, n_true)
        for k, name in enumerate(self.names if self.elsewhere else ()):
            if policies is not None:
                found[f"carried_{name}"] = float(np.mean([w.carried(policies[k], k) for w in self.elsewhere]))
            if rewards is not None:
                found[f"transfer_{name}"] = float(np.mean([w.transfer(rewards[k], k) for w in self.elsewhere]))
        return found
