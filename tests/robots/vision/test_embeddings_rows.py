import numpy as np
import pytest

from prism_irl.errors import InputError
from prism_irl.robots.vision.embeddings import Rows, as_rows


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(n, 3)).astype(np.float32) for n in (5, 1, 9)]
    paths = [tmp_path / f"part-{i}.npy" for i in range(3)]
    for path, part in zip(paths, parts, strict=True):
        np.save(path, part)
    return paths, np.concatenate(parts)


@pytest.mark.parametrize("size", [1, 2, 4, 100])
def test_files_are_one_long_array(files, size):
    paths, whole = files
    rows = Rows(paths)
    assert rows.shape == whole.shape
    chunks = list(rows.chunks(size))
    assert max(len(chunk) for chunk in chunks) <= size
    np.testing.assert_array_equal(np.concatenate(chunks), whole)
    index = np.array([0, 4, 5, 6, 14])
    np.testing.assert_array_equal(rows.take(index), whole[index])


def test_kept_rows(files):
    paths, whole = files
    mask = np.arange(15) % 3 != 0
    rows = Rows(paths, mask)
    assert rows.shape == (10, 3)
    np.testing.assert_array_equal(np.concatenate(list(rows.chunks(4))), whole[mask])
    np.testing.assert_array_equal(rows.take(np.array([1, 9])), whole[mask][[1, 9]])
    with pytest.raises(InputError, match="mask"):
        Rows(paths, mask[:-1])


def test_half_precision_is_widened(tmp_path):
    np.save(tmp_path / "x.npy", np.ones((4, 2), np.float16))
    assert as_rows(tmp_path / "x.npy").take(np.arange(2)).dtype == np.float32


def test_wrong_files(tmp_path, files):
    paths, _ = files
    np.save(tmp_path / "wide.npy", np.zeros((2, 4)))
    with pytest.raises(InputError, match=r"have \[3, 4\] dimensions"):
        Rows([paths[0], tmp_path / "wide.npy"])
    paths[0].write_bytes(paths[0].read_bytes()[:-4])
    with pytest.raises(InputError, match="damaged"):
        Rows(paths)
    np.save(tmp_path / "objects.npy", np.array([[{}]], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="not an npy file"):
        Rows([tmp_path / "objects.npy"])
    (tmp_path / "text.npy").write_text("no")
    with pytest.raises(InputError, match="not an npy file"):
        Rows([tmp_path / "text.npy"])
    with pytest.raises(InputError, match="give numbers"):
        Rows([np.zeros(3)])
