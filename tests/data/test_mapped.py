"""Data that do not fit into memory: the same fit from mapped files, part by part, in memory that does not grow."""

from __future__ import annotations

import os
import tempfile
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from continuous_worlds import walking
from prism_irl import em
from prism_irl.data import mapped
from prism_irl.data.archive import open_folder
from prism_irl.data.batching import Prepared
from prism_irl.data.contexts import Contexts
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.motions import MotionDemonstrations
from prism_irl.data.units import Units
from prism_irl.errors import InputError
from prism_irl.models.prism import PRISM
from prism_irl.rewards.features import Features
from prism_irl.rewards.linear import Basis, LinearPolicies
from prism_irl.switching.markov import MarkovChain
from support import assert_same, one_sentence


@pytest.fixture
def everything_is_large(monkeypatch):
    """Small data are treated as if they were large."""
    monkeypatch.setattr(mapped, "SMALL", 0)
    monkeypatch.setattr(em, "IN_PARTS", 100)
    monkeypatch.setattr(em, "PART", 150)


def test_a_fit_from_a_folder_is_that_in_memory(tmp_path, monkeypatch, everything_is_large):
    demos = walking(n_trajectories=10, length=60)
    known = np.where(np.arange(demos.n_steps) % 7 == 0, demos.labels, -1)
    data = replace(demos, known=known)
    data.save(tmp_path / "folder")
    options = {"n_starts": 1, "max_iterations": 6, "warm_up": 2, "device": "cpu", "validation_fraction": 0.2}
    model = PRISM(3, switching="markov", rewards=Features(ridge=1.0), **options)
    ours = clone(model).fit(open_folder(tmp_path / "folder"))
    monkeypatch.undo()
    reference = model.fit(data)
    assert ours.score(data) == pytest.approx(reference.score(data), abs=1e-9)
    np.testing.assert_allclose(ours.predict_proba(data), reference.predict_proba(data), atol=1e-9)
    np.testing.assert_allclose(ours.switching_.moves, reference.switching_.moves, atol=1e-9)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=8), st.integers(1, 20))
def test_parts_are_all_trajectories_in_order(lengths, most):
    actions = [np.arange(n) % 2 for n in lengths]
    demos = Demonstrations.from_arrays(actions, actions)
    parts = list(Prepared.of(demos, Contexts(demos.n_states)).parts(most))
    assert np.concatenate([part.demos.lengths for part in parts]).tolist() == lengths
    np.testing.assert_array_equal(np.concatenate([part.demos.actions for part in parts]), demos.actions)
    assert all(part.demos.n_steps <= most or len(part.demos) == 1 for part in parts)


def test_what_is_made_of_mapped_files_is_mapped(tmp_path, everything_is_large):
    demos = walking(n_trajectories=6, length=20)
    demos.save(tmp_path / "folder")
    stored = open_folder(tmp_path / "folder")
    part = stored.subset([4, 1])
    assert mapped.is_mapped(part.observations)
    assert not mapped.is_mapped(demos.subset([4, 1]).observations)
    assert_same(part, demos.subset([4, 1]))
    units = Units.fit(demos)
    scaled = units.apply(stored)
    assert mapped.is_mapped(scaled.observations)
    np.testing.assert_array_equal(scaled.motions, units.apply(demos).motions)


def peak(folder: Path, n_trajectories: int) -> int:
    """Bytes that one EM iteration over a folder of so many trajectories of 100 steps allocates at its peak."""
    rng = np.random.default_rng(0)
    n, D, M, K = 100 * n_trajectories, 8, 3, 4
    tokens = np.zeros(n, np.int64)
    x, y = rng.standard_normal((n, D)).astype(np.float32), rng.standard_normal((n, M))
    MotionDemonstrations(
        tokens, tokens, np.arange(0, n + 1, 100), 1, 1, observations=x, motions=y, motion_names=("a", "b", "c")
    ).save(folder)
    del x, y
    demos = open_folder(folder)
    data = Prepared.of(demos, Contexts(demos.n_states))
    chain, policies = MarkovChain(K), LinearPolicies(K, M, Basis(D))
    policies.weights += rng.standard_normal(policies.weights.shape)
    em.m_step(chain, policies, data, em.e_step(chain, policies, data))  # whatever is compiled or kept is by now
    tracemalloc.start()
    try:
        em.m_step(chain, policies, data, em.e_step(chain, policies, data))
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_the_memory_of_an_iteration_does_not_grow_with_the_data(tmp_path, monkeypatch):
    monkeypatch.setattr(em, "IN_PARTS", 5_000)
    monkeypatch.setattr(em, "PART", 10_000)
    few, many = peak(tmp_path / "few", 200), peak(tmp_path / "many", 1_600)
    assert many < 1.2 * few
    assert many < 8 * 4 * 160_000  # less than one belief about every step


def test_a_disk_without_room_is_said_before_anything_is_lost(tmp_path, monkeypatch, everything_is_large):
    walking(n_trajectories=2, length=20).save(tmp_path / "folder")
    stored = open_folder(tmp_path / "folder")

    def full(*_: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(InputError, match="set TMPDIR") as error:
        stored.subset([0])
    assert tempfile.gettempdir() in one_sentence(error)
