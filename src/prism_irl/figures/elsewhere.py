"""Figures drawn in processes of their own, while the command that wants them goes on.

Drawing takes matplotlib longer than a small fit takes EM, and needs nothing but numbers. The processes begin with the
command and import what they need while it imports its own libraries; the figures are the same to the byte (tested).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Executor
    from multiprocessing.connection import Connection

Drawn = TypeVar("Drawn")
PROCESSES = 2


class Drawing:
    """Where figures are drawn: here and at once, unless there are processes for it."""

    allowed: ClassVar[bool] = False  # set by a command that is a process of its own; a program has its own ideas

    def __init__(self, threads: Executor | None = None, processes: SimpleQueue[Connection] | None = None) -> None:
        self._threads, self._free = threads, processes

    def draw(self, function: Callable[..., Drawn], *arguments: Any) -> Callable[[], Drawn]:
        """Begin to draw; what is returned waits for the end and gives the result, or raises the error."""
        if self._threads is None:
            result = function(*arguments)
            return lambda: result
        return self._threads.submit(self._send, function, arguments).result

    def _send(self, function: Callable[..., Drawn], arguments: tuple[Any, ...]) -> Drawn:
        """Give the work to a process that is free; without one that lives it is done in this thread."""
        assert self._free is not None
        process = self._free.get()
        try:
            process.send((function, arguments))
            error, result = process.recv()
        except (EOFError, OSError):  # it was killed, most likely for its memory
            error, result = None, function(*arguments)
        finally:
            self._free.put(process)
        if error is not None:
            raise error
        return result  # type: ignore[no-any-return]


HERE = Drawing()


def has_room(threads: int | None) -> bool:
    """Whether there is a second core to draw on, and nobody has asked for one thread."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores > 1 and threads != 1 and hasattr(signal, "pthread_sigmask")


@contextmanager
def drawing_elsewhere() -> Iterator[Drawing]:
    """Processes that draw, for as long as the block lasts; killed, they or this one, neither waits for the other."""
    from concurrent.futures import ThreadPoolExecutor
    from multiprocessing import get_context, resource_tracker

    resource_tracker.ensure_running()  # which unblocks signals when it starts
    context, free, processes = get_context("spawn"), SimpleQueue[Any](), []
    # Ctrl-C is for the command, which then ends its processes: they are born deaf to it.
    heard = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        for _ in range(PROCESSES):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs,), daemon=True)
            process.start()
            theirs.close()
            free.put(ours)
            processes.append(process)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, heard)
    threads = ThreadPoolExecutor(PROCESSES)
    try:
        yield Drawing(threads, free)
    finally:
        for process in processes:
            process.kill()
        threads.shutdown(wait=False, cancel_futures=True)


def _serve(work: Connection) -> None:
    """Draw what comes until nobody is left to send any."""
    from prism_irl.figures import checks, curves, layouts, style, timelines  # noqa: F401

    while True:
        try:
            function, arguments = work.recv()
        except EOFError:
            return
        try:
            work.send((None, function(*arguments)))
        except Exception as error:
            work.send((error, None))
