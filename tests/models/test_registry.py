"""Identifiers of methods: each builds what it says, variants included."""

import pytest

from prism_irl.errors import InputError
from prism_irl.models.base import IntentionModel
from prism_irl.models.registry import BUILDERS, method


@pytest.mark.parametrize("identifier", BUILDERS)
def test_every_identifier_builds(identifier):
    found = method(identifier, 4)
    name, _, takes_k = BUILDERS[identifier]
    assert isinstance(found.model, IntentionModel)
    assert (found.id, found.name) == (identifier, name)
    assert found.model.n_intentions == (4 if takes_k else 1)
    assert found.leaks == (identifier == "prism-paper")
    assert not hasattr(found.model, "n_states_"), "unfitted"


def test_names_are_told_apart():
    assert len({name for name, _, _ in BUILDERS.values()}) == len(BUILDERS)
    settings = {(type(m.model), repr(sorted(m.model.get_params().items()))) for m in (method(i, 2) for i in BUILDERS)}
    assert len(settings) == len(BUILDERS)


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
        ("prism-transformer", "PRISM, past gate (TRANSFORMER)", {"network": "transformer", "observe": "past"}),
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
    ],
)
def test_variants(identifier, name, parameters):
    found = method(identifier, 3)
    assert (found.id, found.name) == (identifier, name)
    assert parameters.items() <= found.model.get_params().items()
    assert found.leaks == identifier.startswith("prism-paper")


@pytest.mark.parametrize("identifier", ["prism-moon", "", "hiql-", "hiql-k", "k4", "PRISM", "hiql-k4x"])
def test_unknown_identifiers_name_the_choices(identifier):
    with pytest.raises(InputError) as error:
        method(identifier, 2)
    text = str(error.value)
    assert repr(identifier) in text
    assert all(choice in text for choice in BUILDERS)


@pytest.mark.parametrize("identifier", ["uniform-k4", "iavi-lstm", "hiql-gru", "prism-markov-gru", "bc-k2"])
def test_variants_that_a_method_does_not_have(identifier):
    with pytest.raises(InputError, match=f"{identifier!r} is no variant"):
        method(identifier, 2)


def test_options_go_to_the_methods_that_know_them():
    options = {"seed": 7, "n_starts": 1, "no_such_option": 3}
    assert method("hiql", 2, **options).model.get_params()["n_starts"] == 1
    assert method("ngram", 2, **options).model.seed == 7
    assert method("uniform", 2, **options).model.get_params() == {}
