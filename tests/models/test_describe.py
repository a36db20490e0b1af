"""What a fit is described by; of large data what a page shows, what it says about that, and what is of all data."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd

from continuous_worlds import walking
from prism_irl import em
from prism_irl.data import mapped
from prism_irl.models.describe import describe
from prism_irl.models.intentions import Intentions
from prism_irl.models.registry import load
from prism_irl.worlds.frustration import FrustrationWorld
from support import prism

DEMOS = walking(n_trajectories=12, length=40)


def test_of_large_data_some_trajectories_are_shown_with_what_belongs_to_them(monkeypatch):
    model = Intentions(3, switching="markov", rewards="features", n_starts=1, max_iterations=2).fit(DEMOS)
    marks = {"bell": np.arange(DEMOS.n_steps) % 5 == 0}
    whole = describe(model, DEMOS, events=marks, references=False)
    assert len(whole.shown.demos) == 12
    assert not whole.notes
    monkeypatch.setattr(em, "LARGE", 100)
    monkeypatch.setattr(em, "SOME", 100)
    part = describe(model, DEMOS, events=marks, references=False)
    assert len(part.shown.demos) == 3
    assert len(part.shown.probabilities) == 120 == len(part.shown.marks["bell"])
    assert "3 of 12 trajectories (120 of 480 steps)" in part.notes[0]
    np.testing.assert_array_equal(part.usage, whole.usage)  # of all steps


def test_the_command_writes_every_step_of_a_mapped_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(mapped, "SMALL", 0)
    for name, value in {"LARGE": 100, "PART": 150, "SOME": 200}.items():
        monkeypatch.setattr(em, name, value)
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


def test_intentions_that_want_nothing_are_named():
    model = Intentions(3, switching="markov", rewards="goals", n_starts=1, max_iterations=2)
    demos = FrustrationWorld(horizon=30).simulate(20, seed=0).demonstrations
    shown = describe(model.fit(demos), demos, references=False)
    assert "Intention 2 wants nothing in particular and follows the habit" in " ".join(shown.notes)
    assert shown.choices["planned"]
    free = Intentions(2, switching="markov", rewards="tabular", n_starts=1, max_iterations=2).fit(demos)
    assert not describe(free, demos, references=False).choices["planned"]
