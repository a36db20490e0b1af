"""The trajectory mixture: running posteriors against loops, recovery of planted intentions."""

import numpy as np
import pytest
import torch

from prism_irl.data.batching import Prepared
from prism_irl.data.contexts import Contexts
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.labels import label_accuracy
from prism_irl.models.presets import HIQL, TrajectoryMixture
from prism_irl.switching.per_trajectory import TrajectoryChoice

S, A, K = 6, 3, 2


def planted_demonstrations(n=60, longest=40, seed=0) -> Demonstrations:
    rng = np.random.default_rng(seed)
    policies = rng.dirichlet(np.ones(A), (K, S))
    lengths, intention = rng.integers(5, longest, n), rng.integers(K, size=n)
    states = [rng.integers(S, size=length) for length in lengths]
    actions = [
        np.array([rng.choice(A, p=policies[k, s]) for s in trajectory])
        for k, trajectory in zip(intention, states, strict=True)
    ]
    labels = [np.full(length, k) for length, k in zip(lengths, intention, strict=True)]
    return Demonstrations.from_arrays(states, actions, labels=labels, n_states=S, n_actions=A)


@pytest.fixture(scope="module")
def demos():
    return planted_demonstrations()


@pytest.fixture(scope="module")
def model(demos):
    return TrajectoryMixture(K, n_starts=6).fit(demos)


def by_hand(policies, weights, states, actions):
    """predicted, filtered (T, K) and log-likelihood (T,) of one trajectory, in probability space, step by step."""
    belief, predicted, filtered, likelihood = np.array(weights), [], [], []
    for s, a in zip(states, actions, strict=True):
        predicted.append(belief)
        joint = belief * policies[:, s, a]
        likelihood.append(np.log(joint.sum()))
        belief = joint / joint.sum()
        filtered.append(belief)
    return np.array(predicted), np.array(filtered), np.array(likelihood)


def test_posteriors_equal_the_loop(model):
    demos = planted_demonstrations(n=9, seed=1)
    posterior = model.posterior(demos)
    for i in range(len(demos)):
        steps = slice(demos.offsets[i], demos.offsets[i + 1])
        predicted, filtered, likelihood = by_hand(
            model.policies_, model.weights_, demos.states[steps], demos.actions[steps]
        )
        np.testing.assert_allclose(posterior.predicted[steps], predicted, atol=1e-10)
        np.testing.assert_allclose(posterior.filtered[steps], filtered, atol=1e-10)
        np.testing.assert_allclose(posterior.log_likelihood[steps], likelihood, atol=1e-10)
        np.testing.assert_allclose(posterior.responsibilities[steps], filtered[[-1] * len(filtered)], atol=1e-10)


def test_planted_intentions_are_recovered(model, demos):
    assert label_accuracy(demos.labels, model.predict(demos)) > 0.95
    for i in range(len(demos)):
        assert len(np.unique(model.predict(demos)[demos.offsets[i] : demos.offsets[i + 1]])) == 1
    np.testing.assert_allclose(model.weights_.sum(), 1)
    # Nobody switches here, so that a chain, with more parameters, has nothing to gain on new data.
    new = planted_demonstrations(seed=0, n=60)
    assert model.score(new) > HIQL(K, n_starts=4).fit(demos).score(new) - 0.01


def test_every_iteration_of_exact_em_gains(demos):
    found = TrajectoryMixture(K, n_starts=2, validation_fraction=0.0, max_iterations=15, patience=None).fit(demos)
    for start in range(2):
        objective = [row["objective"] for row in found.monitor_ if row["start"] == start]
        assert (np.diff(objective) > -1e-9).all()
        assert objective[-1] > objective[0] + 0.005


def test_sample_keeps_one_intention_per_trajectory(model):
    drawn = model.sample(40, 30, seed=1)
    labels = drawn.labels.reshape(40, 30)
    assert (labels == labels[:, :1]).all()
    assert len(np.unique(labels)) == K


def test_impossible_actions_are_never_nan():
    demos = Demonstrations.from_arrays([[0, 0, 0, 0]], [[0, 1, 2, 0]], n_states=1, n_actions=3)
    emission = torch.tensor([[0.5, 0.0], [0.0, 0.5], [0.0, 0.0], [0.5, 1.0]], dtype=torch.float64).log()
    posterior = TrajectoryChoice(2).expectation(Prepared.of(demos, Contexts(1)), emission)
    for values in posterior[:3]:
        np.testing.assert_allclose(values.sum(1), 1)
    assert posterior.log_likelihood[2] == -np.inf
    np.testing.assert_allclose(posterior.filtered[0], [1, 0])
    np.testing.assert_allclose(posterior.filtered[1:3], 0.5)
