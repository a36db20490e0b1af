"""The model that the steps of one animal are counted with, where animals are compared.

Two things would draw everybody towards the mean. A chain that all animals share misses short visits of an animal that
switches often, and finds some in one that rarely does: each has a chain of its own. And policies that were fitted to
the animal's own steps have learned its short visits as slips, the more of them the more often it switches: policies
come from the choices of the *other* animals (leave one out). Neither knows the conditions, so that animals can still
be exchanged between them.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import numpy.typing as npt

from prism_irl.data.batching import Prepared
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.models.pair import PairModel
from prism_irl.switching.markov import MarkovChain

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
OWN_PRIOR, OWN_ITERATIONS = 2.0, 30


def has_own_chains(model: Any) -> bool:
    """Whether every animal can have a chain of its own: only a Markov chain is small enough for the steps of one."""
    return isinstance(model, PairModel) and type(model.switching_) is MarkovChain and model.n_intentions > 1


def with_own_chain(model: PairModel, demos: Demonstrations) -> PairModel:
    """The model with a Markov chain of these demonstrations alone, its policies as they are.

    Beside `OWN_PRIOR` moves of the shared kernel the animal's own count. Other switching models are returned as they
    are.
    """
    if not has_own_chains(model):
        return model
    shared, chain = model.switching_, copy.deepcopy(model.switching_)
    assert isinstance(shared, MarkovChain)
    assert isinstance(chain, MarkovChain)
    initial, kernel = shared.initial.cpu().numpy(), OWN_PRIOR * shared.kernel.cpu().numpy()
    data = Prepared.of(demos, model.contexts_, model.device_)
    emission = model._emission(data)
    for _ in range(OWN_ITERATIONS):
        posterior = chain.expectation(data, emission, online=False)
        assert posterior.transitions is not None
        begun = posterior.responsibilities[demos.offsets[:-1]].sum(axis=0)
        chain._normalise(begun + initial, posterior.transitions + kernel)
    again = copy.copy(model)
    again.switching_ = chain
    return again


class OwnModels:
    """For each animal, its own chain on policies that the others chose.

    Parameters
    ----------
    model : a fitted pair
    demos : Demonstrations
    unit : (N,)
        Number of the animal (and condition) of every trajectory.
    times : (N,), optional
        How often each trajectory counts for the policies of the others [default: once].

    Policies are left as they are where they are more than a table of counts (planned rewards, accents): those share
    parameters between states, and no animal's slip can become a policy.
    """

    def __init__(
        self, model: PairModel, demos: Demonstrations, unit: IntArray, times: npt.ArrayLike | None = None
    ) -> None:
        self.model, self.times = model, np.ones(len(demos)) if times is None else np.asarray(times, float)
        self.unit = unit
        self.counts: FloatArray | None = None
        if has_own_chains(model) and model.rewards_model_.choice_table() is not None:
            self.counts = self._count(demos, self.times)

    def _count(self, demos: Demonstrations, times: FloatArray) -> FloatArray:
        """Choices of every intention (K, C, A) that the fit expects in these demonstrations."""
        weights = self.model.posterior(demos).responsibilities * np.repeat(times, demos.lengths)[:, None]
        data = Prepared.of(demos, self.model.contexts_, self.model.device_)
        found: FloatArray = self.model.rewards_model_.weighted_counts(data, weights)  # type: ignore[attr-defined]
        return found

    def __call__(self, u: int, part: Demonstrations) -> PairModel:
        """The model of animal ``u``, whose demonstrations are given."""
        model = self.model
        if self.counts is not None:
            rest = np.maximum(self.counts - self._count(part, self.times[self.unit == u]), 0.0)
            model = copy.copy(model)
            model.rewards_model_ = copy.copy(model.rewards_model_)
            model.rewards_model_.set_counts(rest)  # type: ignore[attr-defined]
        return with_own_chain(model, part)
