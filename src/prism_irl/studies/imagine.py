"""What would happen if: where time is spent, and on what, before and after the world changes, with intervals.

Every draw simulates as much behaviour as was recorded, from the same starts, in the world as it was and in the changed
one. Its model is the fit or, with resamples, the fit to resampled animals (`subject_models.refit`): the interval of a
share holds both what a fit cannot be sure of and what as many trajectories would scatter anyway: a new recording
of this size should lie in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.devices import limit_threads
from prism_irl.errors import InputError
from prism_irl.evaluation import resampling
from prism_irl.labels import match
from prism_irl.mdp import MDP
from prism_irl.models.intentions import Intentions
from prism_irl.models.subject_models import refit
from prism_irl.scale import fanout
from prism_irl.studies.intervals import CHUNK, OnPart, draw_units, units_of

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
MANY = 1000
"""Units from which on quantiles need no widening."""


class Change(NamedTuple):
    """What is different: other dynamics, an intention that nobody has, and whether agents know."""

    mdp: MDP | None = None
    without: int | None = None
    aware: bool = True


def shares(
    model: Intentions, demos: Demonstrations, change: Change, order: IntArray, seed: Sequence[int]
) -> FloatArray:
    """Share of time in every state, then of every intention in the order of the fit, before and after, (2, S + K)."""
    own = change.without if change.without is None else int(order[change.without])
    worlds = model.imagine(), model.imagine(change.mdp, without=own, aware=change.aware)
    found = []
    for i, world in enumerate(worlds):
        simulated = world.simulate(demos, [*seed, i])
        assert simulated.labels is not None
        visits = np.bincount(simulated.states, minlength=demos.n_states)
        usage = np.bincount(simulated.labels, minlength=model.n_intentions)[order]
        found.append(np.concatenate([visits, usage]) / demos.n_steps)
    return np.stack(found)


def one_draw(
    index: int,
    model: Intentions,
    demos: Demonstrations,
    starts: Demonstrations,
    change: Change,
    seed: int,
    refits: bool,
) -> FloatArray:
    """`shares` of one simulation, by the fit or by the fit to resampled animals."""
    order = np.arange(model.n_intentions)
    if refits:
        unit, n_units, _ = units_of(demos)
        again = refit(model, demos, draw_units(n_units, seed, index)[unit])
        K = model.n_intentions
        order = np.argsort(match(model.predict(demos), again.predict(demos), K, K).mapping)
        model = again
    return shares(model, starts, change, order, (seed, 8, index))


def _chunk(
    indices: Sequence[int],
    model: Intentions,
    demos: Demonstrations,
    starts: Demonstrations,
    change: Change,
    seed: int,
    refits: bool,
    parallel: bool,
) -> list[FloatArray]:
    if parallel:
        limit_threads(1)
    return [one_draw(index, model, demos, starts, change, seed, refits) for index in indices]


def imagine(
    model: Intentions,
    demos: Demonstrations,
    change: Change,
    *,
    closed: Sequence[int] = (),
    simulations: int = 100,
    resamples: int = 0,
    seed: int = 0,
    jobs: int = 1,
    on_part: OnPart | None = None,
) -> dict[str, Any]:
    """Shares of time before and after a change, and their difference, with 95% intervals.

    Parameters
    ----------
    closed : states in which nobody can begin any more; trajectories that did are left out
    simulations : draws by the fit as it is, where there are no resamples
    resamples : draws, each by a fit to resampled animals

    Returns
    -------
    dict
        ``visits`` and ``usage``: per state and intention ``before``, ``after`` and ``difference``, each with ``mean``
        and ``interval`` (2, …); ``recorded``, the shares of the data; ``moved``, the total variation between the mean
        visits before and after; ``left_out``, trajectories that began where it is closed.
    """
    if not isinstance(model, Intentions):
        raise InputError(
            f"{type(model).__name__} is no pair of switching and rewards and cannot imagine another world."
        )
    if change.mdp is None and change.without is None:
        raise InputError("Nothing has changed; give other dynamics, or an intention to do without.")
    stays = ~np.isin(demos.states[demos.offsets[:-1]], np.asarray(closed, dtype=np.int64))
    if not stays.any():
        raise InputError("Every trajectory begins in a state that is closed; close others.")
    starts = demos.subset(np.flatnonzero(stays))
    model.imagine(
        change.mdp, without=change.without, aware=change.aware
    )  # says what is wrong before anything is fitted
    n = resamples or simulations
    chunks = [tuple(range(i, min(i + CHUNK, n))) for i in range(0, n, CHUNK)]
    shared = (model, demos, starts, change, seed, bool(resamples), fanout.side_by_side(jobs))
    parts: dict[int, list[FloatArray]] = {}
    for index, found in fanout.spread(_chunk, chunks, shared, jobs=jobs):
        parts[index] = found
        if on_part is not None:
            on_part(sum(map(len, parts.values())), n)
    draws = np.stack([draw for i in range(len(chunks)) for draw in parts[i]])  # (n, 2, S + K)
    n_units = units_of(demos)[1] if resamples else MANY
    S = demos.n_states
    recorded = np.bincount(demos.states, minlength=S) / demos.n_steps
    visits = summary(draws[:, :, :S], n_units)
    return {
        "n": n,
        "refitted": bool(resamples),
        "aware": change.aware,
        "without": change.without,
        "closed": [int(s) for s in closed],
        "left_out": int((~stays).sum()),
        "recorded": recorded,
        "moved": 0.5 * float(np.abs(visits["difference"]["mean"]).sum()),
        "visits": visits,
        "usage": summary(draws[:, :, S:], n_units),
    }


def summary(draws: FloatArray, n_units: int) -> dict[str, dict[str, FloatArray]]:
    """Mean and interval of draws (n, 2, M) before and after, and of the difference."""
    kinds = {"before": draws[:, 0], "after": draws[:, 1], "difference": draws[:, 1] - draws[:, 0]}
    return {
        name: {"mean": values.mean(axis=0), "interval": resampling.interval(values, n_units)}
        for name, values in kinds.items()
    }
