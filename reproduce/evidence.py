"""`prism reproduce evidence`: false positives and power of the test for intentions, on data of known truth.

At the level 1 / (1 + B) the data must beat all B surrogates, so surrogates are simulated one by one, and no further one
after the first that reaches the data: the decision is the same, and data without intentions is done soon (Besag and
Clifford 1991).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from prism_irl import __version__
from prism_irl.devices import limit_threads
from prism_irl.evaluation.likelihood import label_metrics
from prism_irl.experiments.evidence.settings import SIZES, TRUTHS, Calibration, DataSet
from prism_irl.figures import evidence as drawing
from prism_irl.figures import style
from prism_irl.scale import fanout, remember
from prism_irl.studies import null, results, selection
from prism_irl.studies.null import OnPart
from prism_irl.studies.select_intentions import Select, try_numbers

RIGHT = 0.9
"""Share of steps with the true intention from which on a labelling counts as right."""


def run(
    settings: Calibration,
    folder: Path,
    *,
    jobs: int = 1,
    on_part: OnPart | None = None,
    title: str = "Calibration of evidence",
) -> dict[str, Any]:
    """Test every data set, write metrics.json, folds.csv and figures; return the metrics."""
    cache = folder / "cache"
    cache.mkdir(exist_ok=True)
    chosen = list(settings.data_sets())
    counted = [data for data in chosen if data.truth > 1 and data.n == SIZES[-1] and data.seed in settings.counted]
    total = len(chosen) + len(counted)

    def tell(done: int) -> None:
        if on_part is not None:
            on_part(done, total)

    rows = _spread(test_one, chosen, settings, cache, "test", jobs, tell)
    numbers = _spread(count_one, counted, settings, cache, "count", jobs, lambda done: tell(len(chosen) + done))
    for data in counted:
        rows[data.id] |= recommended(numbers[data.id], found=rows[data.id]["found"])
    ordered = [rows[data.id] for data in chosen]
    result = {
        "title": title,
        "experiment": "calibration",
        "quick": settings.quick,
        "folds": settings.analysis.folds,
        "surrogates": settings.surrogates,
        "calibration": summary(ordered),
        "notes": notes(settings, ordered),
        "methods": _table(ordered),
    }
    results.write_results(folder, result, ordered)
    results.write_figures(folder / "figures", {"power": partial(_draw, result=result)})
    return result


def _spread(
    work: Callable[[DataSet, Calibration, bool], dict[str, Any]],
    wanted: Sequence[DataSet],
    settings: Calibration,
    cache: Path,
    kind: str,
    jobs: int,
    tell: Callable[[int], None],
) -> dict[str, dict[str, Any]]:
    """Do some work on every data set, remembering what is done."""
    shared = (settings, fanout.side_by_side(jobs))
    path = partial(_path, cache, settings, kind)
    rows = remember.spread(work, wanted, shared, path, jobs=jobs, on_rows=tell)
    return {data.id: row for data, row in zip(wanted, rows, strict=True)}


def _path(cache: Path, settings: Calibration, kind: str, data: DataSet) -> Path:
    key = hashlib.sha256(f"{settings.analysis!r} {settings.surrogates} {__version__}".encode()).hexdigest()[:12]
    tried = "" if kind == "test" else f"-{kind}-{settings.tried[0]}to{settings.tried[-1]}"
    return cache / f"{key}-{data.id}{tried}.json"


def test_one(data: DataSet, settings: Calibration, parallel: bool) -> dict[str, Any]:
    """Whether the data beats all surrogates, and after how many it was known."""
    if parallel:
        limit_threads(1)
    demos, mdp = data.make()
    found = null.sequential(demos, settings.analysis, most=settings.surrogates, mdp=mdp)
    return {
        "id": data.id,
        "world": data.world + (f", {data.place}" if data.place else ""),
        "truth": data.truth,
        "n_trajectories": data.n,
        "individuals": data.individuals,
        "memory": data.memory or None,
        "half": data.half,
        **found,
        "found": found["reached"] == 0,
    }


test_one.__test__ = False  # type: ignore[attr-defined]  # not a test of pytest, whatever its name begins with


def count_one(data: DataSet, settings: Calibration, parallel: bool) -> dict[str, Any]:
    """What `prism select` knows about every number of intentions: likelihoods of folds, and agreement of halves."""
    if parallel:
        limit_threads(1)
    demos, mdp = data.make()
    select = Select(intentions=settings.tried, folds=settings.analysis.folds, surrogates=0)
    _, found, candidates = try_numbers(demos, select, mdp=mdp)
    rows = {str(k): asdict(candidate) for k, candidate in candidates.items()}
    accuracy = {
        str(k): label_metrics(found[k].labels, demos).get("label_accuracy") for k in settings.tried if k == data.truth
    }
    return {"candidates": rows, "label_accuracy": accuracy}


def recommended(row: dict[str, Any], *, found: bool) -> dict[str, Any]:
    """What `prism select` recommends, given whether there is evidence, and how right its labels are."""
    candidates = {int(k): selection.Candidate(**_tuples(values)) for k, values in row["candidates"].items()}
    choice = selection.choose(candidates, {"found": found, "gain": 0.0, "p_value": 0.0})
    chosen = candidates[choice.recommended]
    return {
        "recommended": choice.recommended,
        "by_likelihood": choice.by_likelihood,
        "identified": chosen.identified and choice.recommended > 1,
        "agreement": chosen.agreement,
        "label_accuracy": row["label_accuracy"].get(str(choice.recommended)),
    }


def _tuples(values: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """False positives, and power by world and size, each with its 95% interval (Clopper–Pearson)."""
    without = [row for row in rows if row["truth"] == 1]
    kinds = sorted({row["world"] for row in without})
    power = {}
    for world in TRUTHS:
        for n in SIZES:
            own = [row for row in rows if row["world"] == world and row["n_trajectories"] == n]
            if own:
                power[f"{world} {n}"] = {"world": world, "n": n, **share(own)}
    largest = [row for row in rows if row["truth"] > 1 and row["n_trajectories"] == SIZES[-1]]
    return {
        "false_positives": share(without),
        "by_kind": {kind: share([row for row in without if row["world"] == kind]) for kind in kinds},
        "power": power,
        "power_at_largest": share(largest) if largest else None,
        "select": {
            world: _select_share(own)
            for world in TRUTHS
            if (own := [row for row in largest if row["world"] == world and "recommended" in row])
        },
    }


def _select_share(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """How often `prism select` recommends the true number, and how many labellings it vouches for are wrong."""
    right = [row["recommended"] == row["truth"] for row in rows]
    vouched = [row for row in rows if row["identified"]]
    wrong = [row for row in vouched if row["label_accuracy"] is None or row["label_accuracy"] < RIGHT]
    return {"right": sum(right), "of": len(rows), "vouched_for": len(vouched), "vouched_for_and_wrong": len(wrong)}


def share(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """How many of the data sets have evidence."""
    count, n = sum(bool(row["found"]) for row in rows), len(rows)
    interval = stats.binomtest(count, n).proportion_ci(0.95)
    return {"found": count, "of": n, "share": count / n, "low": float(interval.low), "high": float(interval.high)}


def notes(settings: Calibration, rows: Sequence[dict[str, Any]]) -> list[str]:
    """The outcome in words."""
    found = summary(rows)
    wrong, right = found["false_positives"], found["power_at_largest"]
    level = 1 / (1 + settings.surrogates)
    chance = float(stats.binom.sf(wrong["found"] - 1, wrong["of"], level)) if wrong["found"] else 1.0
    text = [
        f"Data without intentions is taken for data with them in {wrong['found']} of {wrong['of']} cases "
        f"({100 * wrong['share']:.1f}%, 95% interval {100 * wrong['low']:.1f} to {100 * wrong['high']:.1f}%; the level "
        f"is {100 * level:.0f}%, and as many or more would come by chance with probability {chance:.2f})."
    ]
    if right is not None:
        text.append(
            f"With intentions and {SIZES[-1]} trajectories they are found in {right['found']} of {right['of']} cases."
        )
        for world, found_here in found["select"].items():
            text.append(
                f"{world}: prism select recommends the true number of intentions in {found_here['right']} of "
                f"{found_here['of']} cases; it vouches for {found_here['vouched_for']} labellings, of which "
                f"{found_here['vouched_for_and_wrong']} are right at less than {100 * RIGHT:.0f}% of the steps."
            )
    return text


def _table(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One row per kind of data."""
    table = {}
    kinds = sorted({(row["truth"], row["world"], row["n_trajectories"]) for row in rows})
    for truth, world, n in kinds:
        own = [row for row in rows if (row["truth"], row["world"], row["n_trajectories"]) == (truth, world, n)]
        found = share(own)
        table[f"{world}-{n}"] = {
            "name": f"{world}, {n} trajectories" + ("" if truth > 1 else " (no intentions)"),
            "evidence_found": found["found"],
            "data_sets": found["of"],
            "gain_over_habit": float(np.mean([row["gain"] for row in own])),
            "seconds": float(np.mean([row["seconds"] for row in own])),
        }
    return table


def _draw(path: Path, result: dict[str, Any]) -> str:
    found = result["calibration"]
    figure, (ax,) = style.new_figure(width=4.2, height=2.6)
    drawing.power(ax, found["power"], found["false_positives"], level=1 / (1 + result["surrogates"]))
    style.save(figure, path)
    return (
        "How often evidence for intentions is found, against the size of the data: worlds with intentions as lines, "
        "data without any (all kinds and sizes together) as the band at the bottom; bars and band are 95% intervals."
    )
