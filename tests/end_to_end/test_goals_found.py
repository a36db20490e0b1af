"""`prism fit table.csv` with nothing but column names finds how many goals there are, on worlds of the zoo."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support import prism
from zoo.worlds import draw


@pytest.mark.parametrize("seed", [5, 7, 47, 48, 55])
def test_the_bare_command_finds_the_goals(seed: int, tmp_path: Path) -> None:
    world = draw(seed)
    world.train.to_pandas().drop(columns=["intention", "group"], errors="ignore").to_csv(tmp_path / "table.csv")
    done = prism("fit", "table.csv", "--simulations", "0", "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert metrics["n_intentions"] == world.n_intentions
    assert "intentions are places" in metrics["default"]["why"]
    trips = (tmp_path / "run" / "trips.csv").read_text().splitlines()
    assert trips[0].startswith("trajectory,intention,from,to,first,last,length,shortest,arrived,probability")
