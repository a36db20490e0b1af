"""The help teaches: groups, an example in every command; and prism understands whatever a page tells people to type."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from prism_irl.cli.main import FORMER, REMOVED, app, main

ROOT = Path(__file__).parents[2]
COMMANDS = [name for name in app if not name.startswith("-")]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def understood(command: str) -> None:
    """Parse a command as prism would, without running it; prose may mention one by its name alone."""
    words = shlex.split(command.split(" > ")[0], comments=True)
    if words[1:] in [[name] for name in COMMANDS]:
        return
    app.parse_args(words[1:], exit_on_error=False, print_error=False)


def commands_of(text: str) -> list[str]:
    """Complete prism commands in code blocks and code spans; an ellipsis or a choice (|) is not complete."""
    text = re.sub(r"\\\n\s*", "", text)
    blocks = re.findall(r"^```[a-z]*\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    lines = [line.strip() for block in blocks for line in block.splitlines()]
    spans = re.findall(r"`(prism [^`]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL))
    found = [line for line in [*lines, *(" ".join(span.split()) for span in spans)] if line.startswith("prism ")]
    return [line for line in found if not re.search(r"…|\||\[|\$|COMMAND", line)]


def test_commands_come_in_groups(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    places = [text.index(heading) for heading in ("Start here", "Your data", "Experiments", "Robots")]
    assert places == sorted(places)
    for name in COMMANDS:
        assert re.search(rf"^│ {name} ", text, flags=re.MULTILINE), name


@pytest.mark.parametrize("name", [*COMMANDS, "data list", "data fetch"])
def test_every_command_has_an_example_that_works(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*name.split(), "--help-all"]) == 0
    text = capsys.readouterr().out.split("╭")[0]
    shown = " ".join(next(part for part in text.split("\n\n") if part.strip().startswith("Example:")).split())
    examples = re.findall(r"Example: (prism .+?)(?= Example:|$)", shown)
    assert examples
    for example in examples:
        understood(example)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_speaks_of_things_and_not_of_equations(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) == 0
    assert not re.findall(r"Eq\.|[\u0370-\u03ff√∈]|P\(", capsys.readouterr().out)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_one_screen(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 60
    assert max(map(len, lines)) <= 80


def test_every_flag_is_in_the_long_help_with_who_reads_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", "--help-all"]) == 0
    text = capsys.readouterr().out
    flags = {name for argument in app["fit"].assemble_argument_collection() for name in argument.names[:1]} - {"*"}
    assert {flag for flag in flags - {"--table"} if f"\n  {flag}" not in text} == set()
    assert re.search(r"--sparsity X.+?\[of\s+goals;\s+default:\s+50.0\]", text, flags=re.DOTALL)


@pytest.mark.parametrize(("former", "now"), FORMER.items())
def test_former_flags_answer_with_their_new_name(former: str, now: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", "mouse.csv", former, "x", "--out", "nowhere"]) == 2
    assert capsys.readouterr().err == f"prism: {former} is now called {now}; type that instead.\n"


@pytest.mark.parametrize(("removed", "instead"), REMOVED.items())
def test_removed_flags_say_what_takes_their_place(
    removed: str, instead: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fit", "mouse.csv", removed, "--out", "nowhere"]) == 2
    assert capsys.readouterr().err == f"prism: {removed} is gone: {instead}.\n"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_on_pages_are_understood(page: Path) -> None:
    for command in commands_of(page.read_text()):
        understood(command)


def test_commands_are_found_on_pages() -> None:
    text = "Type `prism demo`, or\n```\nprism fit a.csv \\\n    --out b  # comment\nls\n```\nbut not `prism fit …`."
    assert commands_of(text) == ["prism fit a.csv --out b  # comment", "prism demo"]
    assert sum(len(commands_of(page.read_text())) for page in PAGES) > 30


def test_what_nobody_understands_is_noticed() -> None:
    (command,) = commands_of("```\nprism fit mouse.csv --intentons 3 --out runs/x   # a comment\n```\n")
    with pytest.raises(Exception, match="Did you mean --intentions"):
        understood(command)
