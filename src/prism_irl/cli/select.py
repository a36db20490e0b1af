"""`prism select`: how many intentions, from evidence against a habit, likelihood, and the agreement of halves."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from prism_irl.cli.options import ColumnOptions, FoldOptions, WorldOptions
from prism_irl.cli.runs import RunFolder


def select_command(
    table: Path,
    *,
    folder: RunFolder,
    intentions: str = "1..6",
    switching: Literal["markov", "state", "recurrent", "independent"] = "markov",
    history: int = 1,
    cut: FoldOptions = FoldOptions(),
    splits: int = 3,
    starts: int | None = None,
    surrogates: int = 199,
    max_iterations: int | None = None,
    simulations: int = 20,
    intervals: int = 0,
    seed: int = 0,
    columns: ColumnOptions = ColumnOptions(),
    world: WorldOptions = WorldOptions(),
) -> None:
    """Say how many intentions the data identifies: whether there are any, what predicts, and what halves agree on.

    The fits are those of prism fit with the same method, number of intentions and seed.

    Example: prism select mouse.csv --intentions 1..6 --out runs/select

    Parameters
    ----------
    table
        A .csv, .parquet or .npz file, several as one pattern in quotes, or the name of a data set: labyrinth.
    folder.resume
        Go on with an interrupted selection, or add numbers of intentions; finished fits are not made again.
    intentions
        Numbers of intentions to try, such as 1..6 or 2,3,4.
    switching
        How intentions switch; markov takes seconds per fit, a network minutes.
    history
        Policies depend on the last so many states.
    splits
        Ways to divide the data (the animals, where --group names several) into halves, whose labellings are compared.
    starts
        Starts of every fit [default: the model's].
    surrogates
        Simulations of a habit without intentions that the data is tested against at most (prism evidence); 0: no test.
    max_iterations
        EM iterations at most [default: the model's].
    simulations
        How often the recommended fit is simulated, to be compared with the data in the report; 0 leaves that out.
    intervals
        Resamples of the animals (trajectories, without --group) over what each scored when held out, for intervals of
        the likelihoods and of their differences; fits are not made again. 0 for none, 200 is usual.
    seed
        The one source of randomness.
    """
    from prism_irl.cli.printing import print_evidence, print_score_intervals, print_selection
    from prism_irl.cli.progress import fits_and_parts
    from prism_irl.cli.sources import content, read_source
    from prism_irl.evaluation.checks import check_simulations
    from prism_irl.scale.fanout import cluster
    from prism_irl.studies import continuous
    from prism_irl.studies.intervals import scoring
    from prism_irl.studies.selection import Select, parse_intentions, select

    check_simulations(simulations)
    settings = Select(
        intentions=parse_intentions(intentions),
        switching=switching,
        history=history,
        folds=cut.folds,
        by=cut.by,
        splits=splits,
        starts=starts,
        surrogates=surrogates,
        max_iterations=max_iterations,
        seed=seed,
    )
    source = read_source(table, columns, world)
    demos, title = source.demos, f"How many intentions in {table.name}?"
    if demos.state_space.continuous:
        continuous.check_halves(demos)
    else:
        demos.fold_indices(cut.folds, by=cut.by)  # refuses impossible folds before anything is written
    scoring(demos, intervals)

    def work(path: Path, callbacks: Any) -> dict[str, Any]:
        if demos.state_space.continuous:
            tried: dict[str, Any] = {"intentions": settings.intentions, "surrogates": max(surrogates, 1), "seed": seed}
            tried |= {"selects": True, "title": title}
            return continuous.evidence(demos, path, **tried, jobs=cut.jobs, on_part=callbacks[1])
        options: dict[str, Any] = {"mdp": source.mdp, "jobs": cut.jobs, "title": title, "events": source.events}
        options |= {"layout": source.layout, "simulations": simulations, "intervals": intervals}
        return select(demos, settings, path, on_fit=callbacks[0], on_part=callbacks[1], **options)

    def show(metrics: dict[str, Any]) -> None:
        if metrics.get("density"):
            return print_evidence(metrics)
        print_selection(metrics)
        print_score_intervals(metrics)

    with cluster(cut.scheduler):
        folder.make(
            work,
            show,
            progress=fits_and_parts,
            config={"data": {"sha256": demos.checksum(), "content": content(demos)}},
        )
