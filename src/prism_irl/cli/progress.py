"""Progress while somebody waits: a bar with the likelihood in it, or a line per minute without a terminal.

Nothing with --quiet. What will take longer than a minute says so as soon as that is known.
"""

from __future__ import annotations

import time
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
MINUTE = 60.0
SURE = 5.0  # seconds of work before what is left is estimated
ENDS_EARLIER = "a start ends earlier when it has converged"


class Waiting:
    """What is said to somebody who waits.

    Without a terminal a line per minute; everywhere, once, how long it will take at most, where that is over a minute.
    """

    quiet = False  # set by --quiet, for the whole command

    def __init__(self) -> None:
        self.began = self.spoke = time.monotonic()
        self.estimated = False
        self.first: tuple[float, float] | None = None  # seconds before the first iteration, and iterations then

    def tell(self, done: float, total: float | None, words: str, bound: str, *, starts_left: int | None = None) -> None:
        """Tell of so much work done; ``bound`` says why it may take less than estimated.

        What comes before the first iteration of a start (short runs, compilation) comes again for ``starts_left`` and
        says nothing about the length of an iteration; None where every part of the work is like the first.
        """
        now = time.monotonic()
        passed = now - self.began
        if Waiting.quiet:
            return
        if not self.estimated and total and 0 < done < total:
            before, at = (0.0, 0.0) if starts_left is None else self.first or (passed, done)
            self.first = (before, at)
            if passed - before >= SURE and done > at:
                self.estimated = True
                left = (passed - before) / (done - at) * (total - done) + before * (starts_left or 0)
                if passed + left > MINUTE:
                    console.print(f"prism: this will take up to {_duration(left)} more; {bound}.", soft_wrap=True)
        if not console.is_terminal and now - self.spoke >= MINUTE:
            self.spoke = now
            console.print(f"prism: after {_duration(passed)}: {words}", soft_wrap=True, highlight=False)


def _duration(seconds: float) -> str:
    """Time in words: 40 seconds, 12 minutes, 3.5 hours."""
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


def _bar(*, speed: bool = False) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(show_speed=speed),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[status]}"),
        console=console,
        disable=Waiting.quiet or not console.is_terminal,
    )


@contextmanager
def em_progress() -> Iterator[em.OnIteration]:
    """Yield a callback for the iterations of a fit."""
    waiting = Waiting()
    with _bar() as progress:
        task = progress.add_task("EM", total=None, status="")

        def on_iteration(now: em.Progress) -> None:
            held_out = "" if now.validation is None else f", validation {now.validation:.4f}"
            start, status = f"start {now.start + 1} of {now.n_starts}", f"LL {now.train:.4f}{held_out}"
            total = now.n_starts * now.max_iterations
            done = now.start * now.max_iterations + now.iteration
            progress.update(task, description=start, total=total, completed=done, status=status)
            words = f"{start}, iteration {now.iteration} of at most {now.max_iterations}, {status}"
            waiting.tell(done, total, words, ENDS_EARLIER, starts_left=now.n_starts - now.start - 1)

        yield on_iteration


@contextmanager
def fits_progress() -> Iterator[Callable[[Fit, int], None]]:
    """Yield a callback for the fits of a cross-validation."""
    waiting = Waiting()
    with _bar() as progress:
        task = progress.add_task("fits", total=None, status="")
        done = 0

        def on_fit(fit: Fit, total: int) -> None:
            nonlocal done
            done += 1
            status = f"{fit.method.name}, fold {fit.fold}: LL {fit.row['predictive_ll']:.4f}"
            progress.update(task, total=total, advance=1, status=status)
            waiting.tell(done, total, f"{done} of {total} fits, {status}", "fits differ in length")

        yield on_fit


@contextmanager
def fits_and_parts() -> Iterator[tuple[Callable[[Fit, int], None], Callable[[int, int], None]]]:
    """Yield a callback for the fits of a cross-validation, and one for the parts of a test against a habit."""
    with _bar() as progress:
        tasks: dict[str, Any] = {}
        waits: dict[str, Waiting] = {}

        def show(what: str, done: int | None, total: int, status: str) -> None:
            if what not in tasks:
                tasks[what] = progress.add_task(what, total=total, status="")
                waits[what] = Waiting()
            moved: dict[str, Any] = {"advance": 1} if done is None else {"completed": done}
            progress.update(tasks[what], total=total, status=status, **moved)
            so_far = progress.tasks[tasks[what]].completed
            waits[what].tell(
                so_far, total, f"{so_far:.0f} of {total} {what} {status}".strip(), "parts differ in length"
            )

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
    """Yield a callback for a progress bar with a rate."""
    with _bar(speed=True) as progress:
        tasks: dict[str, Any] = {}
        waits: dict[str, Waiting] = {}

        def report(what: str, done: int, total: int | None, status: str) -> None:
            if what not in tasks:
                tasks[what] = progress.add_task(what, total=total, status=status or unit)
                waits[what] = Waiting()
            speed = progress.tasks[tasks[what]].speed
            rate = f", {speed:.0f} {what if status else unit}/s" if speed else ""
            progress.update(tasks[what], completed=done, total=total, status=f"{status or unit}{rate}")
            of = "" if total is None else f" of {total}"
            waits[what].tell(done, total, f"{what}: {done}{of} {unit} {status}".strip(), "parts differ in length")

        yield report
