"""Planned rewards on top of a shared habit: π_k(a|c) ∝ exp(h(c, a) + A_k(s, a) − A_0(s, a)).

A tabular policy shares nothing between states, so an intention can be anything. Here an intention is a sparse,
non-negative, state-only reward r_k(s), and what it does in every state follows by planning (`soft.Planner`), while
everything that all intentions have in common (turning alternately, not turning back) is a habit h shared by all of
them. A_0 is the advantage without any reward, so that an intention that wants nothing follows the habit exactly.

Memory in the policies buys likelihood and costs meaning, so the model is found in three steps.

1. *What.* Goals are found without memory (`find_goals`): each state in turn is tried as a goal, the one that raises
   the likelihood of a Markov chain over (goal, …, wanting nothing) most is kept, and the next one is looked for on top.
2. *When.* EM improves the switching and the rewards by gradients through the planner.
3. *How.* Last, the habit gets its memory. Going on with EM would let the habit swallow the goals, since what a memory
   of four states predicts, no goal has to explain.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from prism_irl.arrays import FloatArray
from prism_irl.data.batching import Prepared, Stats
from prism_irl.data.contexts import Contexts
from prism_irl.mdp import MDP
from prism_irl.rewards.base import Fit, PolicyTable, match_partial_labels
from prism_irl.rewards.iavi import InverseSolution
from prism_irl.rewards.soft import Planner
from prism_irl.rewards.tabular import TabularPolicies, normalise

STRENGTHS = (2.0, 4.0, 8.0)
"""Rewards that a goal is tried with, in nats: 4 makes the way there e⁴ times likelier than the way off."""
CANDIDATES = 256
"""States that are tried as goals at most: the most visited ones."""
SCREENING, DECIDING, FINALISTS = 6, 20, 5
HABIT_ROUNDS = 5
"""Turns of a habit that is fitted to all steps and of the switching that goes on with it."""


class GoalPolicies(PolicyTable):
    """Policies of K intentions: a shared habit, tilted by what each intention wants; the last one wants nothing.

    Parameters
    ----------
    contexts : Contexts
        Short histories that the habit may depend on.
    habit, sparsity, smoothing : see `rewards.options.Goals`
        Without a habit h = 0: pure goals, π_k = softmax of the soft advantage.
    """

    sparse: ClassVar[bool] = True
    learned: ClassVar[tuple[str, ...]] = ("rewards", "habit")

    def __init__(
        self,
        n_intentions: int,
        planner: Planner,
        contexts: Contexts,
        *,
        habit: str = "idle",
        sparsity: float = 50.0,
        smoothing: float = 0.01,
        backoff: float = 32.0,
    ) -> None:
        self.n_intentions, self.planner, self.contexts = n_intentions, planner, contexts
        self.taught_by, self.habitual, self.sparsity = habit, habit != "none", sparsity
        self.smoothing, self.backoff = smoothing, backoff
        self.states = contexts.current_state
        S, A = planner.valid.shape
        self.n_actions = A
        self.rewards: FloatArray = np.zeros((n_intentions, S))
        valid = planner.valid[self.states]
        self.habit: FloatArray = valid / valid.sum(-1, keepdims=True)
        self._refresh()

    def _refresh(self) -> None:
        self.values = self.planner.values(self.rewards)
        self.policies = self.policies_of(self.planner.tilt(self.values))

    def policies_of(self, tilt: FloatArray, habit: FloatArray | None = None) -> FloatArray:
        """π ∝ habit · exp(tilt), (…, C, A), from tilts (…, S, A)."""
        base = self.base() if habit is None else habit
        tilted = tilt if len(base) == tilt.shape[-2] else tilt[..., self.states, :]
        weights = base * np.exp(tilted - tilted.max(-1, keepdims=True))
        policies: FloatArray = weights / weights.sum(-1, keepdims=True)
        return policies

    def base(self) -> FloatArray:
        """The policy of an intention that wants nothing, (C, A)."""
        if self.habitual:
            return self.habit
        still: FloatArray = np.exp(self.planner.still)[self.states]
        return still

    def log_prior(self) -> float:
        """−λ Σ r."""
        return -self.sparsity * float(self.rewards.sum())

    def set_rewards(self, rewards: FloatArray) -> None:
        """Set r_k(s), (K, S)."""
        self.rewards = rewards.copy()
        self._refresh()

    def first_guess(self, fit: Fit) -> None:
        """Look for goals on a random half of the trajectories (`find_goals`)."""
        fit.chain = find_goals(self, fit)
        match_partial_labels(fit, self, lambda order: self.set_rewards(self.rewards[order]), keep_last=True)

    def finish(self, fit: Fit) -> None:
        """The habit gets its memory; goals stay, and where all steps teach it, the switching goes on with it."""
        if self.taught_by == "none" or (self.taught_by == "idle" and not self.contexts.parents):
            return
        for _ in range(HABIT_ROUNDS if self.taught_by == "all" else 0):
            self.share_habit(fit.train, fit.responsibilities(fit.train))
            fit.go_on()
        fit.counted_validation = fit.validation is not None  # the habit counts all trajectories
        responsibilities = fit.responsibilities(fit.data)
        if self.taught_by == "all":
            self.share_habit(fit.data, responsibilities)
        else:
            self.learn_habit(fit.data, responsibilities[:, -1], memory=True)

    def learn_habit(self, data: Prepared, weights: FloatArray, *, memory: bool) -> None:
        """Set the habit to what is done at steps with these weights (n,): per state, or with short histories."""
        contexts = self.contexts if memory else Contexts(self.planner.mdp.n_states)
        rows = data if memory else Prepared(data.demos, data.demos.states.astype(np.int64), data.device)
        table = self._table(contexts)
        table.m_step(rows, weights[:, None])
        self.habit = table.policies[0] if memory else table.policies[0][self.states]
        self._refresh()

    def share_habit(self, data: Prepared, responsibilities: FloatArray, rounds: int = 3) -> None:
        """Fit the habit to all steps: it is shared, so every step teaches it.

        π_k ∝ h exp(tilt_k), hence the habit under which expected and observed counts agree is approached by
        h ← h N(c,a) / Σ_k N_k(c) π_k(a|c); as counts, times N(c), so that they back off as counts do.
        """
        counts = self.weighted_counts(data, responsibilities)
        observed, visits = counts.sum(0), counts.sum(-1)
        table = self._table(self.contexts)
        for _ in range(rounds):
            expected = np.einsum("kc,kca->ca", visits, self.policies)
            ratio = np.divide(observed, expected, out=np.zeros_like(observed), where=expected > 0)
            table.set_counts((self.habit * ratio * visits.sum(0)[:, None])[None])
            self.habit = table.policies[0]
            self._refresh()

    def _table(self, contexts: Contexts) -> TabularPolicies:
        settings = {"smoothing": self.smoothing, "backoff": self.backoff}
        return TabularPolicies(1, self.n_actions, contexts, self.planner.valid, **settings)

    def update(self, stats: Stats) -> None:
        """Improve each reward by projected gradient (L-BFGS-B, r ≥ 0) through the fixed point."""
        from scipy.optimize import minimize  # here, because importing it takes longer than a fit that only counts

        counts = stats["counts"]
        for k in range(self.n_intentions - 1):  # the last one wants nothing
            problem = {"args": (counts[k],), "bounds": [(0.0, None)] * self.rewards.shape[1]}
            start, options = self.rewards[k], {"maxiter": 10}
            self.rewards[k] = minimize(
                self._objective, start, **problem, jac=True, method="L-BFGS-B", options=options
            ).x
        self._refresh()

    def _objective(self, reward: FloatArray, counts: FloatArray) -> tuple[float, FloatArray]:
        """Negative weighted log-likelihood plus λ Σ r, and its gradient."""
        values = self.planner.values(reward)
        policy = self.policies_of(self.planner.tilt(values))
        with np.errstate(divide="ignore"):
            logs = np.where(counts > 0, np.log(policy), 0.0)
        surprise = counts - counts.sum(-1, keepdims=True) * policy
        per_state = np.zeros_like(self.planner.still)
        np.add.at(per_state, self.states, surprise)
        gradient = self.planner.pull_back(values, np.where(self.planner.valid, per_state, 0.0))
        return float(self.sparsity * reward.sum() - (counts * logs).sum()), self.sparsity - gradient

    def load_state(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Set rewards and habit."""
        super().load_state(state)
        self._refresh()

    def moved(self, mdp: MDP) -> GoalPolicies:
        """The same goals on the same habit, as far as its actions exist there, planned for in other dynamics."""
        planner = Planner(mdp, self.planner.discount)
        settings = {"sparsity": self.sparsity, "smoothing": self.smoothing, "backoff": self.backoff}
        again = GoalPolicies(self.n_intentions, planner, self.contexts, habit=self.taught_by, **settings)
        again.habit = normalise(np.where(planner.valid[self.states], self.habit, 0.0), again.habit)
        again.accents = self.accents
        again.set_rewards(self.rewards)
        return again

    def solution(self, mdp: MDP) -> InverseSolution:
        """r_k(s) for every action, Q_k(s, a) = r_k(s) + γ Σ P V (−inf at invalid actions) and soft values.

        Planning reaches every state, visited or not.
        """
        ahead = self.planner.discount * mdp.expected_values(self.values)
        q = np.where(mdp.valid_actions, self.rewards[..., None] + ahead, -np.inf)
        rewards = np.broadcast_to(self.rewards[..., None], (*self.rewards.shape, self.n_actions)).copy()
        return InverseSolution(rewards, q, self.values, None)

    @property
    def state_rewards(self) -> FloatArray:
        """r_k(s), (K, S)."""
        return self.rewards


def find_goals(rewards: GoalPolicies, fit: Fit) -> Any:
    """Look for goals on a random half of the trajectories, so that starts tell whether other data show the same.

    Greedy forward selection by likelihood; leaves the rewards (K, S), and returns the chain found with them.
    """
    train, generator = fit.train, fit.generator
    rewards.learn_habit(train, np.ones(train.demos.n_steps), memory=False)
    half = train.demos
    if len(half) > 1:
        half = half.subset(np.sort(generator.permutation(len(half))[: (len(half) + 1) // 2]))
    S, planner = half.n_states, rewards.planner
    data = Prepared(half, half.states.astype(np.int64))
    nodes = np.argsort(-np.bincount(half.states, minlength=S), kind="stable")[:CANDIDATES]
    table = np.concatenate([strength * np.eye(S)[nodes] for strength in STRENGTHS])
    tilts = planner.tilt(planner.values(table))
    with np.errstate(divide="ignore"):
        scores = np.log(rewards.policies_of(np.concatenate([tilts, np.zeros_like(tilts[:1])]), rewards.base()[:S]))
    columns = scores.reshape(len(scores), -1)[:, data.pairs]  # (candidates + 1, n): log π_g(a_t | s_t)
    free = len(table)
    chosen: list[int] = []
    chain = None

    def trial(goal: int, iterations: int) -> tuple[float, Any]:
        return fit.run_fixed(data, np.ascontiguousarray(columns[[*chosen, goal, free]].T), iterations)

    for _ in range(rewards.n_intentions - 1):
        middle = range(len(nodes) * (len(STRENGTHS) // 2), len(nodes) * (len(STRENGTHS) // 2 + 1))
        taken = {g % len(nodes) for g in chosen}
        first = {g: trial(g, SCREENING)[0] for g in middle if g % len(nodes) not in taken}
        best = sorted(first, key=lambda g: -first[g])[:FINALISTS]
        finalists = [g % len(nodes) + i * len(nodes) for g in best for i in range(len(STRENGTHS))]
        results = {g: trial(g, DECIDING) for g in finalists}
        chosen.append(max(results, key=lambda g: results[g][0]))
        chain = results[chosen[-1]][1]
    rewards.set_rewards(np.concatenate([table[chosen], np.zeros((1, S))]))
    return chain
