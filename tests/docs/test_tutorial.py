"""What the tutorial says is typed word for word, in a fresh folder, by a shell."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

TUTORIAL = Path(__file__).parents[2] / "docs" / "start" / "tutorial.md"


@pytest.mark.slow
def test_the_tutorial_word_for_word(tmp_path: Path) -> None:
    blocks = re.findall(r"^```bash\n(.*?)^```$", TUTORIAL.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert sum(block.count("prism ") for block in blocks) >= 4
    script = tmp_path / "script"
    script.write_text("set -euo pipefail\n" + "".join(blocks))
    folder = tmp_path / "fresh"
    folder.mkdir()
    here = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": here + os.pathsep + os.environ["PATH"], "OMP_NUM_THREADS": "1"}
    done = subprocess.run(["bash", script], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

    # what the text says about the results
    assert "identifies 2 intentions" in " ".join(done.stdout.split())
    selected, refused = (
        json.loads((folder / "runs" / run / "metrics.json").read_text()) for run in ("select", "habit")
    )
    assert selected["recommended"] == 2
    assert selected["evidence"]["found"]
    assert refused["recommended"] == 1
    assert refused["recommendation"].startswith("No evidence for intentions beyond habit")
    assert (folder / "runs/mouse/report.html").exists()
    shown = re.search(r"^```text\n(.*?)^```$", TUTORIAL.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert shown is not None
    assert (folder / "mouse.csv").read_text().startswith(shown.group(1))
    score = re.search(r"predictive LL\s+(\S+) nats", done.stdout[done.stdout.rindex("predictive LL") :])
    assert score is not None
    assert -1.15 < float(score.group(1)) < -1.08  # "about −1.12"; the right side is the ceiling on these bouts
    said = " ".join(done.stdout.split())
    assert "No difference between evening and morning (6 in column animal, each under both) was found" in said
    assert "No animal differs clearly from the others in usage" in said
    labels = pd.read_csv(folder / "labels.csv")
    assert set(labels["intention_name"]) == {"seek the corner", "go home"}
    assert ((labels["intention_name"] == "go home") == (labels["truth"] == 1)).mean() > 0.95
