"""`prism evidence`: are there intentions; `prism compare`: several methods; `prism select`: how many intentions."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from prism_irl import limits
from prism_irl.cli.options import ColumnOptions, FoldOptions, Seed, WorldOptions
from prism_irl.cli.runs import RunFolder
from prism_irl.errors import InputError
from prism_irl.models import registry

QUICK: dict[str, Any] = {"starts": 1, "max_iterations": 20, "goal_steps": 8_000}
"""Of the test, for a first look."""


def evidence(
    table: Path,
    *,
    folder: RunFolder,
    intentions: str = "2,3",
    surrogates: int = 199,
    cut: FoldOptions = FoldOptions(),
    starts: int = 2,
    max_iterations: int = 40,
    cloning: bool = False,
    quick: bool = False,
    seed: Seed = 0,
    columns: ColumnOptions = ColumnOptions(),
    world: WorldOptions = WorldOptions(),
) -> None:
    """Say whether there are intentions beyond habit, and where the predictability of the behaviour comes from.

    A habit with as much memory as the data support, and with the individuals where --group names them, is simulated,
    and the simulations are analysed as the data are. Only what the data has and the simulations have not is evidence.

    On continuous data (--observe, --act) the habit goes on as the nearest recorded steps did, and the question is
    whether phases of disjoint halves agree more than on its simulations.

    Columns that --events names are tested, too: whether intentions say more about them than a habit would.

    Example: prism evidence mouse.csv --trajectory bout --group animal --events water --jobs 2 --out runs/evidence

    Parameters
    ----------
    table
        A .csv, .parquet or .npz file, several as one pattern in quotes, or the name of a data set: labyrinth.
    folder.resume
        Go on with an interrupted test, or add surrogates; finished parts are not made again.
    intentions
        Numbers of intentions of the chains that are tried, such as 2,3.
    surrogates
        Simulations of the habit at most; none is made after the answer is clear. Fewer than 39 cannot answer yes where
        states are places (19 elsewhere); 999 for an answer near the border.
    starts
        Starts of every chain.
    max_iterations
        EM iterations of every chain at most.
    cloning
        Add behaviour cloning, what a network predicts at best, to the budget; takes minutes.
    quick
        A first look: one start and 20 iterations of every chain, goals on trajectories of 8,000 steps at most, and no
        simulations of other habits, which show how the answer moves.
    """
    from prism_irl.cli.printing import print_evidence
    from prism_irl.cli.progress import counting
    from prism_irl.cli.sources import content, read_source
    from prism_irl.scale.fanout import cluster
    from prism_irl.studies import continuous
    from prism_irl.studies import evidence as study
    from prism_irl.studies.gains import Analysis
    from prism_irl.studies.selection import parse_intentions

    analysis = Analysis(
        intentions=parse_intentions(intentions),
        folds=cut.folds,
        by=cut.by,
        seed=seed,
        **(QUICK if quick else {"starts": starts, "max_iterations": max_iterations}),
    )
    if surrogates < 1:
        raise InputError(f"--surrogates is {surrogates}; give at least 39 for an answer that can be yes.")
    limits.check_option("surrogates", surrogates)
    source = read_source(table, columns, world)
    if source.demos.state_space.continuous:
        continuous.check_halves(source.demos)
    else:
        source.demos.fold_indices(cut.folds, by=cut.by)  # refuses impossible folds before anything is written

    def work(path: Path, report: Any) -> dict[str, Any]:
        shared: dict[str, Any] = {
            "surrogates": surrogates,
            "jobs": cut.jobs,
            "title": f"Are there intentions in {table.name}?",
            "on_part": lambda done, total, left: report("parts of the analysis", done, total, "", left=left),
        }
        if source.demos.state_space.continuous:
            return continuous.evidence(source.demos, path, intentions=analysis.intentions, seed=seed, **shared)
        known: dict[str, Any] = {"mdp": source.mdp, "events": source.events, "covariates": source.covariates}
        return study.evidence(source.demos, analysis, path, cloning=cloning, quick=quick, **known, **shared)

    config = {"data": {"file": table.name, "columns": columns.roles(), "content": content(source.demos)}}
    with cluster(cut.scheduler):
        folder.make(work, print_evidence, progress=lambda: counting("parts"), config=config)


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
    from prism_irl.robots.continuous import come_from_tokens
    from prism_irl.scale.fanout import cluster
    from prism_irl.studies import comparison
    from prism_irl.studies.intervals import scoring

    check_simulations(simulations)
    chosen = registry.methods(methods, intentions)
    source = read_source(table, columns, world)
    check_comparable(chosen, source.demos)
    scoring(source.demos, intervals)  # says what is wrong before a folder is made

    def work(path: Path, on_fit: Any) -> dict[str, Any]:
        options: dict[str, Any] = {
            "mdp": source.mdp,
            "folds": cut.folds,
            "by": cut.by,
            "seeds": seeds,
            "jobs": cut.jobs,
        }
        options |= {
            "events": source.events,
            "layout": source.layout,
            "simulations": simulations,
            "intervals": intervals,
        }
        options |= {"title": f"Comparison on {table.name}", "tokens": come_from_tokens(table, source.demos)}
        known = None if truth is None else read_truth(truth, source.demos)
        return comparison.compare(source.demos, chosen, path, extra=known, on_fit=on_fit, **options)

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
    seed: Seed = 0,
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

    config = {"data": {"sha256": demos.checksum(), "content": content(demos)}}
    with cluster(cut.scheduler):
        folder.make(work, show, progress=fits_and_parts, config=config)
