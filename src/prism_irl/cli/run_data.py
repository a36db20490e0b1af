"""The data that a run was fitted to, as the run keeps it: every row and column of the table, and the fitted model.

`segments.parquet` holds the table with the intentions beside it, so that a question that comes up after the fit (which
animal had the drug?) needs no file but the run.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from prism_irl import storage
from prism_irl.data.covariates import Inputs
from prism_irl.data.labels import COLUMN, is_file
from prism_irl.data.read import Table, read_data, read_rows
from prism_irl.data.rows import check_single
from prism_irl.data.vocabulary import Vocabulary, factorize, missing
from prism_irl.errors import InputError
from prism_irl.report.names import FILE as NAMES
from prism_irl.report.names import default_names, read_names

if TYPE_CHECKING:
    from prism_irl.data.demonstrations import Demonstrations
    from prism_irl.models.base import IntentionModel


class RunData(NamedTuple):
    """A fitted run: its model, its table, the columns that the fit was told of, and the names of the intentions.

    ``labels`` (n,) are the intentions of the steps as the run keeps them, ``inputs`` the covariates of its switching.
    """

    model: IntentionModel
    table: Table
    columns: dict[str, Any]
    names: list[str]
    labels: npt.NDArray[np.int64]
    inputs: Inputs | None = None

    @property
    def demos(self) -> Demonstrations:
        """The demonstrations that were fitted."""
        return self.table.demonstrations

    @property
    def frame(self) -> pd.DataFrame:
        """The rows of the table."""
        assert self.table.frame is not None
        return self.table.frame

    @property
    def group_column(self) -> str | None:
        """The column with the animals, where the fit had one."""
        if self.demos.groups is None:
            return None
        return str(self.columns.get("group") or "group")

    def column(self, name: str, role: str) -> Any:
        """A column that is the same in all rows of a trajectory, one value for each, (N,)."""
        if name not in self.frame.columns:
            there = ", ".join(map(str, self.frame.columns[:50]))
            raise InputError(f"There is no column {name!r} for --{role}; the run was fitted to a table with {there}.")
        return per_trajectory(self.demos, self.frame[name], name, self.table.order)

    def joined(self, path: Path, by: str, unit: str, who: Any) -> Any:
        """The column ``by`` of a second table that has a row per unit, or per trajectory, (N,)."""
        other = read_rows(path)
        trajectory = str(self.columns.get("trajectory") or "trajectory")
        key = trajectory if trajectory in other.columns else unit
        for name in (by, key):
            if name not in other.columns:
                there = ", ".join(map(str, other.columns[:50]))
                raise InputError(
                    f"{path} has no column {name!r}; it needs {by!r} and {unit!r} (or {trajectory!r}), and has {there}."
                )
            check_single(other, name)
        wanted = who if key == unit else np.array([self.demos.name_of(i) for i in range(len(self.demos))])
        known: dict[str, str] = {}
        for row, (name, value) in enumerate(zip(other[key].astype(str), other[by], strict=True)):
            if pd.isna(value):
                raise missing(by, f"row {row} of {path}")
            if known.setdefault(name, str(value)) != str(value):
                raise InputError(f"{key} {name} has two values of {by!r} in {path}, {known[name]} and {value}.")
        for name in wanted.astype(str):
            if name not in known:
                raise InputError(f"{path} has no row for {key} {name}; add one, or leave that {key} out of the fit.")
        return np.array([known[name] for name in wanted.astype(str)])


def per_trajectory(demos: Demonstrations, values: pd.Series[Any], name: str, order: Any) -> Any:
    """Value of each trajectory, (N,) str, of a column of rows; it may not change within one."""

    def where(row: int) -> str:
        return f"row {row} of column {name!r}"

    codes, found = factorize(values, name, where)
    flat = codes[order]
    first = flat[demos.offsets[:-1]]
    changes = flat != first[demos.trajectory_index]
    if changes.any():
        step = int(np.argmax(changes))
        raise InputError(
            f"The column {name!r} changes within a trajectory ({demos.where(step)}: {found[flat[step]]} after "
            f"{found[first[demos.trajectory_index[step]]]}); cut the trajectory there, or give it as --covariates."
        )
    return np.array([str(value) for value in found])[first]


def open_run_data(run: Path, method: str | None = None) -> RunData:
    """Load a run of `prism fit` with the table that it was fitted to."""
    from prism_irl.models.persistence import load

    model = load(run, method)
    config, path = storage.read_object(run / "config.json"), run / "segments.parquet"
    if not path.is_file():
        raise InputError(f"{run} has no segments.parquet, the table that was fitted; give the folder of a prism fit.")
    frame = read_rows(path)
    added = model.n_intentions + 1  # the intention and its probabilities
    found, frame = frame.iloc[:, -added], frame.iloc[:, :-added]
    columns = dict(config.get("data", {}).get("columns", {}))
    read = {role: name for role, name in columns.items() if role != "intention"}
    if is_file(read.get("labels")):  # the run keeps them beside its rows
        read["labels"] = COLUMN
    vectors = config.get("data", {}).get("names")
    if isinstance(vectors, dict) and "observe" in read:  # of a robot dataset the run keeps number by number
        for role, kind in (("observe", "observations"), ("act", "commands")):
            if set(vectors.get(kind) or [""]) <= set(frame.columns):
                read[role] = vectors[kind]
    own = [name for name in frame.columns if str(name).startswith("observation_")]
    has_columns = "observations" in read or "inputs" in config.get("data", {})
    if getattr(model, "n_observations_", 0) and not has_columns:  # of an npz file, which has no columns
        read["observations"] = own
    words = config.get("vocabulary", {})
    read |= {role: Vocabulary.from_json(words[role]) for role in ("states", "actions") if role in words}
    given = run / NAMES
    names = read_names(given, model.n_intentions) if given.is_file() else default_names(model.n_intentions)
    table = read_data(frame, **read)
    kept = config.get("data", {}).get("inputs")
    inputs = None if kept is None else Inputs.from_json(kept)
    table = table if inputs is None else inputs.apply(table)
    return RunData(model, table, columns, names, found.to_numpy()[table.order].astype(np.int64), inputs)
