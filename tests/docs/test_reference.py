"""Examples of the reference run, and give what it says."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
PAGES = [path for path in sorted(REFERENCE.glob("*.md")) if "```pycon" in path.read_text(encoding="utf-8")]
RULES = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples_run(page: Path) -> None:
    blocks = re.findall(r"^```pycon\n(.*?)^```$", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    test = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, page.name, str(page), 0)
    said: list[str] = []
    doctest.DocTestRunner(optionflags=RULES).run(test, out=said.append)
    assert not said, "".join(said)


def test_there_are_examples() -> None:
    assert {page.stem for page in PAGES} >= {"data", "models", "evaluation"}


def test_every_command_is_named() -> None:
    from prism_irl.cli.main import app

    text = (REFERENCE / "commands.md").read_text(encoding="utf-8")
    assert [name for name in app if not name.startswith("-") and f"`prism {name}" not in text] == []
