"""`prism select`: how many intentions, from the predictive likelihood and the agreement of independent fits."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from prism_irl.cli.options import ColumnOptions, CommonOptions, given
from prism_irl.cli.run_folder import RunFolder


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
    from prism_irl.cli.printing import print_selection
    from prism_irl.cli.progress import fits_progress
    from prism_irl.cli.sources import read_source
    from prism_irl.scale.fanout import cluster
    from prism_irl.studies.select_intentions import Select, parse_intentions, select

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
            stale=("cache",),
        )
