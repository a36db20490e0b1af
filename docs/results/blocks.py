"""Tables of the pages, rendered from results files: what a block is, and how numbers become text.

A page has ``<!-- results: NAME -->`` … ``<!-- end of results -->``. What stands between is written by the function
NAME of one of the ``*_tables.py`` beside this file, from the results files that its decorator names, and by nobody
else. Below each block stands where its numbers come from. A file that is not there leaves the command that would
write it.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
VERSION: str = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
BLOCK = re.compile(r"(<!-- results: (\w+) -->\n)(.*?)(<!-- end of results -->)", re.DOTALL)
NUMBERS = re.compile(r"^\s*\|.*\|\s*\**[−+-]?\d+\.\d+(?![.\d])")
"""A row of a table with a cell that begins with a decimal number."""

COMMANDS: dict[str, str] = {
    "gridworld": "prism reproduce gridworld --jobs 15 --out runs/gridworld",
    "labyrinth": "prism reproduce labyrinth --jobs 15 --out runs/labyrinth",
    "bridge": "prism reproduce bridge --jobs 15 --out runs/bridge",
    "continuous": "prism reproduce continuous --jobs 16 --out runs/continuous",
    "sizes": "prism reproduce labyrinth --parts sizes --out runs/sizes",
    "calibration": "prism reproduce evidence --jobs 15 --out runs/calibration",
    "study": "prism reproduce study --jobs 15 --out runs/study",
    "labyrinth-evidence": (
        "prism evidence labyrinth --events delivery --events exit --jobs 2 --out runs/labyrinth-evidence"
    ),
    "phases": "prism reproduce phases --jobs 2 --out runs/phases",
    "zoo": "prism reproduce zoo --jobs 16 --out runs/zoo",
    "tutorial": "prism reproduce tutorial --jobs 15 --out runs/tutorial",
    "benchmarks": "make bench",
    "stopping": "python benchmarks/stopping.py --half report --rules validation training --out runs/stopping",
    "larger": "python benchmarks/larger_than_memory.py --steps 16000000 --iterations 2 --limit 2.4 --out runs/larger",
    "gpu": "python benchmarks/gpu.py --out runs/gpu",
    "intervals": "python benchmarks/intervals.py --resamples 200 --jobs 2 --out runs/intervals",
}
"""Results file, without its suffix → the command whose run it is made of."""


@dataclass(frozen=True)
class Block:
    """One block: its name, the results files that it reads, and the text that it makes of them."""

    name: str
    files: tuple[str, ...]
    text: Callable[..., str]

    def render(self, folder: Path = HERE) -> str:
        """Text of the block and its origin; what has to be run where a file, or a part of it, is absent."""
        found = [read(name, folder) if (folder / f"{name}.json").is_file() else None for name in self.files]
        try:
            text = self.text(*({} if result is None else result["metrics"] for result in found)).strip("\n") + "\n\n"
        except MissingPartError as error:
            text = f"*Not run with the present code yet: {error}.*\n\n" if any(found) else ""
        lines = []
        for name, result in zip(self.files, found, strict=True):
            lines.append(
                f"*Not run with the present code yet: `{COMMANDS[name]}`.*" if result is None else origin(result)
            )
        return text + "\\\n".join(lines) + "\n" if lines else text


class MissingPartError(Exception):
    """A part of a run that a table needs and that has not been run; says which."""


def need(metrics: Mapping[str, Any], *keys: str) -> Any:
    """An entry of the metrics, or `MissingPartError`."""
    found: Any = metrics
    for key in keys:
        if not found or key not in found or not found[key]:
            raise MissingPartError(f"the part {keys[0]!r}")
        found = found[key]
    return found


BLOCKS: dict[str, Block] = {}


def block(*files: str) -> Callable[[Callable[..., str]], Callable[..., str]]:
    """Register a function of the metrics of some results files as the block of its name."""

    def register(text: Callable[..., str]) -> Callable[..., str]:
        BLOCKS[text.__name__] = Block(text.__name__, files, text)
        return text

    return register


def read(name: str, folder: Path = HERE) -> dict[str, Any]:
    """A results file: ``metrics``, and the command, settings, seeds, date, versions, machine and seconds behind it."""
    found: dict[str, Any] = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    return found


def origin(result: Mapping[str, Any]) -> str:
    """One line: command, folds and seeds, version and date, machine; whether the code has changed since."""
    metrics = result["metrics"]
    known = {key: metrics[key] for key in ("folds", "seeds") if isinstance(metrics.get(key), int)}
    counts = [f"{count} {key if count != 1 else key[:-1]}" for key, count in known.items()]
    # How many workers it had and which parts were resumed: make results and the list of files say that.
    left_out = "jobs" if len(metrics.get("parts", ())) == 1 else "jobs|parts"
    command = re.sub(rf" --({left_out}) \S+", "", result["command"])
    version = result["versions"]["prism-irl"]
    commit = f" at {result['versions'].get('commit')}" if version == VERSION else older(result)
    parts = [f"`{command}`", " × ".join(counts), f"version {version}{commit}"]
    parts += [result["date"], result["machine"]]
    quick = "a quick run: " if metrics.get("quick") else ""
    return f"*{quick}{', '.join(part for part in parts if part)}.*"


def older(result: Mapping[str, Any]) -> str:
    """Whether another version than the present one made it; `results.age` counts the commits."""
    return "" if result["versions"]["prism-irl"] == VERSION else " (older than the present code)"


def spent(result: Mapping[str, Any]) -> str:
    """How long it took, by part where a run has parts; of a resumed one, its last piece or what its keeper said."""
    if result.get("made"):
        return str(result["made"])
    by_part = result["metrics"].get("seconds")
    if isinstance(by_part, Mapping):
        return ", ".join(f"{part} {duration(seconds)}" for part, seconds in by_part.items())
    return duration(result["seconds"]) + (" after a resume" if result.get("resumed") else "")


def duration(seconds: float) -> str:
    """Seconds, minutes or hours."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


# -- text --------------------------------------------------------------------------------------------------------------


def number(value: Any, digits: int = 3, *, spread: bool = False) -> str:
    """A number, or the mean of several with their spread, with a real minus sign; a dash where there is none."""
    if value is None:
        return "–"
    if isinstance(value, Mapping):
        around = f" ± {number(value['std'], digits)}" if spread and value.get("std") else ""
        return number(value["mean"], digits) + around
    text = f"{value:.{digits}f}"
    # A zero has no sign, however small the number was.
    return text.lstrip("-") if float(text) == 0 else text.replace("-", "−")


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"


# -- pages -------------------------------------------------------------------------------------------------------------


def pages(root: Path = ROOT) -> list[Path]:
    """README and every page of the docs."""
    return [root / "README.md", *sorted((root / "docs").rglob("*.md"))]


def rendered(text: str, folder: Path = HERE) -> str:
    """The text of a page with each of its blocks written again."""
    return BLOCK.sub(lambda found: found[1] + BLOCKS[found[2]].render(folder) + found[4], text)


def loose_numbers(text: str) -> list[str]:
    """Rows of tables with decimal numbers that no block has written."""
    return [line for line in BLOCK.sub("", text).splitlines() if NUMBERS.match(line)]


def prose(text: str) -> list[str]:
    """Paragraphs and list items of a page, without blocks, tables and headings; code and formulas are one word each."""
    text = BLOCK.sub("\n\n", text)
    text = re.sub(r"^(`{3,}|:{3,}).*?^\1\s*$", "\n", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"<!--.*?-->|\$\$.*?\$\$", "", text, flags=re.DOTALL)
    lines = []
    for line in text.splitlines():
        if re.match(r"\s*(\||#|\s{4,}\S)", line):  # tables, headings, formulas that stand apart
            lines.append("")
        else:
            lines.append(re.sub(r"^\s*([-*]|\d+\.|:) +", "\n", line))
    text = re.sub(r"`[^`]*`|\$[^$]+\$", "Code", "\n".join(lines))
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return [" ".join(part.split()) for part in re.split(r"\n\s*\n", text) if part.strip()]


@block()
def provenance() -> str:
    """Every results file: command, version, commit, date, machine, how long."""
    rows = []
    for name, command in COMMANDS.items():
        if not (HERE / f"{name}.json").is_file():
            rows.append([name, f"`{command}`", "*not run yet*", "–", "–", "–"])
            continue
        found = read(name)
        versions = found["versions"]
        version = f"{versions['prism-irl']}{older(found)}"
        commit = str(versions.get("commit") or f"not said; kept with {found['kept_with']}")
        rows.append(
            [name, f"`{found['command']}`", version, commit, found["date"], f"{found['machine']}; {spent(found)}"]
        )
    return table(["file", "command", "version", "commit", "date", "machine and time"], rows)
