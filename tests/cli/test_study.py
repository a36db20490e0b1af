"""What the columns are is written once, every command reads it, and what is typed wins."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from prism_irl.cli.main import app, main
from prism_irl.cli.study import read_study, recognise, with_study
from prism_irl.errors import InputError
from prism_irl.worlds.samples import SAMPLES
from support import one_sentence


@pytest.fixture
def folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert main(["sample", "mouse", "--out", str(tmp_path / "mouse.csv")]) == 0
    assert main(["init", str(tmp_path / "mouse.csv")]) == 0
    assert capsys.readouterr().out.startswith("Columns: trajectory animal,bout, state cell, action move, time time,")
    return tmp_path


def test_every_verb_takes_what_it_has_a_flag_for(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "nodes.csv").write_text("state,x,y\n")
    text = (folder / "study.toml").read_text()
    text = text.replace('# map = "nodes.csv"', 'map = "nodes.csv"').replace(
        '# covariates = "thirst"', 'covariates = "w"'
    )
    (folder / "study.toml").write_text(text)
    typed = ["fit", str(folder / "mouse.csv"), "--state", "place", "--out", "x"]
    found = with_study(app, typed)
    assert found[: len(typed)] == typed
    assert "cell" not in found
    for words in (
        ["--action", "move"],
        ["--events", "water"],
        ["--map", str(folder / "nodes.csv")],
        ["--covariates", "w"],
    ):
        assert any(found[i : i + 2] == words for i in range(len(found))), words
    assert "study.toml: --trajectory animal,bout" in capsys.readouterr().err
    assert "--covariates" not in with_study(app, ["evidence", str(folder / "mouse.csv"), "--out", "x"])
    assert with_study(app, ["methods"]) == ["methods"]
    other = with_study(app, ["fit", "a.csv", "--study", str(folder / "study.toml"), "--out", "x"])
    assert "--study" not in other
    assert "cell" in other


@pytest.mark.parametrize("name", SAMPLES)
def test_every_sample_is_recognised_and_read(name: str, tmp_path: Path) -> None:
    assert main(["sample", name, "--out", str(tmp_path / "table.csv")]) == 0
    assert main(["init", str(tmp_path / "table.csv")]) == 0
    assert {"trajectory"} < set(read_study(tmp_path / "study.toml"))
    assert main(["init", str(tmp_path / "table.csv")]) == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[columns]\nstat = 'x'", "unknown key 'stat' in .columns.; do you mean state?"),
        ("[colums]\nstate = 'x'", "unknown table .colums.; there are columns, world, units, conditions"),
        ("[columns\n", "is no TOML file"),
        ("[columns]\nstate = true", "state in .* is no name, number or list of names"),
        ("[world]\nmap = []", "map in .* is no name, number or list of names"),
    ],
)
def test_a_study_file_that_cannot_be_meant_is_refused(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(text)
    with pytest.raises(InputError, match=words):
        read_study(tmp_path / "study.toml")


def test_a_name_that_is_too_long_for_a_file_is_that_of_a_column(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(f"[columns]\nlabels = '{'a' * 5000}'")
    assert read_study(tmp_path / "study.toml") == {"labels": ["a" * 5000]}


# -- columns are taken for what they are, and asked for where nobody can know.


N = 60


def table(folder: Path, **columns: object) -> Path:
    """A table of three animals with two bouts each, numbered anew for each animal, with further columns."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"animal": np.repeat(["a", "b", "c"], N // 3), "bout": np.arange(N) // 10 % 2})
    frame = frame.assign(state=rng.integers(0, 4, N), action=rng.integers(0, 2, N) + 5)
    for name, values in columns.items():
        frame[name] = values
    frame = frame[[name for name in frame if frame[name].notna().any()]]
    frame.to_csv(folder / "table.csv", index=False)
    return folder / "table.csv"


def test_names_and_contents_say_what_a_column_is(tmp_path: Path) -> None:
    found = recognise(table(tmp_path, water=np.arange(N) % 7 == 0, drug=np.repeat(["x", "y", "y"], 20)), {})
    assert found.columns == {"trajectory": "animal,bout", "state": "state", "action": "action", "group": "animal"}
    assert (found.events, found.conditions) == (["water"], ["drug"])
    assert found.said == (
        "Columns: trajectory animal,bout, state state, action action, group animal, event water, condition drug."
    )


def test_what_is_given_wins(tmp_path: Path) -> None:
    found = recognise(table(tmp_path, cell=np.arange(N) % 3), {"state": "cell", "trajectory": "animal"})
    assert (found.columns["state"], found.columns["trajectory"]) == ("cell", "animal")


def test_a_group_of_treatments_is_no_group_of_animals(tmp_path: Path) -> None:
    found = recognise(table(tmp_path, group=np.repeat(["control", "drug", "drug"], 20)), {})
    assert found.columns["group"] == "animal"
    assert found.conditions == ["group"]
    alone = table(
        tmp_path, group=np.repeat(["control", "drug", "drug"], 20), animal=None, trajectory=np.arange(N) // 10
    )
    assert "group" not in recognise(alone, {}).columns


def test_names_of_several_words_units_and_blocks_are_read(tmp_path: Path) -> None:
    frame = pd.DataFrame({"MouseID": np.repeat(["a", "b"], 40), "Session Nr": np.arange(80) // 20 % 2})
    frame = frame.assign(
        **{"t (ms)": np.arange(80) % 20 * 50.0, "Zone": np.arange(80) % 3, "Choice": np.arange(80) % 2}
    )
    frame["block"] = np.arange(80) // 5 % 2  # comes back in a session
    frame["condition"] = np.where(frame["MouseID"] == "a", "drug", "saline")
    frame.to_csv(tmp_path / "odd.csv", index=False)
    found = recognise(tmp_path / "odd.csv", {})
    assert found.columns == {
        "trajectory": "MouseID,Session Nr", "state": "Zone", "action": "Choice", "time": "t (ms)", "group": "MouseID",
    }  # fmt: skip
    assert found.conditions == ["condition"]
    assert found.hz == 20.0
    assert "20 steps per second" in found.said


def test_what_tells_rows_of_the_same_time_apart_is_part_of_the_name(tmp_path: Path) -> None:
    frame = pd.DataFrame({"mouse": np.repeat(["a", "b"], 40), "part": np.arange(80) // 20, "step": np.arange(80) % 20})
    frame = frame.assign(node=np.arange(80) % 7, action=np.arange(80) % 3)
    frame.to_csv(tmp_path / "parts.csv", index=False)
    assert recognise(tmp_path / "parts.csv", {}).columns["trajectory"] == "mouse,part"


def test_positions_and_velocities_may_be_words_before_or_behind(tmp_path: Path) -> None:
    x = np.random.default_rng(1).normal(size=(N, 4)).round(3)
    numbers = dict(zip(("pos_x", "y_pos", "vel_x", "y_vel"), x.T, strict=True))
    found = recognise(table(tmp_path, **numbers, state=None, action=None), {})
    assert (found.columns["observe"], found.columns["act"]) == ("pos_x,y_pos", "vel_x,y_vel")
    numbers = dict(zip(("x", "y"), x.T, strict=False))
    with pytest.raises(InputError, match=r"no number like the command of another .* --observe x,y and --act"):
        recognise(table(tmp_path, **numbers, state=None, action=None), {})


def test_numbers_with_their_velocities_are_continuous(tmp_path: Path) -> None:
    x = np.random.default_rng(1).normal(size=(N, 4)).round(3)
    numbers = dict(zip(("x", "grip", "vx", "vgrip"), x.T, strict=True))
    found = recognise(table(tmp_path, **numbers, state=None, action=None), {})
    assert (found.columns["observe"], found.columns["act"]) == ("x,grip", "vx,vgrip")
    labelled = table(
        tmp_path, **numbers, subtask=np.where(np.arange(N) % 10 < 4, "reach", "lift"), state=None, action=None
    )
    assert recognise(labelled, {}).columns["intention"] == "subtask"  # true phases, for evaluation only


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (
            {"state": None, "cell": np.arange(N) % 3, "node": np.arange(N) % 4},
            "state may be cell or node; .* --state cell",
        ),
        ({"state": None, "action": None}, "No column of the table looks like the state"),
        ({"animal": None, "bout": None}, "No column of the table names the trajectory .* --trajectory animal,bout"),
    ],
)
def test_what_nobody_can_know_is_one_sentence(columns: dict[str, object], words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words) as error:
        recognise(table(tmp_path, **columns), {})
    one_sentence(error)


def test_two_columns_of_whole_numbers_are_one_state_and_a_time_of_reaction_is_none(tmp_path: Path) -> None:
    cells = {"pos_x": np.arange(N) % 3, "pos_y": np.arange(N) % 2, "rt": np.arange(N) % 5, "state": None}
    path = table(tmp_path, **cells, heading=np.where(np.arange(N) % 4, "n", "e"), action=None)
    found = recognise(path, {})
    assert (found.columns["state"], found.columns["action"]) == ("pos_x,pos_y", "heading")
    pixels = {"x": np.arange(N), "y": np.arange(N), "state": None}
    with pytest.raises(InputError, match="No column of the table looks like the state"):
        recognise(table(tmp_path, **pixels), {})


def test_a_day_names_a_session_and_is_no_state(tmp_path: Path) -> None:
    days = {"bout": None, "date": np.where(np.arange(N) % 20 < 10, "2026-03-01", "2026-03-02")}
    cues = {"state": None, "contrast": np.where(np.arange(N) % 3, 0.5, -1.0), "trial": np.arange(N) % 10}
    found = recognise(table(tmp_path, **days, **cues), {})
    assert found.columns["trajectory"] == "animal,date"
    assert (found.columns["state"], found.columns["time"]) == ("contrast", "trial")


def test_a_file_of_each_animal_names_the_animal(tmp_path: Path) -> None:
    rows = pd.read_csv(table(tmp_path, treatment=np.repeat(["saline", "low", "high"], N // 3)))
    for animal, own in rows.groupby("animal"):
        own.drop(columns="animal").to_csv(tmp_path / f"mouse_{animal}.csv", index=False)
    found = recognise(tmp_path / "mouse_*.csv", {})
    assert (found.columns["trajectory"], found.columns["group"]) == ("file,bout", "file")
    assert found.conditions == ["treatment"]


def test_commands_recognise_columns_of_other_names_and_leave_clear_ones(tmp_path, capsys):
    table = tmp_path / "people.csv"
    rows = [f"{t // 8},n{t % 4},{'left' if t % 3 else 'go'}" for t in range(64)]
    table.write_text("\n".join(["trial,node,step", *rows]))
    typed = ["evidence", str(table), "--out", "x"]
    assert with_study(app, typed) == [*typed, "--trajectory", "trial", "--state", "node", "--action", "step"]
    assert "Columns: trajectory trial, state node, action step." in capsys.readouterr().err
    both = [*typed, "--action", "step", "--trajectory=trial"]
    assert with_study(app, both) == [*both, "--state", "node"]
    table.write_text("\n".join(["trajectory,state,action", *rows]))
    assert with_study(app, typed) == typed
    table.write_text("\n".join(["trial,p,q", *rows]))  # not clear: the command says what it lacks
    assert with_study(app, typed) == typed
    assert with_study(app, ["fit", str(tmp_path / "gone.csv")]) == ["fit", str(tmp_path / "gone.csv")]
