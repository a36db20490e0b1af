"""The zoo's table: cells are made once, what fails is said, and means are those of the cells."""

import json

import numpy as np
import pytest

from prism_irl.cli.main import main
from prism_irl.errors import InputError
from zoo import table
from zoo.table import Cell, Zoo, calibration_error, cell, every_method, reliability
from zoo.worlds import draw

FAST = ("sticky-hmm", "iavi", "uniform")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("zoo")
    said = []
    settings = Zoo(FAST, first_seed=11, worlds=4, few=4, quick=True)  # unannounced, field, maze, habit-states
    return settings, folder, table.run(settings, folder, say=said.append), said


def test_methods_meet_the_worlds_that_they_are_for():
    cells = Zoo(every_method()).cells()
    assert len(set(cells)) == len(cells)
    for name, seed in cells:
        continuous = table.family_of(seed) in ("field", "maze")
        assert continuous == (name in table.OF_POSITIONS) or name == "default"
    worlds = {name: len({seed for method, seed in cells if method == name}) for name in every_method()}
    assert worlds["default"] == 110
    assert worlds["hiql"] == 100
    assert worlds["swirl-2"] == 20  # one of each family


def test_the_cost_is_said_and_finished_cells_are_not_made_again(finished, monkeypatch):
    settings, folder, result, said = finished
    assert said == [f"{len(settings.cells())} cells, {len(settings.cells())} of them left: about 0.0 CPU-hours."]
    monkeypatch.setattr(table, "cell", None)
    again = []
    assert table.run(settings, folder, say=again.append) == result
    assert ", 0 of them left" in again[0]
    written = (folder / "cells.csv").read_text().splitlines()
    assert len(written) == 1 + len(settings.cells())
    assert {"commit", "machine", "seconds", "seed"} <= set(written[0].split(","))
    assert json.loads((folder / "metrics.json").read_text())["methods"].keys() == result["methods"].keys()


def test_means_are_those_of_the_cells(finished):
    assert finished[2]["failed"] == []
    result = finished[2]["methods"]
    world = draw(11)
    row = cell(Cell("sticky-hmm", 11), "here")
    assert result["sticky-hmm"]["worlds"] == 1
    assert result["sticky-hmm"]["relative_accuracy"] == pytest.approx(row["label_accuracy"] / row["oracle_accuracy"])
    assert row["oracle_accuracy"] == (world.oracle.labels == world.test.labels).mean()
    assert 1 / world.n_intentions < row["label_accuracy"] <= 1
    assert row["predictive_ll"] < row["oracle_ll"]
    assert result["sticky-hmm"]["exact_k"] is None  # it was told
    assert result["iavi"]["relative_accuracy"] is None  # it has one intention
    assert 0 < result["iavi"]["starc"] < 1
    assert result["uniform"]["nulls"]["worlds"] == 1


def test_a_method_that_fails_is_a_row(monkeypatch):
    def fails(method, world):
        raise InputError("There is nothing to fit.")

    monkeypatch.setattr(table, "unfitted", fails)
    row = cell(Cell("hiql", 0), "here")
    assert row["failed"].startswith("There is nothing to fit")
    found = table.summary([row, row | {"method": "hiql"}])
    assert (found["failed"], found["worlds"], found["label_accuracy"]) == (2, 2, None)


def test_calibration_adds_up_over_worlds():
    rng = np.random.default_rng(0)
    confidence = rng.uniform(0.2, 1, 20_000)
    right = rng.random(20_000) < confidence
    halves = [reliability(confidence[:9000], right[:9000]), reliability(confidence[9000:], right[9000:])]
    assert calibration_error(halves) == pytest.approx(calibration_error([reliability(confidence, right)]))
    assert calibration_error(halves) < 0.02
    assert calibration_error([reliability(np.ones(10), np.arange(10) < 6)]) == pytest.approx(0.4)


def test_the_command(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(table, "FEW", 1)
    out = str(tmp_path / "run")
    arguments = ["reproduce", "zoo", "--quick", "--parts", "uniform,sticky-hmm", "--jobs", "1", "--out", out]
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert "2 cells, 2 of them left" in shown
    assert "sticky-hmm" in shown
    assert main(["reproduce", "zoo", "--parts", "swirl-9", "--out", out]) == 2
    assert "There is no method 'swirl-9'" in capsys.readouterr().err


def test_methods_that_an_earlier_run_has_finished_are_shown_too(finished):
    _, folder, result, _ = finished
    again = table.run(Zoo(("uniform",), first_seed=11, worlds=4, few=4, quick=True), folder)
    assert again["methods"] == result["methods"]
    assert again["parts"] == list(again["methods"])


def test_goals_of_halves_are_compared_where_there_are_enough_trajectories(monkeypatch):
    monkeypatch.setattr(table, "ENOUGH", 20)
    row = cell(Cell("goals-that-end", 5), "here")
    assert row["halves_agree"] == (row["halves_share"] == 1.0)
    assert table.summary([row])["halves"] == 1
    assert table.summary([row])["halves_agree"] == row["halves_agree"]


def test_who_finds_the_number_is_not_told():
    world = draw(1)
    told = {
        name: table.unfitted(name, world) for name in ("default", "goals-that-end", "hiql", "prism-recurrent", "iavi")
    }
    assert [name for name, (_, knows) in told.items() if not knows] == ["default", "goals-that-end"]
    assert told["hiql"][0].n_intentions == told["prism-recurrent"][0].n_intentions == world.n_intentions
