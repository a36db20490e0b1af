"""Rows with beliefs, written in parts: the file is the one that is written at once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from continuous_worlds import walking
from prism_irl.data import segment_files
from prism_irl.data.segment_files import write_segments
from prism_irl.data.tables import Table
from prism_irl.data.vocabulary import Vocabulary


@pytest.mark.parametrize("named", [False, True])
def test_parts_make_the_same_file(tmp_path, monkeypatch, named):
    demos = walking(n_trajectories=7, length=20)
    known = np.full(demos.n_steps, -1)
    known[-3:] = 1  # nobody knows anything about the first parts
    names = np.array(list("abcdefg")) if named else np.array(["twice"] * 7)
    demos = replace(demos, known=known, known_names=("go", "stay"), trajectory_names=names)
    one = Vocabulary(None, 1)
    table = Table(demos, None, np.arange(demos.n_steps), one, one, None)
    rng = np.random.default_rng(0)
    labels, beliefs = rng.integers(3, size=demos.n_steps), rng.random((demos.n_steps, 3))
    write_segments(table, labels, beliefs, tmp_path / "whole.parquet")
    monkeypatch.setattr(segment_files, "ROWS", 45)
    write_segments(table, labels, beliefs, tmp_path / "parts.parquet")
    whole, parts = (pd.read_parquet(tmp_path / f"{name}.parquet") for name in ("whole", "parts"))
    pd.testing.assert_frame_equal(parts, whole)
    assert parts["labels"].dropna().tolist() == ["stay"] * 3
