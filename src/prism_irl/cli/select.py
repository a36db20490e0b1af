"""`prism select`: how many intentions, from the predictive likelihood and the agreement of independent fits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console
from rich.table import Table

from prism_irl import storage
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.mdp import MDP
from prism_irl.models.hiql import HIQL
from prism_irl.models.pair import PairModel
from prism_irl.models.prism import PRISM
from prism_irl.studies import selection
from prism_irl.studies.cross_validation import Fit, Method, cross_validate, table
from prism_irl.studies.selection import Candidate, Choice

STARTS = {"markov": 8}  # a network takes minutes where a constant kernel takes a second
STARTS_OF_NETWORKS = 4
SAME = 1e-9  # nats per step: a fit made again with the same seed


@dataclass(frozen=True)
class Select:
    """Settings of a selection.

    Parameters
    ----------
    intentions : numbers of intentions to try
    switching : how intentions switch; "markov" is HIQL, compiled and quick
    history : policies depend on the last so many states
    folds : parts of the cross-validation
    by : what a fold keeps together
    sets, starts : independent sets of starts on all data; starts None is 16 for a constant kernel and 4 for a
        network
    cv_starts : starts of every fit of the cross-validation, None is the model's default
    max_iterations : EM iterations at most, None is the model's default
    seed : the one source of randomness
    """

    intentions: tuple[int, ...] = (1, 2, 3, 4, 5, 6)
    switching: str = "markov"
    history: int = 1
    folds: int = 5
    by: str = "trajectory"
    sets: int = 3
    starts: int | None = None
    cv_starts: int | None = None
    max_iterations: int | None = None
    seed: int = 0

    @property
    def starts_per_set(self) -> int:
        """Starts of each independent set."""
        return STARTS.get(self.switching, STARTS_OF_NETWORKS) if self.starts is None else self.starts

    def model(self, n_intentions: int) -> PairModel:
        """Return the unfitted model with K intentions."""
        given = {"n_starts": self.cv_starts, "max_iterations": self.max_iterations}
        options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        options |= {"history": self.history, "seed": self.seed}
        if self.switching == "markov":
            return HIQL(n_intentions, **options)
        return PRISM(n_intentions, switching=self.switching, **options)


def parse_intentions(text: str) -> tuple[int, ...]:
    """Read "1..6", "2,3,5" or "4"; numbers come back in increasing order."""
    found: set[int] = set()
    try:
        for part in text.split(","):
            first, _, last = part.partition("..")
            found.update(range(int(first), int(last or first) + 1))
    except ValueError:
        found = set()
    if not found or min(found) < 1:
        raise InputError(f"The numbers of intentions {text!r} cannot be read; write 1..6 or 2,3,4, from 1 upwards.")
    return tuple(sorted(found))


def select(
    demos: Demonstrations,
    settings: Select,
    folder: Path,
    *,
    mdp: MDP | None = None,
    jobs: int = 1,
    title: str = "How many intentions?",
    on_fit: Callable[[Fit, int], None] | None = None,
    events: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Fit every K, write metrics.json, table.csv, folds.csv, explorer.json and figures; return the metrics."""
    methods = [Method(f"k{k}", f"K={k}", settings.model(k)) for k in settings.intentions]
    for method in methods:
        method.model._check_parameters(demos)
    rows = []
    cache = folder / "cache"
    cache.mkdir(exist_ok=True)
    for fit in cross_validate(demos, methods, folds=settings.folds, by=settings.by, mdp=mdp, jobs=jobs, cache=cache):
        rows.append(fit.row)
        if on_fit is not None:
            on_fit(fit, len(methods) * settings.folds)
    rows.sort(key=lambda row: (row["method"], row["fold"]))
    winners = list(
        selection.independent_winners(
            demos,
            settings.model,
            settings.intentions,
            sets=settings.sets,
            starts=settings.starts_per_set,
            mdp=mdp,
            jobs=jobs,
            cache=cache,
        )
    )
    candidates = {
        k: selection.candidate(
            k,
            [row["predictive_ll"] for row in rows if row["method"] == f"k{k}"],
            [winner for winner in winners if winner.n_intentions == k],
            demos.offsets,
        )
        for k in settings.intentions
    }
    choice = selection.choose(candidates)
    result = _metrics(demos, settings, methods, rows, candidates, choice, title)
    _write(folder, result, rows, candidates, choice)
    score = max(winner.score for winner in winners if winner.n_intentions == choice.recommended)
    _explore(folder, demos, settings, mdp, candidates[choice.recommended], score, events)
    return result


def _explore(
    folder: Path,
    demos: Demonstrations,
    settings: Select,
    mdp: MDP | None,
    chosen: Candidate,
    score: float,
    events: Mapping[str, Any] | None,
) -> None:
    """Show the winner with the recommended number of intentions in the interactive part of the report.

    Only labels came back from the independent fits; the same seed makes the winner again.
    """
    from prism_irl.studies import shown

    K = chosen.n_intentions
    tried: list[tuple[float, PairModel]] = []
    for index in range(settings.sets if K > 1 else 1):
        model = selection.independent_model(settings.model(K), index, settings.starts_per_set).fit(demos, mdp)
        tried.append((max(float(start["score"]) for start in model.starts_), model))
        if tried[-1][0] >= score - SAME:
            break
    best = max(tried, key=lambda pair: pair[0])[1]
    captions = shown.write_shown(
        folder,
        demos,
        best,
        name=f"the winner of the independent fits with K={K}",
        how="It was fitted to all trajectories; the likelihoods in the table come from held-out folds.",
        facts={"agreement": chosen.agreement} if K > 1 else None,
        events=events,
    )
    shown.add_captions(folder, captions)


def _metrics(
    demos: Demonstrations,
    settings: Select,
    methods: Sequence[Method],
    rows: Sequence[dict[str, Any]],
    candidates: dict[int, Candidate],
    choice: Choice,
    title: str,
) -> dict[str, Any]:
    entries = table(methods, rows)
    for k, found in candidates.items():
        # Numbers of the fits on all data, in place of those of the folds.
        entries[f"k{k}"] |= {
            "standard_error": found.standard_error,
            "agreement": found.agreement,
            "minimum_use": found.minimum_use,
            "mean_dwell": found.mean_dwell,
            "minimum_dwell": found.minimum_dwell,
            "use": found.use,
            "dwell": found.dwell,
            "winner_spread": found.winner_spread,
        }
    return {
        "title": title,
        "experiment": "selection",
        "quick": False,
        "folds": settings.folds,
        "seeds": 1,
        "n_trajectories": len(demos),
        "n_steps": demos.n_steps,
        "switching": settings.switching,
        "history": settings.history,
        "sets": settings.sets,
        "starts": settings.starts_per_set,
        "best": choice.best,
        "by_likelihood": choice.by_likelihood,
        "recommended": choice.recommended,
        "recommendation": choice.words,
        "notes": [
            choice.words,
            f"Predictive likelihood by {settings.folds} folds over the {settings.by}; agreement is the mean adjusted "
            f"Rand index between the winners of {settings.sets} independent sets of {settings.starts_per_set} "
            f"starts on all data ({settings.switching} switching, history {settings.history}). An intention counts if "
            f"winners agree to {selection.AGREEMENT} or more, and each takes {100 * selection.MINIMUM_USE:.0f}% of the "
            f"steps and lasts {selection.MINIMUM_DWELL:.0f} steps or more.",
        ],
        "methods": entries,
    }


def _write(
    folder: Path,
    result: dict[str, Any],
    rows: Sequence[dict[str, Any]],
    candidates: dict[int, Candidate],
    choice: Choice,
) -> None:
    from prism_irl.figures import selection as drawing
    from prism_irl.figures import style

    storage.write_json(folder / "metrics.json", result)
    storage.write_text(folder / "folds.csv", pd.DataFrame(list(rows)).to_csv(index=False))
    listed = [
        {
            name: " ".join(f"{share:.4f}" for share in value) if isinstance(value, tuple) else value
            for name, value in found.row().items()
        }
        for found in candidates.values()
    ]
    storage.write_text(folder / "table.csv", pd.DataFrame(listed).to_csv(index=False))
    figure, (top, bottom) = style.new_figure(2, 1, height=3.4, sharex=True)
    with style.paper_style():
        drawing.likelihood_by_intentions(top, [found.row() for found in candidates.values()], choice.by_likelihood)
        drawing.agreement_by_intentions(
            bottom, [found.row() for found in candidates.values()], choice.recommended, threshold=selection.AGREEMENT
        )
        style.save(figure, folder / "figures" / "selection")
    caption = (
        "Above: predictive log-likelihood against the number of intentions, with one standard error over folds; the "
        "ring marks the smallest number within one standard error of the best. Below: agreement between the winners "
        "of independent fits; the ring marks the recommended number."
    )
    storage.write_json(folder / "figures" / "captions.json", {"selection": caption})


def print_selection(metrics: dict[str, Any]) -> None:
    """Print the table and the recommendation."""
    shown = Table(title=metrics["title"], title_justify="left")
    for heading in ("K", "predictive LL", "s.e.", "agreement", "least used", "mean dwell", "shortest dwell"):
        shown.add_column(heading, justify="right", no_wrap=True)
    for key, entry in metrics["methods"].items():
        mark = " ←" if key == f"k{metrics['recommended']}" else ""
        agreement = "–" if entry["agreement"] is None else f"{entry['agreement']:.2f}"
        shown.add_row(
            key.removeprefix("k") + mark,
            f"{entry['predictive_ll']['mean']:.4f}",
            f"{entry['standard_error']:.4f}",
            agreement,
            f"{100 * entry['minimum_use']:.1f}%",
            f"{entry['mean_dwell']:.1f}",
            f"{entry['minimum_dwell']:.1f}",
        )
    console = Console(width=None if Console().is_terminal else 110)
    console.print(shown)
    console.print(metrics["recommendation"], soft_wrap=not console.is_terminal, highlight=False)


def select_table(
    source: Path,
    settings: Select,
    columns: dict[str, Any],
    out: Path,
    *,
    jobs: int = 1,
    overwrite: bool = False,
    resume: bool = False,
    json: bool = False,
    events: Sequence[str] = (),
) -> dict[str, Any]:
    """Read a table or a named data set, select, and leave metrics, table, figure and report in ``out``."""
    from prism_irl.cli import run_folder as runs
    from prism_irl.cli.events import read_events, refuse_events
    from prism_irl.cli.printing import print_json
    from prism_irl.cli.progress import fits_progress
    from prism_irl.data import tables
    from prism_irl.datasets import NAMED
    from prism_irl.report.render import write_report

    mdp, marks = None, {}
    if str(source) in NAMED and not source.exists():
        refuse_events(str(source), events)
        load, dynamics = NAMED[str(source)]
        demos, mdp = load(), dynamics()
    else:
        table = tables.read(source, **columns)
        demos, marks = table.demonstrations, read_events(table, events)
    demos.fold_indices(settings.folds, by=settings.by)  # refuses impossible folds before anything is written
    folder = runs.prepare_folder(out, overwrite=overwrite, resume=resume)
    if overwrite and not resume:
        for old in (folder / "cache").glob("*.*"):
            old.unlink()
    with fits_progress() as on_fit:
        title = f"How many intentions in {source.name}?"
        result = select(demos, settings, folder, mdp=mdp, jobs=jobs, title=title, on_fit=on_fit, events=marks)
    storage.write_json(
        folder / "config.json",
        {"command": runs.command_line(), "versions": runs.versions(), "data": {"sha256": demos.checksum()}},
    )
    page = write_report(folder)
    if json:
        print_json(result)
    else:
        print_selection(result)
        print(f"Report: {page}")
    return result
