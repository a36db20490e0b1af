"""A cohort: animals under two conditions whose difference is known, for everything that compares animals.

Every animal walks on a grid towards one of two corners. Its intention is a Markov chain of its own, whose rates of
leaving differ between animals (log-normal) and, if asked for, between conditions; so may the goal of the second
intention. Chains begin in their stationary distribution, so that what is expected of an animal is known exactly:

    usage_1 = λ_0 / (λ_0 + λ_1)      switch rate = 2 λ_0 λ_1 / (λ_0 + λ_1)      dwell of k = 1 / λ_k
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from prism_irl.checked import frozen
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.mdp import MDP, boltzmann
from prism_irl.worlds.grid import (
    ACTIONS,
    check_cells,
    check_settings,
    cumulative,
    draw,
    moves,
    optimal_q,
    slip,
    target_rewards,
)

Floats = NDArray[np.float64]
CONDITIONS = ("saline", "drug")
SLOW = 0.95
"""Correlation of the covariate from step to step."""


class Cohort(NamedTuple):
    """What `CohortWorld.simulate` returns.

    Attributes
    ----------
    demonstrations : Demonstrations
        Groups are animals, labels true intentions.
    condition : (N,) str
        Of every trajectory.
    covariate : (n,)
        Of every step: slow, standard normal, and what drives switches where the world says so.
    """

    demonstrations: Demonstrations
    condition: NDArray[np.str_]
    covariate: Floats


@dataclass(frozen=True)
class CohortWorld:
    """Animals on a square grid under two conditions.

    Parameters
    ----------
    animals : int
        Of each condition; with ``paired`` each of as many animals has both.
    trajectories, horizon : int
        Trajectories of an animal under a condition, and steps of each.
    leave : (float, float)
        Probability per step of leaving intention 0 and 1.
    spread : float
        Standard deviation of the log of an animal's rates.
    usage, switching : float
        Factors of the drug: on the rate of leaving intention 0 (and, inverted, of leaving 1), and on both rates.
    moved : float
        Weight of another corner in the goal of intention 1 under the drug, 0 to 1.
    paired : bool
    shape : int
        Phases of a dwell, which is negative binomial with this shape and the same mean; 1 is a Markov chain.
    covariate : float
        What the covariate adds to the log odds of leaving intention 0, and takes from those of leaving 1.
    size : int
        Cells along each side.
    barriers : sequence of (x, y)
        Cells that cannot be entered; animals know them.
    soft : bool
        Animals plan as their own noise will have it (soft values) instead of for a noiseless future.
    beta, discount, success : float
        Of the planners and of the dynamics, as in the gridworld.
    """

    animals: int = 8
    trajectories: int = 6
    horizon: int = 60
    leave: tuple[float, float] = (0.05, 0.05)
    spread: float = 0.2
    usage: float = 1.0
    switching: float = 1.0
    moved: float = 0.0
    paired: bool = False
    shape: int = 1
    covariate: float = 0.0
    size: int = 5
    barriers: tuple[tuple[int, int], ...] = ()
    soft: bool = False
    beta: float = 5.0
    discount: float = 0.9
    success: float = 0.9

    n_actions = len(ACTIONS)

    def __post_init__(self) -> None:
        check_settings(
            self,
            counts=("animals", "trajectories", "horizon", "shape", "size"),
            probabilities=("success", "moved"),
            not_negative=("beta", "spread", "usage", "switching"),
        )
        check_cells(self.size, self.barriers)

    @property
    def n_states(self) -> int:
        """Number of cells."""
        return self.size**2

    @cached_property
    def transitions(self) -> Floats:
        """(S, A, S) dynamics with wall and slip."""
        return frozen(slip(moves(self.size, self.barriers)[0], self.success))

    @cached_property
    def mdp(self) -> MDP:
        """The dynamics."""
        return MDP.from_dense(self.transitions, self.discount)

    @cached_property
    def rewards(self) -> Floats:
        """(2, 2, S, A) true rewards of each condition and intention."""
        S, corner = self.n_states, self.size - 1
        home = target_rewards(S, (S - 1, 0, corner))
        second = (1 - self.moved) * home[1] + self.moved * home[2]
        return frozen(np.stack([home[:2], np.stack([home[0], second])]))

    @cached_property
    def policies(self) -> Floats:
        """(2, 2, S, A) the planners of each condition and intention."""
        if self.soft:
            return frozen(boltzmann(self.mdp.soft_value_iteration(self.rewards, 1 / self.beta)[0], self.beta))
        q = [optimal_q(rewards, self.transitions, self.discount) for rewards in self.rewards]
        return frozen(boltzmann(np.stack(q), self.beta))

    def rates(self, condition: int, log_factors: Floats) -> Floats:
        """Rates of leaving (…, 2) of animals whose log factors are given."""
        drug = np.array([self.usage * self.switching, self.switching / self.usage]) if condition else 1.0
        return np.asarray(np.minimum(np.array(self.leave) * drug * np.exp(self.spread * log_factors), 0.95))

    def truth(self, draws: int = 200_000, seed: int = 0) -> dict[str, Floats]:
        """Expected usage of intention 1, switch rate and dwell of both in each condition, over all animals."""
        z = np.random.default_rng(seed).standard_normal((draws, 2))
        found: dict[str, list[Floats]] = {"usage": [], "switch_rate": [], "dwell": []}
        for condition in (0, 1):
            rate = self.rates(condition, z)
            used = np.stack([rate[:, 1], rate[:, 0]], axis=1) / rate.sum(axis=1, keepdims=True)
            exits = (used * rate).mean(axis=0)
            found["usage"].append(used.mean(axis=0))
            found["switch_rate"].append(exits.sum())
            found["dwell"].append(used.mean(axis=0) / exits)
        return {name: np.array(values) for name, values in found.items()}

    def simulate(self, seed: int = 0, begin: NDArray[np.int64] | None = None) -> Cohort:
        """Draw the cohort; the same seed gives the same one. ``begin`` (N,) are first states, −1 for a random one."""
        rng = np.random.default_rng(seed)
        z = rng.standard_normal((2, self.animals, 2))
        condition = np.repeat([0, 1], self.animals * self.trajectories)
        animal = np.tile(np.repeat(np.arange(self.animals), self.trajectories), 2)
        factors = z[0 if self.paired else condition, animal]
        rate = np.where(condition[:, None] == 1, self.rates(1, factors), self.rates(0, factors))
        policy, move = cumulative(self.policies), cumulative(self.transitions)
        N = len(condition)
        states, actions, intentions = np.zeros((3, N, self.horizon), np.int64)
        free = np.setdiff1d(np.arange(self.n_states), [self.size * y + x for x, y in self.barriers])
        state = free[rng.integers(len(free), size=N)]
        if begin is not None:
            state = np.where(begin >= 0, begin, state)
        intention = (rng.random(N) < rate[:, 0] / rate.sum(axis=1)).astype(np.int64)
        thirst = np.zeros((N, self.horizon))
        thirst[:, 0] = rng.standard_normal(N)
        for t in range(1, self.horizon):
            thirst[:, t] = SLOW * thirst[:, t - 1] + np.sqrt(1 - SLOW**2) * rng.standard_normal(N)
        left = rng.integers(self.shape, size=N) if self.shape > 1 else np.zeros(N, np.int64)  # phases after this one
        for t in range(self.horizon):
            action = draw(policy[condition, intention, state], rng)
            states[:, t], actions[:, t], intentions[:, t] = state, action, intention
            leave = rate[np.arange(N), intention]
            if self.covariate and t + 1 < self.horizon:  # the step that is entered has the covariate that counts
                push = self.covariate * thirst[:, t + 1] * np.where(intention == 0, 1.0, -1.0)
                leave = special.expit(special.logit(leave) + push)
            done = rng.random(N) < np.minimum(self.shape * leave, 1.0)
            leaves = done & (left == 0)
            left = np.where(leaves, self.shape - 1, left - (done & ~leaves))
            intention = np.where(leaves, 1 - intention, intention)
            state = draw(move[state, action], rng)
        number = animal if self.paired else animal + self.animals * condition
        demos = Demonstrations.from_arrays(
            states,
            actions,
            labels=intentions,
            groups=np.array([f"a{i:02d}" for i in number]),
            n_states=self.n_states,
            n_actions=self.n_actions,
        )
        return Cohort(demos, np.array(CONDITIONS)[condition], thirst.reshape(-1))
