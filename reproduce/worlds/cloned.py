"""Behaviour drawn from a trained network that is allowed to remember six steps, and not one more.

At every step the network is begun anew and shown the last `memory` steps only: it acts by p(a_t | s_{t-5}, a_{t-5}, …,
s_t), as if the trajectory had begun at step t − 5. So it does what a table of habits cannot: it generalises over
contexts, and it reads actions as well as states.

What is in it: everything that the network learned about six steps, an intention that shows itself within them
included. What is not in it: an intention that lasts, since nothing hidden outlives six steps, and differences between
animals. Neither is it the network as it was trained: that one could remember whole trajectories.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.devices import one_thread
from prism_irl.errors import InputError
from prism_irl.evaluation.simulate import Chooser, walk
from prism_irl.mdp import MDP
from prism_irl.worlds.grid import generator

if TYPE_CHECKING:
    from prism_irl.models.base import IntentionModel

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class ForgetfulChooser:
    """Somebody who chooses by the last few steps only: a new chooser is told about them, and about nothing before.

    Parameters
    ----------
    begin : function without arguments
        A `Chooser` at the beginning of its trajectories.
    memory : int
        Steps that it is told about, the present one included.
    """

    def __init__(self, begin: Callable[[], Chooser], memory: int) -> None:
        self.begin = begin
        self.states: deque[Integers] = deque(maxlen=memory)
        # The action before the oldest state that is remembered belongs to a step that is forgotten.
        self.actions: deque[Integers] = deque(maxlen=memory - 1)

    def weights(self, states: Integers) -> Floats:
        """p(a | the last steps), (B, A)."""
        self.states.append(states)
        chooser = self.begin()
        for before, taken in zip(list(self.states)[:-1], self.actions, strict=True):
            chooser.weights(before)
            chooser.take(taken)
        return chooser.weights(states)

    def take(self, actions: Integers) -> None:
        """Remember the actions for as long as the memory reaches."""
        self.actions.append(actions)


@dataclass(frozen=True, eq=False)
class ClonedWorld:
    """A fitted network with a short memory, acting where its training data were taken.

    >>> cloned = ClonedWorld(BehaviourCloning(hidden=16).fit(demos), demos, mdp)  # doctest: +SKIP
    >>> cloned.simulate(200, seed=1)  # doctest: +SKIP

    Parameters
    ----------
    model : IntentionModel
        Fitted, one that can be simulated: `BehaviourCloning`, say.
    demos : Demonstrations
        Where trajectories start, drawn from its first states, and which actions exist.
    mdp : MDP, optional
        Where actions lead; by default counted from ``demos``.
    memory : int
        Steps that the model is shown, the present one included.
    horizon : int
        Steps of a trajectory.
    """

    model: IntentionModel
    demos: Demonstrations
    mdp: MDP | None = None
    memory: int = 6
    horizon: int = 200

    def __post_init__(self) -> None:
        for name in ("memory", "horizon"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; give at least 1.")

    @cached_property
    def dynamics(self) -> MDP:
        """Where actions lead."""
        return MDP.from_demonstrations(self.demos) if self.mdp is None else self.mdp

    def chooser(self, n_trajectories: int) -> ForgetfulChooser:
        """The forgetful network at the beginning of as many trajectories."""
        everyone = np.zeros(n_trajectories, np.int64)  # a network without individuals needs their number only
        return ForgetfulChooser(lambda: self.model.chooser(self.demos, everyone), self.memory)

    def simulate(self, n_trajectories: int = 200, seed: int | np.random.Generator = 0) -> Demonstrations:
        """Draw trajectories; they have the valid actions of the dynamics, and neither labels nor groups.

        Parameters
        ----------
        n_trajectories : int
        seed : int or Generator
            The same seed gives the same trajectories.
        """
        rng = generator(n_trajectories, seed)
        with one_thread():
            return walk(self._starts(n_trajectories, rng), self.dynamics, rng, lambda them: self.chooser(len(them)))

    def _starts(self, n_trajectories: int, rng: np.random.Generator) -> Demonstrations:
        """Trajectories that stay where one of the data begins: `walk` reads their starts and lengths."""
        first = rng.choice(self.demos.offsets[:-1], n_trajectories)
        still = (
            np.repeat(ids[first][:, None], self.horizon, axis=1) for ids in (self.demos.states, self.demos.actions)
        )
        return Demonstrations.from_arrays(
            *still,
            n_states=self.demos.n_states,
            n_actions=self.demos.n_actions,
            valid_actions=self.dynamics.valid_actions,
        )
