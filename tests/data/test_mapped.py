from __future__ import annotations

import json
import os
import tempfile
import tracemalloc
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from torch.utils._python_dispatch import TorchDispatchMode

from continuous_worlds import walking
from prism_irl import em
from prism_irl.data import mapped
from prism_irl.data.batching import Prepared
from prism_irl.data.contexts import Contexts
from prism_irl.data.continuous import Units
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.mapped import open_folder, write_folder
from prism_irl.data.read import read_data
from prism_irl.data.rows import Vocabulary
from prism_irl.devices import as_array
from prism_irl.errors import InputError
from prism_irl.models.intentions import Intentions
from prism_irl.models.presets import HIQL
from prism_irl.rewards.linear import Basis, LinearPolicies
from prism_irl.rewards.options import Features
from support import assert_same, one_sentence


@pytest.fixture
def everything_is_large(monkeypatch):
    """Small data are treated as if they were large."""
    monkeypatch.setattr(mapped, "SMALL", 0)
    monkeypatch.setattr(em, "LARGE", 100)
    monkeypatch.setattr(em, "PART", 150)


@pytest.mark.parametrize("switching", ["markov", "ordered", "recurrent"])
def test_a_fit_from_a_folder_is_that_in_memory(tmp_path, monkeypatch, everything_is_large, switching):
    demos = walking(n_trajectories=10, length=60)
    stages = demos.step_index * 3 // 60  # what is known of stages is in order
    known = np.where(np.arange(demos.n_steps) % 7 == 0, stages if switching == "ordered" else demos.labels, -1)
    data = replace(demos, partial_labels=known)
    data.save(tmp_path / "folder")
    options = {"n_starts": 2, "max_iterations": 3, "warm_up": 2, "device": "cpu", "validation_fraction": 0.2}
    network = {"embedding": 4, "hidden": 4, "batch_size": 3, "epochs_per_m_step": 2} if switching == "recurrent" else {}
    model = Intentions(3, switching=switching, rewards=Features(ridge=1.0), **options, **network)
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
    model = Intentions(K, switching=switching, rewards=Features(ridge=1.0), **options)
    model._set_up(demos, None)
    start = model._new_start(0, demos)
    policies = start.rewards = LinearPolicies(K, M, Basis(D))
    policies.weights += rng.standard_normal(policies.weights.shape)

    def iteration() -> None:
        em.em_iteration(start.switching, policies, em.parts_of(start.switching, policies, data), 0)
        em.likelihood(start.switching, policies, data)

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
    monkeypatch.setattr(em, "LARGE", 5_000)
    monkeypatch.setattr(em, "PART", 10_000)
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


# -- a folder of demonstrations ----------------------------------------------------------------------------------------


def equal(one: Demonstrations, other: Demonstrations) -> None:
    for field in fields(Demonstrations):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if isinstance(a, np.ndarray):
            assert a.dtype.kind == b.dtype.kind, field.name
            np.testing.assert_array_equal(a, b, err_msg=field.name)
        else:
            assert a == b, field.name


@pytest.fixture
def full(make_demos) -> Demonstrations:
    demos = make_demos(n_observations=2, masked=True, groups=list("aabbccdd"))
    n = demos.n_steps
    return replace(
        demos,
        labels=np.arange(n) % 3,
        times=np.arange(n) * 0.5,
        state_names=tuple("vwxyz"),
        action_names=("left", "right", "stay"),
        label_names=("rest", "seek", "flee"),
        trajectory_names=np.array([f"bout {i}" for i in range(8)]),
    )


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**31), st.integers(1, 400), st.integers(1, 300), st.booleans(), st.sampled_from(["", ".npz"]))
def test_what_is_saved_comes_back(tmp_path_factory, make_demos, seed, n_states, n_actions, vectors, ending) -> None:
    demos = make_demos(seed, n_states=n_states, n_actions=n_actions, n_observations=3 * vectors)
    path = tmp_path_factory.mktemp("archive") / f"demos{ending}"
    demos.save(path)
    back = Demonstrations.open(path)
    equal(demos, back)
    assert back.checksum() == demos.checksum()


@pytest.mark.parametrize("name", ["demos", "demos.npz"])
def test_everything_optional_comes_back_too(full: Demonstrations, tmp_path: Path, name: str) -> None:
    full.save(tmp_path / name)
    equal(full, Demonstrations.open(tmp_path / name))
    assert not list(tmp_path.glob(".*")), "nothing half-written is left"


def test_files_are_mapped_and_small(full: Demonstrations, tmp_path: Path) -> None:
    full.save(tmp_path / "demos")
    back = Demonstrations.open(tmp_path / "demos")
    for name in ("states", "actions", "observations", "labels"):
        base = getattr(back, name)
        while base.base is not None and not isinstance(base, np.memmap):
            base = base.base
        assert isinstance(base, np.memmap), f"{name} was read into memory"
    assert np.load(tmp_path / "demos" / "states.npy").dtype == np.uint8


def test_parts_are_written_one_after_the_other(full: Demonstrations, tmp_path: Path) -> None:
    pieces = [full.subset([0, 1, 2]), full.subset([3]), full.subset([4, 5, 6, 7])]
    write_folder(tmp_path / "demos", iter(pieces))
    equal(full, Demonstrations.open(tmp_path / "demos"))


def test_parts_of_different_worlds_are_refused(full: Demonstrations, tmp_path: Path) -> None:
    for other, words in (
        (full.resized(n_states=9), "n_states"),
        (replace(full, labels=None), "labels"),
        (replace(full, groups=None), "groups"),
        (full.with_valid_actions(None), "valid_actions"),
    ):
        if "n_states" in words:
            other = replace(other, state_names=full.state_names)
        with pytest.raises(InputError, match=words):
            write_folder(tmp_path / "demos", [full, other])
        assert not list(tmp_path.iterdir()), "nothing half-written is left"
    with pytest.raises(InputError, match="no demonstrations"):
        write_folder(tmp_path / "demos", [])


def test_nothing_is_overwritten(full: Demonstrations, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    with pytest.raises(InputError, match="exists already"):
        full.save(tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "precious"


def change_byte(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def rewrite(path: Path, **changes: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


DAMAGES = {
    "a changed action": (lambda f: change_byte(f / "actions.npy", -1), "not those that were written"),
    "another name of a trajectory": (
        lambda f: np.save(f / "trajectory_names.npy", np.load(f / "trajectory_names.npy")[::-1]),
        "not those that were written",
    ),
    "other labels": (lambda f: change_byte(f / "labels.npy", -1), "not those that were written"),
    "another order of names": (
        lambda f: rewrite(f / "meta.json", action_names=list("cba")),
        "not those that were written",
    ),
    "numbers that are no characters": (
        lambda f: np.save(f / "trajectory_names.npy", np.full(8, 0x110000, "<u4").view("<U1")),
        "text that is damaged",
    ),
    "a changed observation": (lambda f: change_byte(f / "observations.npy", -2), "not those that were written"),
    "a state out of range": (lambda f: np.save(f / "states.npy", np.full(43, 77, np.uint8)), "state 77"),
    "too few states": (lambda f: np.save(f / "states.npy", np.zeros(42, np.uint8)), r"shape \(42,\) for 43"),
    "fractions": (lambda f: np.save(f / "states.npy", np.zeros(43)), "type float64"),
    "a truncated file": (lambda f: (f / "states.npy").write_bytes((f / "states.npy").read_bytes()[:-5]), "states.npy"),
    "complex times": (lambda f: np.save(f / "times.npy", np.zeros(43, complex)), "times.npy is damaged"),
    "no header": (lambda f: (f / "actions.npy").write_bytes(b"hello"), "actions.npy is damaged"),
    "Python objects": (
        lambda f: np.save(f / "groups.npy", np.array([{}] * 8, dtype=object), allow_pickle=True),
        "groups.npy is damaged",
    ),
    "a missing file": (lambda f: (f / "labels.npy").unlink(), "no labels.npy"),
    "offsets of other data": (lambda f: np.save(f / "offsets.npy", np.arange(9)), "end at 8"),
    "falling offsets": (lambda f: np.save(f / "offsets.npy", np.array([0, 9, 5, 20, 25, 30, 35, 40, 43])), "empty"),
    "no meta.json": (lambda f: (f / "meta.json").unlink(), "no meta.json"),
    "a foreign meta.json": (lambda f: (f / "meta.json").write_text("{}"), "does not describe"),
    "broken JSON": (lambda f: (f / "meta.json").write_text("{"), "not readable as JSON"),
    "a newer version": (lambda f: rewrite(f / "meta.json", version=2), "version 2"),
    "a path in the list of arrays": (
        lambda f: rewrite(f / "meta.json", arrays=["states", "actions", "offsets", "../../x"]),
        "meta.json is damaged",
    ),
    "no sizes": (lambda f: rewrite(f / "meta.json", n_states=None), "meta.json is damaged"),
}


def test_a_folder_of_an_earlier_version_is_read(full: Demonstrations, tmp_path: Path) -> None:
    full.save(tmp_path / "demos")
    meta = json.loads((tmp_path / "demos" / "meta.json").read_text())
    del meta["described"]
    (tmp_path / "demos" / "meta.json").write_text(json.dumps(meta))
    assert Demonstrations.open(tmp_path / "demos").checksum() == full.checksum()


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_folder_is_an_error(damage: str, full: Demonstrations, tmp_path: Path) -> None:
    full.save(tmp_path / "demos")
    break_it, words = DAMAGES[damage]
    break_it(tmp_path / "demos")
    with pytest.raises(InputError, match=words):
        Demonstrations.open(tmp_path / "demos")


def test_a_fit_on_a_folder_is_the_fit_on_its_data(make_demos, tmp_path: Path) -> None:
    demos = make_demos(3, lengths=[20] * 12, n_states=3)
    demos.save(tmp_path / "demos")
    table = read_data(tmp_path / "demos")
    assert (table.states.size, table.actions.size, table.frame) == (3, 3, None)
    one, other = (HIQL(2, n_starts=1, max_iterations=5).fit(d) for d in (demos, table.demonstrations))
    np.testing.assert_array_equal(one.policies_, other.policies_)
    assert one.score(demos) == other.score(table.demonstrations)


def test_a_model_reads_a_folder_in_its_own_ids(full: Demonstrations, tmp_path: Path) -> None:
    full.save(tmp_path / "demos")
    states = Vocabulary(("z", "y", "x", "w", "v", "u"), 6)
    table = read_data(tmp_path / "demos", states=states)
    assert table.demonstrations.n_states == 6
    np.testing.assert_array_equal(table.demonstrations.states, 4 - full.states.astype(int))
    with pytest.raises(InputError, match=r"state [xyz] at trajectory bout"):
        read_data(tmp_path / "demos", states=Vocabulary(("v", "w"), 2))
    unknown = read_data(tmp_path / "demos", states=Vocabulary(("v", "w"), 2), unknown_state=True)
    np.testing.assert_array_equal(unknown.demonstrations.states, np.minimum(full.states, 2))


def test_opening_and_the_checksum_take_no_memory_that_grows_with_the_data(tmp_path: Path) -> None:
    n = 6_000_000
    part = Demonstrations(np.zeros(n // 6, np.uint16), np.zeros(n // 6, np.uint8), np.arange(0, n // 6 + 1, 50), 300, 4)
    write_folder(tmp_path / "demos", (part for _ in range(6)))
    tracemalloc.start()
    demos = Demonstrations.open(tmp_path / "demos")
    demos.checksum()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert demos.n_steps == n
    assert peak < 4 * n, "one byte per step of states and actions would already be 3 n"
