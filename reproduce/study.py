"""`prism reproduce study`: how often contrasts find what is there or not, and how often intervals are right."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import stats

from prism_irl import __version__, storage
from prism_irl.cli.options import FitsOptions
from prism_irl.cli.printing import print_table
from prism_irl.cli.progress import counting
from prism_irl.cli.runs import RunFolder
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.devices import limit_threads
from prism_irl.figures import style
from prism_irl.labels import label_accuracy, match
from prism_irl.models.intentions import Intentions
from prism_irl.models.presets import HIQL
from prism_irl.scale import fanout
from prism_irl.studies import results
from prism_irl.studies.contrast import contrast
from prism_irl.studies.imagine import Change, imagine
from prism_irl.studies.intervals import intervals
from prism_irl.switching.options import Markov
from worlds.cohort import CONDITIONS, Cohort, CohortWorld

PILOT = 10_000
EFFECTS: dict[str, dict[str, Any]] = {
    "none": {},
    "usage": {"usage": 1.8},
    "switching": {"switching": 2.0},
    "rewards": {"moved": 0.4},
    "covariate": {"covariate": 1.0},
    "barrier": {"barriers": ((0, 2), (1, 2), (2, 2)), "soft": True},
    "barrier-hard": {"barriers": ((0, 2), (1, 2), (2, 2))},
}
"""Scenario → what the drug does to the cohort; covariate and barriers are the same in both groups."""
RARE = {"covariate": 5, "barrier": 10, "barrier-hard": 10}
"""Scenarios whose fits take longest, of which there is one study in so many."""
MOVED = ((2, 2), (3, 2), (4, 2))
"""Where the barriers go."""
ASKED = {"usage": ("usage",), "switching": ("switch_rate", "dwell", "kernel"), "rewards": ("reward",)}
"""Measures in which an effect counts as found."""


class Study(NamedTuple):
    """One simulated study."""

    scenario: str
    seed: int

    @property
    def id(self) -> str:
        """Name in tables."""
        return f"{self.scenario}-s{self.seed:04d}"


@dataclass(frozen=True)
class Settings:
    """The experiment.

    Parameters
    ----------
    simulations : int
        Studies of every scenario but the `RARE` ones.
    resamples : int
        Of the intervals of a fit.
    imagined : int
        Of the intervals of a prediction.
    starts : int
        Of every fit.
    first_seed : int
        Of the studies of every scenario; the others follow it.
    """

    quick: bool = False
    simulations: int = 200
    resamples: int = 200
    imagined: int = 60
    starts: int = 3
    first_seed: int = 0
    cohort: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def small(cls) -> Settings:
        """A smaller honest run."""
        return cls(quick=True, simulations=6, resamples=20, imagined=20, starts=2)

    def studies(self) -> Iterator[Study]:
        """Every study, the scenarios in turn, so that an interrupted run has some of each."""
        for i in range(self.simulations):
            chosen = (scenario for scenario in EFFECTS if i % RARE.get(scenario, 1) == 0)
            yield from (Study(scenario, self.first_seed + i) for scenario in chosen)

    def world(self, scenario: str) -> CohortWorld:
        """Where a scenario takes place."""
        return CohortWorld(**EFFECTS[scenario], **self.cohort)


def barrier_study(world: CohortWorld, cohort: Cohort, settings: Settings, study: Study) -> dict[str, Any]:
    """Fit where the barrier was, predict where it went, and ask the simulator."""
    demos = cohort.demonstrations
    assert demos.labels is not None
    moved = replace(world, barriers=MOVED)
    options: dict[str, Any] = {"n_starts": 2, "device": "cpu", "seed": study.seed, "discount": world.discount}
    model = Intentions(2, switching="markov", rewards="soft-1", **options).fit(demos, world.mdp)
    closed = [world.size * y + x for x, y in MOVED]
    change = Change(moved.mdp)
    found = imagine(model, demos, change, closed=closed, resamples=settings.imagined, seed=study.seed)
    unaware = imagine(model, demos, change._replace(aware=False), closed=closed, simulations=20, seed=study.seed)
    begin = demos.states[demos.offsets[:-1]].astype(np.int64)
    begin = np.where(np.isin(begin, closed), -1, begin)
    other, again = (
        _visits(moved.simulate(seed + study.seed, begin).demonstrations, begin) for seed in (10**6, 2 * 10**6)
    )
    low, high = found["visits"]["after"]["interval"]
    free = ~np.isin(np.arange(world.n_states), closed)
    predicted = found["visits"]["after"]["mean"]
    return {
        "found": False,
        "p_adjusted": {},
        "covers": {},
        "label_accuracy": label_accuracy(demos.labels, model.predict(demos)),
        "what_if": {
            "inside": float(((low <= other) & (other <= high))[free].mean()),
            "width": float((high - low)[free].mean()),
            "prediction": _apart(predicted, other),
            "unaware": _apart(unaware["visits"]["after"]["mean"], other),
            "unchanged": _apart(found["recorded"], other),
            "another_cohort": _apart(again, other),
        },
    }


def _visits(demos: Demonstrations, begin: Any) -> Any:
    """Share of time in every state, (S,), over trajectories that can begin as those of the data did."""
    kept = demos.subset(np.flatnonzero(begin >= 0))
    return np.bincount(kept.states, minlength=demos.n_states) / kept.n_steps


def _apart(one: Any, other: Any) -> float:
    """Total variation: the share of time that would have to be spent elsewhere."""
    return 0.5 * float(np.abs(np.asarray(one) - np.asarray(other)).sum())


def what_if(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Means over studies of one kind."""
    return {
        "of": len(rows),
        **{name: float(np.mean([row["what_if"][name] for row in rows])) for name in rows[0]["what_if"]},
        "least_inside": float(min(row["what_if"]["inside"] for row in rows)),
    }


LEVEL = 0.05
FloatArray = npt.NDArray[np.float64]


def run(
    settings: Settings, folder: Path, *, jobs: int = 1, on_part: Callable[[int, int], None] | None = None
) -> dict[str, Any]:
    """Analyse every study, write metrics.json, folds.csv and a figure; return the metrics."""
    cache_folder = folder / "cache"
    cache_folder.mkdir(exist_ok=True)
    wanted = list(settings.studies())
    rows: dict[str, dict[str, Any]] = {}
    for study in wanted:
        path = _path(cache_folder, settings, study)
        if path.exists():
            rows[study.id] = storage.read_json(path)
    left = [study for study in wanted if study.id not in rows]
    for index, row in fanout.spread(analyse, left, (settings, fanout.side_by_side(jobs)), jobs=jobs):
        storage.write_json(_path(cache_folder, settings, left[index]), row)
        rows[left[index].id] = row
        if on_part is not None:
            on_part(len(rows), len(wanted))
    ordered = [rows[study.id] for study in wanted]
    result = {
        "title": "Calibration of contrasts and intervals",
        "experiment": "study",
        "quick": settings.quick,
        "simulations": settings.simulations,
        "first_seed": settings.first_seed,
        "effects": EFFECTS,
        "found": {name: _share([row["found"] for row in _of(ordered, name)]) for name in ("none", *ASKED)},
        "coverage": _coverage(ordered),
        "label_accuracy": {name: float(np.mean([r["label_accuracy"] for r in _of(ordered, name)])) for name in EFFECTS},
        "covariate": _covariate(_of(ordered, "covariate")),
        "what_if": {name: what_if(_of(ordered, name)) for name in EFFECTS if name.startswith("barrier")},
    }
    results.write_results(folder, result, ordered)
    results.write_figures(folder / "figures", {"study": partial(_draw, result=result)})
    return result


def _path(folder: Path, settings: Settings, study: Study) -> Path:
    draws = settings.resamples, settings.imagined, settings.starts
    fixed = f"{draws} {settings.cohort} {EFFECTS[study.scenario]} {__version__}"
    return folder / f"{hashlib.sha256(fixed.encode()).hexdigest()[:12]}-{study.id}.json"


def analyse(study: Study, settings: Settings, parallel: bool) -> dict[str, Any]:
    """Fit, contrast and intervals of one study, and which of them are right."""
    if parallel:
        limit_threads(1)
    began = perf_counter()
    world = settings.world(study.scenario)
    cohort = world.simulate(study.seed)
    work = barrier_study if world.barriers else _covariate_study if world.covariate else _condition_study
    row = {"scenario": study.scenario, "seed": study.seed, **work(world, cohort, settings, study)}
    return row | {"seconds": perf_counter() - began}


def _condition_study(world: CohortWorld, cohort: Cohort, settings: Settings, study: Study) -> dict[str, Any]:
    demos = cohort.demonstrations
    assert demos.labels is not None
    model = HIQL(2, n_starts=settings.starts, seed=study.seed).fit(demos)
    labels = model.predict(demos)
    found = contrast(model, demos, np.asarray(demos.groups), cohort.condition, levels=CONDITIONS, seed=study.seed)
    smallest: dict[str, float] = {}
    for test in found["tests"]:
        smallest[test["measure"]] = min(smallest.get(test["measure"], 1.0), test["p_adjusted"])
    asked = ASKED.get(study.scenario, tuple(smallest))
    order = np.argsort(match(demos.labels, labels, 2, 2).mapping)
    truth = _truth(world)
    covers = _contrast_covers(found["tests"], truth, order)
    known = contrast(Labelled(), demos, np.asarray(demos.groups), cohort.condition, levels=CONDITIONS, seed=study.seed)
    covers |= {f"{name}_labelled": hits for name, hits in _contrast_covers(known["tests"], truth, [0, 1]).items()}
    if study.scenario == "none":
        sure = intervals(model, demos, settings.resamples, seed=study.seed)["numbers"]
        for name in ("usage", "dwell", "switch_rate"):
            low, high = (np.atleast_1d(end)[order if name != "switch_rate" else [0]] for end in sure[name]["interval"])
            real = np.atleast_1d(truth[name][0])
            covers[f"fit_{name}"] = [bool(a <= x <= b) for a, x, b in zip(low, real, high, strict=True)]
    return {
        "found": any(smallest[name] <= LEVEL for name in asked),
        "p_adjusted": smallest,
        "covers": covers,
        "label_accuracy": label_accuracy(demos.labels, labels),
    }


class Labelled:
    """Knows the intention of every step: what is left of a contrast's errors when labels are right."""

    n_intentions, mdp_ = 2, None

    def predict_proba(self, demos: Demonstrations) -> FloatArray:
        """Certainty, (n, K)."""
        assert demos.labels is not None
        return np.asarray(np.eye(2)[demos.labels])


@cache
def _truth(world: CohortWorld) -> dict[str, FloatArray]:
    return world.truth()


def _contrast_covers(
    tests: Sequence[dict[str, Any]], truth: dict[str, FloatArray], order: Any
) -> dict[str, list[bool]]:
    """Whether the interval of each difference holds the true one; ``order`` are our intentions in the true order."""
    true_of = {int(ours): k for k, ours in enumerate(order)}
    covers: dict[str, list[bool]] = {}
    for test in tests:
        if test["measure"] not in truth:
            continue
        first, second = truth[test["measure"]]
        if test["intention"] is not None:
            first, second = first[true_of[test["intention"]]], second[true_of[test["intention"]]]
        low, high = test["interval"]
        covers.setdefault(f"contrast_{test['measure']}", []).append(bool(low <= second - first <= high))
    return covers


def _covariate_study(world: CohortWorld, cohort: Cohort, settings: Settings, study: Study) -> dict[str, Any]:
    """A covariate drives switching: its effect, with its interval, and what it is worth on other animals."""
    demos = _with_covariate(cohort)
    assert demos.labels is not None
    options: dict[str, Any] = {"n_starts": settings.starts, "starts": "windows", "device": "cpu", "seed": study.seed}
    model = Intentions(2, switching=Markov(inputs=True), **options).fit(demos)
    plain = Intentions(2, switching="markov", **options).fit(demos)
    other = _with_covariate(world.simulate(10**6 + study.seed))
    labels = model.predict(demos)
    order = np.argsort(match(demos.labels, labels, 2, 2).mapping)
    found = intervals(model, demos, settings.resamples, seed=study.seed)["numbers"]["coefficients"]
    low, high = (np.asarray(end)[np.ix_(order, order)][..., 0] for end in found["interval"])
    truth = {(0, 1): world.covariate, (1, 0): -world.covariate}
    return {
        "found": bool(low[0, 1] > 0 or high[0, 1] < 0),
        "p_adjusted": {},
        "covers": {"covariate": [bool(low[at] <= value <= high[at]) for at, value in truth.items()]},
        "label_accuracy": label_accuracy(demos.labels, labels),
        "gain": model.score(other) - plain.score(other),
    }


def _with_covariate(cohort: Cohort) -> Demonstrations:
    return replace(cohort.demonstrations, observations=cohort.covariate[:, None].astype(np.float32))


# -- what comes out ----------------------------------------------------------------------------------------------------


def _of(rows: Sequence[dict[str, Any]], scenario: str) -> list[dict[str, Any]]:
    return [row for row in rows if row["scenario"] == scenario]


def _share(hits: Sequence[bool]) -> dict[str, float]:
    count, n = sum(hits), len(hits)
    ends = stats.binomtest(count, n).proportion_ci(0.95)
    return {"found": count, "of": n, "share": count / n, "low": float(ends.low), "high": float(ends.high)}


def _coverage(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Share of intervals that hold the truth, of each kind in each scenario, and of each kind over all of them."""
    found: dict[str, Any] = {}
    for scenario in EFFECTS:
        for row in _of(rows, scenario):
            for name, hits in row["covers"].items():
                # The first of two intentions: with K = 2 the second is nearly the same question.
                found.setdefault(name, {}).setdefault(scenario, []).append(hits[0])
    return {name: {scenario: _share(hits) for scenario, hits in own.items()} for name, own in found.items()}


def _covariate(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    gains = [row["gain"] for row in rows]
    return {"mean_gain": float(np.mean(gains)), "gains": float(np.mean(np.array(gains) > 0))}


def _draw(path: Path, result: dict[str, Any]) -> str:
    shares = [(f"contrast finds: {name}", found) for name, found in result["found"].items()]
    shares += [
        (f"{name}, {scenario}", found)
        for name, own in result["coverage"].items()
        if not name.endswith("_labelled")
        for scenario, found in own.items()
    ]
    figure, (ax,) = style.new_figure(width=5.6, height=0.8 + 0.22 * len(shares))
    for y, (name, found) in enumerate(shares):
        ax.plot((found["low"], found["high"]), (y, y), color=style.PALETTE[0], linewidth=1.4, label=f"{name} interval")
        ax.plot(found["share"], y, "o", color=style.PALETTE[0], markersize=4, label=name)
    for x in (0.05, 0.8, 0.95):
        ax.axvline(x, color=style.MUTED, linewidth=0.7, linestyle=":")
    ax.set_yticks(range(len(shares)), labels=[name for name, _ in shares])
    ax.set_xlim(0, 1)
    ax.invert_yaxis()
    ax.set_xlabel("share of simulated studies")
    style.save(figure, path)
    return (
        "How often contrasts find a difference (none: false positives; 0.05 is the level), and how often 95% intervals "
        "hold the truth, with binomial intervals."
    )


def command(folder: RunFolder, fits: FitsOptions, *, quick: bool, first_seed: int = 0) -> None:
    """`prism reproduce study`."""
    settings = replace(Settings.small() if quick else Settings(), first_seed=first_seed)

    def work(path: Path, report: Any) -> dict[str, Any]:
        return run(settings, path, jobs=fits.jobs, on_part=lambda done, total: report("studies", done, total, ""))

    config = {"settings": asdict(settings)}
    folder.make(work, print_study, progress=lambda: counting("studies"), config=config, report=False)


def print_study(metrics: Mapping[str, Any]) -> None:
    """How often contrasts find something, and how often intervals hold the truth."""
    rows = [{"what": f"contrast finds a difference: {name}", **found} for name, found in metrics["found"].items()]
    rows += [
        {"what": f"interval holds the truth: {name}, {scenario}", **found}
        for name, own in metrics["coverage"].items()
        for scenario, found in own.items()
    ]
    columns = {"measure": ("what", 0), "share": ("share", 3), "from": ("low", 3), "to": ("high", 3), "of": ("of", 0)}
    print_table(str(metrics["title"]), rows, columns)
    predicted = [{"what": name, **found} for name, found in metrics["what_if"].items()]
    shown = {"a barrier moves": ("what", 0), "cells inside": ("inside", 3), "prediction": ("prediction", 3)}
    shown |= {key.replace("_", " "): (key, 3) for key in ("unaware", "unchanged", "another_cohort")}
    print_table("Predicted visits, and their distance to those of new animals", predicted, shown | {"of": ("of", 0)})
