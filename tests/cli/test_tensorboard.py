"""Event files are read back by TensorBoard's own reader."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from prism_irl import Demonstrations, InputError, Intentions
from prism_irl.cli.main import main
from prism_irl.cli.tensorboard import tensorboard, writer_class

TRAIN, VALIDATION = "log-likelihood per step/train", "log-likelihood per step/validation"


def curve(folder: Path, name: str) -> list[float]:
    """Values of one scalar, in the order of their iterations."""
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator", reason="needs logging")
    reader = events.EventAccumulator(str(folder))
    reader.Reload()
    return [event.value for event in reader.Scalars(name)]


def test_curves_are_those_of_the_history(make_demos: Callable[..., Demonstrations], tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="needs the extra logging")
    model = Intentions(2, hidden=4, embedding=4, n_starts=2, max_iterations=3, warm_up=1, n_candidates=1, device="cpu")
    with tensorboard(tmp_path) as log:
        model.fit(make_demos(3), on_iteration=log)
    for start in range(2):
        rows = [row for row in model.monitor_ if row["start"] == start and row["iteration"] > 0]
        folder = tmp_path / f"start_{start:02d}"
        assert curve(folder, TRAIN) == pytest.approx([row["train"] for row in rows], abs=1e-6)
        assert curve(folder, VALIDATION) == pytest.approx([row["validation"] for row in rows], abs=1e-6)


def test_the_command_writes_into_its_run_folder(make_demos: Callable[..., Demonstrations], tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="needs the extra logging")
    make_demos(4).to_pandas().to_csv(tmp_path / "steps.csv", index=False)
    options = "--intentions 2 --switching markov --n-starts 1 --max-iterations 2 --device cpu --tensorboard".split()
    command = ["fit", str(tmp_path / "steps.csv"), "--out", str(tmp_path / "run"), *options]
    assert main(command) == 0
    assert len(curve(tmp_path / "run" / "tensorboard" / "start_00", TRAIN)) == 2
    assert main([*command, "--overwrite"]) == 0
    assert len(list((tmp_path / "run" / "tensorboard").rglob("events*"))) == 1


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(InputError, match=r"prism-irl\[logging\]"):
        writer_class()
