"""What people know of the world behind their table: where states lie, which actions exist, and where these lead.

`read_world` puts all of it beside a table. Maps, lists of actions and dynamics are tables too, in the names of the
data. A state that only they name joins the vocabulary: a place that nobody has visited is part of the world, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import sparse

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.files import line_of, read_arrays, read_table_file
from prism_irl.data.read import Table, read_data
from prism_irl.data.rows import Vocabulary, check_single, distinct, finite_numbers, whole_numbers
from prism_irl.errors import InputError
from prism_irl.mdp import MDP

OBSERVED = "observed"
MAX_CELLS = 1_000_000  # of a grid, and numbers of states in a file


class Geography(NamedTuple):
    """Where states lie: ``xy`` (S, 2), NaN without a place; ``edges`` (E, 2); ``walls`` (W, 4), x, y of both ends."""

    xy: npt.NDArray[np.float64]
    edges: npt.NDArray[np.int64] | None
    walls: npt.NDArray[np.float64]
    note: str


class Rows:
    """A small table of the world, and where its rows are in the file; columns of ``text`` hold names, never numbers."""

    def __init__(self, path: Path, needed: Sequence[str], what: str, text: Sequence[str] = ()) -> None:
        if path.suffix.lower() not in (".csv", ".tsv", ".parquet", ".xlsx"):
            raise InputError(f"Cannot read {path} for {what}: give a .csv file with the columns {', '.join(needed)}.")
        self.path, self.what, self.frame = path, what, read_table_file(path, dict.fromkeys(text, str))
        lacking = [name for name in needed if name not in self.frame.columns]
        there = ", ".join(map(str, self.frame.columns[:20]))
        if lacking:
            raise InputError(
                f"{path} has no column {lacking[0]!r}; {what} needs {', '.join(needed)} (there are {there})."
            )
        for name in self.frame.columns:
            check_single(self.frame, str(name))
        if not len(self.frame):
            raise InputError(f"{path} has no rows; {what} needs {', '.join(needed)}.")

    def where(self, column: str, rows: npt.NDArray[np.int64] | None = None) -> Any:
        """Say where a row is; ``rows`` are those that are read, where some are left out."""
        return lambda row: (
            f"column {column!r}, line {line_of(self.path, int(row if rows is None else rows[row]))} of {self.path.name}"
        )

    def numbers(self, column: str, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """One column of finite numbers at some rows."""
        return finite_numbers(self.frame[column].iloc[rows], column, self.where(column, rows), "correct it")

    def ids(self, column: str, kind: str, vocabulary: Vocabulary) -> npt.NDArray[np.int64]:
        """Ids of a column of states or actions."""
        return vocabulary.encode(self.frame[column], kind, self.where(column))


def extended(known: Vocabulary, values: Any, what: str) -> Vocabulary:
    """The vocabulary with the states or actions that a file of the world names beside those of the data."""
    found = distinct(pd.Series(values), what, "row {}".format).values
    if known.names is None:
        if found.dtype == object:
            raise InputError(
                f"The {what}s of the data are numbers, and a file of the world names {found[0]}; use numbers."
            )
        if int(found.max()) >= max(MAX_CELLS, known.size):
            raise InputError(
                f"A file of the world names the {what} {int(found.max())}, and the data end at {known.size - 1}; "
                "correct it, or use names."
            )
        return Vocabulary(None, max(known.size, int(found.max()) + 1))
    names = sorted({*known.names, *(str(value) for value in found)})
    return known if len(names) == known.size else Vocabulary(tuple(names), len(names))


# -- maps --------------------------------------------------------------------------------------------------------------


def parse_grid(text: str) -> tuple[int, int]:
    """Width and height of "5x5"."""
    match = re.fullmatch(r"\s*(\d+)\s*[x×,]\s*(\d+)\s*", text)
    size = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 0 < size[0] * size[1] <= MAX_CELLS:
        raise InputError(f"--grid is {text!r}; write the width and the height, such as 5x5.")
    return size


def read_map(rows: Rows, states: Vocabulary) -> Geography:
    """Read a map: state, x, y; optionally neighbours ("3 7"); rows without a state are walls from x, y to x2, y2."""
    cells = rows.frame["state"]
    is_wall = cells.isna().to_numpy()
    places, walls = np.flatnonzero(~is_wall), np.flatnonzero(is_wall)
    if len(walls) and not {"x2", "y2"} <= set(rows.frame.columns):
        where = rows.where("state", walls)(0)
        raise InputError(f"The state at {where} is missing; fill it in, or add columns x2 and y2 if the row is a wall.")
    ids = states.encode(whole_numbers(cells.iloc[places]), "state", rows.where("state", places))
    if (twice := pd.Series(ids).duplicated()).any():
        i = int(np.argmax(twice))
        raise InputError(
            f"The state {cells.iloc[places[i]]} at {rows.where('state', places)(i)} has two places; keep one."
        )
    xy = np.full((states.size, 2), np.nan)
    xy[ids] = np.stack([rows.numbers(axis, places) for axis in ("x", "y")], axis=1)
    ends = ("x", "y", "x2", "y2")
    segments = np.stack([rows.numbers(end, walls) for end in ends], axis=1) if len(walls) else np.zeros((0, 4))
    edges = _neighbours(rows, places, ids, states) if "neighbours" in rows.frame.columns else None
    return Geography(xy, edges, segments, f"The map is {rows.path.name}.")


def _neighbours(
    rows: Rows, places: npt.NDArray[np.int64], ids: npt.NDArray[np.int64], states: Vocabulary
) -> npt.NDArray[np.int64]:
    pairs: set[tuple[int, int]] = set()
    where = rows.where("neighbours", places)
    for i, cell in enumerate(rows.frame["neighbours"].iloc[places]):
        if pd.isna(cell):
            continue
        text = f"{cell:g}" if isinstance(cell, float) else str(cell)
        words = pd.Series(re.split(r"[;\s]+", text.strip()), dtype=object)
        found = states.encode(words, "state", lambda _: where(i))  # noqa: B023
        pairs |= {(min(int(ids[i]), int(j)), max(int(ids[i]), int(j))) for j in found if int(j) != int(ids[i])}
    return np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2)


# -- actions and dynamics ----------------------------------------------------------------------------------------------


def pair_counts(demos: Demonstrations) -> npt.NDArray[np.int64]:
    """(S, A) how often each action was taken in each state."""
    pair = demos.states.astype(np.int64) * demos.n_actions + demos.actions
    return np.bincount(pair, minlength=demos.n_states * demos.n_actions).reshape(demos.n_states, demos.n_actions)


def read_valid_actions(rows: Rows, states: Vocabulary, actions: Vocabulary) -> npt.NDArray[np.bool_]:
    """(S, A) pairs that a file lists (state, action)."""
    valid = np.zeros((states.size, actions.size), dtype=bool)
    valid[rows.ids("state", "state", states), rows.ids("action", "action", actions)] = True
    return valid


def read_dynamics(rows: Rows, states: Vocabulary, actions: Vocabulary) -> MDP:
    """Dynamics from a table: state, action, next_state, probability; pairs that are not listed do not exist.

    A state without any row is an end: whatever is done there, it stays.
    """
    S, A = states.size, actions.size
    pair = rows.ids("state", "state", states) * A + rows.ids("action", "action", actions)
    to = rows.ids("next_state", "state", states)
    p = rows.numbers("probability", np.arange(len(rows.frame)))
    total = np.bincount(pair, weights=p, minlength=S * A)
    valid = (total > 0).reshape(S, A)
    wrong = np.flatnonzero((total > 0) & (np.abs(total - 1) > 1e-4))
    if len(wrong):
        i = int(np.argmax(pair == wrong[0]))
        s, a = rows.frame["state"].iloc[i], rows.frame["action"].iloc[i]
        raise InputError(
            f"The probabilities of action {a} in state {s} sum to {total[wrong[0]]:.6g} in "
            f"{rows.path.name}; make them 1."
        )
    ends = np.flatnonzero(~valid.any(axis=1))
    valid[ends] = True
    stay = (ends[:, None] * A + np.arange(A)).ravel()
    row, column = np.append(pair, stay), np.append(to, np.repeat(ends, A))
    weight = np.append(p / np.where(total > 0, total, 1)[pair], np.ones(len(stay)))
    return MDP(sparse.coo_array((weight, (row, column)), shape=(S * A, S)), valid_actions=valid)


def load_dynamics(path: Path, states: Vocabulary, actions: Vocabulary) -> MDP:
    """Dynamics from an npz file with one array (S, A, S), whose ids are those of the data."""
    arrays = [array for array in read_arrays(path).values() if array.ndim == 3]
    if len(arrays) != 1:
        raise InputError(f"{path} has {len(arrays)} arrays of 3 dimensions; give one, P(s'|s, a) of shape (S, A, S).")
    if states.names is not None or actions.names is not None:
        raise InputError(
            f"The data names its states or actions, and {path} only numbers them; give a .csv file with state, action, "
            "next_state and probability."
        )
    if arrays[0].shape[1] != actions.size:
        raise InputError(f"{path} has {arrays[0].shape[1]} actions and the data {actions.size}; give the same.")
    return MDP.from_dense(arrays[0])


# -- all of it beside a table ------------------------------------------------------------------------------------------

MAP, PAIRS, MOVES = ("state", "x", "y"), ("state", "action"), ("state", "action", "next_state", "probability")
UNSEEN, VISITS = 0.25, 20  # share of the actions of well visited states that never occur, before a note speaks of it


class World(NamedTuple):
    """A table whose demonstrations know their valid actions, and the dynamics and the map where these are known."""

    rows: Table
    mdp: MDP | None
    place: Geography | None


def read_world(
    rows: Table,
    columns: dict[str, Any],
    *,
    map: Path | None = None,
    grid: str | None = None,
    dynamics: Path | None = None,
    valid_actions: str | None = None,
) -> World:
    """Read the files of a world in the names of a table that was read with the given ``columns``."""
    named = {"map": map, "grid": grid, "dynamics": dynamics, "valid-actions": valid_actions}
    if rows.demonstrations.action_space.continuous:
        if option := next((name for name, value in named.items() if value is not None), None):
            raise InputError(f"--{option} is about states, and these data are continuous.")
        return World(rows, None, None)
    if map is not None and grid is not None:
        raise InputError("--map and --grid both say where states lie; pass one of them.")
    text, files = _named_columns(rows.states, rows.actions), dict[str, Rows]()
    if map is not None:
        files["map"] = Rows(map, MAP, "a map", text)
    if dynamics is not None and dynamics.suffix.lower() != ".npz":
        files["dynamics"] = Rows(dynamics, MOVES, "dynamics", text)
    if valid_actions not in (None, OBSERVED):
        files["valid actions"] = Rows(Path(str(valid_actions)), PAIRS, "valid actions", text)
    rows = _with_world(rows, files, grid, columns)
    demos, mdp, valid = rows.demonstrations, None, None
    if dynamics is not None:
        mdp = read_dynamics_file(dynamics, rows.states, rows.actions, files.get("dynamics"))
        valid, source = np.asarray(mdp.valid_actions), str(dynamics)
    if valid_actions is not None:
        pairs, source = files.get("valid actions"), str(valid_actions)
        valid = pair_counts(demos) > 0 if pairs is None else read_valid_actions(pairs, rows.states, rows.actions)
        valid[~valid.any(axis=1)] = True  # a state that nobody visited or named keeps all of its actions
        mdp = None if mdp is None else MDP(mdp.transitions, mdp.discount, valid & mdp.valid_actions)
    notes = rows.notes if valid is not None else (*rows.notes, *_unseen_note(demos))
    if valid is not None:
        demos = allow(demos, valid, source)
    place = read_map(files["map"], rows.states) if "map" in files else None
    if place is not None:
        lost = np.setdiff1d(demos.states, np.flatnonzero(~np.isnan(place.xy).any(axis=1)))
        if len(lost):
            name = lost[0] if rows.states.names is None else rows.states.names[lost[0]]
            raise InputError(f"The map {map} has no place for {len(lost)} states of the data, such as {name}; add it.")
    return World(rows._replace(demonstrations=demos, notes=notes), mdp, place)


def read_dynamics_file(path: Path, states: Vocabulary, actions: Vocabulary, table: Rows | None = None) -> MDP:
    """Dynamics over states and actions that are known, from a table (perhaps read already) or an npz file."""
    if path.suffix.lower() != ".npz":
        return read_dynamics(table or Rows(path, MOVES, "dynamics", _named_columns(states, actions)), states, actions)
    mdp = load_dynamics(path, states, actions)
    if mdp.n_states != states.size:
        raise InputError(f"{path} has {mdp.n_states} states and the data {states.size}; give the same world.")
    return mdp


def _named_columns(states: Vocabulary, actions: Vocabulary) -> list[str]:
    """Columns of a table of the world that hold names, not numbers."""
    named = {"state": states, "next_state": states, "action": actions}
    return [column for column, words in named.items() if words.names is not None]


def _with_world(rows: Table, files: dict[str, Rows], grid: str | None, columns: dict[str, Any]) -> Table:
    """The table over all states and actions of the world, those that nobody visited among them."""
    states, actions = rows.states, rows.actions
    for table in files.values():
        cells = {name: table.frame[name].dropna() for name in ("state", "next_state", "action") if name in table.frame}
        for name, values in cells.items():
            if len(values) and name == "action":
                actions = extended(actions, values, "action")
            elif len(values):
                states = extended(states, values, "state")
    if grid is not None:
        width, height = parse_grid(grid)
        if states.names is not None:
            raise InputError(
                f"--grid numbers its states, and the data names them ({states.names[0]}); give their places with --map."
            )
        if states.size > width * height:
            raise InputError(f"The data has the state {states.size - 1}, and --grid {grid} ends before it.")
        states = Vocabulary(None, width * height)
    if (states, actions) == (rows.states, rows.actions):
        return rows
    if rows.frame is not None:
        return read_data(rows.frame, **columns, states=states, actions=actions)._replace(notes=rows.notes)
    if states.names != rows.states.names or actions.names != rows.actions.names:
        raise InputError("A file of the world names states that the npz file has not; add them to its state_names.")
    demos = rows.demonstrations.resized(n_states=states.size, n_actions=actions.size)
    return rows._replace(demonstrations=demos, states=states, actions=actions)


def allow(demos: Demonstrations, valid: npt.NDArray[np.bool_], source: str) -> Demonstrations:
    """Return demonstrations that carry the mask; an action that it does not allow is named."""
    allowed = valid[demos.states, demos.actions]
    if not allowed.all():
        step, count = int(np.argmin(allowed)), int((~allowed).sum())
        state, action = int(demos.states[step]), int(demos.actions[step])
        s = state if demos.state_names is None else demos.state_names[state]
        a = action if demos.action_names is None else demos.action_names[action]
        raise InputError(
            f"The action {a} in state {s} at {demos.where(step)} does not exist by {source} ({count:,} such steps in "
            "all); correct the data or the file."
        )
    return demos.with_valid_actions(valid)


def _unseen_note(demos: Demonstrations) -> Iterator[str]:
    """Actions that never occur where the agent often is may not exist there; a model would plan with them."""
    counts = pair_counts(demos)
    often = counts.sum(axis=1) >= VISITS
    if demos.valid_actions is not None or not often.any():
        return
    unseen = int((counts[often] == 0).sum())
    if unseen > UNSEEN * counts[often].size:
        yield (
            f"{unseen:,} of {counts[often].size:,} pairs of a well visited state and an action never occur, and count "
            "as possible moves that stay in place; if they do not exist, say so with --valid-actions observed."
        )
