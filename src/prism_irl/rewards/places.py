"""Places as rewards: an intention is a place to get to, and its reward is 1 there.

π_g(a|s) ∝ h(a|s)^α exp(u(s,a) − β e^{−κ D_g(s)} Δ_g(s,a)) on the way, where D_g are the expected steps to g and Δ_g
the detour of an action (`rewards.detours`): the paper's Boltzmann policy of the sparse reward 1[s ∈ g], with what
everybody does anyway, the habit h, and levels u that all goals share, because h has counted the ways to goals, too.
What is done at the goal (drinking, pressing, staying) has a policy of its own, which all goals share. Which places are
goals, and how many, is what the data say (`rewards.place_search`). One intention may have a crowd of places, each of
its trips going to any of them: its policy is what is done on the way to all of them together, and `ends` has each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from prism_irl.arrays import BoolArray, FloatArray
from prism_irl.data.batching import Stats
from prism_irl.data.contexts import Contexts
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.mdp import MDP
from prism_irl.rewards.base import Ends, Fit, PolicyTable, match_partial_labels
from prism_irl.rewards.detours import Detours
from prism_irl.rewards.iavi import InverseSolution
from prism_irl.rewards.place_search import (
    SETTINGS,
    Goals,
    GoalSearch,
    Practice,
    Steps,
    Ways,
    find_goals,
    habit_of,
)

MOST_CANDIDATES = 512
"""Places that may be goals at most: the most visited ones."""
CONTRADICTION = 0.02
"""Share of steps that given dynamics may call impossible."""


class PlacePolicies(PolicyTable):
    """Policies of K intentions that are places.

    Parameters
    ----------
    n_intentions : int
    mdp : MDP
    contexts : Contexts
    place : (S,) integers from 0
        The place that a state belongs to.
    noise : float
        Share of the habit in every policy.

    Attributes
    ----------
    goals : (K,) the place of each intention; the number of places for one that goes nowhere, or to a crowd; beyond, a
        set of places (`Detours.joined`)
    crowd, runs : the places of that crowd (C,), if any, and what was done on the way to each, steps (C, S, A)
    ways : Ways, sharpness and the policy at the goal
    habit : (S, A)
    weights : (K,) how often each goal is drawn, from the search
    returns : (K,) the share of resampled data in which the search finds each goal again; −1 where that was not tried
    """

    sparse: ClassVar[bool] = True
    reminders: FloatArray | None = None

    def __init__(
        self, n_intentions: int, mdp: MDP, contexts: Contexts, place: npt.NDArray[np.int64], noise: float = 0.02
    ) -> None:
        self.n_intentions, self.n_actions, self.contexts = n_intentions, mdp.n_actions, contexts
        self.mdp, self.noise, self.detours = mdp, noise, Detours(mdp, place)
        self.states = contexts.current_state
        valid = mdp.valid_actions
        self.habit: FloatArray = valid / valid.sum(-1, keepdims=True)
        self.goals = np.arange(n_intentions) % self.detours.n_places
        self.weights, self.returns = np.full(n_intentions, 1.0 / n_intentions), np.full(n_intentions, -1.0)
        self.ways, self.crowd = Ways(0.5, 1.0), np.zeros(0, np.int64)
        self.runs: FloatArray = np.zeros((0, *self.habit.shape))
        self.practice = Practice(np.inf, np.zeros((n_intentions, *self.habit.shape)))
        self._refresh()

    def _refresh(self) -> None:
        policies = self.practice.applied(self.detours.policies(self.goals, self.ways, self.habit, self.noise))
        if len(self.crowd):
            done = (self.practice.counts[self.explores] + self.habit) * self.detours.valid
            policies[self.explores] = done / done.sum(-1, keepdims=True)
        self.policies = policies if len(self.states) == policies.shape[1] else policies[:, self.states]

    def begin(self, found: Discovery) -> None:
        """Take over what a search has found."""
        goals, own = found.goals, found.n_intentions - bool(found.goals.crowd)
        self.goals, self.ways, self.weights = goals.goals.copy(), goals.ways, goals.chain.initial.copy()
        self.habit, self.reminders, self.detours = found.habit, goals.chain.reminders, found.detours
        if goals.returns is not None:
            self.returns = goals.returns
        self.practice = self.practice if goals.practice is None else goals.practice
        if goals.crowd:
            self.crowd, self.goals = self.goals[own:], np.append(self.goals[:own], self.detours.n_places)
            self.weights = np.append(self.weights[:own], self.weights[own:].sum())
            strength, counts = self.practice
            self.runs = counts[own:]
            self.practice = Practice(strength, np.append(counts[:own], [self.runs.sum(0)], axis=0))
        self._refresh()

    def first_guess(self, fit: Fit) -> None:
        """A chain over the goals that were found already."""

        def reorder(order: npt.NDArray[np.integer[Any]]) -> None:
            self.goals, self.weights, self.returns = self.goals[order], self.weights[order], self.returns[order]
            self.practice = self.practice._replace(counts=self.practice.counts[order])
            self.reminders = None if self.reminders is None else self.reminders[:, order]
            self._refresh()

        fit.chain = fit.run_fixed(fit.train, self.log_likelihood(fit.train), 15)[1]
        match_partial_labels(fit, self, reorder)

    def update(self, stats: Stats) -> None:
        """Sharpness and the policy at the goal; goals stay where the search has found them."""
        if len(self.crowd):
            return  # whose trips statistics of intentions do not tell apart
        counts = stats["counts"]
        S, A = self.habit.shape
        if counts.shape[1] > S:
            summed = np.zeros((self.n_intentions, S, A))
            for own, found in zip(summed, counts, strict=True):
                np.add.at(own, self.states, found)
            counts = summed
        search = GoalSearch(self.detours, self.habit, self.noise)
        goals = Goals(self.goals, None, self.ways)  # type: ignore[arg-type]
        there = search.learn_there(goals, counts, self.ways)
        self.ways = search.learn_ways(goals, counts, levels=True)._replace(at_goal=there.at_goal, stay=there.stay)
        self.practice = self.practice._replace(counts=counts)
        self._refresh()

    @property
    def reached(self) -> FloatArray:
        """States at which each intention is reached, (K, S), ones and zeros."""
        ends = np.asarray(self.detours.at[self.goals], dtype=np.float64)
        if len(self.crowd):
            ends[self.explores] = np.isin(self.detours.place, self.crowd)
        return ends

    @property
    def explores(self) -> int:
        """The intention with a crowd."""
        return int((self.goals == self.detours.n_places).argmax())

    @property
    def ends(self) -> Ends:
        """The place of each intention; of a crowd, further hidden intentions with one place each."""
        known = self.reminders, self.distances, self.goal_facts
        if not len(self.crowd):
            return Ends(self.reached, None, None, *known)
        owner = np.append(np.arange(self.n_intentions), np.full(len(self.crowd) - 1, self.explores))
        goals = np.append(self.goals, self.crowd[1:])
        counts = np.append(self.practice.counts, self.runs[1:], axis=0)
        goals[self.explores], counts[self.explores] = self.crowd[0], self.runs[0]
        policies = self.detours.policies(goals, self.ways, self.habit, self.noise)
        policies = self.practice._replace(counts=counts).applied(policies)
        together = np.where(self.detours.valid, self.policies[owner][:, : len(self.habit)], 1.0)
        tilt = np.where(self.detours.valid, policies / together, 1.0)
        return Ends(np.asarray(self.detours.at[goals], np.float64), owner, tilt, *known)

    @property
    def goal_facts(self) -> Mapping[str, FloatArray]:
        """How often each goal is drawn, and the share of resampled data in which it is found again."""
        return {"weight": self.weights, "returns": np.where(self.returns < 0, np.nan, self.returns)}

    @property
    def distances(self) -> FloatArray:
        """Expected steps to each place by the shortest way, (K, S); to the next one of a crowd."""
        steps: FloatArray = self.detours.steps[self.goals]
        if len(self.crowd):
            steps[self.explores] = self.detours.steps[self.crowd].min(axis=0)
        return steps

    def state(self) -> dict[str, FloatArray]:
        """Goals, ways, habit and places."""
        at_goal = np.full(self.n_actions, np.nan) if self.ways.at_goal is None else self.ways.at_goal
        return {
            "goals": np.minimum(self.goals, self.detours.n_places + 1).astype(np.float64),
            "at": self.detours.at[self.goals].astype(np.float64),
            "weights": self.weights,
            "returns": self.returns,
            "ways": np.array([self.ways.alpha, self.ways.beta, self.ways.kappa, self.ways.stay]),
            "at_goal": np.where(np.isnan(at_goal), -1.0, at_goal),
            "levels": np.zeros_like(self.habit) if self.ways.levels is None else self.ways.levels,
            "habit": self.habit,
            "practice": self.practice.counts,
            "strength": np.array([-1.0 if np.isinf(self.practice.strength) else self.practice.strength]),
            "place": self.detours.place.astype(np.float64),
            "crowd": self.crowd.astype(np.float64),
            "runs": self.runs,
        }

    def load_state(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Undo `state`."""
        place = state["place"].astype(np.int64)
        if place.shape != self.detours.place.shape or place.min() < 0 or place.max() >= len(place):
            raise InputError("The saved places do not fit the states; restore the file or fit again.")
        if (place != self.detours.place).any():
            self.detours = Detours(self.mdp, place)
        self.goals, self.crowd = (np.asarray(state.get(name, ())).astype(np.int64) for name in ("goals", "crowd"))
        self.runs = state["runs"] if len(self.crowd) else self.runs
        if (
            self.goals.shape != (self.n_intentions,)
            or not (self.goals >= 0).all()
            or self.goals.max() > self.detours.n_places + ("at" in state)
            or not np.isin(self.crowd, place).all()
        ):
            raise InputError("The saved goals are no places; restore the file or fit again.")
        self._join(state.get("at", np.zeros((self.n_intentions, len(place)))) > 0)
        at_goal = state["at_goal"]
        alpha, beta, kappa, stay = (float(value) for value in state["ways"])
        there = None if (at_goal < 0).any() else at_goal.copy()
        self.ways = Ways(alpha, beta, kappa, there, state["levels"].copy(), stay)
        self.habit, self.weights, self.returns = (state[name].copy() for name in ("habit", "weights", "returns"))
        strength = float(state["strength"][0])
        self.practice = Practice(np.inf if strength < 0 else strength, state["practice"].copy())
        self._refresh()

    def _join(self, at: BoolArray) -> None:
        """Goals that are sets of places are so in these detours, too."""
        for k in np.flatnonzero(self.goals > self.detours.n_places):
            self.goals[k] = self.detours.joined(at[k])

    def moved(self, mdp: MDP) -> PlacePolicies:
        """The same goals on the same habit, as far as its actions exist there, in other dynamics."""
        again = PlacePolicies(self.n_intentions, mdp, self.contexts, self.detours.place, self.noise)
        kept = np.where(mdp.valid_actions, self.habit, 0.0)
        total = kept.sum(-1, keepdims=True)
        again.habit = np.where(total > 0, kept / np.where(total > 0, total, 1.0), again.habit)
        again.goals, again.ways, again.weights, again.accents = self.goals.copy(), self.ways, self.weights, self.accents
        again._join(self.detours.at[self.goals])
        again.returns, again.crowd, again.runs = self.returns, self.crowd, self.runs
        again.practice = self.practice if len(self.crowd) else again.practice
        again._refresh()
        return again

    def solution(self, mdp: MDP) -> InverseSolution:
        """1 at the place, whatever the action; optimal values of arriving there, after which nothing is to be had."""
        ends = self.reached
        values = np.where(ends > 0, 1.0, mdp.discount**self.distances)
        q = np.where(ends > 0, 1.0, 0.0)[..., None] + np.where(
            ends[..., None] > 0, 0.0, mdp.discount * mdp.expected_values(values)
        )
        rewards = np.broadcast_to(ends[..., None], (*ends.shape, self.n_actions)).copy()
        return InverseSolution(rewards, np.where(mdp.valid_actions, q, -np.inf), values, None)

    @property
    def state_rewards(self) -> FloatArray:
        """1 at the place of each intention, (K, S)."""
        return self.reached


class Discovery(NamedTuple):
    """Goals of some demonstrations, the habit there, and what else was tried (`place_search.find_goals`)."""

    goals: Goals
    habit: FloatArray
    detours: Detours
    tried: list[dict[str, Any]]

    @property
    def n_intentions(self) -> int:
        """Number of goals; a crowd is one."""
        return len(self.goals.goals) - max(self.goals.crowd - 1, 0)


def discover(demos: Demonstrations, mdp: MDP, n_goals: int | None, noise: float, seed: int) -> Discovery:
    """Look for the goals of demonstrations; heaviest first."""
    place = place_of(demos)
    check_places(demos, mdp, place, n_goals)
    detours = Detours(mdp, place)
    candidates = candidates_of(demos, place)
    found, tried = find_goals(demos, detours, candidates, n_goals=n_goals, noise=noise, seed=seed)
    order = np.argsort(-found.chain.initial[: len(found.goals) - found.crowd], kind="stable")
    found = found.in_order(np.append(order, np.arange(len(order), len(found.goals))))
    return Discovery(found, habit_of(demos, detours), detours, tried)


def posterior_of_goals(demos: Demonstrations, mdp: MDP, n_goals: int, noise: float = 0.02) -> FloatArray:
    """P(z_t = k | all steps) of so many goals that end, (n, K)."""
    place = place_of(demos)
    check_places(demos, mdp, place, n_goals)
    detours = Detours(mdp, place)
    search, steps = GoalSearch(detours, habit_of(demos, detours), noise), Steps(demos, place)
    tried = [search.run(candidates_of(demos, place), steps, setting, n_goals)[0] for setting in SETTINGS]
    found = search.order(max(tried, key=lambda one: search.likelihood(one, steps)), steps, reminds=False)
    return search.believe(found, steps).counts


def place_of(demos: Demonstrations) -> npt.NDArray[np.int64]:
    """The place of every state, (S,): the state itself unless places are given."""
    return np.arange(demos.n_states) if demos.places is None else demos.places.astype(np.int64)


def candidates_of(demos: Demonstrations, place: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Places that may be goals: those that were visited, the most visited ones where there are many."""
    visits = np.bincount(place[demos.states], minlength=int(place.max()) + 1)
    order = np.argsort(-visits, kind="stable")[:MOST_CANDIDATES]
    return np.sort(order[visits[order] > 0])


def check_places(demos: Demonstrations, mdp: MDP, place: npt.NDArray[np.int64], n_goals: int | None) -> None:
    """Raise an `InputError` where there is nowhere to go, or where the dynamics say that nobody could have gone."""
    visited = candidates_of(demos, place)
    if len(visited) < 2:
        raise InputError("Every step is at the same place, and goals are places to get to; choose rewards tabular.")
    if n_goals is not None and n_goals > len(visited):
        raise InputError(f"{n_goals} goals were asked for, and only {len(visited)} places are visited; ask for fewer.")
    last = np.zeros(demos.n_steps, bool)
    last[demos.offsets[1:] - 1] = True
    steps = np.flatnonzero(~last)
    rows = demos.states[steps].astype(np.int64) * demos.n_actions + demos.actions[steps]
    possible = np.asarray(mdp.transitions[rows, demos.states[steps + 1].astype(np.int64)]).ravel() > 0
    if possible.mean() >= 1.0 - CONTRADICTION if len(steps) else True:
        return
    entered = np.unique(place[demos.states[steps + 1]])
    P = mdp.transitions.tocoo()
    moving = (P.data > 0) & (place[P.row // demos.n_actions] != place[P.col])
    closed = np.setdiff1d(entered, place[P.col[moving]])
    names = demos.state_names
    if len(closed):
        state = int(np.flatnonzero(place == closed[0])[0])
        raise InputError(
            f"The dynamics have no way into the place of state {state if names is None else names[state]}, which the "
            "data enter; correct the dynamics, or leave them out to have them counted."
        )
    wrong = int(steps[np.flatnonzero(~possible)[0]])
    raise InputError(
        f"The dynamics call {np.mean(~possible):.0%} of the steps impossible, the first one at {demos.where(wrong)}; "
        "correct the dynamics, or leave them out to have them counted."
    )
