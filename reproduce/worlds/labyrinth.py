"""A simulated mouse in the labyrinth: three drives, and a thirst that only history explains.

The mouse wants water (the port at node 116), home (out through node 0) or to explore (the ends of the maze). A visit
to the port brings a drop only if none came during the last `refractory` steps, as in the experiment of Rosenberg et
al. (2021), where the port rested for 90 seconds; until then water is not wanted. Two clocks therefore decide about
switches: the refractory counter c and the time τ since the last exit. Both follow from the states visited and from
nothing that is visible in the present state, so a chain with a constant kernel cannot know them while recurrent
switching can, and given the clocks the intention is a Markov chain: `LabyrinthWorld.oracle` is exact.

The time scales resemble the recordings (a drop every 75 steps, trips of six steps), except that this mouse lingers: it
checks the port again after a drop and stays outside for a while, so that a drive lasts long enough to be recovered
from a hundred windows. Without that (`satiety` = `rested` = 1) even EM that begins at the truth drifts away from it.
The constants were picked among four variants by the label accuracy of HIQL and of the oracle: this is a world in
which intentions can be found, and accuracies on it say which method finds them, not how often a world is like that.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from prism_irl import maze
from prism_irl.checked import frozen
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.mdp import MDP, boltzmann
from prism_irl.worlds.grid import OraclePosterior, check_settings, cumulative, draw, exact_posterior, generator

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

INTENTIONS = ("water", "home", "explore")
DRINK, LEAVE, EXPLORE = range(3)


class Simulation(NamedTuple):
    """What `LabyrinthWorld.simulate` returns; arrays are flat and aligned with the demonstrations.

    Attributes
    ----------
    demonstrations : Demonstrations
        The labels are the true drives, numbered as in `INTENTIONS`.
    counters : (n,) int
        Steps for which the port still rests before the action of each step; 0 means that a visit is rewarded.
    since_exit : (n,) int
        Steps since the last exit, or since the beginning.
    deliveries : (n,) bool
        Steps at which a drop was delivered: the mouse stands at the port.
    """

    demonstrations: Demonstrations
    counters: Integers
    since_exit: Integers
    deliveries: NDArray[np.bool_]


class Clocks(NamedTuple):
    """What the states and actions say about the clocks, before the action of each step; see `Simulation`."""

    counters: Integers
    since_exit: Integers
    deliveries: NDArray[np.bool_]


@dataclass(frozen=True)
class LabyrinthWorld:
    """The mouse: soft-optimal policies of three planned rewards, and the rule by which it changes its mind.

    With the reward of a drive, r_water(s, ·) = 1[s = 116], r_home(s, a) = 1[(s, a) = (0, 3)] and r_explore(s, ·) =
    1[s is a dead end], and its optimal Q, the mouse follows π_k(a | s, s_prev) ∝ exp(β_k Q_k(s, a) − m 1[a leads back
    to s_prev]): it keeps going, whatever it wants. Actions of the maze are `maze.ACTION_NAMES`.

    After every step, with c and τ as they are then:

    - water, while the port rests: the mouse goes on checking the port until it is satisfied, with probability
      `satiety` per step; then it turns to home with probability `home_after_water`, else to exploring;
    - home, after a step out of the maze: it stays outside, which is the same step again, until it is rested, with
      probability `rested`; then it turns to water if the port is ready, else to exploring;
    - exploring: water with probability `thirst` if the port is ready, and never while it rests; home with probability
      min(`homesickness` · τ, `homesickness_max`);
    - otherwise the drive stays.

    Parameters
    ----------
    horizon : int
        Steps of a trajectory.
    refractory : int
        Steps during which the port rests after a drop.
    thirst : float
        Probability per step of turning to water once the port is ready.
    homesickness, homesickness_max : float
        Slope and limit of the probability per step of turning home.
    satiety : float
        Probability per step that a mouse which has had its drop stops checking the port.
    home_after_water : float
        Probability of heading home after that.
    rested : float
        Probability per step outside that the mouse has been at home for long enough.
    beta, explore_beta : float
        Inverse temperatures of the two goals, and of exploring, which is less determined.
    momentum : float
        m, the reluctance to turn back, in nats; 0 makes policies depend on the present node only.
    discount : float
        Discount of the mouse's planning.
    """

    horizon: int = 500
    refractory: int = 60
    thirst: float = 0.1
    homesickness: float = 0.0004
    homesickness_max: float = 0.05
    satiety: float = 0.1
    home_after_water: float = 0.3
    rested: float = 0.1
    beta: float = 6.0
    explore_beta: float = 0.3
    momentum: float = 0.0
    discount: float = 0.95

    n_states, n_actions = int(maze.N_NODES), maze.N_ACTIONS

    def __post_init__(self) -> None:
        check_settings(
            self,
            counts=("horizon",),
            probabilities=("thirst", "homesickness_max", "satiety", "home_after_water", "rested"),
            not_negative=("refractory", "homesickness", "beta", "explore_beta", "momentum"),
        )
        if self.thirst + self.homesickness_max > 1:
            raise InputError("thirst and homesickness_max add up to more than 1; lower one of them.")

    @cached_property
    def mdp(self) -> MDP:
        """The maze with the mouse's discount."""
        return maze.maze_mdp(self.discount)

    @cached_property
    def rewards(self) -> Floats:
        """(3, S, A) true rewards."""
        rewards = np.zeros((3, self.n_states, self.n_actions))
        rewards[DRINK, maze.WATER] = 1
        rewards[LEAVE][maze.EXIT] = 1
        rewards[EXPLORE, maze.FIRST_END :] = 1
        return frozen(rewards)

    @cached_property
    def q(self) -> Floats:
        """(3, S, A) optimal Q of each drive, −inf for actions that do not exist."""
        return frozen(self.mdp.value_iteration(self.rewards)[0])

    @cached_property
    def policies(self) -> Floats:
        """(3, S, A) the policies of somebody who comes from nowhere, without momentum."""
        betas = (self.beta, self.beta, self.explore_beta)
        return frozen(np.stack([boltzmann(q, beta) for q, beta in zip(self.q, betas, strict=True)]))

    def policies_from(self, previous: Integers, states: Integers) -> Floats:
        """Return π_k(a | s, s_prev), (n, 3, A); ``previous`` is −1 where there is none.

        Leaving the maze and coming back is no turn, so momentum never holds the mouse from leaving.
        """
        turns = (maze.successors()[states] == previous[:, None]) & (previous != states)[:, None]
        weights = self.policies[:, states].transpose(1, 0, 2) * np.exp(-self.momentum * turns)[:, None]
        policies: Floats = weights / weights.sum(axis=2, keepdims=True)
        return policies

    def kernels(self, counters: Integers, since_exit: Integers, left: NDArray[np.bool_]) -> Floats:
        """P(z_{t+1}=k | z_t=j), (n, 3, 3), given the clocks after step t and whether it left the maze, (n,) each."""
        ready = counters == 0
        kernel = np.tile(np.eye(3), (len(counters), 1, 1))
        kernel[~ready, DRINK] = (
            1.0 - self.satiety,
            self.satiety * self.home_after_water,
            self.satiety * (1.0 - self.home_after_water),
        )
        kernel[left & ready, LEAVE] = (self.rested, 1.0 - self.rested, 0.0)
        kernel[left & ~ready, LEAVE] = (0.0, 1.0 - self.rested, self.rested)
        kernel[:, EXPLORE, DRINK] = self.thirst * ready
        kernel[:, EXPLORE, LEAVE] = np.minimum(self.homesickness * since_exit, self.homesickness_max)
        kernel[:, EXPLORE, EXPLORE] = 1.0 - kernel[:, EXPLORE, :EXPLORE].sum(axis=1)
        return kernel

    def simulate(
        self, n_trajectories: int = 100, horizon: int | None = None, seed: int | np.random.Generator = 0
    ) -> Simulation:
        """Draw trajectories of a mouse that has just come in, explores, and finds the port ready.

        Parameters
        ----------
        n_trajectories : int
            Number of trajectories.
        horizon : int, optional
            Steps of each, by default the world's.
        seed : int or Generator
            The same seed gives the same trajectories.
        """
        length = self.horizon if horizon is None else horizon
        if length < 1:
            raise InputError(f"horizon is {length}; give at least 1.")
        rng = generator(n_trajectories, seed)
        states, actions, drives, counters, elapsed, drops = np.zeros((6, n_trajectories, length), np.int64)
        state = np.full(n_trajectories, maze.HOME)
        previous, drive = np.full(n_trajectories, -1), np.full(n_trajectories, EXPLORE)
        counter, since = np.zeros((2, n_trajectories), np.int64)
        everyone = np.arange(n_trajectories)
        for t in range(length):
            action = draw(cumulative(self.policies_from(previous, state)[everyone, drive]), rng)
            states[:, t], actions[:, t], drives[:, t] = state, action, drive
            counters[:, t], elapsed[:, t] = counter, since
            counter, since, delivered, left = self._tick(counter, since, state, action)
            drops[:, t] = delivered
            drive = draw(cumulative(self.kernels(counter, since, left)[everyone, drive]), rng)
            previous, state = state, maze.successors()[state, action]
        demonstrations = Demonstrations.from_arrays(
            states,
            actions,
            labels=drives,
            n_states=self.n_states,
            n_actions=self.n_actions,
            valid_actions=maze.valid_actions(),
        )
        return Simulation(demonstrations, counters.ravel(), elapsed.ravel(), drops.ravel().astype(bool))

    def _tick(self, counter: Integers, since: Integers, state: Integers, action: Integers) -> tuple[Any, Any, Any, Any]:
        """Clocks after a step, and whether it brought a drop or left the maze; the drop is there on arrival."""
        delivered = (state == maze.WATER) & (counter == 0)
        left = (state == maze.EXIT[0]) & (action == maze.EXIT[1])
        return (
            np.where(delivered, self.refractory, np.maximum(counter - 1, 0)),
            np.where(left, 0, since + 1),
            delivered,
            left,
        )

    def clocks(self, demos: Demonstrations) -> Clocks:
        """Read both clocks from the states and actions, as a network with memory could."""
        counters, since, deliveries = np.zeros((3, demos.n_steps), np.int64)
        # All trajectories move together, step by step; those that are over drop out.
        counter, elapsed = np.zeros((2, len(demos)), np.int64)
        for t in range(int(demos.lengths.max())):
            going = np.flatnonzero(demos.lengths > t)
            steps = demos.offsets[going] + t
            counters[steps], since[steps] = counter[going], elapsed[going]
            states, actions = demos.states[steps].astype(np.int64), demos.actions[steps].astype(np.int64)
            counter[going], elapsed[going], deliveries[steps], _ = self._tick(
                counter[going], elapsed[going], states, actions
            )
        return Clocks(counters, since, deliveries.astype(bool))

    def oracle(self, demos: Demonstrations) -> OraclePosterior:
        """Compute the exact filter and smoother: the clocks are known, so three states remain, with known kernels."""
        states, actions = demos.states.astype(np.int64), demos.actions.astype(np.int64)
        clocks = self.clocks(demos)
        counters, since_exit, _, left = self._tick(clocks.counters, clocks.since_exit, states, actions)
        kernels = self.kernels(counters, since_exit, left)
        previous = np.where(demos.first_steps, -1, np.roll(states, 1))
        policies = self.policies_from(previous, states)
        return exact_posterior(demos, policies, np.eye(3)[EXPLORE], kernels, np.arange(len(states)))


def walls() -> Floats:
    """(M, 2, 2) all walls as line segments of one cell's length: sides of corridor cells that lead nowhere."""
    entrance, home = (-0.5, float(maze.SIZE // 2)), maze.layout()[maze.HOME]
    corridors = [((0.0, entrance[1]), home), *zip(maze.layout()[maze.parents()[1:]], maze.layout()[1:], strict=True)]
    cells, open_sides = set[tuple[float, float]](), {entrance}
    for ends in corridors:
        start, end = (np.asarray(point) for point in ends)
        n = int(np.abs(end - start).sum())
        steps = (end - start) / n
        cells |= {(float(x), float(y)) for x, y in (start + steps * i for i in range(n + 1))}
        open_sides |= {(float(x), float(y)) for x, y in (start + steps * (i + 0.5) for i in range(n))}
    found = set()
    for x, y in cells:
        for dx, dy in ((0.5, 0.0), (-0.5, 0.0), (0.0, 0.5), (0.0, -0.5)):
            side = (x + dx, y + dy)  # the middle of the cell's side, which runs across (dx, dy)
            if side not in open_sides:
                found.add((side[0] - abs(dy), side[1] - abs(dx), side[0] + abs(dy), side[1] + abs(dx)))
    return np.array(sorted(found)).reshape(-1, 2, 2)
