"""DIRL: its gradient, its windows, and a planted reward that drifts."""

from dataclasses import replace

import numpy as np
import pytest

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.mdp import MDP
from prism_irl.models.dirl import DIRL, gradient, plan, position_counts

QUICK = {"n_rounds": 2, "steps_per_round": 3}
T, S, A = 40, 7, 3


def line(discount=0.7):
    """Seven states in a row; go left, stay, go right; the ends are walls where one cannot go on."""
    P = np.zeros((S, A, S))
    for s in range(S):
        for a in range(A):
            P[s, a, np.clip(s + a - 1, 0, S - 1)] = 1.0
    valid = np.ones((S, A), dtype=bool)
    valid[0, 0] = valid[-1, -1] = False
    return MDP.from_dense(P, discount, valid)


def planted():
    """A goal on the left that fades while one on the right grows: (T, S)."""
    maps = np.zeros((2, S))
    maps[0, 0] = maps[1, -1] = 3.0
    fade = np.linspace(1.0, 0.0, T)
    return np.stack([fade, 1 - fade], axis=1) @ maps


def walk(policies, seed, n=150):
    rng = np.random.default_rng(seed)
    states, actions = np.empty((n, T), dtype=np.int64), np.empty((n, T), dtype=np.int64)
    s = rng.integers(S, size=n)
    for t in range(T):
        a = (policies[t, s].cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
        states[:, t], actions[:, t] = s, a
        s = np.clip(s + a - 1, 0, S - 1)
    return Demonstrations.from_arrays(states, actions, n_states=S, n_actions=A)


def test_plan_solves_the_soft_bellman_equation_from_anywhere():
    mdp, rewards = line(0.9), np.random.default_rng(0).normal(size=(5, S))
    cold = plan(mdp, rewards, tolerance=1e-12)
    q = mdp.action_values(rewards, cold.values)
    np.testing.assert_allclose(np.log(np.exp(q).sum(-1)), cold.values, atol=1e-9)
    np.testing.assert_allclose(np.exp(cold.log_policies), np.exp(q - cold.values[..., None]), atol=1e-9)
    warm = plan(mdp, rewards, np.random.default_rng(1).normal(size=(5, S)), tolerance=1e-12)
    np.testing.assert_allclose(warm.values, cold.values, atol=1e-9)


def test_gradient_is_the_derivative_of_the_likelihood():
    rng = np.random.default_rng(0)
    mdp, rewards = line(0.9), rng.normal(size=(2, S))
    counts = rng.integers(5, size=(2, S, A)) * mdp.valid_actions.astype(float)

    def likelihood(r):
        log_policies = plan(mdp, r, tolerance=1e-13).log_policies
        return (counts[counts > 0] * log_policies[counts > 0]).sum()

    slope, _ = gradient(mdp, counts, np.exp(plan(mdp, rewards).log_policies), np.zeros_like(rewards), 1e-10)
    for t, s in np.ndindex(rewards.shape):
        step = np.zeros_like(rewards)
        step[t, s] = 1e-4
        assert slope[t, s] == pytest.approx((likelihood(rewards + step) - likelihood(rewards - step)) / 2e-4, abs=1e-4)


def test_counts_per_position_keep_every_step():
    demos = Demonstrations.from_arrays([[0, 1, 1, 0, 1], [1]], [[1, 0, 1, 0, 0], [1]])
    counts = position_counts(demos, 2)
    assert counts.sum() == demos.n_steps
    np.testing.assert_array_equal(counts[0], [[0, 1], [1, 2]])  # positions 0, 2, 4 of the first, 0 of the second
    np.testing.assert_array_equal(counts[1], [[1, 0], [1, 0]])


def test_a_drifting_reward_is_recovered_better_than_by_a_static_one():
    mdp, rewards = line(), planted()
    truth = np.exp(plan(mdp, rewards).log_policies)
    train, test = walk(truth, 0), walk(truth, 1)
    settings = {"learning_rate_maps": 0.05, "steps_per_round": 10, "n_rounds": 10}
    drifting = DIRL(2, **settings).fit(train, mdp)
    static = DIRL(2, window=1, **settings).fit(train, mdp)

    def error(model):
        return np.abs(model.policies_ - truth)[:, mdp.valid_actions].mean()

    assert error(drifting) < 0.5 * error(static)
    assert drifting.score(test) > static.score(test) + 0.02
    ideal = np.log(truth[test.step_index, test.states, test.actions]).mean()
    assert drifting.score(test) > ideal - 0.02
    contrast = drifting.time_varying_rewards_ @ np.eye(S)[[0, -1]].T @ [1, -1]  # left minus right goal
    assert np.corrcoef(contrast, rewards[:, 0] - rewards[:, -1])[0, 1] > 0.9
    climb = [row["log_posterior"] for row in drifting.monitor_]
    assert climb[-1] > climb[0]


def test_a_narrow_random_walk_is_a_static_reward():
    demos = walk(np.exp(plan(line(), planted()).log_policies), 0, n=20)

    def largest_step(sigma):
        model = DIRL(1, sigma=sigma, n_rounds=5, steps_per_round=10).fit(demos, line())
        return np.abs(np.diff(model.weights_, axis=0)).max()

    assert largest_step(1e-3) < 0.2 * largest_step(1.0)


def test_the_fit_climbs_the_posterior_that_it_reports(make_demos):
    demos = make_demos(8, lengths=(15,) * 10)
    model = DIRL(2, n_rounds=6, steps_per_round=5).fit(demos)
    climb = [row["log_posterior"] for row in model.monitor_]
    assert (np.diff(climb) > 0).all()
    assert model.monitor_[-1]["train"] == pytest.approx(model.score(demos), abs=1e-3)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("window", [None, 1, 3, 50])
def test_normalised_and_no_invalid_action(make_demos, masked, window):
    demos = make_demos(1, masked=masked)  # unequal lengths, single steps among them
    model = DIRL(3, window=window, **QUICK).fit(demos)
    assert len(model.weights_) == (12 if window is None else window)
    proba = model.action_proba(demos)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, atol=1e-12)
    if masked:
        assert (proba[~demos.valid_actions[demos.states]] == 0).all()
    shares = model.predict_proba(demos)
    assert shares.shape == (demos.n_steps, 3)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    assert np.isfinite(model.score(demos))


def test_positions_beyond_the_window_use_the_last_weights(make_demos):
    demos = make_demos(2, n_states=1, lengths=(9, 4))
    model = DIRL(window=3, **QUICK).fit(demos)
    proba = model.action_proba(demos)
    np.testing.assert_array_equal(proba[3:9], np.repeat(proba[2:3], 6, axis=0))
    np.testing.assert_array_equal(proba[9:12], proba[:3])


def test_nothing_but_time_and_state_moves_the_policy(make_demos):
    demos = make_demos(3, lengths=(12, 9))
    model = DIRL(**QUICK).fit(demos)
    states, actions = demos.states.copy(), demos.actions.copy()
    states[7:12], actions[6:12] = (states[7:12] + 1) % 5, (actions[6:12] + 1) % 3
    changed = replace(demos, states=states, actions=actions)
    untouched = np.r_[0:7, 12:21]
    np.testing.assert_array_equal(model.action_proba(changed)[untouched], model.action_proba(demos)[untouched])


def test_shares_do_not_depend_on_how_the_scale_is_divided(make_demos):
    demos = make_demos(4)
    model = DIRL(2, **QUICK).fit(demos)
    shares = model.predict_proba(demos)
    model.weights_, model.maps_ = model.weights_ * [-4.0, 1.0], model.maps_ / [[-4.0], [1.0]]
    np.testing.assert_allclose(model.predict_proba(demos), shares)


def test_the_discount_is_the_models_and_valid_actions_are_those_of_both():
    demos = walk(np.exp(plan(line(), planted()).log_policies), 0, n=5)
    model = DIRL(**QUICK).fit(demos, line(0.95))
    assert model.mdp_.discount == 0.7
    assert (model.action_proba(demos)[~line().valid_actions[demos.states]] == 0).all()
    wrong = Demonstrations.from_arrays([[0, 0]], [[1, 0]], n_states=S, n_actions=A)
    with pytest.raises(InputError, match="invalid"):
        DIRL(**QUICK).fit(wrong, line())
    with pytest.raises(InputError, match="invalid"):
        DIRL(**QUICK).fit(wrong.with_valid_actions(np.ones((S, A), bool)), line())


def test_unknown_states_are_uniform(make_demos):
    model = DIRL(**QUICK).fit(make_demos(7))
    strange = Demonstrations.from_arrays([[0, 5]], [[0, 1]], n_states=6, n_actions=3)
    np.testing.assert_allclose(model.action_proba(replace(strange, unknown_state=True))[1], 1 / 3)


@pytest.mark.parametrize(
    "change",
    [
        {"n_intentions": 0},
        {"window": 0},
        {"discount": 1.0},
        {"sigma": 0.0},
        {"l2": -1.0},
        {"learning_rate_maps": 0.0},
        {"learning_rate_weights": float("nan")},
        {"n_rounds": -1},
        {"steps_per_round": 0},
    ],
)
def test_bad_parameters(make_demos, change):
    with pytest.raises(InputError):
        DIRL(**change).fit(make_demos())
