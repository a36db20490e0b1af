"""Independent fits, spread over the cores of this machine or over a cluster.

Locally joblib starts processes; with the address of a Dask scheduler its workers make the fits, through joblib's
Dask backend. Data is sent to every worker once, not once per fit. What a lost worker was doing is done again by
another one; should all copies of the data be lost with their workers, it is sent again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from contextvars import ContextVar
from threading import Thread
from time import sleep
from typing import Any, TypeVar

from joblib import Parallel, delayed, parallel_config, register_parallel_backend

from prism_irl.errors import InputError
from prism_irl.optional import need

Task = TypeVar("Task")
Result = TypeVar("Result")
ATTEMPTS = 3
"""Times that the cluster may lose everything without finishing a single fit in between."""
CONNECT_SECONDS = 60
WATCH_SECONDS = 1.0
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
    function: Callable[..., Result],
    tasks: Sequence[Task],
    shared: tuple[Any, ...],
    *,
    jobs: int = 1,
) -> Iterator[tuple[int, Result]]:
    """Yield (index of the task, ``function(task, *shared)``) as results come in, in any order."""
    if not tasks:
        return
    scheduler = _scheduler.get()
    if scheduler is None:
        calls = (delayed(_numbered)(function, i, task, *shared) for i, task in enumerate(tasks))
        yield from Parallel(n_jobs=jobs, return_as="generator_unordered")(calls)
    else:
        yield from _on_cluster(function, tasks, shared, scheduler)


def _numbered(function: Callable[..., Result], index: int, *arguments: Any) -> tuple[int, Result]:
    return index, function(*arguments)


def _on_cluster(
    function: Callable[..., Result], tasks: Sequence[Task], shared: tuple[Any, ...], scheduler: str
) -> Iterator[tuple[int, Result]]:
    lost = _backend()
    with closing(_connect(scheduler)) as client:
        left = dict(enumerate(tasks))
        attempts = 0
        while left:
            calls = [delayed(_numbered)(function, i, task, *shared) for i, task in left.items()]
            try:
                _wait_for_workers(client, scheduler)
                # Large arguments only: an id, a flag or None is sent with its task.
                large = [value for value in shared if value is not None and not isinstance(value, bool | int | float)]
                with parallel_config(backend="prism-dask", client=client, scatter=large, retries=ATTEMPTS):
                    # One fit at a time, all known to the scheduler: workers that join later find something to do.
                    run = Parallel(return_as="generator_unordered", batch_size=1, pre_dispatch="all")
                    for index, result in run(calls):
                        del left[index]
                        attempts = 0
                        yield index, result
            except lost as error:
                attempts += 1
                if attempts >= ATTEMPTS:
                    raise InputError(
                        f"The cluster at {scheduler} lost {ATTEMPTS} times what it was doing ({error!r}); look into "
                        "the logs of its workers (often memory), then go on with --resume."
                    ) from None


def _connect(scheduler: str) -> Any:
    from distributed import Client

    try:
        return Client(scheduler, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise InputError(
            f"No Dask scheduler answers at {scheduler} ({error}); start one or check the address."
        ) from None


def _wait_for_workers(client: Any, scheduler: str) -> None:
    try:
        client.wait_for_workers(1, timeout=CONNECT_SECONDS)
    except TimeoutError:
        raise InputError(f"The Dask scheduler at {scheduler} has no workers; start some, then go on.") from None


def _backend() -> tuple[type[BaseException], ...]:
    """Register joblib's Dask backend with lost workers made visible; return the errors that mean one was lost."""
    need("distributed", "cluster")
    from asyncio import CancelledError as AsyncCancelledError
    from concurrent.futures import CancelledError

    from distributed import KilledWorker
    from distributed.comm import CommClosedError
    from joblib._dask import DaskDistributedBackend

    class LosingBackend(DaskDistributedBackend):  # type: ignore[misc]
        """Joblib waits forever for a result whose worker was killed too often; here it gets the error instead."""

        watcher: Thread | None = None

        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self.waiting: list[tuple[Any, Any]] = []

        def effective_n_jobs(self, n_jobs: int) -> int:
            return max(int(super().effective_n_jobs(n_jobs)), 2)  # for one job joblib would not ask the cluster at all

        def submit(self, func: Any, callback: Any = None) -> Any:
            future = super().submit(func, callback)

            def fail(done: Any) -> None:
                error = CancelledError("a fit was cancelled") if done.cancelled() else done.exception()
                if error is not None and callback is not None:
                    callback(error)

            future.add_done_callback(fail)
            self.waiting.append((future, callback))
            if self.watcher is None or not self.watcher.is_alive():
                self.watcher = Thread(target=self._watch, daemon=True)
                self.watcher.start()
            return future

        def _watch(self) -> None:
            """Fail the fits that need data of which no copy is left: they would wait forever, and nobody would know."""
            while waiting := [callback for future, callback in self.waiting if not future.done()]:
                if any(data.status in ("lost", "cancelled") for data in self.data_futures.values()):
                    for callback in waiting:
                        callback(CancelledError("all copies of the data are lost"))
                    return
                sleep(WATCH_SECONDS)

        def retrieve_result_callback(self, out: Any) -> Any:
            if isinstance(out, BaseException):
                raise out
            return super().retrieve_result_callback(out)

    register_parallel_backend("prism-dask", LosingBackend)
    return KilledWorker, CommClosedError, CancelledError, AsyncCancelledError
