"""Rewards compared: what no behaviour can tell does not count, and what counts is found elsewhere."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elsewhere import Elsewhere, plan
from gridworld import truth
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.evaluation.truth import (
    Truth,
    canonical_reward,
    expected_value_difference,
    likeliest_expert,
    read_truth,
    recovered_order,
    reward_distance,
)
from prism_irl.mdp import MDP, boltzmann
from prism_irl.models.references import Empirical, NGram, WorldOracle
from prism_irl.worlds.frustration import INTENTIONS, FrustrationWorld

S, A = 5, 3


def random_mdp(rng, discount=0.9, masked=True):
    valid = np.ones((S, A), bool)
    if masked:
        valid[rng.integers(S), rng.integers(A)] = False
    return MDP.from_dense(rng.dirichlet(np.ones(S), (S, A)), discount, valid)


def shaped(mdp, reward, rng, scale):
    """The same reward up to a factor and a potential."""
    potential = rng.normal(size=S) * 3
    return scale * reward + mdp.discount * mdp.expected_values(potential) - potential[:, None]


@given(st.integers(0, 10**6), st.floats(0.01, 100.0))
def test_shaping_and_scale_do_not_count(seed, scale):
    rng = np.random.default_rng(seed)
    mdp, reward = random_mdp(rng), rng.normal(size=(S, A))
    assert reward_distance(mdp, shaped(mdp, reward, rng, scale), reward) == pytest.approx(0.0, abs=1e-8)
    assert reward_distance(mdp, shaped(mdp, -reward, rng, scale), reward) == pytest.approx(1.0, abs=1e-8)
    constant = np.full((S, A), rng.normal())
    assert reward_distance(mdp, constant, reward) == pytest.approx(0.5, abs=1e-8)


@given(st.integers(0, 10**6))
def test_it_is_a_distance(seed):
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng)
    a, b, c = rng.normal(size=(3, S, A))
    ab, bc, ac = (reward_distance(mdp, x, y) for x, y in ((a, b), (b, c), (a, c)))
    assert ab == pytest.approx(reward_distance(mdp, b, a))
    assert 0 < ab <= 1
    assert ac <= ab + bc + 1e-12
    assert reward_distance(mdp, a, a) == 0


@given(st.integers(0, 10**6))
def test_rewards_at_no_distance_have_the_same_plans(seed):
    rng = np.random.default_rng(seed)
    mdp, reward = random_mdp(rng, 0.8), rng.normal(size=(S, A))
    np.testing.assert_allclose(plan(mdp, shaped(mdp, reward, rng, 2.0)), plan(mdp, reward))


def test_only_states_that_count():
    rng = np.random.default_rng(3)
    mdp, reward = random_mdp(rng, masked=False), rng.normal(size=(S, A))
    counts = np.array([True, True, True, True, False])
    found = canonical_reward(mdp, reward, counts)
    assert not found[4].any()
    assert np.linalg.norm(found) == pytest.approx(1.0)


def test_rewards_on_states_are_rewards_on_every_action():
    rng = np.random.default_rng(4)
    mdp, reward = random_mdp(rng, masked=False), rng.normal(size=S)
    repeated = np.repeat(reward[:, None], A, axis=1)
    np.testing.assert_allclose(canonical_reward(mdp, reward), canonical_reward(mdp, repeated))


def test_equally_good_actions_share():
    mdp = MDP.from_dense(np.eye(2)[[[0, 1, 1], [1, 1, 0]]], 0.5)
    np.testing.assert_allclose(plan(mdp, np.array([0.0, 1.0])), [[0, 0.5, 0.5], [0.5, 0.5, 0]])


def test_a_share_of_what_the_true_reward_earns():
    mdp = MDP.from_dense(np.eye(2)[[[0, 1], [1, 0]]], 0.5)  # stay or go
    truth = np.array([[[0.0, 0.0], [1.0, 1.0]]])
    there = Elsewhere(mdp, truth, np.array([1.0, 0.0]))
    assert there.best == [pytest.approx(1.0)]  # 0 + 1/2 + 1/4 + …
    assert there.transfer(truth[0], 0) == pytest.approx(1.0)
    assert there.transfer(-truth[0], 0) == pytest.approx(0.0)
    assert there.carried(np.full((2, 2), 0.5), 0) == pytest.approx(0.5)


WORLD = FrustrationWorld(horizon=12)
DEMOS = WORLD.simulate(30, seed=2).demonstrations
KEYS = ["evd_goal", "evd_s0_goal", "evd_entered_goal", "evd_abandon", "evd_s0_abandon", "evd_entered_abandon"]


def stand_in(policies, predicted):
    """A fitted model with these policies (K, S, A) and labels (n,)."""
    return SimpleNamespace(policies_=policies, n_intentions=len(policies), predict=lambda demos: predicted)


def test_the_expert_loses_nothing():
    found = truth(WORLD)(WorldOracle(WORLD).fit(DEMOS), DEMOS)
    assert list(found) == KEYS
    assert found == pytest.approx(dict.fromkeys(KEYS, 0.0), abs=1e-9)


def test_the_order_of_recovered_intentions_does_not_matter():
    noisy = np.where(np.random.default_rng(0).random(DEMOS.n_steps) < 0.1, 1 - DEMOS.labels, DEMOS.labels)
    policies = 0.7 * WORLD.policies + 0.3 / WORLD.n_actions
    straight = truth(WORLD)(stand_in(policies, noisy), DEMOS)
    turned = truth(WORLD)(stand_in(policies[::-1], 1 - noisy), DEMOS)
    assert turned == straight
    assert min(straight["evd_goal"], straight["evd_abandon"]) > 0.1
    crossed = truth(WORLD)(stand_in(policies[::-1], noisy), DEMOS)
    assert crossed["evd_goal"] > straight["evd_goal"]


def test_numbers_are_differences_of_values():
    uniform = np.full((2, WORLD.n_states, WORLD.n_actions), 1 / WORLD.n_actions)
    start = 7
    mdp = MDP.from_dense(WORLD.transitions, discount=WORLD.discount)
    found = Truth(mdp, WORLD.rewards, WORLD.policies, INTENTIONS, start)(stand_in(uniform, DEMOS.labels), DEMOS)
    for k, name in enumerate(INTENTIONS):
        values = []
        for policy in (uniform[k], WORLD.policies[k]):
            step = np.einsum("sa,sat->st", policy, WORLD.transitions)
            reward = (policy * WORLD.rewards[k]).sum(axis=1)
            values.append(np.linalg.solve(np.eye(WORLD.n_states) - WORLD.discount * step, reward))
        assert found[f"evd_{name}"] == pytest.approx(np.abs(values[0] - values[1]).mean())
        assert found[f"evd_s0_{name}"] == pytest.approx(values[0][start] - values[1][start])


def test_a_single_intention_stands_for_all():
    model = Empirical().fit(DEMOS)
    assert recovered_order(model, DEMOS, 2) == [0, 0]
    both = np.repeat(model.policies_, 2, axis=0)
    assert truth(WORLD)(model, DEMOS) == truth(WORLD)(stand_in(both, DEMOS.labels), DEMOS)


def test_policies_over_histories_count_by_their_state():
    model = NGram(length=2, backoff=4.0).fit(DEMOS)
    assert model.policies_.shape[1] > WORLD.n_states
    states_only = stand_in(model.policies_[:, : WORLD.n_states], None)
    assert truth(WORLD)(model, DEMOS) == truth(WORLD)(states_only, DEMOS)


def test_methods_without_policies_have_no_value_difference():
    assert truth(WORLD)(SimpleNamespace(n_intentions=2), DEMOS) == {}


def test_more_and_fewer_intentions_than_true_ones():
    predicted = np.where(DEMOS.labels == 0, 2, 0)
    three = stand_in(np.repeat(WORLD.policies[:1], 3, axis=0), predicted)
    assert recovered_order(three, DEMOS, 2) == [2, 0]
    unused = stand_in(WORLD.policies, np.zeros_like(DEMOS.labels))
    assert recovered_order(unused, DEMOS, 3)[0] == 0


def test_matching_needs_labels():
    unlabelled = Demonstrations.from_arrays([[0, 1]], [[0, 1]], n_states=25, n_actions=5)
    with pytest.raises(InputError, match="true labels"):
        recovered_order(stand_in(WORLD.policies, np.zeros(2)), unlabelled, 2)


@pytest.mark.parametrize("beta", [0.5, 8.0])
def test_the_expert_is_as_resolute_as_the_data(beta):
    """Whatever the scale of the rewards: with another resolution, good policies would be far from the expert."""
    mdp = MDP.from_dense(WORLD.transitions, 0.9)
    policies = boltzmann(mdp.value_iteration(WORLD.rewards)[0], beta)
    rng = np.random.default_rng(0)
    states, labels = rng.integers(25, size=4000), rng.integers(2, size=4000)
    actions = (policies[labels, states].cumsum(axis=1) > rng.random((4000, 1))).argmax(axis=1)
    demos = Demonstrations(states, actions, np.array([0, 4000]), 25, 5, labels=labels)
    for scale in (1.0, 100.0):
        np.testing.assert_allclose(likeliest_expert(mdp, scale * WORLD.rewards, demos), policies, atol=0.03)


class TestReadTruth:
    def write(self, folder, **arrays):
        arrays = {"rewards": WORLD.rewards, "transitions": WORLD.transitions} | arrays
        np.savez(folder / "truth.npz", **{key: value for key, value in arrays.items() if value is not None})
        return folder / "truth.npz"

    def test_everything_given(self, tmp_path):
        path = self.write(tmp_path, policies=WORLD.policies, discount=WORLD.discount, start=3)
        found = read_truth(path, DEMOS)
        np.testing.assert_array_equal(found.rewards, WORLD.rewards)
        np.testing.assert_array_equal(found.policies, WORLD.policies)
        assert (found.names, found.start, found.mdp.discount) == (("0", "1"), 3, WORLD.discount)
        ours = Truth(truth(WORLD).mdp, WORLD.rewards, WORLD.policies, ("0", "1"), 3)
        model = Empirical().fit(DEMOS)
        assert found(model, DEMOS) == pytest.approx(ours(model, DEMOS))

    def test_defaults(self, tmp_path):
        found = read_truth(self.write(tmp_path, rewards=WORLD.rewards[:, :, 0]), DEMOS)
        np.testing.assert_array_equal(found.rewards, WORLD.rewards)
        assert (found.start, found.mdp.discount) == (0, 0.97)
        np.testing.assert_allclose(found.policies, likeliest_expert(found.mdp, WORLD.rewards, DEMOS))
        expert = found(stand_in(found.policies, DEMOS.labels), DEMOS)
        assert expert == pytest.approx(dict.fromkeys(expert, 0.0), abs=1e-9)

    def test_intentions_go_by_their_names(self, tmp_path):
        frame = DEMOS.to_pandas()
        frame["intention"] = np.array(INTENTIONS)[frame["intention"]]
        named = Demonstrations.from_table(frame)
        assert read_truth(self.write(tmp_path), named).names == tuple(sorted(INTENTIONS))

    @pytest.mark.parametrize(
        ("arrays", "words"),
        [
            ({"rewards": None}, "no array 'rewards'"),
            ({"transitions": None}, "no array 'transitions'"),
            ({"transitions": WORLD.transitions[:24, :, :24]}, r"P has|sum|describes 24 states"),
            ({"transitions": np.eye(24)[:, None].repeat(5, axis=1)}, "describes 24 states and 5 actions"),
            ({"transitions": WORLD.transitions.astype(str)}, "'transitions'"),
            ({"rewards": WORLD.rewards[:, :, :4]}, r"shape \(2, 25, 4\)"),
            ({"rewards": WORLD.rewards[0, :, 0]}, r"shape \(25,\)"),
            ({"rewards": WORLD.rewards[:1]}, "2 true intentions"),
            ({"policies": WORLD.policies[0]}, r"policies .* shape \(25, 5\)"),
            ({"discount": 1.0}, "discount"),
            ({"discount": [0.9, 0.9]}, "'discount'"),
            ({"start": 25}, "state from 0 to 24"),
            ({"rewards": np.array([{}], dtype=object)}, "never unpickled"),
        ],
    )
    def test_wrong_arrays(self, arrays, words, tmp_path):
        with pytest.raises(InputError, match=words):
            read_truth(self.write(tmp_path, **arrays), DEMOS)

    @pytest.mark.parametrize("content", [b"", b"plain text", b"PK\x03\x04 nonsense"])
    def test_damaged_files(self, content, tmp_path):
        (tmp_path / "truth.npz").write_bytes(content)
        with pytest.raises(InputError, match="damaged or not an npz file"):
            read_truth(tmp_path / "truth.npz", DEMOS)

    def test_files_of_another_kind(self, tmp_path):
        with pytest.raises(InputError, match="no file"):
            read_truth(tmp_path / "none.npz", DEMOS)
        np.save(tmp_path / "array.npy", np.zeros(3))
        with pytest.raises(InputError, match="damaged or not an npz file"):
            read_truth(tmp_path / "array.npy", DEMOS)

    def test_data_without_labels_are_refused_before_any_fit(self, tmp_path):
        unlabelled = Demonstrations.from_table(DEMOS.to_pandas().drop(columns="intention"))
        with pytest.raises(InputError, match="true labels"):
            read_truth(self.write(tmp_path), unlabelled)


class TestRewards:
    def test_the_true_reward_has_no_distance_and_transfers(self):
        known = stand_in(WORLD.policies[::-1], 1 - DEMOS.labels)
        known.rewards_ = 3 * WORLD.rewards[::-1] + 1
        found = truth(WORLD, moved=2)(known, DEMOS)
        for name in INTENTIONS:
            assert found[f"reward_distance_{name}"] == pytest.approx(0.0, abs=1e-9)
            assert found[f"transfer_{name}"] == pytest.approx(1.0)
            assert found[f"carried_{name}"] < 1.0
            assert found[f"evd_entered_{name}"] == pytest.approx(0.0, abs=1e-9)

    def test_cells_that_cannot_be_entered_do_not_count(self):
        policies = np.array(WORLD.policies)
        policies[:, ~WORLD.free] = 1 / WORLD.n_actions
        found = truth(WORLD)(stand_in(policies, DEMOS.labels), DEMOS)
        assert found["evd_goal"] > 0.01
        assert found["evd_entered_goal"] == pytest.approx(0.0, abs=1e-9)

    def test_rewards_that_drift_are_averaged(self):
        drift = np.stack([2 * WORLD.rewards[0, :, 0], 0 * WORLD.rewards[0, :, 0]])
        model = SimpleNamespace(time_varying_rewards_=drift, n_intentions=3)
        found = truth(WORLD)(model, DEMOS)
        assert found["reward_distance_goal"] == pytest.approx(0.0, abs=1e-9)
        assert found["reward_distance_abandon"] > 0.5
        assert "evd_goal" not in found


@pytest.fixture
def two_states():
    """State 0 pays; action 0 leads to state 0 and action 1 to state 1."""
    P = np.zeros((2, 2, 2))
    P[:, 0, 0] = P[:, 1, 1] = 1
    reward, good, bad = np.array([[1.0, 1.0], [0.0, 0.0]]), np.array([[1.0, 0.0]] * 2), np.array([[0.0, 1.0]] * 2)
    return MDP.from_dense(P, discount=0.5), reward, good, bad


def test_evd_by_hand(two_states):
    mdp, reward, good, bad = two_states
    # good: V = (2, 1); bad: V = (1, 0).
    assert expected_value_difference(mdp, reward, good, bad, 0) == pytest.approx((1.0, -1.0))
    assert expected_value_difference(mdp, reward, bad, good, 1) == pytest.approx((1.0, 1.0))
    assert expected_value_difference(mdp, reward, good, good, 1) == (0, 0)


def test_evd_over_start_distribution(two_states):
    mdp, reward, good, _ = two_states
    mixed = np.array([[1.0, 0.0], [0.0, 1.0]])  # V = (2, 0): only state 1 loses
    assert expected_value_difference(mdp, reward, good, mixed, 0) == pytest.approx((0.5, 0.0))
    assert expected_value_difference(mdp, reward, good, mixed, [0.25, 0.75]) == pytest.approx((0.5, -0.75))


@pytest.mark.parametrize("start", [2, -1, 0.5, [0.5, 0.6], [1.0], [1.5, -0.5]])
def test_evd_refuses_other_starts(two_states, start):
    mdp, reward, good, bad = two_states
    with pytest.raises(InputError, match="start"):
        expected_value_difference(mdp, reward, good, bad, start)
