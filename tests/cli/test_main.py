"""What is wrong with a command line is said with what to type instead, in one sentence and without a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from prism_irl.cli.main import main


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (["fit"], "fit needs TABLE, which is missing; for example: prism fit mouse.csv"),
        (["fit", "a.csv"], "fit needs --out, which is missing; for example: prism fit mouse.csv"),
        (["fit", "a.csv", "--out"], "--out needs a value after it; for example: prism fit"),
        (["data", "fetch"], "data fetch needs NAME, which is missing; for example: prism data fetch labyrinth."),
        (["fit", "a.csv", "b.csv", "--out", "x"], "fit does not know what to do with b.csv"),
        (["fit", "a.csv", "--intentons", "2", "--out", "x"], "Did you mean --intentions?"),
    ],
)
def test_one_sentence(
    typed: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(typed) == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_an_interrupt_inside_compiled_code_is_an_interrupt(monkeypatch, capsys):
    def interrupted(*_: object) -> None:
        raise SystemError("a result with an exception set") from KeyboardInterrupt()

    monkeypatch.setattr("prism_irl.cli.main.with_study", interrupted)
    assert main(["fit", "mouse.csv"]) == 130
    assert "interrupted" in capsys.readouterr().err
