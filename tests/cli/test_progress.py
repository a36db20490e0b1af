"""Somebody waits: a line per minute without a terminal, an estimate where it takes long, silence when asked for."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from prism_irl import InputError, em
from prism_irl.cli import progress
from prism_irl.worlds.frustration import FrustrationWorld
from support import prism


class Clock:
    """Time that passes when a test says so."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    watch = Clock()
    monkeypatch.setattr(progress, "time", watch)
    monkeypatch.setattr(progress, "console", Console(file=io.StringIO(), width=200))
    yield watch
    progress.Waiting.quiet = False


def iterate(clock: Clock, seconds: float, n: int) -> str:
    """What is said during n iterations of one start of at most 100."""
    with progress.em_progress() as tell:
        for i in range(1, n + 1):
            clock.now += seconds
            tell(em.Progress(0, 1, i, 100, -1.0, -1.1))
    return progress.console.file.getvalue()  # type: ignore[attr-defined]


def test_a_line_per_minute_and_one_estimate(clock: Clock) -> None:
    lines = iterate(clock, 10.0, 30).splitlines()
    assert "up to 16 minutes more" in lines[0]  # 98 iterations of 10 seconds
    assert len(lines) == 1 + 5
    assert "after 60 seconds: start 1 of 1, iteration 6 of at most 100, LL -1.0000, validation -1.1000" in lines[1]


def test_what_comes_before_the_first_iteration_is_no_measure_of_the_others(clock: Clock) -> None:
    """The friction: a search of 40 seconds and iterations of one second were "up to 60 minutes"."""
    with progress.em_progress() as tell:
        clock.now += 40
        for i in range(1, 10):
            clock.now += 1
            tell(em.Progress(0, 2, i, 80, -1.0, -1.1))
    said = progress.console.file.getvalue()  # type: ignore[attr-defined]
    assert "up to 3 minutes more" in said  # 153 iterations, and the search of the second start


def test_one_estimate_for_several_steps(clock: Clock) -> None:
    """A preparation of a minute, 100 parts of a second, and a step half as long as all of that: 99 + 80 seconds."""
    whole = progress.Whole({"parts": 2.0, "EM": 1.0})
    with whole.waiting(), progress.counting("parts") as tell:
        clock.now += 60
        for done in range(1, 101):
            clock.now += 1
            tell("parts", done, 100)
    with whole.waiting():
        assert iterate(clock, 1.0, 80).count("will take") == 1
    said = progress.console.file.getvalue()  # type: ignore[attr-defined]
    assert "all of this will take about 3 minutes more" in said
    assert "otherwise" not in said


def test_an_estimate_that_turns_out_wrong_is_said_again_and_what_is_not_known_is_not_said(clock: Clock) -> None:
    whole = progress.Whole({"parts": 2.0, "EM": 1.0})
    with whole.waiting(), progress.counting("parts") as tell:
        for done in range(1, 31):
            clock.now += 1
            tell("parts", done, 100, left=float("nan"))
        assert "will take" not in progress.console.file.getvalue()  # type: ignore[attr-defined]
        tell("parts", 31, 100, left=100.0)
        tell("parts", 32, 100, left=300.0)
        tell("parts", 33, 100, left=299.0)
    told = progress.console.file.getvalue()  # type: ignore[attr-defined]
    assert "all of this will take about 3 minutes more" in told
    assert told.count("otherwise: about 8 minutes more") == 1


def test_what_is_short_is_silent(clock: Clock) -> None:
    assert iterate(clock, 0.1, 100) == ""


def test_quiet_is_quiet(clock: Clock) -> None:
    progress.Waiting.quiet = True
    assert iterate(clock, 10.0, 30) == ""


FIT = "--intentions 2 --method hiql --n-starts 1 --max-iterations 3 --simulations 0 --device cpu".split()


@pytest.fixture
def table(tmp_path: Path) -> Path:
    demos = FrustrationWorld(horizon=10).simulate(10, seed=1).demonstrations
    demos.to_pandas().to_csv(tmp_path / "a.csv", index=False)
    return tmp_path


def test_the_command_is_not_silent_without_a_terminal(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "MINUTE", 0.0)
    monkeypatch.setattr(progress, "console", Console(file=io.StringIO(), width=200))
    assert prism("fit", "a.csv", *FIT, "--out", "run", cwd=table).returncode == 0
    said = progress.console.file.getvalue()  # type: ignore[attr-defined]
    assert "start 1 of 1, iteration 1 of at most 3" in said
    assert prism("fit", "a.csv", *FIT, "--out", "run", "--overwrite", "--quiet", cwd=table).returncode == 0
    assert progress.console.file.getvalue() == said  # type: ignore[attr-defined]


def test_an_interruption_says_how_to_go_on(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def strike(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(em, "fit_start", strike)
        done = prism("fit", "a.csv", *FIT, "--out", "my run", cwd=table)
    assert done.returncode == 130
    command = done.stderr.split("go on with: prism ")[1].strip()
    assert command.endswith("--out 'my run' --resume")
    assert prism("fit", "a.csv", *FIT, "--out", "my run", "--resume", cwd=table).returncode == 0


def test_a_refused_fit_leaves_no_folder_in_the_way(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise InputError("This cannot be fitted; change it.")

    with monkeypatch.context() as patched:
        patched.setattr(em, "fit_start", refuse)
        assert prism("fit", "a.csv", *FIT, "--out", "run", cwd=table).returncode == 2
    assert not (table / "run").exists()
    assert prism("fit", "a.csv", *FIT, "--out", "run", cwd=table).returncode == 0
