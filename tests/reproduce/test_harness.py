"""The harness: options reach the methods that they are meant for, and results those who read them."""

import json

import numpy as np
import pytest

import harness
from prism_irl.models.intentions import Intentions
from prism_irl.models.presets import HIQL, PAPER, PRISM
from prism_irl.models.references import Uniform
from prism_irl.models.registry import Method
from prism_irl.studies.cross_validation import cross_validate


def test_variants_get_the_options_of_the_longest_identifier():
    options = {"": {"n_starts": 5}, "prism-past": {"hidden": 7}, "prism-recurrent": {"hidden": 9, "unheard_of": 1}}
    assert harness.build_method("prism-recurrent-h2", 3, options).model.hidden == 9
    past = harness.build_method("prism-past-k4", 3, options).model
    assert (past.hidden, past.n_intentions, past.n_starts) == (7, 4, Intentions().n_starts)
    assert harness.build_method("hiql", 3, options).model.n_starts == 5
    assert harness.build_method("hiql", 3, {"iavi": {"n_starts": 1}}).model.n_starts == HIQL().n_starts


@pytest.mark.parametrize("experiment", PAPER)
def test_the_registered_gate_becomes_that_of_the_paper(experiment):
    for network in ("rnn", "transformer"):
        method = harness.build_method(f"prism-paper-{network}", 4, {"prism-paper": harness.paper_options(experiment)})
        assert method.model.get_params() == PRISM.paper(experiment, n_intentions=4, network=network).get_params()
        assert method.leaks


def test_what_every_experiment_writes(make_demos, tmp_path):
    done = cross_validate(make_demos(seed=1), [Method("uniform", "Uniform", Uniform())], folds=4, only_folds=(2, 0))
    result = harness.write(tmp_path, done, "Tiny", "harness", quick=True, methods=done.table())
    assert json.loads((tmp_path / "metrics.json").read_text()) == result
    assert (result["title"], result["experiment"], result["folds"], result["seeds"]) == ("Tiny", "harness", 2, 1)
    assert len((tmp_path / "folds.csv").read_text().splitlines()) == 3


def test_steps_of_trajectories():
    np.testing.assert_array_equal(harness.steps_of(np.array([0, 2, 5, 6]), [2, 1]), [5, 2, 3, 4])
