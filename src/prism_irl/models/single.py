"""Methods with a single intention: one reward for all behaviour, and the policy that it asks for.

`IAVI` explains the empirical policy exactly by state-action rewards; `IQL` learns them without a model of the world;
`MaxCausalEnt` and `MaxEnt` look for a reward on states alone, which must plan, and therefore predict less and mean
more. They are what several intentions have to beat.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt

from prism_irl import checked
from prism_irl.arrays import FloatArray, IntArray
from prism_irl.data.batching import Prepared
from prism_irl.data.contexts import Contexts
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.evaluation.simulate import TableChooser
from prism_irl.mdp import MDP, boltzmann
from prism_irl.models.base import IntentionModel, check_mdp
from prism_irl.rewards.iavi import InverseSolution, solve_iavi
from prism_irl.rewards.iql import LearningRates, solve_iql
from prism_irl.rewards.maxent import FeatureMatch, match_causal, match_paths, path_starts
from prism_irl.rewards.tabular import TabularPolicies


class SingleIntention(IntentionModel):
    """Shared part: a table π(a|s) of one intention.

    Attributes
    ----------
    policies_, rewards_, q_ : (1, S, A)
        A valid-action mask shows in them: policy 0, reward 0, Q = −inf.
    values_ : (1, S)
    """

    def action_proba(self, demos: Demonstrations) -> FloatArray:
        """π(a | s_t), (n, A); uniform in a state that the fit never named."""
        states = self._check_new(demos).states.astype(np.int64)
        unknown = np.full((1, self.n_actions_), 1.0 / self.n_actions_)
        return np.asarray(np.concatenate([self.policies_[0], unknown])[np.minimum(states, self.n_states_)])

    def chooser(self, demos: Demonstrations, trajectories: IntArray) -> TableChooser:
        """Chooses by the table."""
        self._check_fitted()
        return TableChooser(self.policies_[0], Contexts(self.n_states_), len(trajectories))

    def _begin(self, demos: Demonstrations, mdp: MDP | None, discount: float) -> tuple[Demonstrations, MDP]:
        """Agree on sizes and valid actions; the dynamics are counted when they are not given."""
        check_mdp(mdp, demos)
        if mdp is None:
            mdp = MDP.from_demonstrations(demos, discount)
        valid = mdp.valid_actions if demos.valid_actions is None else mdp.valid_actions & demos.valid_actions
        if not np.array_equal(valid, mdp.valid_actions):
            mdp = MDP(mdp.transitions, mdp.discount, valid)
        self.n_states_, self.n_actions_ = demos.n_states, demos.n_actions
        return demos.with_valid_actions(valid), mdp

    def _load_state(self, tensors: dict[str, Any], info: dict[str, Any]) -> None:
        """As for every method, with a policy of the right shape."""
        super()._load_state(tensors, info)
        checked.shape("policies", self.policies_, (1, self.n_states_, self.n_actions_))
        checked.distributions("policies", self.policies_)

    def _keep(self, policy: FloatArray, solution: InverseSolution) -> None:
        self.policies_ = policy
        self.rewards_, self.q_, self.values_ = solution.rewards, solution.q, solution.values


@dataclass(eq=False, repr=False, kw_only=True)
class IAVI(SingleIntention):
    """Inverse action-value iteration (Kalweit et al. 2020), K = 1: the empirical policy, explained exactly.

    Parameters
    ----------
    smoothing : pseudo-count of every valid action in every state
    discount : γ when no MDP is given; shapes the rewards, never the likelihood
    variant : Bellman equation of the rewards (`rewards.iavi`)
    """

    smoothing: float = 0.01
    discount: float = 0.97
    variant: Literal["hard", "soft"] = "hard"

    def fit(self, demos: Demonstrations, mdp: MDP | None = None) -> Self:
        """Count, then solve."""
        demos, mdp = self._begin(demos, mdp, self.discount)
        contexts = Contexts(demos.n_states)
        table = TabularPolicies(1, demos.n_actions, contexts, demos.valid_actions, smoothing=self.smoothing)
        table.m_step(Prepared.of(demos, contexts), np.ones((demos.n_steps, 1)))
        # Without smoothing an action never taken needs the authors' constant; with it nothing is added.
        floor = 1e-6 if (table.policies[:, mdp.valid_actions] <= 0).any() else 0.0
        self._keep(table.policies, solve_iavi(mdp, table.policies, variant=self.variant, floor=floor))
        return self


@dataclass(eq=False, repr=False, kw_only=True)
class IQL(SingleIntention):
    """Tabular inverse Q-learning (Kalweit et al. 2020): model-free; π is the Boltzmann policy of Q.

    Parameters
    ----------
    discount : γ when no MDP is given; nothing else of an MDP than discount and valid actions is read
    alpha_r, alpha_q, alpha_sh : step sizes of r, Q and shifted Q, the authors' by default; on little data 1e-4 is too
        small for the rewards to arrive: an action must be seen about 1/α_r times, all epochs together
    epochs : passes over the transitions
    """

    discount: float = 0.97
    alpha_r: float = 1e-4
    alpha_q: float = 0.01
    alpha_sh: float = 0.01
    epochs: int = 100

    def fit(self, demos: Demonstrations, mdp: MDP | None = None) -> Self:
        """Learn from every transition in turn."""
        demos, mdp = self._begin(demos, mdp, self.discount)
        rates = LearningRates(self.alpha_r, self.alpha_q, self.alpha_sh, self.epochs)
        solution = solve_iql(demos, discount=mdp.discount, rates=rates)
        self._keep(boltzmann(solution.q), solution)
        return self


@dataclass(eq=False, repr=False, kw_only=True)
class FeatureMatching(SingleIntention):
    """Shared part of the maximum-entropy methods.

    Attributes
    ----------
    weights_ : (m,) θ of r(s) = φ(s)·θ
    state_rewards_ : (S,) r(s)
    canonical_rewards_ : (1, S, A) the same without shaping (`MDP.level`), where returns are discounted
    feature_gap_ : largest difference between the demonstrators' and the model's feature counts per step
    converged_, n_iterations_ : what L-BFGS says
    """

    discounted: ClassVar[bool] = False
    features: npt.ArrayLike | None = None
    discount: float = 0.97
    l2: float = 1e-6
    max_iterations: int = 1000
    tolerance: float = 1e-7

    @abstractmethod
    def _match(self, demos: Demonstrations, mdp: MDP, **options: Any) -> FeatureMatch:
        """Find the reward whose model has the demonstrators' feature counts."""

    def fit(self, demos: Demonstrations, mdp: MDP | None = None) -> Self:
        """Match the demonstrators' feature counts."""
        demos, mdp = self._begin(demos, mdp, self.discount)
        options = {"l2": self.l2, "max_iterations": self.max_iterations, "tolerance": self.tolerance}
        found = self._match(demos, mdp, features=self.features, **options)
        rewards = np.where(mdp.valid_actions, found.rewards[:, None], 0.0)
        self._keep(found.policy[None], InverseSolution(rewards[None], found.q[None], found.values[None]))
        if self.discounted:  # shaping is a matter of discounted returns
            self.canonical_rewards_, self.shaping_ = mdp.level(self.rewards_)
        self.weights_, self.state_rewards_ = found.weights, found.rewards
        self.feature_gap_, self.converged_, self.n_iterations_ = found.gap, found.converged, found.n_iterations
        return self


class MaxCausalEnt(FeatureMatching):
    """Maximum causal entropy IRL (Ziebart, Bagnell & Dey 2010), discounted, infinite horizon, reward on states.

    The soft-optimal policy whose visits have the demonstrators' features; equivalently the state reward under which
    the actions taken are likeliest (`rewards.maxent.match_causal` says why finite windows are no approximation).

    Parameters
    ----------
    features : (S, m) φ(s); one-hot by default
    discount : γ when no MDP is given; unlike with IAVI the likelihood depends on it
    l2 : penalty on ‖θ‖² per step, small: it keeps the rewards of states that nobody enters finite
    max_iterations, tolerance : L-BFGS; the tolerance is that of the feature counts per step
    """

    discounted: ClassVar[bool] = True
    shaping_: FloatArray

    @property
    def canonical_(self) -> InverseSolution:
        """The same without shaping, (1, S, A) and (1, S)."""
        shaping = self.shaping_
        return InverseSolution(self.canonical_rewards_, self.q_ - shaping[..., None], self.values_ - shaping)

    def _match(self, demos: Demonstrations, mdp: MDP, **options: Any) -> FeatureMatch:
        pairs = demos.states.astype(np.int64) * demos.n_actions + demos.actions
        counts = np.bincount(pairs, minlength=demos.n_states * demos.n_actions)
        return match_causal(mdp, counts.reshape(demos.n_states, demos.n_actions), **options)


class MaxEnt(FeatureMatching):
    """Maximum entropy IRL (Ziebart et al. 2008): paths as likely as exp(Σ_t r(s_t)), over a finite horizon.

    The horizon is the longest trajectory, and each trajectory is normalised over the paths of its own length. π is
    the action distribution with the whole horizon ahead, the same at every step: with the number of steps left in it,
    predictions would know when a trajectory ends.

    Parameters
    ----------
    features, l2, max_iterations, tolerance : as in `MaxCausalEnt`
    discount : float
        Not used: paths of a finite horizon are not discounted.
    """

    def _match(self, demos: Demonstrations, mdp: MDP, **options: Any) -> FeatureMatch:
        visits = np.bincount(demos.states, minlength=demos.n_states)
        starts = path_starts(demos.states[demos.offsets[:-1]], demos.lengths, demos.n_states)
        return match_paths(mdp, visits, starts, **options)
