"""Packages that an extra brings: imported where they are used, and asked for in one sentence where they are missing.

Where damaged bytes can hang or kill such a library, it works in a process of its own (`apart`).
"""

from __future__ import annotations

import multiprocessing
import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

from prism_irl.errors import InputError

Result = TypeVar("Result")


def need(module: str, extra: str) -> Any:
    """Import a module of an optional package, or say which extra brings it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise missing(error.name or module, extra) from None


def missing(package: str, extra: str) -> InputError:
    """Return the error for a package that is not there; the caller raises it."""
    return InputError(f'{package} is not installed; get it with: pip install "prism-irl[{extra}]".')


def compiled(**options: Any) -> Callable[[Any], Any]:
    """Decorator that compiles a function."""
    import numba

    def decorator(function: Any) -> Any:
        given = {"nogil": True, "error_model": "numpy", **options}
        try:
            return numba.njit(cache=True, **given)(function)
        except RuntimeError:  # neither beside the package nor at home may a file be made: compiled again every time
            return numba.njit(**given)(function)

    return decorator


def apart(function: Callable[..., Result], *arguments: Any, seconds: float) -> Result:
    """Return what a function makes of its arguments in another process, or raise what it raised there.

    A `TimeoutError` where it takes longer than so many seconds, an `OSError` where the process dies of it.
    """
    if multiprocessing.current_process().daemon:  # a worker itself, which may have no children
        return function(*arguments)
    context: Any = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(there, function, arguments), daemon=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads beside a fork: the child uses none of them
        process.start()
    there.close()
    try:
        if not here.poll(seconds):
            raise TimeoutError(f"it takes longer than {seconds:.0f} seconds")
        fine, found = here.recv()
    except EOFError:
        raise OSError("its reader was killed by it") from None
    finally:
        process.kill()
        process.join()
        here.close()
    if not fine:
        raise found
    return found  # type: ignore[no-any-return]


def _answer(there: Any, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    try:
        answer: tuple[bool, Any] = True, function(*arguments)
    except Exception as error:
        answer = False, error if isinstance(error, InputError) else OSError(f"{type(error).__name__}: {error}")
    there.send(answer)
