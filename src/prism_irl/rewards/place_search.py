"""Which places are goals, and how many: every place is a candidate, and the data keep those that are needed.

The model is that of goals that end: on the way to g the agent acts by

    π_g(a|s) ∝ h(a|s)^α exp(u(s,a) − β e^{−κ D_g(s)} Δ_g(s,a)),

where D_g are expected steps to g, Δ_g the detour that an action makes, and u levels that all goals share; intentions
end and are drawn anew as in `prism_irl.renewal`. The search has no random start:

1. EM from equal weights of all candidates, with sharpness and rates held: learned from the beginning they collapse.
   Weights of most places that are no goals vanish by themselves.
2. Backward elimination: the goal that costs the least likelihood goes, and EM goes on, to the last one. What true goals
   cost is far above what their neighbours cost, so that a penalty of each goal says where to stop.
3. Sharpness, rates and the policy at the goal are learned for what is left, and goals change one by one: they move,
   further ones come, and two become one intention that goes to the nearest of its places.
4. Trajectories that were left out say how much practice there is, what else brings goals about, and how many goals are
   needed: a habit counted on the same steps explains them too well for their own likelihood to say so.

It is made from a few settings of what is held.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prism_irl.data.demonstrations import Demonstrations, some_trajectories
from prism_irl.renewal import (
    ORDER_PRIOR,
    QUIT,
    Expected,
    Renewal,
    beliefs,
    expected_counts,
    lasting,
    leaving_rates,
    left_from,
    reminding,
)
from prism_irl.rewards.detours import Detours

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
HELD_ITERATIONS, OWN_ITERATIONS, LAST_ITERATIONS = 30, 20, 24
"""EM with everything held but the weights; of settings that learn more before elimination; and at the end."""
MOST_GOALS = 25
"""Candidates that elimination begins with at most: the heaviest ones."""
VANISHED = 1e-4
EASY = 2.0
"""Goals that cost less, in nats, go several at a time."""
PRACTICE_ITERATIONS = 12
THERE_ROUNDS = 2
LEVEL_ROUNDS, LEVEL_PRIOR = 3, 30.0
"""Scaling steps of the levels in each M-step; steps at every state that were taken as if there were none."""
ORDER_ITERATIONS = 20
CROWD, CROWD_WORTH = 10, 3.0
"""Places at least that are a crowd and no goals of their own, and how many goals the best crowd must be worth beyond
what goals alone are: where intentions end anywhere, places all over are worth one or two."""
LONELY, HEAVIER = 0.25, 2.0
"""Of the draws of a crowd's mean place, what those of each must be, since a place too many dilutes all the others; and
what those of some goal beside it must be."""
RESAMPLES = 10
"""Of the trajectories, in which goals are looked for again."""
FOLDS = 3
"""Parts of the trajectories that are left out in turn."""
REMINDER_GAIN = 8.0, 4e-3
"""Nats that reminders must gain on what is left out: in all, and per step."""
WANDER_GAIN, BRIEF, OFTEN = 0.01, 0.2, 1.5
"""Nats per step that an intention which goes nowhere must gain on what is left out. Less is enough where it ends so
seldom, and has so many times the steps of a goal."""
NEEDLESS = 1.5
"""How much of the penalty a goal must earn on trajectories that were left out, once policies are practised."""
NEARBY, MOVING = 2.0, 1.0
"""Steps to places that a goal may move to, and nats that it must gain."""
CHANGES, LEARNED = 16, 2
"""Changes of goals at most, and how many of each kind EM tries every time."""
STRENGTHS = (np.inf, 100.0, 30.0, 10.0, 4.0)
"""Strengths of plans against practice that are tried, in steps per state."""
PIECES = 10
"""Trajectories that left-out ones and resamples are taken from: fewer of them are cut."""
TRIAL_STEPS = 20_000
"""Steps that settings are compared on at most."""


@dataclass(frozen=True)
class Setting:
    """What a search begins with: α, β, rates of quitting and ending; ``learns`` them before elimination."""

    alpha: float
    beta: float
    quit: float
    end: float
    learns: bool


SETTINGS = (
    Setting(0.0, 1.0, 0.05, 0.5, learns=False),
    Setting(0.0, 1.0, 0.12, 0.3, learns=False),
    Setting(0.0, 2.0, 0.05, 0.5, learns=True),
)


class Ways(NamedTuple):
    """How goals are approached: the exponent α of the habit, the sharpness β, and how it fades with distance, κ.

    ``at_goal`` (A,): what is done there, whatever the goal; None while nothing is known; ``stay``: how much each step
    that an action takes away from there speaks against it. ``levels`` (S, A): how much more, in logs, each action is
    taken on the way than all this expects, whatever the goal. ``last`` (2,): how often a step is the last of its
    trajectory, away from the goal and at it: some recordings end there.
    """

    alpha: float
    beta: float
    kappa: float = 0.0
    at_goal: FloatArray | None = None
    levels: FloatArray | None = None
    stay: float = 0.0
    last: FloatArray = np.full(2, 0.5)


class Practice(NamedTuple):
    """What is done on the way to each goal: steps (K, S, A), towards which policies of ``strength`` steps give way.

    π_g(a|s) = (m π(a|s) + n_g(s, a)) / (m + n_g(s)): agents have routes that no plan knows, and see worlds as they are
    not. With an infinite strength they do as planned.
    """

    strength: float
    counts: FloatArray

    def applied(self, policies: FloatArray) -> FloatArray:
        """Policies (K, S, A) as they are practised."""
        if np.isinf(self.strength):
            return policies
        total = self.strength + self.counts.sum(-1, keepdims=True)
        return np.asarray((self.strength * policies + self.counts) / total)


@dataclass(frozen=True)
class Goals:
    """A set of goals with everything that EM has learned for them.

    ``goals`` (K,) are places; ``log_likelihood`` that of all steps at the last E-step; ``returns`` (K,) the share of
    resampled data in which each goal is found again. The last ``crowd`` of them are one intention, each of whose trips
    goes to any of them.
    """

    goals: IntArray
    chain: Renewal
    ways: Ways
    log_likelihood: float = -np.inf
    practice: Practice | None = None
    returns: FloatArray | None = None
    crowd: int = 0

    def keep(self, kept: npt.NDArray[np.bool_]) -> Goals:
        """Some of the goals, their weights scaled to one."""
        return self.in_order(np.flatnonzero(kept))

    def joined(self, place: int, share: float = 0.1) -> Goals:
        """With a further goal."""
        initial, onward, leaving, _ = self.chain
        first = np.append((1.0 - share) * initial, share)
        more = np.column_stack([(1.0 - share) * onward, np.full(len(onward), share)])
        more = np.concatenate([more, first[None]]) if len(onward) > 1 else more
        return replace(
            self,
            goals=np.append(self.goals, place),
            chain=Renewal(first, more, np.concatenate([leaving, leaving[:1]])),
        )

    def in_order(self, order: npt.NDArray[np.integer[Any]]) -> Goals:
        """Some of the goals, or all, in another order."""
        initial, onward, leaving, reminders = self.chain
        left = onward[:, order] if len(onward) == 1 else onward[order][:, order]
        reminders = None if reminders is None else reminders[:, order]
        chain = Renewal(_normalised(initial[order]), _normalised(left), leaving[order], reminders)
        practice = self.practice and self.practice._replace(counts=self.practice.counts[order])
        returns = None if self.returns is None else self.returns[order]
        return replace(self, goals=self.goals[order], chain=chain, practice=practice, returns=returns)


class Steps:
    """Steps as the compiled passes read them: rows of a table (n,), places (n,), and where trajectories begin.

    The table has a row s·A + a of every state and action, and behind them those of the last steps of trajectories.

    ``visits`` (G,): how often the agent goes on from each place.
    """

    def __init__(self, demos: Demonstrations, place: IntArray) -> None:
        self.rows = demos.states.astype(np.int64) * demos.n_actions + demos.actions
        self.places, self.offsets = place[demos.states], demos.offsets.astype(np.int64)
        self.rows[self.offsets[1:] - 1] += demos.n_states * demos.n_actions
        self.n_trajectories = len(demos)
        self.visits = left_from(self.places, self.offsets, int(place.max()) + 1)


class GoalSearch:
    """EM and elimination over a set of candidate places.

    Parameters
    ----------
    detours : Detours
    habit : (S, A), the memoryless habit h
    noise : share of h in every policy
    """

    def __init__(self, detours: Detours, habit: FloatArray, noise: float) -> None:
        self.detours, self.habit, self.noise = detours, habit, noise

    # -- policies --------------------------------------------------------------------------------------------------

    def policies(self, found: Goals) -> FloatArray:
        """π_g(a|s) as it is practised, (K, S, A)."""
        policies = self.detours.policies(found.goals, found.ways, self.habit, self.noise)
        return policies if found.practice is None else found.practice.applied(policies)

    def table(self, found: Goals) -> FloatArray:
        """Probabilities of actions, and of going on or not, of every row of `Steps`, (2·S·A, K)."""
        away, there = found.ways.last
        last = np.where(self.detours.at[found.goals], there, away)[..., None]
        policies = self.policies(found)
        both = np.concatenate([(1.0 - last) * policies, last * policies], axis=1)
        return np.ascontiguousarray(both.reshape(len(policies), -1).T)

    def expect(self, found: Goals, steps: Steps) -> Expected:
        """E-step."""
        at = self._at(found, steps)
        return expected_counts(found.chain, self.table(found), steps.rows, at, steps.offsets, steps.places)

    def believe(self, found: Goals, steps: Steps) -> Expected:
        """Beliefs about every step."""
        emission = self.table(found)[steps.rows]
        return beliefs(found.chain, emission, self._at(found, steps), steps.offsets, steps.places)

    def _at(self, found: Goals, steps: Steps) -> IntArray:
        """The goal that the agent is at, −1 elsewhere, (n,)."""
        index = np.full(self.detours.n_places, -1)
        goal, state = np.nonzero(self.detours.at[found.goals])
        index[self.detours.place[state]] = goal
        return np.asarray(index[steps.places])

    def done(self, counts: FloatArray) -> FloatArray:
        """Expected steps (K, S, A) from those of a table, (2·S·A, K)."""
        found: FloatArray = counts.T.reshape(-1, 2, *self.habit.shape).sum(axis=1)
        return found

    def learn_last(self, found: Goals, counts: FloatArray) -> FloatArray:
        """How often a step is the last one, away from the goal and at it, from counts of a table (2·S·A, K)."""
        steps = counts.T.reshape(len(found.goals), 2, *self.habit.shape).sum(-1)
        at = self.detours.at[found.goals]
        closed = [[part[~at].sum(), part[at].sum()] for part in (steps[:, 1], steps.sum(1))]
        return lasting(np.array(closed))

    def learn_ways(self, found: Goals, counts: FloatArray, *, levels: bool) -> Ways:
        """The likeliest α, β and κ given expected steps (K, S, A), one after the other; then the levels."""
        from scipy.optimize import minimize_scalar

        weights = counts * ~self.detours.at[found.goals][:, :, None]
        ways = found.ways._replace(at_goal=None)

        def policies(**changed: Any) -> FloatArray:
            made: FloatArray = self.detours.policies(found.goals, ways._replace(**changed), self.habit, self.noise)
            return made

        def loss(**changed: Any) -> float:
            return -float((weights * np.log(np.maximum(policies(**changed), 1e-300))).sum())

        for name, low, high in (("beta", 0.1, 12.0), ("alpha", 0.0, 1.5), ("kappa", 0.0, 0.5)):
            if name == "alpha" and not ways.alpha:
                continue
            tried = minimize_scalar(
                lambda value, name=name: loss(**{name: value}),
                bounds=(low, high),
                method="bounded",
                options={"xatol": 0.004 * (high - low)},
            )
            learned: dict[str, Any] = {name: float(tried.x)}
            ways = ways._replace(**learned)
        if levels:

            def expected(levels: FloatArray | None) -> FloatArray:
                return np.asarray((steps * policies(levels=levels)).sum(0) + 1e-9)

            steps = weights.sum(-1, keepdims=True)
            target = weights.sum(0) + LEVEL_PRIOR * _normalised(expected(None)) + 1e-9
            for _ in range(LEVEL_ROUNDS):
                now = expected(ways.levels)
                more = np.log(target / (now + LEVEL_PRIOR * _normalised(now)))
                ways = ways._replace(levels=more if ways.levels is None else ways.levels + more)
        return ways._replace(at_goal=found.ways.at_goal)

    def learn_there(self, found: Goals, counts: FloatArray, ways: Ways) -> Ways:
        """The likeliest policy at goals given expected steps (K, S, A): actions, and whether one stays there."""
        from scipy.optimize import minimize_scalar

        goal, state = np.nonzero(self.detours.at[found.goals])
        done = counts[goal, state]
        own = np.ones(self.habit.shape[1]) if ways.at_goal is None else ways.at_goal
        ways = ways._replace(at_goal=_normalised(own))
        steps = done.sum(-1, keepdims=True)
        for _ in range(THERE_ROUNDS):
            tried = minimize_scalar(
                lambda stay, ways=ways: (
                    -float(
                        (done * np.log(np.maximum(self.detours.there(state, ways._replace(stay=stay)), 1e-300))).sum()
                    )
                ),
                bounds=(0.0, 6.0),
                method="bounded",
                options={"xatol": 0.02},
            )
            ways = ways._replace(stay=float(tried.x))
            expected = (steps * self.detours.there(state, ways)).sum(0)
            ways = ways._replace(at_goal=_normalised(ways.at_goal * (done.sum(0) + 0.5) / (expected + 0.5)))
        return ways

    # -- EM --------------------------------------------------------------------------------------------------------

    def em(
        self,
        found: Goals,
        steps: Steps,
        iterations: int,
        *,
        learns: bool,
        levels: bool = False,
        policies_from: int = 0,
        vanished: float = 0.0,
        least: int = 1,
    ) -> Goals:
        """Some iterations; with ``learns`` also of rates and ways. All but ``least`` goals below ``vanished`` leave."""
        for iteration in range(iterations):
            seen = self.expect(found, steps)
            done = self.done(seen.counts)
            weights = _normalised(seen.onward.sum(0) + seen.first)
            if found.crowd:
                weights[-found.crowd :] = weights[-found.crowd :].mean()
            ordered = len(seen.onward) > 1
            onward = _normalised(seen.onward + ORDER_PRIOR * weights) if ordered else weights[None]
            chain, ways = found.chain._replace(initial=weights, onward=onward), found.ways
            slow = iteration % 4 == 0
            if slow and iteration >= policies_from:
                ways = self.learn_there(found, done, ways)._replace(last=self.learn_last(found, seen.counts))
            if learns:
                chain = chain._replace(
                    leaving=leaving_rates(seen.left, seen.stayed, found.goals == self.detours.n_places)
                )
                if slow:
                    learned = self.learn_ways(found, done, levels=levels)
                    ways = learned._replace(at_goal=ways.at_goal, stay=ways.stay, last=ways.last)
            practice = found.practice
            if chain.reminders is not None:
                chain = chain._replace(reminders=reminding(seen.reminded, steps.visits, weights))
            if practice is not None:
                practice = practice._replace(counts=done)
            likelihood = float(seen.log_likelihood.sum())
            found = replace(found, chain=chain, ways=ways, log_likelihood=likelihood, practice=practice)
            heavy = weights > min(vanished, np.sort(weights)[-min(least, len(weights))] / 2)
            if vanished and not heavy.all():
                found = found.keep(heavy)
        return found

    def likelihood(self, found: Goals, steps: Steps) -> float:
        """Of all steps together."""
        return float(self.expect(found, steps).log_likelihood.sum())

    def begin(self, candidates: IntArray, steps: Steps, setting: Setting, least: int = 1) -> tuple[Goals, Goals]:
        """EM from equal weights, which keeps some goals at least: the heaviest ones, and all that have not vanished."""
        K = len(candidates)
        rates = np.array([setting.quit, setting.end, setting.end, setting.end])
        even = np.full(K, 1.0 / K)
        chain = Renewal(even, even[None].copy(), np.tile(rates, (K, 1)))
        found = Goals(candidates, chain, Ways(setting.alpha, setting.beta))
        every = self.em(found, steps, HELD_ITERATIONS, learns=False, policies_from=10, vanished=VANISHED, least=least)
        weights = every.chain.initial
        found = every.keep(weights >= np.sort(weights)[-max(MOST_GOALS, least) :][0])
        return self.em(found, steps, OWN_ITERATIONS if setting.learns else 3, learns=setting.learns), every

    def crowd(self, every: Goals, steps: Steps, n_candidates: int, n_goals: int | None) -> tuple[float, Goals] | None:
        """A few of many goals, and of the others a crowd of which nothing tells one from another; its value.

        Goals of their own are those whose draws earn it over being as heavy as the rest on average; of the rest, the
        crowd are those that are drawn about as often. Then goals join it where that is worth it. None where places
        are few, or all of them alike: twelve places that somebody is sent to are twelve goals.
        """
        each = penalty(n_candidates, steps)
        seen, order = self.expect(every, steps), np.argsort(-every.chain.initial, kind="stable")
        draws = (seen.onward.sum(0) + seen.first)[order] + 1e-9
        G, own = len(draws), np.cumsum(np.append(0.0, draws * np.log(draws)))
        rest = draws.sum() - np.cumsum(np.append(0.0, draws))
        few = range(min(MOST_GOALS, G - CROWD) + 1) if n_goals is None else range(n_goals - 1, min(n_goals, G))
        j = max(few, key=lambda j: own[j] + rest[j] * np.log(rest[j] / (G - j)) - each * j, default=0)
        size = G - j
        while size > 1 and draws[j + size - 1] < LONELY * draws[j : j + size].mean():
            size -= 1
        if size < CROWD // 2 or not j:
            return None
        found = replace(every.in_order(order[: j + size]), crowd=size)
        found = self.em(found, steps, LAST_ITERATIONS, learns=True, levels=True)

        def value(one: Goals) -> float:
            m = one.crowd
            own = len(one.goals) - m
            rest = n_candidates - own
            sets = math.lgamma(rest + 1) - math.lgamma(m + 1) - math.lgamma(rest - m + 1)
            return self.likelihood(one, steps) - each * (own + 1) - sets

        best = value(found)
        for k in reversed(range(1 if n_goals is None else j, j)):
            if (score := value(other := self.joining(found, k))) > best:
                best, found = score, other
        found = self.em(found, steps, 5, learns=True, levels=True)
        weights = found.chain.initial
        alike = weights[: -found.crowd].max() < HEAVIER * weights[-1]
        return None if found.crowd < CROWD or alike else (value(found), found)

    def joining(self, found: Goals, k: int) -> Goals:
        """With goal k in the crowd."""
        order, m = np.append(np.delete(np.arange(len(found.goals)), k), k), found.crowd + 1
        found = found.in_order(order)
        weights = found.chain.initial.copy()
        weights[-m:] = weights[-m:].mean()
        return replace(found, crowd=m, chain=found.chain._replace(initial=weights, onward=weights[None]))

    def eliminate(
        self, found: Goals, steps: Steps, *, learns: bool, single: bool = False, most: float = np.inf, least: int = 1
    ) -> list[Goals]:
        """The sets that backward elimination passes, the largest first, down to ``least`` goals.

        It also ends where goals cost ``most`` nats and more. With ``single`` goals go one by one.
        """
        path = [replace(found, log_likelihood=self.likelihood(found, steps))]
        while len(path[-1].goals) > least:
            now, K = path[-1], len(path[-1].goals)
            each = ~np.eye(K, dtype=bool)
            cost = np.array([now.log_likelihood - self.likelihood(now.keep(kept), steps) for kept in each])
            cost[now.goals == self.detours.n_places] = np.inf  # which is compared with none
            if cost.min() > most:
                break
            order, easy = np.argsort(cost, kind="stable")[: np.isfinite(cost).sum()], int((cost < EASY).sum())
            many = easy > 3 and not single
            groups = [order[: min(easy // 2, K - least)]] if many else [order[[j]] for j in range(min(2, len(order)))]
            tried = []
            for group in groups:
                kept = ~np.isin(np.arange(K), group)
                smaller = self.em(now.keep(kept), steps, 5, learns=learns)
                tried.append(replace(smaller, log_likelihood=self.likelihood(smaller, steps)))
            path.append(max(tried, key=lambda one: one.log_likelihood))
        return path

    def improve(self, found: Goals, candidates: IntArray, steps: Steps, each: float, n_goals: int | None) -> Goals:
        """Change goals one by one as long as steps are explained better by it.

        A goal moves to a place nearby. Unless a number was asked for, there may be a further goal, two may become one
        intention, which goes to the nearest of its places, and a place of it may go over to another one. New goals and
        intentions must earn ``each`` nats.
        """
        found = replace(found, log_likelihood=self.likelihood(found, steps))
        for _ in range(CHANGES):
            changes: list[tuple[float, list[Goals]]] = [(-MOVING, self._moved(found, candidates))]
            if n_goals is None:
                fresh = np.setdiff1d(candidates, np.flatnonzero(self.detours.places_of(found.goals).any(0)))
                changes.append((-each, [found.joined(place) for place in fresh]))
                K = range(len(found.goals))
                changes.append((-MOVING, [self.together(found, i, j) for j in K for i in range(j)]))
                changes.append((-MOVING, self._going_over(found)))
            best, value = found, found.log_likelihood
            for gain, tried in changes:
                scores = np.array([self.likelihood(one, steps) for one in tried])
                for i in np.argsort(-scores, kind="stable")[:LEARNED]:
                    one = self.em(tried[i], steps, 6, learns=True, levels=True)
                    one = replace(one, log_likelihood=self.likelihood(one, steps))
                    if one.log_likelihood + gain > value:
                        best, value = one, one.log_likelihood + gain
            if best is found:
                break
            found = best
        return found

    def _moved(self, found: Goals, candidates: IntArray) -> list[Goals]:
        """With one of the goals at a place nearby."""
        taken = np.flatnonzero(self.detours.places_of(found.goals).any(0))
        result = []
        for k, goal in enumerate(found.goals):
            if goal < self.detours.n_places:
                far = self.detours.steps[candidates][:, self.detours.place == goal].min(-1)
                for place in np.setdiff1d(candidates[far <= NEARBY], taken):
                    goals = found.goals.copy()
                    goals[k] = place
                    result.append(replace(found, goals=goals))
        return result

    def _going_over(self, found: Goals) -> list[Goals]:
        """With a place of an intention that has several at another one."""
        at, result = self.detours.at[found.goals], []
        places = self.detours.places_of(found.goals)
        for i in np.flatnonzero(places.sum(1) > 1):
            for place in np.flatnonzero(places[i]):
                for j in set(range(len(at))) - {int(i)}:
                    here, goals = self.detours.place == place, found.goals.copy()
                    goals[i], goals[j] = self.detours.joined(at[i] & ~here), self.detours.joined(at[j] | here)
                    result.append(replace(found, goals=goals))
        return result

    def run(
        self, candidates: IntArray, steps: Steps, setting: Setting, n_goals: int | None
    ) -> tuple[Goals, Goals, Goals]:
        """The goals found with a setting, as many as the penalty leaves or were asked for; these and more; and all."""
        begun, every = self.begin(candidates, steps, setting, n_goals or 1)
        path = self.eliminate(begun, steps, learns=setting.learns, least=n_goals or 1)
        each = penalty(len(candidates), steps)
        chosen = path[-1] if n_goals else max(path, key=lambda found: found.log_likelihood - each * len(found.goals))
        more = next(
            found for found in reversed(path) if len(found.goals) >= min(len(chosen.goals) + 4, len(path[0].goals))
        )
        return self.em(chosen, steps, LAST_ITERATIONS, learns=True, levels=True), more, every

    def comes_back(
        self, found: Goals, demos: Demonstrations, n_candidates: int, *, learns: bool, seed: int
    ) -> FloatArray:
        """In what share of resamples of the trajectories each place is among the goals, (G,), of some that may be."""
        rng, back = np.random.default_rng(seed), np.zeros(self.detours.n_places)
        for _ in range(RESAMPLES):
            again = demos.subset(rng.integers(len(demos), size=len(demos)))
            steps = Steps(again, self.detours.place)
            each = penalty(n_candidates, steps)
            search = GoalSearch(self.detours, habit_of(again, self.detours), self.noise)
            path = search.eliminate(search.em(found, steps, 8, learns=learns), steps, learns=learns, most=4 * each)
            kept = max(path, key=lambda one: one.log_likelihood - each * len(one.goals))
            back[kept.goals] += 1
        return back / RESAMPLES

    def together(self, found: Goals, i: int, j: int) -> Goals:
        """With goals i and j as one."""
        initial, onward, leaving, _ = found.chain
        both = self.detours.joined(self.detours.at[found.goals[i]] | self.detours.at[found.goals[j]])
        kept = np.delete(np.arange(len(initial)), j)

        def summed(weights: FloatArray) -> FloatArray:
            weights = weights.copy()
            weights[..., i] += weights[..., j]
            return weights[..., kept]

        if len(onward) > 1:
            share = initial[j] / (initial[i] + initial[j])
            onward = onward.copy()
            onward[i] = (1.0 - share) * onward[i] + share * onward[j]
            onward = onward[kept]
        goals = found.goals.copy()
        goals[i] = both
        return replace(found, goals=goals[kept], chain=Renewal(summed(initial), summed(onward), leaving[kept]))

    def practise(self, found: Goals, steps: Steps, strength: float) -> Goals:
        """Go on with policies that give way to what is done."""
        K = len(found.goals)
        practice = Practice(strength, np.zeros((K, *self.habit.shape)))
        return self.em(replace(found, practice=practice), steps, PRACTICE_ITERATIONS, learns=True, levels=True)

    def order(self, found: Goals, steps: Steps, *, reminds: bool) -> Goals:
        """Go on with an order of the goals; with ``reminds`` also with places that bring them about."""
        weights = found.chain.initial
        begun = np.tile(0.05 * weights, (len(steps.visits), 1)) if reminds else None
        ordered = found.chain._replace(onward=np.tile(weights, (len(weights), 1)), reminders=begun)
        return self.em(replace(found, chain=ordered), steps, ORDER_ITERATIONS, learns=True, levels=True)

    def wander(self, found: Goals, steps: Steps, *, instead: bool) -> Goals:
        """Go on with an intention that goes nowhere and ends at any time, ``instead`` of the goal that costs least."""
        if instead:
            found = self.eliminate(found, steps, learns=True, single=True, least=len(found.goals) - 1)[-1]
        K, share = len(found.goals), 0.2
        initial, onward, leaving, reminders = found.chain
        initial = np.append((1 - share) * initial, share)
        ordered = np.tile(initial, (K + 1, 1))
        ordered[:K] = np.column_stack([(1 - share) * onward, np.full(K, share)])
        leaving = np.concatenate([leaving, [[0.1, 0.5, 0.5, 0.5]]])
        reminders = None if reminders is None else np.column_stack([reminders, np.zeros(len(reminders))])
        practice = found.practice and found.practice._replace(
            counts=np.concatenate([found.practice.counts, np.zeros((1, *self.habit.shape))])
        )
        more = replace(
            found,
            goals=np.append(found.goals, self.detours.n_places),
            chain=Renewal(initial, ordered, leaving, reminders),
            practice=practice,
        )
        return self.em(more, steps, ORDER_ITERATIONS, learns=True, levels=True)


class LeftOut:
    """Parts of the trajectories, each with a search on the others, in which goals that were found are fitted again.

    Each goal must earn ``each`` nats on the data.
    """

    def __init__(self, demos: Demonstrations, detours: Detours, noise: float, seed: int, each: float) -> None:
        fold = np.random.default_rng(seed).permutation(len(demos)) % FOLDS
        self.n_steps, self.folds, self.each = demos.n_steps, [], NEEDLESS * each
        for i in range(FOLDS):
            part, rest = demos.subset(np.flatnonzero(fold != i)), demos.subset(np.flatnonzero(fold == i))
            search = GoalSearch(detours, habit_of(part, detours), noise)
            self.folds.append((search, Steps(part, detours.place), Steps(rest, detours.place)))

    def fitted(self, goals: Sequence[Goals], how: Callable[[GoalSearch, Goals, Steps], Goals]) -> list[Goals]:
        """Goals of each part after a further step."""
        return [how(search, one, steps) for one, (search, steps, _) in zip(goals, self.folds, strict=True)]

    def likelihood(self, goals: Sequence[Goals]) -> float:
        """Of all that was left out."""
        return sum(search.likelihood(one, rest) for one, (search, _, rest) in zip(goals, self.folds, strict=True))

    def needed(self, goals: Sequence[Goals], n_goals: int | None) -> tuple[float, list[Goals]]:
        """Those that are needed, which are those that what was left out misses, and their likelihood less penalties."""
        if n_goals is not None:
            return self.likelihood(goals), list(goals)
        scores, paths = -self.each * np.arange(len(goals[0].goals), 0, -1), []
        for one, (search, steps, rest) in zip(goals, self.folds, strict=True):
            paths.append(search.eliminate(one, steps, learns=True, single=True))
            scores += [search.likelihood(kept, rest) for kept in paths[-1]]
        return float(scores.max()), [path[int(np.argmax(scores))] for path in paths]

    def roams(self, goals: Sequence[Goals]) -> bool:
        """Whether the last intention, which goes nowhere, is more than slips: it lasts, and goals have fewer steps."""
        lasts = max(float(one.chain.leaving[-1, QUIT]) for one in goals) < BRIEF
        steps = sum(
            search.believe(one, own).counts.sum(0) for one, (search, own, _) in zip(goals, self.folds, strict=True)
        )
        return lasts and len(steps) > 1 and bool(steps[-1] > OFTEN * steps[:-1].mean())


class Extras(NamedTuple):
    """What left-out trajectories say of goals that were found: how much practice, what else brings goals about.

    ``n_goals`` is how many of them are needed; 0 where nothing is known.
    """

    strength: float = np.inf
    reminds: bool = False
    wanders: bool = False
    n_goals: int = 0


def choose_extras(found: Goals, parts: LeftOut, n_goals: int | None) -> tuple[Extras, list[dict[str, Any]]]:
    """Try everything that goals may have beside themselves; also the rows of what was tried."""
    tried: list[dict[str, Any]] = []

    def score(goals: Sequence[Goals], **what: Any) -> float:
        likelihood = parts.likelihood(goals)
        tried.append({"found": goals[0], "log_likelihood": likelihood / parts.n_steps, **what})
        return likelihood

    begun, reminds, wanders = [found] * FOLDS, False, False
    scored = []
    for value in STRENGTHS:
        goals = parts.fitted(begun, partial(GoalSearch.practise, strength=value))
        scored.append((score(goals, strength=value), value, goals))
    _, strength, goals = max(scored, key=lambda one: one[0])
    if found.crowd:
        return Extras(strength), tried
    if len(found.goals) > 1:
        goals, other = (parts.fitted(goals, partial(GoalSearch.order, reminds=how)) for how in (False, True))
        before, after = score(goals, reminds=False), score(other, reminds=True)
        if reminds := after - before > max(REMINDER_GAIN[0], REMINDER_GAIN[1] * parts.n_steps):
            goals = other
    best, kept = parts.needed(goals, n_goals)
    if len(found.goals) > 1:
        other = parts.fitted(goals, partial(GoalSearch.wander, instead=n_goals is not None))
        score(other, wanders=True)
        value, less = parts.needed(other, n_goals)
        clear = value - best > WANDER_GAIN * parts.n_steps
        if wanders := value > best and (clear or parts.roams(less)):
            kept = less
    return Extras(strength, reminds, wanders, len(kept[0].goals)), tried


def penalty(n_candidates: int, steps: Steps) -> float:
    """What a goal must earn, in nats: where it is among the candidates, and its weight, as in BIC."""
    draws = steps.n_trajectories + len(steps.rows) / 10
    return float(np.log(n_candidates) + 0.5 * np.log(draws))


def find_goals(
    demos: Demonstrations,
    detours: Detours,
    candidates: IntArray,
    *,
    n_goals: int | None = None,
    noise: float = 0.02,
    seed: int = 0,
    settings: Sequence[Setting] | None = None,
    crowds: bool = True,
) -> tuple[Goals, list[dict[str, Any]]]:
    """The goals of the demonstrations, and per setting: goals and likelihood per step that was left out."""
    tried: list[dict[str, Any]] = []
    search, steps = GoalSearch(detours, habit_of(demos, detours), noise), Steps(demos, detours.place)
    each = penalty(len(candidates), steps)
    pieces = demos.in_pieces(PIECES)
    some = pieces.subset(some_trajectories(pieces, TRIAL_STEPS, seed))
    sample = steps if some.n_steps == demos.n_steps else Steps(some, detours.place)

    def take(found: Goals, likelihood: float, **how: Any) -> Goals:
        tried.append({"found": found, "log_likelihood": likelihood, **how})
        return found

    runs, gathered = [], []
    for setting in settings or SETTINGS:
        found, more, every = search.run(candidates, sample, setting, n_goals)
        tries = (search.crowd(one, sample, len(candidates), n_goals) for one in (found, more, every))
        gathered += [one for one in tries if one is not None] if crowds else []
        score = search.likelihood(found, sample)
        runs.append((score - each * len(found.goals), found, more, setting))
        take(found, score / some.n_steps, setting=setting)
    value, found, more, setting = max(runs, key=lambda one: one[0])
    best, crowd = max(gathered, key=lambda one: one[0], default=(-np.inf, found))
    if best > value + CROWD_WORTH * each:
        extras = (
            choose_extras(crowd, LeftOut(some, detours, noise, seed, each), n_goals)[0]
            if len(some) >= FOLDS
            else Extras()
        )
        crowd = search.practise(crowd, steps, extras.strength)
        return take(crowd, crowd.log_likelihood / steps.offsets[-1], crowd=crowd.crowd), tried
    if sample is not steps:
        found, more, _ = search.run(candidates, steps, setting, n_goals)
    if len(found.goals) > 1:
        found = search.order(found, sample, reminds=False)
    found = search.improve(found, candidates, sample, each, n_goals)
    take(found, found.log_likelihood / some.n_steps, improved=True)
    extras = Extras()
    if len(some) >= FOLDS:
        extras, rows = choose_extras(found, LeftOut(some, detours, noise, seed, each), n_goals)
        tried += rows
    found = search.practise(found, steps, extras.strength)
    if len(found.goals) > 1:
        found = search.order(found, steps, reminds=extras.reminds)
        found = search.wander(found, steps, instead=n_goals is not None) if extras.wanders else found
    if n_goals is None and 1 <= extras.n_goals < len(found.goals):
        found = search.eliminate(found, steps, learns=True, single=True, least=extras.n_goals)[-1]
    for place in np.setdiff1d(np.flatnonzero(detours.places_of(found.goals).any(0)), more.goals):
        more = more.joined(place)
    back = search.comes_back(more, some, len(candidates), learns=setting.learns, seed=seed)
    returns = np.array([back[target].max() if target.any() else -1.0 for target in detours.places_of(found.goals)])
    return replace(found, returns=returns), tried


def habit_of(demos: Demonstrations, detours: Detours, pseudo: float = 0.3) -> FloatArray:
    """How often each action is taken in each state, (S, A), with a pseudo-count."""
    S, A = detours.valid.shape
    counts = np.bincount(demos.states.astype(np.int64) * A + demos.actions, minlength=S * A).reshape(S, A)
    return _normalised((counts + pseudo) * detours.valid)


def _normalised(values: npt.NDArray[Any]) -> FloatArray:
    result: FloatArray = values / values.sum(-1, keepdims=True)
    return result
