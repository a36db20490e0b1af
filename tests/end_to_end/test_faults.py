"""A disk that is full: the old results stay whole, one sentence, exit code 2; the fit goes on when there is room."""

from __future__ import annotations

import hashlib
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from support import prism

FIT = "--switching markov --intentions 2 --n-starts 1 --max-iterations 3 --simulations 0".split()


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(3)
    shape = {"trajectory": np.repeat(np.arange(5), 20), "state": rng.integers(0, 4, 100)}
    path = tmp_path_factory.mktemp("data") / "data.csv"
    pd.DataFrame({**shape, "action": rng.integers(0, 3, 100)}).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def run(table: Path) -> Path:
    done = prism("fit", table, *FIT, "--out", table.parent / "run", cwd=table.parent)
    assert done.returncode == 0, done.stderr
    return table.parent / "run"


@contextmanager
def full_after(n_bytes: int) -> Iterator[None]:
    """No file may become longer: the system refuses, as a full disk does, whoever writes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def content(folder: Path) -> dict[str, str]:
    files = [path for path in folder.rglob("*") if path.is_file() and ".unfinished" not in path.parts]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


# From the first mark in the folder to figures and report, which are the largest.
@pytest.mark.parametrize("n_bytes", [10, 300, 1500, 4000, 12_000, 40_000])
def test_a_fit_that_replaces_another_leaves_it_whole(table: Path, run: Path, n_bytes: int) -> None:
    before = content(run)
    with full_after(n_bytes):
        done = prism("fit", table, *FIT, "--seed", "1", "--out", run, "--overwrite", cwd=table.parent)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert "File too large" in done.stderr
    assert content(run) == before
    assert not list(run.rglob("*.tmp"))


WRITERS = [
    "segment {run} {table} --out labels.csv",
    "segment {run} {table} --out labels.parquet --intervals labels.csv",
    "report {run}",
    "names {run} names.json",
    "individuals {run} --unit trajectory",
    "imagine {run} --without 1 --unaware --simulations 20 --jobs 1",
    "evidence {table} --surrogates 1 --out {run} --overwrite",
    "compare {table} --methods uniform --folds 2 --out {run} --overwrite",
]


@pytest.mark.parametrize("command", WRITERS)
def test_other_writers_leave_what_was_there(table: Path, run: Path, tmp_path: Path, command: str) -> None:
    (tmp_path / "labels.csv").write_text("old")
    (tmp_path / "names.json").write_text('{"names": ["seek water", "go home"]}')
    before, words = content(run), command.format(run=run, table=table).split()
    with full_after(10):
        done = prism(*words, *(["--overwrite"] if "segment" in command else []), cwd=tmp_path)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert (tmp_path / "labels.csv").read_text() == "old"
    assert content(run) == before


def test_a_fit_that_was_stopped_by_a_full_disk_goes_on(table: Path, run: Path, tmp_path: Path) -> None:
    with full_after(12_000):
        assert prism("fit", table, *FIT, "--out", tmp_path / "run", cwd=tmp_path).returncode == 2
    done = prism("fit", table, *FIT, "--out", tmp_path / "run", "--resume", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    whole, resumed = (pd.read_parquet(folder / "segments.parquet") for folder in (run, tmp_path / "run"))
    pd.testing.assert_frame_equal(whole, resumed)
