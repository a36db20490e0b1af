"""SWIRL (Ke et al. 2025): switching rewards with history dependency, S-1 and S-2.

A pair: a chain whose kernel reads the state, P(z_{t+1} | z_t, s_t) = softmax(log_Ps[z_t, :] + g(s_t)), and planned
rewards, R_z(s) (S-1) or R_z(s_prev, s) (S-2), whose policies come from soft value iteration. EM as in the paper's
Section 3 (forward–backward; kernel and rewards by L-BFGS), except that the reward step is solved over values, where it
is convex, instead of through a hundred unrolled iterations (`prism_irl.rewards.soft`).

S-2 as published: R_z(s_prev, s) is on transitions but cancels from the choice made in s, so that the policies of S-2
depend on the current state alone. They can be any policy of that state where actions lead to different states, which
S-1's cannot; memory of the path is only in the intention.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self, cast

import numpy as np
import numpy.typing as npt
import torch

from prism_irl.data.contexts import Contexts
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.devices import resolve_device
from prism_irl.errors import InputError
from prism_irl.mdp import MDP
from prism_irl.models.base import FloatArray
from prism_irl.models.intentions import Intentions
from prism_irl.rewards.soft import SoftRewards, log_sum_exp, own_dynamics
from prism_irl.switching.options import KernelName
from prism_irl.switching.varying import StateChain

InvalidActions = Literal["mask", "stay"]


@dataclass(eq=False, repr=False, kw_only=True)
class SWIRL(Intentions):
    """Switching inverse reinforcement learning with planned rewards.

    Parameters
    ----------
    n_intentions : int
        Number of intentions K (the paper's hidden modes).
    order : {1, 2}
        Rewards on states, R(s) (S-1), or on transitions, R(s_prev, s) (S-2).
    temperatures : sequence of K floats, optional
        τ of each intention's soft value iteration, 1 by default (the paper's labyrinth: 0.01, 1, 1). Since rewards are
        free, τ is only the unit of the rewards found; likelihood and labels do not depend on it.
    kernel : {"mlp", "table"}
        g(s) by a network of ``hidden`` sigmoid units (the paper's labyrinth) or a free table (its gridworld).
    hidden : int
        Hidden units, 32 as in the paper.
    discount : float
        γ of the soft Bellman equation, 0.95 as in the paper.
    invalid_actions : {"mask", "stay"}
        Actions that a state does not have: impossible (default), or, as in the authors' code, possible choices that
        stay in place and cost probability. Matters only where valid actions are known.
    ridge : float
        Strength of the prior on values; see `prism_irl.rewards.soft.SoftRewards`.
    kernel_ridge : float
        Strength of the prior on the kernel's weights; see `prism_irl.switching.varying.StateChain`.
    max_iterations : int
        EM iterations at most. The authors run 80.
    n_candidates, warm_up : int
        Short runs with a constant kernel of which each start takes the likeliest, and their EM iterations; 0 for none.
        The authors start from another model and from rewards found on other data instead.
    n_starts, validation_fraction, stop_by, patience, device, seed : see `Intentions`
    """

    n_intentions: int = field(default=3, kw_only=False)
    switching: str = field(default="state", init=False)
    rewards: str = field(default="soft-1", init=False)
    order: int = 1
    temperatures: Sequence[float] | None = None
    kernel: KernelName = "mlp"
    hidden: int = 32
    discount: float = 0.95
    invalid_actions: InvalidActions = "mask"
    ridge: float = 0.01
    kernel_ridge: float = 0.1
    max_iterations: int = 80
    n_candidates: int = 2
    warm_up: int = 15

    def _halves(self) -> tuple[Any, Any]:
        return "state", f"soft-{self.order}"

    def _parameters(self) -> dict[str, Any]:
        found = super()._parameters()
        return found | {"temperatures": None if self.temperatures is None else tuple(self.temperatures)}

    def _check_parameters(self, demos: Demonstrations) -> None:
        if self.order not in (1, 2):
            raise InputError(f"The order of the rewards is {self.order}; choose 1 for R(s) or 2 for R(s_prev, s).")
        super()._check_parameters(demos)

    # -- the authors' parameters and score -------------------------------------------------------------------------

    @classmethod
    def from_parameters(
        cls,
        parameters: Mapping[str, npt.ArrayLike],
        mdp: MDP,
        *,
        invalid_actions: InvalidActions = "stay",
        discount: float = 0.95,
        planning_iterations: int = 100,
        device: str = "auto",
    ) -> Self:
        """Build a fitted model from SWIRL's own arrays.

        Parameters
        ----------
        parameters : mapping
            ``reward`` (K, 1, S) for S-1 or (K, 1, S·w) for S-2, index w·s + position of s_prev among the predecessors
            of s in increasing order; ``log_Ps`` (K, K); ``W1``, ``b1``, ``W2``, ``b2``, or ``table`` (S, K);
            ``logpi0`` (K,); ``temperatures`` (K,), 1 where absent.
        mdp : MDP
        invalid_actions : {"mask", "stay"}
            As in the constructor. The default is the authors', whose predecessors of a state include the state itself
            wherever an invalid action stays in place.
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
        temperatures = arrays.get("temperatures", np.ones(K)).ravel()
        model = cls(
            K,
            order=1 if width == 1 else 2,
            temperatures=temperatures.tolist(),
            kernel="mlp" if "W1" in arrays else "table",
            hidden=arrays["W1"].shape[1] if "W1" in arrays else 32,
            discount=discount,
            invalid_actions=invalid_actions,
            device=device,
        )
        model._take_parameters(arrays, mdp, planning_iterations)
        return model

    def _take_parameters(self, arrays: dict[str, FloatArray], mdp: MDP, planning_iterations: int) -> None:
        self.n_states_, self.n_actions_, self.n_observations_ = mdp.n_states, mdp.n_actions, 0
        self.motion_shape_, self.backoff_, self.history_length_, self.history_choice_ = None, 0.0, 1, []
        self.valid_actions_ = mdp.valid_actions if self.invalid_actions == "mask" else None
        self.contexts_, self.device_ = Contexts(mdp.n_states), resolve_device(self.device)
        self.accents_ = None
        self.start_states_ = np.arange(mdp.n_states)  # the parameters do not say where trajectories begin
        self.mdp_ = own_dynamics(mdp, mdp.valid_actions, self.discount, self.invalid_actions)
        self.agreement_, self.n_equal_starts_ = None, 1
        self.converged_, self.n_iterations_ = True, 0
        self.starts_, self.monitor_ = [], []
        start = self._new_start(0, self._like_training_data())
        chain, rewards = cast(StateChain, start.switching), cast(SoftRewards, start.rewards)
        initial = arrays["logpi0"].ravel()
        tensors = {"initial": np.exp(initial - log_sum_exp(initial))}
        try:
            for name, parameter in chain.named_parameters():
                tensors[name] = arrays[name].reshape(parameter.shape)
            chain.load_state_dict({name: torch.from_numpy(value.copy()) for name, value in tensors.items()})
        except (KeyError, ValueError) as error:
            raise InputError(f"SWIRL's kernel parameters do not fit {mdp.n_states} states: {error}.") from error
        given = arrays["reward"].reshape(self.n_intentions, -1)
        rewards.set_rewards(given[:, rewards.places.slots(given.shape[1] // mdp.n_states)], planning_iterations)
        self.switching_, self.rewards_model_ = chain, rewards

    def swirl_score(self, demos: Demonstrations) -> float:
        """Log-likelihood per step as the authors report it: every trajectory begins with its second step.

        `score` is the package's measure and counts all steps.
        """
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
        return self.score(kept)

    @property
    def transition_rewards_(self) -> FloatArray:
        """R_k(s_prev, s), (K, S, S), NaN where s_prev never leads to s; order 2 only."""
        self._check_fitted()
        soft = cast(SoftRewards, self.rewards_model_)
        if soft.places.previous is None:
            raise InputError("Rewards of order 1 are on states; read state_rewards_.")
        table = np.full((self.n_intentions, self.n_states_, self.n_states_), np.nan)
        table[:, soft.places.previous, soft.places.arrival] = soft.rewards
        return table
