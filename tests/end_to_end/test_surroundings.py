"""The same answer, and no word too many, wherever the command is typed: locale, time zone, home, number of cores."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from prism_irl.worlds.frustration import FrustrationWorld

FIT = "fit data.csv --intentions 2 --switching markov --n-starts 1 --max-iterations 3 --time time --quiet --out"
SURROUNDINGS = {
    "C": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "time zone": {"TZ": "Asia/Kathmandu"},
    "no home": {"HOME": "/proc/none", "XDG_CACHE_HOME": "/proc/none", "XDG_CONFIG_HOME": "/proc/none"},
    "one core": {"PRISM_THREADS": "1"},
    "four": {"PRISM_THREADS": "4"},
}


def fitted(folder: Path, **surroundings: str) -> tuple[pd.DataFrame, str]:
    """Segments of a fit, and what it said on standard error."""
    out = folder / "-".join(["run", *surroundings, *surroundings.values()]).replace("/", "-")
    usual = {name: value for name, value in os.environ.items() if name != "MPLCONFIGDIR"}
    command = [sys.executable, "-m", "prism_irl", *FIT.split(), out.name]
    done = subprocess.run(command, cwd=folder, env=usual | surroundings, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return pd.read_parquet(out / "segments.parquet"), done.stderr


@pytest.fixture(scope="module")
def ordinary(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pd.DataFrame, str]:
    folder = tmp_path_factory.mktemp("a folder of the Größe 1")
    table = FrustrationWorld(horizon=12).simulate(12, seed=3).demonstrations.to_pandas()
    table["time"] = pd.date_range("2026-03-29 00:30", periods=len(table), freq="min")
    table.to_csv(folder / "data.csv", index=False)
    return folder, *fitted(folder)


@pytest.mark.slow
@pytest.mark.parametrize("name", SURROUNDINGS)
def test_surroundings_change_nothing(name: str, ordinary: tuple[Path, pd.DataFrame, str]) -> None:
    folder, segments, said = ordinary
    found, heard = fitted(folder, **SURROUNDINGS[name])
    pd.testing.assert_frame_equal(found, segments, rtol=1e-6)
    assert len(heard.splitlines()) == len(said.splitlines()), heard
