"""The first screen: the sentence says what the numbers say, the map shows all intentions, tables mark what differs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.report import screen
from prism_irl.report.explorer import write_explorer
from prism_irl.report.state_places import layout_of

NAMES = ["eager", "lazy"]


def explored(folder: Path, place: bool = True) -> dict[str, Any]:
    """Two intentions on a line of three places: one goes right and stays, one goes left and stays."""
    right, left = [0, 1, 2, 2, 2, 2], [2, 1, 0, 0, 0, 0]
    states, actions = [right, left] * 8, [[1] * 6, [0] * 6] * 8
    demos = Demonstrations.from_arrays(states, actions, n_states=3, n_actions=2)
    layout = layout_of("map", [[0, 0], [1, 0], [2, 0]], [[0, 1], [1, 2]], "A line.") if place else None
    labels = np.repeat([0, 1] * 8, 6)
    return write_explorer(folder, demos, np.eye(2)[labels], layout=layout, find=False, actions=["left", "right"])


def words(found: screen.Answer) -> str:
    return found.before + "; ".join(f"{aim.name} {aim.text}" for aim in found.aims) + found.after


@pytest.mark.parametrize(
    ("metrics", "begins"),
    [
        ({}, "Two intentions in this fit, not tested against a habit yet: "),
        ({"evidence": {"p_value": 0.01, "gain": 0.1, "surrogates": 99}}, "Two intentions beyond habit (p = 0.01): "),
        ({"evidence": {"p_value": 0.4, "gain": 0.0, "surrogates": 99}}, "Two intentions in this fit, but no evidence"),
    ],
)
def test_the_sentence_says_how_many_what_and_how_sure(tmp_path: Path, metrics: Any, begins: str) -> None:
    found = words(screen.answer(metrics, explored(tmp_path), NAMES))
    assert found.startswith(begins)
    assert found.endswith("eager heads for state 2; lazy heads for state 0.")


def test_without_a_map_the_choice_that_differs_most_is_named(tmp_path: Path) -> None:
    explorer = explored(tmp_path, place=False)
    assert screen.picture(explorer, NAMES) is None
    found = words(screen.answer({}, explorer, NAMES))
    assert "eager does right in 100% of state" in found or "eager does left in 0% of state" in found


def test_the_map_shares_every_place_among_its_intentions(tmp_path: Path) -> None:
    found = screen.picture(explored(tmp_path), NAMES)
    assert found is not None
    assert [len(place.slices) for place in found.places] == [2, 2, 2]
    assert found.places[0].x < found.places[1].x < found.places[2].x
    assert found.places[2].title == "state 2: eager 80%, lazy 20%"
    assert found.places[1].r < found.places[0].r == pytest.approx(found.places[2].r)  # the larger, the more time
    assert {label.text for label in found.labels} == {"state 0", "state 2"}
    assert len(found.lines) == 2


def test_phases_are_the_runs_of_one_intention_unless_there_are_trips(tmp_path: Path) -> None:
    explorer = explored(tmp_path)
    found = screen.phases(tmp_path, explorer, NAMES)
    assert found.title == "Phases"
    assert len(found.rows) == 16
    assert found.rows[1] == (1, ["1", "0", "6", "state 2", "state 0", "100%"])
    (tmp_path / "trips.csv").write_text("trajectory,intention,goal_name,steps\n0,1,water,7\n")
    found = screen.phases(tmp_path, explorer, NAMES)
    assert (found.title, found.columns[2]) == ("Trips", "goal name")
    assert found.rows == [(1, ["0", "1", "water", "7"])]


def test_tables_mark_the_largest_differences_and_nothing_where_few_steps_are(tmp_path: Path) -> None:
    explorer = explored(tmp_path)
    eager, lazy = screen.choices(explorer, NAMES)
    assert eager.actions == ["left", "right"]
    shares = {state: [cell.percent for cell in cells] for state, _, cells in eager.rows}
    assert shares["state 2"] == [0.0, 100.0]
    assert all(cell.marked for _, _, cells in (*eager.rows, *lazy.rows) for cell in cells)
    explorer["choices"] = (np.array(explorer["choices"]) / 20).tolist()  # fewer than five steps in any state
    assert not any(cell.marked for table in screen.choices(explorer, NAMES) for _, _, row in table.rows for cell in row)


def test_of_a_hundred_switches_as_many_go_where_they_went(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=400)
    demos = Demonstrations.from_arrays([rng.integers(3, size=400)], [rng.integers(2, size=400)])
    explorer = write_explorer(tmp_path, demos, np.eye(3)[labels], find=False)
    rows = screen.transitions(explorer, ["a", "b", "c"])
    later = labels[1:][labels[:-1] == 0]
    expected = [100 * (later == k).sum() / (later != 0).sum() for k in (1, 2)]
    assert rows[0].cells == ["·", *(f"{share:.0f}%" for share in expected)]
