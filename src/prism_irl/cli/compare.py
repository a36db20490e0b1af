"""`prism compare`: several methods on the same folds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prism_irl.cli.options import ColumnOptions, FoldOptions, WorldOptions
from prism_irl.cli.runs import RunFolder
from prism_irl.models import registry


def compare(
    table: Path,
    *,
    folder: RunFolder,
    methods: str = "uniform,iavi,ngram,hiql,prism-past,prism-recurrent",
    intentions: int = 3,
    cut: FoldOptions = FoldOptions(),
    seeds: int = 1,
    intervals: int = 0,
    truth: Path | None = None,
    simulations: int = 20,
    columns: ColumnOptions = ColumnOptions(),
    world: WorldOptions = WorldOptions(),
) -> None:
    """Cross-validate several methods on a table, by the same proper likelihood.

    Beside them stand uniform, one intention (empirical) and a habit (ngram), whether they are named or not.

    Example: prism compare mouse.csv --methods prism-recurrent,hiql,swirl-2,iavi,bc --folds 5 --out runs/compare

    Example: prism compare mouse.csv --methods hiql,state+goals,recurrent+soft-2 --out runs/pairs

    Example: prism compare arm.csv --observe x,y --act vx,vy --methods markov+features-k3,state+landmarks --out runs/arm

    Parameters
    ----------
    table
        A .csv, .parquet or .npz file, several as one pattern in quotes, or the name of a data set: labyrinth.
    methods
        Comma-separated: NAMED; pairs such as state+goals (prism methods lists them); variants such as
        prism-recurrent-h2, hiql-hauto, state+goals-k4, prism-paper-lstm; MODULE:CLASS for your own.
    intentions
        Number of intentions of the methods that have several.
    seeds
        Fits per method and fold.
    intervals
        Resamples of the animals (trajectories, without --group) over what each scored when held out, for intervals of
        the likelihoods and of their differences; fits are not made again. 0 for none, 200 is usual.
    truth
        An .npz file with true rewards (Z, S, A) and transitions (S, A, S), for the expected value difference and the
        distance of rewards; needs true labels. If you like also policies (Z, S, A) of the expert (else Boltzmann, as
        resolute as the data are), discount (else 0.97) and start, the state s0.
    simulations
        How often the best predictor with several intentions is simulated, to be compared with the data in the report;
        0 leaves that out.
    """
    from prism_irl.cli.printing import print_experiment, print_score_intervals
    from prism_irl.cli.progress import fits_progress
    from prism_irl.cli.sources import read_source
    from prism_irl.evaluation.checks import check_simulations
    from prism_irl.evaluation.truth import read_truth
    from prism_irl.models.references import check_comparable
    from prism_irl.report.verdict import is_untested, verdict
    from prism_irl.robots.recordings import come_from_tokens
    from prism_irl.scale.fanout import cluster
    from prism_irl.studies import comparison
    from prism_irl.studies.intervals import scoring

    check_simulations(simulations)
    chosen = registry.methods(methods, intentions)
    source = read_source(table, columns, world)
    check_comparable(chosen, source.demos)
    scoring(source.demos, intervals)  # says what is wrong before a folder is made

    def work(path: Path, on_fit: Any) -> dict[str, Any]:
        return comparison.compare(
            source.demos,
            chosen,
            path,
            mdp=source.mdp,
            folds=cut.folds,
            by=cut.by,
            seeds=seeds,
            jobs=cut.jobs,
            extra=None if truth is None else read_truth(truth, source.demos),
            title=f"Comparison on {table.name}",
            on_fit=on_fit,
            events=source.events,
            layout=source.layout,
            tokens=come_from_tokens(table, source.demos),
            simulations=simulations,
            intervals=intervals,
        )

    def show(metrics: dict[str, Any]) -> None:
        print_experiment(metrics)
        print_score_intervals(metrics)
        for note in (*comparison.density_note(metrics), *comparison.best_two_note(metrics)):
            print(note)
        for finding in verdict(metrics):
            if is_untested(finding):
                print(finding.text)

    config = comparison.config(source.demos, chosen, folds=cut.folds, seeds=seeds, by=cut.by)
    config["data"] = {"file": table.name, "columns": columns.roles(), **config["data"]}
    with cluster(cut.scheduler):
        folder.make(work, show, progress=fits_progress, config=config)


compare.__doc__ = (compare.__doc__ or "").replace("NAMED", ", ".join(registry.NAMED))
