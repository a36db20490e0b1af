"""`prism compare`: several methods on the same folds."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from prism_irl.cli.options import ColumnOptions, CommonOptions, given
from prism_irl.cli.run_folder import RunFolder


def compare(
    table: Path,
    *,
    out: Path,
    methods: str = "uniform,iavi,ngram,hiql,prism,prism-recurrent",
    intentions: int = 3,
    folds: int = 5,
    seeds: int = 1,
    by: Literal["trajectory", "group"] = "trajectory",
    truth: Path | None = None,
    jobs: int = 2,
    scheduler: str | None = None,
    columns: ColumnOptions | None = None,
    events: tuple[str, ...] = (),
    overwrite: bool = False,
    resume: bool = False,
    common: CommonOptions | None = None,
) -> None:
    """Cross-validate several methods on a table, by the same proper likelihood.

    Example: prism compare mouse.csv --methods prism-recurrent,hiql,swirl-2,iavi,bc --folds 5 --out runs/compare

    Parameters
    ----------
    table
        A .csv, .parquet or .npz file, or the name of a data set: labyrinth.
    out
        Folder of the results.
    methods
        Comma-separated: uniform, iavi, iql, maxent, maxcausalent, mixture, ngram, bc, hiql, swirl-1, swirl-2, dirl,
        prism-paper, prism, prism-recurrent, prism-markov, prism-goals; variants such as prism-recurrent-h2, hiql-k4,
        prism-paper-lstm.
    intentions
        Number of intentions of the methods that have several.
    folds
        Parts of the cross-validation.
    seeds
        Fits per method and fold.
    by
        What a fold keeps together.
    truth
        An .npz file with true rewards (Z, S, A) and transitions (S, A, S), for the expected value difference; needs
        true labels.
    jobs
        Fits that run at the same time.
    scheduler
        Address of a running Dask scheduler, tcp://host:port, whose workers make the fits instead of this machine.
    events
        Column with 1 where something happened (water came), else 0: marked in the report, unseen by a fit; may repeat.
    overwrite
        Replace a comparison that is already there.
    resume
        Go on with an interrupted comparison; finished fits are not made again.
    """
    folder = RunFolder(out, overwrite=overwrite, resume=resume, common=common)
    from prism_irl.cli.progress import fits_progress
    from prism_irl.cli.reproduce import show_methods
    from prism_irl.cli.sources import read_source
    from prism_irl.evaluation.value_difference import read_truth
    from prism_irl.models.registry import method
    from prism_irl.scale.fanout import cluster
    from prism_irl.studies import comparison

    chosen = [method(identifier.strip(), intentions) for identifier in methods.split(",") if identifier.strip()]
    source = read_source(table, given(columns), events)

    def work(path: Path, on_fit: Any) -> dict[str, Any]:
        return comparison.compare(
            source.demos,
            chosen,
            path,
            mdp=source.mdp,
            folds=folds,
            seeds=seeds,
            by=by,
            jobs=jobs,
            extra=None if truth is None else read_truth(truth, source.demos),
            title=f"Comparison on {table.name}",
            on_fit=on_fit,
            fresh=overwrite,
            events=source.events,
        )

    def show(metrics: dict[str, Any]) -> None:
        show_methods(metrics)
        for note in comparison.best_two_note(metrics):
            print(note)

    config = comparison.config(source.demos, chosen, folds=folds, seeds=seeds, by=by)
    config["data"] = {"file": table.name, "columns": given(columns), **config["data"]}
    with cluster(scheduler):
        folder.make(work, show, progress=fits_progress, config=config)
