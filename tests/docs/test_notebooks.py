"""Notebooks run from top to bottom, and show what their text says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = Path(__file__).parents[2] / "docs" / "notebooks"

# In a process of its own: kernels and event loops have warnings that are not ours.
RUN = """
import sys, nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], 4)
NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
nbformat.write(notebook, sys.argv[2])
"""


def executed(name: str, tmp_path: Path) -> Any:
    """The notebook after its execution in an empty folder."""
    nbformat = pytest.importorskip("nbformat", reason="needs nbclient")
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    command = [sys.executable, "-c", RUN, NOTEBOOKS / f"{name}.ipynb", tmp_path / "done.ipynb"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return nbformat.read(tmp_path / "done.ipynb", 4)


def shown(notebook: Any) -> str:
    """All text that the cells printed or returned."""
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    return "\n".join(output.get("text", "") or output.get("data", {}).get("text/plain", "") for output in outputs)


@pytest.mark.slow
def test_gridworld(tmp_path: Path) -> None:
    notebook = executed("gridworld", tmp_path)
    rows = {}
    for line in shown(notebook).splitlines():
        *name, ll, paper, accuracy = line.split() if line.count(".") >= 2 else ["", "", "", ""]
        if ll.startswith("-1."):
            rows[" ".join(name)] = (float(ll), float(paper), float(accuracy))
        elif line.startswith("truth"):
            rows["truth"] = (float(ll), float(paper), float(accuracy))
    truth = next(row[0] if row[0] < -1 else row[0] for name, row in rows.items() if name.startswith("truth"))
    recurrent, gate = rows["recurrent switching"], rows["paper gate"]
    assert recurrent[2] > 0.95  # finds the intentions
    assert gate[1] > truth > recurrent[0] > gate[0]  # the leak: a score above the truth, and a poor prediction
    images = [o for cell in notebook.cells for o in cell.get("outputs", []) if "image/png" in o.get("data", {})]
    assert len(images) == 2


@pytest.mark.slow
def test_own_data(tmp_path: Path) -> None:
    pytest.importorskip("xarray", reason="needs the extra interop")
    text = shown(executed("own_data", tmp_path))
    assert "seek the corner" in text
    assert "go home" in text
    lines = [line for line in text.splitlines() if line.startswith(("one intention", "two, recurrent"))]
    scores = {line.rsplit(maxsplit=1)[0].strip(): float(line.rsplit(maxsplit=1)[1]) for line in lines}
    assert scores["two, recurrent"] > scores["one intention"] + 0.1


def test_notebooks_are_stored_without_results() -> None:
    nbformat = pytest.importorskip("nbformat", reason="needs nbclient")
    stored = sorted(NOTEBOOKS.glob("*.ipynb"))
    assert [path.stem for path in stored] == ["gridworld", "own_data"]
    for path in stored:
        cells = [cell for cell in nbformat.read(path, 4).cells if cell.cell_type == "code"]
        assert all(not cell.outputs and cell.execution_count is None for cell in cells)
