"""One harness for every command that leaves a folder."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from prism_irl.cli.options import CommonOptions
from prism_irl.cli.run_folder import RunFolder
from support import prism


@pytest.mark.parametrize(
    "command",
    [
        "fit none.csv --out x",
        "select none.csv --out x",
        "compare none.csv --out x",
        "reproduce labyrinth --out x",
        "reproduce bridge --out x",
        "tokenize none --out x",
    ],
)
def test_overwrite_and_resume_exclude_each_other(command: str, tmp_path: Path) -> None:
    done = prism(*command.split(), "--overwrite", "--resume", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "prism: --overwrite begins again and --resume goes on; pass one of them.\n"
    assert not (tmp_path / "x").exists()


def make(folder: RunFolder, value: int, **options: Any) -> dict[str, Any]:
    def work(path: Path, callback: Any) -> dict[str, Any]:
        assert callback == "callback"
        assert not any(path.glob("cache/*"))
        (path / "cache").mkdir(exist_ok=True)
        (path / "cache" / "fit.json").write_text("{}")
        return {"value": value}

    return folder.make(
        work,
        lambda metrics: print("value", metrics["value"]),
        progress=lambda: nullcontext("callback"),
        report=False,
        stale=("cache/*.json",),
        **options,
    )


def test_folder_work_description_and_print(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    assert make(RunFolder(out), 3, config={"data": 1}) == {"value": 3}
    assert capsys.readouterr().out == "value 3\n"
    config = json.loads((out / "config.json").read_text())
    assert config["data"] == 1
    assert config["command"].startswith("prism")
    assert {"prism-irl", "torch", "python"} <= set(config["versions"])
    # Begun again, as JSON, and described by what came out; what the first run remembered is gone.
    make(RunFolder(out, overwrite=True, common=CommonOptions(json=True)), 4, config=lambda metrics: {"data": metrics})
    assert json.loads(capsys.readouterr().out) == {"value": 4}
    assert json.loads((out / "config.json").read_text())["data"] == {"value": 4}
