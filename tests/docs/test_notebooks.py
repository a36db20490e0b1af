"""Notebooks run from top to bottom, and show what their text says."""

from __future__ import annotations

import json
import os
import re
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
notebook.cells.append(nbformat.v4.new_code_cell(sys.argv[3]))
NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
nbformat.write(notebook, sys.argv[2])
"""


def executed(name: str, last: str, tmp_path: Path) -> tuple[Any, Any]:
    """The notebook after its execution in an empty folder, and the JSON that one more cell prints."""
    nbformat = pytest.importorskip("nbformat", reason="needs nbclient")
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    command = [sys.executable, "-c", RUN, NOTEBOOKS / f"{name}.ipynb", tmp_path / "done.ipynb", last]
    environment = {**os.environ, "NUMBA_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    notebook = nbformat.read(tmp_path / "done.ipynb", 4)
    stored = nbformat.read(NOTEBOOKS / f"{name}.ipynb", 4).cells
    for before, after in zip(stored, notebook.cells, strict=False):
        assert shown(before) == shown(after), "python docs/sessions.py keeps what a notebook shows"
    return notebook, json.loads(notebook.cells[-1].outputs[0].text)


@pytest.mark.slow
def test_gridworld(tmp_path: Path) -> None:
    notebook, table = executed("gridworld", "print(table.to_json())", tmp_path)
    likelihood, score = table["predictive LL"], table["paper score"]
    assert table["label accuracy"]["recurrent switching"] > 0.95
    truth = likelihood["truth (Bayes filter)"]
    assert truth > likelihood["recurrent switching"] > likelihood["Markov chain (HIQL)"]
    assert score["paper gate"] > truth > likelihood["paper gate"]  # the leak: a score that no prediction can have
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 2


@pytest.mark.slow
def test_own_data(tmp_path: Path) -> None:
    pytest.importorskip("xarray", reason="needs the extra interop")
    last = "import json; print(json.dumps({'scores': scores, 'names': sorted(named)}))"
    _, found = executed("own_data", last, tmp_path)
    assert found["names"] == ["go home", "seek the corner"]
    assert found["scores"]["two, recurrent"] > found["scores"]["two, Markov chain"] > found["scores"]["one intention"]


def shown(cell: Any) -> str:
    """What a cell prints, without its numbers."""
    texts = [output.get("text") or output.get("data", {}).get("text/plain", "") for output in cell.get("outputs", [])]
    return re.sub(r"[-\d.e\s]+", " ", " ".join("".join(text) for text in texts))


def test_notebooks_are_stored_with_what_they_show() -> None:
    nbformat = pytest.importorskip("nbformat", reason="needs nbclient")
    stored = sorted(NOTEBOOKS.glob("*.ipynb"))
    assert [path.stem for path in stored] == ["gridworld", "own_data"]
    for path in stored:
        cells = [cell for cell in nbformat.read(path, 4).cells if cell.cell_type == "code"]
        assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
        assert not [output for cell in cells for output in cell.outputs if output.output_type in ("error", "stream")][
            1:
        ]
        assert sum(bool(cell.outputs) for cell in cells) >= len(cells) - 2
        assert path.stat().st_size < 250_000
