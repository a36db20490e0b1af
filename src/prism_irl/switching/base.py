"""The protocol of a switching model: a prior over intentions given the history, and how to improve it.

A switching model answers *when*: it turns the history into P(z_t=k | …), combines it with the emissions
π_k(a_t | s_t) that a reward model supplies (Eq. posterior), and updates itself from the responsibilities. It never
knows what an emission is made of.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from prism_irl import checked
from prism_irl.arrays import FloatArray, IntArray
from prism_irl.data.batching import Batch, Parts, Prepared, Stats, scatter
from prism_irl.errors import InputError

if TYPE_CHECKING:  # chains that only count do without torch, whose import takes longer than their fit
    import torch
    from torch import Tensor

    from prism_irl.rewards.base import Fit
    from prism_irl.switching.markov import MarkovChain

PolicyOf = Callable[[Batch], "Tensor"]
"""Policies of all intentions at the steps of a batch, (B, T, K, A), float64."""


class Posterior(NamedTuple):
    """Beliefs about the intention of every step, flat and aligned with the demonstrations, float64.

    ``responsibilities`` (n, K): P(z_t=k | everything), Eq. (posterior) for a gate, smoothed for a chain.
    ``predicted`` (n, K): the prior that the model puts on z_t before it weighs a_t by the policies.
    ``filtered`` (n, K): P(z_t=k | s_≤t, a_≤t).
    ``log_likelihood`` (n,): log Σ_k predicted_k π_k(a_t|s_t). A likelihood when the prior has not seen a_t;
    the paper's score when it has (`observe="current"`).
    ``transitions`` (K, K): expected number of steps from j to k; chains only.
    ``hidden``: first steps and transitions of the states inside intentions, where there are some.
    ``pairwise`` (n, K, K): P(z_{t-1}=j, z_t=k | everything), zero at first steps, where the M-step reads it.
    """

    responsibilities: FloatArray
    predicted: FloatArray
    filtered: FloatArray
    log_likelihood: FloatArray
    transitions: FloatArray | None = None
    hidden: Stats | None = None
    pairwise: FloatArray | None = None


class Counted(NamedTuple):
    """Expected counts of an E-step over all data, without beliefs about single steps.

    ``pairs`` (P, K): of the pairs of context and action, as `Prepared.pairs` numbers them.
    """

    switching: Stats
    pairs: FloatArray
    log_likelihood: float


class BatchPosterior(NamedTuple):
    """`Posterior` of one padded batch: (B, T, K), (B, T), (K, K) and (B, T, K, K) tensors."""

    responsibilities: Tensor
    predicted: Tensor
    filtered: Tensor
    log_likelihood: Tensor
    transitions: Tensor | None = None
    pairwise: Tensor | None = None


class Switching(ABC):
    """Base class of the models that answer *when*.

    Those of tensors are a `switching.networks.SwitchingModule`; a chain that only counts keeps plain arrays.

    Attributes
    ----------
    exact : the M-step is closed-form, so that the likelihood can never fall
    incremental : `visit` takes responsibilities and gradient from one and the same pass (incremental EM); else an
        E-step over all data comes first
    adds_up : statistics are a few sums, however many steps: large data are then read in parts
    reads_pairs : statistics are made of `Posterior.pairwise`
    free_kernel : one kernel for all steps, of which the M-step may make any
    n_inputs : covariates that the kernel reads, whose effects can be read off
    normalised : Σ_a of the emitted scores is one; false only for a gate that reads the current action
    distributions : names in `state` of what must sum to one over its last axis
    """

    n_intentions: int
    exact: bool = False
    incremental: bool = False
    adds_up: bool = False
    reads_pairs: bool = False
    free_kernel: ClassVar[bool] = False
    n_inputs: int = 0
    normalised: bool = True
    distributions: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Arrays that determine the model."""

    @abstractmethod
    def load_state(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Undo `state`."""

    @abstractmethod
    def to(self, device: torch.device | str) -> Self:
        """Compute on a device from now on."""

    def reads(self, values: npt.NDArray[Any], device: torch.device | str = "cpu") -> Any:
        """Values as this model reads them: emissions on the CPU, whatever a stream is given on its device."""
        return values

    def check_loaded(self) -> None:
        """Raise an `InputError` unless what was read from a file are numbers, and probabilities where they must be."""
        for name, value in self.state().items():
            if value.dtype.kind == "f":
                checked.finite(name, value, lowest=name.startswith("log_"))
            if name in self.distributions:
                checked.distributions(name, value)

    @abstractmethod
    def expectation_of(self, batch: Batch, log_emission: Tensor, *, pairwise: bool = False) -> BatchPosterior:
        """E-step of one batch, with the posteriors of all pairs where they are asked for."""

    def statistics(self, data: Prepared, posterior: Posterior) -> Stats:
        """What `update` needs of these steps; added up over parts of the data. Nothing, where `visit` learns."""
        return Stats()

    def update(self, stats: Stats) -> None:  # noqa: B027
        """Improve the parameters given the statistics of all data."""

    def visit(
        self, parts: Parts, log_prob_of: Callable[[Prepared], Any], seed: Any
    ) -> Iterator[tuple[Prepared, Posterior]]:
        """Yield every part of the data with its beliefs; a model that is trained step by step learns on the way.

        Its beliefs are those that each minibatch met before its own gradient step, so that they belong to parameters
        between those before the pass and those after it. ``seed`` fixes the order of minibatches. ``log_prob_of`` gives
        the emissions (m, K) of a part, so that those of all data need never be there together.
        """
        for part in parts:
            yield part, self.expectation(part, log_prob_of(part), online=False)

    def counted(self, data: Prepared, table: FloatArray) -> Counted | None:
        """Expected counts alone, from a table (P, K) of policies; None where that is not to be had.

        `expectation` of the same emissions is the reference, and gives what this does not.
        """
        return None

    def effects(self) -> FloatArray:
        """What one standard deviation of an input adds to the log odds of j → k against staying, (K, K, d)."""
        raise InputError(f"{type(self).__name__} reads no inputs; fit with --covariates.")

    def leaving(self, inputs: npt.ArrayLike) -> FloatArray:
        """Probability of leaving each intention at inputs (m, d), standardised, (m, K)."""
        raise InputError(f"{type(self).__name__} reads no inputs; fit with --covariates.")

    def dwell_proba(self, longest: int) -> FloatArray | None:
        """P(dwell = d) of each intention for d = 1 … ``longest``, (K, longest); None where it varies."""
        return None

    def constant(self) -> MarkovChain | None:
        """An untrained chain with a constant kernel that this model can begin as; None where there is none."""
        return None

    def first_guess(self, fit: Fit) -> None:  # noqa: B027
        """Begin a start, after the rewards: with the chain that they have found (``fit.chain``), if any."""

    def finish(self, fit: Fit) -> None:  # noqa: B027
        """What only has to be done once, of the best start, when EM has ended."""

    def labels_of(self, probabilities: FloatArray, offsets: IntArray) -> IntArray:
        """Labels (n,) that beliefs (n, K) amount to: the likeliest, unless intentions come in an order."""
        return np.asarray(probabilities.argmax(axis=1), dtype=np.int64)

    @abstractmethod
    def stream(self, n_trajectories: int = 1) -> Stream:
        """Return a `Stream` at the beginning of trajectories."""

    def expectation(self, data: Prepared, log_emission: Any, *, online: bool = True) -> Posterior:
        """E-step over all demonstrations; ``log_emission`` (n, K), as the model `reads` it.

        Without ``online`` the beliefs that only filtering and prediction need, ``predicted`` and ``filtered``, may come
        back empty: EM does not read them.
        """
        import torch

        n, K = log_emission.shape
        flat = [torch.zeros(n, K, dtype=torch.float64) for _ in range(3)] + [torch.zeros(n, dtype=torch.float64)]
        pairwise = self.reads_pairs and not online
        pairs = torch.zeros(n if pairwise else 0, K, K, dtype=torch.float64)
        transitions = None
        with torch.no_grad():
            for batch in data.batches:
                posterior = self.expectation_of(batch, data.gather(batch, log_emission), pairwise=pairwise)
                if posterior.pairwise is not None:
                    scatter(batch, posterior.pairwise, pairs)
                for out, values in zip(flat, posterior[:4], strict=True):
                    scatter(batch, values, out)
                if posterior.transitions is not None:
                    transitions = posterior.transitions + (0.0 if transitions is None else transitions)
        smoothed, predicted, filtered, likelihood = (out.numpy() for out in flat)
        moved = None if transitions is None else transitions.cpu().numpy()
        return Posterior(smoothed, predicted, filtered, likelihood, moved, None, pairs.numpy() if pairwise else None)

    def decode(self, data: Prepared, log_emission: Any) -> IntArray:
        """Most probable intentions, (n,): each by itself, where no model says how they follow one another."""
        found = self.expectation(data, log_emission, online=False).responsibilities
        return np.asarray(found.argmax(axis=1), dtype=np.int64)

    def action_proba(self, data: Prepared, log_emission: Any, policy_of: PolicyOf) -> FloatArray:
        """Predictive distribution p(a | s_≤t, a_<t) of every step, (n, A)."""
        import torch

        flat: Tensor | None = None
        with torch.no_grad():
            for batch in data.batches:
                proba = self.action_proba_of(batch, data.gather(batch, log_emission), policy_of(batch))
                if flat is None:
                    flat = torch.zeros(data.demos.n_steps, proba.shape[-1], dtype=torch.float64)
                scatter(batch, proba, flat)
        assert flat is not None
        return flat.numpy()

    def action_proba_of(self, batch: Batch, log_emission: Tensor, policy: Tensor) -> Tensor:
        """Predictive distribution of one batch, (B, T, A); a prior that has not seen a_t mixes the policies."""
        import torch

        return torch.einsum("btk,btka->bta", self.expectation_of(batch, log_emission).predicted, policy)

    def training_state(self) -> dict[str, Any]:
        """Return whatever `visit` carries from one iteration to the next besides the parameters."""
        return {}

    def load_training_state(self, state: dict[str, Any]) -> None:  # noqa: B027
        """Undo `training_state`, for resuming."""


class Stream(ABC):
    """A switching model walking along B trajectories, one step at a time: first `joint`, then `update`.

    What it is given and gives are tensors or arrays, as the model `reads` them.
    """

    @abstractmethod
    def joint(self, states: Any, policies: Any, observations: Any | None = None) -> Any:
        """p(z_t, a_t | s_≤t, a_<t), (B, K, A), from states (B,) and the policies there (B, K, A)."""

    @abstractmethod
    def update(self, actions: Any, evidence: Any) -> Any:
        """Take the actions (B,) and log-evidence (B, K) on z_t; return P(z_t | all so far), (B, K).

        The evidence is log π_k(a_t | s_t) when filtering, and the log indicator of the intention when sampling.
        """
