"""Goals and a habit: intentions that plan, on top of what the agent does anyway (`rewards.goals`).

The four axes pull apart: memory in the policies buys likelihood and costs meaning, because what is left for the
intentions to explain is arbitrary. This model keeps them apart in three steps.

1. *What.* Goals are found without memory: each state in turn is tried as a goal, the one that raises the likelihood
   of a Markov chain over (goal, …, wanting nothing) most is kept, and the next one is looked for on top of it.
2. *When.* EM improves the chain and the rewards, r_k(s) ≥ 0 and sparse, by gradients through the planner.
3. *How.* Last, the habit gets its memory: short histories with back-off, counted at the steps that want nothing.
   Goals and switching stay as they are; going on with EM would let the habit swallow the goals, since what a
   memory of four states predicts, no goal has to explain.

The result is one proper model, π_k(a|c) ∝ exp(h(c, a) + A_k(s, a)), with one proper likelihood.
"""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
import torch

from prism_irl import em
from prism_irl.data import sharing
from prism_irl.data.batching import Prepared
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.mdp import MDP
from prism_irl.models.base import FloatArray
from prism_irl.models.histories import BACKOFFS, LENGTHS, choose_history
from prism_irl.models.prism import PRISM
from prism_irl.models.references import validation_split
from prism_irl.models.starts import StartKind
from prism_irl.rewards.base import RewardModel
from prism_irl.rewards.goals import GoalPolicies, Planner
from prism_irl.switching.base import Switching
from prism_irl.switching.chain import Chain
from prism_irl.switching.markov import MarkovChain

STRENGTHS = (2.0, 4.0, 8.0)
"""Rewards that a goal is tried with, in nats: 4 makes the way there e⁴ times likelier than the way off."""
CANDIDATES = 256
"""States that are tried as goals at most: the most visited ones."""
SCREENING, DECIDING, FINALISTS = 6, 20, 5


class GoalPRISM(PRISM):
    """Intentions as planned goals on a shared habit.

    Parameters
    ----------
    n_intentions : int
        K − 1 goals, and one intention that wants nothing in particular and follows the habit.
    switching : {"markov", "recurrent", "independent"}
        A Markov chain suffices to find goals; recurrent switching learns what triggers them.
    history : int or "auto"
        States that the habit remembers; chosen on validation trajectories when "auto".
    backoff : float or "auto"
        Strength of the shrinkage of longer histories towards shorter ones.
    habit : bool
        False gives pure goals (h = 0).
    goal_discount : float
        γ of planning. A goal is a place to reach within some ten steps.
    sparsity : float
        Nats that a unit of reward must earn over the training data.
    network, switch_penalty, embedding, hidden, learning_rate, batch_size, max_iterations, n_starts,
    validation_fraction, patience, discount, device, seed : as in `PRISM`. Each start looks for goals on its own
        random half of the trajectories, so that their agreement says whether other data would show the same goals.
    """

    def __init__(
        self,
        n_intentions: int = 3,
        *,
        switching: Literal["recurrent", "independent", "markov"] = "markov",
        network: Literal["rnn", "lstm", "gru", "transformer"] = "rnn",
        history: int | Literal["auto"] = "auto",
        backoff: float | Literal["auto"] = "auto",
        habit: bool = True,
        goal_discount: float = 0.9,
        sparsity: float = 50.0,
        smoothing: float = 0.01,
        switch_penalty: float = 0.05,
        embedding: int = 128,
        hidden: int = 128,
        learning_rate: float = 1e-3,
        batch_size: int = 32,
        max_iterations: int = 15,
        n_starts: int = 3,
        validation_fraction: float = 0.1,
        patience: int | None = None,
        discount: float = 0.97,
        device: str = "auto",
        seed: int = 0,
    ) -> None:
        super().__init__(
            n_intentions,
            switching=switching,
            network=network,
            history=history,
            backoff=backoff,
            smoothing=smoothing,
            switch_penalty=switch_penalty,
            embedding=embedding,
            hidden=hidden,
            learning_rate=learning_rate,
            batch_size=batch_size,
            max_iterations=max_iterations,
            n_starts=n_starts,
            validation_fraction=validation_fraction,
            patience=patience,
            discount=discount,
            device=device,
            seed=seed,
        )
        self.habit = habit
        self.goal_discount = goal_discount
        self.sparsity = sparsity

    def _check_parameters(self, demos: Demonstrations) -> None:
        super()._check_parameters(demos)
        self._check_numbers({"goal_discount": 0}, below=1)
        self._check_numbers({"sparsity": 0})
        if sharing.current().size > 1:
            raise InputError("Goals are searched for in one process; run this model without torchrun.")

    def fit(self, demos: Demonstrations, mdp: MDP | None = None, **options: Any) -> Self:
        """Find the goals, then the switching, then the habit; see `PairModel.fit`. Goals need the dynamics."""
        self.dynamics_ = MDP.from_demonstrations(demos, self.discount) if mdp is None else mdp
        return super().fit(demos, self.dynamics_, **options)

    def _chosen_history(self, demos: Demonstrations) -> tuple[int, float]:
        """The habit is one policy, so its memory is chosen as that of a single intention."""
        self.history_choice_: list[dict[str, float]] = []
        if "auto" not in (self.history, self.backoff):
            return int(self.history), float(self.backoff)
        train, validation = validation_split(demos, self.validation_fraction, self.seed)
        if validation is None:
            return 1, BACKOFFS[0]
        choice = choose_history(
            train,
            validation,
            1,
            lengths=LENGTHS if self.history == "auto" else (int(self.history),),
            backoffs=BACKOFFS if self.backoff == "auto" else (float(self.backoff),),
            smoothing=self.smoothing,
            seed=self.seed,
        )
        self.history_choice_ = choice.tried
        return choice.length, choice.backoff

    def _build(self, demos: Demonstrations) -> tuple[Switching, RewardModel]:
        switching, _ = super()._build(demos)
        if not hasattr(self, "planner_"):
            self.planner_ = Planner(self.mdp_ if hasattr(self, "mdp_") else self.dynamics_, self.goal_discount)
        rewards = GoalPolicies(
            self.n_intentions,
            self.planner_,
            self.contexts_,
            habit=self.habit,
            sparsity=self.sparsity,
            smoothing=self.smoothing,
            backoff=self.backoff_,
        )
        return switching, rewards

    def _set_up(self, demos: Demonstrations) -> None:
        if hasattr(self, "planner_"):
            del self.planner_
        super()._set_up(demos)

    # -- what ------------------------------------------------------------------------------------------------------

    def _begin(self, start: em.Start, train: Prepared, kind: StartKind, generator: np.random.Generator) -> None:
        """Look for goals on a random half of the trajectories."""
        rewards = _goals(start)
        rewards.learn_habit(train, np.ones(train.demos.n_steps), memory=False)
        half = train.demos
        if len(half) > 1:
            half = half.subset(np.sort(generator.permutation(len(half))[: (len(half) + 1) // 2]))
        found, chain = self._search(rewards, half)
        rewards.set_rewards(found)
        if isinstance(start.switching, Chain) and chain is not None:
            start.switching.take_over(chain)

    def _search(self, rewards: GoalPolicies, demos: Demonstrations) -> tuple[FloatArray, MarkovChain | None]:
        """Greedy forward selection of goals by likelihood; the rewards (K, S), and the chain found with them."""
        S = demos.n_states
        data = Prepared(demos, demos.states.astype(np.int64))
        nodes = np.argsort(-np.bincount(demos.states, minlength=S), kind="stable")[:CANDIDATES]
        table = np.concatenate([strength * np.eye(S)[nodes] for strength in STRENGTHS])
        tilts = self.planner_.tilt(self.planner_.values(table))
        habit = rewards.base()[:S]
        with np.errstate(divide="ignore"):
            scores = np.log(rewards.policies_of(np.concatenate([tilts, np.zeros_like(tilts[:1])]), habit))
        columns = scores.reshape(len(scores), -1)[:, data.pairs]  # (candidates + 1, n): log π_g(a_t | s_t)
        free = len(table)
        chosen: list[int] = []
        chain = None
        for _ in range(self.n_intentions - 1):
            middle = range(len(nodes) * (len(STRENGTHS) // 2), len(nodes) * (len(STRENGTHS) // 2 + 1))
            taken = {g % len(nodes) for g in chosen}
            first = {
                g: _chain(data, columns, [*chosen, g, free], SCREENING)[0]
                for g in middle
                if g % len(nodes) not in taken
            }
            best = sorted(first, key=lambda g: -first[g])[:FINALISTS]
            finalists = [g % len(nodes) + i * len(nodes) for g in best for i in range(len(STRENGTHS))]
            results = {g: _chain(data, columns, [*chosen, g, free], DECIDING) for g in finalists}
            winner = max(results, key=lambda g: results[g][0])
            chosen.append(winner)
            chain = results[winner][1]
        return np.concatenate([table[chosen], np.zeros((1, S))]), chain

    # -- how -------------------------------------------------------------------------------------------------------

    def _finish(
        self,
        starts: list[em.Start],
        train: Prepared,
        validated: sharing.World | None,
        demos: Demonstrations,
        mdp: MDP | None,
    ) -> None:
        super()._finish(starts, train, validated, demos, mdp)
        rewards = self.rewards_model_
        assert isinstance(rewards, GoalPolicies)
        if self.habit and self.contexts_.parents:
            data = self._prepare(demos)
            posterior = self._posterior_of(self.switching_, rewards, data)
            rewards.learn_habit(data, posterior.responsibilities[:, -1], memory=True)

    @property
    def goals_(self) -> list[list[int]]:
        """States with a reward, per intention, the largest first; the last intention has none."""
        return [
            [int(s) for s in np.argsort(-r, kind="stable") if r[s] > 0.1 * r.max() > 0] for r in self.state_rewards_
        ]

    @property
    def state_rewards_(self) -> FloatArray:
        """r_k(s), (K, S)."""
        self._check_fitted()
        rewards = self.rewards_model_
        assert isinstance(rewards, GoalPolicies)
        return rewards.rewards

    @property
    def rewards_(self) -> FloatArray:
        """r_k(s) for every action, (K, S, A)."""
        return np.broadcast_to(self.state_rewards_[..., None], (*self.state_rewards_.shape, self.n_actions_)).copy()

    @property
    def values_(self) -> FloatArray:
        """Soft values V_k(s), (K, S)."""
        self._check_fitted()
        rewards = self.rewards_model_
        assert isinstance(rewards, GoalPolicies)
        return rewards.values

    @property
    def q_(self) -> FloatArray:
        """Q_k(s, a) = r_k(s) + γ Σ P V, (K, S, A); −inf at invalid actions."""
        ahead = self.goal_discount * self.mdp_.expected_values(self.values_)
        return np.where(self.mdp_.valid_actions, self.state_rewards_[..., None] + ahead, -np.inf)

    @property
    def unvisited_(self) -> npt.NDArray[np.bool_] | None:
        """Planning reaches every state, visited or not."""
        return None


def _goals(start: em.Start) -> GoalPolicies:
    assert isinstance(start.rewards, GoalPolicies)
    return start.rewards


def _chain(data: Prepared, columns: FloatArray, intentions: list[int], iterations: int) -> tuple[float, MarkovChain]:
    """Likelihood per step of a Markov chain over given policies after some iterations, and the chain."""
    chain = MarkovChain(len(intentions))
    emission = torch.from_numpy(np.ascontiguousarray(columns[intentions].T))
    likelihood = -np.inf
    for _ in range(iterations):
        posterior = chain.expectation(data, emission, online=False)
        likelihood = float(posterior.log_likelihood.mean())
        chain.maximise(data, emission, posterior, None)
    return likelihood, chain
