"""The errands world: an agent that walks to one corner, and, having been there, to the other.

An intention ends at its own target and hardly anywhere else, so switching depends on the state and on nothing before
it: P(z_{t+1} ≠ k | z_t = k, s_t) is `done` in the target of k and `distraction` elsewhere. That is the world of a chain
with a kernel per state (`switching/state.py`), the counterpart of the frustration gridworld, whose switches no state
explains. There are intentions in it: nothing but z tells which way to go in the middle of the grid, although the way
by which the agent came betrays it. There are no barriers, no memory and no differences between trajectories.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from prism_irl.checked import frozen
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.mdp import boltzmann
from prism_irl.worlds.grid import (
    ACTIONS,
    Cell,
    OraclePosterior,
    check_cells,
    check_settings,
    cumulative,
    draw,
    exact_posterior,
    generator,
    known_ids,
    moves,
    optimal_q,
    slip,
    target_rewards,
)

Floats = NDArray[np.float64]

INTENTIONS = ("there", "back")


class Simulation(NamedTuple):
    """What `ErrandsWorld.simulate` returns.

    Attributes
    ----------
    demonstrations : Demonstrations
        n_trajectories trajectories of `horizon` steps; the labels are the true intentions (0 there, 1 back).
    """

    demonstrations: Demonstrations


@dataclass(frozen=True)
class ErrandsWorld:
    """A square grid with slip, two Boltzmann planners, and switches at their targets.

    State = size·y + x; actions are `grid.ACTIONS` (up increases y). Rewards are received **in** the target cell,
    r_k(s, a) = 1[s = target of k], so that an agent in its target would stay there if its intention did not end.

    Parameters
    ----------
    beta : float
        Inverse temperature of the planners, π_k(a | s) ∝ exp(β Q_k(s, a)).
    horizon : int
        Steps of a simulated trajectory.
    discount : float
        Discount of the planning.
    success : float
        Probability that the chosen action is executed; otherwise one of the five is drawn uniformly.
    done : float
        Probability of a switch after a step that was taken in the target of the present intention.
    distraction : float
        Probability of a switch after any other step.
    size : int
        Cells along each side.
    there, back : (x, y)
        The target cells of intentions 0 and 1.
    """

    beta: float = 5.0
    horizon: int = 50
    discount: float = 0.9
    success: float = 0.9
    done: float = 0.9
    distraction: float = 0.01
    size: int = 5
    there: Cell = (4, 4)
    back: Cell = (0, 0)

    n_actions = len(ACTIONS)

    def __post_init__(self) -> None:
        rates = ("success", "done", "distraction")
        check_settings(self, counts=("horizon", "size"), probabilities=rates, not_negative=("beta",))
        check_cells(self.size, (self.there, self.back))
        if self.there == self.back:
            raise InputError(f"both intentions end in cell {self.there}; move one of the targets.")

    @property
    def n_states(self) -> int:
        """Number of cells."""
        return self.size**2

    @cached_property
    def targets(self) -> tuple[int, int]:
        """States in which intentions 0 and 1 end."""
        return self.size * self.there[1] + self.there[0], self.size * self.back[1] + self.back[0]

    @cached_property
    def transitions(self) -> Floats:
        """(S, A, S) dynamics with wall and slip."""
        return frozen(slip(moves(self.size)[0], self.success))

    @cached_property
    def rewards(self) -> Floats:
        """(2, S, A) true rewards r_k(s, a) = 1[s = target of k]."""
        return frozen(target_rewards(self.n_states, self.targets))

    @cached_property
    def q(self) -> Floats:
        """(2, S, A) optimal Q of each intention."""
        return frozen(optimal_q(self.rewards, self.transitions, self.discount))

    @cached_property
    def policies(self) -> Floats:
        """(2, S, A) the planners: π_k(a | s) ∝ exp(β Q_k(s, a))."""
        return frozen(boltzmann(self.q, self.beta))

    @cached_property
    def kernels(self) -> Floats:
        """(S, 2, 2) P(z_{t+1}=k | z_t=j, s_t=s), by the state that the step leaves from."""
        switch = np.full((self.n_states, 2), self.distraction)
        switch[list(self.targets), [0, 1]] = self.done
        kernels = np.empty((self.n_states, 2, 2))
        kernels[:, [0, 1], [0, 1]] = 1 - switch
        kernels[:, [0, 1], [1, 0]] = switch
        return frozen(kernels)

    def simulate(self, n_trajectories: int = 200, seed: int | np.random.Generator = 0) -> Simulation:
        """Draw trajectories that start in a uniformly drawn cell, with either intention.

        Parameters
        ----------
        n_trajectories : int
            Number of trajectories, each of `horizon` steps.
        seed : int or Generator
            The same seed gives the same trajectories.
        """
        rng = generator(n_trajectories, seed)
        policy_cdf, transition_cdf = cumulative(self.policies), cumulative(self.transitions)
        kernel_cdf = cumulative(self.kernels)
        states, actions, intentions = np.zeros((3, n_trajectories, self.horizon), np.int64)

        state, intention = rng.integers(self.n_states, size=n_trajectories), rng.integers(2, size=n_trajectories)
        for t in range(self.horizon):
            action = draw(policy_cdf[intention, state], rng)
            states[:, t], actions[:, t], intentions[:, t] = state, action, intention
            intention = draw(kernel_cdf[state, intention], rng)
            state = draw(transition_cdf[state, action], rng)

        demonstrations = Demonstrations.from_arrays(
            states, actions, labels=intentions, n_states=self.n_states, n_actions=self.n_actions
        )
        return Simulation(demonstrations)

    def oracle(self, demos: Demonstrations) -> OraclePosterior:
        """Compute the exact Bayes filter and smoother: the kernel of every step is known from its state."""
        states, _ = known_ids(demos, self.n_states, self.n_actions)
        policies = self.policies[:, states].transpose(1, 0, 2)
        return exact_posterior(demos, policies, np.full(2, 0.5), self.kernels, states)
