"""Pages are short, their sentences too, and every idea has one word."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs" / "results"))

import blocks  # noqa: E402

PAGES = sorted(path for path in (ROOT / "docs").rglob("*.md"))
MOST_WORDS = 2500
LONGEST_SENTENCE = 40


def prose(text: str) -> list[str]:
    """Paragraphs and list items of a page, without blocks, code, tables and headings; a piece of code is one word."""
    text = blocks.BLOCK.sub("\n\n", text)
    text = re.sub(r"^(`{3,}|:{3,}).*?^\1\s*$", "\n", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"<!--.*?-->|\$\$.*?\$\$", "", text, flags=re.DOTALL)
    lines = []
    for line in text.splitlines():
        if re.match(r"\s*(\||#|\s{4,}\S)", line):  # tables, headings, formulas that stand apart
            lines.append("")
        else:
            lines.append(re.sub(r"^\s*([-*]|\d+\.|:) +", "\n", line))
    text = re.sub(r"`[^`]*`", "code", "\n".join(lines))
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return [" ".join(part.split()) for part in re.split(r"\n\s*\n", text) if part.strip()]


def sentences(text: str) -> list[str]:
    """Sentences of the prose of a page."""
    found = [re.split(r"(?<=[.!?])[\"”*)]*\s+(?=[\"“*(]*[A-ZΑ-Ω0-9])", part) for part in prose(text)]
    return [sentence for part in found for sentence in part]


def words(text: str) -> list[str]:
    """Words and numbers, links by their text."""
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return [word for word in text.split() if re.search(r"\w", word)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_pages_and_sentences_are_short(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert len(words(text)) <= MOST_WORDS
    long = [sentence for sentence in sentences(text) if len(words(sentence)) > LONGEST_SENTENCE]
    assert not long, long[0]
