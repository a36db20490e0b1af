"""Files come back as they were written, or are refused with one sentence; a kill never leaves half a file."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import save_file

from prism_irl import storage
from prism_irl.errors import InputError


@pytest.fixture
def model_file(tmp_path):
    path = tmp_path / "model.safetensors"
    tensors = {
        "float64": np.linspace(0, 1, 7),
        "float32": torch.randn(3, 4, generator=torch.Generator().manual_seed(0)),
        "transposed": np.arange(6).reshape(2, 3).T,
        "flags": np.array([True, False]),
        "read-only": np.broadcast_to(np.arange(3.0), (2, 3)),
        "empty": np.zeros((0, 3)),
        "scalar": torch.tensor(2.5),
    }
    storage.save_tensors(path, tensors, {"a": 1, "rows": [{"x": 0.1}], "missing": float("nan"), "n": np.int64(3)})
    return path, tensors


def test_tensors_come_back_bit_by_bit(model_file):
    path, tensors = model_file
    found, header = storage.load_tensors(path)
    assert found.keys() == tensors.keys()
    for name, expected in tensors.items():
        if not isinstance(expected, torch.Tensor):
            expected = torch.from_numpy(np.array(expected))
        assert found[name].dtype == expected.dtype
        assert torch.equal(found[name], expected)
    assert header == {"a": 1, "rows": [{"x": 0.1}], "missing": None, "n": 3}


def test_floats_in_a_header_keep_every_digit(tmp_path):
    values = np.random.default_rng(0).normal(size=100).tolist()
    storage.save_tensors(tmp_path / "x.safetensors", {"x": np.zeros(1)}, {"values": values})
    assert storage.load_tensors(tmp_path / "x.safetensors")[1]["values"] == values


def test_loaded_tensors_do_not_hang_on_their_file(model_file):
    """What was read from a file must not change when the file does."""
    path, tensors = model_file
    found, _ = storage.load_tensors(path)
    with path.open("r+b") as file:
        file.write(bytes(path.stat().st_size))
    assert torch.equal(found["float64"], torch.as_tensor(tensors["float64"]))


def test_writing_leaves_no_temporary_file(model_file, tmp_path):
    storage.write_json(tmp_path / "config.json", {"a": 1})
    storage.write_text(tmp_path / "history.csv", "a\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.json", "history.csv", "model.safetensors"]


@pytest.mark.parametrize("kind", ["tensors", "json", "text", "file"])
def test_a_write_that_fails_leaves_the_old_file(kind, tmp_path, monkeypatch):
    write = {
        "tensors": lambda path, x: storage.save_tensors(path, {"x": np.array([x])}, {}),
        "json": lambda path, x: storage.write_json(path, {"x": x}),
        "text": lambda path, x: storage.write_text(path, str(x)),
        "file": lambda path, x: storage.write_file(path, lambda file: file.write(str(x).encode())),
    }[kind]
    path = tmp_path / "file"
    write(path, 1.0)
    before = path.read_bytes()

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(storage.os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        write(path, 2.0)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_appears_whole_or_not_at_all(tmp_path):
    target = tmp_path / "folder"

    def write(work):
        with storage.replacing(target) as unfinished:
            unfinished.mkdir()
            (unfinished / "file").touch()
            assert not target.exists()
            work()

    with pytest.raises(ZeroDivisionError):
        write(lambda: 1 / 0)
    assert list(tmp_path.iterdir()) == []
    write(lambda: None)
    assert list(tmp_path.rglob("*")) == [target, target / "file"]


def test_what_a_killed_writer_left_is_swept_and_nothing_else(tmp_path):
    code = "import os, sys; from pathlib import Path; from prism_irl import storage\n"
    code += "with storage.replacing(Path(sys.argv[1])) as t:\n    t.mkdir(); (t / 'x').touch(); os._exit(9)"
    (tmp_path / "in").mkdir()
    for path in (tmp_path / "a", tmp_path / "in" / "b"):
        subprocess.run([sys.executable, "-c", code, str(path)])
    others = tmp_path / ".prism-other-machine-1-ab.tmp"
    others.touch()
    with storage.replacing(tmp_path / "c") as mine:
        mine.touch()
        storage.sweep(tmp_path)
        assert {path.name for path in tmp_path.iterdir()} == {"in", others.name, mine.name}
        assert len(list((tmp_path / "in").iterdir())) == 1
        storage.sweep(tmp_path, below=True)
        assert list((tmp_path / "in").iterdir()) == []


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 100, -1], ids=lambda n: f"{n} bytes")
def test_a_truncated_file_is_refused(model_file, size):
    path, _ = model_file
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(InputError, match=r"model\.safetensors is truncated or not a model file"):
        storage.load_tensors(path)


def test_random_bytes_are_refused(tmp_path):
    path = tmp_path / "noise.safetensors"
    for seed in range(5):
        path.write_bytes(np.random.default_rng(seed).bytes(1000))
        with pytest.raises(InputError, match=r"noise\.safetensors is truncated or not a model file"):
            storage.load_tensors(path)


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}, {"header": "{}"}], ids=str)
def test_a_foreign_file_is_refused(tmp_path, metadata):
    path = tmp_path / "foreign.safetensors"
    save_file({"x": torch.zeros(2)}, path, metadata)
    with pytest.raises(InputError, match="was not written by prism"):
        storage.load_tensors(path)


@pytest.mark.parametrize("header", [{}, {"header": "{"}], ids=["none", "broken"])
def test_a_file_without_its_header_is_refused(tmp_path, header):
    path = tmp_path / "model.safetensors"
    save_file({"x": torch.zeros(2)}, path, {"format": storage.FORMAT, **header})
    with pytest.raises(InputError, match="truncated or not a model file"):
        storage.load_tensors(path)


def test_missing_files_are_named(tmp_path):
    with pytest.raises(InputError, match=r"no model file .*nothing\.safetensors"):
        storage.load_tensors(tmp_path / "nothing.safetensors")
    with pytest.raises(InputError, match=r"no model file"):
        storage.load_tensors(tmp_path)
    with pytest.raises(InputError, match=r"no nothing\.json in "):
        storage.read_json(tmp_path / "nothing.json")


@pytest.mark.parametrize(
    "content", [b"", b"{", b'{"a": }', b"\xff\xfe\x00", b"[" * 100_000, b"9" * 9999], ids=lambda c: repr(c[:9])
)
def test_broken_json_is_refused(tmp_path, content):
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"config\.json is not readable as JSON"):
        storage.read_json(path)


def test_a_number_that_was_kept_is_the_number_that_is_read(tmp_path):
    path, row = tmp_path / "row.json", {"ll": -1.2345678901234567, "fold": 3, "odd": float("nan"), "n": np.int64(7)}
    storage.write_sealed(path, row)
    assert storage.read_sealed(path) == {"ll": -1.2345678901234567, "fold": 3, "odd": None, "n": 7}
    path.write_text(path.read_text().replace("-1.2", "-1.3"))
    with pytest.raises(InputError, match="it is not what its checksum says; remove it"):
        storage.read_sealed(path)
    path.write_text('{"ll": 1.0}')  # nobody knows what it was
    with pytest.raises(InputError, match="is damaged"):
        storage.read_sealed(path)


def test_no_cell_of_results_is_a_formula(tmp_path):
    names = ["=1+1", "@x", "-door", "+", "plain", "-1.5", "\t=x"]
    storage.write_rows(tmp_path / "x.csv", pd.DataFrame({"state": names, "reward": [-1.0] * len(names)}))
    found = pd.read_csv(tmp_path / "x.csv", dtype={"state": str})
    assert found["state"].tolist() == ["'=1+1", "'@x", "'-door", "'+", "plain", "-1.5", "'\t=x"]
    assert found["reward"].tolist() == [-1.0] * len(names)


def test_json_is_json(tmp_path):
    """NaN and infinities become null, because strict readers refuse them; NumPy values become plain ones."""
    value = {
        "nan": float("nan"),
        "inf": np.float32("inf"),
        "nested": [(1, np.nan), np.array([0.5, -np.inf])],
        "flag": np.bool_(True),
        "path": tmp_path,
        3: np.int64(4),
    }
    storage.write_json(tmp_path / "x.json", value)

    def refuse(name):
        raise AssertionError(f"{name} is not JSON")

    found = json.loads((tmp_path / "x.json").read_text(), parse_constant=refuse)
    assert found == {
        "nan": None,
        "inf": None,
        "nested": [[1, None], [0.5, None]],
        "flag": True,
        "path": str(tmp_path),
        "3": 4,
    }
    assert storage.read_json(tmp_path / "x.json") == found


def test_parts_of_a_model_are_told_apart_by_prefix():
    tensors = {**storage.prefixed("now", {"x": torch.tensor(1)}), **storage.prefixed("nowhere", {"x": torch.tensor(2)})}
    assert storage.part("now", tensors) == {"x": torch.tensor(1)}
