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


def refit(model: PairModel, demos: Demonstrations, times: npt.NDArray[np.int64]) -> PairModel:
    """The model fitted again, from where it is, to trajectories that are drawn ``times`` (N,) each.

    Memory, accents and dynamics are those of the fit. Where validation trajectories stop EM they are the same ones.
    """
    model._check_fitted()
    again = copy.copy(model)
    for name in ("solution_", "context_solution_"):
        again.__dict__.pop(name, None)
    kept, held_out = np.arange(len(demos)), np.empty(0, np.int64)
    if model.validation_fraction > 0 and len(demos) > 1:
        held_out, kept = demos.split_indices(model.validation_fraction, seed=model.seed)
    chosen = np.repeat(kept, times[kept])
    if not len(chosen):
        raise InputError("A resample has no trajectory to fit to; give more animals, or no validation trajectories.")
    device = model.device_
    train = Prepared.of(demos.subset(chosen), model.contexts_, device)
    validation = Prepared.of(demos.subset(held_out), model.contexts_, device) if len(held_out) else None
    start = again._new_start(0, train.demos)
    if start.monitor.stopping.by == "training":
        validation = None  # it decides nothing, and evaluating it takes time
    before = em.Start(0, model.switching_, model.rewards_model_, start.monitor)
    start.restore(before.parameters())
    em.fit_start(start, train, validation, seed=model.seed)
    again.switching_, again.rewards_model_ = start.switching, start.rewards
    return again
