"""One harness for every command that leaves a folder."""

from __future__ import annotations

import json
import os
import shutil
import sys
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from prism_irl import storage
from prism_irl.cli import runs
from prism_irl.cli.options import CommonOptions
from prism_irl.cli.runs import RunFolder
from prism_irl.errors import InputError
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
    assert config["date"] == datetime.now(UTC).strftime("%Y-%m-%d")
    assert "cores" in config["machine"]
    assert 0 <= config["seconds"] < 60
    assert config["resumed"] is False
    # Begun again, as JSON, and described by what came out; what the first run remembered is gone.
    make(RunFolder(out, overwrite=True, common=CommonOptions(json=True)), 4, config=lambda metrics: {"data": metrics})
    assert json.loads(capsys.readouterr().out) == {"value": 4}
    assert json.loads((out / "config.json").read_text())["data"] == {"value": 4}


def listed(folder: Path) -> dict[str, str]:
    """Files of a folder that are not marks of ours, with what they hold."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != ".prism-run.json")
    return {path.relative_to(folder).as_posix(): path.read_text() for path in sorted(files)}


def work_of(folder: RunFolder, files: dict[str, str], fail: BaseException | None = None) -> None:
    with folder.claimed() as path:
        for name, text in files.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_text(text)
        if fail is not None:
            raise fail


OLD = {"config.json": "old", "figures/a.svg": "old", "figures/b.svg": "old", "cache/1.json": "old"}
NEW = {"config.json": "new", "figures/a.svg": "new"}


def test_a_new_run_takes_the_place_of_the_old_one_as_a_whole(tmp_path: Path) -> None:
    out = tmp_path / "run"
    work_of(RunFolder(out), OLD)
    (out / "names.json").write_text("of the old intentions")  # as the page exports them
    (out / "notes.txt").write_text("mine")
    (out / "figures" / "mine.png").write_text("mine")
    with RunFolder(out, overwrite=True).claimed() as path:
        (path / "config.json").write_text("half")
        assert {name: listed(out)[name] for name in OLD} == OLD, "the old run is there until the new one is"
    work_of(RunFolder(out, overwrite=True), NEW)
    assert listed(out) == NEW | {"notes.txt": "mine", "figures/mine.png": "mine"}
    assert not list(out.glob(".unfinished")) + list(out.glob(".replaced*"))


def test_what_was_added_to_a_run_goes_with_it(tmp_path: Path) -> None:
    out = tmp_path / "run"
    work_of(RunFolder(out), OLD)
    (out / "notes.txt").write_text("mine")
    with runs.adding(out):
        (out / "contrasts").mkdir()
        (out / "contrasts" / "drug.csv").write_text("of the old intentions")
        with pytest.raises(InputError, match="is being written"), runs.adding(out):
            pass
    work_of(RunFolder(out, overwrite=True), NEW)
    assert listed(out) == NEW | {"notes.txt": "mine"}


@pytest.mark.parametrize("flags", [{}, {"overwrite": True}, {"resume": True}], ids=str)
def test_a_folder_that_is_not_ours_is_not_touched(tmp_path: Path, flags: dict[str, bool]) -> None:
    theirs = {"config.json": '{"mine": 1}', "checkpoint/state": "mine", "cache/thing": "mine"}
    for name, text in theirs.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match="not empty and holds no run of prism; choose another --out"):
        work_of(RunFolder(tmp_path, **flags), NEW)
    assert listed(tmp_path) == theirs


def test_the_demo_replaces_no_configuration_of_somebody_else(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("mine")
    done = prism("demo", "--out", tmp_path, cwd=tmp_path)
    assert (done.returncode, listed(tmp_path)) == (2, {"config.json": "mine"}), done.stderr


def test_an_interrupted_replacement_leaves_both(tmp_path: Path) -> None:
    out = tmp_path / "run"
    work_of(RunFolder(out), OLD)
    with pytest.raises(KeyboardInterrupt):
        work_of(RunFolder(out, overwrite=True), {"cache/2.json": "begun"}, KeyboardInterrupt())
    assert {name: listed(out)[name] for name in OLD} == OLD
    with pytest.raises(InputError, match="unfinished run; go on with --resume or begin again with --overwrite"):
        work_of(RunFolder(out), NEW)
    with RunFolder(out, resume=True).claimed() as path:
        assert listed(path) == {"cache/2.json": "begun"}
        (path / "config.json").write_text("new")
    assert listed(out) == {"cache/2.json": "begun", "config.json": "new"}


def test_an_interrupted_swap_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "run"
    work_of(RunFolder(out), OLD)
    whole, calls = runs.move, []

    def stopped(*arguments: Any) -> None:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        whole(*arguments)

    monkeypatch.setattr(runs, "move", stopped)
    with pytest.raises(KeyboardInterrupt):
        work_of(RunFolder(out, overwrite=True), NEW)
    monkeypatch.undo()
    work_of(RunFolder(out, resume=True), {})
    assert {name: listed(out).get(name) for name in NEW} == NEW


@pytest.mark.parametrize("place", ["a" * 300, "/proc/run", "file/run"])
def test_a_place_where_nothing_can_be_made_is_one_sentence(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "x.csv").write_text("trajectory,state,action\n" + "a,0,0\nb,1,1\n" * 5)
    done = prism("fit", "x.csv", "--method", "hiql", "--out", place, cwd=tmp_path)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr


def test_a_folder_that_was_removed_meanwhile_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from prism_irl.models.presets import HIQL

    (tmp_path / "x.csv").write_text("trajectory,state,action\n" + "a,0,0\nb,1,1\n" * 5)
    fitted = HIQL.fit

    def fit(self: HIQL, *data: Any, **options: Any) -> HIQL:
        shutil.rmtree(tmp_path / "run")
        return fitted(self, *data, **options)

    monkeypatch.setattr(HIQL, "fit", fit)
    words = "--method hiql --intentions 2 --n-starts 1 --max-iterations 2 --simulations 0 --out run".split()
    done = prism("fit", "x.csv", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert prism("score", "run", "x.csv", cwd=tmp_path).returncode == 0, "the run is whole"
    assert runs.read_marker(tmp_path / "run")["state"] == "finished"


def test_an_interrupt_while_modules_are_imported_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from prism_irl import __main__

    class Importing:
        def __getattr__(self, name: str) -> Any:
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "prism_irl.cli.main", Importing())
    assert (__main__.run(), capsys.readouterr().err) == (130, "prism: interrupted.\n")


def test_a_failure_before_any_work_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        work_of(RunFolder(tmp_path / "new"), {}, InputError("Wrong."))
    assert list(tmp_path.iterdir()) == []
    work_of(RunFolder(tmp_path / "run"), OLD)
    with pytest.raises(InputError):
        work_of(RunFolder(tmp_path / "run", overwrite=True), {}, InputError("Wrong."))
    work_of(RunFolder(tmp_path / "run", resume=True), {})
    assert listed(tmp_path / "run") == OLD


def test_two_writers_are_told_of_each_other(tmp_path: Path) -> None:
    with RunFolder(tmp_path / "run").claimed() as path:
        (path / "config.json").write_text("first")
        for flags in ({}, {"overwrite": True}, {"resume": True}):
            with pytest.raises(InputError, match=rf"being written by process {os.getpid()} on .* since .*; wait"):
                work_of(RunFolder(tmp_path / "run", **flags), NEW)
    assert listed(tmp_path / "run") == {"config.json": "first"}


def test_a_link_in_the_folder_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a.svg").write_text("mine")
    out = tmp_path / "run"
    work_of(RunFolder(out), {"config.json": "old"})
    (out / "figures").symlink_to(tmp_path / "outside")
    work_of(RunFolder(out, overwrite=True), {"config.json": "new"})
    assert (tmp_path / "outside" / "a.svg").read_text() == "mine"
    (tmp_path / "link").symlink_to(tmp_path / "outside" / "a.svg")
    storage.write_text(tmp_path / "link", "ours")
    assert (tmp_path / "outside" / "a.svg").read_text() == "mine"


def test_runs_of_earlier_versions_are_ours(tmp_path: Path) -> None:
    out = tmp_path / "run"
    (out / "figures").mkdir(parents=True)
    (out / "figures" / "old.svg").write_text("old")
    (out / "notes.txt").write_text("mine")
    (out / "config.json").write_text(json.dumps({"versions": {"prism-irl": "0.1.0"}}))
    work_of(RunFolder(out, overwrite=True), NEW)
    assert listed(out) == NEW | {"notes.txt": "mine"}
