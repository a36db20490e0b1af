"""Fitted runs: what `prism fit` writes beside its fit, and how the other commands open a run and read data for it.

`segments.parquet` of a run holds its table with the intentions beside it, so that a question that comes up after the
fit (which animal had the drug?) needs no file but the run.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from prism_irl import storage
from prism_irl.cli.options import UNREAD, ColumnOptions, FittedOptions
from prism_irl.cli.runs import command_line
from prism_irl.cli.sources import read_rows, tell_notes
from prism_irl.data.covariates import Inputs
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.geography import allow
from prism_irl.data.labels import COLUMN, is_file
from prism_irl.data.read import Table, plain_table, read_data, with_posterior
from prism_irl.data.rows import Vocabulary, check_single, column_of, factorize, missing
from prism_irl.errors import InputError
from prism_irl.evaluation.result import GRID, Effects, FitResult
from prism_irl.models.base import IntentionModel
from prism_irl.models.describe import describe
from prism_irl.models.registry import load
from prism_irl.models.reporting import write_run
from prism_irl.report.names import FILE as NAMES
from prism_irl.report.names import carry_names, default_names, names_in, split, told_names

# -- new data, in the language of a fit --------------------------------------------------------------------------------


def open_fitted(run: Path, source: Path, fitted: FittedOptions = FittedOptions()) -> tuple[IntentionModel, Table]:
    """Load a run folder and read a table with the columns and vocabularies of its fit."""
    model = load(run, fitted.method)
    config = storage.read_object(run / "config.json")
    data = config.get("data", {})
    columns = data.get("columns", {}) if isinstance(data, dict) else None
    roles = {field.name for field in fields(ColumnOptions)} - set(UNREAD) | {"hz"}
    if not isinstance(columns, dict) or not set(columns) <= roles:
        raise InputError("config.json of the run does not say which columns were fitted; restore it or fit again.")
    read = {role: name for role, name in columns.items() if role != "labels"}  # which new data may lack, and groups
    read |= {role: name for role in ("time", "intention") if (name := getattr(fitted, role)) is not None}
    lacking = ("group",) if fitted.intention is not None else ("intention", "group")
    if "observe" in read:  # continuous data have no vocabularies
        table = read_rows(source, **read, may_lack=lacking)
        tell_notes(table)
        return model, table
    read.pop("hz", None)  # a rate says nothing of tokens
    table = read_data(source, **read, **_vocabularies(config), unknown_state=fitted.unknown_state, may_lack=lacking)
    if (inputs := config.get("data", {}).get("inputs")) is not None:
        table = Inputs.from_json(inputs).apply(table)
    valid = model.valid_actions_
    demos = table.demonstrations
    fits = valid is not None and valid.shape == (demos.n_states, demos.n_actions)
    if config.get("world") and not fitted.unknown_state and fits:
        allow(demos, valid, f"the fit {run.name}")
    return model, table


def _vocabularies(config: dict[str, Any]) -> dict[str, Any]:
    words = config.get("vocabulary") or {}
    return {role: Vocabulary.from_json(words[role]) for role in ("states", "actions") if role in words}


# -- the data that a run was fitted to ---------------------------------------------------------------------------------


class RunData(NamedTuple):
    """A fitted run: its model, its table, the columns that the fit has read, and the names of the intentions.

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
        return per_trajectory(self.demos, column_of(self.frame, name, f"--{role}"), name, self.table.order)

    def stretches(self, name: str) -> tuple[Demonstrations, Any, Any]:
        """Trajectories, cut where a column changes if that is seldom; its value and the trajectory of each, (N,)."""
        column, demos = column_of(self.frame, name, "--by"), self.demos
        codes, found = factorize(column, name, lambda row: f"row {row} of column {name!r}")
        flat = codes[self.table.order]
        offsets = np.union1d(demos.offsets, 1 + np.flatnonzero(flat[1:] != flat[:-1]))
        if len(offsets) == len(demos.offsets) or demos.n_steps < SHORTEST * (len(offsets) - 1):
            return demos, self.column(name, "by"), np.arange(len(demos))
        owner = demos.trajectory_index[offsets[:-1]]
        groups = None if demos.groups is None else demos.groups[owner]
        cut = replace(demos, offsets=offsets, groups=groups, trajectory_names=None)
        return cut, np.array([str(value) for value in found])[flat[offsets[:-1]]], owner

    def joined(self, path: Path, by: str, unit: str, who: Any) -> Any:
        """The column ``by`` of a second table that has a row per unit, or per trajectory, (N,)."""
        other = plain_table(path)
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


SHORTEST = 5
"""Steps of a stretch of one condition on average, below which it is no epoch."""


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
    model = load(run, method)
    config, path = storage.read_object(run / "config.json"), run / "segments.parquet"
    if not path.is_file():
        raise InputError(f"{run} has no segments.parquet, the table that was fitted; give the folder of a prism fit.")
    frame = plain_table(path)
    added = model.n_intentions + 1  # the intention and its probabilities
    found, frame = frame.iloc[:, -added], frame.iloc[:, :-added]
    columns = dict(config.get("data", {}).get("columns", {}))
    read = {role: name for role, name in columns.items() if role not in ("intention", "hz")}
    if is_file(read.get("labels")):  # the run keeps them beside its rows
        read["labels"] = COLUMN
    vectors = config.get("data", {}).get("names")
    if isinstance(vectors, dict) and "observe" in read:  # of a robot dataset the run keeps number by number
        for role, kind in (("observe", "observations"), ("act", "commands")):
            if set(vectors.get(kind) or [""]) <= set(frame.columns):
                read[role] = vectors[kind]
    own = [name for name in frame.columns if str(name).startswith("observation_")]
    has_columns = "observations" in read or "inputs" in config.get("data", {})
    if model.n_observations_ and not has_columns:  # of an npz file, which has no columns
        read["observations"] = own
    read |= _vocabularies(config)
    names = names_in(run, model.n_intentions) or default_names(model.n_intentions)
    table = read_data(frame, **read)
    inputs = None
    if (kept := config.get("data", {}).get("inputs")) is not None:
        inputs = Inputs.from_json(kept)
        table = inputs.apply(table)
    return RunData(model, table, columns, names, found.to_numpy()[table.order].astype(np.int64), inputs)


# -- what a fit leaves behind ------------------------------------------------------------------------------------------


def describe_and_write(
    folder: Path,
    model: IntentionModel,
    table: Table,
    *,
    columns: dict[str, Any],
    source: Path,
    world: Mapping[str, str],
    before: Path,
    inputs: Inputs | None = None,
    intervals: Mapping[str, Any] | None = None,
    **asked: Any,
) -> dict[str, Any]:
    """Describe a fit and write everything that it leaves behind but its report; returns the metrics.

    ``before`` is the folder of the run that this one will replace, whose names its intentions take over; ``asked`` is
    what `describe` takes: events, layout, simulations, evidence.
    """
    from prism_irl.robots.continuous import come_from_tokens

    tokens = come_from_tokens(source, table.demonstrations)
    asked |= {"tokens": tokens, "intervals": intervals, "effects": None}
    kernel: Any = model
    if (
        inputs is not None and model.n_intentions > 1 and kernel.switching_.n_inputs
    ):  # which of a network nobody can read
        from prism_irl.studies.intervals import leaving_curves

        ends = None if intervals is None else np.asarray(intervals["numbers"]["leaving"]["interval"], float)
        at = np.stack([one.mean + one.spread * GRID for one in inputs.inputs])
        curves = leaving_curves(kernel.switching_)
        asked["effects"] = Effects([one.name for one in inputs.inputs], at, curves, ends)
    result = describe(model, table, known_dynamics="dynamics" in world, **asked)
    data: dict[str, Any] = {"file": source.name, "columns": columns}
    if inputs is not None:
        data["inputs"] = inputs.to_json()
    if (demos := result.demos).action_space.continuous:
        data["names"] = {"observations": demos.observation_names, "commands": demos.motion_names}
    extra = {"command": command_line(), "data": data, "world": dict(world)}
    metrics = write_run(folder, model, result, _names(before, result), extra, find=not tokens)
    _write_frames(folder, result.shown.demos, source)
    return metrics


def _names(before: Path, result: FitResult) -> list[str]:
    """What the intentions are called: by its partial labels, or as they were in the fit that it replaces.

    Names of that one go to the intentions that resemble its own; which are lost is said on standard error.
    """
    K, found = result.n_intentions, result.posterior
    if (called := told_names(result.demos.partial_label_names, K)) is not None:
        return called
    if not (before / NAMES).is_file():
        return default_names(K)
    try:
        rows = split(with_posterior(result.table, found.labels, found.probabilities), K)
        names, notes = carry_names(before, *rows)
    except InputError:  # an earlier fit that cannot be read
        return default_names(K)
    for note in notes:
        print(f"prism: {note}", file=sys.stderr)
    return names


def _write_frames(folder: Path, demos: Demonstrations, source: Path) -> None:
    """Put what the camera saw into the report where the data come from `prism tokenize`."""
    from prism_irl.report import explorer as frames
    from prism_irl.report.explorer import read_explorer
    from prism_irl.robots.continuous import frames_of, kept_frames, reachable, recordings_of

    try:
        found = recordings_of(source, demos)
    except InputError as error:
        note = f"There are no frames here. {error}"
        storage.write_json(folder / frames.FRAMES, {"version": 1, "every": 1, "trajectories": {}, "note": note})
        return
    explorer = read_explorer(folder)
    if found is None or explorer is None:
        return

    def pictures(i: int) -> Iterator[Any] | None:
        assert demos.trajectory_names is not None
        seen = frames_of(found.source, int(demos.trajectory_names[i]), found.camera)
        return None if seen is None else kept_frames(seen, demos, i)

    frames.write_frames(folder, demos, explorer, pictures, trajectories=reachable(found.source, demos))
