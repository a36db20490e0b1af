"""Single-intention methods through their common interface."""

import numpy as np
import pytest
from sklearn.base import clone

import prism_irl
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.mdp import MDP
from prism_irl.models.single import IAVI, IQL, MaxCausalEnt, MaxEnt
from prism_irl.rewards.maxent import soft_plan

METHODS = {
    "iavi": IAVI(discount=0.9),
    "iql": IQL(discount=0.9, alpha_r=0.01, epochs=20),
    "maxcausalent": MaxCausalEnt(discount=0.9),
    "maxent": MaxEnt(discount=0.9),
}
every_method = pytest.mark.parametrize("name", METHODS)
both_masks = pytest.mark.parametrize("masked", [False, True])


def fitted(name, demos, mdp=None):
    return clone(METHODS[name]).fit(demos, mdp)


@every_method
@both_masks
def test_probabilities_are_normalised_and_scored(name, masked, make_demos):
    demos = make_demos(masked=masked)
    model = fitted(name, demos)
    proba = model.action_proba(demos)
    np.testing.assert_allclose(proba.sum(1), 1)
    if masked:
        assert (proba[~demos.valid_actions[demos.states]] == 0).all()
    taken = proba[np.arange(demos.n_steps), demos.actions]
    assert model.score(demos) == pytest.approx(np.log(taken).mean())
    assert model.paper_score(demos) == model.score(demos)
    assert not model.leaks
    np.testing.assert_array_equal(model.predict_proba(demos), np.ones((demos.n_steps, 1)))
    shape = (1, demos.n_states, demos.n_actions)
    assert model.policies_.shape == model.rewards_.shape == model.q_.shape == shape
    assert model.values_.shape == shape[:2]
    assert np.isfinite(model.rewards_).all()


@every_method
def test_fit_is_deterministic_and_saved_exactly(name, make_demos, tmp_path):
    demos = make_demos(masked=True)
    first, again = fitted(name, demos), fitted(name, demos)
    first.save(tmp_path)
    loaded = prism_irl.load(tmp_path)
    assert type(loaded) is type(first)
    for other in (again, loaded):
        np.testing.assert_array_equal(other.action_proba(demos), first.action_proba(demos))
        for table in ("policies_", "rewards_", "q_", "values_"):
            np.testing.assert_array_equal(getattr(other, table), getattr(first, table))
    if name.startswith("max"):
        np.testing.assert_array_equal(loaded.weights_, first.weights_)
        assert (loaded.feature_gap_, loaded.converged_) == (first.feature_gap_, first.converged_)


@every_method
@pytest.mark.parametrize(("n_states", "n_actions"), [(1, 1), (1, 3), (4, 1)])
def test_worlds_with_a_single_state_or_action(name, n_states, n_actions, make_demos):
    demos = make_demos(n_states=n_states, n_actions=n_actions)
    model = fitted(name, demos)
    np.testing.assert_allclose(model.action_proba(demos).sum(1), 1)
    assert np.isfinite(model.score(demos))
    if n_actions == 1:
        assert model.score(demos) == pytest.approx(0)


@every_method
def test_order_of_trajectories_does_not_matter_beyond_learning(name, make_demos):
    demos = make_demos(lengths=(9, 1, 4, 7))
    turned = demos.subset([2, 0, 3, 1])
    tolerance = 0.5 if name == "iql" else 1e-5  # IQL learns transition by transition
    np.testing.assert_allclose(fitted(name, turned).policies_, fitted(name, demos).policies_, atol=tolerance)


@every_method
def test_unknown_states_are_uniform(name, make_demos):
    model = fitted(name, make_demos(n_states=5, n_actions=4))
    new = Demonstrations(np.array([5, 0]), np.array([0, 1]), np.array([0, 2]), 6, 4, unknown_state=True)
    np.testing.assert_allclose(model.action_proba(new)[0], 0.25)


@every_method
def test_world_and_data_must_agree(name, make_demos):
    demos = make_demos(n_states=5, n_actions=3)
    with pytest.raises(InputError, match="states"):
        fitted(name, demos, MDP.from_dense(np.full((4, 3, 4), 0.25)))
    forbidden = np.ones((5, 3), bool)
    forbidden[demos.states[0], demos.actions[0]] = False
    with pytest.raises(InputError, match="invalid"):
        fitted(name, demos, MDP.from_dense(np.full((5, 3, 5), 0.2), 0.9, forbidden))


def test_iavi_explains_the_empirical_policy(make_demos):
    demos = make_demos(lengths=(40, 60))
    model = IAVI(smoothing=0.5, discount=0.9).fit(demos)
    counts = np.full((demos.n_states, demos.n_actions), 0.5)
    np.add.at(counts, (demos.states, demos.actions), 1)
    np.testing.assert_allclose(model.policies_[0], counts / counts.sum(1, keepdims=True))
    boltzmann = np.exp(model.q_[0])
    np.testing.assert_allclose(boltzmann / boltzmann.sum(1, keepdims=True), model.policies_[0])
    assert np.isfinite(IAVI(smoothing=0.0).fit(demos).rewards_).all()


@pytest.mark.parametrize("name", ["maxcausalent", "maxent"])
def test_demonstrators_feature_counts_are_matched(name, make_demos):
    demos = make_demos(n_states=5, lengths=(60, 41, 17, 80))
    model = clone(METHODS[name]).set_params(l2=0.0).fit(demos)
    assert model.converged_
    assert model.feature_gap_ < 1e-6
    features = np.random.default_rng(0).normal(size=(5, 2))
    few = clone(METHODS[name]).set_params(l2=0.0, features=features).fit(demos)
    assert few.feature_gap_ < 1e-6
    assert few.weights_.shape == (2,)
    assert few.score(demos) < model.score(demos)


def grid(size=4, discount=0.9) -> MDP:
    """A slippery square without walls inside; actions up, down, left, right."""
    P = np.zeros((size**2, 4, size**2))
    for s in range(size**2):
        x, y = s % size, s // size
        ends = [(x, y + 1), (x, y - 1), (x - 1, y), (x + 1, y)]
        ends = [min(max(i, 0), size - 1) + size * min(max(j, 0), size - 1) for i, j in ends]
        for a, end in enumerate(ends):
            P[s, a, end] += 0.8
            for other in ends:
                P[s, a, other] += 0.05
    return MDP.from_dense(P, discount)


@pytest.fixture(scope="module")
def planted():
    """A soft-optimal agent that wants to be in state 10 and not in state 3: reward, policy, world, behaviour."""
    mdp, rng = grid(), np.random.default_rng(0)
    reward = np.zeros(16)
    reward[10], reward[3] = 1.0, -1.0
    policy = soft_plan(mdp, reward).policy
    P = mdp.transitions.toarray().reshape(16, 4, 16)
    s = rng.integers(16, size=300)
    steps = []
    for _ in range(60):
        a = (policy[s].cumsum(1) > rng.random((300, 1))).argmax(1)
        steps.append((s, a))
        s = np.minimum((P[s, a].cumsum(1) <= rng.random((300, 1))).sum(1), 15)
    states, actions = (np.stack(column, 1) for column in zip(*steps, strict=True))
    return reward, policy, mdp, Demonstrations.from_arrays(states, actions, n_states=16, n_actions=4)


def test_planted_reward_is_recovered(planted):
    reward, policy, mdp, demos = planted
    causal = MaxCausalEnt().fit(demos, mdp)
    centred = causal.state_rewards_ - causal.state_rewards_.mean()
    assert np.abs(centred - (reward - reward.mean())).max() < 0.25
    assert np.abs(causal.policies_[0] - policy).max() < 0.05
    paths = MaxEnt().fit(demos, mdp)
    assert paths.state_rewards_.argmax() == 10
    assert paths.state_rewards_.argmin() == 3
    learned = IQL(alpha_r=1e-3).fit(demos, mdp)
    assert np.abs(learned.policies_[0] - policy).mean() < 0.03


def test_true_reward_has_no_more_likelihood_than_the_found_one(planted):
    _, policy, mdp, demos = planted
    truth = np.log(policy[demos.states, demos.actions]).mean()
    found = MaxCausalEnt().fit(demos, mdp).score(demos)
    assert truth <= found < truth + 0.001  # 16 parameters on 18,000 steps gain 16 / 36,000
    assert found > MaxEnt().fit(demos, mdp).score(demos)
