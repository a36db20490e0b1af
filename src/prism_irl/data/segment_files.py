"""segments.parquet: every row with its intention and beliefs, written in parts where the data are large.

Demonstrations that lie on disk (`data.archive`) have no table in memory, and rows of all their steps with K
probabilities each may not fit into it; then some trajectories at a time become rows. The file is the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from prism_irl import storage
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.frames import storable_frame
from prism_irl.data.sampling import parts_of
from prism_irl.data.table_files import write_table
from prism_irl.data.tables import Table, row_names, with_posterior

ROWS = 2**18
"""Rows that are in memory at the same time."""


def write_segments(table: Table, labels: npt.NDArray[Any], probabilities: npt.NDArray[Any], path: Path) -> None:
    """Write `tables.with_posterior` of flat labels (n,) and probabilities (n, K) as Parquet, whole or not at all."""
    if table.frame is not None or table.demonstrations.n_steps <= ROWS:
        write_table(with_posterior(table, labels, probabilities), path)
        return
    demos = replace(table.demonstrations, trajectory_names=row_names(table.demonstrations))

    def frames(demos: Demonstrations) -> Iterator[pd.DataFrame]:
        for rows, part in parts_of(demos, ROWS):
            own = table._replace(demonstrations=part, order=np.arange(part.n_steps))
            yield storable_frame(with_posterior(own, labels[rows], probabilities[rows]))

    def write(file: IO[bytes]) -> None:
        schema = pa.Schema.from_pandas(next(frames(_with_most(demos))), preserve_index=False)
        with pq.ParquetWriter(file, schema) as rows:
            for frame in frames(demos):
                rows.write_table(pa.Table.from_pandas(frame, schema=schema, preserve_index=False))

    storage.write_file(path, write)


def _with_most(demos: Demonstrations) -> Demonstrations:
    """A trajectory whose rows have something in every column: one with a label where there is one."""
    known = np.flatnonzero(demos.known >= 0)[:1] if demos.known is not None else np.zeros(0, np.int64)
    first = 0 if not len(known) else int(np.searchsorted(demos.offsets, known[0], side="right")) - 1
    return demos.subset([first])
