"""HIQL: its E-step against hmmlearn, its recovery of planted intentions, and its two kinds of rewards."""

import numpy as np
import pytest
from hmmlearn.base import BaseHMM

import prism_irl
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.labels import label_accuracy
from prism_irl.mdp import MDP
from prism_irl.models.intentions import Intentions
from prism_irl.models.presets import HIQL

S, A, K = 6, 3, 2


def planted_demonstrations(n=30, length=60, stay=0.95, seed=0) -> Demonstrations:
    """Two intentions with opposed policies and a sticky chain; states are drawn at random."""
    rng = np.random.default_rng(seed)
    policies = rng.dirichlet(np.full(A, 0.3), (K, S))
    states = rng.integers(S, size=(n, length))
    switches = rng.random((n, length)) > stay
    intentions = (rng.integers(K, size=(n, 1)) + np.cumsum(switches, axis=1)) % K
    draws = rng.random((n, length, 1)) > policies[intentions, states].cumsum(-1)
    actions = np.minimum(draws.sum(-1), A - 1)
    return Demonstrations.from_arrays(states, actions, labels=intentions, n_states=S, n_actions=A)


@pytest.fixture(scope="module")
def demos():
    return planted_demonstrations()


@pytest.fixture(scope="module")
def model(demos):
    return HIQL(K, n_starts=4).fit(demos)


class Emissions(BaseHMM):
    """An hmmlearn model whose emissions are π_k(a|s) of the observed (s, a)."""

    def _compute_log_likelihood(self, X):
        return np.log(self.policies[:, X[:, 0], X[:, 1]].T)


def test_expectation_equals_hmmlearn(model, demos):
    # Unequal lengths, and none of the numbers special.
    test = planted_demonstrations(n=4, length=50, seed=1)
    test = Demonstrations(test.states, test.actions, np.array([0, 50, 51, 80, 200]), S, A)
    reference = Emissions(n_components=K)
    reference.startprob_, reference.transmat_, reference.policies = model.initial_, model.kernel_, model.policies_
    X = np.stack([test.states, test.actions], axis=1).astype(int)
    log_likelihood, responsibilities = reference.score_samples(X, test.lengths)
    posterior = model.posterior(test)
    np.testing.assert_allclose(posterior.responsibilities, responsibilities, atol=1e-10)
    assert posterior.log_likelihood.sum() == pytest.approx(log_likelihood, rel=1e-12)
    proba = model.action_proba(test)
    np.testing.assert_allclose(proba.sum(1), 1)
    np.testing.assert_allclose(
        np.log(proba[np.arange(test.n_steps), test.actions]), posterior.log_likelihood, atol=1e-10
    )


def test_m_step_is_hmmlearns(demos):
    """One Baum–Welch iteration from the same point: same initial distribution and kernel."""
    still = HIQL(K, n_starts=1, max_iterations=0, validation_fraction=0.0).fit(demos)
    once = HIQL(K, n_starts=1, max_iterations=1, patience=None, validation_fraction=0.0).fit(demos)
    reference = Emissions(n_components=K, n_iter=1, params="st", init_params="")
    reference.startprob_, reference.transmat_, reference.policies = still.initial_, still.kernel_, still.policies_
    X = np.stack([demos.states, demos.actions], axis=1).astype(int)
    statistics = reference._initialize_sufficient_statistics()
    for i in range(len(demos)):
        part = X[demos.offsets[i] : demos.offsets[i + 1]]
        lattice, _, responsibilities, forward, backward = reference._fit_log(part)
        reference._accumulate_sufficient_statistics(statistics, part, lattice, responsibilities, forward, backward)
    reference._do_mstep(statistics)
    np.testing.assert_allclose(once.initial_, reference.startprob_, atol=1e-8)
    np.testing.assert_allclose(once.kernel_, reference.transmat_, atol=1e-8)


def test_planted_intentions_and_kernel_are_recovered(model, demos):
    assert label_accuracy(demos.labels, model.predict(demos)) > 0.9
    np.testing.assert_allclose(np.diag(model.kernel_), 0.95, atol=0.03)
    single = HIQL(1).fit(demos)
    assert model.score(demos) > single.score(demos) + 0.05


def test_is_the_markov_pair_of_prism(demos):
    shared = {"n_starts": 2, "max_iterations": 20, "device": "cpu", "seed": 3}
    hiql = HIQL(K, **shared).fit(demos)
    prism = Intentions(K, switching="markov", warm_up=0, **shared).fit(demos)
    np.testing.assert_array_equal(hiql.action_proba(demos), prism.action_proba(demos))


def test_learned_rewards_change_no_label_and_explain_the_policy(demos):
    settings = {"n_starts": 2, "max_iterations": 10, "discount": 0.5}
    solved, learned = (HIQL(K, rewards=kind, **settings).fit(demos) for kind in ("iavi", "iql"))
    np.testing.assert_array_equal(learned.predict_proba(demos), solved.predict_proba(demos))
    assert learned.score(demos) == solved.score(demos)
    assert learned.rewards_.shape == (K, S, A)
    assert not np.allclose(learned.rewards_, solved.rewards_)
    boltzmann = np.exp(learned.q_ - learned.values_[..., None])
    boltzmann /= boltzmann.sum(-1, keepdims=True)
    # 1,800 steps × 100 epochs at α_r = 1e-4 have not arrived, but the preferences are there.
    agreement = (boltzmann.argmax(-1) == solved.policies_.argmax(-1)).mean()
    assert agreement > 0.8


@pytest.mark.parametrize("rewards", ["iavi", "iql"])
def test_saved_and_loaded_identically(rewards, demos, tmp_path):
    first = HIQL(K, rewards=rewards, n_starts=2, max_iterations=5).fit(demos)
    first.save(tmp_path)
    loaded = prism_irl.load(tmp_path)
    assert repr(loaded) == repr(first)
    for method in ("predict_proba", "action_proba", "filter_proba"):
        np.testing.assert_array_equal(getattr(loaded, method)(demos), getattr(first, method)(demos))
    for table in ("policies_", "rewards_", "q_", "values_", "unvisited_", "kernel_"):
        np.testing.assert_array_equal(getattr(loaded, table), getattr(first, table))


def test_best_start_is_kept_by_validation_or_training_likelihood(demos):
    for fraction in (0.2, 0.0):
        found = HIQL(K, n_starts=3, max_iterations=8, validation_fraction=fraction).fit(demos)
        scores = [start["score"] for start in found.starts_]
        assert [start["best"] for start in found.starts_] == [score == max(scores) for score in scores]
        assert ("validation" in found.monitor_[0]) == (fraction > 0)


def test_masked_unequal_and_tiny_worlds(make_demos):
    masked = make_demos(masked=True, lengths=(7, 1, 4, 12, 5))
    proba = HIQL(K, n_starts=2, max_iterations=5).fit(masked).action_proba(masked)
    np.testing.assert_allclose(proba.sum(1), 1)
    assert (proba[~masked.valid_actions[masked.states]] == 0).all()
    for n_states, n_actions in ((1, 3), (4, 1)):
        tiny = make_demos(n_states=n_states, n_actions=n_actions)
        found = HIQL(K, rewards="iql", n_starts=2, max_iterations=5).fit(tiny)
        assert np.isfinite(found.score(tiny))
        assert np.isfinite(found.rewards_).all()


def test_mdp_shapes_rewards_only(demos):
    world = MDP.from_dense(np.random.default_rng(0).dirichlet(np.ones(S), (S, A)), 0.9)
    counted, given = (HIQL(K, n_starts=1, max_iterations=5).fit(demos, mdp) for mdp in (None, world))
    np.testing.assert_array_equal(given.action_proba(demos), counted.action_proba(demos))
    assert not np.allclose(given.rewards_, counted.rewards_)


def test_wrong_choices_are_named(demos):
    with pytest.raises(InputError, match="rewards"):
        HIQL(rewards="maxent").fit(demos)
    with pytest.raises(InputError, match="starts"):
        HIQL(starts="good").fit(demos)
    with pytest.raises(InputError, match="smoothing"):
        HIQL(smoothing=-1).fit(demos)


# -- when it stops -----------------------------------------------------------------------------------------------------


def rises_left(model: HIQL) -> float:
    """Nats per step by which the objective of the start that was kept rises behind the iteration that was kept."""
    best = next(index for index, start in enumerate(model.starts_) if start["best"])
    objective = [row["objective"] for row in model.monitor_ if row["start"] == best]
    return max(objective) - objective[model.n_iterations_]


def test_exact_em_runs_until_its_own_objective_converges():
    small = planted_demonstrations(n=15, length=30)
    default, old = HIQL(K, n_starts=3).fit(small), HIQL(K, n_starts=3, stop_by="validation").fit(small)
    assert rises_left(default) <= 1e-5 < rises_left(old)
    tops = [max(row["objective"] for row in default.monitor_ if row["start"] == index) for index in range(3)]
    kept = next(index for index, start in enumerate(default.starts_) if start["best"])
    assert tops[kept] >= max(tops) - 1e-5
    assert default.validation_chose_ == []
    assert old.validation_chose_ == ["start", "stopping point"]


@pytest.mark.parametrize(
    ("options", "chose"),
    [
        ({"history": 2}, ["start", "stopping point"]),  # a memory can overfit
        ({"history": 2, "n_starts": 1}, ["stopping point"]),
        ({"history": 2, "backoff": "auto"}, ["memory", "start", "stopping point"]),
        ({"history": 2, "stop_by": "training"}, []),
        ({"stop_by": "validation", "validation_fraction": 0.0}, []),
    ],
)
def test_what_validation_trajectories_chose_is_written_down(options, chose):
    small = planted_demonstrations(n=10, length=20)
    assert HIQL(K, **{"n_starts": 2, "max_iterations": 3, **options}).fit(small).validation_chose_ == chose


def test_an_unknown_rule_is_refused(demos):
    with pytest.raises(InputError, match="stop_by"):
        HIQL(K, stop_by="test").fit(demos)
