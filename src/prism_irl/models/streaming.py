"""Fitted pairs step by step: a filter for streams, and simulation.

Both walk a `switching.base.Stream`: `joint` gives p(z_t, a_t | past) before the action, `update` takes the action.
Filtering feeds what happened; simulation feeds what it draws.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from prism_irl.data.contexts import Contexts
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.units import Units
from prism_irl.devices import as_array
from prism_irl.errors import InputError
from prism_irl.evaluation.simulate import Successors, draw, push
from prism_irl.mdp import MDP
from prism_irl.rewards.base import RewardModel
from prism_irl.switching.base import Switching

if TYPE_CHECKING:
    import torch

FloatArray = npt.NDArray[np.float64]


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
        self._switching, self._rewards, self._contexts, self._device = switching, rewards, contexts, device
        self._units = units
        self.reset()

    def reset(self) -> None:
        """Begin a new trajectory."""
        self._stream = self._switching.stream(1)
        self._recent = np.full((1, self._contexts.length), -1, dtype=np.int64)

    def step(
        self,
        state: int | None = None,
        action: int | None = None,
        observation: npt.ArrayLike | None = None,
        motion: npt.ArrayLike | None = None,
        design: npt.ArrayLike | None = None,
    ) -> FloatArray:
        """Take one step and return P(z_t=k | everything so far), (K,).

        Parameters
        ----------
        state, action : int
            Tokens; not for a fit to continuous data, which has none.
        observation : (d,), optional
            For policies on features, and for networks that were fitted with observations.
        motion : (m,), design : (m, p)
            Command and its vectors, for Gaussian policies; without vectors where commands depend on observations.
        """
        if self._units is not None:
            if observation is None or motion is None:
                raise InputError("The model was fitted to observations and commands; give both of every step.")
            state, action, observation, motion = self._units.step(observation, motion)
        if state is None or action is None:
            raise InputError("The model was fitted to states and actions; give both of every step.")
        n_states, n_actions = self._contexts.n_states, self._rewards.n_actions
        if not 0 <= state < n_states:
            raise InputError(f"State {state} was not part of the fit; states run from 0 to {n_states - 1}.")
        if not 0 <= action < n_actions:
            raise InputError(f"Action {action} was not part of the fit; actions run from 0 to {n_actions - 1}.")
        recent = push(self._recent, np.array([state]))
        seen = None if observation is None else np.asarray(observation, dtype=np.float32)[None]
        policies, evidence = self._evidence(state, action, recent, seen, motion, design)
        here, there = np.array([state]), np.array([action])
        given = (None if values is None else self._reads(values) for values in (here, policies, seen))
        self._stream.joint(*given)
        self._recent = recent
        return np.asarray(as_array(self._stream.update(self._reads(there), self._reads(evidence)))[0], dtype=np.float64)

    def _reads(self, values: npt.NDArray[Any]) -> Any:
        return self._switching.reads(values, self._device)

    def _evidence(
        self,
        state: int,
        action: int,
        recent: npt.NDArray[np.int64],
        seen: npt.NDArray[np.float32] | None,
        motion: npt.ArrayLike | None,
        design: npt.ArrayLike | None,
    ) -> tuple[FloatArray, FloatArray]:
        """Policies (1, K, A) that say what may come, and log-evidence (1, K) of what came."""
        rewards = self._rewards
        if rewards.is_density:
            if motion is None:
                raise InputError("The policies are over commands; give motion and design as the fit had them.")
            uniform = np.full((1, rewards.n_intentions, rewards.n_actions), 1.0 / rewards.n_actions)
            command = np.asarray(motion, dtype=np.float64)[None]
            vectors = None if design is None else np.asarray(design, dtype=np.float64)[None]
            return uniform, rewards.log_density(command if seen is None else seen, command, vectors)
        observed = None if seen is None else seen.astype(np.float64)
        policies = rewards.policies_given(self._contexts.lookup(recent), np.array([state]), observed)
        return policies, _evidence_of(policies[:, :, action])


class PairChooser:
    """Chooses by p(a_t | s_≤t, a_<t) of a fitted pair, B trajectories at a time; the filter is carried along."""

    def __init__(
        self,
        switching: Switching,
        rewards: RewardModel,
        contexts: Contexts,
        device: torch.device | str,
        n_trajectories: int,
        who: npt.NDArray[np.int64] | None = None,
    ) -> None:
        self._rewards, self._contexts, self._device, self._who = rewards, contexts, device, who
        self._switching, self._stream = switching, switching.stream(n_trajectories)
        self._recent = np.full((n_trajectories, contexts.length), -1, dtype=np.int64)

    def weights(self, states: npt.NDArray[np.int64]) -> FloatArray:
        """Σ_k p(z_t=k, a | s_≤t, a_<t), (B, A)."""
        self._recent = push(self._recent, states)
        self._policies = self._rewards.policies_for(self._contexts.lookup(self._recent), self._who)
        joint = self._stream.joint(*(self._switching.reads(given, self._device) for given in (states, self._policies)))
        return np.asarray(as_array(joint.sum(1)), dtype=np.float64)

    def take(self, actions: npt.NDArray[np.int64]) -> None:
        """P(z_t | s_≤t, a_≤t)."""
        evidence = _evidence_of(self._policies[np.arange(len(actions)), :, actions])
        self._stream.update(*(self._switching.reads(given, self._device) for given in (actions, evidence)))


def _evidence_of(probabilities: FloatArray) -> FloatArray:
    """Log-evidence (B, K) of actions with these probabilities; one that is impossible for every intention says nothing.

    As `switching.forward_backward.possible`, which computes with tensors.
    """
    with np.errstate(divide="ignore"):
        logs = np.log(probabilities)
    logs[np.isneginf(logs).all(axis=1)] = 0.0
    return np.asarray(logs)


def certainly(intentions: npt.NDArray[np.int64], n_intentions: int) -> FloatArray:
    """Log-evidence (B, K) of intentions (B,) that were drawn: of every other one −∞."""
    evidence = np.full((len(intentions), n_intentions), -np.inf)
    evidence[np.arange(len(intentions)), intentions] = 0.0
    return evidence


def simulate(
    switching: Switching,
    rewards: RewardModel,
    contexts: Contexts,
    mdp: MDP,
    start_states: npt.NDArray[np.int64],
    *,
    n_trajectories: int,
    length: int,
    generator: np.random.Generator,
    device: torch.device | str,
) -> Demonstrations:
    """Draw trajectories from a fitted pair on an MDP; all trajectories advance together."""
    if n_trajectories < 1 or length < 1:
        raise InputError("Simulate at least one trajectory of at least one step.")
    stream = switching.stream(n_trajectories)
    states = generator.choice(start_states, n_trajectories)
    recent = np.full((n_trajectories, contexts.length), -1, dtype=np.int64)
    successors = Successors(mdp)
    steps = []
    for _ in range(length):
        recent = push(recent, states)
        policies = rewards.policies_at(contexts.lookup(recent))
        joint = as_array(stream.joint(*(switching.reads(given, device) for given in (states, policies))))
        K, A = joint.shape[1:]
        drawn = draw(joint.reshape(n_trajectories, -1), generator)
        intentions, actions = drawn // A, drawn % A
        stream.update(*(switching.reads(given, device) for given in (actions, certainly(intentions, K))))
        steps.append((states, actions, intentions))
        states = successors.draw(states * mdp.n_actions + actions, generator)
    trajectories = (np.stack(column, axis=1) for column in zip(*steps, strict=True))
    s, a, z = trajectories
    return Demonstrations.from_arrays(
        s, a, labels=z, n_states=mdp.n_states, n_actions=mdp.n_actions, valid_actions=None
    )
