"""A point in a square that walks to a few goals, in an order that depends on those already visited.

    a_t = step · (g − x_t)/|g − x_t| + noise,      x_{t+1} = x_t + a_t, kept inside the square

Within ``radius`` of its goal the agent chooses another one, uniformly among those that it has not visited in this
round; a round ends when all have been visited. What comes next is in the past and not in the place, so that a memory
can explain what a Markov chain cannot. `truth` is the exact filter over (goal, goals visited).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from scipy.special import logsumexp

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.switching.forward_backward import forward_backward
from prism_irl.worlds.grid import check_settings

FloatArray = npt.NDArray[np.float64]
PLACES = ((1.0, 1.0), (7.0, 1.5), (4.0, 7.0), (1.0, 5.0), (7.2, 5.5))


class Truth(NamedTuple):
    """What the exact filter says: P(goal | everything) (n, G), and log p(a_t | past) (n,)."""

    probabilities: FloatArray
    log_likelihood: FloatArray


@dataclass(frozen=True)
class GoalsSquare:
    """The world.

    Parameters
    ----------
    n_goals : int
        2 to 5.
    step, noise : float
        Length of a step, and size of its noise.
    noise_kind : {"uniform", "gaussian"}
        Uniform within ± noise, or Gaussian with this standard deviation, per coordinate.
    side, radius : float
        Of the square, and of the place that counts as the goal.
    horizon : int
        Steps of a trajectory.
    """

    n_goals: int = 5
    step: float = 0.3
    noise: float = 0.2
    noise_kind: str = "gaussian"
    side: float = 8.0
    radius: float = 0.5
    horizon: int = 150

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        check_settings(self, counts=("horizon",), probabilities=(), not_negative=("step", "noise", "radius"))
        if not 2 <= self.n_goals <= len(PLACES) or self.noise_kind not in ("uniform", "gaussian"):
            raise InputError(f"The square has 2 to {len(PLACES)} goals and uniform or gaussian noise.")

    @property
    def goals(self) -> FloatArray:
        """Places of the goals, (G, 2)."""
        return np.array(PLACES[: self.n_goals])

    def towards(self, positions: FloatArray, goals: npt.NDArray[np.int64]) -> FloatArray:
        """Mean command at positions (n, 2) on the way to goals (n,), (n, 2)."""
        way = self.goals[goals] - positions
        return np.asarray(self.step * way / np.maximum(np.linalg.norm(way, axis=1, keepdims=True), 1e-9))

    def arrived(self, positions: FloatArray, goals: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Whether a goal has been reached, (n,)."""
        return np.asarray(np.linalg.norm(self.goals[goals] - positions, axis=1) < self.radius)

    def move(self, positions: FloatArray, commands: FloatArray) -> FloatArray:
        """Where commands lead, (n, 2)."""
        return np.clip(positions + commands, 0.0, self.side)

    def start(self, n: int, generator: np.random.Generator) -> FloatArray:
        """Where trajectories begin, (n, 2)."""
        return generator.uniform(0.0, self.side, (n, 2))

    def simulate(self, n_trajectories: int, seed: int = 0) -> Demonstrations:
        """Trajectories with the true goal of every step as labels."""
        generator = np.random.default_rng(seed)
        x = self.start(n_trajectories, generator)
        goal = generator.integers(self.n_goals, size=n_trajectories)
        visited = np.zeros((n_trajectories, self.n_goals), dtype=bool)
        steps = []
        for _ in range(self.horizon):
            there = np.flatnonzero(self.arrived(x, goal))
            for i in there:
                visited[i], options = self.round_after(visited[i], int(goal[i]))
                goal[i] = generator.choice(np.flatnonzero(options))
            commands = self.towards(x, goal) + self._noise(x.shape, generator)
            steps.append((x, commands, goal.copy()))
            x = self.move(x, commands)
        positions, commands, goals = (np.stack(part, axis=1) for part in zip(*steps, strict=True))
        return Demonstrations.continuous(
            list(positions), list(commands), labels=goals, observation_names=("x", "y"), motion_names=("vx", "vy")
        )

    def round_after(
        self, visited: npt.NDArray[np.bool_], reached: int
    ) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Goals visited once this one is reached, and those that may come next, (G,) each."""
        now = visited.copy()
        now[reached] = True
        if now.all():  # a new round, which begins here
            now = np.zeros_like(now)
            now[reached] = True
        return now, ~now

    def _noise(self, shape: tuple[int, ...], generator: np.random.Generator) -> FloatArray:
        if self.noise_kind == "uniform":
            return generator.uniform(-self.noise, self.noise, shape)
        return generator.normal(0.0, self.noise, shape)

    def log_density(self, residuals: FloatArray) -> FloatArray:
        """Log density of noise (…, 2), (…)."""
        if self.noise_kind == "uniform":
            inside = (np.abs(residuals) <= self.noise + 1e-9).all(axis=-1)
            return np.where(inside, -2.0 * np.log(2.0 * self.noise), -1e4)
        variance = self.noise**2
        return np.asarray(-0.5 * ((residuals**2).sum(axis=-1) / variance + 2.0 * np.log(2.0 * np.pi * variance)))

    # -- the exact filter ------------------------------------------------------------------------------------------

    @cached_property
    def _states(self) -> list[tuple[int, tuple[bool, ...]]]:
        """Pairs of goal and goals visited that can occur, found from the start on."""
        found = {(g, (False,) * self.n_goals) for g in range(self.n_goals)}
        while True:
            more = {pair for state in found for pair, _ in self._after(state)} - found
            if not more:
                return sorted(found)
            found |= more

    def _after(self, state: tuple[int, tuple[bool, ...]]) -> list[tuple[tuple[int, tuple[bool, ...]], float]]:
        """States that follow where the goal is reached, with their probabilities."""
        now, options = self.round_after(np.array(state[1]), state[0])
        following = np.flatnonzero(options)
        return [((int(g), tuple(bool(v) for v in now)), 1.0 / len(following)) for g in following]

    def truth(self, demos: Demonstrations) -> Truth:
        """Exact beliefs of whoever knows the world: forward and backward over (goal, goals visited)."""
        states = self._states
        index = {state: i for i, state in enumerate(states)}
        S, G = len(states), self.n_goals
        goal_of = np.array([state[0] for state in states])
        jump = np.zeros((S, S))
        for i, state in enumerate(states):
            for following, p in self._after(state):
                jump[i, index[following]] += p
        first = np.array([0.0 if any(state[1]) else 1.0 / G for state in states])
        assert demos.observations is not None
        assert demos.motions is not None
        x, y = demos.observations.astype(np.float64), demos.motions.astype(np.float64)
        each = np.arange(G)[:, None].repeat(len(x), 1)
        emission = np.stack([self.log_density(y - self.towards(x, goals)) for goals in each], axis=1)[:, goal_of]
        reached = np.stack([self.arrived(x, goals) for goals in each], axis=1)[:, goal_of]
        probabilities, likelihood = np.empty((len(x), G)), np.empty(len(x))
        with np.errstate(divide="ignore"):
            stay, log_jump = np.log(np.eye(S)), np.log(jump)
            for a, b in zip(demos.offsets[:-1], demos.offsets[1:], strict=True):
                kernel = np.where(reached[a:b, :, None], log_jump, stay)  # at step t, before its command
                begin = logsumexp(np.log(first)[:, None] + kernel[0], axis=0)
                found = forward_backward(
                    torch.from_numpy(begin)[None],
                    torch.from_numpy(np.maximum(kernel, -1e5))[None],
                    torch.from_numpy(emission[a:b])[None],
                    torch.ones(1, int(b - a), dtype=torch.bool),
                )
                smoothed = found.smoothed[0].exp().numpy()
                probabilities[a:b] = np.stack([smoothed[:, goal_of == g].sum(axis=1) for g in range(G)], axis=1)
                likelihood[a:b] = found.log_likelihood[0].numpy()
        return Truth(probabilities, likelihood)
