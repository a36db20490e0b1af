"""TensorBoard: the likelihood of every EM iteration, one curve per start.

A callback for ``fit(on_iteration=...)``; ``prism fit --tensorboard`` uses it. Nothing here influences a fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from prism_irl import em
from prism_irl.optional import need


def writer_class() -> Any:
    """What writes event files; asked for before the work begins, it says that TensorBoard is missing."""
    return need("torch.utils.tensorboard", "logging").SummaryWriter


@contextmanager
def tensorboard(folder: str | Path) -> Iterator[em.OnIteration]:
    """Yield a callback that writes event files, one subfolder of ``folder`` per start.

    Examples
    --------
    >>> with tensorboard("runs/mouse/tensorboard") as log:  # doctest: +SKIP
    ...     model.fit(demos, on_iteration=log)
    """
    make = writer_class()
    writers: dict[int, Any] = {}

    def on_iteration(now: em.Progress) -> None:
        if now.start not in writers:
            writers[now.start] = make(log_dir=str(Path(folder) / f"start_{now.start:02d}"))
        writer = writers[now.start]
        writer.add_scalar("log-likelihood per step/train", now.train, now.iteration)
        if now.validation is not None:
            writer.add_scalar("log-likelihood per step/validation", now.validation, now.iteration)

    try:
        yield on_iteration
    finally:
        for writer in writers.values():
            writer.close()
