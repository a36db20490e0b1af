"""What each intention of a fitted pair wants: rewards, action values and values, solved when somebody asks."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from prism_irl import em, storage
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.devices import as_array
from prism_irl.errors import InputError
from prism_irl.mdp import MDP
from prism_irl.models.base import FloatArray, check_mdp
from prism_irl.models.fitted import FittedPair
from prism_irl.models.imagined import Imagined
from prism_irl.rewards.augmented import augmented_mdp, average_solution, own_visits
from prism_irl.rewards.context_iavi import MANY, ContextIAVI
from prism_irl.rewards.iavi import InverseSolution, solve_iavi, unvisited_states
from prism_irl.rewards.least_squares import StateReward, learn_state_reward
from prism_irl.rewards.options import RewardOptions

SOLVED = ("solution_", "level_solution_", "context_solution_")
"""What is solved on first use, and solved again after another fit."""


class PairRewards(FittedPair):
    """Rewards of a fitted pair: planned ones as they were found, others solved from the policies."""

    n_intentions: int
    seed: int
    state_reward_: StateReward | None = None

    @property
    @abstractmethod
    def reward_options(self) -> RewardOptions:
        """Options of the rewards half."""

    @property
    def policies_(self) -> FloatArray:
        """π_k(a | context), (K, C, A); C = S with history 1."""
        self._check_fitted()
        rows = np.arange(self.contexts_.n_contexts)
        return np.ascontiguousarray(self.rewards_model_.policies_at(rows).transpose(1, 0, 2))

    def _solution(self) -> InverseSolution:
        """Solved on first use, because likelihoods never need it: as planned, or by IAVI (over histories: averaged)."""
        self._check_fitted()
        if not hasattr(self, "solution_"):
            solution = self._cell_solution() or self.rewards_model_.solution(self.mdp_)
            if solution is None:
                solution = self._context_solution()
                if self.contexts_.parents:
                    solution = average_solution(self.contexts_, solution, self._visits())
            self.solution_ = solution
        return self.solution_

    def _cell_solution(self) -> InverseSolution | None:
        """Rewards of a continuous world at the centres of its cells, the same for every command."""
        if self.state_reward_ is None or self.units_ is None:
            return None
        values = self.state_reward_.values_at(self.units_.cells).T
        rewards = self.state_reward_.at(self.units_.cells).T
        rewards = rewards - rewards.mean(axis=1, keepdims=True)
        wide = np.repeat(rewards[..., None], self.n_actions_, axis=2)
        return InverseSolution(wide, wide + values[..., None], values)

    def reward_at(self, observations: npt.ArrayLike) -> FloatArray:
        """Reward g_k(x) of every intention at observations (n, d) in the units of the data, (n, K).

        Of fits to continuous data (`rewards.least_squares`): up to a constant and to the scale of the noise, and
        meaningless far from where the data are.
        """
        self._check_fitted()
        if self.state_reward_ is None or self.units_ is None:
            raise AttributeError("The rewards of this model are on states and actions; read rewards_.")
        x = np.asarray(observations, dtype=np.float64)
        return self.state_reward_.at((x - self.units_.observation_mean) / self.units_.observation_spread)

    @property
    def places_(self) -> FloatArray:
        """Goals in the units of the observations, (K, d), of goals on landmarks."""
        self._check_fitted()
        places = self.rewards_model_.ends_at
        if self.units_ is None or places is None:
            raise AttributeError("Only goals on landmarks are places; read reward_at or rewards_.")
        return np.asarray(places * self.units_.observation_spread + self.units_.observation_mean)

    def _context_solution(self) -> InverseSolution:
        """IAVI on the MDP of the contexts that occur (`rewards.augmented`); with history 1, on the MDP itself."""
        self._check_fitted()
        if not hasattr(self, "context_solution_"):
            policies, counts = self.policies_, self.rewards_model_.state().get("counts")
            if self.contexts_.n_contexts > MANY and self.contexts_.parents:
                self.context_solution_ = self._many_contexts(policies, counts)
            else:
                mdp = augmented_mdp(self.mdp_, self.contexts_) if self.contexts_.parents else self.mdp_
                floor = _floor(policies, mdp.valid_actions)
                self.context_solution_ = solve_iavi(mdp, policies, visits=counts, floor=floor)
        return self.context_solution_

    def _many_contexts(self, policies: FloatArray, counts: FloatArray | None) -> InverseSolution:
        """The same without the matrix of transitions, which would not fit into memory."""
        solver = ContextIAVI(self.mdp_, self.contexts_)
        with np.errstate(divide="ignore"):
            solution = solver.solve(np.log(policies), _floor(policies, solver.valid_actions))
        return solution if counts is None else solution._replace(unvisited=unvisited_states(counts))

    def _visits(self) -> FloatArray:
        """Weighted visits of every context, (K, C); of every state alone where the reward model does not count."""
        counts = self.rewards_model_.state().get("counts")
        if counts is not None:
            return own_visits(self.contexts_, counts)
        states = np.arange(self.contexts_.n_contexts) < self.n_states_
        return np.tile(states.astype(np.float64), (self.n_intentions, 1))

    @property
    def context_rewards_(self) -> FloatArray:
        """r_k(c, a) of every context, (K, C, A): what the policies, which may remember, are optimal for."""
        return self._context_solution().rewards

    @property
    def context_q_(self) -> FloatArray:
        """Q_k(c, a), (K, C, A); softmax(Q_k(c, ·)) is the policy π_k(·|c) exactly."""
        return self._context_solution().q

    @property
    def context_values_(self) -> FloatArray:
        """V_k(c), (K, C)."""
        return self._context_solution().values

    @property
    def rewards_(self) -> FloatArray:
        """r_k(s, a), (K, S, A). With longer histories: mean of `context_rewards_` over the visits of each state."""
        return self._solution().rewards

    @property
    def q_(self) -> FloatArray:
        """Q_k(s, a), (K, S, A). With longer histories: mean of `context_q_` over the visits of each state."""
        return self._solution().q

    @property
    def values_(self) -> FloatArray:
        """V_k(s), (K, S). With longer histories: mean of `context_values_` over the visits of each state."""
        return self._solution().values

    def _level(self) -> InverseSolution:
        """The same explanation without shaping (`MDP.level`); sparse goals and continuous rewards as they are."""
        if not hasattr(self, "level_solution_"):
            own = self._solution()
            planned = self.rewards_model_.solution(self.mdp_) is not None
            if not planned or self.rewards_model_.sparse or self._cell_solution() is not None:
                self.level_solution_ = own  # IAVI chooses the level one itself
            else:
                rewards, ahead = self.mdp_.level(own.rewards)
                self.level_solution_ = own._replace(
                    rewards=rewards, q=own.q - ahead[..., None], values=own.values - ahead
                )
        return self.level_solution_

    @property
    def canonical_rewards_(self) -> FloatArray:
        """The reward (K, S, A) that every explanation of these policies shares: of all shapings the level one.

        It averages to 0 over the valid actions of a state, so that it is 0 where there is no choice (`MDP.level`); this
        is what tables, maps and intervals show. Goals, which are sparse by choice, stay as they are.
        """
        return self._level().rewards

    @property
    def canonical_q_(self) -> FloatArray:
        """Q_k(s, a) of `canonical_rewards_`, (K, S, A): `q_` less a number per state."""
        return self._level().q

    @property
    def canonical_values_(self) -> FloatArray:
        """V_k(s) of `canonical_rewards_`, (K, S)."""
        return self._level().values

    @property
    def unvisited_(self) -> npt.NDArray[np.bool_] | None:
        """States whose reward under intention k is an echo of other states, (K, S)."""
        return self._solution().unvisited

    @property
    def state_rewards_(self) -> FloatArray:
        """r_k(s), (K, S), where rewards are on states: soft ones and goals."""
        self._check_fitted()
        found = self.rewards_model_.state_rewards
        if found is None:
            raise AttributeError(f"The rewards of this {type(self).__name__} are on states and actions; read rewards_.")
        return found

    @property
    def goals_(self) -> list[list[int]]:
        """States with a reward, per intention, the largest first; an intention that wants nothing has none."""
        return [
            [int(s) for s in np.argsort(-r, kind="stable") if r[s] > 0.1 * r.max() > 0] for r in self.state_rewards_
        ]

    @property
    def initial_(self) -> FloatArray:
        """P(z_1=k), (K,), of a chain that keeps it as it is."""
        return self._kept("initial")

    @property
    def kernel_(self) -> FloatArray:
        """P(z_t=k | z_{t−1}=j), (K, K), of a chain whose kernel is constant."""
        return self._kept("kernel")

    def _kept(self, name: str) -> FloatArray:
        self._check_fitted()
        found = self.switching_.state()
        if name not in found:
            raise AttributeError(f"{type(self.switching_).__name__} has no {name} of its own; read switching_.")
        return np.asarray(found[name], dtype=np.float64)

    def imagine(self, mdp: MDP | None = None, *, without: int | None = None, aware: bool = True) -> Imagined:
        """What the agents would do in other dynamics, or without an intention; ``simulate`` of the result shows it.

        Parameters
        ----------
        mdp : MDP, optional
            The changed world, over the same states and actions (`MDP.closed` closes some); as it was, if absent.
        without : int, optional
            Intention that nobody has: whatever would lead to it leads to the others, in proportion.
        aware : bool
            Whether agents know the change and plan anew, which only rewards on states can (soft-1, goals); else they
            act as before, and only where their actions lead has changed.
        """
        self._check_simulable()
        if self.is_density:
            raise InputError("Commands of a continuous world lead nowhere in dynamics of states; fit tokens.")
        if without is not None and not 0 <= without < self.n_intentions:
            raise InputError(f"There is no intention {without}; they run from 0 to {self.n_intentions - 1}.")
        if without is not None and self.n_intentions == 1:
            raise InputError("Without its only intention the agent would do nothing; fit several.")
        world, rewards = self.mdp_, self.rewards_model_
        if mdp is not None:
            check_mdp(mdp, self._like_training_data())
            free = replace(self._like_training_data(), valid_actions=None)  # the changed world knows its own
            world = self.reward_options.dynamics(mdp, free, self.mdp_.discount)
            rewards = rewards.moved(world) if aware else rewards
        return Imagined(self.switching_, rewards, self.contexts_, world, self.device_, self.accents_, without)

    # -- rewards of continuous worlds ----------------------------------------------------------------------------------

    def _learn_rewards(self, demos: Demonstrations) -> None:
        """Rewards by least squares, in a continuous world, weighted by the smoothed responsibilities."""
        if self.units_ is not None and self.rewards_model_.is_density:
            # In the units of the fit already; a regression with some hundred weights needs no millions of steps.
            data = em.some_of(self.rewards_model_, self._prepare(demos), self.seed)
            weights = self.switching_.expectation(data, self._emission(data), online=False).responsibilities
            self.state_reward_ = learn_state_reward(data, weights, self.mdp_.discount)

    def _state(self) -> dict[str, Any]:
        """The pair, and learned rewards."""
        if self.state_reward_ is not None:
            return {**super()._state(), **storage.prefixed("state_reward", self.state_reward_.state())}
        return super()._state()

    def _load_state(self, tensors: dict[str, Any], info: dict[str, Any]) -> None:
        """Undo `_state`; version 0.1.0 kept what IQL learned beside the components."""
        learned = {f"rewards.learned_{name}": value for name, value in storage.part("iql", tensors).items()}
        super()._load_state(tensors | learned, info)
        kept = {name: as_array(value) for name, value in storage.part("state_reward", tensors).items()}
        self.state_reward_ = StateReward.from_state(kept)


def _floor(policies: FloatArray, valid_actions: npt.NDArray[np.bool_]) -> float:
    """The authors' 1e-6 where a valid action has probability zero, else nothing."""
    return 1e-6 if (policies[:, valid_actions] <= 0).any() else 0.0
