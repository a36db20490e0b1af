"""Names follow what intentions do, not their numbers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_irl.errors import InputError
from prism_irl.report.names import Remembered, carry_names, remember, similarity


def run(seed: int, order: list[int], names: list[str]) -> Remembered:
    """Intention i does action i, mostly in state i; ``order`` says under which number."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(len(order), size=300)
    states = np.where(rng.random(300) < 0.7, truth, rng.integers(len(order), size=300))
    probabilities = 0.9 * np.eye(len(order))[np.array(order)[truth]] + 0.1 / len(order)
    return Remembered(states.astype(str), truth.astype(str), probabilities, names)


@given(st.permutations(range(4)), st.booleans())
def test_names_follow_any_renumbering(order: list[int], other_data: bool) -> None:
    names = ["water", "home", "explore", "rest"]
    old, new = run(0, list(range(4)), names), run(int(other_data), order, ["", "", "", ""])
    found, notes = carry_names(old, new)
    assert [found[k] for k in order] == names
    assert notes == []
    alike = similarity(old, new)
    assert ((alike >= 0) & (alike <= 1 + 1e-12)).all()


def test_measurements_are_compared_on_the_same_rows_only() -> None:
    rng = np.random.default_rng(0)
    states, sure = rng.normal(size=(50, 3)), np.eye(2)[rng.integers(2, size=50)]
    old = Remembered(states, states, sure, ["reach", "carry"])
    assert carry_names(old, old._replace(probabilities=sure[:, ::-1]))[0] == ["carry", "reach"]
    names, notes = carry_names(old, old._replace(states=states[:-1], actions=states[:-1], probabilities=sure[:-1]))
    assert names == ["intention 0", "intention 1"]
    assert len(notes) == 2


def test_the_same_sure_run_is_alike() -> None:
    sure = run(0, [0, 1], ["a", "b"])
    sure = sure._replace(probabilities=np.round(sure.probabilities))
    np.testing.assert_allclose(similarity(sure, sure), np.eye(2))


def test_a_name_that_fits_nothing_is_lost_and_said() -> None:
    old = run(0, [0, 1], ["water", "intention 1"])
    elsewhere = run(1, [0, 1], ["", ""])._replace(states=np.full(300, "x"), actions=np.full(300, "y"))
    found, notes = carry_names(old, elsewhere)
    assert found == ["intention 0", "intention 1"]
    assert len(notes) == 1
    assert "water" in notes[0]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.json", b"[1]"),
        ("config.json", b'{"data": {"columns": [1]}}'),
        ("metrics.json", b'{"n_intentions": Infinity}'),
        ("metrics.json", b"[]"),
        ("segments.parquet", b"PAR1 and nothing"),
    ],
)
def test_a_run_that_was_changed_is_refused(tmp_path: Path, name: str, content: bytes) -> None:
    frame = pd.DataFrame({"state": [0, 1], "action": [0, 1], "p_0": [0.5, 1.0], "p_1": [0.5, 0.0]})
    frame.to_parquet(tmp_path / "segments.parquet")
    for file, value in (("config.json", {"data": {"columns": {}}}), ("metrics.json", {"n_intentions": 2})):
        (tmp_path / file).write_text(json.dumps(value))
    assert remember(tmp_path).probabilities.shape == (2, 2)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match="holds no segmentation that can be compared"):
        remember(tmp_path)
