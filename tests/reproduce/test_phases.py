"""Phases beside simple methods: every task is judged, kept and put into words."""

import pytest

import phases
from phases import FOUND, OURS, Experiment

SMALL = Experiment(tasks=("pick-place", "widths"), kinds=(), episodes=(4,), seeds=(3,), surgery=False)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("phases")
    return phases.run(SMALL, folder), folder


def test_every_method_is_judged_on_every_task(done):
    result, folder = done
    assert [row["task"] for row in result["rows"]] == ["pick-place", "widths"]
    for row in result["rows"]:
        assert {OURS, FOUND, "equal parts", "left-to-right HMM"} <= set(row["label_accuracy"])
        assert all(0 < value <= 1 for value in row["label_accuracy"].values())
    assert (folder / "folds.csv").is_file()
    named = [row for row in result["rows"] if row["task"] in phases.TASKS]
    assert f"{phases.mean(named, OURS):.3f}" in result["notes"][0]


def test_what_is_done_is_not_done_again(done, monkeypatch):
    result, folder = done
    monkeypatch.setattr(phases, "simple_labels", lambda *_: pytest.fail("judged again"))
    assert phases.run(SMALL, folder)["rows"] == result["rows"]
