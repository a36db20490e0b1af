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
from dataclasses import replace
from pathlib import Path
from typing import Literal, Self

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse

from prism_irl import em
from prism_irl.data.batching import Prepared
from prism_irl.data.contexts import Contexts
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.devices import resolve_device
from prism_irl.errors import InputError
from prism_irl.mdp import MDP
from prism_irl.models.base import FloatArray
from prism_irl.models.pair import PairModel
from prism_irl.models.starts import StartKind
from prism_irl.rewards.base import RewardModel
from prism_irl.rewards.iavi import InverseSolution, unvisited_states
from prism_irl.rewards.soft import Places, SoftRewards, log_sum_exp
from prism_irl.switching.base import Switching
from prism_irl.switching.state import KernelName, StateChain

InvalidActions = Literal["mask", "stay"]


class SWIRL(PairModel):
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
        Strength of the prior on the kernel's weights; see `prism_irl.switching.state.StateChain`.
    max_iterations : int
        EM iterations at most. The authors run 80.
    n_starts : int
        Independent starts; the best by validation likelihood is kept and the others tell whether it is stable.
    n_candidates : int
        Short runs with a constant kernel of which each start takes the likeliest.
    warm_up : int
        EM iterations of such a run, before the kernel reads the state; 0 for none. The authors start from another model
        and from rewards found on other data instead.
    validation_fraction : float
        Share of the training trajectories that decides when to stop and which start to keep.
    patience : int or None
        Iterations without a rise in validation likelihood before stopping; None runs all.
    device : {"auto", "cpu", "cuda"}
    seed : int
        The one source of randomness.
    """

    history = 1  # the policies of both orders depend on the current state alone

    def __init__(
        self,
        n_intentions: int = 3,
        *,
        order: int = 1,
        temperatures: Sequence[float] | None = None,
        kernel: KernelName = "mlp",
        hidden: int = 32,
        discount: float = 0.95,
        invalid_actions: InvalidActions = "mask",
        ridge: float = 0.01,
        kernel_ridge: float = 0.1,
        max_iterations: int = 80,
        n_starts: int = 4,
        n_candidates: int = 2,
        warm_up: int = 15,
        validation_fraction: float = 0.1,
        patience: int | None = 10,
        device: str = "auto",
        seed: int = 0,
    ) -> None:
        self.n_intentions = n_intentions
        self.order = order
        self.temperatures = temperatures
        self.kernel = kernel
        self.hidden = hidden
        self.discount = discount
        self.invalid_actions = invalid_actions
        self.ridge = ridge
        self.kernel_ridge = kernel_ridge
        self.max_iterations = max_iterations
        self.n_starts = n_starts
        self.n_candidates = n_candidates
        self.warm_up = warm_up
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.device = device
        self.seed = seed

    # -- fitting ---------------------------------------------------------------------------------------------------

    def fit(
        self,
        demos: Demonstrations,
        mdp: MDP | None = None,
        *,
        checkpoint: str | Path | None = None,
        resume: bool = False,
        on_iteration: em.OnIteration | None = None,
    ) -> Self:
        """Fit by EM; see `PairModel.fit`.

        Unlike elsewhere the dynamics matter, because intentions plan with them: give the ``mdp`` where it is known.
        Its discount gives way to the model's own.
        """
        self._check_parameters(demos)
        given = MDP.from_demonstrations(demos, self.discount) if mdp is None else mdp
        if (given.n_states, given.n_actions) != (demos.n_states, demos.n_actions):
            raise InputError(
                f"The MDP has {given.n_states} states and {given.n_actions} actions, the demonstrations "
                f"{demos.n_states} and {demos.n_actions}; give both the same sets."
            )
        if self.invalid_actions == "mask" and demos.valid_actions is None and not given.valid_actions.all():
            demos = demos.with_valid_actions(given.valid_actions)  # reports forbidden steps with their place
        self._dynamics = self._own_mdp(given, demos.valid_actions)
        self.__dict__.pop("mdp_", None)  # of an earlier fit; the new one appears when this fit is complete
        return super().fit(demos, self._dynamics, checkpoint=checkpoint, resume=resume, on_iteration=on_iteration)

    def _own_mdp(self, mdp: MDP, valid_actions: npt.NDArray[np.bool_] | None) -> MDP:
        """Return the dynamics with the model's discount and its treatment of invalid actions."""
        valid = mdp.valid_actions if valid_actions is None else mdp.valid_actions & valid_actions
        if not valid.any(axis=1).all():
            raise InputError("In some state the MDP and the demonstrations agree on no valid action; correct a mask.")
        if self.invalid_actions == "mask":
            return MDP(mdp.transitions, self.discount, valid)
        missing = np.flatnonzero(~valid)
        stay = sparse.csr_array((np.ones(len(missing)), (missing, missing // mdp.n_actions)), mdp.transitions.shape)
        return MDP(sparse.diags_array(valid.ravel().astype(np.float64)) @ mdp.transitions + stay, self.discount)

    def _check_parameters(self, demos: Demonstrations) -> None:
        super()._check_parameters(demos)
        if self.invalid_actions not in ("mask", "stay"):
            raise InputError(f"invalid_actions is {self.invalid_actions!r}; choose mask or stay.")
        if self.discount == 0:
            raise InputError("The discount is 0: an intention that does not look ahead has no use for a reward.")
        self._check_numbers({"order": 1, "hidden": 1, "n_candidates": 1, "warm_up": 0}, integer=True)
        self._check_numbers({"ridge": 0, "kernel_ridge": 0})

    def _build(self, demos: Demonstrations) -> tuple[Switching, RewardModel]:
        chain = StateChain(
            demos.n_states, self.n_intentions, kind=self.kernel, hidden=self.hidden, ridge=self.kernel_ridge
        )
        places = Places(self.mdp_ if hasattr(self, "mdp_") else self._dynamics, self.order)
        return chain, SoftRewards(self.n_intentions, places, self.temperatures, ridge=self.ridge)

    def _begin(self, start: em.Start, train: Prepared, kind: StartKind, generator: np.random.Generator) -> None:
        """EM with a constant kernel, whose rewards and kernel the state-dependent chain takes over."""
        assert isinstance(start.switching, StateChain)
        if self.warm_up == 0:
            super()._begin(start, train, kind, generator)
            return
        chain = self._begin_with_chain(
            start, train, kind, generator, candidates=self.n_candidates, iterations=self.warm_up
        )
        start.switching.take_over(chain)

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
        self.valid_actions_ = mdp.valid_actions if self.invalid_actions == "mask" else None
        self.contexts_, self.device_ = Contexts(mdp.n_states), resolve_device(self.device)
        self.start_states_ = np.arange(mdp.n_states)  # the parameters do not say where trajectories begin
        self.mdp_ = self._own_mdp(mdp, None)
        self.agreement_, self.n_equal_starts_ = None, 1
        self.converged_, self.n_iterations_ = True, 0
        self.starts_, self.history_ = [], []
        start = self._new_start(0, self._like_training_data())
        chain, rewards = start.switching, start.rewards
        assert isinstance(chain, StateChain)
        assert isinstance(rewards, SoftRewards)
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

    # -- rewards ---------------------------------------------------------------------------------------------------

    @property
    def _soft(self) -> SoftRewards:
        self._check_fitted()
        assert isinstance(self.rewards_model_, SoftRewards)
        return self.rewards_model_

    @property
    def state_rewards_(self) -> FloatArray:
        """R_k(s), (K, S); with order 2 the mean of R_k(s_prev, s) over the predecessors of s (0 without any)."""
        soft = self._soft
        n = np.maximum(np.bincount(soft.places.arrival, minlength=self.n_states_), 1)
        return np.stack([np.bincount(soft.places.arrival, r, minlength=self.n_states_) / n for r in soft.rewards])

    @property
    def transition_rewards_(self) -> FloatArray:
        """R_k(s_prev, s), (K, S, S), NaN where s_prev never leads to s; order 2 only."""
        places = self._soft.places
        if places.previous is None:
            raise InputError("Rewards of order 1 are on states; read state_rewards_.")
        table = np.full((self.n_intentions, self.n_states_, self.n_states_), np.nan)
        table[:, places.previous, places.arrival] = self._soft.rewards
        return table

    def _solution(self) -> InverseSolution:
        """Return the soft rewards as r(s, a), with which soft planning on `mdp_` gives exactly the policies found.

        With order 1 r(s, a) = R(s). With order 2 the reward of a transition is credited to the action that makes it,
        r(s, a) = γ Σ_s' P(s'|s, a) R(s, s'), discounted because it is received on arrival.
        """
        soft, tau = self._soft, self._soft.temperatures[:, None, None]
        valid = soft.places.valid_actions
        ahead = tau * soft.places.logits(soft.values)
        if soft.places.previous is None:
            rewards = np.broadcast_to(soft.rewards[:, :, None], ahead.shape)
            q = ahead + rewards
        else:
            rewards = (soft.places.outlook @ soft.rewards.T).T.reshape(ahead.shape)
            q = ahead
        values = tau[:, :, 0] * log_sum_exp(q / tau)
        unvisited = unvisited_states(soft.counts) if soft.counts.any() else None
        return InverseSolution(np.where(valid, rewards, 0.0), q, values, unvisited)
