"""Fitted pairs step by step: a filter for streams, and simulation.

Both walk a `switching.base.Stream`: `joint` gives p(z_t, a_t | past) before the action, `update` takes the action.
Filtering feeds what happened; simulation feeds what it draws.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from prism_irl.data.contexts import Contexts
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.mdp import MDP
from prism_irl.rewards.base import RewardModel
from prism_irl.switching.base import Switching
from prism_irl.switching.inference.reference import possible

FloatArray = npt.NDArray[np.float64]


class IntentionFilter:
    """Online filter over one trajectory: P(z_t | s_≤t, a_≤t) after each step, exactly as the batch computes it."""

    def __init__(self, switching: Switching, rewards: RewardModel, contexts: Contexts, device: torch.device) -> None:
        self._switching, self._rewards, self._contexts, self._device = switching, rewards, contexts, device
        self.reset()

    def reset(self) -> None:
        """Begin a new trajectory."""
        self._stream = self._switching.stream(1)
        self._recent = np.full((1, self._contexts.length), -1, dtype=np.int64)

    def step(self, state: int, action: int, observation: npt.ArrayLike | None = None) -> FloatArray:
        """Take one step and return P(z_t=k | everything so far), (K,)."""
        if not 0 <= state < self._contexts.n_states:
            raise InputError(
                f"State {state} was not part of the fit; states run from 0 to {self._contexts.n_states - 1}."
            )
        recent = _push(self._recent, np.array([state]))
        policies = self._rewards.policies_at(self._contexts.lookup(recent))
        if not 0 <= action < policies.shape[-1]:
            raise InputError(
                f"Action {action} was not part of the fit; actions run from 0 to {policies.shape[-1] - 1}."
            )
        seen = None
        if observation is not None:
            seen = torch.as_tensor(np.asarray(observation, dtype=np.float32), device=self._device).unsqueeze(0)
        here = torch.from_numpy(policies).to(self._device)
        self._stream.joint(torch.tensor([state], device=self._device), here, seen)
        self._recent = recent
        with np.errstate(divide="ignore"):
            evidence = possible(torch.from_numpy(np.log(policies[:, :, action])))[0].to(self._device)
        probabilities = self._stream.update(torch.tensor([action], device=self._device), evidence)
        return np.asarray(probabilities[0].cpu().numpy(), dtype=np.float64)


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
    device: torch.device,
) -> Demonstrations:
    """Draw trajectories from a fitted pair on an MDP; all trajectories advance together."""
    if n_trajectories < 1 or length < 1:
        raise InputError("Simulate at least one trajectory of at least one step.")
    stream = switching.stream(n_trajectories)
    states = generator.choice(start_states, n_trajectories)
    recent = np.full((n_trajectories, contexts.length), -1, dtype=np.int64)
    cumulative = _cumulative_rows(mdp)
    steps = []
    for _ in range(length):
        recent = _push(recent, states)
        policies = torch.from_numpy(rewards.policies_at(contexts.lookup(recent))).to(device)
        joint = stream.joint(torch.from_numpy(states).to(device), policies).cpu().numpy()
        K, A = joint.shape[1:]
        drawn = _draw(joint.reshape(n_trajectories, -1).cumsum(1), generator)
        intentions, actions = drawn // A, drawn % A
        evidence = torch.full((n_trajectories, K), -torch.inf, dtype=torch.float64)
        evidence[torch.arange(n_trajectories), torch.from_numpy(intentions)] = 0.0
        stream.update(torch.from_numpy(actions).to(device), evidence.to(device))
        steps.append((states, actions, intentions))
        states = _draw(cumulative[states * mdp.n_actions + actions], generator)
    trajectories = (np.stack(column, axis=1) for column in zip(*steps, strict=True))
    s, a, z = trajectories
    return Demonstrations.from_arrays(
        s, a, labels=z, n_states=mdp.n_states, n_actions=mdp.n_actions, valid_actions=None
    )


def _push(recent: npt.NDArray[np.int64], states: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Recent states, newest first."""
    return np.concatenate([states[:, None], recent[:, :-1]], axis=1)


def _cumulative_rows(mdp: MDP) -> FloatArray:
    """Cumulative transition probabilities, (S·A, S)."""
    return np.asarray(mdp.transitions.toarray().cumsum(axis=1))


def _draw(cumulative: FloatArray, generator: np.random.Generator) -> npt.NDArray[np.int64]:
    """One index per row of cumulative weights."""
    u = generator.random((len(cumulative), 1)) * cumulative[:, -1:]
    return np.asarray(np.minimum((cumulative <= u).sum(axis=1), cumulative.shape[1] - 1), dtype=np.int64)
