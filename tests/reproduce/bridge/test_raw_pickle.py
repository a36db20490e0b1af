import collections
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bridge.raw import RefusedPickleError, load_arrays
from prism_irl.errors import InputError


@pytest.fixture
def stored(tmp_path):
    def store(value, protocol=4) -> Path:
        path = tmp_path / "x.pkl"
        path.write_bytes(value if isinstance(value, bytes) else pickle.dumps(value, protocol))
        return path

    return store


@pytest.mark.parametrize("protocol", range(6))
def test_arrays_and_containers_come_back(stored, protocol):
    value = {
        "full_state": np.arange(12.0).reshape(3, 4),
        "fortran": np.asfortranarray(np.arange(6, dtype=">i4").reshape(2, 3)),
        "flags": np.array([True, False]),
        "words": np.array(["a", "bc"]),
        "scalar": np.float32(1.5),
        "times": [1.5, 2.5],
        "nested": [{"actions": np.ones(7, np.float32), "policy": None}, (1, "two", b"three")],
        "ordered": collections.OrderedDict(a=1),
    }
    found = load_arrays(stored(value, protocol))
    assert found.keys() == value.keys()
    for name in ("full_state", "fortran", "flags", "words"):
        np.testing.assert_array_equal(found[name], value[name])
        assert found[name].dtype == value[name].dtype
    np.testing.assert_array_equal(found["nested"][0]["actions"], np.ones(7))
    assert (found["scalar"], found["times"], found["nested"][1]) == (1.5, [1.5, 2.5], (1, "two", b"three"))
    assert found["ordered"] == {"a": 1}


@given(hnp.arrays(st.sampled_from(["f4", "f8", "i8", "u1"]), hnp.array_shapes(max_dims=3, max_side=4)))
def test_every_array_comes_back(tmp_path_factory, array):
    path = tmp_path_factory.mktemp("pickles") / "x.pkl"
    path.write_bytes(pickle.dumps(array))
    np.testing.assert_array_equal(load_arrays(path), array)


class Attack:
    def __init__(self, *call):
        self.call = call

    def __reduce__(self):
        return self.call[0], self.call[1:]


@pytest.mark.parametrize(
    ("function", "name"),
    [(os.system, "system"), (eval, "eval"), (getattr, "getattr"), (np.load, "load"), (bytearray, "bytearray")],
)
def test_code_is_refused_by_name_and_not_run(stored, tmp_path, function, name):
    mark = tmp_path / "ran"
    path = stored({"full_state": Attack(function, f"open({str(mark)!r}, 'w')")})
    with pytest.raises(RefusedPickleError, match=rf"x\.pkl asks to load .*{name}.*nothing in it was run"):
        load_arrays(path)
    assert not mark.exists()


def test_shapes_without_bytes_are_refused(stored):
    array = np.zeros(3)
    rebuilt = array.__reduce__()
    claims = (1, (10**9,), np.dtype("f8"), False, b"")

    class Bomb:
        def __reduce__(self):
            return rebuilt[0], rebuilt[1], claims

    with pytest.raises(InputError, match="damaged or holds more"):
        load_arrays(stored(Bomb()))
    with pytest.raises(InputError, match="damaged or holds more"):
        load_arrays(stored(Attack(np.ndarray, (10**9,))))


def test_names_cannot_be_changed_from_inside(stored):
    # GLOBAL numpy ndarray, then BUILD with a state: would set attributes on what is shared.
    with pytest.raises(InputError, match="damaged or holds more"):
        load_arrays(stored(b"cnumpy\ndtype\n(dS'real'\nI1\nsb."))
    np.testing.assert_array_equal(load_arrays(stored(np.ones(2))), [1, 1])


def test_a_cycle_and_shared_references(stored):
    cycle: list = []
    cycle.append(cycle)
    with pytest.raises(InputError, match="damaged or holds more"):
        load_arrays(stored(cycle))
    laughs: list = ["ha"]
    for _ in range(60):  # 2^60 leaves when written out
        laughs = [laughs, laughs]
    with pytest.raises(InputError, match="numbers in lists of lists"):  # an array of them would have no end
        load_arrays(stored(laughs))
    few = ["ha"]
    assert load_arrays(stored([few, few])) == [few, few]


def test_zeros_are_not_invented(stored):
    """bytes(n) are n zeros: a content that is a number would be as much memory as it says."""

    class Invented:
        def __reduce__(self):
            state = (1, (10**10,), np.dtype("u1"), False, 10**10)
            return np._core.multiarray._reconstruct, (np.ndarray, (0,), b"b"), state

    with pytest.raises(InputError, match="an array made of int"):
        load_arrays(stored(Invented()))


@pytest.mark.parametrize("cut", [1, 10, 30])
def test_truncated_files(stored, cut):
    path = stored(np.arange(10.0))
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(InputError, match=r"x\.pkl is damaged"):
        load_arrays(path)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="is missing"):
        load_arrays(tmp_path / "absent.pkl")
