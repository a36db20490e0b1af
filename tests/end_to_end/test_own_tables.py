"""Tables as people bring them, through the command: what is wrong is said with the way out, which then works."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from prism_irl.data.read import read_data
from prism_irl.worlds.frustration import ACTIONS, FrustrationWorld
from support import page_of, prism

COLUMNS = "--state cell --action move"
FIT = (
    f"{COLUMNS} --intentions 2 --switching markov --n-starts 1 --max-iterations 3 --simulations 0 --device cpu".split()
)


@pytest.fixture(scope="module")
def steps() -> pd.DataFrame:
    """Six animals whose bouts are numbered from 0 in each."""
    table = FrustrationWorld(horizon=12).simulate(24, seed=3).demonstrations.to_pandas()
    return pd.DataFrame(
        {
            "animal": [f"m{t // 4}" for t in table["trajectory"]],
            "bout": table["trajectory"] % 4,
            "t": table.groupby("trajectory").cumcount(),
            "cell": [f"x{s % 5}y{s // 5}" for s in table["state"]],
            "move": [ACTIONS[a] for a in table["action"]],
        }
    )


def test_numbers_that_restart_are_refused_and_the_way_out_works(steps: pd.DataFrame, tmp_path: Path) -> None:
    steps.to_csv(tmp_path / "mouse.csv", index=False)
    done = prism("fit", "mouse.csv", "--trajectory", "bout", *FIT, "--out", "run", cwd=tmp_path)
    assert done.returncode == 2
    assert "line 50" in done.stderr  # 4 bouts of 12 steps below the header
    assert "--trajectory animal,bout" in done.stderr
    assert not (tmp_path / "run").exists()
    done = prism("fit", "mouse.csv", "--trajectory", "animal,bout", *FIT, "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert (metrics["n_trajectories"], metrics["data_notes"]) == (24, [])
    done = prism("segment", "run", "mouse.csv", "--out", "labels.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    labels = pd.read_csv(tmp_path / "labels.csv")
    pd.testing.assert_frame_equal(labels[steps.columns], steps, check_dtype=False)


def test_duplicate_times_are_refused_and_can_be_kept(steps: pd.DataFrame, tmp_path: Path) -> None:
    steps.assign(t=steps["t"] // 2).to_csv(tmp_path / "mouse.csv", index=False)
    columns = ["--trajectory", "animal,bout", "--time", "t", *FIT, "--out", "run"]
    done = prism("fit", "mouse.csv", *columns, cwd=tmp_path)
    assert done.returncode == 2
    assert "two rows at time 0, line 2 and line 3; 144 rows" in done.stderr
    done = prism("fit", "mouse.csv", *columns, "--ties", "keep", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_dates_of_either_order_are_asked_for_and_read(steps: pd.DataFrame, tmp_path: Path) -> None:
    """Ambiguous ones are refused; with the option, or with a day above 12, they are times."""
    clock = pd.Timestamp("2026-04-03") + pd.to_timedelta(steps["t"], unit="D")
    steps.assign(t=clock.dt.strftime("%d/%m/%Y 10:00")).to_csv(tmp_path / "later.csv", index=False)
    first = steps["t"] < 9  # the third to the eleventh of April
    steps[first].assign(t=clock[first].dt.strftime("%d/%m/%Y 10:00")).to_csv(tmp_path / "early.csv", index=False)
    done = prism(
        "evidence",
        "early.csv",
        "--trajectory",
        "animal,bout",
        "--time",
        "t",
        *COLUMNS.split(),
        "--out",
        "run",
        cwd=tmp_path,
    )
    assert done.returncode == 2
    assert "--dates day-first or --dates month-first" in done.stderr
    named: dict[str, Any] = {"trajectory": "animal,bout", "time": "t", "state": "cell", "action": "move"}
    asked = read_data(tmp_path / "early.csv", **named, dates="day-first").demonstrations
    told = read_data(tmp_path / "later.csv", **named).demonstrations
    assert asked.times is not None
    assert told.times is not None
    for demos in (asked, told):
        assert (np.diff(demos.times[: demos.lengths[0]]) == np.timedelta64(1, "D")).all()


def test_gaps_are_said_in_the_verdict_and_can_be_cut(steps: pd.DataFrame, tmp_path: Path) -> None:
    steps.assign(t=np.where(steps["t"] < 6, steps["t"], steps["t"] + 4)).to_csv(tmp_path / "mouse.csv", index=False)
    columns = ["--trajectory", "animal,bout", "--time", "t", *FIT, "--out", "run"]
    done = prism("fit", "mouse.csv", *columns, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "24 gaps in time" in done.stderr
    page = page_of(tmp_path / "run")
    assert "24 gaps in time" in page
    assert "--max-gap 1.5" in page
    done = prism("fit", "mouse.csv", *columns, "--max-gap", "1.5", "--overwrite", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert (metrics["n_trajectories"], metrics["data_notes"]) == (48, [])
    done = prism("score", "run", "mouse.csv", "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["n_steps"] == len(steps)


def test_new_data_are_sorted_by_time_too(steps: pd.DataFrame, tmp_path: Path) -> None:
    steps.to_csv(tmp_path / "mouse.csv", index=False)
    steps.sample(frac=1.0, random_state=0).to_csv(tmp_path / "shuffled.csv", index=False)
    done = prism("fit", "mouse.csv", "--trajectory", "animal,bout", "--time", "t", *FIT, "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    scores = [prism("score", "run", name, "--json", cwd=tmp_path).stdout for name in ("mouse.csv", "shuffled.csv")]
    one, other = (json.loads(text)["predictive_ll"] for text in scores)
    assert one == pytest.approx(other, abs=1e-9)
