"""SWIRL from its authors' own arrays, and the score that they report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal, cast

import numpy as np
import numpy.typing as npt
import torch

from prism_irl.arrays import IntArray
from prism_irl.data.contexts import Contexts
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.devices import resolve_device
from prism_irl.errors import InputError
from prism_irl.mdp import MDP
from prism_irl.models.base import IntentionModel
from prism_irl.models.presets import SWIRL
from prism_irl.rewards.soft import Places, SoftRewards, log_sum_exp, own_dynamics
from prism_irl.switching.varying import StateChain


def from_parameters(
    parameters: Mapping[str, npt.ArrayLike],
    mdp: MDP,
    *,
    invalid_actions: Literal["mask", "stay"] = "stay",
    discount: float = 0.95,
    planning_iterations: int = 100,
    device: str = "auto",
) -> SWIRL:
    """Return a fitted model.

    Parameters
    ----------
    parameters : mapping
        ``reward`` (K, 1, S) for S-1 or (K, 1, S·w) for S-2 (`slots`); ``log_Ps`` (K, K); ``W1``, ``b1``, ``W2``,
        ``b2``, or ``table`` (S, K); ``logpi0`` (K,); ``temperatures`` (K,), 1 where absent.
    mdp : MDP
    invalid_actions : {"mask", "stay"}
        The default is the authors', whose predecessors of a state include the state itself wherever an invalid action
        stays in place.
    discount : float
    planning_iterations : int
        Soft value iterations from V = 1; the authors stop after 100, before convergence.
    device : {"auto", "cpu", "cuda"}
    """
    arrays = {name: np.asarray(value, dtype=np.float64) for name, value in parameters.items()}
    missing = {"reward", "log_Ps", "logpi0"} - arrays.keys()
    if missing:
        raise InputError(f"SWIRL's parameters lack {', '.join(sorted(missing))}.")
    K, S = len(arrays["log_Ps"]), mdp.n_states
    reward = arrays["reward"].reshape(K, -1)
    width, rest = divmod(reward.shape[1], S)
    if rest or not width:
        raise InputError(f"The reward has {reward.shape[1]} entries per intention, not a multiple of {S} states.")
    model = SWIRL(
        K,
        order=1 if width == 1 else 2,
        temperatures=arrays.get("temperatures", np.ones(K)).ravel().tolist(),
        kernel="mlp" if "W1" in arrays else "table",
        hidden=arrays["W1"].shape[1] if "W1" in arrays else 32,
        discount=discount,
        invalid_actions=invalid_actions,
        device=device,
    )
    model.n_states_, model.n_actions_, model.n_observations_ = mdp.n_states, mdp.n_actions, 0
    model.motion_shape_, model.backoff_, model.history_length_, model.history_choice_ = None, 0.0, 1, []
    model.valid_actions_ = mdp.valid_actions if invalid_actions == "mask" else None
    model.contexts_, model.device_, model.accents_ = Contexts(S), resolve_device(device), None
    model.start_states_ = np.arange(S)  # the parameters do not say where trajectories begin
    model.mdp_ = model._dynamics = own_dynamics(mdp, mdp.valid_actions, discount, invalid_actions)
    model.agreement_, model.n_equal_starts_, model.converged_, model.n_iterations_ = None, 1, True, 0
    model.starts_, model.monitor_ = [], []
    start = model._new_start(0, model._like_training_data())
    chain, rewards = cast(StateChain, start.switching), cast(SoftRewards, start.rewards)
    initial = arrays["logpi0"].ravel()
    tensors = {"initial": np.exp(initial - log_sum_exp(initial))}
    try:
        for name, parameter in chain.named_parameters():
            tensors[name] = arrays[name].reshape(parameter.shape)
        chain.load_state_dict({name: torch.from_numpy(value.copy()) for name, value in tensors.items()})
    except (KeyError, ValueError) as error:
        raise InputError(f"SWIRL's kernel parameters do not fit {S} states: {error}.") from error
    rewards.set_rewards(reward[:, slots(rewards.places, width)], planning_iterations)
    model.switching_, model.rewards_model_ = chain, rewards
    return model


def slots(places: Places, width: int | None = None) -> IntArray:
    """Index of each place in SWIRL's arrays: width · s + position of s_prev among the predecessors of s."""
    if places.previous is None:
        return np.asarray(places.arrival, dtype=np.int64)
    first = np.searchsorted(places.arrival, np.arange(places.n_states))
    position = np.arange(places.n_places) - first[places.arrival]
    needed = int(position.max()) + 1
    width = needed if width is None else width
    if width < needed:
        raise InputError(f"Some state has {needed} predecessors, more than the {width} slots of the parameters.")
    return np.asarray(width * places.arrival + position, dtype=np.int64)


def swirl_score(model: IntentionModel, demos: Demonstrations) -> float:
    """Log-likelihood per step as the authors report it: every trajectory begins with its second step."""
    keep = ~demos.first_steps
    lengths = demos.lengths - 1
    if not keep.any():
        raise InputError("Every trajectory has one step only; dropping the first leaves nothing to score.")
    kept = replace(
        demos.subset(lengths > 0),
        states=demos.states[keep],
        actions=demos.actions[keep],
        offsets=np.concatenate([[0], np.cumsum(lengths[lengths > 0])]),
        observations=None,
        labels=None,
        times=None,
    )
    return model.score(kept)
