"""New data is read as the fit read its own: in the same order in time, whatever the rate, with the same individuals."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from support import prism

FIT = "--switching markov --intentions 2 --n-starts 1 --max-iterations 5 --simulations 0".split()


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(3)
    n, m = 6, 25
    frame = pd.DataFrame(
        {
            "trajectory": np.repeat(np.arange(n), m),
            "state": rng.integers(0, 4, n * m),
            "action": rng.integers(0, 3, n * m),
            "tick": np.concatenate([rng.permutation(m) for _ in range(n)]),
        }
    )
    path = tmp_path_factory.mktemp("data") / "data.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def run(table: Path) -> Path:
    out = table.parent / "run"
    done = prism("fit", table, "--time", "tick", "--hz", 4, *FIT, "--out", out, cwd=table.parent)
    assert done.returncode == 0, done.stderr
    return out


def test_segment_gives_the_labels_of_the_run(table: Path, run: Path, tmp_path: Path) -> None:
    assert prism("segment", run, table, "--out", tmp_path / "labels.parquet", cwd=tmp_path).returncode == 0
    found, own = pd.read_parquet(tmp_path / "labels.parquet"), pd.read_parquet(run / "segments.parquet")
    pd.testing.assert_frame_equal(found, own)


def test_a_time_of_another_name_is_given_by_hand(table: Path, run: Path, tmp_path: Path) -> None:
    pd.read_csv(table).rename(columns={"tick": "clock"}).to_csv(tmp_path / "new.csv", index=False)
    refused = prism("score", run, "new.csv", cwd=tmp_path)
    assert refused.returncode == 2
    assert "no column 'tick' for the time" in refused.stderr
    assert "--time" in refused.stderr
    renamed, original = (
        prism("score", run, *data, "--json", cwd=tmp_path) for data in (("new.csv", "--time", "clock"), (table,))
    )
    assert renamed.stdout == original.stdout
