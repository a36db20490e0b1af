"""Chains over intentions: P(z_t=k | z_{t-1}=j, history), with exact forward–backward inference.

A constant kernel is HIQL's Markov chain; a kernel from a recurrent network is *recurrent switching*, which keeps the
recurrent gate's likelihood and recovers the intentions. Because the chain carries the intention, the network only
has to say when it changes: logits of the kernel at step t are B_jk + (W h_t)_jk with B started sticky (3·I).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from prism_irl.batching import Batch, Prepared, scatter
from prism_irl.errors import InputError
from prism_irl.switching.base import BatchPosterior, Posterior, Seen, Stream, Switching
from prism_irl.switching.forward_backward import viterbi
from prism_irl.switching.inference import ChainBeliefs, infer, infer_flat
from prism_irl.switching.networks import Carry, HistoryNetwork
from prism_irl.switching.optimiser import Optimiser

STICKINESS = 3.0
FLOOR = 1e-10  # keeps a probability that no step supports from becoming log 0


class Previous(NamedTuple):
    """The step before, of B trajectories."""

    states: Tensor
    actions: Tensor


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
        self, states: Tensor, previous: Previous | None, observations: Tensor | None, carry: Carry
    ) -> tuple[Tensor, Carry]:
        """Log kernel (B, K, K) of one step of a stream, and the carried state."""

    def take_over(self, chain: MarkovChain) -> None:
        """Begin as a given Markov chain."""
        raise InputError(f"{type(self).__name__} cannot begin as a Markov chain.")

    def initial_carry(self, n_trajectories: int) -> Carry:
        """Carried state before the first step of a stream."""
        return ()

    def expectation_of(self, batch: Batch, log_emission: Tensor) -> BatchPosterior:
        """Forward–backward."""
        beliefs = infer(self.log_initial(), self.log_kernel(batch), log_emission, batch.mask)
        return BatchPosterior(
            beliefs.smoothed, beliefs.predicted, beliefs.filtered, beliefs.log_likelihood, beliefs.transitions
        )

    @torch.no_grad()
    def decode(self, batch: Batch, log_emission: Tensor) -> Tensor:
        """Most probable path, (B, T)."""
        return viterbi(self.log_initial().double(), self.log_kernel(batch).double(), log_emission, batch.mask)

    def stream(self, n_trajectories: int = 1) -> Stream:
        """Streaming forward pass."""
        return ChainStream(self, n_trajectories)


class ChainStream(Stream):
    """The forward pass, one step at a time."""

    def __init__(self, chain: Chain, n_trajectories: int) -> None:
        self.chain = chain
        self.carry = chain.initial_carry(n_trajectories)
        self.filtered: Tensor | None = None
        self.previous: Previous | None = None

    @torch.no_grad()
    def joint(self, states: Tensor, policies: Tensor, observations: Tensor | None = None) -> Tensor:
        """P(z_t | s_≤t, a_<t) π_k(a | s_t)."""
        kernel, self.carry = self.chain.stream_kernel(states, self.previous, observations, self.carry)
        if self.filtered is None:
            self.predicted = self.chain.log_initial().double().expand(len(states), -1)
        else:
            self.predicted = torch.logsumexp(self.filtered.unsqueeze(-1) + kernel.double(), dim=1)
        self.states = states
        return self.predicted.exp().unsqueeze(-1) * policies

    @torch.no_grad()
    def update(self, actions: Tensor, evidence: Tensor) -> Tensor:
        """P(z_t | s_≤t, a_≤t)."""
        self.filtered = torch.log_softmax(self.predicted + evidence, dim=-1)
        self.previous = Previous(self.states, actions)
        return self.filtered.exp()


def sticky(n_intentions: int) -> Tensor:
    """Logits of a kernel that mostly stays, 3·I."""
    return STICKINESS * torch.eye(n_intentions)


class MarkovChain(Chain):
    """Constant kernel and initial distribution, updated in closed form (Baum–Welch)."""

    exact = True
    initial: Tensor
    kernel: Tensor

    def __init__(self, n_intentions: int) -> None:
        super().__init__()
        self.n_intentions = n_intentions
        self.register_buffer("initial", torch.full((n_intentions,), 1.0 / n_intentions, dtype=torch.float64))
        self.register_buffer("kernel", torch.softmax(sticky(n_intentions).double(), dim=-1))

    @torch.no_grad()
    def take_over(self, chain: MarkovChain) -> None:
        """Copy the other chain."""
        self.initial.copy_(chain.initial)
        self.kernel.copy_(chain.kernel)

    def log_initial(self) -> Tensor:
        """Log of the initial distribution."""
        return self.initial.log()

    def log_kernel(self, batch: Batch) -> Tensor:
        """The same kernel at every step, as a view."""
        return self.kernel.log().expand(*batch.states.shape, -1, -1)

    def expectation(self, data: Prepared, log_emission: Tensor, *, online: bool = True) -> Posterior:
        """Forward–backward over ragged data as it lies; in padded batches where that is not to be had."""
        beliefs = None
        if self.kernel.device.type == "cpu":
            beliefs = infer_flat(
                self.log_initial(),
                self.kernel.log(),
                log_emission,
                data.demos.offsets,
                online=online,
                longest_first=data.longest_first,
            )
        if beliefs is None:
            return super().expectation(data, log_emission, online=online)
        return Posterior(
            beliefs.smoothed.numpy(),
            beliefs.predicted.numpy(),
            beliefs.filtered.numpy(),
            beliefs.log_likelihood.numpy(),
            beliefs.transitions.numpy(),
        )

    def stream_kernel(
        self, states: Tensor, previous: Previous | None, observations: Tensor | None, carry: Carry
    ) -> tuple[Tensor, Carry]:
        """The constant kernel."""
        return self.kernel.log().expand(len(states), -1, -1), carry

    @torch.no_grad()
    def maximise(self, data: Prepared, log_emission: Tensor, posterior: Posterior, seed: Any) -> None:
        """Expected transition counts of the E-step, normalised."""
        assert posterior.transitions is not None
        first = torch.from_numpy(data.total(posterior.responsibilities[data.demos.offsets[:-1]].sum(0))) + FLOOR
        pairs = torch.from_numpy(data.total(posterior.transitions)) + FLOOR
        self.initial.copy_(first / first.sum())
        self.kernel.copy_(pairs / pairs.sum(-1, keepdim=True))


class RecurrentChain(Chain):
    """Kernel from a history network: recurrent switching.

    Parameters
    ----------
    network : HistoryNetwork with K² outputs that observes the past
    switch_penalty : λ on the mean mass off the diagonal of the kernels; keeps intentions from becoming actions
    """

    incremental = True

    def __init__(
        self, network: HistoryNetwork, n_intentions: int, *, switch_penalty: float, optimiser: Optimiser
    ) -> None:
        super().__init__()
        self.n_intentions, self.switch_penalty = n_intentions, switch_penalty
        self.network = network
        self.bias = nn.Parameter(sticky(n_intentions))
        self.initial_logits = nn.Parameter(torch.zeros(n_intentions))
        self.optimiser = optimiser.bind(self)

    def log_initial(self) -> Tensor:
        """Log of the initial distribution."""
        return torch.log_softmax(self.initial_logits.double(), dim=-1)

    @torch.no_grad()
    def take_over(self, chain: MarkovChain) -> None:
        """Begin as a given Markov chain: B = log kernel, so that with a silent network the two are the same."""
        smallest = 1e-3  # a kernel entry of nearly zero would take the network forever to revive
        self.bias.copy_(chain.kernel.clamp_min(smallest).log())
        self.initial_logits.copy_(chain.initial.clamp_min(smallest).log())

    def _kernel(self, outputs: Tensor) -> Tensor:
        K = self.n_intentions
        logits = self.bias + outputs.unflatten(-1, (K, K))
        return torch.log_softmax(logits.double(), dim=-1)  # a float32 kernel sums to one to 1e-7 only

    def log_kernel(self, batch: Batch) -> Tensor:
        """Log softmax_k(B_jk + (W h_t)_jk)."""
        return self._kernel(self.network(batch))

    def initial_carry(self, n_trajectories: int) -> Carry:
        """Hidden state of the network."""
        return self.network.initial(n_trajectories)

    def stream_kernel(
        self, states: Tensor, previous: Previous | None, observations: Tensor | None, carry: Carry
    ) -> tuple[Tensor, Carry]:
        """One step of the network."""
        actions = torch.full_like(states, self.network.n_actions) if previous is None else previous.actions
        outputs, carry = self.network.step(
            states, actions, observations, carry, None if previous is None else previous.states
        )
        return self._kernel(outputs), carry

    def loss(self, batch: Batch, log_emission: Tensor) -> Tensor:
        """Negative log marginal per step plus λ times the mean mass off the diagonal.

        By the gradient identity, Σ posterior · log-probability with the posterior held fixed has exactly the
        gradient of the log marginal, so that autograd never walks through the recursion.
        """
        return self.loss_and_beliefs(batch, log_emission)[0]

    def loss_and_beliefs(self, batch: Batch, log_emission: Tensor) -> tuple[Tensor, ChainBeliefs]:
        """`loss`, and the posterior that it holds fixed."""
        initial, kernel = self.log_initial(), self.log_kernel(batch)
        beliefs = infer(initial, kernel, log_emission, batch.mask, pairwise=True)
        assert beliefs.pairwise is not None
        n = batch.mask.sum()
        first = (beliefs.smoothed[:, 0].to(initial.dtype) * initial).sum()
        loss = -(first + (beliefs.pairwise.to(kernel.dtype) * kernel).sum()) / n
        if self.switch_penalty:
            stay = torch.diagonal(kernel, dim1=-2, dim2=-1).exp().mean(-1)
            loss = loss + self.switch_penalty * ((1.0 - stay) * batch.mask).sum() / n
        return loss, beliefs

    def maximise(self, data: Prepared, log_emission: Tensor, posterior: Posterior, seed: Any) -> None:
        """Epochs of Adam on the log marginal with the emissions held fixed."""
        for batch in self.optimiser.minibatches(data, seed):
            self.optimiser.step(self.loss(batch, data.gather(batch, log_emission)), len(batch.real))

    def dealt(self, data: Prepared, seed: Any) -> Prepared:
        """An equal share of every minibatch for each process."""
        return self.optimiser.dealt(data, seed)

    def improve(self, data: Prepared, log_emission: Tensor, seed: Any) -> Seen:
        """The same epochs; the responsibilities are those that the last epoch's gradients held fixed."""
        n, K = log_emission.shape
        smoothed, likelihood = torch.zeros(n, K, dtype=torch.float64), torch.zeros(n, dtype=torch.float64)
        for batch in self.optimiser.minibatches(data, seed):
            loss, beliefs = self.loss_and_beliefs(batch, data.gather(batch, log_emission))
            scatter(batch, beliefs.smoothed, smoothed)
            scatter(batch, beliefs.log_likelihood, likelihood)
            self.optimiser.step(loss, len(batch.real))
        return Seen(smoothed.numpy(), likelihood.numpy())

    def training_state(self) -> dict[str, Tensor]:
        """Adam's moments."""
        return self.optimiser.state()

    def load_training_state(self, state: dict[str, Tensor]) -> None:
        """Restore Adam's moments."""
        self.optimiser.load(state)
