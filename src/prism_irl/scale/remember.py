"""Work on many tasks that is remembered on disk: what an interrupted study has finished is not done again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from prism_irl import storage
from prism_irl.scale import fanout

Task = TypeVar("Task")


def spread(
    work: Callable[..., dict[str, Any]],
    tasks: Sequence[Task],
    shared: tuple[Any, ...],
    path: Callable[[Task], Path | None],
    *,
    jobs: int = 1,
    on_rows: Callable[[int], None] | None = None,
) -> list[dict[str, Any]]:
    """Return ``work(task, *shared)`` of every task, in their order; rows are JSON.

    Parameters
    ----------
    path : file of a task's row, named after everything that the row depends on; None remembers nothing
    on_rows : called with how many rows there are, at first with those that were found
    """
    rows: dict[int, dict[str, Any]] = {}
    for index, task in enumerate(tasks):
        file = path(task)
        if file is not None and file.exists():
            rows[index] = storage.read_sealed(file)
    left = [index for index in range(len(tasks)) if index not in rows]
    if on_rows is not None:
        on_rows(len(rows))
    for number, row in fanout.spread(work, [tasks[index] for index in left], shared, jobs=jobs):
        rows[left[number]] = row
        file = path(tasks[left[number]])
        if file is not None:  # written here, because a worker of a cluster need not see this disk
            storage.write_sealed(file, row)
        if on_rows is not None:
            on_rows(len(rows))
    return [rows[index] for index in range(len(tasks))]
