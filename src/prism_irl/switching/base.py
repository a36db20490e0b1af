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
from prism_irl.data.batching import Batch, Prepared, scatter

if TYPE_CHECKING:  # chains that only count do without torch, whose import takes longer than their fit
    import torch
    from torch import Tensor

PolicyOf = Callable[[Batch], "Tensor"]
"""Policies of all intentions at the steps of a batch, (B, T, K, A), float64."""


class PhaseCounts(NamedTuple):
    """Expected counts over the phases inside intentions (`switching.semi_markov`).

    ``initial`` (K R,): of the first steps; ``transitions`` (K R, K R): from phase to phase.
    """

    initial: npt.NDArray[np.float64]
    transitions: npt.NDArray[np.float64]


class Posterior(NamedTuple):
    """Beliefs about the intention of every step, flat and aligned with the demonstrations, float64.

    ``responsibilities`` (n, K): P(z_t=k | everything), Eq. (posterior) for a gate, smoothed for a chain.
    ``predicted`` (n, K): the prior that the model puts on z_t before it weighs a_t by the policies.
    ``filtered`` (n, K): P(z_t=k | s_≤t, a_≤t).
    ``log_likelihood`` (n,): log Σ_k predicted_k π_k(a_t|s_t). A likelihood when the prior has not seen a_t;
    the paper's score when it has (`observe="current"`).
    ``transitions`` (K, K): expected number of steps from j to k; chains only.
    ``phases``: the same inside intentions, where they have phases.
    ``leaving`` (S, K, K): the same of the steps that leave each state, where the kernel reads it and EM asks.
    ``pairwise`` (n, K, K): P(z_{t-1}=j, z_t=k | everything), zero at first steps, where the M-step reads it.
    """

    responsibilities: npt.NDArray[np.float64]
    predicted: npt.NDArray[np.float64]
    filtered: npt.NDArray[np.float64]
    log_likelihood: npt.NDArray[np.float64]
    transitions: npt.NDArray[np.float64] | None = None
    phases: PhaseCounts | None = None
    leaving: npt.NDArray[np.float64] | None = None
    pairwise: npt.NDArray[np.float64] | None = None


class Counts(NamedTuple):
    """Expected counts of an E-step over all data: all that closed-form M-steps need of it, float64.

    ``begun`` (K,): of the first steps. ``moves`` (K, K): of the steps from j to k. ``choices`` (P, K): of the pairs of
    context and action, as `Prepared.pairs` numbers them, or `RewardModel.sums`. ``log_likelihood``: mean per step.
    """

    begun: npt.NDArray[np.float64]
    moves: npt.NDArray[np.float64]
    choices: npt.NDArray[np.float64]
    log_likelihood: float


class PassResult(NamedTuple):
    """Beliefs that one training pass met on its way, flat and aligned with the demonstrations, float64.

    Every minibatch is evaluated with the parameters that it meets, before its own gradient step: ``responsibilities``
    (n, K) and ``log_likelihood`` (n,) belong to parameters between those before the pass and those after it.
    """

    responsibilities: npt.NDArray[np.float64]
    log_likelihood: npt.NDArray[np.float64]


class BatchPosterior(NamedTuple):
    """`Posterior` of one padded batch: (B, T, K), (B, T) and (K, K) tensors."""

    responsibilities: Tensor
    predicted: Tensor
    filtered: Tensor
    log_likelihood: Tensor
    transitions: Tensor | None = None


class Switching(ABC):
    """Base class of the models that answer *when*.

    Those that are made of tensors are a `switching.module.SwitchingModule`, which is a module of torch, too; a chain
    that only counts (`switching.markov`) keeps plain arrays.

    Attributes
    ----------
    n_intentions : int
    exact : bool
        The M-step is closed-form, so that the likelihood can never fall.
    incremental : bool
        `improve` takes responsibilities and gradient from one and the same pass (incremental EM); else an E-step
        over all data comes first.
    normalised : bool
        Σ_a of the emitted scores is one; false only for a gate that reads the current action.
    """

    n_intentions: int
    exact: bool = False
    incremental: bool = False
    normalised: bool = True
    distributions: ClassVar[tuple[str, ...]] = ()
    """Names in `state` of what must sum to one over its last axis."""

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
    def expectation_of(self, batch: Batch, log_emission: Tensor) -> BatchPosterior:
        """E-step of one batch."""

    @abstractmethod
    def maximise(self, data: Prepared, log_emission: Any, posterior: Posterior, seed: Any) -> None:
        """Improve the parameters given the posterior of the E-step; ``seed`` fixes the order of minibatches."""

    def count(self, data: Prepared, table: npt.NDArray[np.float64]) -> Counts | None:
        """E-step that keeps expected counts alone, from a table (P, K) of policies; None where that is not to be had.

        `expectation` of the same emissions is the reference, and gives what this does not.
        """
        return None

    @property
    def only_counts(self) -> bool:
        """Whether `maximise_counts` needs no more of an E-step than first steps and moves."""
        return False

    def maximise_counts(self, counts: Counts) -> None:
        """`maximise` from what `count` gave, or from the sums over parts of the data."""
        raise NotImplementedError

    has_parts: ClassVar[bool] = False
    """Whether there are `improve_parts`."""

    def improve_parts(
        self, data: Prepared, emission_of: Callable[[Prepared], Any], seed: Any
    ) -> Iterator[tuple[Prepared, PassResult]]:
        """`improve` in parts: trajectories of a minibatch, and what it met; each step of all data comes once.

        ``emission_of`` gives the emissions (m, K) of a part, so that those of all data are never there together.
        """
        raise NotImplementedError

    def improve(self, data: Prepared, log_emission: Any, seed: Any) -> PassResult:
        """One training pass: improve the parameters and return the responsibilities met on the way."""
        posterior = self.expectation(data, log_emission, online=False)
        self.maximise(data, log_emission, posterior, seed)
        return PassResult(posterior.responsibilities, posterior.log_likelihood)

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
        transitions = None
        with torch.no_grad():
            for batch in data.batches:
                posterior = self.expectation_of(batch, data.gather(batch, log_emission))
                for out, values in zip(flat, posterior[:4], strict=True):
                    scatter(batch, values, out)
                if posterior.transitions is not None:
                    transitions = posterior.transitions + (0.0 if transitions is None else transitions)
        responsibilities, predicted, filtered, likelihood = (out.numpy() for out in flat)
        pairs = None if transitions is None else transitions.cpu().numpy()
        return Posterior(responsibilities, predicted, filtered, likelihood, pairs)

    def action_proba(self, data: Prepared, log_emission: Any, policy_of: PolicyOf) -> npt.NDArray[np.float64]:
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
        """Return whatever `maximise` carries from one iteration to the next besides the parameters."""
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
