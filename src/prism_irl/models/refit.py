"""A fitted pair once more, on resampled trajectories: warm starts for bootstraps.

EM goes on from the parameters of the fit, so that a resample costs a few iterations and its intentions are, nearly
always, those of the fit under the same numbers. What it cannot show is another optimum: that is what several starts and
their agreement are for.
"""

from __future__ import annotations

import copy

import numpy as np
import numpy.typing as npt

from prism_irl import em
from prism_irl.data.batching import Prepared
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.models.pair import PairModel
from prism_irl.models.pair_rewards import SOLVED
from prism_irl.switching.markov import MarkovChain

PASSES = 10
"""Passes of a network over a resample, from the fit."""
PATIENCE = 5
OWN_PRIOR, OWN_ITERATIONS = 2.0, 30


def trained_on(model: PairModel, demos: Demonstrations) -> npt.NDArray[np.int64]:
    """Trajectories that the fit was trained on: all but those of its validation."""
    if model.validation_fraction > 0 and len(demos) > 1:
        return np.asarray(demos.split_indices(model.validation_fraction, seed=model.seed)[1], dtype=np.int64)
    return np.arange(len(demos))


def with_own_chain(model: PairModel, demos: Demonstrations) -> PairModel:
    """The model with a Markov chain of these demonstrations alone, its policies as they are.

    A chain that all animals share draws everybody towards the mean: of an animal that switches twice as often it misses
    short visits, in one that rarely does it finds some. Beside `OWN_PRIOR` moves of the shared kernel the animal's own
    count. Other switching models are returned as they are.
    """
    if type(model.switching_) is not MarkovChain or model.n_intentions == 1:
        return model
    shared, chain = model.switching_, copy.deepcopy(model.switching_)
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


def refit(model: PairModel, demos: Demonstrations, times: npt.NDArray[np.int64]) -> PairModel:
    """The model fitted again, from where it is, to trajectories that are drawn ``times`` (N,) each.

    Memory, accents and dynamics are those of the fit. Validation trajectories stay out of it, and do not stop it: the
    fit is the best for them already, and no resample would ever move. EM goes on until the training objective stops
    rising; networks, which would overfit, for a few passes.
    """
    model._check_fitted()
    again = copy.copy(model)
    for name in SOLVED:
        again.__dict__.pop(name, None)
    kept = trained_on(model, demos)
    chosen = np.repeat(kept, times[kept])
    if not len(chosen):
        raise InputError("A resample has no trajectory to fit to; give more animals, or no validation trajectories.")
    train = Prepared.of(demos.subset(chosen), model.contexts_, model.device_)
    start = again._new_start(0, train.demos)
    if start.switching.incremental:
        stopping = em.Stopping(PASSES, None, by="training")
    else:
        stopping = em.Stopping(model.max_iterations, PATIENCE, by="training")
    start.monitor = em.Monitor(stopping, exact=start.monitor.exact)
    before = em.Start(0, model.switching_, model.rewards_model_, start.monitor)
    start.restore(before.parameters())
    em.fit_start(start, train, None, seed=model.seed)
    again.switching_, again.rewards_model_ = start.switching, start.rewards
    return again
