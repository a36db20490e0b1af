"""Soft Bellman rewards: values and rewards are one thing, and the M-step is a convex fit of values."""

import numpy as np
import pytest

from labyrinth.published import slots
from prism_irl.data.batching import Prepared
from prism_irl.data.contexts import Contexts
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.mdp import MDP, boltzmann
from prism_irl.rewards.soft import Places, SoftRewards, fit_values, loss, plan, policies_of

S, A, K = 6, 3, 2
both_orders = pytest.mark.parametrize("order", [1, 2])


def world(seed=0, *, masked=False, discount=0.9) -> MDP:
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(S, 0.3), (S, A)) * (rng.random((S, A, S)) < 0.6)
    P[..., 0] += 0.05
    valid = rng.random((S, A)) < 0.7 if masked else np.ones((S, A), bool)
    valid[:, 0] = True
    return MDP.from_dense(P / P.sum(-1, keepdims=True), discount, valid)


def augmented(mdp: MDP) -> tuple[MDP, np.ndarray]:
    """The MDP over (s_prev, s) written out by hand, and its states."""
    dense = mdp.transitions.toarray().reshape(S, A, S)
    pairs = [(q, s) for s in range(S) for q in range(S) if dense[q, :, s].any()]
    P = np.zeros((len(pairs), A, len(pairs)))
    for i, (_, s) in enumerate(pairs):
        for j, (q, after) in enumerate(pairs):
            if q == s:
                P[i, :, j] = dense[s, :, after]
    return MDP.from_dense(P, mdp.discount, mdp.valid_actions[[s for _, s in pairs]]), np.array(pairs)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("temperature", [0.3, 1.0])
def test_planning_reaches_the_fixed_point_of_soft_value_iteration(masked, temperature):
    mdp = world(masked=masked)
    rewards = np.random.default_rng(1).normal(size=(K, S))
    q, v = mdp.soft_value_iteration(rewards, temperature)
    places, tau = Places(mdp), np.full(K, temperature)
    values = plan(places, rewards, tau, iterations=400)
    np.testing.assert_allclose(values * temperature, v, atol=1e-7)
    np.testing.assert_allclose(policies_of(places, values), boltzmann(q, 1 / temperature), atol=1e-7)


def test_a_hundred_iterations_from_one_are_the_authors_arithmetic():
    mdp, rewards = world(discount=0.95), np.random.default_rng(1).normal(size=(1, S))
    v, tau = np.ones(S), 0.5
    dense = mdp.transitions.toarray().reshape(S, A, S)
    for _ in range(100):
        q = rewards[0][:, None] + 0.95 * dense @ v
        v = tau * np.log(np.exp(q / tau).sum(1))
    policy = np.exp((q - v[:, None]) / tau) + 1e-8
    model = SoftRewards(1, Places(mdp), [tau])
    model.set_rewards(rewards)
    np.testing.assert_allclose(model.policies[0], policy / policy.sum(1, keepdims=True), rtol=1e-10)


@pytest.mark.parametrize("masked", [False, True])
def test_order_two_is_the_augmented_mdp_and_forgets_the_predecessor(masked):
    mdp = world(masked=masked)
    big, pairs = augmented(mdp)
    places = Places(mdp, order=2)
    np.testing.assert_array_equal(np.stack([places.previous, places.arrival], 1), pairs)
    rewards = np.random.default_rng(2).normal(size=(1, len(pairs)))
    policy = boltzmann(big.soft_value_iteration(rewards[0])[0])
    found = policies_of(places, plan(places, rewards, np.ones(1), iterations=400))[0]
    np.testing.assert_allclose(found[pairs[:, 1]], policy, atol=1e-7)


def test_slots_count_predecessors_in_increasing_order():
    P = np.zeros((3, 2, 3))
    P[[0, 0, 1, 1, 2, 2], [0, 1, 0, 1, 0, 1], [1, 2, 2, 0, 2, 0]] = 1.0
    places = Places(MDP.from_dense(P, 0.9), order=2)
    predecessors = {0: [1, 2], 1: [0], 2: [0, 1, 2]}
    expected = [4 * s + i for s, before in predecessors.items() for i in range(len(before))]
    np.testing.assert_array_equal(slots(places, 4), expected)
    np.testing.assert_array_equal(places.previous, [q for before in predecessors.values() for q in before])
    with pytest.raises(InputError, match="3 predecessors"):
        slots(places, 2)


@both_orders
@pytest.mark.parametrize("masked", [False, True])
def test_gradient_against_finite_differences(order, masked):
    places, rng = Places(world(masked=masked), order), np.random.default_rng(3)
    counts = rng.gamma(1.0, size=(S, A)) * places.valid_actions
    values = rng.normal(size=places.n_places)
    gradient, step = loss(values, places, counts, 0.2)[1], 1e-6
    for c in range(places.n_places):
        bump = step * (np.arange(places.n_places) == c)
        slope = (loss(values + bump, places, counts, 0.2)[0] - loss(values - bump, places, counts, 0.2)[0]) / (2 * step)
        assert gradient[c] == pytest.approx(slope, rel=1e-5, abs=1e-7)


@both_orders
def test_rewards_read_off_values_lead_back_to_them(order):
    places = Places(world(masked=True), order)
    values = np.random.default_rng(4).normal(size=(K, places.n_places))
    rewards = places.rewards_of(values)
    np.testing.assert_allclose(places.backup(rewards, values), values, atol=1e-12)
    np.testing.assert_allclose(plan(places, rewards, np.ones(K), iterations=500), values, atol=1e-6)


@both_orders
def test_potentials_move_no_policy_and_simplest_rewards_are_shortest(order):
    places = Places(world(masked=True), order)
    rng = np.random.default_rng(5)
    values = rng.normal(size=(K, places.n_places))
    simple, small = places.simplest(values), places.centred(values)
    for other in (simple, small):
        np.testing.assert_allclose(policies_of(places, other), policies_of(places, values), atol=1e-12)
    shortest = (places.rewards_of(simple) ** 2).sum(-1)
    assert ((places.rewards_of(values) ** 2).sum(-1) > shortest).all()
    for _ in range(20):  # any other potential makes them longer
        potential = rng.normal(size=places.n_states)
        moved = simple + (potential[0] if places.previous is None else potential[places.previous])
        np.testing.assert_allclose(policies_of(places, moved), policies_of(places, values), atol=1e-12)
        assert ((places.rewards_of(moved) ** 2).sum(-1) > shortest).all()
        assert ((places.centred(moved) ** 2).sum(-1) < (moved**2).sum(-1)).all()
    np.testing.assert_allclose(places.centred(simple), small, atol=1e-9)


@both_orders
def test_the_fit_is_a_stationary_point_whatever_the_start(order):
    places, rng = Places(world(masked=True), order), np.random.default_rng(6)
    counts = rng.integers(0, 400, (S, A)) * places.valid_actions * rng.random((S, 1)) ** 3
    found = [fit_values(rng.normal(size=places.n_places) * scale, places, counts, 0.05) for scale in (0, 3)]
    np.testing.assert_allclose(found[0], found[1], atol=2e-2)
    for values in found:
        assert np.abs(loss(values, places, counts, 0.05)[1]).max() < 0.05


def ring() -> MDP:
    """Five states in a circle: left, right, or jump to state 0."""
    P = np.zeros((5, 3, 5))
    for s in range(5):
        P[s, 0, (s - 1) % 5] = P[s, 1, (s + 1) % 5] = P[s, 2, 0] = 1.0
    return MDP.from_dense(P, 0.9)


def test_recovers_planted_rewards():
    mdp, rng = ring(), np.random.default_rng(7)
    truth = np.array([[0.0, 0.0, 1.0, 0.0, -1.0], [0.5, -1.0, 0.0, 0.0, 0.0]])
    tau = np.array([1.0, 0.5])
    q = np.stack([mdp.soft_value_iteration(r, t)[0] for r, t in zip(truth, tau, strict=True)])
    policies = np.stack([boltzmann(x, 1 / t) for x, t in zip(q, tau, strict=True)])
    n = 40_000
    z, s = rng.integers(K, size=n), rng.integers(5, size=n)
    a = (policies[z, s].cumsum(-1) < rng.random((n, 1))).sum(-1)
    demos = Demonstrations.from_arrays([s], [a], n_states=5, n_actions=3)
    model = SoftRewards(K, Places(mdp), tau)
    data = Prepared.of(demos, Contexts(5))
    before = (model.log_likelihood(data) * np.eye(K)[z]).sum()
    model.m_step(data, np.eye(K)[z])
    assert (model.log_likelihood(data) * np.eye(K)[z]).sum() > before + 1000
    np.testing.assert_allclose(model.policies, policies, atol=0.03)
    np.testing.assert_allclose(model.rewards, truth - truth.mean(1, keepdims=True), atol=0.12)
    assert model.counts.sum() == pytest.approx(n)


@both_orders
def test_state_restores_everything(order, make_demos):
    demos = make_demos(n_states=S, n_actions=A)
    data = Prepared.of(demos, Contexts(S))
    model, other = (SoftRewards(K, Places(world(), order)) for _ in range(2))
    model.m_step(data, np.random.default_rng(8).dirichlet(np.ones(K), demos.n_steps))
    assert model.log_prior() < 0
    other.load_state({name: value.copy() for name, value in model.state().items()})
    np.testing.assert_array_equal(other.log_likelihood(data), model.log_likelihood(data))
    rows = np.array([0, S, 3])  # S: a state that the fit never named
    found = other.policies_at(rows)
    np.testing.assert_allclose(found.sum(-1), 1.0)
    np.testing.assert_allclose(found[1], 1 / A)
    taken = model.policies_at(data.rows)[np.arange(demos.n_steps), :, demos.actions]
    np.testing.assert_allclose(np.log(taken), model.log_likelihood(data))


def test_invalid_actions_have_probability_zero_and_valid_ones_never():
    mdp = world(masked=True)
    model = SoftRewards(1, Places(mdp))
    model.set_rewards(100.0 * np.random.default_rng(9).normal(size=(1, S)))
    assert (model.policies[0][~mdp.valid_actions] == 0).all()
    assert (model.policies[0][mdp.valid_actions] > 0).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperatures": [1.0]}, "give 2 finite numbers"),
        ({"temperatures": [1.0, 0.0]}, "above 0"),
    ],
)
def test_rejects_bad_settings(settings, message):
    with pytest.raises(InputError, match=message):
        SoftRewards(K, Places(world()), **settings)
    with pytest.raises(InputError, match="order"):
        Places(world(), 3)


def test_rewards_on_states_are_planned_for_elsewhere_and_those_on_transitions_are_refused():
    here, there = world(discount=0.9), world(seed=5, discount=0.9)
    model = SoftRewards(K, Places(here), [0.5, 1.0])
    model.set_rewards(np.random.default_rng(1).normal(size=(K, S)))
    for k, temperature in enumerate((0.5, 1.0)):
        q, _ = there.soft_value_iteration(model.rewards[k], temperature)
        np.testing.assert_allclose(model.moved(there).policies[k], boltzmann(q, 1 / temperature), atol=1e-7)
    with pytest.raises(InputError, match="soft-2"):
        SoftRewards(K, Places(here, 2)).moved(there)
