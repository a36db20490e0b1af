"""Names follow what intentions do, not their numbers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from prism_irl.errors import InputError
from prism_irl.report.names import carry_names, segmentation

NAMES = ["water", "home", "explore", "rest"]


def posterior(order: list[int]) -> np.ndarray:
    """Intention ``order[i]`` is where the truth is i."""
    truth = np.random.default_rng(0).integers(len(order), size=300)
    return 0.9 * np.eye(len(order))[np.array(order)[truth]] + 0.1 / len(order)


def rows(n: int = 300, seed: int = 0) -> pd.DataFrame:
    """What was observed."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"state": rng.integers(9, size=n), "labels": ["known", None] * (n // 2)})


@pytest.fixture
def run(tmp_path: Path) -> Path:
    p = pd.DataFrame(posterior([0, 1, 2, 3]), columns=[f"p_{k}" for k in range(4)])
    added = pd.DataFrame({"intention": p.to_numpy().argmax(1)})
    pd.concat([rows(), added, p], axis=1).to_parquet(tmp_path / "segments.parquet")
    files = {"metrics.json": {"n_intentions": 4}}
    for file, value in {**files, "names.json": {"names": NAMES}}.items():
        (tmp_path / file).write_text(json.dumps(value))
    return tmp_path


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 1, 0, 2], [1, 2, 3, 0]])
def test_names_follow_any_renumbering(run: Path, order: list[int]) -> None:
    found, notes = carry_names(run, rows().drop(columns="labels"), posterior(order))
    assert [found[k] for k in order] == NAMES
    assert notes == []


def test_names_of_other_data_are_lost_and_said(run: Path) -> None:
    (run / "names.json").write_text('{"names": ["water", "intention 1", "intention 2", "intention 3"]}')
    for data, p in ((rows(seed=1), posterior([0, 1, 2, 3])), (rows()[:-1], posterior([0, 1, 2, 3])[:-1])):
        found, notes = carry_names(run, data, p)
        assert found == [f"intention {k}" for k in range(4)]
        assert len(notes) == 1
        assert "water" in notes[0]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("metrics.json", b'{"n_intentions": Infinity}'),
        ("metrics.json", b"[]"),
        ("segments.parquet", b"PAR1 and nothing"),
    ],
)
def test_a_run_that_was_changed_is_refused(run: Path, name: str, content: bytes) -> None:
    assert segmentation(run)[1].shape == (300, 4)
    (run / name).write_bytes(content)
    with pytest.raises(InputError, match="holds no segmentation that can be compared"):
        segmentation(run)
