"""Pages are short, their sentences too, and every idea has one word."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

from prism_irl.cli.main import app, main

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs" / "results"))

import blocks  # noqa: E402

PAGES = sorted(path for path in (ROOT / "docs").rglob("*.md"))
MOST_WORDS = 2500
LONGEST_SENTENCE = 40


def sentences(text: str) -> list[str]:
    """Sentences of the prose of a page."""
    found = [re.split(r"(?<=[.!?])[\"”*)]*\s+(?=[\"“*(]*[A-ZΑ-Ω0-9])", part) for part in blocks.prose(text)]
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


RETIRED: dict[str, str] = {
    r"\baccents?\b": "individual effect",
    r"\b(is|are|was|were|be|been|being|not) told\b(?! apart| from| otherwise)": "partial labels",
    r"\b(both halves|(switching|rewards?|a) half of|halves of (the|a) pair|of the halves)\b": "component",
    r"--(inputs|since|recount|power)\b": "--covariates, --time-since, --count-all, --window-weight",
    r"\bthe house\b": "architecture",
}
"""Words that had a second meaning, or a name of their own for something with a standard term, and the term."""


def retired(text: str) -> list[str]:
    """Passages of a text with a retired word."""
    text = " ".join(text.split())
    return [text[max(0, m.start() - 40) : m.end() + 20] for word in RETIRED for m in re.finditer(word, text, re.I)]


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.relative_to(ROOT).as_posix())
def test_pages_keep_to_the_glossary(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    if page.name == "architecture.md":  # names modules
        text = re.sub(r"`[^`]*`", "", text)
    assert not retired(text)


@pytest.mark.parametrize("command", [name for name in app if not name.startswith("-")])
def test_options_keep_to_the_glossary(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help-all"]) == 0
    assert not retired(capsys.readouterr().out)


def test_reports_keep_to_the_glossary() -> None:
    report = ROOT / "src" / "prism_irl" / "report"
    for path in report.rglob("*.j2"):
        assert not retired(path.read_text(encoding="utf-8")), path.name
    for path in report.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        docstrings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        constants = {node for node in ast.walk(tree) if isinstance(node, ast.Constant)} - docstrings
        spoken = [node.value for node in constants if isinstance(node.value, str)]
        assert not retired("\n".join(spoken)), path.name


@pytest.mark.parametrize("folder", sorted(path for path in (ROOT / "src" / "prism_irl").iterdir() if path.is_dir()))
def test_docstrings_keep_to_the_glossary(folder: Path) -> None:
    described = (ast.Module, ast.ClassDef, ast.FunctionDef)
    for path in [*folder.rglob("*.py"), *folder.parent.glob("*.py")]:
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        found = [ast.get_docstring(node) or "" for node in nodes if isinstance(node, described)]
        text = re.sub(r"^[\w*, ]+ : .*$|`[^`]*`", "", "\n".join(found), flags=re.MULTILINE)  # names of parameters
        assert not retired(text), path.name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_pages_begin_with_the_question_that_they_answer(page: Path) -> None:
    lines = page.read_text(encoding="utf-8").splitlines()
    if page.stem in {"index", "changelog", "contributing"} and page.parent.name != "results":
        return
    assert re.fullmatch(r"# .+", lines[0])
    assert re.fullmatch(r"\*.+\?\*", lines[2]), lines[2]


def test_a_newcomer_reads_five_minutes_before_a_page_of_their_own() -> None:
    pages = [ROOT / "README.md", ROOT / "docs" / "start" / "analyze.md"]
    read = sum(len(part.split()) for page in pages for part in blocks.prose(page.read_text(encoding="utf-8")))
    assert read <= 5 * 200  # words a minute of somebody who reads a foreign language
    assert len(pages[0].read_text(encoding="utf-8").splitlines()) <= 66


def test_spelling() -> None:
    codespell = pytest.importorskip("codespell_lib", reason="needs codespell")
    files = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "docs", "src")]
    assert (
        codespell.main("--skip", "*.json,*.ipynb,*.svg,*.png", "--ignore-words-list", "nd,fro", *map(str, files)) == 0
    )


def test_a_retired_word_and_a_long_sentence_are_noticed() -> None:
    assert retired("Every animal has its accent.") == ["Every animal has its accent."]
    assert retired("They cannot be told apart.") == []
    assert len(words(max(sentences("One. " + "word " * 50 + "end. Three."), key=len))) > LONGEST_SENTENCE
