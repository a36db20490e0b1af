import contextlib
import io
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_irl.errors import InputError
from prism_irl.robots.rlds import crc32c, masked_crc, parse_example, read_records
from recordings_on_disk import build_example, field, write_records


def bitwise(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


@pytest.mark.parametrize(
    ("data", "expected"),
    [(b"", 0), (b"123456789", 0xE3069283), (bytes(32), 0x8A9136AA), (b"\xff" * 32, 0x62A8AB43)],
)
def test_published_checksums(data, expected):
    assert crc32c(data) == expected


@given(st.binary(max_size=700))
def test_checksum_equals_the_definition(data):
    assert crc32c(data) == bitwise(data)


def test_checksum_of_long_data():
    data = np.random.default_rng(0).bytes(50_001)
    assert crc32c(data) == bitwise(data)


names = st.text(min_size=1, max_size=8)
values = st.one_of(
    st.lists(st.binary(max_size=5), min_size=1, max_size=4),
    st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=4).map(lambda v: np.array(v, np.float32)),
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=4).map(lambda v: np.array(v, np.int64)),
)


@given(st.dictionaries(names, values, max_size=4))
def test_examples_come_back(features):
    found = parse_example(build_example(features))
    assert found.keys() == features.keys()
    for name, value in features.items():
        if isinstance(value, list):
            assert found[name] == value
        else:
            np.testing.assert_array_equal(found[name], value)
            assert found[name].dtype == value.dtype


def test_floats_that_are_not_packed():
    feature = b"".join(b"\x0d" + struct.pack("<f", value) for value in (1.5, -2.0))
    entry = field(1, b"x") + field(2, field(2, feature))
    np.testing.assert_array_equal(parse_example(field(1, field(1, entry)))["x"], [1.5, -2.0])


@given(st.binary(max_size=60))
def test_other_bytes_are_an_error_or_features(data):
    with contextlib.suppress(InputError):  # any other error fails the test
        assert isinstance(parse_example(data), dict)


@pytest.fixture
def shard(tmp_path) -> Path:
    buffer = io.BytesIO()
    write_records(buffer, [b"first" * 20, b"second", b"third"])
    path = tmp_path / "x.tfrecord"
    path.write_bytes(buffer.getvalue())
    return path


def test_records_come_back(shard):
    assert [r.data for r in read_records(shard)] == [b"first" * 20, b"second", b"third"]
    assert not any(r.problem for r in read_records(shard))


def test_a_changed_byte_costs_one_record(shard):
    data = bytearray(shard.read_bytes())
    data[20] ^= 1
    shard.write_bytes(data)
    problems = [record.problem for record in read_records(shard)]
    assert problems == ["its checksum is wrong", None, None]


@pytest.mark.parametrize("cut", [1, 5, 15])
def test_a_truncated_file_ends_with_a_problem(shard, cut):
    shard.write_bytes(shard.read_bytes()[:-cut])
    records = list(read_records(shard))
    assert [record.problem is None for record in records] == [True, True, False]


@pytest.mark.parametrize(
    ("length", "words"), [(1 << 60, "more than a record can have"), (1 << 20, "the file has 5 left")]
)
def test_a_huge_length_is_not_believed(tmp_path, length, words):
    header = struct.pack("<Q", length)
    path = tmp_path / "bomb.tfrecord"
    path.write_bytes(header + struct.pack("<I", masked_crc(header)) + b"tiny!" + b"1234")
    records = list(read_records(path))
    assert len(records) == 1
    assert words in records[0].problem


def test_a_length_with_a_wrong_checksum_ends_the_file(shard):
    data = bytearray(shard.read_bytes())
    data[3] ^= 1
    shard.write_bytes(data)
    assert "checksum of its length" in next(iter(read_records(shard))).problem
