"""A fitted pair in a world that has changed: what its agents would do there.

The halves are those of a fit, but the rewards half plans in other dynamics (`RewardModel.moved`), or one intention is
never had. Intentions are drawn along with the actions, so that "without k" is the chain whose moves into k go to the
others in proportion, P(z_t = j | z_{t−1}, …) / (1 − P(z_t = k | z_{t−1}, …)).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from prism_irl.data.contexts import Contexts
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.devices import as_array, one_thread
from prism_irl.errors import InputError
from prism_irl.evaluation.simulate import draw, push, walk
from prism_irl.mdp import MDP
from prism_irl.models.streaming import certainly
from prism_irl.rewards.accents import Accents
from prism_irl.rewards.base import RewardModel
from prism_irl.switching.base import Switching

if TYPE_CHECKING:
    import torch

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Imagined:
    """Both halves, the world that they act in, and the intention that nobody has."""

    switching: Switching
    rewards: RewardModel
    contexts: Contexts
    mdp: MDP
    device: torch.device | str
    accents: Accents | None = None
    without: int | None = None

    @property
    def policies_(self) -> FloatArray:
        """π_k(a | context) there, (K, C, A)."""
        return np.ascontiguousarray(self.rewards.policies_at(np.arange(self.contexts.n_contexts)).transpose(1, 0, 2))

    def simulate(self, demos: Demonstrations, seed: Any = 0) -> Demonstrations:
        """Trajectories with the starts, lengths and groups of ``demos``; labels are the intentions drawn."""
        generator = np.random.default_rng(seed)
        free = replace(demos, valid_actions=None, labels=None, observations=None)
        who = None if self.accents is None else self.accents.who(demos)
        walked: list[tuple[IntArray, IntentionChooser]] = []

        def begin(trajectories: IntArray) -> IntentionChooser:
            own = None if who is None else who[trajectories]
            chooser = IntentionChooser(self, len(trajectories), own, generator)
            walked.append((trajectories, chooser))
            return chooser

        with one_thread():
            simulated = walk(free, self.mdp, generator, begin)
        labels = np.empty(demos.n_steps, np.int64)
        for trajectories, chooser in walked:
            first, lengths = demos.offsets[trajectories], demos.lengths[trajectories]
            for t, intentions in enumerate(chooser.intentions):
                lasts = lengths > t
                labels[first[lasts] + t] = intentions[lasts]
        return replace(simulated, labels=labels)


class IntentionChooser:
    """Draws an intention of every trajectory, then chooses as that one does (`evaluation.simulate.Chooser`)."""

    def __init__(
        self, imagined: Imagined, n_trajectories: int, who: IntArray | None, generator: np.random.Generator
    ) -> None:
        self._of, self._who, self._generator = imagined, who, generator
        self._stream = imagined.switching.stream(n_trajectories)
        self._recent = np.full((n_trajectories, imagined.contexts.length), -1, dtype=np.int64)
        self.intentions: list[IntArray] = []

    def weights(self, states: IntArray) -> FloatArray:
        """π_z(a | context) of the intentions z that were drawn, (B, A)."""
        self._recent = push(self._recent, states)
        policies = self._of.rewards.policies_for(self._of.contexts.lookup(self._recent), self._who)
        joint = as_array(self._stream.joint(*self._read(states, policies)))
        chances = joint.sum(axis=2)
        if self._of.without is not None:
            chances[:, self._of.without] = 0.0
            if not (chances.sum(axis=1) > 0).all():
                raise InputError(f"Only intention {self._of.without} can begin here, or follow; keep it.")
        z = draw(chances, self._generator)
        self.intentions.append(z)
        return np.asarray(policies[np.arange(len(z)), z], dtype=np.float64)

    def take(self, actions: IntArray) -> None:
        """The intention that was drawn is where the chain goes on from."""
        drawn = certainly(self.intentions[-1], self._of.rewards.n_intentions)
        self._stream.update(*self._read(actions, drawn))

    def _read(self, *given: npt.NDArray[Any]) -> Iterator[Any]:
        return (self._of.switching.reads(values, self._of.device) for values in given)
