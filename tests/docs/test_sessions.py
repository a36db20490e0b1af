"""Guides show what their commands print and draw, and they print it still."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
sys.path.insert(0, str(DOCS))

import pictures  # noqa: E402
import sessions  # noqa: E402

GUIDES = [
    DOCS / "start" / "analyze.md",
    *(path for path in sorted((DOCS / "guide").glob("*.md")) if path.stem != "index"),
]
"""Pages with a figure and a session."""


def masked(text: str) -> str:
    """What a page shows without its numbers, which may differ in the last digit, and without line breaks and boxes."""
    text = re.sub(r"[\u2500-\u257f]", " ", text)
    return re.sub(r"[-−]?\d[\d.,]*", "0", " ".join(text.split()))


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_every_guide_has_a_figure_and_a_session(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert f"{page.parent.name}/{page.stem}" in sessions.PAGES
    found = [session[1] for session in sessions.SESSION.finditer(text)]
    assert any(len(session.splitlines()) > len(sessions.commands_of(session)) for session in found)
    assert re.search(r"!\[[^\]]+\]\(\.\./images/", text)


def test_pictures_are_small_and_shown() -> None:
    pages = "".join(path.read_text(encoding="utf-8") for path in [*DOCS.rglob("*.md"), DOCS.parent / "README.md"])
    for path in (DOCS / "images").rglob("*.png"):
        assert path.stat().st_size <= pictures.LARGEST, path.name
        assert f"{path.parent.name}/{path.name}" in pages or path.with_suffix(".svg").exists(), path.name


@pytest.mark.slow
def test_sessions_print_what_pages_show(tmp_path: Path) -> None:
    for name, place in sessions.PAGES.items():
        (tmp_path / place).mkdir(exist_ok=True)
        text = (DOCS / f"{name}.md").read_text(encoding="utf-8")
        assert masked(sessions.sessions(text, tmp_path / place)) == masked(text), name
    assert [figure for figure in sessions.FIGURES.values() if not (tmp_path / figure).is_file()] == []


def test_a_line_that_changes_is_noticed() -> None:
    assert masked("LL  -1.25 of 48 steps") == masked("LL -1.26 of 49\nsteps")
    assert masked("2 intentions") != masked("2 phases")
