"""Independent fits, and the parts of one, spread over the cores of this machine or over a cluster.

Locally joblib starts processes; with the address of a Dask scheduler its workers make the fits. Data goes to every
worker once, not once per fit. What a lost worker was doing is done again by another one, and so is the data: it is
the result of a task of its own, which the scheduler knows how to make again.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import closing, contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

from joblib import Parallel, cpu_count, delayed

from prism_irl import (
    halves,  # noqa: F401, so that a process that works for this one finds a user's own modules
    storage,
)
from prism_irl.data.batching import Parts, Prepared
from prism_irl.devices import limit_threads
from prism_irl.em import EStep, Run
from prism_irl.errors import InputError, brief
from prism_irl.optional import need

Task = TypeVar("Task")
Result = TypeVar("Result")
CHUNK = 10
"""Tasks that a process is given, and results that are remembered, at a time."""
ATTEMPTS = 3
"""Times that the cluster may lose everything without finishing a single fit in between."""
CONNECT_SECONDS = 60
"""How long to wait for a scheduler, and for the first worker or the next one after all were lost."""
_scheduler: ContextVar[str | None] = ContextVar("scheduler", default=None)


@contextmanager
def cluster(scheduler: str | None) -> Iterator[None]:
    """Let the workers of a Dask scheduler (tcp://host:port) make all fits that are spread in here; None: this machine.

    Everything that fits many models asks `spread` to, at whatever depth; only the command knows about a cluster.
    """
    token = _scheduler.set(scheduler)
    try:
        yield
    finally:
        _scheduler.reset(token)


def on_cluster() -> bool:
    """Whether fits go to a cluster."""
    return _scheduler.get() is not None


def side_by_side(jobs: int) -> bool:
    """Whether several fits run at once, so that each should keep to one thread."""
    return jobs != 1 or on_cluster()


def spread(
    function: Callable[..., Result], tasks: Sequence[Task], shared: tuple[Any, ...], *, jobs: int = 1
) -> Iterator[tuple[int, Result]]:
    """Yield (index of the task, ``function(task, *shared)``) as results come in, in any order.

    Fits side by side keep to one thread each: threads inside would only fight each other.
    """
    if jobs < 1 and jobs != -1:
        raise InputError(f"The number of jobs is {jobs}; give at least 1, or -1 for every core.")
    if not tasks:
        return
    scheduler = _scheduler.get()
    if scheduler is None:
        # A process that imports torch in a later fit looks to joblib like one that leaks: it is replaced, and nothing
        # is lost. Where warnings are errors, this one would end joblib's own thread, and all would wait for it.
        warnings.filterwarnings("ignore", "A worker stopped while some jobs were given", UserWarning)
        owner = os.getpid(), side_by_side(jobs)
        calls = (delayed(_numbered)(function, i, owner, task, *shared) for i, task in enumerate(tasks))
        # No more processes than fits: each of them takes memory, and a second to start.
        processes = min(cpu_count() if jobs == -1 else jobs, len(tasks))
        yield from Parallel(n_jobs=processes, return_as="generator_unordered")(calls)
    else:
        yield from _on_cluster(function, tasks, shared, scheduler)


def in_chunks(
    work: Callable[..., Result],
    tasks: Sequence[Any],
    shared: tuple[Any, ...],
    *,
    jobs: int = 1,
    on_part: Callable[[int, int], None] | None = None,
) -> list[Result]:
    """Return ``work(task, *shared)`` of every task, in their order; a process is given `CHUNK` tasks at a time.

    ``on_part`` is called with how many results there are, and will be.
    """
    chunks = [tasks[i : i + CHUNK] for i in range(0, len(tasks), CHUNK)]
    done: dict[int, list[Result]] = {}
    for index, found in spread(_each, chunks, (work, *shared), jobs=jobs):
        done[index] = found
        if on_part is not None:
            on_part(sum(map(len, done.values())), len(tasks))
    return [one for index in sorted(done) for one in done[index]]


def _each(tasks: Sequence[Any], work: Callable[..., Result], *shared: Any) -> list[Result]:
    return [work(task, *shared) for task in tasks]


def remembered(
    work: Callable[..., dict[str, Any]],
    tasks: Sequence[Task],
    shared: tuple[Any, ...],
    path: Callable[[Task], Path | None],
    *,
    jobs: int = 1,
    on_rows: Callable[[int], None] | None = None,
) -> list[dict[str, Any]]:
    """Return ``work(task, *shared)`` of every task, in their order; those on disk are not made again.

    ``path`` is the file of a task's row, named after everything that the row depends on (None remembers nothing);
    ``on_rows`` is called with how many rows there are, at first with those that were found.
    """
    tell, files = on_rows or (lambda _: None), [path(task) for task in tasks]
    rows = {i: storage.read_sealed(file) for i, file in enumerate(files) if file is not None and file.exists()}
    left = [index for index in range(len(tasks)) if index not in rows]
    tell(len(rows))
    for number, row in spread(work, [tasks[index] for index in left], shared, jobs=jobs):
        rows[left[number]] = row
        if (file := files[left[number]]) is not None:  # written here: a worker of a cluster need not see this disk
            storage.write_sealed(file, row)
        tell(len(rows))
    return [rows[index] for index in range(len(tasks))]


def _numbered(
    function: Callable[..., Result], index: int, owner: tuple[int, bool], *arguments: Any
) -> tuple[int, Result]:
    parent, alone = owner
    _follow(parent)
    if alone:
        limit_threads(1)
    return index, function(*arguments)


@cache
def _follow(parent: int) -> None:
    """End this process soon after the one that it works for, which may be killed without a word to its children."""
    if os.getpid() == parent or os.getppid() != parent:
        return

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    Thread(target=watch, daemon=True).start()


def _on_cluster(
    function: Callable[..., Result], tasks: Sequence[Task], shared: tuple[Any, ...], scheduler: str
) -> Iterator[tuple[int, Result]]:
    def submit(client: Any, left: dict[int, Task]) -> dict[Any, int]:
        # All fits are known to the scheduler at once: workers that join later find something to do.
        data = client.submit(_together, *shared, pure=False)
        return {client.submit(_call, function, task, data, pure=False): i for i, task in left.items()}

    with closing(_connect(scheduler)) as client:
        yield from _results(client, submit, dict(enumerate(tasks)), scheduler)


def _results(
    client: Any, submit: Callable[[Any, dict[int, Task]], dict[Any, int]], left: dict[int, Task], scheduler: str
) -> Iterator[tuple[int, Any]]:
    """Yield (index, result) of all tasks as they come in; what a lost worker was doing is submitted again."""
    lost, attempts = _lost_worker_errors(), 0
    while left:
        _wait_for_workers(client, scheduler)
        with _lost_scheduler(scheduler):
            running = submit(client, left)
        while running:
            for future in _finished(client, running, scheduler):
                index = running.pop(future)
                try:
                    result = future.result()
                except lost as error:
                    attempts += 1
                    if attempts >= ATTEMPTS:
                        raise InputError(
                            f"The cluster at {scheduler} lost {ATTEMPTS} times what it was doing ({error!r}); look "
                            "into the logs of its workers (often memory), then go on with --resume."
                        ) from None
                else:
                    del left[index]
                    attempts = 0
                    yield index, result


@contextmanager
def parts_on(scheduler: str | None) -> Iterator[Run]:
    """Yield what maps the E-step of one fit over parts of its data: `map`, or one on the workers of a scheduler.

    Each worker keeps its part, so that an iteration sends parameters and gets statistics back, whose sum is that of all
    data up to rounding. A part that died with its worker is sent to another one and done again.
    """
    if scheduler is None:
        yield map
        return
    with closing(_connect(scheduler)) as client:
        kept: dict[int, tuple[Prepared, list[Any]]] = {}

        def run(function: Callable[[Prepared], EStep], parts: Parts) -> Iterator[EStep]:
            _wait_for_workers(client, scheduler)
            data = parts.data
            if id(data) not in kept:
                workers = len(client.scheduler_info(n_workers=-1)["workers"])
                pieces = Parts(data, -(-data.n_steps // workers))
                kept[id(data)] = data, [client.submit(_as_is, piece, pure=False) for piece in pieces]
            held = dict(enumerate(kept[id(data)][1]))

            def submit(client: Any, left: dict[int, Any]) -> dict[Any, int]:
                return {client.submit(function, part, pure=False): i for i, part in left.items()}

            found = dict(_results(client, submit, held, scheduler))
            return iter([found[index] for index in sorted(found)])  # always in one order: sums are the same again

        yield run


def _as_is(part: Prepared) -> Prepared:
    return part


def _together(*shared: Any) -> tuple[Any, ...]:
    return shared


def _call(function: Callable[..., Result], task: Task, shared: tuple[Any, ...]) -> Result:
    limit_threads(1)
    return function(task, *shared)


def _finished(client: Any, running: Any, scheduler: str) -> set[Any]:
    """Wait until some of the fits are done; a cluster that has lost all its workers is given time for a new one."""
    from distributed import wait

    while True:
        try:
            with client.as_current():
                return set(wait(list(running), timeout=CONNECT_SECONDS, return_when="FIRST_COMPLETED").done)
        except TimeoutError:
            _wait_for_workers(client, scheduler)
        except CancelledError:  # raised for all of them together; those concerned say it again one by one
            return {future for future in running if future.done()}


def _connect(scheduler: str) -> Any:
    from distributed import Client

    try:
        return Client(scheduler, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        message = f"No Dask scheduler answers at {scheduler} ({error}); start one or check the address."
        raise InputError(message) from None


@contextmanager
def _lost_scheduler(scheduler: str) -> Iterator[None]:
    """One sentence for whatever a client says whose scheduler is gone."""
    try:
        yield
    except (OSError, RuntimeError, ValueError, CancelledError) as error:
        if isinstance(error, InputError | TimeoutError):
            raise
        raise InputError(
            f"The Dask scheduler at {scheduler} is gone ({brief(error)}); start it again, then go on with --resume."
        ) from None


def _wait_for_workers(client: Any, scheduler: str) -> None:
    try:
        with _lost_scheduler(scheduler):
            client.wait_for_workers(1, timeout=CONNECT_SECONDS)
    except TimeoutError:
        raise InputError(f"The Dask scheduler at {scheduler} has no workers; start some, then go on.") from None


def _lost_worker_errors() -> tuple[type[BaseException], ...]:
    """What a fit raises when it was lost with its workers, not because of what it does."""
    need("distributed", "cluster")
    from asyncio import CancelledError as AsyncCancelledError

    from distributed import KilledWorker
    from distributed.comm import CommClosedError

    return KilledWorker, CommClosedError, CancelledError, AsyncCancelledError
