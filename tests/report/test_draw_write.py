"""`prism fit --intervals`: in metrics, table, figures and report."""

import json

import pandas as pd
import pytest

from support import prism
from worlds.cohort import CohortWorld

QUICK = ("--method", "hiql", "--intentions", 2, "--n-starts", 2, "--simulations", 0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("intervals")
    CohortWorld(animals=3, trajectories=3, horizon=40).simulate(0).demonstrations.to_pandas().to_csv(
        folder / "mouse.csv", index=False
    )
    return folder


def test_intervals_are_kept_shown_and_dropped_with_the_next_run(folder):
    done = prism("fit", "mouse.csv", *QUICK, "--intervals", 20, "--jobs", 1, "--out", "run", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "95% intervals over 20 resamples of 6 animals" in done.stdout
    found = json.loads((folder / "run" / "metrics.json").read_text())["intervals"]
    assert found["numbers"]["usage"]["interval"][0] < found["numbers"]["usage"]["interval"][1]
    table = pd.read_csv(folder / "run" / "intervals.csv")
    assert {"usage", "dwell", "switch_rate", "kernel", "rewards", "values", "new_units"} == set(table["measure"])
    page = (folder / "run" / "report.html").read_text()
    assert "20 resamples of the 6 animals" in page
    assert (folder / "run" / "figures" / "intervals.svg").is_file()
    assert not (folder / "run" / "checkpoint").exists()
    figures = [folder / "run" / "figures" / f"{name}.csv" for name in ("intervals", "interval_rewards")]
    before = [path.read_text() for path in figures]
    assert prism("names", "run", "water,home", cwd=folder).returncode == 0  # drawn again from what the run keeps
    words = [text.replace("intention 0", "water").replace("intention 1", "home") for text in before]
    assert [path.read_text() for path in figures] == words
    again = prism("fit", "mouse.csv", *QUICK, "--out", "run", "--overwrite", cwd=folder)
    assert again.returncode == 0
    assert not (folder / "run" / "intervals.csv").exists()


def test_too_few_resamples_are_refused_before_anything_is_written(folder):
    done = prism("fit", "mouse.csv", *QUICK, "--intervals", 3, "--out", "few", cwd=folder)
    assert done.returncode == 2
    assert "20 or more" in done.stderr
    assert not (folder / "few").exists()
