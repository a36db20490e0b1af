"""The first screen: the sentence says what the numbers say, the map shows all intentions, tables mark what differs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.report import screen
from prism_irl.report.answers import answer, answer_of_run, methods_text
from prism_irl.report.explorer import write_explorer
from prism_irl.report.places import layout_of

NAMES = ["eager", "lazy"]


def explored(folder: Path, place: bool = True) -> dict[str, Any]:
    """Two intentions on a line of three places: one goes right and stays, one goes left and stays."""
    right, left = [0, 1, 2, 2, 2, 2], [2, 1, 0, 0, 0, 0]
    states, actions = [right, left] * 8, [[1] * 6, [0] * 6] * 8
    demos = Demonstrations.from_arrays(states, actions, n_states=3, n_actions=2)
    layout = layout_of("map", [[0, 0], [1, 0], [2, 0]], [[0, 1], [1, 2]], "A line.") if place else None
    labels = np.repeat([0, 1] * 8, 6)
    return write_explorer(folder, demos, np.eye(2)[labels], layout=layout, find=False, actions=["left", "right"])


@pytest.mark.parametrize(
    ("metrics", "begins"),
    [
        ({}, "Two intentions in this fit, not tested against a habit yet: "),
        ({"evidence": {"p_value": 0.01, "gain": 0.1, "surrogates": 99}}, "Two intentions beyond habit (p = 0.01): "),
        ({"evidence": {"p_value": 0.4, "gain": 0.0, "surrogates": 99}}, "Two intentions in this fit, but no evidence"),
    ],
)
def test_the_sentence_says_how_many_what_and_how_sure(tmp_path: Path, metrics: Any, begins: str) -> None:
    found = str(answer(metrics, explored(tmp_path), NAMES))
    assert found.startswith(begins)
    assert found.endswith("eager heads for state 2 and lazy heads for state 0.")


def test_one_policy_is_no_intention_and_has_no_phases(tmp_path: Path) -> None:
    explorer = explored(tmp_path, place=False)
    alone = explorer | {"n_intentions": 1, "choices": None}
    alone["story"] = explorer["story"] | {"wants": explorer["story"]["wants"][:1]}
    tested = {"evidence": {"p_value": 0.4, "gain": 0.0, "surrogates": 99}}
    assert str(answer({}, alone, NAMES[:1])).startswith("One policy for all steps: it does ")
    assert str(answer(tested, alone, NAMES[:1])).startswith(
        "Nothing beyond habit (p = 0.4): one policy for all steps; it"
    )
    assert screen.phases(tmp_path, alone).rows == []


def test_goals_are_framed_and_states_come_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    explorer = explored(tmp_path)
    found = screen.picture(explorer, NAMES)
    assert found is not None
    places = {(place.x, place.y) for place in (found.places[0], found.places[2])}
    assert {(x, y) for x, y, *_ in found.goals} == places
    assert len({color for *_, color in found.goals}) == 2
    named = explorer | {"states": ["left 100%", "left 25%", "right 9%"]}
    assert [state for state, *_ in screen.choices(named, NAMES)[0].rows] == ["left 25%", "left 100%", "right 9%"]


def test_without_a_map_the_choice_that_differs_most_is_named(tmp_path: Path) -> None:
    explorer = explored(tmp_path, place=False)
    assert screen.picture(explorer, NAMES) is None
    found = str(answer({}, explorer, NAMES))
    assert "eager does right in “state 0” (100%)" in found


def test_the_map_shares_every_place_among_its_intentions(tmp_path: Path) -> None:
    found = screen.picture(explored(tmp_path), NAMES)
    assert found is not None
    assert [len(place.slices) for place in found.places] == [2, 2, 2]
    assert found.places[0].x < found.places[1].x < found.places[2].x
    assert found.places[2].title == "state 2: eager 80%, lazy 20%"
    assert found.places[1].r < found.places[0].r == pytest.approx(found.places[2].r)  # the larger, the more time
    assert {text for _, _, text in found.labels} == {"state 0", "state 2"}
    assert len(found.lines) == 2


def test_phases_are_the_runs_of_one_intention_unless_there_are_trips(tmp_path: Path) -> None:
    explorer = explored(tmp_path)
    found = screen.phases(tmp_path, explorer)
    assert found.title == "Phases"
    assert len(found.rows) == 16
    assert found.columns == ["trajectory", "from step", "steps", "begins in", "ends in", "sure"]
    assert found.rows[1] == (1, ["1", "0", "6", "state 2", "state 0", "100%"])
    timed = screen.phases(tmp_path, explorer, 0.5)
    assert (timed.columns[3], timed.rows[1][1][3]) == ("lasts", "3 s")
    rows = ["1,0,home,water,3,8,5.0,4.9999998,True,0.94271", "1,1,water,home,9,11,3.0,7.2,False,0.5"]
    head = "trajectory,intention,from,to,first,last,length,shortest,arrived,probability"
    (tmp_path / "trips.csv").write_text("\n".join([head, *rows]))
    found = screen.phases(tmp_path, explorer)
    assert found.title == "Trips"
    assert found.columns == ["trajectory", "from step", "from", "to", "steps", "shortest way", "arrived", "sure"]
    assert found.rows[0] == (0, ["1", "3", "home", "water", "5", "5", "yes", "94%"])
    assert found.rows[1] == (1, ["1", "9", "water", "home", "3", "7.2", "–", "50%"])


@pytest.mark.parametrize(
    ("steps", "step", "words"),
    [
        (5, None, ""),
        (3, 0.02, "60 ms"),
        (5, 0.1, "0.5 s"),
        (90, 1.0, "90 s"),
        (150, 1.0, "2.5 min"),
        (3, 3600.0, "3 h"),
    ],
)
def test_durations_are_in_the_unit_that_people_use(steps: float, step: float | None, words: str) -> None:
    assert screen.in_seconds(steps, step) == words


def test_the_answer_of_a_run_is_that_of_its_page(tmp_path: Path) -> None:
    explored(tmp_path)
    (tmp_path / "metrics.json").write_text('{"n_intentions": 2}')
    (tmp_path / "names.json").write_text('{"names": ["eager", "lazy"]}')
    tested = {"p_value": 0.01, "gain": 0.1, "surrogates": 99}
    assert answer_of_run(tmp_path).startswith("Two intentions in this fit, not tested against a habit yet: eager heads")
    assert answer_of_run(tmp_path, tested).startswith("Two intentions beyond habit (p = 0.01): eager heads for state 2")


def test_tables_mark_the_largest_differences_and_nothing_where_few_steps_are(tmp_path: Path) -> None:
    explorer = explored(tmp_path)
    eager, lazy = screen.choices(explorer, NAMES)
    assert eager.actions == ["left", "right"]
    shares = {state: [percent for percent, _ in cells] for state, _, cells in eager.rows}
    assert shares["state 2"] == [0.0, 100.0]
    assert {state: [marked for _, marked in cells] for state, _, cells in eager.rows}["state 2"] == [False, True]
    assert all([m for _, m in cells] == [True, False] for _, _, cells in lazy.rows)
    explorer["choices"] = (np.array(explorer["choices"]) / 20).tolist()  # fewer than five steps in any state
    assert not any(marked for table in screen.choices(explorer, NAMES) for _, _, row in table.rows for _, marked in row)


def test_of_a_hundred_switches_as_many_go_where_they_went(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=400)
    demos = Demonstrations.from_arrays([rng.integers(3, size=400)], [rng.integers(2, size=400)])
    explorer = write_explorer(tmp_path, demos, np.eye(3)[labels], find=False)
    rows = screen.transitions(explorer, ["a", "b", "c"])
    later = labels[1:][labels[:-1] == 0]
    expected = [100 * (later == k).sum() / (later != 0).sum() for k in (1, 2)]
    assert rows[0].cells == ["·", *(f"{share:.0f}%" for share in expected)]


def test_levels_are_named_and_in_order() -> None:
    explorer = {"states": ["0", "-0.5", "0.5", "-1", "left 100%", "left 25%"], "actions": None}
    names = [screen.name_of(explorer, "state", i) for i in range(4)]
    assert names == ["state 0", "state -0.5", "state 0.5", "state -1"]
    assert screen.name_of(explorer, "action", 2) == "action 2"
    counts = np.full((2, 6, 2), 10.0).tolist()
    tables = screen.choices(explorer | {"choices": counts}, ["a", "b"])
    rows = [row[0] for row in tables[0].rows]
    assert rows == ["left 25%", "left 100%", "state -1", "state -0.5", "state 0", "state 0.5"]


def test_a_paragraph_for_a_paper_says_both_questions_with_their_own_numbers() -> None:
    evidence = {"p_value": 0.05, "surrogates": 39, "g1": {"effect": -0.0009, "low": -0.004, "high": 0.002}}
    fit: dict[str, Any] = {"n_intentions": 2, "n_steps": 100, "n_trajectories": 5, "em": {}, "predictive_ll": {}}
    text = methods_text(fit | {"evidence": evidence}, {})
    assert "Intentions gained -0.0009 nats per step (95% interval -0.0040 to +0.0020) over the habit." in text
    goals = {"effect": 0.0566, "low": 0.046, "high": 0.068, "p_adjusted": 0.05}
    text = methods_text(fit | {"evidence": evidence | {"g2": goals}}, {})
    assert "ways that end at places +0.0566 nats per step (95% interval +0.0460 to +0.0680, p = 0.05) more" in text
    assert methods_text(fit | {"evidence": {"p_value": 0.3, "surrogates": 39}}, {}).count("p = 0.3") == 1
