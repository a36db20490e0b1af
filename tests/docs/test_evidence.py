"""The example of the guide to evidence, typed word for word: an agent with goals beside its habit."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "evidence.md"


@pytest.mark.slow
def test_the_example_word_for_word(tmp_path: Path) -> None:
    blocks = re.findall(r"^```bash\n(.*?)^```$", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert sum(block.count("prism evidence ") for block in blocks) == 2
    script = tmp_path / "script"
    script.write_text("set -euo pipefail\n" + "".join(blocks))
    folder = tmp_path / "fresh"
    folder.mkdir()
    here = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": here + os.pathsep + os.environ["PATH"], "OMP_NUM_THREADS": "1"}
    done = subprocess.run(["bash", script], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

    # what the text says about the results
    agent, habit = (
        json.loads((folder / "runs" / name / "metrics.json").read_text())["evidence"] for name in ("agent", "habit")
    )
    assert agent["g1"]["found"]
    assert agent["g2"]["found"]
    assert not habit["found"]
    assert habit["g1"]["effect"] < agent["g1"]["effect"] / 2
    text = " ".join(done.stdout.split())
    assert "There are intentions beyond habit." in text
    assert "No evidence for intentions beyond habit." in text


def test_every_verdict_of_the_page_is_one_that_a_report_can_have() -> None:
    from prism_irl.report.verdict import overall, verdict

    page = PAGE.read_text()
    for found in ({"found": True}, {"found": False}, {"found": False, "decided": False}):
        metrics = {"experiment": "evidence", "methods": {}, "evidence": found}
        assert f"**{overall(metrics, verdict(metrics))}**" in page
