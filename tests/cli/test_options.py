"""Which model a command line means: options, presets, methods by identifier, and classes from outside."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from prism_irl.cli.options import ColumnOptions, ModelOptions, build_model, given, import_method
from prism_irl.errors import InputError
from prism_irl.models import HIQL, IAVI, PRISM


def test_only_what_was_said_is_passed_on() -> None:
    assert given(None) == {}
    assert given(ColumnOptions(state="cell", observations=("speed",))) == {"state": "cell", "observations": ("speed",)}
    model = build_model(ModelOptions(n_intentions=4, recount=False))
    assert model.get_params() == PRISM(4, recount=False).get_params()
    assert build_model(None, "paper-labyrinth").get_params() == PRISM.paper("labyrinth").get_params()


def test_a_method_takes_the_options_that_it_knows() -> None:
    model = build_model(ModelOptions(n_intentions=4, n_starts=2, seed=5), method="hiql")
    assert isinstance(model, HIQL)
    assert (model.n_intentions, model.n_starts, model.seed) == (4, 2, 5)
    assert isinstance(build_model(None, method="iavi"), IAVI)
    assert isinstance(build_model(ModelOptions(n_intentions=1), method="iavi"), IAVI)
    recurrent = build_model(ModelOptions(hidden=8), method="prism-recurrent-h2")
    assert isinstance(recurrent, PRISM)
    assert (recurrent.history, recurrent.hidden, recurrent.n_intentions) == (2, 8, 3)


@pytest.mark.parametrize(
    ("options", "preset", "method", "words"),
    [
        (None, "paper-moon", None, "no preset"),
        (None, "paper-bridge", "hiql", "pass one of them"),
        (None, None, "no-such", "no method 'no-such'"),
        (ModelOptions(hidden=8), None, "hiql", "hiql has no option --hidden"),
        (ModelOptions(n_intentions=2), None, "iavi", "iavi has no option --intentions"),
        (None, None, "nowhere_to_be_found:Model", "cannot be imported"),
        (None, None, "json:JSONDecoder", "is no method"),
        (None, None, "json:", "MODULE:CLASS"),
    ],
)
def test_what_cannot_be_meant_is_one_sentence(options: object, preset: str, method: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        build_model(options, preset, method)


def test_a_class_from_the_current_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_models.py").write_text("from prism_irl import HIQL\n\n\nclass Mine(HIQL):\n    pass\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    assert import_method("my_models:Mine").__name__ == "Mine"
    model = build_model(ModelOptions(n_intentions=5), method="my_models:Mine")
    assert (type(model).__name__, model.n_intentions) == ("Mine", 5)
