"""Results files behind the tables of README and docs: which command wrote what, and the tables made of them.

    python docs/results/results.py                          # what there is, when and where it was run (make results)
    python docs/results/results.py keep runs/gridworld gridworld   # a finished run becomes docs/results/gridworld.json
    python docs/results/results.py keep runs/gridworld gridworld --made "fits on 16 cores"   # of one that moved
    python docs/results/results.py render                   # write the tables of every page again

Nothing here computes: a results file is the metrics.json of a run with what its config.json says about its origin.
`tests/docs/test_results.py` renders again and fails on any difference, and on a table with numbers outside of a block.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import bridge_tables  # noqa: F401  (each registers its blocks)
import continuous_tables  # noqa: F401
import evidence_tables  # noqa: F401
import gridworld_tables  # noqa: F401
import labyrinth_tables  # noqa: F401
import paper_claims  # noqa: F401
import paper_tables  # noqa: F401
import phase_tables  # noqa: F401
import speed_tables  # noqa: F401
import study_tables  # noqa: F401
import zoo_tables  # noqa: F401
from blocks import BLOCK, COMMANDS, HERE, ROOT, pages, read, rendered, spent

sys.path.insert(0, str(HERE.parent))
from pictures import small

ORIGIN = ("command", "settings", "date", "versions", "machine", "seconds", "resumed")
IMAGES = {
    "gridworld": {"method_bars.png": "gridworld.png", "rewards_all.png": "gridworld_rewards.png"},
}
"""Figures of a run that pages show: name in the run folder → name in docs/images."""
LEFT_OUT = ("arrival", "per_intention", "positions")
"""Entries of metrics.json that no table shows, and that would make the files large; families of worlds are none."""
FAMILY = {"relative_accuracy", "share"}
"""What the entry of a family has one of."""


def keep(run: Path, name: str, folder: Path = HERE, *, made: str | None = None) -> Path:
    """Make a results file of a run folder; a run that moved between machines says where most of it was made."""
    if name not in COMMANDS:
        sys.exit(f"There is no table of {name!r}; choose among {', '.join(COMMANDS)}.")
    metrics, config = (json.loads((run / part).read_text(encoding="utf-8")) for part in ("metrics.json", "config.json"))
    missing = [key for key in ("command", "date", "versions", "machine", "seconds") if key not in config]
    if missing:
        sys.exit(f"{run}/config.json does not say {', '.join(missing)}; run the command again with the present code.")
    found = {key: config[key] for key in ORIGIN if key in config} | {"metrics": brief(metrics)}
    if made is not None:
        found["made"] = made
    # Where it lay is nobody's business, and whoever types it again has nothing to resume.
    found["command"] = re.sub(r"--out \S+", f"--out runs/{name}", found["command"]).replace(" --resume", "")
    if "parts" in metrics:  # the last command named the part that it added
        found["command"] = re.sub(r"--parts \S+", f"--parts {','.join(metrics['parts'])}", found["command"])
    for figure, image in IMAGES.get(name, {}).items():
        if folder == HERE:
            small(run / "figures" / figure, HERE.parent / "images" / image)
    path = folder / f"{name}.json"
    path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def brief(value: Any) -> Any:
    """The same without what no table shows, to six digits."""
    if isinstance(value, dict):
        return {key: brief(item) for key, item in value.items() if key not in LEFT_OUT or FAMILY & set(item or ())}
    if isinstance(value, list):
        return [brief(item) for item in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def render() -> list[Path]:
    """Write every block of every page; return the pages that have changed."""
    changed = []
    for page in pages():
        before = page.read_text(encoding="utf-8")
        after = rendered(before)
        if after != before:
            page.write_text(after, encoding="utf-8")
            changed.append(page)
    return changed


def listing() -> str:
    """Every results file with its origin, and the blocks that have none."""
    lines = []
    for name, command in COMMANDS.items():
        if not (HERE / f"{name}.json").is_file():
            lines.append(f"{name}: not run yet\n    {command}")
            continue
        found = read(name)
        quick = ", quick" if found["metrics"].get("quick") else ""
        where = f"{found['date']}, version {found['versions']['prism-irl']}, {found['machine']}"
        lines.append(f"{name}: {where}, {spent(found)}{quick}; {age(found)}\n    {found['command']}")
    used = {page: [found[2] for found in BLOCK.finditer(page.read_text(encoding="utf-8"))] for page in pages()}
    lines += [f"{page.relative_to(ROOT)}: {', '.join(names)}" for page, names in used.items() if names]
    return "\n".join(lines)


def age(found: dict[str, Any]) -> str:
    """How many source commits are newer than a results file: than its own, else than the one that it was kept with."""
    named = [str(found["versions"].get("commit", "")).split(" ")[0], found.get("kept_with", "")]
    commit = next((one for one in named if one and _git("merge-base", one, "HEAD").startswith(one)), "")
    ahead = _git("rev-list", "--count", f"{commit}..HEAD", "--", "src") if commit else ""
    if not ahead:
        return "of unknown age"
    return "of the present code" if ahead == "0" else f"{ahead} source commits old"


def _git(*words: str) -> str:
    """Output of a git command in this checkout; empty where there is none."""
    try:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="what")
    keeping = commands.add_parser("keep", help="make a results file of a run folder")
    keeping.add_argument("run", type=Path)
    keeping.add_argument("name")
    keeping.add_argument("--made", help="where and how long the work was done, of a run that moved between machines")
    commands.add_parser("render", help="write the tables of every page again")
    options = parser.parse_args()
    if options.what == "keep":
        print(keep(options.run, options.name, made=options.made))
    elif options.what == "render":
        print("\n".join(str(page.relative_to(ROOT)) for page in render()) or "Every table was up to date.")
    else:
        print(listing())


if __name__ == "__main__":
    main()
