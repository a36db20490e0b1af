"""What a page shows of large data, what it says about that, and what is of all data all the same."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd

from continuous_worlds import walking
from prism_irl import expectation
from prism_irl.data import mapped
from prism_irl.evaluation.likelihood import Inference
from prism_irl.models.persistence import load
from prism_irl.models.shown import shown_part
from support import prism

DEMOS = walking(n_trajectories=12, length=40)


def inferred(n: int) -> Inference:
    """Something different about every step."""
    numbers = np.arange(n)
    return Inference(numbers % 3, np.stack([numbers, -numbers], axis=1).astype(float), -1.0 * numbers, -2.0 * numbers)


def test_small_data_are_shown_whole():
    found = inferred(DEMOS.n_steps)
    assert shown_part(DEMOS, found, {}) == (DEMOS, found, {}, [])


def test_of_large_data_some_trajectories_are_shown_with_what_belongs_to_them(monkeypatch):
    monkeypatch.setattr(expectation, "LARGE", 100)
    marks = {"bell": np.arange(DEMOS.n_steps) % 5 == 0}
    numbered = replace(DEMOS, times=np.arange(DEMOS.n_steps))
    part = shown_part(numbered, inferred(DEMOS.n_steps), marks)
    steps = part.demos.times
    assert len(part.demos) == 3
    np.testing.assert_array_equal(part.found.probabilities[:, 0], steps)
    np.testing.assert_array_equal(part.found.paper, -2.0 * steps)
    np.testing.assert_array_equal(part.marks["bell"], steps % 5 == 0)
    assert "3 of 12 trajectories (120 of 480 steps)" in part.notes[0]


def test_the_command_writes_every_step_of_a_mapped_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(mapped, "SMALL", 0)
    for name, value in {"LARGE": 100, "PART": 150, "SOME": 200}.items():
        monkeypatch.setattr(expectation, name, value)
    monkeypatch.setattr("prism_irl.data.read.ROWS", 90)
    DEMOS.save(tmp_path / "arm")
    pair = "--switching markov --rewards features --intentions 3 --n-starts 1 --max-iterations 2"
    assert prism("fit", "arm", *pair.split(), "--out", "run", cwd=tmp_path).returncode == 0
    rows = pd.read_parquet(tmp_path / "run" / "segments.parquet")
    expected = load(tmp_path / "run").predict(DEMOS)
    np.testing.assert_array_equal(rows["predicted_intention"], expected)
    np.testing.assert_allclose(rows["x"], DEMOS.observations[:, 0])
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert metrics["n_steps"] == DEMOS.n_steps
    assert "3 of 12 trajectories" in metrics["notes"][0]
    assert "3 of 12 trajectories" in (tmp_path / "run" / "report.html").read_text()
