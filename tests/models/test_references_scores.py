"""What stands beside a fit: fitted to the training trajectories alone, and scored on the ones that are shown."""

from dataclasses import replace

import numpy as np
import pytest

from continuous_worlds import walking
from prism_irl import em
from prism_irl.models import registry
from prism_irl.models.references import Empirical, NGram, Uniform, one_policy, reference_scores, with_references
from prism_irl.report.verdict import REFERENCES
from prism_irl.worlds.frustration import FrustrationWorld


@pytest.fixture(scope="module")
def demos():
    return FrustrationWorld(horizon=12).simulate(20, seed=4).demonstrations


def test_scores_are_those_of_models_fitted_to_the_training_part(demos):
    validation = np.arange(len(demos)) % 4 == 0
    train, rest = (demos.subset(np.flatnonzero(part)) for part in (~validation, validation))
    found = reference_scores(demos, validation)
    assert set(found) == set(REFERENCES)
    for name, kind in (("uniform", Uniform), ("empirical", Empirical), ("ngram", NGram)):
        model = kind().fit(train)
        assert found[name]["predictive_ll"] == {"train": model.score(train), "validation": model.score(rest)}


def test_validation_trajectories_teach_a_reference_nothing(demos):
    validation = np.arange(len(demos)) % 4 == 0
    changed = demos.actions.copy()
    changed[np.repeat(validation, demos.lengths)] = 0
    before, after = (reference_scores(one, validation) for one in (demos, replace(demos, actions=changed)))
    for name in REFERENCES:
        assert before[name]["predictive_ll"]["train"] == after[name]["predictive_ll"]["train"]
    assert before["ngram"]["predictive_ll"]["validation"] != after["ngram"]["predictive_ll"]["validation"]


def test_without_a_validation_part_there_is_no_validation_score(demos):
    found = reference_scores(demos, np.zeros(len(demos), bool))
    assert all(entry["predictive_ll"]["validation"] is None for entry in found.values())
    assert found["empirical"]["predictive_ll"]["train"] == Empirical().fit(demos).score(demos)


def test_a_comparison_gets_the_references_that_it_lacks():
    asked = [registry.method(name, 2) for name in ("ngram", "hiql")]
    assert [method.id for method in with_references(asked)] == ["ngram", "hiql", "uniform", "empirical"]
    assert with_references(asked)[:2] == asked


def test_references_of_large_continuous_data_read_a_sample_and_predict_all_of_validation(monkeypatch):
    demos = walking(n_trajectories=12, length=40)
    validation = np.arange(len(demos)) % 4 == 0
    whole = reference_scores(demos, validation)
    monkeypatch.setattr(em, "LARGE", 100)
    in_parts = reference_scores(demos, validation)
    monkeypatch.setattr(em, "SOME", 90)
    few = reference_scores(demos, validation)
    for name, found in whole.items():
        wanted = pytest.approx(found["predictive_ll"]["validation"], abs=1e-12)
        assert in_parts[name]["predictive_ll"]["validation"] == wanted
        assert few[name]["predictive_ll"]["validation"] != wanted  # fitted to three trajectories of nine


def test_one_policy_is_one_regression():
    demos = walking(n_trajectories=4, length=30)
    often = one_policy().set_params(n_candidates=2, warm_up=10, max_iterations=20).fit(demos)
    assert one_policy().fit(demos).score(demos) == pytest.approx(often.score(demos), abs=1e-12)
