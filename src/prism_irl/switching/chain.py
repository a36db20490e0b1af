"""Chains over intentions: P(z_t=k | z_{t-1}=j, history), with exact forward–backward inference.

What `markov`, `state`, `ordered` and `recurrent` share: a chain says where it begins and with which kernel it moves,
and inference, decoding and streaming follow.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from prism_irl import checked
from prism_irl.arrays import FloatArray, IntArray
from prism_irl.data.batching import Batch, Prepared, scatter
from prism_irl.devices import as_array
from prism_irl.errors import InputError
from prism_irl.switching.base import BatchPosterior, Stream, Switching

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from prism_irl.rewards.base import Fit
    from prism_irl.switching.markov import MarkovChain
    from prism_irl.switching.networks import Carry

STICKINESS = 3.0
FLOOR = 1e-10  # keeps a probability that no step supports from becoming log 0


class Previous(NamedTuple):
    """The step before, of B trajectories."""

    states: Any
    actions: Any


class Chain(Switching):
    """What all chains share: inference from an initial distribution and a kernel."""

    @abstractmethod
    def log_initial(self) -> Tensor:
        """Log P(z_1=k), (K,)."""

    @abstractmethod
    def log_kernel(self, batch: Batch) -> Tensor:
        """Log P(z_t=k | z_{t-1}=j, history), (B, T, K, K); entry 0 is never read."""

    @abstractmethod
    def stream_kernel(
        self, states: Any, previous: Previous | None, observations: Any | None, carry: Carry
    ) -> tuple[Any, Carry]:
        """Log kernel (B, K, K) of one step of a stream, not read at the first, and the carried state."""

    def stream_initial(self) -> FloatArray:
        """`log_initial` as an array."""
        return as_array(self.log_initial()).astype(np.float64)

    def take_over(self, chain: MarkovChain) -> None:
        """Begin as a given Markov chain."""
        raise InputError(f"{type(self).__name__} cannot begin as a Markov chain.")

    def first_guess(self, fit: Fit) -> None:
        """Take over the chain that was found, if any."""
        if fit.chain is not None:
            self.take_over(fit.chain)

    def constant(self) -> MarkovChain:
        """An untrained chain with a constant kernel that this one can take over from."""
        from prism_irl.switching.markov import MarkovChain

        return MarkovChain(self.n_intentions)

    def inputs_in(self, observations: Any) -> Any:
        """Inputs that the kernel reads, as many as the fit had, of what steps come with; None where it reads none."""
        if not self.n_inputs:
            return None
        if observations is None or observations.shape[-1] != self.n_inputs:
            raise InputError(f"The switching reads {self.n_inputs} inputs; give the columns that the fit had.")
        return observations

    def initial_carry(self, n_trajectories: int) -> Carry:
        """Carried state before the first step of a stream."""
        return ()

    def expectation_of(self, batch: Batch, log_emission: Tensor, *, pairwise: bool = False) -> BatchPosterior:
        """Forward–backward."""
        from prism_irl.switching.inference import infer

        return infer(self.log_initial(), self.log_kernel(batch), log_emission, batch.mask, pairwise=pairwise)

    def decode(self, data: Prepared, log_emission: Any) -> IntArray:
        """Most probable path as a whole, (n,)."""
        import torch

        flat = torch.zeros(data.n_steps, dtype=torch.int64)
        for batch in data.batches:
            scatter(batch, self.decode_batch(batch, data.gather(batch, log_emission)), flat)
        return flat.numpy()

    def decode_batch(self, batch: Batch, log_emission: Tensor) -> Tensor:
        """Most probable path of one batch, (B, T)."""
        import torch

        from prism_irl.switching.forward_backward import viterbi

        with torch.no_grad():
            return viterbi(self.log_initial().double(), self.log_kernel(batch).double(), log_emission, batch.mask)

    def stream(self, n_trajectories: int = 1) -> Stream:
        """Streaming forward pass."""
        return ChainStream(self, n_trajectories)


class ChainStream(Stream):
    """The forward pass, one step at a time, in log space; gives arrays, whatever the chain computes with."""

    def __init__(self, chain: Chain, n_trajectories: int) -> None:
        self.chain, self.previous = chain, None
        self.carry = chain.initial_carry(n_trajectories)
        self.filtered: FloatArray | None = None

    previous: Previous | None

    def joint(self, states: Any, policies: Any, observations: Any | None = None) -> FloatArray:
        """P(z_t | s_≤t, a_<t) π_k(a | s_t), (B, K, A)."""
        self.states = states
        kernel, self.carry = self.chain.stream_kernel(states, self.previous, observations, self.carry)
        if self.filtered is None:
            self.predicted = np.tile(self.chain.stream_initial(), (len(states), 1))
        else:
            self.predicted = np.logaddexp.reduce(self.filtered[:, :, None] + as_array(kernel), axis=1)
        return np.asarray(np.exp(self.predicted)[:, :, None] * as_array(policies))

    def update(self, actions: Any, evidence: Any) -> FloatArray:
        """P(z_t | s_≤t, a_≤t), (B, K)."""
        logs = self.predicted + as_array(evidence)
        self.filtered = logs - np.logaddexp.reduce(logs, axis=1, keepdims=True)
        self.previous = Previous(self.states, actions)
        return np.asarray(np.exp(self.filtered))


class ArrayChain(Chain):
    """A chain that is kept in plain arrays, so that fitting, asking and simulating it needs no torch.

    Attributes
    ----------
    begin : (K,), P(z_1=k)
    """

    begin: FloatArray
    device: torch.device | str = "cpu"

    @abstractmethod
    def kernels(self, before: IntArray, now: IntArray) -> FloatArray:
        """Kernel between states (…,) and their successors, (…, K, K)."""

    def load_state(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Undo `state`."""
        for name, own in self.state().items():
            checked.shape(name, state[name], own.shape)
            own[...] = state[name]

    def to(self, device: torch.device | str) -> Self:
        """Batches are computed there; the chain itself stays where it is, being a few numbers."""
        self.device = device
        return self

    def stream_initial(self) -> FloatArray:
        """Log P(z_1=k), (K,)."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.begin))

    def stream_kernel(
        self, states: Any, previous: Previous | None, observations: Any | None, carry: Carry
    ) -> tuple[FloatArray, Carry]:
        """Log kernel between the states of a step and of the one before."""
        now = as_array(states)
        with np.errstate(divide="ignore"):
            return np.log(self.kernels(now if previous is None else as_array(previous.states), now)), carry


def sticky(n_intentions: int) -> Tensor:
    """Logits of a kernel that mostly stays, 3·I."""
    import torch

    return STICKINESS * torch.eye(n_intentions)
