"""What the columns are is written once, every command reads it, and what is typed wins."""

from __future__ import annotations

from pathlib import Path

import pytest

from prism_irl.cli.main import app, main
from prism_irl.cli.study import read_study, with_study
from prism_irl.errors import InputError
from prism_irl.worlds.samples import SAMPLES


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
    ],
)
def test_a_study_file_that_cannot_be_meant_is_refused(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(text)
    with pytest.raises(InputError, match=words):
        read_study(tmp_path / "study.toml")
