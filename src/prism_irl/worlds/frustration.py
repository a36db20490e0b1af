"""The frustration gridworld: an expert that gives up after meeting barriers, and the exact posterior of its intention.

A hidden counter c grows by one at every barrier encounter, and after every step the expert flips its intention with
probability min(0.15 c, 0.9), which resets c: switching depends on history and not on the state. Use it wherever a
method must be judged against true intentions; `FrustrationWorld.oracle` is the ceiling that no method can pass.
"""

from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from prism_irl.checked import frozen
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.mdp import boltzmann
from prism_irl.worlds import grid
from prism_irl.worlds.grid import ACTIONS, Cell, OraclePosterior

Floats = NDArray[np.float64]
Integers = NDArray[np.integer]

INTENTIONS = ("goal", "abandon")


class Simulation(NamedTuple):
    """Trajectories, labelled by their true intentions (0 goal, 1 abandon), and the counter before each action, (n,)."""

    demonstrations: Demonstrations
    counters: NDArray[np.int64]


@dataclass(frozen=True)
class FrustrationWorld:
    """A square grid with hidden barriers, two Boltzmann experts and a frustration counter.

    State = size·y + x; actions are `ACTIONS` (up increases y). The reward is received **in** the target cell:
    r(s, a) = 1[s = target] for every a, so that optimal values reach about 1 / (1 − discount). The experts plan on
    the grid without the inner barriers (they do not know them) but with slip and outer wall.

    Parameters
    ----------
    beta, discount : float
        Inverse temperature of the experts, π_k(a | s) ∝ exp(β Q_k(s, a)), and discount of their planning.
    horizon : int
        Steps of a simulated trajectory.
    success : float
        Probability that the chosen action is executed; otherwise one of the five is drawn uniformly.
    switch_rate, switch_max : float
        Probability of a switch after a step that leaves the counter at c: min(switch_rate · c, switch_max).
    size : int
        Cells along each side.
    barriers, goal, abandon : (x, y)
        Cells that cannot be entered, and the targets of intentions 0 and 1.
    """

    beta: float = 5.0
    horizon: int = 50
    discount: float = 0.9
    success: float = 0.9
    switch_rate: float = 0.15
    switch_max: float = 0.9
    size: int = 5
    barriers: tuple[Cell, ...] = ((1, 3), (2, 2), (3, 1))
    goal: Cell = (4, 4)
    abandon: Cell = (0, 0)

    n_actions = len(ACTIONS)

    def __post_init__(self) -> None:
        rates = ("beta", "switch_rate")
        grid.check_settings(
            self, counts=("horizon", "size"), probabilities=("success", "switch_max"), not_negative=rates
        )
        grid.check_cells(self.size, (self.goal, self.abandon, *self.barriers))
        for cell in (self.goal, self.abandon):
            if cell in self.barriers:
                raise InputError(f"cell {cell} is both a target and a barrier; move one of them.")

    @property
    def n_states(self) -> int:
        """Number of cells, barriers included."""
        return self.size**2

    def state(self, cell: Cell) -> int:
        """Return the state number of a cell (x, y)."""
        return self.size * cell[1] + cell[0]

    @cached_property
    def free(self) -> NDArray[np.bool_]:
        """(S,) cells that can be entered: all but the barriers."""
        free = np.ones(self.n_states, bool)
        free[[self.state(cell) for cell in self.barriers]] = False
        return frozen(free)

    @cached_property
    def start(self) -> Floats:
        """(S,) distribution of the first state: uniform over the free cells."""
        return frozen(self.free / self.free.sum())

    @cached_property
    def transitions(self) -> Floats:
        """(S, A, S) dynamics with barriers, wall and slip; a barrier cell can be left, although it is never entered."""
        return frozen(grid.slip(grid.moves(self.size, self.barriers)[0], self.success))

    @cached_property
    def blocked(self) -> NDArray[np.bool_]:
        """(S, A) barrier encounters, judged on the chosen action: it runs into a barrier cell or the outer wall."""
        return frozen(grid.moves(self.size, self.barriers)[1])

    @cached_property
    def rewards(self) -> Floats:
        """(2, S, A) true rewards r_k(s, a) = 1[s = target of k]."""
        return frozen(grid.target_rewards(self.n_states, (self.state(self.goal), self.state(self.abandon))))

    @cached_property
    def q(self) -> Floats:
        """(2, S, A) optimal Q of each intention on the grid that the experts believe in (no inner barriers)."""
        believed = grid.slip(grid.moves(self.size)[0], self.success)
        return frozen(grid.optimal_q(self.rewards, believed, self.discount))

    @cached_property
    def policies(self) -> Floats:
        """(2, S, A) the experts: π_k(a | s) ∝ exp(β Q_k(s, a)), 0 = goal, 1 = abandon."""
        return frozen(boltzmann(self.q, self.beta))

    def switch_probability(self, counter: Integers) -> Floats:
        """Return min(switch_rate · c, switch_max): how likely a switch is after a step that left the counter at c."""
        return np.asarray(np.minimum(self.switch_rate * counter, self.switch_max), np.float64)

    def simulate(self, n_trajectories: int = 1024, seed: int | np.random.Generator = 0) -> Simulation:
        """Draw trajectories that start with intention goal and counter 0 in a uniformly drawn free cell."""
        rng = grid.generator(n_trajectories, seed)
        policy_cdf, transition_cdf = grid.cumulative(self.policies), grid.cumulative(self.transitions)
        states, actions, intentions, counters = np.zeros((4, n_trajectories, self.horizon), np.int64)
        state = rng.choice(self.n_states, n_trajectories, p=self.start)
        intention, counter = np.zeros((2, n_trajectories), np.int64)
        for t in range(self.horizon):
            action = grid.draw(policy_cdf[intention, state], rng)
            states[:, t], actions[:, t], intentions[:, t], counters[:, t] = state, action, intention, counter
            counter = counter + self.blocked[state, action]
            switch = rng.random(n_trajectories) < self.switch_probability(counter)
            intention = np.where(switch, 1 - intention, intention)
            counter = np.where(switch, 0, counter)
            state = grid.draw(transition_cdf[state, action], rng)
        sizes = {"n_states": self.n_states, "n_actions": self.n_actions}
        return Simulation(Demonstrations.from_arrays(states, actions, labels=intentions, **sizes), counters.ravel())

    def oracle(self, demos: Demonstrations) -> OraclePosterior:
        """Compute the exact Bayes filter and smoother over the hidden state (intention, counter).

        The evidence is π_k(a_t | s_t), and encounters drive the counter. Every counter whose switch probability has
        reached `switch_max` behaves alike until it is reset, so these values are one hidden state and nothing is lost.
        """
        s, a = grid.known_ids(demos, self.n_states, self.n_actions)
        kernels, policies = self._hidden_kernels(int(demos.lengths.max())), self.policies[:, s].transpose(1, 0, 2)
        initial = np.eye(kernels.shape[1])[0]
        return grid.exact_posterior(demos, policies, initial, kernels, self.blocked[s, a].astype(np.int64))

    def _hidden_kernels(self, longest: int) -> Floats:
        """(2, H, H) kernels of (intention, counter) without and with an encounter; H = 2·(cap + 1)."""
        cap = min(ceil(self.switch_max / self.switch_rate), longest) if self.switch_rate > 0 else 0
        kernels = np.zeros((2, 2, cap + 1, 2, cap + 1))
        counter = np.arange(cap + 1)
        for encounter in (0, 1):
            moved = np.minimum(counter + encounter, cap)
            switch = self.switch_probability(moved)
            for k in (0, 1):
                kernels[encounter, k, counter, k, moved] += 1 - switch
                kernels[encounter, k, counter, 1 - k, 0] += switch
        return kernels.reshape(2, 2 * (cap + 1), 2 * (cap + 1))
