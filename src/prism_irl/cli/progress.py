"""Progress bars with an estimate and the likelihood in them; silent when not on a terminal."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from prism_irl import em
    from prism_irl.studies.cross_validation import Fit

# Progress goes to standard error, so that standard output stays clean for tables and JSON.
console = Console(stderr=True)


def _bar(*, speed: bool = False) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(show_speed=speed),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[status]}"),
        console=console,
        disable=not console.is_terminal,
    )


@contextmanager
def em_progress() -> Iterator[em.OnIteration]:
    """Yield a callback for the iterations of a fit."""
    with _bar() as progress:
        task = progress.add_task("EM", total=None, status="")

        def on_iteration(now: em.Progress) -> None:
            held_out = "" if now.validation is None else f", validation {now.validation:.4f}"
            progress.update(
                task,
                description=f"start {now.start + 1} of {now.n_starts}",
                total=now.n_starts * now.max_iterations,
                completed=now.start * now.max_iterations + now.iteration,
                status=f"LL {now.train:.4f}{held_out}",
            )

        yield on_iteration


@contextmanager
def fits_progress() -> Iterator[Callable[[Fit, int], None]]:
    """Yield a callback for the fits of a cross-validation."""
    with _bar() as progress:
        task = progress.add_task("fits", total=None, status="")

        def on_fit(fit: Fit, total: int) -> None:
            status = f"{fit.method.name}, fold {fit.fold}: LL {fit.row['predictive_ll']:.4f}"
            progress.update(task, total=total, advance=1, status=status)

        yield on_fit


@contextmanager
def fits_and_parts() -> Iterator[tuple[Callable[[Fit, int], None], Callable[[int, int], None]]]:
    """Yield a callback for the fits of a cross-validation, and one for the parts of a test against a habit."""
    with _bar() as progress:
        tasks: dict[str, Any] = {}

        def show(what: str, done: int | None, total: int, status: str) -> None:
            if what not in tasks:
                tasks[what] = progress.add_task(what, total=total, status="")
            moved: dict[str, Any] = {"advance": 1} if done is None else {"completed": done}
            progress.update(tasks[what], total=total, status=status, **moved)

        def on_fit(fit: Fit, total: int) -> None:
            show("fits", None, total, f"{fit.method.name}, fold {fit.fold}: LL {fit.row['predictive_ll']:.4f}")

        yield on_fit, lambda done, total: show("habit and surrogates", done, total, "")


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Warnings as one sentence for people, each once, without the line of code they come from."""
    before, said = warnings.formatwarning, set[str]()

    def once(message: Warning | str, *_: Any, **__: Any) -> str:
        known, text = str(message) in said, f"prism: {message}\n"
        said.add(str(message))  # a damaged episode is met when the encoder is fitted and when it is used
        return "" if known else text

    warnings.formatwarning = once
    try:
        yield
    finally:
        warnings.formatwarning = before


@contextmanager
def counting(unit: str) -> Iterator[Callable[[str, int, int | None, str], None]]:
    """Yield a callback for a progress bar with a rate; silent when not on a terminal."""
    with _bar(speed=True) as progress:
        tasks: dict[str, Any] = {}

        def report(what: str, done: int, total: int | None, status: str) -> None:
            if what not in tasks:
                tasks[what] = progress.add_task(what, total=total, status=status or unit)
            speed = progress.tasks[tasks[what]].speed
            rate = f", {speed:.0f} {what if status else unit}/s" if speed else ""
            progress.update(tasks[what], completed=done, total=total, status=f"{status or unit}{rate}")

        yield report
