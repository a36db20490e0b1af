"""Data that do not fit into memory: the same fit from mapped files, part by part, in memory that does not grow."""

from __future__ import annotations

import os
import tempfile
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from torch.utils._python_dispatch import TorchDispatchMode

from continuous_worlds import walking
from prism_irl import em, expectation
from prism_irl.data import mapped
from prism_irl.data.archive import open_folder
from prism_irl.data.batching import Prepared
from prism_irl.data.contexts import Contexts
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.units import Units
from prism_irl.devices import as_array
from prism_irl.errors import InputError
from prism_irl.models.prism import PRISM
from prism_irl.rewards.linear import Basis, LinearPolicies
from prism_irl.rewards.options import Features
from support import assert_same, one_sentence


@pytest.fixture
def everything_is_large(monkeypatch):
    """Small data are treated as if they were large."""
    monkeypatch.setattr(mapped, "SMALL", 0)
    monkeypatch.setattr(expectation, "LARGE", 100)
    monkeypatch.setattr(expectation, "PART", 150)


@pytest.mark.parametrize("switching", ["markov", "ordered", "recurrent"])
def test_a_fit_from_a_folder_is_that_in_memory(tmp_path, monkeypatch, everything_is_large, switching):
    demos = walking(n_trajectories=10, length=60)
    known = np.where(np.arange(demos.n_steps) % 7 == 0, demos.labels, -1)
    data = replace(demos, known=known)
    data.save(tmp_path / "folder")
    options = {"n_starts": 2, "max_iterations": 3, "warm_up": 2, "device": "cpu", "validation_fraction": 0.2}
    network = {"embedding": 4, "hidden": 4, "batch_size": 3, "epochs_per_m_step": 2} if switching == "recurrent" else {}
    model = PRISM(3, switching=switching, rewards=Features(ridge=1.0), **options, **network)
    stored = open_folder(tmp_path / "folder")
    ours = clone(model).fit(stored)
    found = ours.posterior(stored)
    assert all(mapped.is_mapped(values) for values in found[:4])
    monkeypatch.undo()
    reference = model.fit(data)
    exact = 1e-9 if switching != "recurrent" else 1e-5  # single precision, and Adam
    for name, value in reference._state().items():
        np.testing.assert_allclose(as_array(ours._state()[name]), as_array(value), atol=exact, err_msg=name)
    for one, other in zip(found[:4], reference.posterior(data)[:4], strict=True):
        np.testing.assert_allclose(one, other, atol=10 * exact)
    np.testing.assert_array_equal(ours.predict(data), reference.predict(data))
    assert ours.agreement_ == pytest.approx(reference.agreement_)
    assert ours.monitor_[-1]["train"] == pytest.approx(reference.monitor_[-1]["train"], abs=exact)


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


def peak(folder: Path, n_trajectories: int, switching: str) -> int:
    """Bytes that one EM iteration over a folder of so many trajectories of 100 steps allocates at its peak."""
    rng = np.random.default_rng(0)
    n, D, M, K = 100 * n_trajectories, 8, 3, 4
    tokens = np.zeros(n, np.int64)
    x, y = rng.standard_normal((n, D)).astype(np.float32), rng.standard_normal((n, M))
    Demonstrations(
        tokens, tokens, np.arange(0, n + 1, 100), 1, 1, observations=x, motions=y, motion_names=("a", "b", "c")
    ).save(folder)
    del x, y
    demos = open_folder(folder)
    data = Prepared.of(demos, Contexts(demos.n_states))
    options = {"embedding": 4, "hidden": 4, "device": "cpu", "validation_fraction": 0.0}
    model = PRISM(K, switching=switching, rewards=Features(ridge=1.0), **options)
    model._set_up(demos, None)
    start = model._new_start(0, demos)
    policies = start.rewards = LinearPolicies(K, M, Basis(D))
    policies.weights += rng.standard_normal(policies.weights.shape)

    def iteration() -> None:
        if start.switching.incremental:
            em.improve(start, data, 0)
            em.likelihood(start.switching, policies, data)
        else:
            em.m_step(start.switching, policies, data, em.e_step(start.switching, policies, data))

    iteration()  # whatever is compiled or kept is by now
    with CountedTensors() as tensors:
        tracemalloc.start()
        try:
            iteration()
            return tracemalloc.get_traced_memory()[1] + max(tensors)
        finally:
            tracemalloc.stop()


class CountedTensors(TorchDispatchMode):
    """Sizes in bytes of the tensors that operations of torch give, which tracemalloc does not see."""

    def __enter__(self) -> list[int]:
        self.sizes = [0]
        super().__enter__()
        return self.sizes

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        found = function(*args, **(kwargs or {}))
        self.sizes += [one.nbytes for one in torch.utils._pytree.tree_leaves(found) if isinstance(one, torch.Tensor)]
        return found


@pytest.mark.parametrize("switching", ["markov", "recurrent"])
def test_the_memory_of_an_iteration_does_not_grow_with_the_data(tmp_path, monkeypatch, switching):
    monkeypatch.setattr(expectation, "LARGE", 5_000)
    monkeypatch.setattr(expectation, "PART", 10_000)
    few, many = peak(tmp_path / "few", 200, switching), peak(tmp_path / "many", 1_600, switching)
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
