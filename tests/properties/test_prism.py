"""What holds for every PRISM, whatever its switching, its network and what it observes."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from prism_irl import em, load
from prism_irl.data import batching
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.mdp import MDP
from prism_irl.models.intentions import Intentions
from prism_irl.models.presets import PRISM

NETWORKS = ("rnn", "lstm", "gru", "transformer")
COMBINATIONS: dict[str, dict[str, Any]] = {
    "markov": {"switching": "markov"},
    **{f"recurrent {name}": {"switching": "recurrent", "network": name} for name in NETWORKS},
    **{
        f"independent {name} {observe}": {"switching": "independent", "network": name, "observe": observe}
        for name in NETWORKS
        for observe in ("past", "current")
    },
}
KINDS = ("markov", "recurrent rnn", "independent rnn past", "independent rnn current")
"""One combination of each kind, where the network does not matter."""

every_kind = pytest.mark.parametrize("kind", KINDS)


def make(kind: str, n_intentions: int = 2, **changes: Any) -> Intentions:
    small: dict[str, Any] = {
        "embedding": 8,
        "hidden": 6,
        "learning_rate": 0.02,
        "batch_size": 3,
        "max_iterations": 3,
        "n_starts": 2,
        "warm_up": 2,
        "n_candidates": 1,
        "device": "cpu",
    }
    return Intentions(n_intentions, **{**small, **COMBINATIONS[kind], **changes})


@pytest.fixture(scope="module")
def demos(make_demos):
    return make_demos()


@pytest.fixture(scope="module")
def new(make_demos):
    """Other trajectories over the same states and actions."""
    return make_demos(1, lengths=(3, 1, 8, 5))


@pytest.fixture(scope="module", params=COMBINATIONS)
def model(request, demos):
    return make(request.param).fit(demos)


def taken(proba: np.ndarray, demos: Demonstrations) -> np.ndarray:
    return proba[np.arange(demos.n_steps), demos.actions]


def stream(model: Intentions, demos: Demonstrations) -> np.ndarray:
    """`filter` over every trajectory, flat."""
    rows, online = [], model.filter()
    for i in range(len(demos)):
        online.reset()
        for t in range(demos.offsets[i], demos.offsets[i + 1]):
            seen = None if demos.observations is None else demos.observations[t]
            rows.append(online.step(int(demos.states[t]), int(demos.actions[t]), seen))
    return np.array(rows)


def assert_same_parameters(one: Intentions, other: Intentions) -> None:
    expected, found = one._state(), other._state()
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(np.asarray(found[name]), np.asarray(value), err_msg=name)


def without_seconds(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


# -- beliefs and predictions -------------------------------------------------------------------------------------------


def test_beliefs_are_distributions(model, demos, new):
    for data in (demos, new):
        posterior = model.posterior(data)
        for beliefs in (posterior.responsibilities, posterior.predicted, posterior.filtered):
            assert beliefs.shape == (data.n_steps, 2)
            assert beliefs.dtype == np.float64
            assert beliefs.min() >= 0
            np.testing.assert_allclose(beliefs.sum(1), 1, rtol=0, atol=1e-12)
        np.testing.assert_array_equal(model.predict_proba(data), posterior.responsibilities)
        np.testing.assert_array_equal(model.predict(data), posterior.responsibilities.argmax(1))
        last = data.offsets[1:] - 1  # there is nothing left to learn from the future
        np.testing.assert_allclose(posterior.responsibilities[last], posterior.filtered[last], atol=1e-12)


def test_the_predictive_distribution_is_one(model, new):
    proba = model.action_proba(new)
    assert proba.shape == (new.n_steps, new.n_actions)
    assert proba.min() > 0
    np.testing.assert_allclose(proba.sum(1), 1, rtol=0, atol=1e-12)


def test_score_is_the_mean_log_predictive_probability(model, new):
    expected = np.log(taken(model.action_proba(new), new))
    np.testing.assert_allclose(model.log_likelihood(new), expected, rtol=1e-10)
    np.testing.assert_allclose(model.score(new), expected.mean(), rtol=1e-10)


def test_the_paper_score_differs_only_where_the_gate_sees_the_action(model, new):
    assert model.leaks == (model.observe == "current")
    if model.leaks:
        assert abs(model.paper_score(new) - model.score(new)) > 1e-4
    else:
        np.testing.assert_allclose(model.paper_score(new), model.score(new), rtol=1e-10)


def test_the_past_is_predicted_without_the_future(model, new):
    """p(a_t | …) and filtered beliefs of a truncated trajectory are those of the whole one."""
    proba, filtered = model.action_proba(new), model.filter_proba(new)
    begin, end = new.offsets[2], new.offsets[3]
    for length in range(1, end - begin):
        part = slice(begin, begin + length)
        short = Demonstrations.from_arrays([new.states[part]], [new.actions[part]], n_states=5, n_actions=3)
        np.testing.assert_allclose(model.action_proba(short), proba[part], atol=1e-6)
        np.testing.assert_allclose(model.filter_proba(short), filtered[part], atol=1e-6)


def test_the_action_is_never_known_before_it_is_taken(model, new):
    """Whatever was done at a trajectory's last step, the prediction for that step is the same."""
    last = new.offsets[1:] - 1
    other = new.actions.copy()
    other[last] = (other[last] + 1) % new.n_actions
    changed = Demonstrations(new.states, other, new.offsets, new.n_states, new.n_actions)
    np.testing.assert_allclose(model.action_proba(changed), model.action_proba(new), atol=1e-6)


def test_batch_mates_never_matter(model, new, monkeypatch):
    proba, beliefs = model.action_proba(new), model.predict_proba(new)
    for i in range(len(new)):
        alone, part = new.subset([i]), slice(new.offsets[i], new.offsets[i + 1])
        np.testing.assert_allclose(model.action_proba(alone), proba[part], atol=1e-6)
        np.testing.assert_allclose(model.predict_proba(alone), beliefs[part], atol=1e-6)
    monkeypatch.setattr(batching, "EVALUATION_STEPS", 9)  # the longest trajectory has 8: one trajectory per batch
    np.testing.assert_allclose(model.action_proba(new), proba, atol=1e-6)
    np.testing.assert_allclose(model.predict_proba(new), beliefs, atol=1e-6)


def test_the_filter_equals_the_batch(model, new):
    np.testing.assert_allclose(stream(model, new), model.filter_proba(new), rtol=0, atol=1e-6)
    precise = copy.deepcopy(model)
    if isinstance(precise.switching_, torch.nn.Module):  # arrays are in double precision already
        precise.switching_.double()
    np.testing.assert_allclose(stream(precise, new), precise.filter_proba(new), rtol=0, atol=1e-12)


def test_a_refused_step_leaves_the_filter_as_it_was(demos):
    model = make("recurrent rnn", history=2).fit(demos)
    clean, disturbed = model.filter(), model.filter()
    for state, action in ((0, 1), (2, 0), (1, 2)):
        with pytest.raises(InputError, match="Action 7 was not part of the fit; actions run from 0 to 2"):
            disturbed.step(4, 7)
        with pytest.raises(InputError, match="State 5 was not part of the fit; states run from 0 to 4"):
            disturbed.step(5, 0)
        np.testing.assert_array_equal(disturbed.step(state, action), clean.step(state, action))


# -- one seed, one result ----------------------------------------------------------------------------------------------


def test_one_seed_one_result(model, demos):
    torch.rand(1), np.random.rand()  # noqa: NPY002 - a fit hears nothing of anybody else's randomness
    before = torch.get_rng_state()
    again = clone(model).fit(demos)
    assert torch.equal(torch.get_rng_state(), before)  # and does not disturb it
    assert_same_parameters(again, model)
    assert without_seconds(again.monitor_) == without_seconds(model.monitor_)
    other = clone(model).set_params(seed=1).fit(demos)
    assert np.abs(other.policies_ - model.policies_).max() > 1e-3


def test_truth_and_names_are_never_read(demos, make_demos):
    told = make_demos(
        labels=[np.arange(n) % 2 for n in demos.lengths], times=[np.arange(n) for n in demos.lengths], groups=range(8)
    )
    assert_same_parameters(make("recurrent rnn").fit(told), make("recurrent rnn").fit(demos))


# -- saving ------------------------------------------------------------------------------------------------------------


def test_a_loaded_model_is_the_saved_one_bit_by_bit(model, new, tmp_path):
    model.save(tmp_path / "run")
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["config.json", "model.safetensors"]
    loaded = load(tmp_path / "run")
    assert type(loaded) is Intentions
    assert repr(loaded) == repr(model)
    assert_same_parameters(model, loaded)
    for method in (
        "predict_proba",
        "filter_proba",
        "predict",
        "action_proba",
        "log_likelihood",
        "score",
        "paper_score",
    ):
        np.testing.assert_array_equal(getattr(loaded, method)(new), getattr(model, method)(new), err_msg=method)
    for name in ("rewards_", "q_", "values_", "policies_", "unvisited_", "start_states_"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(model, name), err_msg=name)
    for name in ("monitor_", "starts_", "agreement_", "n_equal_starts_", "converged_", "n_iterations_", "leaks"):
        assert getattr(loaded, name) == getattr(model, name), name
    np.testing.assert_array_equal(stream(loaded, new), stream(model, new))
    for one, other in zip(vars(loaded.sample(3, 5)).values(), vars(model.sample(3, 5)).values(), strict=True):
        np.testing.assert_array_equal(one, other)


@every_kind
def test_longer_histories_masks_and_observations_survive_saving(kind, make_demos, tmp_path):
    demos = make_demos(masked=True, n_observations=2)
    model = make(kind, history=3).fit(demos)
    model.save(tmp_path)
    loaded = load(tmp_path)
    assert_same_parameters(model, loaded)
    np.testing.assert_array_equal(loaded.valid_actions_, demos.valid_actions)
    np.testing.assert_array_equal(loaded.action_proba(demos), model.action_proba(demos))
    np.testing.assert_array_equal(loaded.rewards_, model.rewards_)
    np.testing.assert_array_equal(stream(loaded, demos), stream(model, demos))


def test_dynamics_are_saved_to_the_last_digit(demos, tmp_path):
    """Rows of random probabilities hardly ever sum to exactly one; loading must not rescale them again."""
    mdp = MDP.from_dense(np.random.default_rng(0).dirichlet(np.ones(5), (5, 3)), discount=0.8)
    model = make("markov", discount=0.5).fit(demos, mdp)
    assert model.mdp_ is mdp
    model.save(tmp_path)
    loaded = load(tmp_path)
    assert loaded.mdp_.discount == 0.8
    np.testing.assert_array_equal(loaded.mdp_.transitions.toarray(), mdp.transitions.toarray())
    np.testing.assert_array_equal(loaded.rewards_, model.rewards_)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda run: (run / "config.json").unlink(), "no config.json"),
        (lambda run: (run / "config.json").write_text("{"), "not readable as JSON"),
        (lambda run: (run / "config.json").write_text("{}"), "not written together"),
        (lambda run: (run / "config.json").write_text("[]"), "no JSON object"),
        (lambda run: (run / "model.safetensors").unlink(), "no model file"),
        (lambda run: (run / "model.safetensors").write_bytes(b"\x00" * 50), "truncated or not a model file"),
    ],
)
def test_a_damaged_model_folder_is_explained(demos, tmp_path, damage, message):
    make("markov").fit(demos).save(tmp_path)
    damage(tmp_path)
    with pytest.raises(InputError, match=message):
        load(tmp_path)


def test_a_missing_model_folder_is_explained(tmp_path):
    with pytest.raises(InputError, match=r"no folder .*nowhere; give the folder that a fit wrote"):
        load(tmp_path / "nowhere")


# -- simulation --------------------------------------------------------------------------------------------------------


def test_samples_are_valid_and_deterministic(model, demos):
    sample = model.sample(4, 6, seed=3)
    assert (len(sample), sample.n_steps, sample.n_states, sample.n_actions) == (4, 24, 5, 3)
    assert set(np.unique(sample.labels)) <= {0, 1}
    assert set(sample.states[sample.offsets[:-1]]) <= set(demos.states[demos.offsets[:-1]])
    inside = np.flatnonzero(~sample.first_steps)
    rows = sample.states[inside - 1].astype(int) * 3 + sample.actions[inside - 1]
    assert (model.mdp_.transitions.toarray()[rows, sample.states[inside]] > 0).all()
    again, other = model.sample(4, 6, seed=3), model.sample(4, 6, seed=4)
    for name in ("states", "actions", "labels"):
        np.testing.assert_array_equal(getattr(again, name), getattr(sample, name))
    assert not np.array_equal(other.actions, sample.actions)


def test_samples_follow_the_model(model):
    """Actions come from p(a_t | past) and intentions from P(z_t | s_≤t, a_≤t): both deviate like noise, not more."""
    N, T = 400, 8
    sample = model.sample(N, T, seed=0)
    for drawn, proba in (
        (np.eye(3)[sample.actions], model.action_proba(sample)),
        (np.eye(2)[sample.labels], model.filter_proba(sample)),
    ):
        deviation = (drawn - proba).reshape(N, T, -1).sum(1)  # trajectories are independent
        z = deviation.mean(0) / (deviation.std(0) / np.sqrt(N))
        assert np.abs(z).max() < 4.5
        assert np.abs(drawn - proba).max() > 0.2


@pytest.mark.parametrize("size", [(0, 5), (5, 0)])
def test_empty_samples_are_refused(demos, size):
    with pytest.raises(InputError, match="at least one trajectory of at least one step"):
        make("markov").fit(demos).sample(*size)


# -- scikit-learn's conventions ----------------------------------------------------------------------------------------


@every_kind
def test_parameters_are_scikit_learns(kind, demos):
    model = make(kind, seed=7)
    parameters = model.get_params()
    assert parameters["n_intentions"] == 2
    assert Intentions(**parameters).get_params() == parameters
    assert model.set_params(n_intentions=3) is model
    assert model.fit(demos) is model
    assert model.get_params() == {**parameters, "n_intentions": 3}  # a fit leaves them alone
    copied = clone(model)
    assert copied.get_params() == model.get_params()
    assert "switching_" not in vars(copied)
    assert "n_intentions=3" not in repr(Intentions())


@pytest.mark.parametrize("method", ["predict", "predict_proba", "filter_proba", "action_proba", "score", "paper_score"])
def test_an_unfitted_model_says_so(demos, method):
    with pytest.raises(NotFittedError, match="call fit first"):
        getattr(Intentions(), method)(demos)


@pytest.mark.parametrize("attribute", ["rewards_", "q_", "values_", "policies_"])
def test_results_of_an_unfitted_model_say_so(attribute):
    with pytest.raises(NotFittedError, match="call fit first"):
        getattr(Intentions(), attribute)


def test_an_unfitted_model_cannot_be_used_otherwise(tmp_path):
    for use in (Intentions().filter, Intentions().sample, lambda: Intentions().save(tmp_path / "run")):
        with pytest.raises(NotFittedError, match="call fit first"):
            use()
    assert not (tmp_path / "run").exists()


def test_a_second_fit_forgets_the_first(demos, make_demos):
    model = make("markov").fit(demos)
    first = model.rewards_
    other = make_demos(5, n_states=4, lengths=(20, 20))
    model.fit(other)
    assert model.rewards_.shape == (2, 4, 3)
    assert first.shape == (2, 5, 3)
    np.testing.assert_array_equal(model.rewards_, make("markov").fit(other).rewards_)


# -- small and odd worlds ----------------------------------------------------------------------------------------------


@every_kind
@pytest.mark.parametrize(
    ("n_intentions", "world"),
    [
        (2, {"lengths": (1,) * 6}),
        (2, {"lengths": (9,)}),
        (1, {"lengths": (1,)}),
        (2, {"n_states": 1}),
        (2, {"n_actions": 1}),
        (1, {"n_states": 1, "n_actions": 1}),
        (3, {"lengths": (3, 2)}),
    ],
    ids=["single steps", "one trajectory", "one step", "one state", "one action", "nothing to choose", "hardly any"],
)
def test_small_worlds_work(kind, n_intentions, world, make_demos):
    demos = make_demos(**world)
    model = make(kind, n_intentions).fit(demos)
    np.testing.assert_allclose(model.predict_proba(demos).sum(1), 1, atol=1e-12)
    np.testing.assert_allclose(model.action_proba(demos).sum(1), 1, atol=1e-12)
    assert np.isfinite(model.score(demos))
    assert np.isfinite(model.rewards_).all()
    np.testing.assert_allclose(stream(model, demos), model.filter_proba(demos), atol=1e-6)
    assert model.sample(2, 3).n_steps == 6
    if demos.n_actions == 1:
        np.testing.assert_allclose(model.score(demos), 0, atol=1e-12)


@every_kind
def test_invalid_actions_are_never_predicted(kind, make_demos):
    demos = make_demos(masked=True)
    for history in (1, 2):
        model = make(kind, history=history).fit(demos)
        proba = model.action_proba(demos)
        valid = demos.valid_actions[demos.states]
        assert not valid.all()
        assert (proba[~valid] == 0).all()
        assert (proba[valid] > 0).all()
        np.testing.assert_allclose(proba.sum(1), 1, atol=1e-12)
        assert (model.rewards_[:, ~demos.valid_actions] == 0).all()
        sample = model.sample(20, 10)
        assert demos.valid_actions[sample.states, sample.actions].all()


@every_kind
def test_valid_actions_of_the_mdp_are_taken_over(kind, make_demos):
    masked = make_demos(masked=True)
    mdp = MDP.from_demonstrations(masked)
    model, expected = make(kind).fit(masked.with_valid_actions(None), mdp), make(kind).fit(masked, mdp)
    assert_same_parameters(model, expected)


@every_kind
def test_an_action_that_was_impossible_has_no_likelihood_and_breaks_nothing(kind, make_demos):
    """Without smoothing an unseen action scores −inf; beliefs and the filter stay distributions."""
    demos = Demonstrations.from_arrays([[0, 1, 0, 1]] * 4, [[0, 1, 0, 1], [1, 0, 0, 1]] * 2, n_actions=3)
    new = Demonstrations.from_arrays([[0, 1, 0, 0]], [[0, 2, 1, 0]], n_actions=3)
    model = make(kind, smoothing=0.0, validation_fraction=0.0).fit(demos)
    assert model.score(new) == -np.inf
    assert np.isneginf(model.log_likelihood(new)).tolist() == [False, True, False, False]
    np.testing.assert_allclose(model.predict_proba(new).sum(1), 1, atol=1e-12)
    np.testing.assert_allclose(model.action_proba(new).sum(1), 1, atol=1e-12)
    np.testing.assert_allclose(stream(model, new), model.filter_proba(new), atol=1e-6)


@every_kind
@pytest.mark.parametrize("history", [2, 3])
def test_policies_on_histories(kind, history, demos, new):
    model = make(kind, history=history).fit(demos)
    assert model.policies_.shape == (2, model.contexts_.n_contexts, 3)
    assert model.contexts_.n_contexts > 5
    np.testing.assert_allclose(model.policies_.sum(-1), 1, atol=1e-12)
    assert model.rewards_.shape == (2, 5, 3)
    for data in (demos, new):
        np.testing.assert_allclose(model.predict_proba(data).sum(1), 1, atol=1e-12)
        proba = model.action_proba(data)
        np.testing.assert_allclose(proba.sum(1), 1, atol=1e-12)
        np.testing.assert_allclose(model.score(data), np.log(taken(proba, data)).mean(), rtol=1e-10)
        np.testing.assert_allclose(stream(model, data), model.filter_proba(data), atol=1e-6)
    # the policy of the longest known context, not that of the state
    rows = model.contexts_.encode(demos)
    assert (rows[demos.step_index >= history - 1] >= model.contexts_.starts[-2]).all()
    assert np.abs(model.policies_[:, rows] - model.policies_[:, demos.states]).max() > 0.05
    assert model.sample(3, 5).n_steps == 15


@every_kind
def test_states_that_the_fit_never_named(kind, demos):
    model = make(kind, history=2).fit(demos)
    arrays = [[0, 5, 1], [5, 5]], [[0, 1, 2], [2, 0]]
    strange = Demonstrations.from_arrays(*arrays, n_states=6, n_actions=3)
    with pytest.raises(InputError, match=r"State 5 at trajectory 0, step 1 was not part of the fit.*0 to 4"):
        model.predict(strange)
    flat = [np.concatenate(part) for part in arrays]
    allowed = Demonstrations(*flat, np.array([0, 3, 5]), n_states=6, n_actions=3, unknown_state=True)
    proba = model.action_proba(allowed)
    np.testing.assert_allclose(proba.sum(1), 1, atol=1e-12)
    if not model.leaks:
        np.testing.assert_allclose(proba[allowed.states == 5], 1 / 3, atol=1e-12)
    np.testing.assert_allclose(model.predict_proba(allowed).sum(1), 1, atol=1e-12)


def test_new_data_may_use_fewer_states_and_actions(model):
    small = Demonstrations.from_arrays([[0, 1, 0]], [[0, 1, 1]])
    full = Demonstrations.from_arrays([[0, 1, 0]], [[0, 1, 1]], n_states=5, n_actions=3)
    assert (small.n_states, small.n_actions) == (2, 2)
    np.testing.assert_array_equal(model.action_proba(small), model.action_proba(full))
    np.testing.assert_array_equal(model.predict_proba(small), model.predict_proba(full))
    assert model.score(small) == model.score(full)


def test_an_action_that_the_fit_never_named_is_refused(demos):
    strange = Demonstrations.from_arrays([[0, 1, 0]], [[0, 1, 4]])
    with pytest.raises(InputError, match=r"Action 4 at trajectory 0, step 2 was not part of the fit.*0 to 2"):
        make("markov").fit(demos).predict(strange)


@pytest.mark.parametrize("kind", KINDS[1:])
def test_observation_vectors_are_used(kind, make_demos):
    demos = make_demos(n_observations=2)
    model = make(kind).fit(demos)
    other = make_demos(n_observations=2, observations=None)
    moved = Demonstrations(
        demos.states, demos.actions, demos.offsets, 5, 3, observations=np.asarray(demos.observations) + 2
    )
    assert np.abs(model.posterior(moved).predicted - model.posterior(demos).predicted).max() > 1e-4
    np.testing.assert_array_equal(model.predict_proba(other), model.predict_proba(demos))
    np.testing.assert_allclose(stream(model, demos), model.filter_proba(demos), atol=1e-6)
    blind = make_demos()
    with pytest.raises(InputError, match="fitted with observation vectors; the new data has none"):
        model.predict(blind)
    with pytest.raises(InputError, match="vectors of 2 numbers; the new ones have 3"):
        model.predict(make_demos(n_observations=3))
    with pytest.raises(InputError, match="observation"):
        model.filter().step(0, 0)
    with pytest.raises(InputError, match="observation"):
        model.sample()


# -- interruption ------------------------------------------------------------------------------------------------------


class Interruption:
    """Press Ctrl-C at one iteration of one start; remember what was reported."""

    def __init__(self, start: int = -1, iteration: int = -1) -> None:
        self.at, self.seen = (start, iteration), []

    def __call__(self, progress: em.Progress) -> None:
        self.seen.append((progress.start, progress.iteration))
        if self.seen[-1] == self.at:
            raise KeyboardInterrupt


@pytest.mark.parametrize("kind", ["markov", "recurrent gru", "independent rnn past", "independent transformer current"])
def test_a_resumed_fit_equals_an_uninterrupted_one(kind, demos, tmp_path, monkeypatch):
    monkeypatch.setattr(em, "CHECKPOINT_SECONDS", -1.0)
    settings = {"max_iterations": 6, "patience": 3, "l1": 0.1, "kl": 0.1}
    straight = make(kind, **settings).fit(demos)
    iterations = [start["iterations"] for start in straight.starts_]
    assert min(iterations) >= 3

    for at in ((0, 3), (1, 2)):
        with pytest.raises(KeyboardInterrupt):
            make(kind, **settings).fit(demos, checkpoint=tmp_path, resume=True, on_iteration=Interruption(*at))
    resumed, watch = make(kind, **settings), Interruption()
    resumed.fit(demos, checkpoint=tmp_path, resume=True, on_iteration=watch)
    assert watch.seen == [(1, i) for i in range(2, iterations[1] + 1)]  # only what was missing
    assert_same_parameters(resumed, straight)
    assert without_seconds(resumed.monitor_) == without_seconds(straight.monitor_)
    assert without_seconds(resumed.starts_) == without_seconds(straight.starts_)
    assert resumed.agreement_ == straight.agreement_

    finished, watch = make(kind, **settings), Interruption()
    finished.fit(demos, checkpoint=tmp_path, resume=True, on_iteration=watch)
    assert watch.seen == []
    assert_same_parameters(finished, straight)
    assert not list(tmp_path.glob("*.tmp"))


def test_an_interrupted_fit_leaves_no_half_of_a_model(demos, new):
    for model in (make("markov"), make("markov").fit(demos)):
        with pytest.raises(KeyboardInterrupt):
            model.fit(new, on_iteration=Interruption(0, 2))
        with pytest.raises(NotFittedError, match="call fit first"):
            model.predict(new)


def test_a_new_fit_never_resumes_an_old_one(demos, tmp_path, monkeypatch):
    monkeypatch.setattr(em, "CHECKPOINT_SECONDS", -1.0)
    make("markov", seed=1).fit(demos, checkpoint=tmp_path)
    with pytest.raises(KeyboardInterrupt):
        make("markov", seed=2).fit(demos, checkpoint=tmp_path, on_iteration=Interruption(0, 2))
    resumed = make("markov", seed=2).fit(demos, checkpoint=tmp_path, resume=True)
    assert_same_parameters(resumed, make("markov", seed=2).fit(demos))


# -- parameters --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameter", "value", "message"),
    [
        ("n_intentions", 0, "n_intentions must be at least 1, not 0"),
        ("n_intentions", 2.5, "n_intentions must be a whole number, not 2.5"),
        ("n_intentions", "3", "n_intentions must be a whole number, not '3'"),
        ("n_intentions", 99, "99 intentions cannot be told apart: only 14 different .* ask for fewer"),
        ("switching", "hmm", "There is no switching 'hmm'; choose single, per-trajectory, independent, markov"),
        ("network", "cnn", "network is 'cnn'; choose rnn, lstm, gru, transformer"),
        ("observe", "future", "observe is 'future'; choose past, current"),
        ("observe", "current", 'observe="current" belongs to switching="independent"'),
        ("starts", "best", "starts is 'best'; choose mixed, windows, random"),
        ("history", 0, "history must be at least 1, not 0"),
        ("l1", -1.0, "l1 must be at least 0, not -1"),
        ("kl", np.nan, "kl must be at least 0, not nan"),
        ("switch_penalty", -0.1, "switch_penalty must be at least 0, not -0.1"),
        ("smoothing", -1, "smoothing must be at least 0, not -1"),
        ("backoff", "much", "backoff must be a number, not 'much'"),
        ("embedding", 0, "embedding must be at least 1, not 0"),
        ("hidden", 2.5, "hidden must be a whole number, not 2.5"),
        ("learning_rate", 0, "learning_rate must be above 0"),
        ("learning_rate", -1e-3, "learning_rate must be at least 0, not -0.001"),
        ("batch_size", 0, "batch_size must be at least 1, not 0"),
        ("epochs_per_m_step", 0, "epochs_per_m_step must be at least 1, not 0"),
        ("max_iterations", -1, "max_iterations must be at least 0, not -1"),
        ("n_starts", 0, "n_starts must be at least 1, not 0"),
        ("warm_up", -1, "warm_up must be at least 0, not -1"),
        ("n_candidates", 0, "n_candidates must be at least 1, not 0"),
        ("validation_fraction", 1.0, "validation_fraction must be at least 0 and below 1, not 1.0"),
        ("patience", 0, "patience must be at least 1, not 0"),
        ("discount", 1.0, "discount must be at least 0 and below 1, not 1.0"),
        ("device", "tpu", "Unknown device 'tpu'; choose auto, cpu or cuda"),
        ("seed", -1, "seed must be at least 0, not -1"),
        ("seed", None, "seed must be a whole number, not None"),
    ],
)
def test_bad_parameters_are_explained(demos, parameter, value, message):
    with pytest.raises(InputError, match=message):
        make("recurrent rnn").set_params(**{parameter: value}).fit(demos)


def test_a_width_that_a_transformer_cannot_have_is_explained(demos):
    with pytest.raises(InputError, match="multiple of 8; change `embedding`"):
        make("recurrent transformer", embedding=12).fit(demos)


def test_an_mdp_of_another_size_is_explained(demos):
    mdp = MDP.from_dense(np.full((4, 3, 4), 0.25))
    with pytest.raises(InputError, match="The MDP has 4 states and 3 actions, the demonstrations 5 and 3"):
        make("markov").fit(demos, mdp)


def test_the_papers_models():
    labyrinth = PRISM.paper("labyrinth")
    wanted = {
        "n_intentions": 3,
        "switching": "independent",
        "observe": "current",
        "l1": 2.22,
        "kl": 1.48,
        "n_starts": 1,
    }
    assert {name: getattr(labyrinth, name) for name in wanted} == wanted
    assert PRISM.paper("bridge", network="transformer").epochs_per_m_step == 8
    assert PRISM.paper("bridge", n_intentions=6).n_intentions == 6
    with pytest.raises(InputError, match="no experiment 'maze'; choose gridworld, labyrinth, bridge"):
        PRISM.paper("maze")


def test_the_papers_network_has_as_many_parameters_as_the_paper_says():
    walk = Demonstrations.from_arrays([np.arange(5)], [np.zeros(5, int)], n_states=127, n_actions=4)
    model = PRISM.paper("labyrinth", n_intentions=4, max_iterations=1).fit(walk)
    assert round(sum(part.numel() for part in model.switching_.network.parameters()), -3) == 51_000  # "about 50K"


def test_smoothing_of_zero_with_validation_data_is_refused(make_demos):
    """Every later iteration would score −inf on validation data, and the first one would be kept without a word."""
    with pytest.raises(InputError, match="no validation trajectory can be scored"):
        Intentions(2, smoothing=0.0).fit(make_demos())
