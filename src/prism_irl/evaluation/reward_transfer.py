"""Is a recovered reward the true one? A distance that ignores what no behaviour can tell, and a test in another world.

Rewards that differ by potential shaping r + γ E[Φ(s')] − Φ(s) and by a positive factor have the same optimal policies
under every P that they are canonicalised with, so a distance has to ignore both (`reward_distance`, STARC: Skalse et
al. 2024). Whether a reward is worth more than the policy that it came from shows where the world changes: plan with it
there, and measure what the plan earns under the true reward (`transfer`). Use both beside the expected value
difference, which judges the policy alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from prism_irl.mdp import MDP

Array = npt.NDArray[np.float64]

TIE = 1e-9
"""Actions whose values differ by less than this share of the largest value are equally good."""


def canonical_reward(mdp: MDP, reward: npt.ArrayLike, states: npt.NDArray[np.bool_] | None = None) -> Array:
    """Reward without shaping and scale: the advantages of the uniform policy, divided by their length.

    `MDP.level` takes the shaping away; the length is taken over the states that count.

    Parameters
    ----------
    mdp : MDP
        Dynamics and discount.
    reward : (S, A) or (S,)
    states : (S,) bool, optional
        States that count; all of them when absent.

    Returns
    -------
    (S, A), zero for invalid actions and for states that do not count; all zero for a reward that prefers nothing.
    """
    advantages, values = mdp.level(reward)
    if states is not None:
        advantages = np.where(np.asarray(states)[:, None], advantages, 0.0)
    length = float(np.linalg.norm(advantages))
    # Rounding leaves a little of a constant reward, which is nothing and must not be blown up to length one.
    scale = float(np.abs(np.asarray(reward, dtype=np.float64)).max(initial=0.0)) + float(np.abs(values).max())
    result: Array = advantages / length if length > 1e-9 * scale else np.zeros_like(advantages)
    return result


def reward_distance(
    mdp: MDP, one: npt.ArrayLike, other: npt.ArrayLike, states: npt.NDArray[np.bool_] | None = None
) -> float:
    """STARC distance ½‖c₁ − c₂‖ of two rewards: 0 for equivalent ones, 1 for opposite ones, ½ from one that is nothing.

    Two random rewards over many states are about 1/√2 apart.
    """
    difference = canonical_reward(mdp, one, states) - canonical_reward(mdp, other, states)
    return float(np.linalg.norm(difference)) / 2


def plan(mdp: MDP, reward: npt.ArrayLike) -> Array:
    """(S, A) an optimal policy: all actions that are equally good get the same probability."""
    q, v = mdp.value_iteration(reward)
    best = q >= v[:, None] - TIE * max(1.0, float(np.abs(v).max()))
    policy: Array = best / best.sum(axis=1, keepdims=True)
    return policy


@dataclass(frozen=True, eq=False)
class Elsewhere:
    """A world in which a reward is tried: dynamics, true rewards (Z, S, A), and where trajectories begin, (S,)."""

    mdp: MDP
    rewards: Array
    start: Array

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
