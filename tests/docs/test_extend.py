"""The extension page, word for word: its files in a package outside the tree, its commands in their own processes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import prism_irl as prism

PAGE = (Path(__file__).parents[2] / "docs" / "project" / "extend.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"```python\n# (my_package/\w+\.py)\n(.*?)```", PAGE, flags=re.S))
COMMANDS = [line[2:] for block in re.findall(r"```console\n(.*?)```", PAGE, flags=re.S) for line in block.splitlines()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package, and after every command of the page, in order."""
    place = tmp_path_factory.mktemp("outside")
    (place / "my_package").mkdir()
    for name, text in FILES.items():
        (place / name).write_text(text)
    rng = np.random.default_rng(0)
    bout = np.repeat(np.arange(12), 20)
    walk = pd.DataFrame({"trajectory": bout, "state": rng.integers(4, size=240), "action": rng.integers(3, size=240)})
    walk.to_csv(place / "walk.csv", index=False)
    (place / "bouts.txt").write_text("2 LLRSRLLL\n0 RRRSRR\n4 LSLSLRRR\n")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    for command in COMMANDS:
        words = command.split()
        start = [sys.executable] if words[0] == "python" else [sys.executable, "-m", "prism_irl"]
        done = subprocess.run(
            [*start, *words[1:]], cwd=place, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return place


def test_the_page_has_an_example_of_everything() -> None:
    assert len(FILES) == 6
    assert {command.split()[1] for command in COMMANDS if command.startswith("prism")} == {
        "fit",
        "compare",
        "score",
        "report",
    }


def test_every_command_left_its_run(folder: Path) -> None:
    for run in ("tied", "doors", "tastes", "again", "bouts"):
        assert (folder / "runs" / run / "report.html").is_file()
        assert np.isfinite(json.loads((folder / "runs" / run / "metrics.json").read_text())["predictive_ll"]["train"])
    compared = json.loads((folder / "runs" / "compare" / "metrics.json").read_text())["methods"]
    assert list(compared)[:2] == ["my_package.tied:Tied+tabular", "hiql"]  # and the references behind them
    floors = json.loads((folder / "runs" / "floors" / "metrics.json").read_text())["methods"]
    assert floors["uniform"]["predictive_ll"]["mean"] == pytest.approx(np.log(1 / 3))
    assert "How much each intention is used." in (folder / "runs" / "tied" / "report.html").read_text()


def test_models_from_outside_load(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(prism.InputError, match=r"--method my_package\.again:Again"):
        prism.load(folder / "runs" / "again")
    with pytest.raises(prism.InputError, match=r"import my_package\.tied first"):
        prism.load(folder / "runs" / "tied")
    monkeypatch.syspath_prepend(folder)
    found = prism.load(folder / "runs" / "again", "my_package.again:Again")
    assert 0 < found.again_ < 1
    trusted = prism.load(folder / "runs" / "tastes", "my_package.tastes:Tastes")
    assert trusted.rewards == "my_package.tastes:Tastes"
    import my_package.tied  # type: ignore[import-not-found]

    tied = prism.load(folder / "runs" / "tied")
    assert tied.switching == "my_package.tied:Tied"
    import my_package.doors  # type: ignore[import-not-found]

    leaving = prism.load(folder / "runs" / "doors").switching_.kernels.numpy()
    assert np.abs(leaving[0] - leaving[1]).max() > 1e-3
    kernel = np.asarray(tied.kernel_)
    assert kernel[0, 0] == pytest.approx(kernel[1, 1])
    model = prism.Intentions(
        2, switching=my_package.tied.Tied(strength=10.0), n_starts=1, max_iterations=2, device="cpu"
    )
    demos = prism.Demonstrations.from_arrays([np.arange(12) % 3] * 4, [np.arange(12) % 2] * 4, n_states=3, n_actions=2)
    model.fit(demos).save(folder / "runs" / "python")
    again = prism.load(folder / "runs" / "python")
    assert again.switching == my_package.tied.Tied(strength=10.0)
    np.testing.assert_array_equal(again.action_proba(demos), model.action_proba(demos))
