"""Fitted pairs step by step: a filter for streams, simulations, and what agents would do in a changed world.

All walk a `switching.base.Stream`: `joint` gives p(z_t, a_t | past) before the action, `update` takes the action.
Filtering feeds what happened; simulation feeds what it draws.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from prism_irl.arrays import FloatArray, IntArray
from prism_irl.data.contexts import Contexts
from prism_irl.data.continuous import Units
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.devices import as_array, one_thread
from prism_irl.errors import InputError
from prism_irl.evaluation.simulate import Successors, draw, push, walk
from prism_irl.mdp import MDP
from prism_irl.rewards.accents import Accents
from prism_irl.rewards.base import RewardModel
from prism_irl.switching.base import Switching

if TYPE_CHECKING:
    import torch


@dataclass
class Walk:
    """A pair along B trajectories at a time: their last states, and what is believed about each.

    ``who`` (B,) says which individual each belongs to, where individuals differ.
    """

    switching: Switching
    rewards: RewardModel
    contexts: Contexts
    device: torch.device | str
    n_trajectories: int = 1
    who: IntArray | None = None

    def __post_init__(self) -> None:
        self.stream = self.switching.stream(self.n_trajectories)
        self.recent = np.full((self.n_trajectories, self.contexts.length), -1, dtype=np.int64)

    def policies(self, states: IntArray) -> FloatArray:
        """π_k(a | context) after one more state each, (B, K, A)."""
        self.recent = push(self.recent, states)
        return self.rewards.policies_for(self.contexts.lookup(self.recent), self.who)

    def joint(self, states: IntArray, policies: FloatArray, *observations: npt.NDArray[Any]) -> FloatArray:
        """p(z_t, a_t | past), (B, K, A)."""
        read = (self.switching.reads(one, self.device) for one in (states, policies, *observations))
        return np.asarray(as_array(self.stream.joint(*read)), dtype=np.float64)

    def take(self, actions: IntArray, evidence: FloatArray) -> FloatArray:
        """P(z_t | s_≤t, a_≤t), (B, K), after actions (B,) with log-evidence (B, K)."""
        read = (self.switching.reads(one, self.device) for one in (actions, evidence))
        return np.asarray(as_array(self.stream.update(*read)), dtype=np.float64)


class IntentionFilter:
    """Online filter over one trajectory: P(z_t | s_≤t, a_≤t) after each step, exactly as the batch computes it."""

    def __init__(
        self,
        switching: Switching,
        rewards: RewardModel,
        contexts: Contexts,
        device: torch.device | str,
        units: Units | None = None,
    ) -> None:
        self._given, self._units = (switching, rewards, contexts, device), units
        self.reset()

    def reset(self) -> None:
        """Begin a new trajectory."""
        self._walk = Walk(*self._given)

    def step(
        self,
        state: int | None = None,
        action: int | None = None,
        observation: npt.ArrayLike | None = None,
        motion: npt.ArrayLike | None = None,
        design: npt.ArrayLike | None = None,
    ) -> FloatArray:
        """Take one step and return P(z_t=k | everything so far), (K,).

        ``state`` and ``action`` are tokens, which a fit to continuous data has not; ``observation`` (d,) is for
        policies on features and networks that were fitted with observations, ``motion`` (m,) and ``design`` (m, p) for
        Gaussian policies, without vectors where commands depend on observations.
        """
        if self._units is not None:
            if observation is None or motion is None:
                raise InputError("The model was fitted to observations and commands; give both of every step.")
            state, action, observation, motion = self._units.step(observation, motion)
        if state is None or action is None:
            raise InputError("The model was fitted to states and actions; give both of every step.")
        rewards, contexts = self._walk.rewards, self._walk.contexts
        for what, value, size in (("State", state, contexts.n_states), ("Action", action, rewards.n_actions)):
            if not 0 <= value < size:
                raise InputError(f"{what} {value} was not part of the fit; {what.lower()}s run from 0 to {size - 1}.")
        here, recent = np.array([state]), push(self._walk.recent, np.array([state]))
        seen = None if observation is None else np.asarray(observation, dtype=np.float32)[None]
        if rewards.is_density:
            if motion is None:
                raise InputError("The policies are over commands; give motion and design as the fit had them.")
            policies = np.full((1, rewards.n_intentions, rewards.n_actions), 1.0 / rewards.n_actions)
            command = np.asarray(motion, dtype=np.float64)[None]
            vectors = () if design is None else (np.asarray(design, dtype=np.float64)[None],)
            evidence = rewards.log_density(command if seen is None else seen, command, *vectors)
        else:
            observed = None if seen is None else seen.astype(np.float64)
            policies = rewards.policies_given(contexts.lookup(recent), here, observed)
            evidence = _evidence_of(policies[:, :, action])
        self._walk.recent = recent
        self._walk.joint(here, policies, *([] if seen is None else [seen]))
        return np.asarray(self._walk.take(np.array([action]), evidence)[0])


class PairChooser:
    """Chooses by p(a_t | s_≤t, a_<t) of a fitted pair; the filter is carried along."""

    def __init__(self, walk: Walk) -> None:
        self._walk = walk

    def weights(self, states: IntArray) -> FloatArray:
        """Σ_k p(z_t=k, a | s_≤t, a_<t), (B, A)."""
        self._policies = self._walk.policies(states)
        return np.asarray(self._walk.joint(states, self._policies).sum(1))

    def take(self, actions: IntArray) -> None:
        """P(z_t | s_≤t, a_≤t)."""
        self._walk.take(actions, _evidence_of(self._policies[np.arange(len(actions)), :, actions]))


class IntentionChooser:
    """Draws an intention of every trajectory, but ``without``, then chooses as that one does.

    "Without k" is the chain whose moves into k go to the others in proportion,
    P(z_t = j | z_{t−1}, …) / (1 − P(z_t = k | z_{t−1}, …)).
    """

    def __init__(self, walk: Walk, generator: np.random.Generator, without: int | None = None) -> None:
        self._walk, self._generator, self._without = walk, generator, without
        self.intentions: list[IntArray] = []

    def weights(self, states: IntArray) -> FloatArray:
        """π_z(a | context) of the intentions z that were drawn, (B, A)."""
        policies = self._walk.policies(states)
        chances = self._walk.joint(states, policies).sum(axis=2)
        if self._without is not None:
            chances[:, self._without] = 0.0
            if not (chances.sum(axis=1) > 0).all():
                raise InputError(f"Only intention {self._without} can begin here, or follow; keep it.")
        z = draw(chances, self._generator)
        self.intentions.append(z)
        return np.asarray(policies[np.arange(len(z)), z], dtype=np.float64)

    def take(self, actions: IntArray) -> None:
        """The intention that was drawn is where the chain goes on from."""
        self._walk.take(actions, _certainly(self.intentions[-1], self._walk.rewards.n_intentions))


@dataclass(frozen=True)
class Imagined:
    """A fitted pair in a world that has changed: both components, the world, and the intention that nobody has.

    The reward model plans in the other dynamics (`RewardModel.moved`).
    """

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
            steps = Walk(self.switching, self.rewards, self.contexts, self.device, len(trajectories), own)
            walked.append((trajectories, IntentionChooser(steps, generator, self.without)))
            return walked[-1][1]

        with one_thread():
            simulated = walk(free, self.mdp, generator, begin)
        labels = np.empty(demos.n_steps, np.int64)
        for trajectories, chooser in walked:
            first, lengths = demos.offsets[trajectories], demos.lengths[trajectories]
            for t, intentions in enumerate(chooser.intentions):
                lasts = lengths > t
                labels[first[lasts] + t] = intentions[lasts]
        return replace(simulated, labels=labels)


def simulate(
    walk: Walk, mdp: MDP, start_states: IntArray, *, length: int, generator: np.random.Generator
) -> Demonstrations:
    """Draw trajectories from a fitted pair on an MDP; all trajectories advance together."""
    n = walk.n_trajectories
    states = generator.choice(start_states, n)
    successors, steps = Successors(mdp), []
    for _ in range(length):
        joint = walk.joint(states, walk.policies(states))
        K, A = joint.shape[1:]
        drawn = draw(joint.reshape(n, -1), generator)
        intentions, actions = drawn // A, drawn % A
        walk.take(actions, _certainly(intentions, K))
        steps.append((states, actions, intentions))
        states = successors.draw(states * mdp.n_actions + actions, generator)
    s, a, z = (np.stack(column, axis=1) for column in zip(*steps, strict=True))
    return Demonstrations.from_arrays(
        s, a, labels=z, n_states=mdp.n_states, n_actions=mdp.n_actions, valid_actions=None
    )


def _evidence_of(probabilities: FloatArray) -> FloatArray:
    """Log-evidence (B, K) of actions with these probabilities; one that is impossible for every intention says nothing.

    As `switching.forward_backward.possible`, which computes with tensors.
    """
    with np.errstate(divide="ignore"):
        logs = np.log(probabilities)
    logs[np.isneginf(logs).all(axis=1)] = 0.0
    return np.asarray(logs)


def _certainly(intentions: IntArray, n_intentions: int) -> FloatArray:
    """Log-evidence (B, K) of intentions (B,) that were drawn: of every other one −∞."""
    evidence = np.full((len(intentions), n_intentions), -np.inf)
    evidence[np.arange(len(intentions)), intentions] = 0.0
    return evidence
