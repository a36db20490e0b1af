"""Goals on landmarks: intentions of a continuous world are places to reach, on top of a habit that they share.

    y_t ~ N(M(x_t) u(x_t, g_k) + h(x_t), Σ)        u the way to goal g_k on the graph of landmarks (`landmark_graph`)

All intentions share the skill M that turns a direction into a command, the habit h and the noise Σ; an intention is its
goal and nothing else. Skill and habit are the same everywhere but for what differs from place to place (`local_habit`):
the graph says which way leads to a goal, and the steps of all goals how that way is walked there. Free policies are not
identified where the world has walls (a wrong solution can be likelier than the truth); under planned goals the
likeliest solution is the best one. The M-step moves every goal to the best of the landmarks and of the places around
it, then refits skill, habit and noise by least squares: neither lowers the likelihood. Every start has landmarks of its
own, because single graphs vary (`landmark_search`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from prism_irl.core.stats import Rows, Stats
from prism_irl.data.batching import Prepared
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.mapped import chunks
from prism_irl.rewards.base import Fit, FloatArray, IntArray, RewardModel, match_partial_labels
from prism_irl.rewards.landmark_graph import LandmarkGraph, nearest
from prism_irl.rewards.landmark_search import find_goals
from prism_irl.rewards.linear import observed
from prism_irl.rewards.local_habit import habit_at, offsets, solve, sums_of

REACHES = (3.0, np.inf)
"""How far landmarks see, of one start after the other; the likelihood decides."""
TURNS = 2
"""Of skill and local habits in an M-step."""
AT_ONCE = 20_000
"""Steps for which the ways to all landmarks are looked up at a time, and kept where there are no more."""
FIRST_STEP, SHRINK, ROUNDS = 0.2, 0.5, 3
"""Search around a goal, in standard deviations: how far at first, how much closer in the next M-step, and after how
many it looks far again."""
EVERYWHERE = 3
"""Every so many M-steps a goal may move to any landmark; in between it moves about where it is."""


class LandmarkGoals(RewardModel):
    """Policies of K intentions that go to K places.

    Parameters
    ----------
    n_intentions, n_observations, n_commands, n_actions : int
    n_landmarks : int
    ridge, habit_ridge : float
        Strength of the prior on skill and straight habit, and on what is done at single places.
    noise, noise_strength : float
        Prior guess of a variance, and how many commands it is worth.
    """

    is_density: ClassVar[bool] = True

    def __init__(
        self,
        n_intentions: int,
        n_observations: int,
        n_commands: int,
        n_actions: int,
        n_landmarks: int,
        *,
        ridge: float = 1.0,
        habit_ridge: float = 20.0,
        noise: float = 0.01,
        noise_strength: float = 10.0,
    ) -> None:
        self.n_intentions, self.n_actions, self.habit_ridge = n_intentions, n_actions, habit_ridge
        self.ridge, self.noise, self.noise_strength = ridge, noise, noise_strength
        self.goals: FloatArray = np.zeros((n_intentions, n_observations))
        self.landmarks: FloatArray = np.zeros((n_landmarks, n_observations))
        self.sees: FloatArray = np.zeros((n_landmarks, n_landmarks))
        self.weights: FloatArray = np.zeros((n_commands, 2 * n_observations + 1))
        self.local: FloatArray = np.zeros((n_landmarks, n_commands, 1 + 2 * n_observations))
        self.variances: FloatArray = np.ones(n_commands)
        self._graph: LandmarkGraph | None = None
        self._steps = 0

    @property
    def ends_at(self) -> FloatArray:
        """The goals."""
        return self.goals

    # -- the graph -------------------------------------------------------------------------------------------------

    @property
    def graph(self) -> LandmarkGraph:
        """The graph behind the arrays."""
        if self._graph is None:
            self._graph = LandmarkGraph(self.landmarks, self.sees > 0.5)
        return self._graph

    def set_graph(self, graph: LandmarkGraph) -> None:
        """Plan on another graph; fewer landmarks than were asked for are filled up with the last one."""
        n = len(graph.landmarks)
        self.landmarks = graph.landmarks[np.minimum(np.arange(len(self.landmarks)), n - 1)]
        index = np.minimum(np.arange(len(self.landmarks)), n - 1)
        self.sees = graph.sees[np.ix_(index, index)].astype(np.float64)
        self._graph = graph

    def fields(
        self, x: npt.NDArray[Any], goals: FloatArray | None = None, cells: npt.NDArray[np.int64] | None = None
    ) -> FloatArray:
        """Ways to goals (G, d), (G, n, d), from observations (n, d); in cells (n,), where they are known already."""
        cells = nearest(x, self.graph.landmarks) if cells is None else cells
        own = self.goals if goals is None else goals
        return np.stack([self.graph.field(x, cells, goal) for goal in own])

    # -- learning --------------------------------------------------------------------------------------------------

    def first_guess(self, fit: Fit) -> None:
        """Landmarks of its own, then goals by the likelihood of chains (`landmark_search`)."""
        x, _ = observed(fit.train.demos, self.goals.shape[1], len(self.variances))
        seed, reach = int(fit.generator.integers(2**31)), REACHES[fit.index % len(REACHES)]
        self.set_graph(LandmarkGraph.fit(x, fit.train.demos.first_steps, len(self.landmarks), seed, reach))
        fit.chain = find_goals(self, fit)

        def reorder(order: IntArray) -> None:
            self.goals = self.goals[order]

        match_partial_labels(fit, self, reorder)

    def statistics(self, data: Prepared, weights: FloatArray) -> Stats:
        """Observations, commands and weights of every step: every candidate of a goal reads them again."""
        return Stats(rows=Rows(*observed(data.demos, self.goals.shape[1], len(self.variances)), weights))

    def update(self, stats: Stats) -> None:
        """Goals given skill and noise, then skill and noise given the goals."""
        x, y, responsibilities = stats["rows"].joined()
        if self._steps % EVERYWHERE == 0:
            self._move_anywhere(x, y, responsibilities)
        places = x.astype(np.float64)
        for k in range(self.n_intentions):
            self.goals[k] = self._move_about(places, y, responsibilities[:, k], self.goals[k])
        self._steps += 1
        self.fit_skill(places, y, responsibilities)

    def _move_anywhere(self, x: npt.NDArray[Any], y: FloatArray, responsibilities: FloatArray) -> None:
        """Every goal to the likeliest of the landmarks, or where it is."""
        places = x.astype(np.float64)
        stay = np.stack(
            [self._losses(places, y, r, goal[None]) for r, goal in zip(responsibilities.T, self.goals, strict=True)]
        )
        go = self._landmark_losses(x, y, responsibilities)
        found = np.concatenate([stay, go], axis=1).argmin(axis=1)
        for k in np.flatnonzero(found):
            self.goals[k] = self.graph.landmarks[found[k] - 1]

    def _losses(self, x: FloatArray, y: FloatArray, w: FloatArray, candidates: FloatArray) -> FloatArray:
        """Σ_t w_t |y_t − M u(x_t, g) − h(x_t)|² / Σ of candidates (G, d), (G,)."""
        steps = np.flatnonzero(w > 1e-3)
        if not len(steps):
            return np.zeros(len(candidates))
        return np.asarray(w[steps] @ self._squared_of(x[steps], y[steps], candidates))

    def _squared_of(self, x: FloatArray, y: FloatArray, goals: FloatArray) -> FloatArray:
        """|y − M u(x, g) − h(x)|² / Σ for goals (G, d), (n, G)."""
        cells = nearest(x, self.graph.landmarks)
        habit, skill = self.habit_and_skill(x, cells)
        gaps = y - habit - np.einsum("nmd,gnd->gnm", skill, self.fields(x, goals, cells))
        return np.asarray(np.einsum("gnm,m->ng", gaps**2, 1.0 / self.variances))

    def _landmark_losses(self, x: npt.NDArray[Any], y: FloatArray, responsibilities: FloatArray) -> FloatArray:
        """The same of all landmarks at once, (K, L)."""
        total = np.zeros((self.n_intentions, len(self.graph.landmarks)))
        for rows in chunks(len(x), AT_ONCE):
            squared = self._squared(x if len(x) <= AT_ONCE else x[rows], y[rows])
            total += responsibilities[rows].T @ squared
        return total

    def _squared(self, x: npt.NDArray[Any], y: FloatArray) -> FloatArray:
        """|y − M u(x, l) − h(x)|² / Σ for every landmark l, (n, L)."""
        habit, skill = self.habit_and_skill(x.astype(np.float64))
        white = 1.0 / np.sqrt(self.variances)
        rest, precise = ((y - habit) * white).astype(np.float32), (skill * white[:, None]).astype(np.float32)
        ways = self.graph.all_fields(x)
        squared = np.zeros((len(ways), len(x)), np.float32)
        for m in range(len(white)):  # one command at a time: none but (L, n) is ever held
            gap = np.einsum("lnd,nd->ln", ways, precise[:, m]) - rest[:, m]
            squared += gap * gap
        return squared.T.astype(np.float64)

    def _move_about(self, x: FloatArray, y: FloatArray, w: FloatArray, goal: FloatArray) -> FloatArray:
        """The likeliest of the places around a goal."""
        size = FIRST_STEP * SHRINK ** (self._steps % ROUNDS)
        around = np.concatenate([np.zeros((1, len(goal))), size * np.eye(len(goal)), -size * np.eye(len(goal))])
        places = (goal + around)[self.graph.within(goal + around)]
        return np.asarray(places[int(self._losses(x, y, w, places).argmin())])

    def fit_skill(self, x: FloatArray, y: FloatArray, responsibilities: FloatArray) -> None:
        """Local habits and skills, then those of everywhere, by ridge regression in turns; then the noise."""
        cells = nearest(x, self.graph.landmarks)
        near, ways = self._offsets(x, cells), self.fields(x, None, cells)
        local = [np.concatenate([near, way], axis=1) for way in ways]  # (n, 1 + 2 d) each
        L, d = len(self.landmarks), x.shape[1]
        for _ in range(TURNS):
            sums = np.zeros((L, local[0].shape[1], local[0].shape[1] + y.shape[1]))
            for k, features in enumerate(local):
                rest = y - self._straight(x) - ways[k] @ self.weights[:, :d].T
                sums += sums_of(features, rest, cells, L, responsibilities[:, k])
            self.local = solve(sums, self.habit_ridge)
            rests = [y - habit_at(self.local, cells, features) for features in local]
            theta, residual = self._global(x, rests, ways, responsibilities)
            self.weights = theta.T
        spread = self.habit_ridge * (self.local**2).sum(axis=(0, 2))
        free = len(x) + self.weights.shape[1] + self.noise_strength + 2.0 + L * self.local.shape[2]
        self.variances = (residual + spread + self.noise_strength * self.noise) / free

    def _global(
        self, x: FloatArray, rests: list[FloatArray], ways: FloatArray, responsibilities: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Skill and straight habit, (2 d + 1, m), and the squares that remain, with those of the prior, (m,).

        ``rests`` are the commands without what is local, (n, m) of every intention.
        """
        p, m = self.weights.shape[1], len(self.variances)
        sums = np.zeros((p + m, p + m))
        for k, (way, rest) in enumerate(zip(ways, rests, strict=True)):
            joined = np.concatenate([way, np.ones((len(x), 1)), x, rest], axis=1)
            sums += (joined * responsibilities[:, k, None]).T @ joined
        gram, cross, square = sums[:p, :p], sums[:p, p:], np.diag(sums[p:, p:])
        theta = np.asarray(np.linalg.solve(gram + self.ridge * np.eye(p), cross), dtype=np.float64)
        return theta, np.maximum(square - np.einsum("pm,pm->m", cross, theta), 0.0)

    def _offsets(self, x: FloatArray, cells: IntArray) -> FloatArray:
        """Where in its cell the agent is, (n, 1 + d)."""
        return offsets(x, cells, self.graph.landmarks, self.graph.spacing)

    def log_prior(self) -> float:
        """As in `rewards.linear`: weights and habits given the noise, and the noise, up to a constant."""
        p = self.weights.shape[1] + self.local.shape[0] * self.local.shape[2]
        spread = self.ridge * (self.weights**2).sum(axis=1) + self.noise_strength * self.noise
        spread = spread + self.habit_ridge * (self.local**2).sum(axis=(0, 2))
        free = p + self.noise_strength + 2.0
        return float(-0.5 * (spread / self.variances + free * np.log(self.variances)).sum())

    # -- likelihood ------------------------------------------------------------------------------------------------

    def _straight(self, x: FloatArray) -> FloatArray:
        d = x.shape[1]
        return np.asarray(self.weights[:, d] + x @ self.weights[:, d + 1 :].T)

    def habit_and_skill(
        self, x: FloatArray, cells: npt.NDArray[np.int64] | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """At observations (n, d): what is done whatever the goal, (n, m), and what a direction adds, (n, m, d)."""
        d, cells = x.shape[1], nearest(x, self.graph.landmarks) if cells is None else cells
        habit = self._straight(x) + habit_at(self.local[:, :, : 1 + d], cells, self._offsets(x, cells))
        return habit, self.weights[:, :d] + self.local[cells, :, 1 + d :]

    def log_likelihood(self, data: Prepared) -> FloatArray:
        """Log density of every command under every intention, (n, K), in the units of the data."""
        x, y = observed(data.demos, self.goals.shape[1], len(self.variances))
        volume = data.demos.log_volume
        return self.log_density(x, y) - volume

    def log_density(
        self, observations: npt.NDArray[Any], commands: FloatArray, design: FloatArray | None = None
    ) -> FloatArray:
        """Log N(y; M u(x, g_k) + h(x), Σ), (n, K)."""
        return self.goal_density(observations, commands, self.goals)

    def goal_density(self, observations: npt.NDArray[Any], commands: FloatArray, goals: FloatArray) -> FloatArray:
        """The same for any goals (G, d), (n, G)."""
        squared = self._squared_of(observations.astype(np.float64), commands, goals)
        return np.asarray(-0.5 * (squared + np.log(2.0 * np.pi * self.variances).sum()))

    def landmark_density(self, observations: npt.NDArray[Any], commands: FloatArray) -> FloatArray:
        """The same for all landmarks at once, (n, L)."""
        constant = np.log(2.0 * np.pi * self.variances).sum()
        return np.asarray(-0.5 * (self._squared(observations, commands) + constant))

    def policies_at(self, rows: IntArray) -> FloatArray:
        """A density gives no probability to a cell of commands: uniform, (n, K, A)."""
        return np.full((len(rows), self.n_intentions, self.n_actions), 1.0 / self.n_actions)

    def state(self) -> dict[str, FloatArray]:
        """Goals, graph, skill and noise."""
        return {name: getattr(self, name) for name in ("goals", "landmarks", "sees", "weights", "local", "variances")}

    def load_state(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Undo `state`; models from before there were local habits, or local skills, have none."""
        local = np.zeros_like(self.local)
        known = state.get("local", local)
        if known.shape == (*local.shape[:2], 1 + self.goals.shape[1]):
            local[:, :, : known.shape[2]] = known
            known = local
        self._set_arrays({**state, "local": known}, *self.state())
        self._graph = None

    def check(self, demos: Demonstrations) -> None:
        """Observations and commands of the sizes that were fitted."""
        observed(demos, self.goals.shape[1], len(self.variances))
