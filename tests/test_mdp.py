import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.mdp import MDP, boltzmann, factorize


def random_mdp(seed: int, S: int = 6, A: int = 3, discount: float = 0.9) -> MDP:
    rng = np.random.default_rng(seed)
    valid = rng.random((S, A)) < 0.6
    valid[np.arange(S), rng.integers(A, size=S)] = True
    P = rng.dirichlet(np.full(S, 0.3), size=(S, A))
    return MDP.from_dense(P, discount, valid)


def demonstrations(*trajectories: list[tuple[int, int]], **options: object) -> Demonstrations:
    flat = np.concatenate([np.array(t) for t in trajectories])
    offsets = np.cumsum([0, *map(len, trajectories)])
    sizes = {"n_states": 4, "n_actions": 2} | options
    return Demonstrations(states=flat[:, 0], actions=flat[:, 1], offsets=offsets, **sizes)


class TestConstruction:
    P = np.stack([np.eye(3), np.roll(np.eye(3), 1, axis=1)], axis=1)

    def test_dense_table_becomes_rows_of_state_action_pairs(self) -> None:
        mdp = MDP.from_dense(self.P, 0.5)
        assert (mdp.n_states, mdp.n_actions, mdp.discount) == (3, 2, 0.5)
        np.testing.assert_array_equal(mdp.transitions.toarray().reshape(3, 2, 3), self.P)
        assert mdp.transitions.nnz == 6
        assert mdp.valid_actions.all()
        assert "3 states, 2 actions, 6 valid pairs" in repr(mdp)

    def test_rows_of_invalid_actions_are_dropped_whatever_they_hold(self) -> None:
        P, valid = self.P.copy(), np.array([[True, True], [True, False], [True, True]])
        P[1, 1] = np.nan
        mdp = MDP.from_dense(P, valid_actions=valid)
        assert mdp.transitions[[3]].nnz == 0
        np.testing.assert_array_equal(mdp.mean_transitions().toarray(), [[0.5, 0.5, 0], [0, 1, 0], [0.5, 0, 0.5]])

    def test_single_precision_rows_are_rescaled(self) -> None:
        P = np.random.default_rng(0).dirichlet(np.ones(50), size=(50, 4)).astype(np.float32)
        np.testing.assert_allclose(MDP.from_dense(P).transitions.sum(axis=1), 1, rtol=0, atol=1e-14)

    @pytest.mark.parametrize(
        ("successor", "value", "message"),
        [
            (1, 0.9, r"action 0 in state 1 sum to 0\.9"),
            (1, np.nan, r"P\(s'=1 \| s=1, a=0\) is nan"),
            (2, -0.1, r"P\(s'=2 \| s=1, a=0\) is -0\.1"),
        ],
    )
    def test_wrong_probabilities_are_named(self, successor: int, value: float, message: str) -> None:
        P = self.P.copy()
        P[1, 0, successor] = value
        with pytest.raises(InputError, match=message):
            MDP.from_dense(P)

    @pytest.mark.parametrize("discount", [-0.1, 1.0, np.nan])
    def test_discount_out_of_range(self, discount: float) -> None:
        with pytest.raises(InputError, match="discount"):
            MDP.from_dense(self.P, discount)

    def test_wrong_shapes(self) -> None:
        with pytest.raises(InputError, match="shape"):
            MDP(self.P[:, 0, :2])
        with pytest.raises(InputError, match="shape"):
            MDP(np.zeros((0, 0)))
        with pytest.raises(InputError, match=r"\(S, A, S\)"):
            MDP.from_dense(self.P[:2])
        with pytest.raises(InputError, match="valid_actions has shape"):
            MDP.from_dense(self.P, valid_actions=np.ones((2, 3), dtype=bool))

    def test_state_without_action(self) -> None:
        with pytest.raises(InputError, match="State 2 has no valid action"):
            MDP.from_dense(self.P, valid_actions=np.array([[1, 1], [1, 0], [0, 0]], dtype=bool))


class TestCounting:
    def test_counts_stay_inside_trajectories_and_unseen_pairs_self_loop(self) -> None:
        demos = demonstrations([(0, 1), (1, 0), (0, 1), (2, 0)], [(3, 0), (0, 1), (1, 1)])
        P = MDP.from_demonstrations(demos).transitions.toarray().reshape(4, 2, 4)
        np.testing.assert_allclose(P[0, 1], [0, 2 / 3, 1 / 3, 0])
        np.testing.assert_allclose(P[1, 0], [1, 0, 0, 0])
        np.testing.assert_allclose(P[3, 0], [1, 0, 0, 0])
        # (2, 0) and (1, 1) end their trajectories, the others never occur: all stay where they are.
        for s, a in [(2, 0), (1, 1), (0, 0), (2, 1), (3, 1)]:
            np.testing.assert_allclose(P[s, a], np.eye(4)[s])

    def test_valid_actions_are_taken_over(self) -> None:
        valid = np.array([[1, 1], [1, 0], [0, 1], [1, 1]], dtype=bool)
        mdp = MDP.from_demonstrations(demonstrations([(0, 1), (1, 0), (0, 0)], valid_actions=valid), 0.5)
        np.testing.assert_array_equal(mdp.valid_actions, valid)
        assert mdp.discount == 0.5
        assert mdp.transitions[[3]].nnz == 0

    def test_small_integer_types_do_not_overflow(self) -> None:
        demos = Demonstrations.from_arrays([[250, 251, 250]], [[3, 0, 0]], n_states=252, n_actions=4)
        assert demos.states.dtype == np.uint8
        assert MDP.from_demonstrations(demos).transitions[250 * 4 + 3, 251] == 1

    def test_one_step_trajectories(self) -> None:
        demos = demonstrations([(0, 1)], [(1, 1)])
        np.testing.assert_array_equal(MDP.from_demonstrations(demos).mean_transitions().toarray(), np.eye(4))


class TestPlanning:
    @settings(deadline=None, max_examples=25)
    @given(st.integers(0, 2**31), st.sampled_from([0.0, 0.5, 0.97, 0.999]), st.sampled_from([0.05, 1.0, 3.0]))
    def test_bellman_equations_hold(self, seed: int, discount: float, temperature: float) -> None:
        mdp = random_mdp(seed, discount=discount)
        reward = np.random.default_rng(seed).normal(size=(2, 3, 6, 3))
        for (q, v), backup in [
            (mdp.value_iteration(reward), lambda q: q.max(axis=-1)),
            (
                mdp.soft_value_iteration(reward, temperature),
                lambda q: temperature * np.logaddexp.reduce(q / temperature, axis=-1),
            ),
        ]:
            assert q.shape == (2, 3, 6, 3)
            assert (q[..., ~mdp.valid_actions] == -np.inf).all()
            bound = 1e-9 * max(1, np.abs(v).max())
            np.testing.assert_allclose(backup(q), v, rtol=0, atol=bound)
            np.testing.assert_array_equal(q, mdp.action_values(reward, v))

    @settings(deadline=None, max_examples=25)
    @given(st.integers(0, 2**31))
    def test_optimal_values_are_those_of_the_greedy_and_of_the_soft_policy(self, seed: int) -> None:
        mdp = random_mdp(seed, discount=0.95)
        reward = np.random.default_rng(seed).normal(size=(2, 6, 3))
        q, v = mdp.value_iteration(reward)
        greedy = (q == q.max(axis=-1, keepdims=True)).astype(float)
        np.testing.assert_allclose(mdp.policy_evaluation(greedy, reward), v, rtol=0, atol=1e-8)
        q, v = mdp.soft_value_iteration(reward, temperature=0.5)
        policy = boltzmann(q, 2.0)
        entropy = -np.sum(policy * np.log(np.where(policy > 0, policy, 1)), axis=-1)
        np.testing.assert_allclose(
            mdp.policy_evaluation(policy, reward + 0.5 * entropy[..., None]), v, rtol=0, atol=1e-8
        )

    def test_values_of_a_chain_are_known(self) -> None:
        # Stay (0) or step right (1) on 0 → 1 → 2; state 2 pays 1 for ever, stepping on from it is invalid.
        P = np.zeros((3, 2, 3))
        P[[0, 1, 2], 0, [0, 1, 2]] = P[[0, 1], 1, [1, 2]] = 1
        valid = np.array([[1, 1], [1, 1], [1, 0]], dtype=bool)
        mdp = MDP.from_dense(P, 0.5, valid)
        q, v = mdp.value_iteration(np.array([0.0, 0.0, 1.0]))
        np.testing.assert_allclose(v, [0.5, 1, 2], rtol=0, atol=1e-9)
        np.testing.assert_allclose(q, [[0.25, 0.5], [0.5, 1], [2, -np.inf]], rtol=0, atol=1e-9)
        uniform = boltzmann(q, 0.0)
        np.testing.assert_allclose(uniform, [[0.5, 0.5], [0.5, 0.5], [1, 0]])
        np.testing.assert_allclose(
            mdp.policy_evaluation(uniform, [0.0, 0.0, 1.0]), [2 / 9, 2 / 3, 2], rtol=0, atol=1e-12
        )

    def test_intentions_at_once_equal_one_by_one_and_states_rewards_broadcast(self) -> None:
        mdp = random_mdp(3)
        rewards = np.random.default_rng(3).normal(size=(4, 6))
        policies = boltzmann(np.where(mdp.valid_actions, np.random.default_rng(4).normal(size=(4, 6, 3)), -np.inf))
        together = mdp.soft_value_iteration(rewards)[1]
        for k in range(4):
            state_action = np.repeat(rewards[k][:, None], 3, axis=1)
            np.testing.assert_allclose(together[k], mdp.soft_value_iteration(state_action)[1], rtol=0, atol=1e-9)
            alone = mdp.policy_evaluation(policies[k], state_action)
            np.testing.assert_allclose(mdp.policy_evaluation(policies, rewards)[k], alone, rtol=0, atol=1e-12)
            broadcast = mdp.policy_evaluation(policies, rewards[k])
            np.testing.assert_allclose(broadcast[k], alone, rtol=0, atol=1e-12)

    def test_invalid_actions_do_not_influence_values(self) -> None:
        mdp = random_mdp(5)
        reward = np.random.default_rng(5).normal(size=(6, 3))
        tempting = np.where(mdp.valid_actions, reward, 1e6)
        assert (tempting != reward).any()
        np.testing.assert_array_equal(mdp.value_iteration(reward)[1], mdp.value_iteration(tempting)[1])
        np.testing.assert_array_equal(mdp.soft_value_iteration(reward)[1], mdp.soft_value_iteration(tempting)[1])
        missing = np.where(mdp.valid_actions, reward, np.nan)
        policy = boltzmann(np.where(mdp.valid_actions, 0.0, -np.inf))
        np.testing.assert_array_equal(mdp.policy_evaluation(policy, reward), mdp.policy_evaluation(policy, missing))

    def test_errors_say_where(self) -> None:
        mdp = MDP.from_dense(TestConstruction.P, 0.9, np.array([[1, 1], [1, 0], [1, 1]], dtype=bool))
        reward = np.zeros((3, 2))
        with pytest.raises(InputError, match="reward has shape"):
            mdp.value_iteration(np.zeros((3, 4)))
        with pytest.raises(InputError, match="values have shape"):
            mdp.action_values(reward, np.zeros(2))
        reward[2, 1] = np.inf
        with pytest.raises(InputError, match="action 1 in state 2"):
            mdp.value_iteration(reward)
        with pytest.raises(InputError, match="max_iterations"):
            mdp.value_iteration(np.arange(3), max_iterations=2)
        with pytest.raises(InputError, match="temperature"):
            mdp.soft_value_iteration(np.arange(3), temperature=0)
        with pytest.raises(InputError, match="policy in state 1"):
            mdp.policy_evaluation(np.full((3, 2), 0.5), np.arange(3))
        with pytest.raises(InputError, match="policy has shape"):
            mdp.policy_evaluation(np.ones(3), np.arange(3))


class TestBoltzmann:
    def test_shift_scale_and_limits(self) -> None:
        q = np.array([[1000.0, 1001.0, -np.inf], [0.0, 0.0, 5.0]])
        np.testing.assert_allclose(boltzmann(q)[0], [1 / (1 + np.e), np.e / (1 + np.e), 0])
        np.testing.assert_allclose(boltzmann(q, 1e3), [[0, 1, 0], [0, 0, 1]])
        np.testing.assert_allclose(boltzmann(q, 0), [[0.5, 0.5, 0], [1 / 3, 1 / 3, 1 / 3]])

    def test_errors(self) -> None:
        with pytest.raises(InputError, match="inverse temperature"):
            boltzmann(np.zeros((1, 2)), -1)
        with pytest.raises(InputError, match="state 1"):
            boltzmann(np.array([[0.0, 1.0], [-np.inf, -np.inf]]))


@pytest.mark.parametrize("method", ["auto", "dense", "sparse"])
@pytest.mark.parametrize("size", [5, 300])
def test_factorizations_solve(method: str, size: int) -> None:
    rng = np.random.default_rng(0)
    matrix = (
        sparse.eye_array(size)
        - 0.9 * MDP.from_dense(np.eye(size)[rng.integers(size, size=(size, 3))]).mean_transitions()
    )
    x = rng.normal(size=(size, 4))
    solve = factorize(matrix, method)
    np.testing.assert_allclose(solve(matrix @ x), x, rtol=0, atol=1e-10)
    np.testing.assert_allclose(solve(matrix @ x[:, 0]), x[:, 0], rtol=0, atol=1e-10)
