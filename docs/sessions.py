"""What commands on the pages print and draw: python docs/sessions.py [FOLDER [PAGE …]] types, runs and pastes.

A page has sessions: blocks of `console` whose lines with a `$` are commands, followed by what they print. They are
typed page after page in the order of `PAGES`, each in its folder: a later page may use the run of an earlier one.
`FIGURES` says which figure of a run is which picture of the pages. `tests/docs/test_sessions.py` types them again.
Notebooks (`notebooks/gridworld`) are executed, and kept with what they show.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

from pictures import small

DOCS = Path(__file__).parent
PAGES: dict[str, str] = {
    "start/analyze": "first",
    "guide/evidence": "first",
    "guide/own_tables": "mouse",
    "guide/worlds": "mouse",
    "guide/simulations": "mouse",
    "guide/individuals": "mouse",
    "guide/what_if": "mouse",
    "guide/conditions": "mouse",
    "guide/sure": "mouse",
    "guide/covariates": "mouse",
    "guide/how_many": "mouse",
    "guide/trials": "choices",
    "guide/continuous": "walks",
    "guide/robots": "arm",
    "guide/few_labels": "arm",
    "guide/clusters": "arm",
}
"""Page → the folder in which it is typed."""
FIGURES: dict[str, str] = {
    "places": "first/runs/quick/fit/figures/maps.png",
    "surrogates": "first/runs/evidence/figures/evidence.png",
    "budget": "first/runs/evidence/figures/budget.png",
    "raster": "mouse/runs/mouse/figures/segmentation.png",
    "maps": "mouse/runs/mouse/figures/maps.png",
    "checks": "mouse/runs/mouse/figures/checks.png",
    "individuals": "mouse/runs/mouse/figures/individuals.png",
    "imagined": "mouse/runs/mouse/figures/imagine-block-x2y3-unaware.png",
    "contrast": "mouse/runs/mouse/figures/contrast-drug-usage.png",
    "intervals": "mouse/runs/sure/figures/intervals.png",
    "covariates": "mouse/runs/since/figures/inputs.png",
    "select": "mouse/runs/select/figures/selection.png",
    "trials": "choices/runs/choices/figures/segmentation.png",
    "two_goals": "walks/runs/two-goals/figures/maps.png",
    "phases": "arm/runs/arm/figures/segmentation.png",
    "labels": "arm/runs/known/figures/segmentation.png",
}
"""Picture in images/guide → figure of a run."""
SESSION = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
WIDTH = 110


def commands_of(session: str) -> list[str]:
    """The commands of one session, continued lines joined."""
    return re.findall(r"^\$ ((?:.*\\\n)*.*)", session, flags=re.MULTILINE)


def typed(command: str, folder: Path) -> str:
    """What a command prints on standard output; what should fail says so by `; echo`."""
    environment = {**os.environ, "COLUMNS": str(WIDTH), "OMP_NUM_THREADS": "1"}
    environment["PATH"] = str(Path(sys.executable).parent) + os.pathsep + environment["PATH"]
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{command}\n{done.stderr}")
    lines = [textwrap.fill(line, WIDTH, subsequent_indent="  ") for line in done.stdout.splitlines()]
    return "".join(f"{line}\n" for line in lines)


def sessions(text: str, folder: Path) -> str:
    """The text of a page with every session typed again."""

    def again(found: re.Match[str]) -> str:
        parts = [f"$ {command}\n{typed(command, folder)}" for command in commands_of(found[1])]
        return "```console\n" + "".join(parts) + "```"

    return SESSION.sub(again, text)


def execute(path: Path, folder: Path) -> None:
    """Run a notebook from top to bottom, and keep what its cells show, without times."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, 4)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    client = NotebookClient(notebook, timeout=600, kernel_name="python3", record_timing=False)
    client.execute(cwd=str(folder), env=environment)
    notebook.metadata = {"kernelspec": notebook.metadata["kernelspec"]}
    nbformat.write(notebook, path)


def main() -> None:
    """Type every session, paste what it prints, keep the figures, and execute the notebooks."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
    asked = sys.argv[2:]
    for path in sorted((DOCS / "notebooks").glob("*.ipynb")):
        if not asked or f"notebooks/{path.stem}" in asked:
            execute(path, folder)
            print(path, flush=True)
    for name, place in PAGES.items():
        if asked and name not in asked:
            continue
        (folder / place).mkdir(parents=True, exist_ok=True)
        page = DOCS / f"{name}.md"
        text = page.read_text(encoding="utf-8")
        page.write_text(sessions(text, folder / place), encoding="utf-8")
        print(page, flush=True)
    for name, figure in FIGURES.items():
        if (folder / figure).is_file():
            small(folder / figure, DOCS / "images" / "guide" / f"{name}.png")
        elif not asked:
            print(f"There is no {figure}.")


if __name__ == "__main__":
    main()
