"""Which model a command line means: options, presets, methods by identifier, and classes from outside."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from prism_irl.cli.options import ColumnOptions, ModelOptions, build_model, given
from prism_irl.errors import InputError
from prism_irl.models.intentions import Intentions
from prism_irl.models.presets import HIQL, PRISM, GoalPRISM
from prism_irl.models.single import IAVI
from prism_irl.rewards.options import Goals
from prism_irl.switching.options import State


def test_only_what_was_said_is_passed_on() -> None:
    assert given(None) == {}
    assert given(ColumnOptions(state="cell", observations=("speed",))) == {"state": "cell", "observations": ("speed",)}
    model = build_model(ModelOptions(n_intentions=4, recount=False))
    assert model.get_params() == Intentions(4, recount=False).get_params()
    assert build_model(None, "paper-labyrinth").get_params() == PRISM.paper("labyrinth").get_params()


def test_a_method_takes_the_options_that_it_knows() -> None:
    model = build_model(ModelOptions(n_intentions=4, n_starts=2, seed=5), method="hiql")
    assert isinstance(model, HIQL)
    assert (model.n_intentions, model.n_starts, model.seed) == (4, 2, 5)
    assert isinstance(build_model(None, method="iavi"), IAVI)
    assert isinstance(build_model(ModelOptions(n_intentions=1), method="iavi"), IAVI)
    recurrent = build_model(ModelOptions(hidden=8), method="prism-recurrent-h2")
    assert isinstance(recurrent, Intentions)
    assert (recurrent.history, recurrent.hidden, recurrent.n_intentions) == (2, 8, 3)


def test_halves_of_a_pair_take_their_own_options() -> None:
    model = build_model(ModelOptions(switching="state", rewards="goals", sparsity=20.0, kernel="table", n_intentions=4))
    assert isinstance(model, Intentions)
    assert model.switching == State(kernel="table", hidden=model.hidden)
    assert model.rewards == Goals(sparsity=20.0)
    assert (model.n_intentions, model.history, model.max_iterations) == (4, "auto", 15)
    typed = build_model(ModelOptions(kernel="mlp"), method="state+soft-2")
    assert isinstance(typed, Intentions)
    assert typed.switching == State(kernel="mlp", hidden=typed.hidden)
    assert typed.rewards == "soft-2"
    goals = build_model(ModelOptions(sparsity=20.0), method="prism-goals")
    assert isinstance(goals, GoalPRISM)
    assert goals.sparsity == 20.0
    assert build_model(ModelOptions(switching="single")).n_intentions == 1
    assert build_model(ModelOptions(network="transformer"), "paper-labyrinth").epochs_per_m_step == 8


@pytest.mark.parametrize(
    ("options", "preset", "method", "words"),
    [
        (
            ModelOptions(kernel="table"),
            None,
            None,
            r"recurrent\+tabular does not read --kernel, which belongs to state",
        ),
        (ModelOptions(switching="state"), None, "hiql", "a pair already"),
        (None, None, "ordered+goals", "in no particular order"),
        (None, "paper-moon", None, "no preset"),
        (None, "paper-bridge", "hiql", "a pair already"),
        (None, None, "no-such", "no method 'no-such'"),
        (ModelOptions(hidden=8), None, "hiql", "hiql does not read --hidden, which belongs to independent switching"),
        (ModelOptions(n_intentions=2), None, "iavi", "iavi does not read --intentions"),
        (None, None, "nowhere_to_be_found:Model", "cannot be imported"),
        (None, None, "json:JSONDecoder", "is no method"),
        (None, None, "json:", "has no ''"),
    ],
)
def test_what_cannot_be_meant_is_one_sentence(options: object, preset: str, method: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        build_model(options, preset, method)


def test_a_class_from_the_current_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_models.py").write_text("from prism_irl import HIQL\n\n\nclass Mine(HIQL):\n    pass\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    model = build_model(ModelOptions(n_intentions=5), method="my_models:Mine")
    assert (type(model).__name__, model.n_intentions) == ("Mine", 5)
