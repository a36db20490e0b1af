"""Size of the house, room by room, and how much of it one fit walks through.

`python benchmarks/house.py` prints lines and files of every room, and the files and functions of ours that one
`prism fit` on a small table calls, in this process, drawing and writing included.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import sys
import tempfile
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

SOURCE = Path(__file__).resolve().parents[1]
PACKAGE = SOURCE / "src" / "prism_irl"


def rooms(folder: Path) -> dict[str, tuple[int, int]]:
    """Lines and files of every room below a folder."""
    lines: Counter[str] = Counter()
    files: Counter[str] = Counter()
    for path in folder.rglob("*.py"):
        parts = path.relative_to(folder).parts
        room = parts[0] if len(parts) > 1 else "(root)"
        lines[room] += len(path.read_text(encoding="utf-8").splitlines())
        files[room] += 1
    return {room: (lines[room], files[room]) for room in sorted(lines)}


def walked(command: list[str]) -> tuple[int, set[tuple[str, str]]]:
    """Exit code of a command, and the functions of ours that it called, as (file, qualified name)."""
    from prism_irl.cli.main import main

    called: set[tuple[str, str]] = set()

    def watch(frame: FrameType, event: str, _: Any) -> None:
        path = frame.f_code.co_filename
        ours = path.startswith(str(PACKAGE)) and path.endswith(".py")  # and not the code of a template
        # Class bodies run, too, once when their file is imported; they are no functions.
        if event == "call" and ours and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
            name = frame.f_code.co_qualname
            if not name.endswith(("<module>", "<listcomp>", "<genexpr>", "<lambda>", "<dictcomp>", "<setcomp>")):
                called.add((path, name))

    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        sys.setprofile(watch)
        try:
            code = main(command)
        finally:
            sys.setprofile(None)
    return code, called


def small_table(path: Path) -> None:
    """Sixty short walks of the frustration gridworld."""
    import pandas as pd

    from prism_irl.worlds.frustration import FrustrationWorld

    demos = FrustrationWorld().simulate(60, seed=0).demonstrations
    columns = {"trajectory": demos.trajectory_index, "state": demos.states, "action": demos.actions}
    pd.DataFrame(columns).to_csv(path, index=False)


if __name__ == "__main__":
    total, count = 0, 0
    for name, (lines, files) in rooms(PACKAGE).items():
        print(f"{name:<14}{lines:>7} lines{files:>5} files")
        total, count = total + lines, count + files
    print(f"{'src':<14}{total:>7} lines{count:>5} files")
    for beside in ("reproduce", "benchmarks", "tests"):
        found = rooms(SOURCE / beside).values()
        print(f"{beside:<14}{sum(n for n, _ in found):>7} lines{sum(n for _, n in found):>5} files")
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "table.csv"
        small_table(table)
        typed = ["fit", str(table), "--method", "hiql", "--intentions", "2", "--out", str(Path(folder) / "run")]
        code, called = walked(typed)
    print(f"prism fit (exit code {code}): {len({file for file, _ in called})} files, {len(called)} functions of ours")
