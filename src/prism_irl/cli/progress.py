"""Progress bars with an estimate and the likelihood in them; silent when not on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from prism_irl import em
from prism_irl.studies.cross_validation import Fit

# Progress goes to standard error, so that standard output stays clean for tables and JSON.
console = Console(stderr=True)


def _bar() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
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
