"""SWIRL end to end on a small world: it recovers what was planted, and behaves like every other model."""

import numpy as np
import pytest

from labyrinth.published import from_parameters, slots, swirl_score
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.evaluation.metrics import segmentation_metrics
from prism_irl.mdp import MDP, boltzmann
from prism_irl.models.presets import SWIRL
from prism_irl.models.registry import load

SIDE, A, DISCOUNT = 4, 5, 0.9
S = SIDE * SIDE
GOALS = (0, S - 1)
both_orders = pytest.mark.parametrize("order", [1, 2])


def grid() -> MDP:
    """Up, down, left, right, wait; steps off the edge are invalid."""
    P, valid = np.zeros((S, A, S)), np.zeros((S, A), bool)
    for s in range(S):
        y, x = divmod(s, SIDE)
        for a, (dy, dx) in enumerate(((-1, 0), (1, 0), (0, -1), (0, 1), (0, 0))):
            if 0 <= y + dy < SIDE and 0 <= x + dx < SIDE:
                P[s, a, (y + dy) * SIDE + x + dx], valid[s, a] = 1.0, True
    return MDP.from_dense(P, DISCOUNT, valid)


def simulate(n: int, length: int, seed: int) -> Demonstrations:
    """Two goals in opposite corners; at its goal, and only there, an intention is likely to give way to the other."""
    rng, mdp = np.random.default_rng(seed), grid()
    truth = 3.0 * np.eye(S)[list(GOALS)]
    policies = boltzmann(mdp.soft_value_iteration(truth)[0])
    after = mdp.transitions.toarray().reshape(S, A, S).argmax(-1)
    s, z = rng.integers(S, size=n), rng.integers(2, size=n)
    steps = []
    for _ in range(length):
        a = (policies[z, s].cumsum(-1) < rng.random((n, 1))).sum(-1)
        steps.append((s, a, z))
        z = np.where((s == np.array(GOALS)[z]) & (rng.random(n) < 0.6), 1 - z, z)
        s = after[s, a]
    states, actions, labels = (np.stack(x, 1) for x in zip(*steps, strict=True))
    return Demonstrations.from_arrays(states, actions, labels=labels, n_states=S, n_actions=A)


def make(order, **settings) -> SWIRL:
    quick = {"n_starts": 2, "max_iterations": 8, "warm_up": 6, "hidden": 8, "discount": DISCOUNT, "device": "cpu"}
    return SWIRL(2, order=order, **{**quick, **settings})


@pytest.fixture(scope="module")
def demos():
    return simulate(60, 50, seed=0)


@pytest.fixture(scope="module")
def test_demos():
    return simulate(20, 50, seed=1)


@pytest.fixture(scope="module")
def fitted(demos):
    return {order: make(order).fit(demos, grid()) for order in (1, 2)}


@both_orders
def test_recovers_intentions(order, fitted, test_demos):
    found = segmentation_metrics(test_demos.labels, fitted[order].predict(test_demos), test_demos.offsets)
    assert found["label_accuracy"] > 0.9


@both_orders
def test_recovers_rewards_and_where_switches_happen(order, fitted):
    model = fitted[order]
    assert set(model.state_rewards_.argmax(1)) == set(GOALS)
    kernels = model.switching_.state_kernels().exp().detach().numpy()
    k = int(model.state_rewards_.argmax(1).tolist().index(GOALS[0]))  # the intention whose goal is the first corner
    leaves = kernels[:S, k, 1 - k]
    assert leaves.argmax() == GOALS[0]
    assert leaves[GOALS[0]] > 0.3 > 0.15 > np.delete(leaves, GOALS[0]).mean()


@both_orders
def test_em_raises_the_likelihood(order, fitted):
    for start in range(2):
        train = [row["train"] for row in fitted[order].monitor_ if row["start"] == start]
        assert train[-1] > train[0] + 0.005
        assert (np.diff(train) > -2e-4).all()


@both_orders
def test_soft_planning_with_the_rewards_gives_the_policies(order, fitted):
    model = fitted[order]
    q, v = model.mdp_.soft_value_iteration(model.rewards_)
    np.testing.assert_allclose(boltzmann(q), model.policies_, atol=1e-6)
    np.testing.assert_allclose(v, model.values_, atol=1e-6)
    np.testing.assert_allclose(q, model.q_, atol=1e-6)
    assert model.unvisited_.shape == (2, S)
    if order == 1:
        np.testing.assert_array_equal(model.rewards_[:, 0, 4], model.state_rewards_[:, 0])


def test_temperatures_are_the_unit_of_the_rewards(demos, fitted):
    warm = make(1, temperatures=[1.0, 0.5]).fit(demos, grid())
    assert warm.score(demos) == pytest.approx(fitted[1].score(demos), abs=1e-9)
    np.testing.assert_allclose(warm.state_rewards_, fitted[1].state_rewards_ * [[1.0], [0.5]], rtol=1e-6, atol=1e-9)


@both_orders
def test_probabilities_are_normalised_and_score_is_their_mean(order, fitted, test_demos):
    model = fitted[order]
    proba = model.action_proba(test_demos)
    np.testing.assert_allclose(proba.sum(1), 1.0)
    assert (proba[~grid().valid_actions[test_demos.states]] == 0).all()
    taken = proba[np.arange(test_demos.n_steps), test_demos.actions]
    assert model.score(test_demos) == pytest.approx(np.log(taken).mean())


@both_orders
def test_swirl_score_begins_every_trajectory_at_its_second_step(order, fitted, test_demos):
    states, actions = (x.reshape(20, 50) for x in (test_demos.states, test_demos.actions))
    later = Demonstrations.from_arrays(states[:, 1:], actions[:, 1:], n_states=S, n_actions=A)
    assert swirl_score(fitted[order], test_demos) == pytest.approx(fitted[order].score(later), abs=1e-12)
    assert swirl_score(fitted[order], test_demos) != pytest.approx(fitted[order].score(test_demos), abs=1e-6)
    ragged = Demonstrations.from_arrays([[3], [3, 7]], [[1], [1, 4]], n_states=S, n_actions=A)
    last = Demonstrations.from_arrays([[7]], [[4]], n_states=S, n_actions=A)
    assert swirl_score(fitted[order], ragged) == pytest.approx(fitted[order].score(last))
    with pytest.raises(InputError, match="one step only"):
        swirl_score(fitted[order], last)


def test_samples_follow_the_model(fitted):
    drawn = fitted[2].sample(30, 40, seed=3)
    after = grid().transitions.toarray().reshape(S, A, S).argmax(-1)
    inside = ~drawn.first_steps
    np.testing.assert_array_equal(drawn.states[inside], after[drawn.states, drawn.actions][np.flatnonzero(inside) - 1])
    assert fitted[2].score(drawn) > -1.2  # uniform: log 4


def test_estimates_the_dynamics_and_masks_nothing_when_there_is_no_mdp(demos):
    model = make(2, n_starts=1, max_iterations=2, warm_up=2).fit(demos)
    assert model.mdp_.valid_actions.all()
    assert model.mdp_.discount == DISCOUNT
    assert np.isfinite(model.score(demos))


def test_invalid_actions_that_stay_cost_probability(demos):
    model = make(1, n_starts=1, max_iterations=2, warm_up=2, invalid_actions="stay").fit(demos, grid())
    assert model.mdp_.valid_actions.all()
    assert (model.mdp_.transitions.toarray()[0 * A + 0] == np.eye(S)[0]).all()
    assert model.action_proba(demos)[demos.states == 0][:, 0].min() > 0
    masked = make(1, n_starts=1, max_iterations=2, warm_up=2).fit(demos, grid())
    assert masked.score(demos) > model.score(demos) + 0.01


@both_orders
def test_parameters_of_a_fit_rebuild_it(order, fitted, test_demos):
    model = fitted[order]
    chain, soft = model.switching_, model.rewards_model_
    index = slots(soft.places)
    width = 1 if order == 1 else int(np.bincount(soft.places.arrival).max())
    reward = np.zeros((2, 1, S * width))
    reward[:, 0, index] = soft.rewards
    arrays = {name: value.detach().numpy() for name, value in chain.named_parameters()}
    given = {**arrays, "reward": reward, "logpi0": chain.log_initial().numpy() + 3.0}
    again = from_parameters(
        given, grid(), invalid_actions="mask", discount=DISCOUNT, planning_iterations=500, device="cpu"
    )
    assert again.order == order
    np.testing.assert_allclose(again.log_likelihood(test_demos), model.log_likelihood(test_demos), atol=1e-6)


def test_refuses_what_it_cannot_use(demos, fitted):
    with pytest.raises(InputError, match="lack logpi0"):
        from_parameters({"reward": np.zeros((2, S)), "log_Ps": np.zeros((2, 2))}, grid())
    bad = {"reward": np.zeros((2, S + 1)), "log_Ps": np.zeros((2, 2)), "logpi0": np.zeros(2)}
    with pytest.raises(InputError, match="not a multiple"):
        from_parameters(bad, grid())
    with pytest.raises(InputError, match="kernel parameters"):
        from_parameters({**bad, "reward": np.zeros((2, S))}, grid())
    with pytest.raises(InputError, match="order"):
        make(3).fit(demos, grid())
    with pytest.raises(InputError, match="mask, stay"):
        make(1, invalid_actions="forbid").fit(demos, grid())
    with pytest.raises(InputError, match="same sets"):
        make(1).fit(demos, MDP.from_dense(np.ones((2, A, 2)) / 2))


def test_a_model_from_parameters_is_saved_and_loaded(tmp_path):
    rng = np.random.default_rng(0)
    parameters = {"reward": rng.normal(size=(2, S)), "log_Ps": np.zeros((2, 2)), "logpi0": np.zeros(2)}
    model = from_parameters({**parameters, "table": rng.normal(size=(S, 2))}, grid())
    model.save(tmp_path)
    loaded = load(tmp_path)
    np.testing.assert_array_equal(loaded.state_rewards_, model.state_rewards_)
    np.testing.assert_array_equal(loaded.policies_, model.policies_)
