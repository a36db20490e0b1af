"""`prism evidence`: whether there are intentions at all, or only a habit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prism_irl import limits
from prism_irl.cli.options import ColumnOptions, FoldOptions, WorldOptions
from prism_irl.cli.runs import RunFolder
from prism_irl.errors import InputError


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
    seed: int = 0,
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
    seed
        The one source of randomness.
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
        starts=starts,
        max_iterations=max_iterations,
        seed=seed,
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
        return study.evidence(source.demos, analysis, path, cloning=cloning, **known, **shared)

    with cluster(cut.scheduler):
        folder.make(
            work,
            print_evidence,
            progress=lambda: counting("parts"),
            config={"data": {"file": table.name, "columns": columns.roles(), "content": content(source.demos)}},
        )
