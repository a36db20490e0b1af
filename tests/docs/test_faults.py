"""Every fault of the table in tests/faults.md has its test."""

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parents[1]


def functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_fault_has_its_test():
    rows = [line for line in (TESTS / "faults.md").read_text().splitlines() if line.startswith("|")][2:]
    named = [re.search(r"`([\w/]+\.py)::(test_\w+)` \|$", line) for line in rows]
    assert len(rows) > 40
    assert [line for line, found in zip(rows, named, strict=True) if found is None] == []
    gone = [found[0] for found in named if found is not None and found[2] not in functions(TESTS / found[1])]
    assert gone == []
