"""`prism analyze`: from a table to an answer in one command, and `prism_irl.analyze`, the same in Python.

Check, evidence, how many, fit and page are the commands of these names, one after the other, each in a folder of its
own inside the folder of the analysis; a step that is finished is not made again, and one that was interrupted goes on.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prism_irl import storage
from prism_irl.cli import runs
from prism_irl.cli.options import ColumnOptions, CommonOptions, Jobs, ModelOptions, Seed, WorldOptions, given
from prism_irl.cli.progress import Whole, patience, say
from prism_irl.cli.runs import RunFolder
from prism_irl.errors import InputError, one_line

if TYPE_CHECKING:
    import pandas as pd

    from prism_irl.data.demonstrations import Demonstrations
    from prism_irl.models.base import IntentionModel

REQUEST = "analysis.json"
"""What the analysis in a folder is about."""
FILES = ("map", "dynamics")
"""What is known of the world by the name of a file."""
QUICK_CHOICE: dict[str, Any] = {"intentions": "1..4", "starts": 2, "max_iterations": 30, "splits": 2}
QUICK_FIT: dict[str, Any] = {"n_starts": 2, "max_iterations": 30}
"""Options of the steps for a first look."""


def analyze_command(
    table: Path,
    *,
    out: Path | None = None,
    quick: bool = False,
    intentions: int | None = None,
    surrogates: int = 39,
    jobs: Jobs = 2,
    seed: Seed = 0,
    overwrite: bool = False,
    columns: ColumnOptions = ColumnOptions(),
    world: WorldOptions = WorldOptions(),
    common: CommonOptions = CommonOptions(),
) -> None:
    """From a table to an answer: check, evidence, how many, fit and page, in one command that goes on where it stopped.

    Example: prism analyze mouse.csv

    Example: prism analyze mouse.csv --quick --out runs/first-look

    Parameters
    ----------
    table
        A .csv, .tsv, .parquet or Excel file, or several as one pattern in quotes; columns are recognised by name and
        content, and said.
    out
        Folder of the results; the same command goes on there [default: runs/NAME of the table].
    quick
        A first look: fewer starts and iterations, and of many steps a sample in the test.
    intentions
        Number of intentions, where it is known [default: found].
    surrogates
        Simulations of a habit that the data is tested against, at most; two questions need 39 for a yes.
    overwrite
        Begin again where there is an analysis already.
    """
    folder = Path("runs") / (table.stem.strip("*?[]") or "analysis") if out is None else out
    settings = Settings(quick, intentions, surrogates, jobs, seed)
    result = _analyze(table, folder, settings, columns, world, overwrite=overwrite)
    if common.json:
        from prism_irl.cli.printing import print_json

        print_json({"answer": result.answer, "evidence": result.evidence, "page": str(result.page), **result.metrics})
        return
    print(one_line(result.answer))
    print(one_line(f"Page: {result.page}"))


def with_fits(arguments: list[str]) -> list[str]:
    """The arguments with the fit of an analysis where its folder stands for a run."""
    return [
        str(Path(word) / "fit") if before != "--out" and os.path.isfile(os.path.join(word, REQUEST)) else word
        for before, word in pairwise(["", *arguments])
    ]


@dataclass(frozen=True)
class Settings:
    """What is asked of an analysis beside data and columns."""

    quick: bool = False
    intentions: int | None = None
    surrogates: int = 39
    jobs: int = 2
    seed: int = 0


class Analysis:
    """What an analysis found: one sentence, tables, and the page.

    Attributes
    ----------
    folder, page : Path
        Where everything lies; the page is one HTML file.
    metrics : dict
        metrics.json of the fit.
    evidence : dict or None
        What the test against a habit without intentions found.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.page = folder, folder / "fit" / "report.html"
        self.metrics = storage.read_object(folder / "fit" / "metrics.json")
        self._columns: dict[str, str] = storage.read_object(folder / REQUEST)["columns"]
        tested = next((path for path in (folder / "evidence", folder / "select") if path.is_dir()), None)
        self.evidence: dict[str, Any] | None = (
            None if tested is None else storage.read_object(tested / "metrics.json").get("evidence")
        )

    @cached_property
    def model(self) -> IntentionModel:
        """The fitted model."""
        from prism_irl.models.registry import load

        return load(self.folder / "fit")

    @cached_property
    def demonstrations(self) -> Demonstrations:
        """The data as the model reads them: ``found.model.plot.raster(found.demonstrations, ax=ax)``."""
        from prism_irl.cli.fitted import open_run_data

        return open_run_data(self.folder / "fit").demos

    @cached_property
    def names(self) -> list[str]:
        """What the K intentions are called: as somebody named them, else by what they do."""
        from prism_irl.report.names import default_names, names_in

        K = int(self.metrics["n_intentions"])
        return names_in(self.folder / "fit", K) or default_names(K)

    @property
    def answer(self) -> str:
        """One sentence: whether there are intentions, how many, and what they are after."""
        from prism_irl.report.answers import answer_of_run

        return answer_of_run(self.folder / "fit", self.evidence)

    # -- tables --------------------------------------------------------------------------------------------------------

    @cached_property
    def segments(self) -> pd.DataFrame:
        """Rows of the table with the intention of every step and its probabilities p_0, …, p_{K−1}."""
        import pandas as pd

        return pd.read_parquet(self.folder / "fit" / "segments.parquet")

    @cached_property
    def trips(self) -> pd.DataFrame:
        """The trips of the page: from where to which goal, first and last step, arrived or not; else `stretches`."""
        import pandas as pd

        path = self.folder / "fit" / "trips.csv"
        if not path.is_file():
            return self.stretches
        trips = pd.read_csv(path, dtype=dict.fromkeys(("trajectory", "from", "to"), str))
        return trips.assign(name=trips["intention"].map(dict(enumerate(self.names))))

    @cached_property
    def stretches(self) -> pd.DataFrame:
        """Stretches of one intention: trajectory, first row, steps, intention and, of states, first and last."""
        import pandas as pd

        found, which = self.segments, "predicted_intention" if "predicted_intention" in self.segments else "intention"
        keys = [name for name in self._columns.get("trajectory", "trajectory").split(",") if name in found]
        time_column = self._columns.get("time", "")
        order: list[Any] = [*keys, *([time_column] if time_column in found else [])]
        rows = found.reset_index(names="row").sort_values(order, kind="stable")
        unit = rows[keys].astype(str).agg("/".join, axis=1)
        new = (unit != unit.shift()) | (rows[which] != rows[which].shift())
        pieces = rows.assign(trajectory=unit).groupby(new.cumsum().to_numpy())
        table = {"trajectory": pieces["trajectory"].first(), "row": pieces["row"].first(), "steps": pieces.size()}
        table |= {"intention": pieces[which].first()}
        table["name"] = table["intention"].map(dict(enumerate(self.names)))
        if (state := self._columns.get("state", "")) in found:
            table |= {"first": pieces[state].first(), "last": pieces[state].last()}
        if time_column in found:
            table |= {"begins": pieces[time_column].first(), "ends": pieces[time_column].last()}
        return pd.DataFrame(table).reset_index(drop=True)

    @cached_property
    def transitions(self) -> pd.DataFrame:
        """Share of the switches that lead from an intention (row) to another one (column)."""
        import pandas as pd

        pieces = self.stretches
        same = pieces["trajectory"] == pieces["trajectory"].shift(-1)
        counts = pd.crosstab(pieces["intention"][same], pieces["intention"].shift(-1)[same].astype(int))
        counts = counts.reindex(index=range(len(self.names)), columns=range(len(self.names)), fill_value=0)
        shares = counts.div(counts.sum(axis=1).replace(0, 1), axis=0)
        return shares.set_axis(self.names, axis=0).set_axis(self.names, axis=1)

    @property
    def policies(self) -> pd.DataFrame | None:
        """Probability of every action (column) in every state under every intention; None of continuous data."""
        return self._of_choices("policy")

    @property
    def rewards(self) -> pd.DataFrame | None:
        """Reward of every action (column) in every state under every intention; of continuous data, in every cell."""
        return self._of_choices("reward")

    def _of_choices(self, what: str) -> pd.DataFrame | None:
        import pandas as pd

        path = self.folder / "fit" / "rewards.csv"
        table = pd.read_csv(path) if path.is_file() else pd.DataFrame()
        if "intention" in table:
            table["intention"] = [self.names[int(k)] for k in table["intention"]]
        if not {what, "state", "action"} <= set(table):
            return table if what == "reward" and what in table else None
        return table.pivot_table(index=["intention", "state"], columns="action", values=what, sort=False)

    def __repr__(self) -> str:
        return f"{self.answer}\nPage: {self.page}"

    def _repr_html_(self) -> str:
        """Answer and page for a notebook."""
        import html

        drawn = (self.folder / "fit" / "figures" / f"{name}.svg" for name in ("maps", "phases", "segmentation"))
        map_ = next((path for path in drawn if path.is_file()), None)
        picture = "" if map_ is None else map_.read_text(encoding="utf-8").partition("?>")[2]
        page = html.escape(str(self.page))
        return f"<p>{html.escape(self.answer)}</p>{picture}<p><a href='{page}'>{page}</a></p>"


def analyze(
    data: pd.DataFrame | str | Path,
    *,
    out: str | Path = "runs/analysis",
    quick: bool = False,
    n_intentions: int | None = None,
    surrogates: int = 39,
    jobs: int = 2,
    seed: int = 0,
    overwrite: bool = False,
    **columns: Any,
) -> Analysis:
    """Return what `prism analyze` finds: intentions of a table, with tables of their own and a page.

    Parameters
    ----------
    data : DataFrame or path
        One row per step.
    out : folder
        Where everything is kept; the same call goes on there, or reads what is finished.
    quick : bool
        A first look: fewer starts and iterations.
    n_intentions : int, optional
        Number of intentions, where it is known.
    surrogates, jobs, seed : int
        Simulations of a habit, fits at the same time, and the one source of randomness.
    overwrite : bool
        Begin again where there is another analysis.
    **columns
        Columns and what is known of the world, by the names of the flags: ``state="cell"``, ``map="nodes.csv"``.
    """
    folder = Path(out)
    of_world = {name: columns.pop(name) for name in list(columns) if name in WorldOptions.__dataclass_fields__}
    unknown = set(columns) - set(ColumnOptions.__dataclass_fields__)
    if unknown:
        raise InputError(f"analyze has no option {sorted(unknown)[0]!r}; columns are named as on the command line.")
    if isinstance(data, str | Path):
        table = Path(data)
    else:
        with storage.writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            data.to_csv(folder / "table.csv", index=False)
        table = folder / "table.csv"
    known: dict[str, Any] = {name: Path(value) if name in FILES else value for name, value in of_world.items()}
    world = WorldOptions(**known)
    settings = Settings(quick, n_intentions, surrogates, jobs, seed)
    return _analyze(table, folder, settings, ColumnOptions(**columns), world, overwrite=overwrite)


# -- the steps ---------------------------------------------------------------------------------------------------------


def _analyze(
    table: Path, folder: Path, settings: Settings, columns: ColumnOptions, world: WorldOptions, *, overwrite: bool
) -> Analysis:
    """Make the steps that are not finished, and return what they found."""
    from prism_irl.cli.sources import read_table
    from prism_irl.cli.study import recognise

    with patience(f"reading {table.name}"):
        found = recognise(table, given(columns))
    named: dict[str, Any] = dict(found.columns)
    if columns.hz is None and found.hz is not None:
        named["hz"] = found.hz
    columns = replace(columns, events=tuple(found.events), **named)
    say(found.said)
    with patience(f"reading {table.name}"):
        demos = read_table(table, columns, world).demos
    say(f"{demos.n_steps:,} steps in {len(demos):,} trajectories.")
    request = {"data": demos.checksum(), "columns": found.columns, **vars(settings), "world": world.described()}
    del request["jobs"]
    _claim(folder, storage.read_plain(request), overwrite=overwrite)
    steps = _steps(table, folder, settings, columns, world, demos)
    left = {name: run for name in steps if (run := _unfinished(folder / name)) is not None}
    whole = Whole({work: size for name in left for work, size in SIZES[name].items()})
    for number, (name, run) in enumerate(left.items(), 1):
        say(f"step {number} of {len(left)}: {ABOUT[name]}")
        log = io.StringIO()
        try:
            with contextlib.redirect_stdout(log), whole.waiting():
                steps[name](run)
        finally:
            with (folder / "log.txt").open("a", encoding="utf-8") as file:
                file.write(log.getvalue())
    return Analysis(folder)


def _unfinished(folder: Path) -> RunFolder | None:
    """Where a step is to be made, or gone on with; None where it is finished."""
    run, marker = RunFolder(folder), runs.read_marker(folder) or {}
    if marker.get("state") == "finished":
        return None
    goes_on = any((run.begun / part).is_dir() for part in runs.LEFT_BEHIND)
    return replace(run, resume=goes_on, overwrite=bool(marker) and not goes_on)


ABOUT = {
    "evidence": "are there intentions beyond habit?",
    "select": "are there intentions beyond habit, and how many?",
    "fit": "what are they after, and when do they switch?",
}
"""What a step asks."""
SIZES: dict[str, dict[str, float]] = {
    "evidence": {"parts of the analysis": 2.0},
    "select": {"fits": 3.0, "habit and surrogates": 3.0},
    "fit": {"EM": 1.0},
}
"""How long the work of each step takes in comparison: what is left of all is told from the pace of what goes on."""


def _steps(
    table: Path, folder: Path, settings: Settings, columns: ColumnOptions, world: WorldOptions, demos: Demonstrations
) -> dict[str, Callable[[RunFolder], None]]:
    """The commands that are run, by the folders that they leave."""
    from prism_irl.cli.fit import fit
    from prism_irl.cli.options import FoldOptions
    from prism_irl.cli.select import evidence, select_command
    from prism_irl.models.default import default_pair
    from prism_irl.models.settings import defaults_of

    switching, rewards, reason = default_pair(demos)
    finds = "n_intentions" in (own := defaults_of(switching, rewards)) and own["n_intentions"] is None
    blind = replace(columns, labels=None, inputs=None, since=None, observations=())  # of the test, as study.toml has it
    shared: dict[str, Any] = {"columns": blind, "world": world, "seed": settings.seed}
    shared["surrogates"] = settings.surrogates
    shared["cut"] = FoldOptions(jobs=settings.jobs, folds=min(3 if settings.quick else 5, len(demos)))
    tested = not demos.state_space.continuous and len(demos) > 1

    def test(run: RunFolder) -> None:
        evidence(table, folder=run, **shared, quick=settings.quick)

    def choose(run: RunFolder) -> None:
        select_command(table, folder=run, **shared, simulations=0, **(QUICK_CHOICE if settings.quick else {}))

    def learn(run: RunFolder) -> None:
        known = next((path for path in (folder / "evidence", folder / "select") if path.is_dir()), None)
        K = settings.intentions
        if K is None and (folder / "select").is_dir():
            K = max(int(storage.read_object(folder / "select" / "metrics.json")["recommended"]), 1)
        asked: dict[str, Any] = {"seed": settings.seed} | ({} if K is None else {"n_intentions": K})
        if K == 1 and tested:
            asked |= {"switching": "single", "rewards": "tabular"}
        say(reason)
        model = ModelOptions(**asked, **(QUICK_FIT if settings.quick else {}))
        fit(table, folder=run, columns=columns, world=world, model=model, evidence=known)

    steps: dict[str, Callable[[RunFolder], None]] = {}
    if tested:
        steps["evidence" if finds or settings.intentions is not None else "select"] = (
            test if finds or settings.intentions is not None else choose
        )
    return steps | {"fit": learn}


def _claim(folder: Path, request: Mapping[str, Any], *, overwrite: bool) -> None:
    """Make the folder that of this analysis; one that holds another is refused, or emptied where that is asked for."""
    import shutil

    path = folder / REQUEST
    if path.is_file() and storage.read_object(path) == request and not overwrite:
        return
    there = [entry for entry in folder.iterdir() if entry.name != "table.csv"] if folder.is_dir() else []
    if there and not path.is_file():
        raise InputError(f"{folder} is not empty and holds no analysis of prism; choose another --out.")
    if there and not overwrite:
        raise InputError(f"{folder} holds an analysis of other data or options; choose another --out or --overwrite.")
    for name in ABOUT:
        if runs.read_marker(folder / name) is not None:
            shutil.rmtree(folder / name)
    with storage.writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    storage.write_json(path, dict(request))
