"""Every command that README and docs tell people to type is one that the command line understands."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from prism_irl.cli.main import app

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
HOLE = re.compile(r"…|COMMAND|\.\.\.|\||\[")  # something is left out, or one of several is to be chosen


def commands(text: str) -> list[list[str]]:
    """Lines of code blocks and code in sentences that begin with prism, as words; those with holes are left out."""
    blocks = re.findall(r"^```[^\n]*\n(.*?)^```", text, re.M | re.S)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    prose = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    lines += [" ".join(span.split()) for span in re.findall(r"`(prism [^`]*--[^`]*)`", prose)]
    found = []
    for line in lines:
        typed = line.strip().removeprefix("$ ").split("  #")[0].split(" > ")[0]
        if typed.startswith("prism ") and not HOLE.search(typed):
            found.append(shlex.split(typed)[1:])
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_commands_are_understood(page: Path) -> None:
    for words in commands(page.read_text(encoding="utf-8")):
        try:
            app.parse_args(words, exit_on_error=False, print_error=False)
        except Exception as error:
            pytest.fail(f"prism {shlex.join(words)}: {error}")


def test_what_nobody_understands_is_noticed() -> None:
    (typed,) = commands("```\nprism fit mouse.csv --intentons 3 --out runs/x   # a comment\n```\n")
    with pytest.raises(Exception, match="Did you mean --intentions"):
        app.parse_args(typed, exit_on_error=False, print_error=False)
    assert sum(len(commands(page.read_text(encoding="utf-8"))) for page in PAGES) > 80
