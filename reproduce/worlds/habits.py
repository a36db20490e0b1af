"""Behaviour without intentions: a random habit that looks at its last few states, and at nothing else.

    log p(a | s_t, s_{t-1}, …) = Σ_{l=1..m} σ_l g_l(a; s_t, …, s_{t-l+1}) − turn 1[a leads back to s_{t-1}] + const

with g_l a standard Gaussian that belongs to the context and the action. Contexts of m states cannot be listed, so each
of them is computed from a hash of (habit, l, context, action): the same habit has the same effects, without a table.
Every length up to m has effects of its own, so each further state matters; what lies before the last m does not.

What is in it: places and short sequences that are liked or disliked, reluctance to turn back in the maze, animals that
differ (`individuals`), and a habit that changes from the first trajectory to the last (`drift`). What is not in it:
goals, intentions, anything that lasts for longer than m states within a trajectory. A method that finds intentions
here is wrong, and so is a test that finds evidence for them more often than its level says.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from prism_irl import maze
from prism_irl.checked import frozen
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.mdp import MDP
from prism_irl.worlds import grid
from prism_irl.worlds.grid import check_settings, cumulative, draw, generator, known_ids

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

SCALES = (1.2, 0.8, 0.6, 0.5, 0.4)
"""σ_l, standard deviation of the effects of contexts of length 1, 2, …: what is longer ago matters less."""
OWN_LENGTHS = 2
"""Longest context in which animals differ from one another."""
GRID_SIZE, GRID_SUCCESS = 5, 0.9
HORIZONS = {"grid": 50, "maze": 200}
_SHARED, _LATER, _OWN = range(3)  # effects of the habit, of the one that it drifts to, and of each animal


@dataclass(frozen=True)
class HabitWorld:
    """A habit of ``memory`` states on the labyrinth or on a 5×5 grid with slip and without barriers.

    Parameters
    ----------
    memory : int
        m, from 1 to 5: how many states the habit sees, the present one included.
    place : {"maze", "grid"}
        Where it walks: `maze.py`, deterministic, from node 0, or `grid.py`, from a uniformly drawn cell.
    individuals : bool
        Each of ``n_animals`` has effects of its own on (s_t), and on (s_{t-1}, s_t) if m ≥ 2; trajectory i belongs to
        animal i mod n_animals, which is its group.
    drift : float
        How much of the way to an independent second habit is gone from the first trajectory to the last, 0 to 1.
        Within a trajectory nothing changes. Effects are cos(φ) g + sin(φ) g' with φ rising evenly from 0 to
        drift · π/2, so that the habit is as strong in the middle and at the end as at the beginning.
    habit : int
        Seed of the habit itself: which contexts like which actions.
    horizon : int, optional
        Steps of a trajectory: 200 in the maze, 50 on the grid by default.
    turn : float
        Reluctance to turn back, in nats; in the maze, and where the habit sees the state before (m ≥ 2).
    own_scale : float
        Standard deviation of the effects of an animal.
    n_animals : int
    """

    memory: int = 2
    place: Literal["maze", "grid"] = "maze"
    individuals: bool = False
    drift: float = 0.0
    habit: int = 0
    horizon: int | None = None
    turn: float = 1.5
    own_scale: float = 0.4
    n_animals: int = 8

    discount = 0.97  # of `mdp`; a habit does not plan

    def __post_init__(self) -> None:
        if self.place not in HORIZONS:
            raise InputError(f"place is {self.place!r}; give 'maze' or 'grid'.")
        if not 1 <= self.memory <= len(SCALES):
            raise InputError(f"memory is {self.memory}; give 1 to {len(SCALES)} states.")
        if self.habit < 0:
            raise InputError(f"habit is {self.habit}; give a seed of at least 0.")
        counts = ("n_animals",) if self.horizon is None else ("n_animals", "horizon")
        check_settings(self, counts=counts, probabilities=("drift",), not_negative=("turn", "own_scale"))

    @cached_property
    def mdp(self) -> MDP:
        """Where actions lead."""
        if self.place == "maze":
            return maze.maze_mdp(self.discount)
        return MDP.from_dense(grid.slip(grid.moves(GRID_SIZE)[0], GRID_SUCCESS), self.discount)

    @cached_property
    def _successors(self) -> Floats:
        """(S, A, S) P(s' | s, a); what does not exist leads nowhere."""
        return frozen(self.mdp.transitions.toarray().reshape(self.mdp.n_states, self.mdp.n_actions, -1))

    def simulate(self, n_trajectories: int = 200, seed: int | np.random.Generator = 0) -> Demonstrations:
        """Draw trajectories of this habit; they have valid actions, no labels, and groups where animals differ.

        Parameters
        ----------
        n_trajectories : int
        seed : int or Generator
            The same seed gives the same trajectories of the same habit.
        """
        rng = generator(n_trajectories, seed)
        length = HORIZONS[self.place] if self.horizon is None else self.horizon
        states, actions = np.zeros((2, n_trajectories, length), np.int64)
        everyone = np.arange(n_trajectories)
        animals, angles = everyone % self.n_animals, self._angles(n_trajectories)
        successor_cdf = np.cumsum(self._successors, axis=2)
        in_maze = self.place == "maze"
        state = np.full(n_trajectories, maze.HOME) if in_maze else rng.integers(self.mdp.n_states, size=n_trajectories)
        recent = np.full((n_trajectories, self.memory), -1)
        for t in range(length):
            recent = np.concatenate([state[:, None], recent[:, :-1]], axis=1)
            action = draw(cumulative(self._proba(recent, animals, angles)), rng)
            states[:, t], actions[:, t] = state, action
            state = draw(successor_cdf[state, action], rng)
        return Demonstrations.from_arrays(
            states,
            actions,
            n_states=self.mdp.n_states,
            n_actions=self.mdp.n_actions,
            valid_actions=self.mdp.valid_actions,
            groups=animals if self.individuals else None,
        )

    def action_proba(self, demos: Demonstrations) -> Floats:
        """p(a | last m states) of every step, (n, A): no prediction of demonstrations of this world is better.

        Parameters
        ----------
        demos : Demonstrations
            With the groups that `simulate` gave them; where there is drift, all trajectories in their order.
        """
        states, _ = known_ids(demos, self.mdp.n_states, self.mdp.n_actions)
        if self.individuals and demos.groups is None:
            raise InputError("The animals of this world differ; give demonstrations with their groups.")
        recent = np.full((demos.n_steps, self.memory), -1)
        for age in range(self.memory):
            there = np.flatnonzero(demos.step_index >= age)
            recent[there, age] = states[there - age]
        trajectory = demos.trajectory_index
        animals = np.zeros(len(demos), np.int64) if demos.groups is None else np.asarray(demos.groups, np.int64)
        return self._proba(recent, animals[trajectory], self._angles(len(demos))[trajectory])

    def _angles(self, n_trajectories: int) -> Floats:
        """φ of every trajectory, (N,)."""
        angles: Floats = np.linspace(0.0, self.drift * np.pi / 2, n_trajectories)
        return angles

    def _proba(self, recent: Integers, animals: Integers, angles: Floats) -> Floats:
        """p(a | recent states), (B, A), for recent (B, m), newest first and −1 before the beginning."""
        valid = self.mdp.valid_actions[recent[:, 0]]
        logits = np.zeros(valid.shape)
        for length, scale in enumerate(SCALES[: self.memory], start=1):
            # A context that reaches back before the first step does not exist, and has no effect.
            exists = (recent[:, length - 1] >= 0)[:, None]
            effect = np.cos(angles)[:, None] * self._effects(_SHARED, recent[:, :length])
            if self.drift:
                effect += np.sin(angles)[:, None] * self._effects(_LATER, recent[:, :length])
            logits += exists * scale * effect
            if self.individuals and length <= OWN_LENGTHS:
                contexts = np.concatenate([recent[:, :length], animals[:, None]], axis=1)
                logits += exists * self.own_scale * self._effects(_OWN, contexts)
        if self.place == "maze" and self.memory > 1:
            # Leaving the maze and coming back is no turn.
            back = maze.successors()[recent[:, 0]] == recent[:, 1:2]
            logits -= self.turn * (back & (recent[:, :1] != recent[:, 1:2]))
        weights = np.where(valid, np.exp(logits), 0.0)
        proba: Floats = weights / weights.sum(axis=1, keepdims=True)
        return proba

    def _effects(self, kind: int, contexts: Integers) -> Floats:
        """Standard Gaussians (B, A) that belong to this habit, the kind, each context (B, l) and each action."""
        code = np.zeros((len(contexts), 1), np.uint64)
        for key in (self.habit, kind, contexts.shape[1]):
            code = _mixed(code, np.uint64(key))
        for column in contexts.T:
            code = _mixed(code, column.astype(np.uint64)[:, None])
        return _gaussian(_mixed(code, np.arange(self.mdp.n_actions, dtype=np.uint64)))


def _mixed(code: NDArray[np.uint64], value: NDArray[np.uint64] | np.uint64) -> NDArray[np.uint64]:
    """Take one more value into a hash: splitmix64's finaliser, whose arithmetic is modulo 2⁶⁴ on purpose."""
    z: NDArray[np.uint64] = code * np.uint64(0x100000001B3) + value + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _gaussian(code: NDArray[np.uint64]) -> Floats:
    """Standard normal quantile of the upper 53 bits of a hash, which are as good as a uniform draw."""
    uniform = ((code >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53
    normal: Floats = ndtri(uniform)
    return normal
