"""`prism select`: how many intentions, from the predictive likelihood and the agreement of independent fits."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from prism_irl.cli.options import ColumnOptions, FoldOptions
from prism_irl.cli.run_folder import RunFolder


def select_command(
    table: Path,
    *,
    folder: RunFolder,
    intentions: str = "1..6",
    switching: Literal["markov", "recurrent", "independent"] = "markov",
    history: int = 1,
    cut: FoldOptions = FoldOptions(),
    sets: int = 3,
    starts: int | None = None,
    max_iterations: int | None = None,
    seed: int = 0,
    columns: ColumnOptions = ColumnOptions(),
) -> None:
    """Say how many intentions the data identifies: what predicts, and what independent fits agree on.

    Example: prism select mouse.csv --intentions 1..6 --out runs/select

    Parameters
    ----------
    table
        A .csv, .parquet or .npz file, or the name of a data set: labyrinth.
    folder.resume
        Go on with an interrupted selection, or add numbers of intentions; finished fits are not made again.
    intentions
        Numbers of intentions to try, such as 1..6 or 2,3,4.
    switching
        How intentions switch; markov takes seconds per fit, a network minutes.
    history
        Policies depend on the last so many states.
    sets
        Independent sets of starts on all data, whose winners are compared.
    starts
        Starts per set [default: 8 for markov, 4 for a network].
    max_iterations
        EM iterations at most [default: the model's].
    seed
        The one source of randomness.
    """
    from prism_irl.cli.printing import print_selection
    from prism_irl.cli.progress import fits_progress
    from prism_irl.cli.sources import read_source
    from prism_irl.scale.fanout import cluster
    from prism_irl.studies.select_intentions import Select, parse_intentions, select

    settings = Select(
        intentions=parse_intentions(intentions),
        switching=switching,
        history=history,
        folds=cut.folds,
        by=cut.by,
        sets=sets,
        starts=starts,
        max_iterations=max_iterations,
        seed=seed,
    )
    source = read_source(table, columns)
    demos, title = source.demos, f"How many intentions in {table.name}?"
    demos.fold_indices(cut.folds, by=cut.by)  # refuses impossible folds before anything is written

    def work(path: Path, on_fit: Any) -> dict[str, Any]:
        return select(
            demos, settings, path, mdp=source.mdp, jobs=cut.jobs, title=title, on_fit=on_fit, events=source.events
        )

    with cluster(cut.scheduler):
        folder.make(
            work,
            print_selection,
            progress=fits_progress,
            config={"data": {"sha256": demos.checksum()}},
            stale=("cache",),
        )
