"""Feature policies as a method: every switching family, saving, streaming, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest

from gaussian import chain_data, gaussian_chain, smoothed
from prism_irl import load
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.labels import label_accuracy
from prism_irl.models.phase_baselines import (
    change_points,
    k_means,
    phase_baselines,
)
from prism_irl.models.presets import FeaturePRISM


def reaching(n_trajectories=12, seed=0):
    """A hand that goes to a block (intention 0) and then to a target (1), with tokens that say nothing."""
    rng = np.random.default_rng(seed)
    motions, design, labels, seen = [], [], [], []
    for _ in range(n_trajectories):
        z = np.repeat([0, 1], rng.integers(8, 16, size=2))
        directions = rng.normal(size=(len(z), 2, 2))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        motions.append(directions[np.arange(len(z)), :, z] + 0.2 * rng.normal(size=(len(z), 2)))
        design.append(directions)
        labels.append(z)
        seen.append(np.column_stack([np.cos(z), rng.normal(size=len(z))]))
    tokens = [rng.integers(4, size=len(z)) for z in labels]
    actions = [np.where(rng.random(len(z)) < 0.9, z, 1 - z) for z in labels]
    demos = Demonstrations.from_arrays(tokens, actions, labels=labels, observations=seen, n_states=4, n_actions=2)
    return demos.with_commands(np.concatenate(motions), np.concatenate(design), noise_blocks=(0, 0))


SMALL = {"n_starts": 2, "max_iterations": 12, "warm_up": 5, "embedding": 4, "hidden": 4, "validation_fraction": 0.2}


@pytest.mark.parametrize("policies", ["gaussian", "softmax"])
@pytest.mark.parametrize("switching", ["markov", "recurrent", "independent"])
def test_every_pair_fits_filters_and_comes_back(tmp_path, policies, switching):
    demos = reaching()
    small = SMALL | {"n_starts": 1, "max_iterations": 2}
    model = FeaturePRISM(2, policies=policies, switching=switching, **small).fit(demos)
    probabilities = model.predict_proba(demos)
    np.testing.assert_allclose(probabilities.sum(1), 1.0)
    assert model.rewards_.shape == (2, 4, 2)
    assert np.isfinite(model.rewards_).all()
    model.save(tmp_path / "run")
    again = load(tmp_path / "run")
    np.testing.assert_array_equal(again.predict_proba(demos), probabilities)
    online = again.filter()
    filtered = model.filter_proba(demos)
    for t in range(6):
        step = online.step(
            int(demos.states[t]), int(demos.actions[t]), demos.observations[t], demos.motions[t], demos.design[t]
        )
        np.testing.assert_allclose(step, filtered[t], atol=1e-5)


@pytest.mark.parametrize("ordered", [False, True])
def test_attraction_is_recovered(ordered):
    demos = reaching()
    model = FeaturePRISM(2, ordered=ordered, n_starts=3, max_iterations=40).fit(demos)
    assert label_accuracy(demos.labels, model.predict(demos)) > 0.95
    order = [0, 1] if ordered else np.argsort(-model.weights_[:, 0])
    np.testing.assert_allclose(model.weights_[order], np.eye(2), atol=0.15)
    if ordered:
        path = model.decode(demos)
        inside = np.diff(path)[~demos.first_steps[1:]]
        assert set(inside) <= {0, 1}


def test_softmax_action_proba_is_the_likelihood():
    demos = reaching()
    model = FeaturePRISM(2, policies="softmax", switching="recurrent", **SMALL).fit(demos)
    proba = model.action_proba(demos)
    np.testing.assert_allclose(proba.sum(1), 1.0)
    taken = proba[np.arange(demos.n_steps), demos.actions]
    assert np.log(taken).mean() == pytest.approx(model.score(demos), abs=1e-6)


def test_refusals_say_why(make_demos):
    demos = reaching()
    model = FeaturePRISM(2, **SMALL).fit(demos)
    with pytest.raises(InputError, match="density"):
        model.action_proba(demos)
    with pytest.raises(InputError, match="simulated"):
        model.sample()
    with pytest.raises(InputError, match="Demonstrations"):
        model.predict(make_demos(0))
    with pytest.raises(InputError, match="no order"):
        FeaturePRISM(2, switching="independent", ordered=True).fit(demos)
    with pytest.raises(InputError, match="2 and 2"):
        model.predict(demos.with_commands(demos.motions, np.concatenate([demos.design] * 2, axis=2)))
    with pytest.raises(InputError, match="need observations"):
        FeaturePRISM(2, policies="softmax").fit(make_demos(0))
    with pytest.raises(InputError, match="give motion"):
        model.filter().step(0, 0)


def test_gaussian_chain_equals_hmmlearn():
    hmm = pytest.importorskip("hmmlearn.hmm")
    demos = reaching(6)
    data = chain_data(demos, demos.motions)
    model = gaussian_chain(2, n_starts=1, max_iterations=5, validation_fraction=0.0, patience=None).fit(data)
    other = hmm.GaussianHMM(2, covariance_type="diag")
    other.startprob_, other.transmat_ = model.switching_.initial.numpy(), model.switching_.kernel.numpy()
    other.means_, other.covars_ = model.weights_, model.rewards_model_.variances
    expected = other.score(data.motions, data.lengths)
    assert model.log_likelihood(data).sum() == pytest.approx(expected, rel=1e-6)


def test_kmeans_phases_find_far_clusters():
    rng = np.random.default_rng(0)
    truth = rng.integers(3, size=200)
    vectors = np.array([[0, 0], [9, 0], [0, 9]])[truth] + rng.normal(size=(200, 2))
    found = k_means(3).fit(vectors).predict(vectors)
    assert label_accuracy(truth, found) == 1.0


def test_simple_baselines_stand_beside_known_phases():
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=(3, 40))
    commands = np.array([[-3.0], [3.0]])[labels] + rng.normal(0, 0.1, (3, 40, 1))
    demos = Demonstrations.continuous(rng.normal(size=(3, 40, 2)), commands, labels=labels)
    found, table = phase_baselines(demos, 2, labels.reshape(-1))
    assert list(table.columns) == ["trajectory", "step", *found]
    assert found["k-means on commands"] == {"agreement": 1.0, "label_accuracy": 1.0, "ari": 1.0}
    assert found["k-means on observations"]["label_accuracy"] < 0.7
    assert found["Gaussian HMM"]["label_accuracy"] > 0.95
    names = ["equal parts", "k-means on commands", "k-means on observations", "change points", "Gaussian HMM"]
    assert list(found) == [*names, "left-to-right HMM"]
    unknown, _ = phase_baselines(replace(demos, labels=None), 2, labels.reshape(-1))
    assert all(set(one) == {"agreement"} for one in unknown.values())
    still = replace(demos, motions=np.zeros((120, 1)))
    assert "k-means on commands" not in phase_baselines(still, 2)[0]  # one command cannot be cut in two


def test_change_points_are_those_of_the_cut_that_varies_least():
    values = np.repeat([0.0, 5.0, -3.0, 1.0], [4, 9, 2, 6])[:, None]
    values = np.concatenate([values, values[::-1]])
    values += 0.01 * np.random.default_rng(0).normal(size=values.shape)
    expected = [*np.repeat(range(4), [4, 9, 2, 6]), *np.repeat(range(4), [6, 2, 9, 4])]
    np.testing.assert_array_equal(change_points(values, np.array([0, 21, 42]), 4), expected)
    assert change_points(values[:2], np.array([0, 2]), 4).tolist() == [0, 1]  # shorter than its parts


def test_smoothing_stays_within_trajectories():
    values = np.concatenate([np.zeros(5), np.full(4, 10.0)])[:, None]
    np.testing.assert_array_equal(smoothed(values, np.array([0, 5, 9]), 3), values)
    np.testing.assert_allclose(smoothed(np.array([[0.0], [3.0], [0.0]]), np.array([0, 3]), 3)[:, 0], [1.5, 1.0, 1.5])
    with pytest.raises(InputError, match="odd"):
        smoothed(values, np.array([0, 9]), 2)
