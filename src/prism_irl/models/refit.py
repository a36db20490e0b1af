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

PASSES = 10
"""Passes of a network over a resample, from the fit."""
PATIENCE = 5


def trained_on(model: PairModel, demos: Demonstrations) -> npt.NDArray[np.int64]:
    """Trajectories that the fit was trained on: all but those of its validation."""
    if model.validation_fraction > 0 and len(demos) > 1:
        return np.asarray(demos.split_indices(model.validation_fraction, seed=model.seed)[1], dtype=np.int64)
    return np.arange(len(demos))


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
