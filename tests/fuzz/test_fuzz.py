"""A short run of the fuzzer; `make fuzz` is the long one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from targets import TARGETS, Corpus

import run

CASES = 120


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRISM_MAX_MEMORY", "1")
        return Corpus(tmp_path_factory.mktemp("corpus"))


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_refuses_or_answers(
    target: str, corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRISM_MAX_MEMORY", "1")
    numbers = [number for number in range(CASES) if run.choose(2026, number)[0] == target][:12]
    wrong = {number: run.run_case(corpus, 2026, number, tmp_path) for number in numbers}
    assert {number: said for number, said in wrong.items() if said is not None and "GB of memory" not in said} == {}


def test_a_case_leaves_nothing_where_the_fuzzer_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import targets

    def strays(corpus: object, rng: object, place: Path) -> None:
        Path("stray").touch()

    monkeypatch.setattr(targets, "TARGETS", {"strays": (1, strays)})
    here, cases = tmp_path / "here", tmp_path / "cases"
    here.mkdir()
    cases.mkdir()
    monkeypatch.chdir(here)
    assert run.run_case(None, 0, 0, cases) is None
    assert list(here.iterdir()) == []


def test_the_fuzzer_notices() -> None:
    """An internal error, a second line and another answer are all found out."""
    from targets import WrongError, guarded

    def internal() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        guarded(internal)

    from prism_irl.errors import InputError

    class TalkativeError(InputError):
        """Says more than it was given; an `InputError` itself is one line, whatever it quotes."""

        def __str__(self) -> str:
            return "One.\nTwo."

    def two_lines() -> None:
        raise TalkativeError("One.")

    assert str(InputError("One.\nTwo.")) == "One. Two."
    with pytest.raises(WrongError, match="more than one line"):
        guarded(two_lines)
