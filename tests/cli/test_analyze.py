"""One command from a table to an answer: it recognises, tests, fits and tells, and goes on where it stopped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import prism_irl as prism
from prism_irl.cli import analyze as analysis
from prism_irl.cli import select
from prism_irl.cli.main import main
from prism_irl.errors import InputError
from prism_irl.worlds import samples


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """As little of every step as shows that it is made."""
    monkeypatch.setattr(select, "QUICK", {"starts": 1, "max_iterations": 2})
    choice = {"intentions": "1,2", "starts": 1, "max_iterations": 2, "splits": 1}
    monkeypatch.setattr(analysis, "QUICK_CHOICE", choice)
    few: dict[str, Any] = {"n_starts": 1, "max_iterations": 2, "validation_fraction": 0.2}
    monkeypatch.setattr(analysis, "QUICK_FIT", few)


def table(folder: Path, name: str, rows: int) -> Path:
    frame = pd.DataFrame(samples.sample(name))
    frame.head(rows).to_csv(folder / f"{name}.csv", index=False)
    return folder / f"{name}.csv"


def test_a_table_of_numbers_is_fitted_and_read_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["analyze", str(table(tmp_path, "two-goals", 600)), "--quick", "--out", str(tmp_path / "run")]
    assert main(command) == 0
    told = capsys.readouterr()
    assert "Columns: trajectory walk, observe x,y, act vx,vy, time time." in told.err
    answer, page = told.out.splitlines()
    assert " intentions in this fit; their number was not tested: intention 0 goes to x " in answer
    assert page == f"Page: {tmp_path / 'run' / 'fit' / 'report.html'}"
    written = (tmp_path / "run" / "fit" / "model.safetensors").stat().st_mtime_ns
    assert main(command) == 0
    assert capsys.readouterr().out.splitlines() == [answer, page]
    assert (tmp_path / "run" / "fit" / "model.safetensors").stat().st_mtime_ns == written, "not made again"
    assert main([*command, "--seed", "3"]) == 2
    assert "holds an analysis of other data or options" in capsys.readouterr().err
    assert main(["segment", str(tmp_path / "run"), command[1], "--out", str(tmp_path / "labels.csv")]) == 0
    assert "intention" in pd.read_csv(tmp_path / "labels.csv"), "the folder of an analysis is that of its fit"


def test_python_returns_the_same_with_tables(tmp_path: Path) -> None:
    frame = pd.DataFrame(samples.sample("mouse")).head(800)
    found = prism.analyze(frame, out=tmp_path / "run", quick=True, surrogates=1, jobs=1, n_intentions=2)
    assert found.evidence is not None
    assert found.answer.startswith("Two intentions ")
    assert len(found.segments) == len(frame)
    stretches, trips = found.stretches, found.trips
    assert stretches["steps"].sum() == len(frame)
    assert set(stretches["trajectory"]) == {f"m1/{bout}" for bout in range(8)}
    kept = pd.read_csv(tmp_path / "run" / "fit" / "trips.csv")
    assert trips["length"].tolist() == kept["length"].tolist(), "the trips of the page"
    np.testing.assert_allclose(found.transitions.sum(axis=1).isin([0.0, 1.0]), True)
    assert found.policies is not None
    np.testing.assert_allclose(found.policies.sum(axis=1), 1.0)
    assert found.rewards is not None
    assert found.model.n_intentions == 2
    assert list(found.policies.index.levels[0]) == found.names == list(found.transitions)
    assert {*trips["name"], *stretches["name"]} <= set(found.names)
    figure = Figure()
    axes = figure.subplots(2)
    assert found.model.plot.raster(found.demonstrations, ax=axes[0]) is figure
    assert found.model.plot.timeline(found.demonstrations, trajectory=1, ax=axes[1]) is figure
    assert axes[1].lines or axes[1].collections
    assert "report.html" in found._repr_html_()
    config = json.loads((tmp_path / "run" / "analysis.json").read_text())
    assert config["columns"]["state"] == "cell"
    with pytest.raises(InputError, match="no option 'cell'"):
        prism.analyze(frame, out=tmp_path / "run", cell="x")


def test_a_folder_of_somebody_else_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine.txt").write_text("")
    assert main(["analyze", str(table(tmp_path, "arm", 300)), "--out", str(tmp_path / "run")]) == 2
    assert "is not empty and holds no analysis" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["mine.txt"]
