"""What would happen if: where time is spent, and on what, before and after the world changes, with intervals.

Every draw simulates as much behaviour as was recorded, from the same starts, in the world as it was and in the changed
one. Its model is the fit or, with resamples, the fit to resampled animals (`subject_models.refit`): the interval of a
share holds both what a fit cannot be sure of and what as many trajectories would scatter anyway: a new recording
of this size should lie in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from prism_irl import storage
from prism_irl.arrays import FloatArray
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.evaluation import units
from prism_irl.figures import charts as drawing
from prism_irl.figures import style
from prism_irl.figures.maps import add_colorbar, layout_map
from prism_irl.labels import match
from prism_irl.mdp import MDP
from prism_irl.models.intentions import Intentions
from prism_irl.models.subject_models import refit
from prism_irl.report.contrast import file_stem
from prism_irl.scale import fanout
from prism_irl.studies import results
from prism_irl.studies.intervals import OnPart, draw_units, units_of

MANY = 1000
"""Units from which on quantiles need no widening."""


class Change(NamedTuple):
    """What is different: other dynamics, an intention that nobody has, and whether agents know."""

    mdp: MDP | None = None
    without: int | None = None
    aware: bool = True


def one_draw(
    index: int,
    model: Intentions,
    demos: Demonstrations,
    starts: Demonstrations,
    change: Change,
    seed: int,
    refits: bool,
) -> FloatArray:
    """Share of time in every state, then of every intention in the order of the fit, before and after, (2, S + K).

    Of one simulation by the fit, or by the fit to resampled animals.
    """
    K = model.n_intentions
    order = np.arange(K)
    if refits:
        unit, n_units, _ = units_of(demos)
        again = refit(model, demos, draw_units(n_units, seed, index)[unit])
        order = np.argsort(match(model.predict(demos), again.predict(demos), K, K).mapping)
        model = again
    own = change.without if change.without is None else int(order[change.without])
    found = []
    for i, world in enumerate((model.imagine(), model.imagine(change.mdp, without=own, aware=change.aware))):
        simulated = world.simulate(starts, [seed, 8, index, i])
        assert simulated.labels is not None
        visits = np.bincount(simulated.states, minlength=demos.n_states)
        usage = np.bincount(simulated.labels, minlength=K)[order]
        found.append(np.concatenate([visits, usage]) / starts.n_steps)
    return np.stack(found)


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

    In ``closed`` states nobody can begin any more, and trajectories that did are left out. Draws are ``simulations`` by
    the fit as it is, or ``resamples``, each by a fit to resampled animals. ``visits`` and ``usage`` hold ``before``,
    ``after`` and ``difference`` per state and intention, each with ``mean`` and ``interval`` (2, …); ``moved`` is the
    total variation between the mean visits before and after.
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
    model.imagine(change.mdp, without=change.without, aware=change.aware)  # says what is wrong before the draws
    n = resamples or simulations
    shared = (model, demos, starts, change, seed, bool(resamples))
    made = fanout.in_chunks(one_draw, range(n), shared, jobs=jobs, on_part=on_part)
    draws = np.stack(made)  # (n, 2, S + K)
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
        name: {"mean": values.mean(axis=0), "interval": units.interval(values, n_units)}
        for name, values in kinds.items()
    }


FOLDER = "imagined"
CLEAR, NAMED = 12, 3


def imagined_path(folder: Path, name: str) -> Path:
    """Where the numbers lie."""
    return folder / FOLDER / f"{file_stem(name)}.json"


def in_words(found: Mapping[str, Any], what: str, states: Sequence[str], names: Sequence[str]) -> str:
    """The answer in two or three sentences; ``what`` is the change."""
    difference = found["visits"]["difference"]
    mean, (low, high) = np.asarray(difference["mean"]), np.asarray(difference["interval"])
    clear = [int(s) for s in np.argsort(-np.abs(mean), kind="stable") if low[s] > 0 or high[s] < 0]
    before, after = (np.asarray(found["visits"][side]["mean"]) for side in ("before", "after"))
    text = f"{what}: {found['moved']:.0%} of the time would be spent elsewhere"
    if clear:
        some = [f"{states[s]} {before[s]:.1%} → {after[s]:.1%}" for s in clear[:NAMED]]
        text += f", clearly so in {len(clear)} of {len(mean)} states (most: {', '.join(some)})."
    else:
        text += ", in no state more than the intervals allow for."
    usage = zip(names, found["usage"]["before"]["mean"], found["usage"]["after"]["mean"], strict=True)
    text += f" Time per intention: {', '.join(f'{name} {b:.0%} → {a:.0%}' for name, b, a in usage)}."
    if found["left_out"]:
        text += f" {found['left_out']} trajectories began where it is closed and were left out."
    sure = f"{found['n']} fits to resampled animals" if found["refitted"] else f"{found['n']} simulations of the fit"
    ends = "" if found["refitted"] else ", as if the fit were certain (--intervals 200 counts how sure it is)"
    return f"{text} Intervals are over {sure}{ends}. This is what the fitted model would do; nobody has seen it done."


def write_imagined(
    folder: Path,
    name: str,
    found: Mapping[str, Any],
    *,
    states: Sequence[str],
    names: Sequence[str],
    layout: Mapping[str, Any] | None,
) -> None:
    """Write numbers, table and figure; the report shows the latter."""
    (folder / FOLDER).mkdir(exist_ok=True)
    results.write_rows(folder / FOLDER / f"{file_stem(name)}.csv", rows_of(found, states, names))
    stem = f"imagine-{file_stem(name)}"
    with style.paper_style():
        _draw(folder / "figures" / stem, found, states, layout)
    results.add_captions(folder / "figures", {stem: str(found["in_words"])})
    storage.write_json(imagined_path(folder, name), found)  # last: what is there is whole


def rows_of(found: Mapping[str, Any], states: Sequence[str], names: Sequence[str]) -> list[dict[str, Any]]:
    """A row per state and intention: shares before and after and their difference, with the ends of the intervals."""
    rows = []
    for kind, labels in (("visits", states), ("usage", names)):
        for i, label in enumerate(labels):
            row: dict[str, Any] = {"measure": kind, "of": label}
            for side in ("before", "after", "difference"):
                low, high = found[kind][side]["interval"]
                row |= {side: found[kind][side]["mean"][i], f"{side}_low": low[i], f"{side}_high": high[i]}
            rows.append(row)
    return rows


def _draw(path: Path, found: Mapping[str, Any], states: Sequence[str], layout: Mapping[str, Any] | None) -> None:
    difference = np.asarray(found["visits"]["difference"]["mean"])
    low, high = np.asarray(found["visits"]["difference"]["interval"])
    largest = np.argsort(-np.abs(difference), kind="stable")[:CLEAR]
    maps = 0 if layout is None else 3
    height = max(2.2, 0.6 + 0.18 * len(largest))
    figure, axes = style.new_figure(1, maps + 1, width=2.3 * maps + 3.0, height=height)
    if layout is not None:
        shut = {**layout, "barriers": sorted({*layout["barriers"], *found["closed"]})}
        kinds = {"before": layout, "after": shut, "difference": shut}
        for ax, (side, place) in zip(axes, kinds.items(), strict=False):
            shares = np.asarray(found["visits"][side]["mean"], float)
            if side != "difference":
                shares = np.where(shares > 0, shares, np.nan)  # grey where nobody ever is
            layout_map(ax, place, shares, title=side)
            add_colorbar(ax, [ax], label="share of time" if side != "difference" else "change")
    order = largest[np.argsort(-difference[largest], kind="stable")]
    color = style.PALETTE[0]
    labels = [states[s] for s in order]
    drawing.ranked(axes[maps], difference[order], low[order], high[order], labels, color=color, most=CLEAR)
    axes[maps].set_xlabel("change of the share of time")
    style.save(figure, path)
