"""Identifiers of methods: each builds what it says, variants included."""

import re
import sys

import pytest

from prism_irl.errors import InputError
from prism_irl.models import registry
from prism_irl.models.base import IntentionModel
from prism_irl.models.registry import NAMED, method


@pytest.mark.parametrize("identifier", NAMED)
def test_every_identifier_builds(identifier):
    found = method(identifier, 4)
    entry = NAMED[identifier]
    assert isinstance(found.model, IntentionModel)
    assert (found.id, found.name) == (identifier, entry.name)
    assert found.model.n_intentions == (4 if entry.takes_intentions else 1)
    assert found.leaks == (identifier == "prism-paper")
    assert not hasattr(found.model, "n_states_"), "unfitted"


def test_names_are_told_apart():
    assert len({entry.name for entry in NAMED.values()}) == len(NAMED)
    settings = {(type(m.model), repr(sorted(m.model.get_params().items()))) for m in (method(i, 2) for i in NAMED)}
    assert len(settings) == len(NAMED)


@pytest.mark.parametrize(
    ("identifier", "name", "parameters"),
    [
        (
            "prism-recurrent-h2",
            "Recurrent switching (history 2)",
            {"history": 2, "n_intentions": 3, "switching": "recurrent"},
        ),
        ("hiql-k4", "HIQL (Markov chain) (K=4)", {"n_intentions": 4}),
        ("prism-paper-lstm", "PRISM, paper gate (LSTM)", {"network": "lstm", "observe": "current", "n_intentions": 3}),
        ("prism-paper-k4-lstm", "PRISM, paper gate (K=4, LSTM)", {"network": "lstm", "n_intentions": 4}),
        ("prism-paper-lstm-k4", "PRISM, paper gate (LSTM, K=4)", {"network": "lstm", "n_intentions": 4}),
        ("prism-past-transformer", "PRISM, past gate (TRANSFORMER)", {"network": "transformer", "observe": "past"}),
        (
            "prism-markov-k2",
            "Markov switching, annealed starts (K=2)",
            {"switching": "markov", "n_intentions": 2, "starts": "annealed", "n_starts": 8, "validation_fraction": 0.0},
        ),
        (
            "prism-markov-hauto",
            "Markov switching, annealed starts (history chosen)",
            {"switching": "markov", "history": "auto", "starts": "annealed", "validation_fraction": 0.1},
        ),
        ("swirl-2-k5", "SWIRL S-2 (K=5)", {"order": 2, "n_intentions": 5}),
        (
            "state+goals-k4",
            "state + goals (K=4)",
            {"switching": "state", "rewards": "goals", "n_intentions": 4, "history": "auto", "max_iterations": 15},
        ),
        (
            "recurrent+tabular-gru-h2",
            "recurrent + tabular (GRU, history 2)",
            {"network": "gru", "history": 2, "max_iterations": 180},
        ),
        ("single+soft-1", "single + soft-1", {"n_intentions": 1, "discount": 0.95}),
    ],
)
def test_variants(identifier, name, parameters):
    found = method(identifier, 3)
    assert (found.id, found.name) == (identifier, name)
    assert {key: getattr(found.model, key) for key in parameters} == parameters
    assert found.leaks == identifier.startswith("prism-paper")


@pytest.mark.parametrize("identifier", ["prism-moon", "", "hiql-", "hiql-k", "k4", "PRISM", "hiql-k4x"])
def test_unknown_identifiers_name_the_choices(identifier):
    with pytest.raises(InputError) as error:
        method(identifier, 2)
    text = str(error.value)
    assert repr(identifier) in text
    assert all(choice in text for choice in NAMED)


@pytest.mark.parametrize(
    "identifier",
    "uniform-k4 iavi-lstm hiql-gru prism-markov-gru bc-k2 markov+goals-gru single+tabular-k2".split(),
)
def test_variants_that_a_method_does_not_have(identifier):
    with pytest.raises(InputError, match=f"{re.escape(repr(identifier))} is no variant"):
        method(identifier, 2)


def test_options_go_to_the_methods_that_know_them():
    options = {"seed": 7, "n_starts": 1, "no_such_option": 3}
    assert method("hiql", 2, **options).model.get_params()["n_starts"] == 1
    assert method("ngram", 2, **options).model.seed == 7
    assert method("uniform", 2, **options).model.get_params() == {}


@pytest.mark.parametrize(
    ("identifier", "reason"),
    [
        ("ordered+goals", "in no particular order"),
        ("single+goals", "wants nothing in particular"),
        ("hmm+tabular", "There is no switching 'hmm'; choose single, per-trajectory"),
        ("markov+maps", "There is no rewards 'maps'; choose tabular, iql"),
        ("no_such_module:Model", "cannot be imported"),
        ("state+os:system", "os:system is no rewards"),
        ("prism_irl.models.presets:Prism", "has no 'Prism'"),
        ("prism_irl.errors:InputError", "is no method"),
    ],
)
def test_what_makes_no_sense_is_one_sentence(identifier, reason):
    with pytest.raises(InputError, match=reason) as error:
        method(identifier, 2)
    assert str(error.value).endswith((".", "?", ")."))


def test_pairs_have_a_reason_to_be_chosen():
    found = registry.pairs()
    assert len({entry.id for entry in found}) == len(found)
    for entry in (*found, *NAMED.values()):
        assert len(entry.when) > 10
        assert "\n" not in entry.when
        if entry.switching is not None:
            assert registry.find(f"{entry.switching}+{entry.rewards}")


def test_a_file_decides_nothing_about_imports(tmp_path, monkeypatch):
    """A model folder that names a module must not get it imported; a person who names it does."""
    (tmp_path / "surprise_module.py").write_text("raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match="--method surprise_module:Model"):
        registry.class_of("surprise_module:Model")
    assert "surprise_module" not in sys.modules


def test_installed_packages_announce_methods(monkeypatch):
    """An entry point gives a class a plain name: to build, to list, and to load without naming it again."""
    from importlib.metadata import EntryPoint

    point = EntryPoint("ours", "prism_irl.models.presets:HIQL", "prism_irl.methods")
    monkeypatch.setattr(registry, "entry_points", lambda group: [point] if group == "prism_irl.methods" else [])
    found = method("ours-h2", 4)
    assert (found.id, type(found.model).__name__) == ("ours-h2", "HIQL")
    assert (found.model.n_intentions, found.model.get_params()["history"]) == (4, 2)
    assert "ours" in {entry.id for entry in registry.entries()}
    assert registry.class_of("prism_irl.models.presets:HIQL").__name__ == "HIQL"


def test_individuals_are_a_variant() -> None:
    assert registry.method("ngram-ind").model.individuals is True
    found = registry.method("hiql-h4-ind", 3)
    assert (found.model.history, found.model.individuals) == (4, True)
    assert found.name == "HIQL (Markov chain) (history 4, individuals)"
    with pytest.raises(InputError, match="no variant"):
        registry.method("uniform-ind")
