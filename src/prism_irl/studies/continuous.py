"""Evidence on continuous data: whether disjoint halves find the same phases, more than in recordings of a habit.

The habit with memory is the data's own: at every step it looks at where the agent is and at the command before, goes on
as one of the recorded steps that are nearest in both did, and so on. A walk over recorded steps that is spliced at
every step keeps whatever position and last command explain, and nothing that lasts longer (the local bootstrap of
nonlinear time series). Phases are fitted to disjoint halves of the trajectories; how far their labels of all data agree
is the statistic, for the best of the numbers of phases that were asked for, in the data and in every surrogate alike.

Likelihood has no say: a copy of the last command predicts commands of 30 Hz better than any phase.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from prism_irl import __version__
from prism_irl.arrays import IntArray
from prism_irl.data.demonstrations import Demonstrations, some_trajectories
from prism_irl.errors import InputError
from prism_irl.figures import charts as drawing
from prism_irl.figures import style
from prism_irl.labels import ari
from prism_irl.models.phases import Phases
from prism_irl.report.verdict import sentences
from prism_irl.scale import fanout
from prism_irl.studies import results
from prism_irl.studies.gains import independent
from prism_irl.studies.null import EXCEEDING, LEVEL, MOST, OnWork, Question

NEIGHBOURS, DIMENSIONS = 8, 10
"""Recorded steps that a spliced walk may go on from, and principal components in which they are near."""
FLOOR = 0.05
"""Difference of adjusted Rand indices below which an effect is too small to matter."""
SPLITS = 2
"""Ways to divide the trajectories into halves."""
LARGEST = 20_000
"""Steps of the trajectories that are looked at, at most."""
FEWEST = 8


def check_halves(demos: Demonstrations) -> None:
    """Raise an `InputError` where there are too few trajectories to compare halves of them."""
    if len(demos) < FEWEST:
        raise InputError(f"Halves of continuous data can be compared from {FEWEST} trajectories on; give more.")


def neighbours(demos: Demonstrations) -> IntArray:
    """Recorded steps (n, `NEIGHBOURS`) nearest in observations and last command, each with a step after it."""
    assert demos.observations is not None
    assert demos.motions is not None
    before = np.where(demos.first_steps[:, None], 0.0, np.roll(demos.motions, 1, axis=0))
    x = np.concatenate([demos.observations, before], axis=1).astype(np.float64)
    x = (x - x.mean(0)) / np.maximum(x.std(0), 1e-9)
    axes = np.linalg.eigh(x.T @ x)[1][:, ::-1][:, :DIMENSIONS]
    last = np.zeros(demos.n_steps, bool)
    last[demos.offsets[1:] - 1] = True
    rows = np.flatnonzero(~last)
    found = cKDTree(x[rows] @ axes).query(x @ axes, min(NEIGHBOURS, len(rows)))[1]
    return np.asarray(rows[found].reshape(demos.n_steps, -1), dtype=np.int64)


def spliced(demos: Demonstrations, near: IntArray, generator: np.random.Generator) -> Demonstrations:
    """A surrogate: the same starts and lengths, every step that after one of the nearest to the step before."""
    assert demos.observations is not None
    assert demos.motions is not None
    at, now = np.empty(demos.n_steps, np.int64), demos.offsets[:-1].astype(np.int64)
    for t in range(int(demos.lengths.max())):
        lasts = demos.lengths > t
        at[demos.offsets[:-1][lasts] + t] = now[lasts]
        now = near[now, generator.integers(near.shape[1], size=len(now))] + 1
    own = demos.observations[at], demos.motions[at]
    return replace(demos, observations=own[0], motions=own[1], labels=None, partial_labels=None)


def reliability(demos: Demonstrations, K: int, seed: int) -> list[float]:
    """Agreement of labels of all steps by phases of disjoint halves, for every way to divide the trajectories."""
    found = []
    for split in range(SPLITS):
        halves = demos.split(0.5, by=independent(demos), seed=seed + split)
        labels = [Phases(n_intentions=K, n_starts=2, seed=seed).fit(half).predict(demos) for half in halves]
        found.append(ari(*labels))
    return found


def evidence(
    demos: Demonstrations,
    folder: Path,
    *,
    intentions: Sequence[int] = (2, 3),
    surrogates: int = MOST,
    seed: int = 0,
    jobs: int = 1,
    title: str = "Are there phases?",
    selects: bool = False,
    on_part: OnWork | None = None,
) -> dict[str, Any]:
    """Test, write metrics.json, table.csv and the figure, and return the metrics, by the keys of `studies.evidence`.

    With ``selects`` the number of phases that halves agree on best is recommended, or 1 without evidence.
    """
    cache = folder / "cache"
    cache.mkdir(exist_ok=True)
    intentions = [K for K in intentions if K > 1] or [2]
    kept = demos.subset(np.sort(some_trajectories(demos, LARGEST, seed)))
    kept = replace(kept, labels=None, partial_labels=None)
    shared = kept, neighbours(kept), tuple(intentions), seed
    key = f"{kept.checksum()[:16]}-{'-'.join(map(str, intentions))}-{seed}-{__version__}"
    rows: list[dict[str, Any]] = []
    batch = max(EXCEEDING, 1 if jobs == 1 else jobs)
    while not rows or (len(rows) <= surrogates and not question(rows).settled(surrogates)):
        numbers = [0] if not rows else list(range(len(rows), min(len(rows) + batch, surrogates + 1)))
        done = len(rows)
        tell = None if on_part is None else lambda n, done=done: on_part(done + n, surrogates + 1, None)
        rows += fanout.remembered(
            _agreements, numbers, shared, lambda b: cache / f"{key}-{b:04d}.json", jobs=jobs, on_rows=tell
        )
    found = summary(rows, intentions)
    result = {
        **results.heading(title, demos, folds=2, experiment="evidence"),
        "density": True,
        "evidence": found,
        "budget": [],
        "notes": [
            *(finding.text for finding in sentences(found)),
            f"Phases were fitted to disjoint halves of {len(kept)} trajectories, divided in {SPLITS} ways, with "
            f"{', '.join(map(str, intentions))} phases; the best of these numbers counts, in simulations of the habit, "
            "too. The habit goes on as one of the recorded steps that are nearest in position and last command did. A "
            "copy of the last command predicts single commands better than phases do; likelihood says nothing here.",
        ],
        "methods": {
            f"k{K}": {"name": f"{K} phases", "agreement": found["agreements"][str(K)], "n_intentions": K}
            for K in intentions
        },
    }
    if selects:
        words = " ".join(finding.text for finding in sentences(found))
        result |= {"experiment": "selection", "recommended": found["recommended"], "recommendation": words}
    results.write_results(folder, result, [{"data": b, **row["best"]} for b, row in enumerate(rows)])
    results.write_methods(folder / "table.csv", result["methods"])
    results.write_figures(folder / "figures", {"evidence": partial(_draw, found=found)})
    return result


def _agreements(
    number: int, demos: Demonstrations, near: IntArray, intentions: Sequence[int], seed: int
) -> dict[str, Any]:
    """Agreements of the data (0) or of a surrogate, by number of phases, and the best of them."""
    clock = time.perf_counter()
    data = spliced(demos, near, np.random.default_rng([seed, number])) if number else demos
    own = {str(K): reliability(data, K, seed) for K in intentions}
    best = max(own, key=lambda K: float(np.mean(own[K])))
    row = {"own": own, "best": {"K": int(best), "agreement": float(np.mean(own[best]))}}
    return row | {"seconds": time.perf_counter() - clock}


def question(rows: Sequence[dict[str, Any]]) -> Question:
    """The question and its answer: the agreement beyond that of surrogates, with its 95% interval."""
    own, others = rows[0]["best"], np.array([row["best"]["agreement"] for row in rows[1:]])
    spread = float(np.std(rows[0]["own"][str(own["K"])], ddof=1)) / math.sqrt(SPLITS)
    error = float(others.std(ddof=1)) / math.sqrt(len(others)) if len(others) > 1 else 0.0
    effect = own["agreement"] - (float(others.mean()) if len(others) else 0.0)
    half = 1.96 * math.hypot(spread, error)
    return Question(own["agreement"], effect, effect - half, effect + half, tuple(others.tolist()), FLOOR)


def summary(rows: Sequence[dict[str, Any]], intentions: Sequence[int]) -> dict[str, Any]:
    """What other pages quote, by the keys of `studies.evidence.summary`."""
    asked, best = question(rows), rows[0]["best"]
    found = asked.counts and asked.p_value <= LEVEL
    decided = found or not (asked.counts and asked.reached < EXCEEDING)
    seconds = sum(row["seconds"] for row in rows)
    return {
        "found": found,
        "decided": decided,
        "density": True,
        "recommended": best["K"] if found else 1,
        "p_value": asked.p_value,
        "level": LEVEL,
        "g1": asked.to_json(asked.p_value, found),
        "g2": None,
        "gain": asked.effect,
        "gain_low": asked.low,
        "gain_high": asked.high,
        "agreement": asked.statistic,
        "agreements": {str(K): float(np.mean(rows[0]["own"][str(K)])) for K in intentions},
        "agreement_p_value": asked.p_value,
        "surrogate_agreements": list(asked.surrogates),
        "surrogates": len(asked.surrogates),
        "least_surrogates": math.ceil(1 / LEVEL) - 1,
        "seconds": seconds,
        "seconds_for_999": None if decided else seconds * 999 / max(len(asked.surrogates), 1),
    }


def _draw(path: Path, found: dict[str, Any]) -> str:
    figure, axes = style.new_figure(1, 1, height=2.0, width=3.4)
    label = "agreement of halves (ARI)"
    drawing.data_among_surrogates(axes[0], found["agreement"], found["surrogate_agreements"], label)
    style.save(figure, path)
    return (
        f"Agreement of phases from disjoint halves: the data (line) among {found['surrogates']} recordings that are "
        f"spliced where position and last command are alike (dots), p = {found['p_value']:.3g}."
    )
