"""`prism reproduce tutorial`: what the tutorial's commands say about mice whose intentions are known.

Every mouse is made as on the page, `prism select` and `prism fit` see what they see there, and the pages that they
would write are read: is there a "Good" under "Can I trust it?", or beside the recommended number, of a labelling that
is right at less than 90% of the steps? The fit is judged as with ``--evidence``, without which it is never called good.
New bouts are scored and segmented as at the end of the page, beside the exact filter, which knows the simulator.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from prism_irl import __version__
from prism_irl.cli.options import FitsOptions
from prism_irl.cli.printing import cell, print_table
from prism_irl.cli.progress import counting
from prism_irl.cli.runs import RunFolder
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.devices import limit_threads
from prism_irl.evaluation.metrics import infer_once, label_metrics, summary
from prism_irl.models.describe import describe
from prism_irl.models.intentions import Intentions
from prism_irl.models.references import WorldOracle
from prism_irl.report.answers import questions
from prism_irl.report.explorer import read_explorer
from prism_irl.report.names import default_names
from prism_irl.report.verdict import verdict
from prism_irl.scale import fanout
from prism_irl.storage import read_plain
from prism_irl.studies import results
from prism_irl.studies.null import OnPart
from prism_irl.studies.selection import Select, select
from prism_irl.worlds.frustration import ACTIONS, FrustrationWorld

RIGHT = 0.9
"""Share of steps with the true intention from which on a labelling counts as right."""
OWN_SEED = 7
"""The mouse of the page."""
ANIMALS = 6
SELECT = Select(intentions=(1, 2, 3), folds=2, splits=1, starts=2, max_iterations=30, surrogates=19)
FIT = {"n_starts": 2, "max_iterations": 60}
TRUST = "Can I trust it?"


@dataclass(frozen=True)
class Tutorial:
    """The experiment.

    Parameters
    ----------
    seeds : of the simulated mice; 7 is the mouse of the page
    bouts : of every mouse; three quarters of them are analysed, the others are new
    select, fit : options of the two commands
    """

    seeds: tuple[int, ...] = tuple(range(20))
    bouts: int = 160
    select: Select = SELECT
    fit: dict[str, Any] = field(default_factory=lambda: dict(FIT))
    quick: bool = False

    @classmethod
    def small(cls) -> Tutorial:
        """Three mice, that of the page among them."""
        return cls(seeds=(OWN_SEED, 0, 1), quick=True)


def run(settings: Tutorial, folder: Path, *, jobs: int = 1, on_part: OnPart | None = None) -> dict[str, Any]:
    """Type the commands for every mouse, write metrics.json and folds.csv; return the metrics."""
    cache = folder / "cache"
    cache.mkdir(exist_ok=True)
    key = hashlib.sha256(f"{replace(settings, seeds=())!r} {__version__}".encode()).hexdigest()[:12]
    rows = fanout.remembered(
        follow,
        settings.seeds,
        (settings, fanout.side_by_side(jobs)),
        lambda seed: cache / f"{key}-{seed:04d}.json",
        jobs=jobs,
        on_rows=None if on_part is None else lambda done: on_part(done, len(settings.seeds)),
    )
    own = next((row for row in rows if row["seed"] == OWN_SEED), None)
    result = {
        "title": "The tutorial, over many mice",
        "experiment": "tutorial",
        "quick": settings.quick,
        "seeds": len(settings.seeds),
        "commands": {name: count([row[name] for row in rows]) for name in ("select", "fit")},
        "new_bouts": {name: summary([row["new"][name] for row in rows]) for name in rows[0]["new"]},
        "own": None if own is None else own["new"],
        "rows": rows,
    }
    results.write_results(folder, result | {"notes": notes(result)}, rows)
    return result | {"notes": notes(result)}


def follow(seed: int, settings: Tutorial, parallel: bool) -> dict[str, Any]:
    """What both commands say about one mouse, and what the truth says about them."""
    if parallel:
        limit_threads(1)
    world = FrustrationWorld()
    truth = world.simulate(settings.bouts, seed=seed).demonstrations
    mouse, known = table(truth), np.arange(settings.bouts * 3 // 4)
    new = np.arange(len(known), settings.bouts)
    selected, evidence = _select(mouse.subset(known), truth.subset(known), settings.select)
    model = Intentions(2, **settings.fit).fit(mouse.subset(known))
    found = infer_once(model, mouse.subset(known))
    metrics = read_plain(describe(model, mouse.subset(known)).to_json()) | {"evidence": evidence}
    trust = [finding.level for finding in verdict(metrics) if finding.topic == "trust"]
    fitted = {
        "n_intentions": 2,
        "good": "good" in trust,
        "label_accuracy": _accuracy(found.labels, truth.subset(known)),
    }
    later, oracle = infer_once(model, mouse.subset(new)), WorldOracle(world).fit(truth)
    return {
        "seed": seed,
        "select": selected,
        "fit": fitted,
        "new": {
            "predictive_ll": float(later.log_likelihood.mean()),
            "label_accuracy": _accuracy(later.labels, truth.subset(new)),
            "oracle_ll": oracle.score(truth.subset(new)),
            "oracle_accuracy": _accuracy(oracle.predict(truth.subset(new)), truth.subset(new)),
        },
    }


def table(truth: Demonstrations) -> Demonstrations:
    """The table of the page, cells and moves by their names, without the true intentions."""
    steps = truth.to_pandas()
    steps["cell"] = [f"x{s % 5}y{s // 5}" for s in steps["state"]]
    steps["move"] = [ACTIONS[a] for a in steps["action"]]
    steps["animal"] = [f"mouse{t % ANIMALS}" for t in steps["trajectory"]]
    steps = steps.rename(columns={"trajectory": "bout"})[["animal", "bout", "cell", "move"]]
    return Demonstrations.from_table(steps, trajectory="bout", state="cell", action="move", group="animal")


def _select(mouse: Demonstrations, truth: Demonstrations, settings: Select) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the page of `prism select` says and shows, and the evidence that it found."""
    with tempfile.TemporaryDirectory() as name:
        metrics = read_plain(select(mouse, settings, Path(name)))
        explorer = read_explorer(Path(name))
    assert explorer is not None
    K = explorer["n_intentions"]
    asked = questions(metrics, explorer, default_names(K))
    trust = next(question for question in asked if question.title == TRUST)
    recommended = verdict(metrics)[0].level
    labels = np.concatenate([np.reshape(one["p"], (-1, K)).argmax(axis=1) for one in explorer["trajectories"]])
    row = {
        "n_intentions": K,
        "good": K > 1 and "good" in (recommended, *(finding.level for finding in trust.findings)),
        "label_accuracy": None if K == 1 else _accuracy(labels, truth),
        "agreement": metrics["methods"][f"k{K}"]["agreement"],
        "p_value": metrics["evidence"]["p_value"],
    }
    return row, metrics["evidence"]


def _accuracy(labels: npt.NDArray[Any], truth: Demonstrations) -> float:
    return label_metrics(np.asarray(labels, np.int64), truth)["label_accuracy"]


def count(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """How many labellings are called good, how many are wrong, and how many are both."""
    good = [row["good"] for row in rows]
    wrong = [row["label_accuracy"] is not None and row["label_accuracy"] < RIGHT for row in rows]
    return {
        "of": len(rows),
        "two_intentions": sum(row["n_intentions"] == 2 for row in rows),
        "good": sum(good),
        "wrong": sum(wrong),
        "good_and_wrong": sum(a and b for a, b in zip(good, wrong, strict=True)),
    }


def notes(result: Mapping[str, Any]) -> list[str]:
    """The outcome in words."""
    found = []
    for name, own in result["commands"].items():
        found.append(
            f"prism {name} calls {own['good']} of {own['of']} labellings good, {own['good_and_wrong']} of which are "
            f"right at less than {100 * RIGHT:.0f}% of the steps; {own['wrong']} of all are."
        )
    return found


def command(folder: RunFolder, fits: FitsOptions, *, quick: bool) -> None:
    """`prism reproduce tutorial`."""
    settings = Tutorial.small() if quick else Tutorial()

    def work(path: Path, report: Any) -> dict[str, Any]:
        return run(settings, path, jobs=fits.jobs, on_part=lambda done, total: report("mice", done, total, ""))

    config = {"settings": asdict(settings)}
    folder.make(work, print_tutorial, progress=lambda: counting("mice"), config=config, report=False)


def print_tutorial(metrics: Mapping[str, Any]) -> None:
    """What the tutorial's commands called good, and how new bouts were predicted."""
    rows = [{"what": f"prism {name}", **found} for name, found in metrics["commands"].items()]
    columns = {"measure": ("what", 0), "mice": ("of", 0), "good": ("good", 0), "wrong": ("wrong", 0)}
    print_table(str(metrics["title"]), rows, {**columns, "good and wrong": ("good_and_wrong", 0)})
    new = metrics["new_bouts"]
    print(f"new bouts: predictive LL {cell(new['predictive_ll'], 3)} (exact filter {cell(new['oracle_ll'], 3)}),")
    print(f"true intention {cell(new['label_accuracy'], 3)} (exact filter {cell(new['oracle_accuracy'], 3)})")
    for note in metrics["notes"]:
        print(note)
