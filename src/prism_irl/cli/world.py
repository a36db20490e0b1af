"""--map, --grid, --dynamics and --valid-actions: what is known of the world behind a table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from prism_irl.cli.options import WorldOptions
from prism_irl.errors import InputError

if TYPE_CHECKING:
    from prism_irl.data.demonstrations import Demonstrations
    from prism_irl.data.read import Table
    from prism_irl.data.vocabulary import Vocabulary
    from prism_irl.mdp import MDP

MAP = ("state", "x", "y")
PAIRS = ("state", "action")
MOVES = ("state", "action", "next_state", "probability")
UNSEEN, VISITS = 0.25, 20  # share of the actions of well visited states that never occur, before a note speaks of it


class World(NamedTuple):
    """A table whose demonstrations know their valid actions, the dynamics and the layout, where these are known."""

    rows: Table
    mdp: MDP | None
    layout: dict[str, Any] | None


def read_world(rows: Table, options: WorldOptions, columns: dict[str, Any], discount: float = 0.97) -> World:
    """Read what the options name, in the names of the table."""
    from prism_irl.data import geography

    if rows.demonstrations.action_space.continuous:
        if options.described():
            raise InputError(f"--{next(iter(options.described()))} is about states, and these data are continuous.")
        return World(rows, None, None)
    if options.map is not None and options.grid is not None:
        raise InputError("--map and --grid both say where states lie; pass one of them.")
    files = _files(options, rows)
    rows = _with_world(rows, files, options, columns)
    demos, mdp, layout = rows.demonstrations, None, _layout(options, files, rows)
    if options.dynamics is not None:
        mdp = read_dynamics_file(options.dynamics, rows.states, rows.actions, discount, files.get("dynamics"))
    if options.valid_actions is not None:
        pairs = files.get("valid_actions")
        valid = (
            geography.observed_actions(demos)
            if pairs is None
            else geography.read_valid_actions(pairs, rows.states, rows.actions)
        )
        demos = allow(demos, valid, str(options.valid_actions))
        if mdp is not None:
            from prism_irl.mdp import MDP

            mdp = MDP(mdp.transitions, mdp.discount, valid & mdp.valid_actions)
    elif mdp is not None:
        demos = allow(demos, np.asarray(mdp.valid_actions), str(options.dynamics))
    notes = rows.notes if options.valid_actions or mdp is not None else (*rows.notes, *_unseen_note(demos))
    return World(rows._replace(demonstrations=demos, notes=notes), mdp, layout)


def read_dynamics_file(path: Path, states: Vocabulary, actions: Vocabulary, discount: float, table: Any = None) -> MDP:
    """Dynamics over states and actions that are known, from a table (perhaps read already) or an npz file."""
    from prism_irl.data import geography

    if path.suffix.lower() != ".npz":
        rows = table or geography.Rows(path, MOVES, "dynamics", _named_columns(states, actions))
        return geography.read_dynamics(rows, states, actions, discount)
    mdp = geography.load_dynamics(path, states, actions, discount)
    if mdp.n_states != states.size:
        raise InputError(f"{path} has {mdp.n_states} states and the data {states.size}; give the same world.")
    return mdp


def _named_columns(states: Vocabulary, actions: Vocabulary) -> list[str]:
    """Columns of a table of the world that hold names, not numbers."""
    named = {"state": states, "next_state": states, "action": actions}
    return [column for column, words in named.items() if words.names is not None]


def _files(options: WorldOptions, rows: Table) -> dict[str, Any]:
    from prism_irl.data.geography import OBSERVED, Rows

    text = _named_columns(rows.states, rows.actions)
    found = {}
    if options.map is not None:
        found["map"] = Rows(options.map, MAP, "a map", text)
    if options.dynamics is not None and options.dynamics.suffix.lower() != ".npz":
        found["dynamics"] = Rows(options.dynamics, MOVES, "dynamics", text)
    if options.valid_actions not in (None, OBSERVED):
        found["valid_actions"] = Rows(Path(str(options.valid_actions)), PAIRS, "valid actions", text)
    return found


def _with_world(rows: Table, files: dict[str, Any], options: WorldOptions, columns: dict[str, Any]) -> Table:
    """The table over all states and actions of the world, those that nobody visited among them."""
    from prism_irl.data.geography import extended, parse_grid
    from prism_irl.data.read import read_data
    from prism_irl.data.vocabulary import Vocabulary

    states, actions = rows.states, rows.actions
    for column, values in _named(files):
        if column == "action":
            actions = extended(actions, values, "action")
        else:
            states = extended(states, values, "state")
    if options.grid is not None:
        width, height = parse_grid(options.grid)
        if states.names is not None:
            raise InputError(
                f"--grid numbers its states, and the data names them ({states.names[0]}); give their places with --map."
            )
        if states.size > width * height:
            raise InputError(f"The data has the state {states.size - 1}, and --grid {options.grid} ends before it.")
        states = Vocabulary(None, width * height)
    if (states, actions) == (rows.states, rows.actions):
        return rows
    if rows.frame is None:
        sizes = {"n_states": states.size, "n_actions": actions.size}
        if states.names != rows.states.names or actions.names != rows.actions.names:
            raise InputError("A file of the world names states that the npz file has not; add them to its state_names.")
        return rows._replace(demonstrations=rows.demonstrations.resized(**sizes), states=states, actions=actions)
    again = read_data(rows.frame, **columns, states=states, actions=actions)
    return again._replace(notes=rows.notes)


def _named(files: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for table in files.values():
        for column in ("state", "next_state", "action"):
            if column in table.frame.columns and (values := table.frame[column].dropna()).size:
                yield column, values


def _layout(options: WorldOptions, files: dict[str, Any], rows: Table) -> dict[str, Any] | None:
    from prism_irl.data.geography import parse_grid, read_map
    from prism_irl.report.state_places import from_map, grid

    if options.grid is not None:
        return grid(*parse_grid(options.grid))
    if "map" not in files:
        return None
    place = read_map(files["map"], rows.states)
    lost = np.flatnonzero(np.isnan(place.xy).any(axis=1) & _visited(rows.demonstrations))
    if len(lost):
        name = _name(rows.states, int(lost[0]))
        raise InputError(
            f"The map {options.map} has no place for {len(lost)} states of the data, such as {name}; add it."
        )
    return from_map(place, rows.demonstrations)


def _visited(demos: Demonstrations) -> np.ndarray[Any, Any]:
    return np.bincount(demos.states, minlength=demos.n_states) > 0


def allow(demos: Demonstrations, valid: np.ndarray[Any, Any], source: str) -> Demonstrations:
    """Return demonstrations that carry the mask; an action that it does not allow is named."""
    allowed = valid[demos.states, demos.actions]
    if not allowed.all():
        step, count = int(np.argmin(allowed)), int((~allowed).sum())
        state, action = demos.states[step], demos.actions[step]
        names = (
            str(i) if words is None else words[i]
            for i, words in ((int(state), demos.state_names), (int(action), demos.action_names))
        )
        s, a = names
        raise InputError(
            f"The action {a} in state {s} at {demos.where(step)} does not exist by {source} ({count:,} such steps in "
            "all); correct the data or the file."
        )
    return demos.with_valid_actions(valid)


def _unseen_note(demos: Demonstrations) -> Iterator[str]:
    """Actions that never occur where the agent often is may not exist there; a model would plan with them."""
    from prism_irl.data.geography import pair_counts

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


def _name(words: Vocabulary, i: int) -> str:
    return str(i) if words.names is None else words.names[i]
