"""The tutorial's commands are followed for every mouse, and what they call good is held against the truth."""

from dataclasses import replace

import numpy as np
import pytest

import tutorial
from prism_irl.worlds.frustration import FrustrationWorld
from tutorial import SELECT, Tutorial

SMALL = Tutorial(
    seeds=(7,),
    bouts=16,
    select=replace(SELECT, intentions=(1, 2), starts=1, max_iterations=3, surrogates=1),
    fit={"n_starts": 1, "max_iterations": 2, "warm_up": 1, "n_candidates": 1},
)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tutorial")
    return tutorial.run(SMALL, folder), folder


def test_both_commands_are_counted(done):
    result, folder = done
    assert {name: own["of"] for name, own in result["commands"].items()} == {"select": 1, "fit": 1}
    assert result["own"] == result["rows"][0]["new"]
    assert 0.5 <= result["own"]["label_accuracy"] <= 1
    assert result["own"]["predictive_ll"] < result["own"]["oracle_ll"] + 0.05  # nothing beats the truth but by chance
    assert (folder / "folds.csv").is_file()


def test_what_is_done_is_not_done_again(done, monkeypatch):
    result, folder = done
    monkeypatch.setattr(tutorial, "select", lambda *_: pytest.fail("selected again"))
    assert tutorial.run(SMALL, folder)["rows"] == result["rows"]


def test_the_table_is_that_of_the_page():
    truth = FrustrationWorld(horizon=8).simulate(20, seed=3).demonstrations
    mouse = tutorial.table(truth)
    assert mouse.labels is None
    assert mouse.n_groups == 6
    cells = [f"x{s % 5}y{s // 5}" for s in truth.states]
    assert [mouse.state_names[s] for s in mouse.states] == cells
    np.testing.assert_array_equal(mouse.offsets, truth.offsets)


def test_a_good_word_for_a_wrong_labelling_is_counted():
    row = {"n_intentions": 2, "good": True, "label_accuracy": 0.95}
    rows = [row, row | {"label_accuracy": 0.5}, row | {"good": False, "label_accuracy": 0.6}]
    rows.append({"n_intentions": 1, "good": False, "label_accuracy": None})
    found = tutorial.count(rows)
    assert found == {"of": 4, "two_intentions": 3, "good": 2, "wrong": 2, "good_and_wrong": 1}
