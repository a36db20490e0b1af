"""Maps, valid actions and dynamics as tables: read in the names of the data, refused with line and way out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from prism_irl.data import geography
from prism_irl.data.geography import Rows
from prism_irl.data.rows import Vocabulary
from prism_irl.errors import InputError
from prism_irl.maze import maze_mdp
from support import one_sentence

STATES, ACTIONS = Vocabulary(("bed", "door", "food"), 3), Vocabulary(("go", "stay"), 2)


def written(folder: Path, text: str, *needed: str) -> Rows:
    (folder / "w.csv").write_text(text)
    return Rows(folder / "w.csv", needed, "a map", ("state", "next_state", "action"))


def test_a_map_has_places_neighbours_and_walls(tmp_path: Path) -> None:
    text = "state,x,y,neighbours,x2,y2\nbed,0,0,door,,\nfood,2,1,door bed,,\ndoor,1,0.5,,,\n,0,0,,3,0\n"
    found = geography.read_map(written(tmp_path, text, "state", "x", "y"), STATES)
    assert found.xy.tolist() == [[0, 0], [1, 0.5], [2, 1]]
    assert found.edges is not None
    assert found.edges.tolist() == [[0, 1], [0, 2], [1, 2]]
    assert found.walls.tolist() == [[0, 0, 3, 0]]


@pytest.mark.parametrize(("cell", "words"), [("1 door", "door"), ("1 1e999", "1e999"), ("7", "7")])
def test_neighbours_that_are_no_states_are_named(tmp_path: Path, cell: str, words: str) -> None:
    (tmp_path / "w.csv").write_text(f"state,x,y,neighbours\n0,0,0,{cell}\n1,1,0,\n")
    with pytest.raises(InputError, match=f"The state {words} at column 'neighbours', line 2"):
        geography.read_map(Rows(tmp_path / "w.csv", ("state", "x", "y"), "a map"), Vocabulary(None, 2))


def test_a_number_far_beyond_the_data_is_no_state() -> None:
    with pytest.raises(InputError, match="names the state 1000000000000, and the data end at 4"):
        geography.extended(Vocabulary(None, 5), [3, 10**12], "state")
    assert geography.extended(Vocabulary(None, 5), [3, 8], "state").size == 9


def test_numbers_stay_numbers_beside_walls(tmp_path: Path) -> None:
    (tmp_path / "w.csv").write_text("state,x,y,x2,y2,neighbours\n0,0,0,,,1\n1,1,0,,,\n,0,0,1,1,\n")
    found = geography.read_map(Rows(tmp_path / "w.csv", ("state", "x", "y"), "a map"), Vocabulary(None, 2))
    assert found.xy.tolist() == [[0, 0], [1, 0]]
    assert found.edges is not None
    assert found.edges.tolist() == [[0, 1]]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("state,x\nbed,0\n", ("no column 'y'",)),
        ("state,x,y\n", ("no rows",)),
        ("state,x,y\nbed,0,north\n", ("north", "column 'y', line 2", "finite")),
        ("state,x,y\nbed,0,0\nbed,1,1\n", ("bed", "line 3", "two places")),
        ("state,x,y\nbed,0,0\n,1,1\n", ("line 3", "x2 and y2")),
        ("state,x,y,neighbours\nbed,0,0,attic\n", ("The state attic", "line 2")),
    ],
)
def test_what_is_wrong_with_a_map(text: str, parts: tuple[str, ...], tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        geography.read_map(written(tmp_path, text, "state", "x", "y"), STATES)
    for part in parts:
        assert part in one_sentence(error)


@pytest.mark.parametrize("wrong", ["5", "0x3", "5x", "axb"])
def test_a_grid_has_two_sizes(wrong: str) -> None:
    assert geography.parse_grid("5x4") == geography.parse_grid(" 5 × 4 ") == (5, 4)
    with pytest.raises(InputError, match="such as 5x5"):
        geography.parse_grid(wrong)


def test_valid_actions_are_listed(tmp_path: Path) -> None:
    rows = written(tmp_path, "state,action\nbed,go\ndoor,stay\n", "state", "action")
    assert geography.read_valid_actions(rows, STATES, ACTIONS).tolist() == [
        [True, False],
        [False, True],
        [False, False],
    ]


class TestDynamics:
    def read(self, tmp_path: Path, text: str) -> object:
        rows = written(tmp_path, "state,action,next_state,probability\n" + text, "state", "action", "next_state")
        return geography.read_dynamics(rows, STATES, ACTIONS)

    def test_what_is_not_listed_does_not_exist_and_ends_stay(self, tmp_path: Path) -> None:
        mdp = self.read(tmp_path, "bed,go,door,0.8\nbed,go,bed,0.2\ndoor,go,food,1\ndoor,stay,door,1\n")
        assert mdp.valid_actions.tolist() == [[True, False], [True, True], [True, True]]
        table = mdp.transitions.toarray().reshape(3, 2, 3)
        assert table[0, 0].tolist() == pytest.approx([0.2, 0.8, 0])
        assert table[2].tolist() == [[0, 0, 1], [0, 0, 1]]

    def test_rows_must_sum_to_one(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"action go in state bed sum to 0\.7 in w\.csv"):
            self.read(tmp_path, "bed,go,door,0.7\n")

    def test_arrays_are_read_where_the_data_has_numbers(self, tmp_path: Path) -> None:
        mdp = maze_mdp()
        np.savez(tmp_path / "p.npz", P=mdp.transitions.toarray().reshape(127, 4, 127) + _stay(~mdp.valid_actions))
        load: Callable[..., object] = geography.load_dynamics
        found = load(tmp_path / "p.npz", Vocabulary(None, 127), Vocabulary(None, 4))
        assert (found.n_states, found.n_actions) == (127, 4)
        with pytest.raises(InputError, match=r"only numbers them; give a \.csv"):
            load(tmp_path / "p.npz", STATES, ACTIONS)
        with pytest.raises(InputError, match="4 actions and the data 2"):
            load(tmp_path / "p.npz", Vocabulary(None, 127), Vocabulary(None, 2))


def _stay(pairs: np.ndarray) -> np.ndarray:
    return pairs[..., None] * np.eye(len(pairs))[:, None]


def test_a_world_may_have_more_than_was_visited() -> None:
    assert geography.extended(STATES, ["attic", "bed"], "state").names == ("attic", "bed", "door", "food")
    assert geography.extended(Vocabulary(None, 3), [7], "state") == Vocabulary(None, 8)
    with pytest.raises(InputError, match="numbers, and a file of the world names attic"):
        geography.extended(Vocabulary(None, 3), ["attic"], "state")
