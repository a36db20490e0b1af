"""Goals on landmarks: intentions of a continuous world are places to reach, on top of a habit that they share.

    y_t ~ N(M(x_t) u(x_t, g_k) + h(x_t), Σ)        u the way to goal g_k on the graph of landmarks (`LandmarkGraph`)

All intentions share the skill M that turns a direction into a command, the habit h and the noise Σ; an intention is its
goal and nothing else. Skill and habit are the same everywhere but for what differs from place to place (`habit_at`):
the graph says which way leads to a goal, and the steps of all goals how that way is walked there. Free policies are not
identified where the world has walls (a wrong solution can be likelier than the truth); under planned goals the
likeliest solution is the best one. The M-step moves every goal to the best of the landmarks and of the places around
it, then refits skill, habit and noise by least squares: neither lowers the likelihood. Every start has landmarks of its
own, because single graphs vary (`find_goals`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse.csgraph import shortest_path

from prism_irl.arrays import BoolArray, FloatArray
from prism_irl.data.batching import Prepared, Rows, Stats
from prism_irl.data.continuous import nearest
from prism_irl.data.demonstrations import Demonstrations, some_trajectories
from prism_irl.data.mapped import chunks
from prism_irl.errors import InputError
from prism_irl.rewards.base import Ends, Fit, IntArray, match_partial_labels
from prism_irl.rewards.linear import CommandPolicies

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


class LandmarkGoals(CommandPolicies):
    """Policies of K intentions that go to K places.

    Parameters
    ----------
    n_intentions, n_observations, n_commands, n_actions, n_landmarks : int
    ridge, habit_ridge, noise, noise_strength : see `rewards.options.Landmarks`
    """

    learned: ClassVar[tuple[str, ...]] = ("goals", "landmarks", "sees", "weights", "local", "variances")

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
        self.n_observations, self.n_commands = n_observations, n_commands
        self.ridge, self.noise, self.noise_strength = ridge, noise, noise_strength
        self.goals: FloatArray = np.zeros((n_intentions, n_observations))
        self.landmarks: FloatArray = np.zeros((n_landmarks, n_observations))
        self.sees: FloatArray = np.zeros((n_landmarks, n_landmarks))
        self.weights: FloatArray = np.zeros((n_commands, 2 * n_observations + 1))
        self.local: FloatArray = np.zeros((n_landmarks, n_commands, 1 + 2 * n_observations))
        self.variances: FloatArray = np.ones(n_commands)
        self._graph: LandmarkGraph | None = None
        self.found: Discovery | None = None
        self._steps = 0

    @property
    def ends(self) -> Ends:
        """The goals."""
        return Ends(self.goals)

    @property
    def graph(self) -> LandmarkGraph:
        """The graph behind the arrays."""
        if self._graph is None:
            self._graph = LandmarkGraph(self.landmarks, self.sees > 0.5)
        return self._graph

    def fields(self, x: npt.NDArray[Any], goals: FloatArray, cells: IntArray) -> FloatArray:
        """Ways to goals (G, d), (G, n, d), from observations (n, d) in cells (n,)."""
        return np.stack([self.graph.field(x, cells, goal) for goal in goals])

    def first_guess(self, fit: Fit) -> None:
        """Landmarks of its own, then goals by the likelihood of chains (`find_goals`)."""
        x, _ = self.observed(fit.train.demos)
        seed, reach = int(fit.generator.integers(2**31)), REACHES[fit.index % len(REACHES)]
        graph = LandmarkGraph.fit(x, fit.train.demos.first_steps, len(self.landmarks), seed, reach)
        index = np.minimum(np.arange(len(self.landmarks)), len(graph.landmarks) - 1)
        self.landmarks = graph.landmarks[index]
        self.sees = graph.sees[np.ix_(index, index)].astype(np.float64)
        self._graph = graph
        fit.chain = find_goals(self, fit)

        def reorder(order: IntArray) -> None:
            self.goals = self.goals[order]

        match_partial_labels(fit, self, reorder)

    def statistics(self, data: Prepared, weights: FloatArray) -> Stats:
        """Observations, commands and weights of every step: every candidate of a goal reads them again."""
        return Stats(rows=Rows(*self.observed(data.demos), weights))

    def update(self, stats: Stats) -> None:
        """Goals given skill and noise, then skill and noise given the goals."""
        x, y, responsibilities = stats["rows"].joined()
        places = x.astype(np.float64)
        if self._steps % EVERYWHERE == 0:  # every goal to the likeliest of the landmarks, or where it is
            go = np.zeros((self.n_intentions, len(self.graph.landmarks)))
            for rows in chunks(len(x), AT_ONCE):
                go += responsibilities[rows].T @ self._squared(x if len(x) <= AT_ONCE else x[rows], y[rows])
            for k, (w, losses) in enumerate(zip(responsibilities.T, go, strict=True)):
                if losses.min() < self._losses(places, y, w, self.goals[k : k + 1])[0]:
                    self.goals[k] = self.graph.landmarks[losses.argmin()]
        size = FIRST_STEP * SHRINK ** (self._steps % ROUNDS)
        apart = size * np.concatenate([np.zeros((1, x.shape[1])), np.eye(x.shape[1]), -np.eye(x.shape[1])])
        for goal, w in zip(self.goals, responsibilities.T, strict=True):  # then to the likeliest place around
            around = (goal + apart)[self.graph.within(goal + apart)]
            goal[:] = around[int(self._losses(places, y, w, around).argmin())]
        self._steps += 1
        self.fit_skill(places, y, responsibilities)

    def _losses(self, x: FloatArray, y: FloatArray, w: FloatArray, candidates: FloatArray) -> FloatArray:
        """Σ_t w_t |y_t − M u(x_t, g) − h(x_t)|² / Σ of candidates (G, d), (G,)."""
        steps = np.flatnonzero(w > 1e-3)
        if not len(steps):
            return np.zeros(len(candidates))
        return np.asarray(w[steps] @ self._squared_of(x[steps], y[steps], candidates))

    def _squared_of(self, x: FloatArray, y: FloatArray, goals: FloatArray) -> FloatArray:
        """|y − M u(x, g) − h(x)|² / Σ for goals (G, d), (n, G)."""
        return np.asarray(np.einsum("gnm,m->ng", self.gaps(x, y, goals) ** 2, 1.0 / self.variances))

    def gaps(self, x: FloatArray, y: FloatArray, goals: FloatArray) -> FloatArray:
        """What goals (G, d) leave of commands, y − M u(x, g) − h(x), (G, n, m)."""
        cells = nearest(x, self.graph.landmarks)
        habit, skill = self.habit_and_skill(x, cells)
        return np.asarray(y - habit - np.einsum("nmd,gnd->gnm", skill, self.fields(x, goals, cells)))

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

    def fit_skill(self, x: FloatArray, y: FloatArray, responsibilities: FloatArray) -> None:
        """Local habits and skills, then those of everywhere, by ridge regression in turns; then the noise."""
        cells = nearest(x, self.graph.landmarks)
        near, ways = offsets(x, cells, self.graph.landmarks, self.graph.spacing), self.fields(x, self.goals, cells)
        local = [np.concatenate([near, way], axis=1) for way in ways]  # (n, 1 + 2 d) each
        L, d = len(self.landmarks), x.shape[1]
        for _ in range(TURNS):
            straight = y - self._straight(x)
            each = zip(ways, local, responsibilities.T, strict=True)
            sums = sum(sums_of(f, straight - way @ self.weights[:, :d].T, cells, L, w) for way, f, w in each)
            self.local = solve(np.asarray(sums), self.habit_ridge)
            p, m = self.weights.shape[1], y.shape[1]
            total = np.zeros((p + m, p + m))
            for way, features, w in zip(ways, local, responsibilities.T, strict=True):
                rest = y - habit_at(self.local, cells, features)
                joined = np.concatenate([way, np.ones((len(x), 1)), x, rest], axis=1)
                total += (joined * w[:, None]).T @ joined
            theta: FloatArray = np.linalg.solve(total[:p, :p] + self.ridge * np.eye(p), total[:p, p:]).astype(float)
            squares = np.diag(total[p:, p:]) - np.einsum("pm,pm->m", total[:p, p:], theta)  # with those of the prior
            self.weights, residual = theta.T, np.maximum(squares, 0.0)
        spread = self.habit_ridge * (self.local**2).sum(axis=(0, 2))
        free = len(x) + self.weights.shape[1] + self.noise_strength + 2.0 + L * self.local.shape[2]
        self.variances = (residual + spread + self.noise_strength * self.noise) / free

    def log_prior(self) -> float:
        """As in `rewards.linear`: weights and habits given the noise, and the noise, up to a constant."""
        p = self.weights.shape[1] + self.local.shape[0] * self.local.shape[2]
        spread = self.ridge * (self.weights**2).sum(axis=1) + self.noise_strength * self.noise
        spread = spread + self.habit_ridge * (self.local**2).sum(axis=(0, 2))
        free = p + self.noise_strength + 2.0
        return float(-0.5 * (spread / self.variances + free * np.log(self.variances)).sum())

    def _straight(self, x: FloatArray) -> FloatArray:
        d = x.shape[1]
        return np.asarray(self.weights[:, d] + x @ self.weights[:, d + 1 :].T)

    def habit_and_skill(self, x: FloatArray, cells: IntArray | None = None) -> tuple[FloatArray, FloatArray]:
        """At observations (n, d): what is done whatever the goal, (n, m), and what a direction adds, (n, m, d)."""
        d, cells = x.shape[1], nearest(x, self.graph.landmarks) if cells is None else cells
        near = offsets(x, cells, self.graph.landmarks, self.graph.spacing)
        habit = self._straight(x) + habit_at(self.local[:, :, : 1 + d], cells, near)
        return habit, self.weights[:, :d] + self.local[cells, :, 1 + d :]

    def log_density(self, observations: npt.NDArray[Any], commands: FloatArray, *design: FloatArray) -> FloatArray:
        """Log N(y; M u(x, g_k) + h(x), Σ), (n, K)."""
        return self._density(self._squared_of(observations.astype(np.float64), commands, self.goals))

    def landmark_density(self, observations: npt.NDArray[Any], commands: FloatArray) -> FloatArray:
        """The same for all landmarks at once, (n, L)."""
        return self._density(self._squared(observations, commands))

    def _density(self, squared: FloatArray) -> FloatArray:
        return np.asarray(-0.5 * (squared + np.log(2.0 * np.pi * self.variances).sum()))

    def load_state(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Undo `state`; models from before there were local habits, or local skills, have none."""
        known = state.get("local", self.local[:, :, :0])
        if known.shape[:2] == self.local.shape[:2] and known.shape[2] in (0, 1 + self.goals.shape[1]):
            known = np.pad(known, ((0, 0), (0, 0), (0, self.local.shape[2] - known.shape[2])))
        self._set_arrays({**state, "local": known}, *self.state())
        self._graph = None


SAMPLES = 24
"""Points along a line at which its cell is looked up."""
WAYPOINTS = 8
"""Landmarks of a cell that may be the first stretch of a path: the best ones, seen from its centre."""
SOFT = 0.6
"""How much longer than the shortest a path may be to count nearly as much, in distances between landmarks. Settled by
likelihood in simulated mazes, with noise of 0.1 and 0.2; in the open it hardly matters."""
RARE = 1
"""Observed crossings that make two cells neighbours."""
FAR = 1e3
"""Distance to where no path leads, in standard deviations."""


class LandmarkGraph:
    """Landmarks (L, d), and which of them see each other, (L, L): how far it is to a goal, and which way leads there.

    Landmarks are k-means centres of the observations. Two are neighbours where a transition between their cells was
    observed, and one sees another where the straight line between them passes from cell to neighbouring cell all the
    way: a wall is where nobody ever crossed. Distances are shortest paths along lines of sight.

        D(x, g) = |x − g| where x sees g, else min_j D_j, D_j = |x − l_j| + D(l_j, g) over the landmarks that x sees
        u(x, g) = the direction of g where x sees it, of length one (less than one within a step of the goal), else
                  Σ_j w_j (l_j − x) / |l_j − x|,     w_j ∝ exp(−D_j / (SOFT · distance between landmarks))

    The way around a wall is a mean over paths that are nearly as short as the shortest. Which of them that is hangs on
    where k-means put a landmark, and not on the agent; a mean varies less, and keeps to the middle of a corridor.
    """

    def __init__(self, landmarks: FloatArray, sees: BoolArray) -> None:
        self.landmarks, self.sees = landmarks, sees
        apart = np.linalg.norm(landmarks[:, None] - landmarks[None], axis=2)
        lengths = np.where(sees, np.maximum(apart, 1e-9), 0.0)
        np.fill_diagonal(lengths, 0.0)
        found = shortest_path(lengths, directed=False)
        self.distances: FloatArray = np.where(np.isfinite(found), found, FAR)
        np.fill_diagonal(apart, np.inf)
        self.spacing = float(np.median(apart.min(axis=1))) if len(landmarks) > 1 else 0.0
        self._stretches = np.where(sees, apart, np.inf)  # to a landmark on the way, not to the one that is left
        self._kept: tuple[npt.NDArray[Any], npt.NDArray[np.float32]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Everything but what was kept to save time."""
        return {**self.__dict__, "_kept": None}

    @classmethod
    def fit(
        cls, observations: npt.NDArray[Any], first_steps: BoolArray, n_landmarks: int, seed: int, reach: float = np.inf
    ) -> LandmarkGraph:
        """Landmarks of observations (n, d) and lines of sight from the transitions between their cells.

        ``reach`` is how far a line of sight goes, in distances between landmarks: a few for an agent that follows the
        middle of its corridors.
        """
        from sklearn.cluster import MiniBatchKMeans

        n = min(n_landmarks, len(np.unique(observations, axis=0)))
        clusters = MiniBatchKMeans(n, n_init=1, random_state=seed, batch_size=4096).fit(observations)
        landmarks = np.asarray(clusters.cluster_centers_, dtype=np.float64)
        cells = nearest(observations, landmarks)
        later = np.flatnonzero(~first_steps)
        crossings = np.zeros((n, n))
        np.add.at(crossings, (cells[later - 1], cells[later]), 1.0)
        neighbours = crossings + crossings.T >= RARE
        np.fill_diagonal(neighbours, True)
        graph = cls(landmarks, lines_of_sight(landmarks, neighbours))
        if np.isfinite(reach):
            apart = np.linalg.norm(landmarks[:, None] - landmarks[None], axis=2)
            graph = cls(landmarks, graph.sees & ((apart <= reach * graph.spacing) | neighbours))
        return graph

    def field(self, observations: npt.NDArray[Any], cells: IntArray, goal: FloatArray) -> FloatArray:
        """u(x, g), (n, d): directions towards a goal (d,) from observations (n, d) in cells (n,)."""
        towards = goal - observations
        at = int(nearest(goal[None], self.landmarks)[0])
        size = np.sqrt(np.einsum("nd,nd->n", towards, towards))[:, None]
        found = towards * (np.minimum(1.0, size / self.slow) / np.maximum(size, 1e-9))
        hidden = ~self.sees[:, at][cells]
        if hidden.any():
            found[hidden] = self._around(observations[hidden], cells[hidden], self.to_goal(goal), found[hidden])
        return np.asarray(found)

    def _around(self, x: FloatArray, cells: IntArray, to_goal: FloatArray, straight: FloatArray) -> Any:
        """u(x, g), (n, d), where the goal is out of sight; ``straight`` (n, d) where no path leads there."""
        length = self._stretches + to_goal
        order = np.argsort(length, axis=1)[:, : min(WAYPOINTS, len(length))]
        onward = np.where(np.isfinite(np.take_along_axis(length, order, axis=1)), to_goal[order], np.inf)
        ways = self.landmarks[order[cells]] - x[:, None]
        size = np.sqrt(np.einsum("nwd,nwd->nw", ways, ways))
        total = size + onward[cells]
        shortest = total.min(axis=1, keepdims=True)
        leads = np.isfinite(shortest)
        weights = np.exp((np.where(leads, shortest, 0.0) - total) / max(SOFT * self.spacing, 1e-9))
        mean = np.einsum("nw,nwd->nd", weights / np.maximum(size, 1e-9), ways)
        return np.where(leads, mean / np.maximum(weights.sum(axis=1, keepdims=True), 1e-9), straight)

    def all_fields(self, observations: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """u(x, l) for every landmark as the goal, (L, n, d); kept for the observations of the last call."""
        if self._kept is None or self._kept[0] is not observations:
            cells = nearest(observations, self.landmarks)
            x = observations.astype(np.float64)
            ways = np.empty((len(self.landmarks), *observations.shape), np.float32)
            for row, goal in zip(ways, self.landmarks, strict=True):
                row[:] = self.field(x, cells, goal)
            self._kept = observations, ways
        return self._kept[1]

    def within(self, places: FloatArray) -> BoolArray:
        """Whether places (n, d) lie among the landmarks; the first always does, so that a search can stay."""
        own = self.landmarks[nearest(places, self.landmarks)]
        inside = np.linalg.norm(places - own, axis=1) <= self.spacing
        inside[0] = True
        return np.asarray(inside)

    slow = 0.1
    """Distance from a goal, in standard deviations, within which the way to it fades out."""

    def to_goal(self, goal: FloatArray) -> FloatArray:
        """D(l_j, g), (L,)."""
        at = int(nearest(goal[None], self.landmarks)[0])
        seen = self.sees[at]
        apart = np.linalg.norm(self.landmarks - goal, axis=1)
        around = (self.distances[:, seen] + apart[seen]).min(axis=1) if seen.any() else np.full(len(apart), FAR)
        return np.asarray(np.where(seen, apart, around))


def lines_of_sight(landmarks: FloatArray, neighbours: BoolArray) -> BoolArray:
    """Which straight lines pass from cell to neighbouring cell all the way, (L, L)."""
    L = len(landmarks)
    i, j = np.triu_indices(L, 1)
    shares = np.linspace(0.0, 1.0, SAMPLES)
    sees = np.eye(L, dtype=bool)
    for rows in np.array_split(np.arange(len(i)), max(1, len(i) * SAMPLES // 2**18)):
        points = landmarks[i[rows], None] + shares[:, None] * (landmarks[j[rows]] - landmarks[i[rows]])[:, None]
        cells = nearest(points.reshape(-1, landmarks.shape[1]), landmarks).reshape(len(rows), SAMPLES)
        clear = neighbours[cells[:, :-1], cells[:, 1:]].all(axis=1)
        sees[i[rows[clear]], j[rows[clear]]] = sees[j[rows[clear]], i[rows[clear]]] = True
    return sees


SCREENING, DECIDING, FINALISTS = 2, 8, 6
"""EM iterations of a chain for every candidate goal, for the best of these, and how many are the best."""
ENDING, SWEEPS = 5, 3
"""EM iterations of a chain that ends at goals, and how often every goal may change its place."""
COMMANDS, BESIDE = 8, 1.5
"""Kinds of commands, and how far goals that are one lie apart at most, in distances of neighbouring cells."""
SCREENED_STEPS = 20_000
"""Steps that a search looks at: goals are places, and a few hundred visits show them."""


def find_goals(rewards: LandmarkGoals, fit: Fit) -> Any:
    """Give the rewards goals on their graph, a skill and noise; return a Markov chain over them.

    Goals are added one after the other, then each is tried against all other places while the rest stays. Candidates
    are compared by the likelihood of short chains: constant ones while goals are missing, then chains that know that an
    intention ends where its goal is reached (a constant chain hardly minds a goal half way).
    """
    demos, generator, n = fit.train.demos, fit.generator, len(rewards.graph.landmarks)
    if n < rewards.n_intentions:
        raise InputError(
            f"The observations are at {n} different places, and {rewards.n_intentions} intentions need one each; "
            "ask for fewer."
        )
    (x, y), part = rewards.observed(demos), demos
    if demos.n_steps > SCREENED_STEPS:
        share = max(2, int(len(demos) * SCREENED_STEPS / demos.n_steps))
        part = demos.subset(np.sort(generator.permutation(len(demos))[:share]))
    later = np.flatnonzero(~demos.first_steps)
    moved = np.float64(x[later] - x[later - 1])
    size = np.linalg.norm(moved, axis=1, keepdims=True)
    ways = moved / np.maximum(size, 1e-9)
    design = np.concatenate([ways, np.ones((len(ways), 1))], axis=1)
    p = design.shape[1]
    theta = np.linalg.solve(design.T @ design + rewards.ridge * np.eye(p), design.T @ y[later - 1])
    rewards.weights, rewards.local = np.zeros_like(rewards.weights), np.zeros_like(rewards.local)
    rewards.weights[:, :p] = theta.T
    # The direction that a noisy step went in explains more of the command than a goal will.
    rewards.variances = np.maximum(0.5 * y.var(axis=0), rewards.noise)
    search = _Search(rewards, Prepared(part, part.states.astype(np.int64)), part, fit)
    if rewards.found is None:
        for _ in range(rewards.n_intentions):
            search.add()
    else:
        search.begin(rewards.found.goals)
    for _ in range(SWEEPS if rewards.n_intentions > 1 else 0):
        if not search.sweep():
            break
    rewards.goals = rewards.graph.landmarks[search.chosen].copy()
    return search.chain


class Discovery(NamedTuple):
    """Goals (K, d) that were found, roughly."""

    goals: FloatArray

    @property
    def n_intentions(self) -> int:
        """Number of goals."""
        return len(self.goals)


def discover(demos: Demonstrations, n_landmarks: int, seed: int) -> Discovery:
    """How many goals there are and where, from the search for places (`rewards.place_search`).

    Observations are in cells for it, commands one of a few. A goal in a continuous world is found in several cells
    around it, so that those side by side are one.
    """
    from scipy.cluster.hierarchy import fcluster, linkage
    from sklearn.cluster import KMeans

    from prism_irl.mdp import MDP
    from prism_irl.rewards.detours import Detours
    from prism_irl.rewards.place_search import SETTINGS, find_goals

    if demos.n_steps > SCREENED_STEPS:
        demos = demos.subset(some_trajectories(demos, SCREENED_STEPS, seed))
    assert demos.observations is not None
    assert demos.motions is not None

    def in_groups(values: npt.NDArray[Any], most: int) -> Any:
        n = min(most, len(np.unique(values, axis=0)))
        return KMeans(n, n_init=1, random_state=seed).fit(values.astype(np.float64))

    cells, cuts = in_groups(demos.observations, n_landmarks), demos.offsets[1:-1]
    actions = in_groups(demos.motions, COMMANDS).labels_
    centres = cells.cluster_centers_
    tokens = Demonstrations.from_arrays(
        np.split(cells.labels_, cuts), np.split(actions, cuts), n_states=len(centres), n_actions=COMMANDS
    )
    if len(centres) < 2:
        return Discovery(centres)
    detours = Detours(MDP.from_demonstrations(tokens, 0.9), np.arange(len(centres)))
    visited = np.unique(tokens.states).astype(np.int64)
    found, _ = find_goals(tokens, detours, visited, settings=SETTINGS[:1], crowds=False, seed=seed)
    goals = centres[detours.places_of(found.goals).any(axis=0)]
    if len(goals) < 2:
        return Discovery(goals)
    apart = np.linalg.norm(centres[:, None] - centres, axis=2)
    beside = BESIDE * float(np.median(np.sort(apart, axis=1)[:, 1]))
    of = fcluster(linkage(goals, "single"), beside, "distance")
    return Discovery(np.stack([goals[of == i].mean(axis=0) for i in np.unique(of)]))


class _Search:
    """Landmarks chosen so far, and the chain over them."""

    def __init__(self, rewards: LandmarkGoals, data: Prepared, part: Demonstrations, fit: Fit) -> None:
        assert part.observations is not None
        assert part.motions is not None
        self.rewards, self.data, self.run = rewards, data, fit.run_fixed
        self.x, self.y = part.observations, part.motions
        self.chosen: list[int] = []
        self.chain: Any = None

    def _screened(self, columns: FloatArray, others: list[int]) -> list[int]:
        """The best landmarks beside the others, by a constant chain."""
        free = [g for g in range(columns.shape[1]) if g not in others]
        scores = {g: self._trial(columns, [*others, g], SCREENING)[0] for g in free}
        return sorted(free, key=lambda g: -scores[g])[:FINALISTS]

    def _trial(self, columns: FloatArray, goals: list[int], iterations: int, **options: Any) -> tuple[float, Any]:
        return self.run(self.data, np.ascontiguousarray(columns[:, goals]), iterations, **options)

    def begin(self, goals: FloatArray) -> None:
        """Goals (K, d) that are known roughly."""
        self.chosen = nearest(goals, self.rewards.graph.landmarks).tolist()
        self.chain = self._trial(self.rewards.landmark_density(self.x, self.y), self.chosen, DECIDING)[1]
        self._refit_noise()

    def add(self) -> None:
        """One goal more."""
        columns = self.rewards.landmark_density(self.x, self.y)
        results = {g: self._trial(columns, [*self.chosen, g], DECIDING) for g in self._screened(columns, self.chosen)}
        self.chosen.append(max(results, key=lambda g: results[g][0]))
        self.chain = results[self.chosen[-1]][1]
        self._refit_noise()

    def sweep(self) -> bool:
        """Every goal against the best other places; returns whether one has changed."""
        columns, places = self.rewards.landmark_density(self.x, self.y), self.rewards.graph.landmarks
        before = list(self.chosen)
        best, ending = self._trial(columns, before, ENDING, places=places[before])
        for k in range(len(before)):
            others = self.chosen[:k] + self.chosen[k + 1 :]
            for goal in self._screened(columns, others):
                goals = [*self.chosen[:k], goal, *self.chosen[k + 1 :]]
                score, chain = self._trial(columns, goals, ENDING, places=places[goals])
                if score > best:
                    best, ending, self.chosen = score, chain, goals
        self.chain = self._trial(columns, self.chosen, DECIDING)[1]
        found = self._beliefs(np.ascontiguousarray(columns[:, self.chosen]), ending)
        self.rewards.goals = self.rewards.graph.landmarks[self.chosen].copy()
        self.rewards.fit_skill(self.x.astype(np.float64), self.y, found)
        return self.chosen != before

    def _beliefs(self, emission: FloatArray, chain: Any) -> FloatArray:
        found: FloatArray = chain.expectation(self.data, chain.reads(emission), online=False).responsibilities
        return found

    def _refit_noise(self) -> None:
        """Noise given the goals found so far. The skill waits: with too few goals, fleeing one explains more."""
        rewards, goals = self.rewards, self.rewards.graph.landmarks[self.chosen]
        gaps = rewards.gaps(self.x.astype(np.float64), self.y, goals) ** 2
        found = self._beliefs(rewards._density(np.einsum("gnm,m->ng", gaps, 1.0 / rewards.variances)), self.chain)
        squared = np.einsum("gnm,ng->nm", gaps, found)
        rewards.variances = np.maximum(np.mean(squared, axis=0), rewards.noise)


# What differs from place to place, shared by all goals: C_l (1, (x − l) / s, u(x, g)), l the landmark nearest to x, s
# the distance between landmarks and u the way to g. What an agent does at a place whatever it wants (keeping to the
# middle of a corridor) is nobody's intention, and neither is how it goes in a direction there.


def offsets(x: npt.NDArray[Any], cells: IntArray, landmarks: FloatArray, spacing: float) -> FloatArray:
    """(1, (x − l) / s), (n, 1 + d), of observations (n, d) in cells (n,)."""
    apart = (x - landmarks[cells]) / max(spacing, 1e-9)
    return np.concatenate([np.ones((len(apart), 1)), apart], axis=1)


def habit_at(coefficients: FloatArray, cells: IntArray, features: FloatArray) -> FloatArray:
    """C_l f, (n, m), from coefficients (L, m, p) and features (n, p)."""
    return np.asarray(np.einsum("nmp,np->nm", coefficients[cells], features))


def sums_of(features: FloatArray, rest: FloatArray, cells: IntArray, n_cells: int, weights: FloatArray) -> FloatArray:
    """Σ w f (f, rest)ᵀ over the steps of each cell, (L, p, p + m)."""
    joined = np.concatenate([features, rest], axis=1) * weights[:, None]
    p, q = features.shape[1], joined.shape[1]
    found = np.empty((n_cells, p, q))
    for i in range(p):
        for j in range(q):
            found[:, i, j] = np.bincount(cells, features[:, i] * joined[:, j], n_cells)
    return found


def solve(sums: FloatArray, ridge: float) -> FloatArray:
    """Ridge regression of every cell, coefficients (L, m, p)."""
    p = sums.shape[1]
    found = np.linalg.solve(sums[:, :, :p] + ridge * np.eye(p), sums[:, :, p:])
    return np.asarray(found.transpose(0, 2, 1))
