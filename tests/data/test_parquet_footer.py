"""What a footer claims is what pyarrow says of it; damaged footers are refused, whatever byte was changed."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from prism_irl.data.parquet_footer import claimed_columns


@pytest.fixture
def table(tmp_path):
    rows = 23
    data = {
        "episode_index": np.repeat([0, 1], [10, 13]),
        "action": [[float(i), 0.5, -1.0] for i in range(rows)],
        "task": ["reach"] * rows,
    }
    path = tmp_path / "episodes.parquet"
    pq.write_table(pa.table(data), path, row_group_size=9)
    return path


def test_claims_are_those_of_pyarrow(table):
    metadata = pq.read_metadata(table)
    expected = [
        (column.path_in_schema, column.num_values, group.num_rows)
        for group in (metadata.row_group(i) for i in range(metadata.num_row_groups))
        for column in (group.column(j) for j in range(group.num_columns))
    ]
    assert [(one.path, one.values, one.rows) for one in claimed_columns(table)] == expected


def test_any_damage_is_an_error_or_a_claim(table):
    whole = table.read_bytes()
    rng = np.random.default_rng(0)
    length = int.from_bytes(whole[-8:-4], "little")
    for _ in range(2000):
        broken = bytearray(whole)
        for place in len(whole) - 8 - length + rng.integers(0, length + 8, rng.integers(1, 4)):
            broken[place] = rng.integers(256)
        table.write_bytes(broken[: rng.integers(1, len(broken)) if rng.random() < 0.1 else None])
        try:
            found = list(claimed_columns(table))
        except ValueError:
            continue
        assert all(one.values >= 0 and one.rows >= 0 for one in found)
