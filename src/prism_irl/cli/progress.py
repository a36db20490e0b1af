"""Progress while somebody waits: a bar with the likelihood in it, or a line per minute without a terminal.

Nothing with --quiet. What will take longer than a minute says so once, as soon as that is known: by the pace since the
first thing was done, because what comes before it (short runs, compilation) says nothing about the others. Where a
command is made of several (`Whole`), there is one estimate for all of them.
"""

from __future__ import annotations

import math
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from prism_irl.errors import one_line
from prism_irl.limits import duration

if TYPE_CHECKING:
    from prism_irl import em
    from prism_irl.studies.cross_validation import Fit
    from prism_irl.studies.null import OnWork

# Progress goes to standard error, so that standard output stays clean for tables and JSON.
console = Console(stderr=True)
MINUTE = 60.0
SURE = 5.0  # seconds of work before what is left is estimated
AGAIN = 2.0  # times as long, or as short, as it was said: what is left is said again

Report = Callable[..., None]
"""``report(what, done, total, words)``: of a kind of work, how much is done of how much, and what is to be shown."""


class Waiting:
    """What is said to somebody who waits for one kind of work."""

    quiet = False  # set by --quiet, for the whole command

    def __init__(self, what: str, began: float) -> None:
        self.what, self.began, self.spoke = what, began, began
        self.estimated = False
        self.first: tuple[float, float] | None = None  # seconds before the first report, and what was done then

    def tell(
        self, done: float, total: float | None, words: str, bound: str, *, again: int = 0, left: float | None = None
    ) -> None:
        """Tell of so much work done; ``bound`` says why it may take less, ``again`` how often the beginning comes.

        ``left`` are the seconds to the end, where who works knows better than the pace.
        """
        now = time.monotonic()
        passed = now - self.began
        if Waiting.quiet:
            return
        if Whole.current is not None:
            Whole.current.begin(self.what)
        before, at = self.first = self.first or (passed, done)
        if left is None and total and passed - before >= SURE and done > at:
            left = (passed - before) / (done - at) * (total - done) + before * again
        if left is None or math.isnan(left):
            left = None
        elif Whole.current is not None:
            Whole.current.tell(left)
        elif not self.estimated and left > 0:
            self.estimated = True
            if passed + left > MINUTE:
                say(f"this will take up to {duration(left)} more; {bound}.")
        if not console.is_terminal and now - self.spoke >= MINUTE:
            self.spoke = now
            say(f"after {duration(passed)}: {words}")


class Whole:
    """All that one command of several steps waits for, and one estimate of it.

    Parameters
    ----------
    sizes : mapping
        Kind of work, in its order → how long it takes in comparison with the others. One that goes on is measured; what
        later ones take is told from it, and from those that are done.
    """

    current: ClassVar[Whole | None] = None

    def __init__(self, sizes: Mapping[str, float]) -> None:
        self.sizes, self.took = dict(sizes), dict[str, float]()
        self.work, self.began, self.end = "", time.monotonic(), math.nan

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """The time in which all of it is made."""
        Whole.current = self
        try:
            yield
        finally:
            Whole.current = None

    def begin(self, work: str) -> None:
        """What goes on from now, unless it does already."""
        if work not in self.sizes or work == self.work:
            return
        now = time.monotonic()
        if self.work:
            self.took[self.work], self.began = now - self.began, now
        self.work = work

    def left(self, here: float) -> float:
        """Seconds until the end, where ``here`` are left of this kind of work."""
        known = self.took | {self.work: time.monotonic() - self.began + here}
        pace = sum(known.values()) / sum(self.sizes.get(work, 0.0) for work in known)
        later = list(self.sizes)[list(self.sizes).index(self.work) + 1 :]
        return here + pace * sum(self.sizes[work] for work in later)

    def tell(self, here: float) -> None:
        """Say what is left of all, as soon as it is known, and again where it turns out far more or less."""
        if self.work not in self.sizes:
            return
        left, now = self.left(here), time.monotonic()
        said = self.end - now
        if math.isnan(said) or max(left, said) > AGAIN * max(min(left, said), MINUTE / 2):
            words = "all of this will take about" if math.isnan(said) else "it turns out otherwise: about"
            self.end = now + left
            say(f"{words} {duration(left)} more.")


def say(text: str) -> None:
    """Say something on standard error, in one line, unless nothing is to be said."""
    if not Waiting.quiet:
        console.print(one_line(f"prism: {text}"), soft_wrap=True, highlight=False, markup=False)


@contextmanager
def patience(words: str) -> Iterator[None]:
    """Say what goes on where it takes longer than `SURE`, and that it still does every minute."""
    over, began = threading.Event(), time.monotonic()

    def speak() -> None:
        if not over.wait(SURE):
            say(f"{words} …")
        while not over.wait(MINUTE):
            say(f"after {duration(time.monotonic() - began)}: still {words} …")

    threading.Thread(target=speak, daemon=True).start()
    try:
        yield
    finally:
        over.set()


@contextmanager
def counting(unit: str, bound: str = "parts differ in length") -> Iterator[Report]:
    """Yield a `Report` with a bar for every kind of work."""
    columns = (BarColumn(), TaskProgressColumn(show_speed=True), TimeElapsedColumn(), TimeRemainingColumn())
    shown = TextColumn("{task.description}"), *columns, TextColumn("{task.fields[words]}", markup=False)
    with Progress(*shown, console=console, disable=Waiting.quiet or not console.is_terminal) as progress:
        tasks: dict[str, Any] = {}
        waits: dict[str, Waiting] = {}
        began = time.monotonic()

        def report(
            what: str,
            done: float,
            total: float | None,
            words: str = "",
            *,
            line: str = "",
            again: int = 0,
            left: float | None = None,
        ) -> None:
            if what not in tasks:
                tasks[what] = progress.add_task(what, total=total, words=words or unit)
                waits[what] = Waiting(what, time.monotonic() if waits else began)
            progress.update(tasks[what], completed=done, total=total, words=words or unit)
            of = "" if total is None else f" of {total}"
            waits[what].tell(
                done, total, line or f"{what}: {done}{of} {unit} {words}".strip(), bound, again=again, left=left
            )

        yield report


@contextmanager
def counting_parts(unit: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a callback, of parts done and of all, for one kind of work."""
    with counting(unit) as report:
        yield lambda done, total: report(unit, done, total, "")


@contextmanager
def em_progress() -> Iterator[em.OnIteration]:
    """Yield a callback for the iterations of a fit."""
    with counting("iterations", "a start ends earlier when it has converged") as report:

        def on_iteration(now: em.Progress) -> None:
            held_out = "" if now.validation is None else f", validation {now.validation:.4f}"
            start, score = f"start {now.start + 1} of {now.n_starts}", f"LL {now.train:.4f}{held_out}"
            done, total = now.start * now.max_iterations + now.iteration, now.n_starts * now.max_iterations
            line = f"{start}, iteration {now.iteration} of at most {now.max_iterations}, {score}"
            report("EM", done, total, f"{start}, {score}", line=line, again=now.n_starts - now.start - 1)

        yield on_iteration


@contextmanager
def fits_and_parts() -> Iterator[tuple[Callable[[Fit, int], None], OnWork]]:
    """Yield a callback for the fits of a cross-validation, and one for the parts of a test against a habit."""
    with counting("parts", "fits differ in length") as report:
        done = 0

        def on_fit(fit: Fit, total: int) -> None:
            nonlocal done
            done += 1
            report("fits", done, total, f"{fit.method.name}, fold {fit.fold}: LL {fit.row['predictive_ll']:.4f}")

        yield on_fit, lambda done, total, left: report("habit and surrogates", done, total, left=left)


@contextmanager
def fits_progress() -> Iterator[Callable[[Fit, int], None]]:
    """Yield a callback for the fits of a cross-validation."""
    with fits_and_parts() as (on_fit, _):
        yield on_fit


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
