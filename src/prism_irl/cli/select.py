"""`prism select`: how many intentions, from the predictive likelihood and the agreement of independent fits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from prism_irl import storage
from prism_irl.cli.options import ColumnOptions, CommonOptions, given
from prism_irl.cli.run_folder import RunFolder
from prism_irl.errors import InputError

if TYPE_CHECKING:
    from prism_irl.data.demonstrations import Demonstrations
    from prism_irl.mdp import MDP
    from prism_irl.models.pair import PairModel
    from prism_irl.models.prism import SwitchingName
    from prism_irl.studies.cross_validation import Fit, Method
    from prism_irl.studies.selection import Candidate, Choice


def select_command(
    table: Path,
    *,
    out: Path,
    intentions: str = "1..6",
    switching: Literal["markov", "recurrent", "independent"] = "markov",
    history: int = 1,
    folds: int = 5,
    by: Literal["trajectory", "group"] = "trajectory",
    sets: int = 3,
    starts: int | None = None,
    max_iterations: int | None = None,
    jobs: int = 2,
    scheduler: str | None = None,
    seed: int = 0,
    columns: ColumnOptions | None = None,
    events: tuple[str, ...] = (),
    overwrite: bool = False,
    resume: bool = False,
    common: CommonOptions | None = None,
) -> None:
    """Say how many intentions the data identifies: what predicts, and what independent fits agree on.

    Example: prism select mouse.csv --intentions 1..6 --out runs/select

    Parameters
    ----------
    table
        A .csv, .parquet or .npz file, or the name of a data set: labyrinth.
    out
        Folder of the results.
    intentions
        Numbers of intentions to try, such as 1..6 or 2,3,4.
    switching
        How intentions switch; markov takes seconds per fit, a network minutes.
    history
        Policies depend on the last so many states.
    folds
        Parts of the cross-validation.
    by
        What a fold keeps together.
    sets
        Independent sets of starts on all data, whose winners are compared.
    starts
        Starts per set [default: 8 for markov, 4 for a network].
    max_iterations
        EM iterations at most [default: the model's].
    jobs
        Fits that run at the same time.
    scheduler
        Address of a running Dask scheduler, tcp://host:port, whose workers make the fits instead of this machine.
    seed
        The one source of randomness.
    events
        Column with 1 where something happened (water came), else 0: marked in the report, unseen by a fit; may repeat.
    overwrite
        Replace a selection that is already there.
    resume
        Go on with an interrupted selection, or add numbers of intentions; finished fits are not made again.
    """
    folder = RunFolder(out, overwrite=overwrite, resume=resume, common=common)
    settings = Select(
        intentions=parse_intentions(intentions),
        switching=switching,
        history=history,
        folds=folds,
        by=by,
        sets=sets,
        starts=starts,
        max_iterations=max_iterations,
        seed=seed,
    )
    from prism_irl.cli.printing import print_selection
    from prism_irl.cli.progress import fits_progress
    from prism_irl.cli.sources import read_source
    from prism_irl.scale.fanout import cluster

    source = read_source(table, given(columns), events)
    demos, title = source.demos, f"How many intentions in {table.name}?"
    demos.fold_indices(folds, by=by)  # refuses impossible folds before anything is written

    def work(path: Path, on_fit: Any) -> dict[str, Any]:
        return select(
            demos, settings, path, mdp=source.mdp, jobs=jobs, title=title, on_fit=on_fit, events=source.events
        )

    with cluster(scheduler):
        folder.make(
            work,
            print_selection,
            progress=fits_progress,
            config={"data": {"sha256": demos.checksum()}},
            stale=("cache/*.*",),
        )


# -- the study ---------------------------------------------------------------------------------------------------------

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
    sets, starts : independent sets of starts on all data; starts None is 8 for a constant kernel and 4 for a
        network
    cv_starts : starts of every fit of the cross-validation, None is the model's default
    max_iterations : EM iterations at most, None is the model's default
    seed : the one source of randomness
    """

    intentions: tuple[int, ...] = (1, 2, 3, 4, 5, 6)
    switching: SwitchingName = "markov"
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
        from prism_irl.models.hiql import HIQL
        from prism_irl.models.prism import PRISM

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
    from prism_irl.studies import selection
    from prism_irl.studies.cross_validation import Method, cross_validate

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
    from prism_irl.studies import selection, shown

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
    from prism_irl.studies import selection
    from prism_irl.studies.cross_validation import table

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
    import pandas as pd

    from prism_irl.figures import selection as drawing
    from prism_irl.figures import style
    from prism_irl.studies import selection

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
