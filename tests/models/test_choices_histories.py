"""History and back-off chosen on validation data: what is found, what is saved, what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import prism_irl as prism
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.models.choices import choose_history
from prism_irl.models.intentions import Intentions
from prism_irl.models.presets import HIQL
from prism_irl.models.registry import method


def remembering(memory: int, seed: int = 0, n: int = 150, length: int = 40) -> Demonstrations:
    """An agent on 3 states whose action depends on the state ``memory - 1`` steps ago; states are random."""
    rng = np.random.default_rng(seed)
    states = rng.integers(3, size=(n, length))
    before = np.roll(states, memory - 1, axis=1)
    before[:, : memory - 1] = 0
    actions = np.where(rng.random((n, length)) < 0.9, before, rng.integers(3, size=(n, length)))
    return Demonstrations.from_arrays(states, actions, n_states=3, n_actions=3)


def best_of(tried: list[dict[str, float]], intentions: int) -> dict[str, float]:
    return max((row for row in tried if row["intentions"] == intentions), key=lambda row: row["log_likelihood"])


@pytest.mark.parametrize("memory", [1, 2, 3])
@pytest.mark.parametrize("n_intentions", [1, 2])
def test_the_memory_of_the_agent_is_found(memory, n_intentions):
    validation, train = remembering(memory).split(0.2)
    choice = choose_history(train, validation, n_intentions, lengths=(1, 2, 3, 4))
    assert choice.length == memory
    assert best_of(choice.tried, 1)["length"] >= memory


def test_rare_contexts_ask_for_a_strong_back_off():
    """Where histories say nothing, the strongest shrinkage predicts best."""
    rng = np.random.default_rng(1)
    arrays = rng.integers(4, size=(2, 40, 30))
    validation, train = Demonstrations.from_arrays(*arrays, n_states=4, n_actions=4).split(0.3)
    weak, strong = (
        choose_history(train, validation, 1, lengths=(3,), backoffs=(m,)).tried[0]["log_likelihood"] for m in (1, 64)
    )
    assert strong > weak + 0.01
    assert choose_history(train, validation, 1, lengths=(3,)).backoff == 128


def test_the_choice_sees_the_validation_trajectories_it_is_given():
    """The same training data, another validation set, another choice: nothing else decides."""
    _, train = remembering(2).split(0.2)
    without = remembering(1, seed=5)
    assert choose_history(train, remembering(2, seed=5), 1, lengths=(1, 2)).length == 2
    assert choose_history(train, without, 1, lengths=(1, 2)).length == 1


@pytest.mark.parametrize("kind", [HIQL, Intentions])
def test_a_model_chooses_keeps_and_saves_its_history(kind, tmp_path):
    demos = remembering(2)
    small = {} if kind is HIQL else {"embedding": 8, "hidden": 8, "warm_up": 3}
    model = kind(2, history="auto", backoff="auto", n_starts=1, max_iterations=3, recount=True, **small).fit(demos)
    assert model.history_length_ == model.contexts_.length == 2
    assert model.rewards_model_.backoff == model.backoff_ > 0
    assert {row["intentions"] for row in model.history_choice_} == {1, 2}
    fixed = kind(2, history=2, backoff=model.backoff_, n_starts=1, max_iterations=3, recount=True, **small).fit(demos)
    np.testing.assert_array_equal(fixed.policies_, model.policies_)
    assert fixed.history_choice_ == []
    model.save(tmp_path)
    again = prism.load(tmp_path)
    assert (again.history_length_, again.backoff_) == (model.history_length_, model.backoff_)
    assert again.history_choice_ == model.history_choice_
    np.testing.assert_array_equal(again.action_proba(demos), model.action_proba(demos))


def test_either_may_be_given():
    demos = remembering(2)
    small = {"n_starts": 1, "max_iterations": 1}
    length = HIQL(2, history="auto", backoff=7.0, **small).fit(demos)
    assert (length.history_length_, length.backoff_) == (2, 7.0)
    strength = HIQL(2, history=2, backoff="auto", **small).fit(demos)
    assert strength.history_length_ == 2
    assert {row["length"] for row in strength.history_choice_} == {2}
    plain = HIQL(2, backoff="auto", **small).fit(demos)  # nothing to shrink, nothing to choose
    assert plain.history_choice_ == []


def test_recounting_uses_the_validation_trajectories_too():
    demos = remembering(2, n=20)
    options = {"history": 2, "n_starts": 1, "max_iterations": 5, "validation_fraction": 0.5}
    held_out, recounted = (HIQL(2, recount=recount, **options).fit(demos) for recount in (False, True))
    total = [model.rewards_model_.counts[:, :3].sum() for model in (held_out, recounted)]
    np.testing.assert_allclose(total, [demos.n_steps / 2, demos.n_steps])
    posterior = held_out.predict_proba(demos)
    held_out.rewards_model_.m_step(held_out._prepare(demos), posterior)
    np.testing.assert_array_equal(held_out.policies_, recounted.policies_)


def test_there_must_be_something_to_choose_on():
    with pytest.raises(InputError, match="chosen on validation trajectories; set validation_fraction above 0"):
        HIQL(2, history="auto", validation_fraction=0.0).fit(remembering(1, n=4))
    with pytest.raises(InputError, match="history must be a whole number, not 'long'"):
        HIQL(2, history="long").fit(remembering(1, n=4))


def test_identifiers_with_chosen_histories():
    found = method("prism-recurrent-hauto", 3)
    assert found.name == "Recurrent switching (history chosen)"
    assert (found.model.history, found.model.backoff, found.model.recount) == ("auto", "auto", True)
    assert method("hiql-h4", 3).model.history == 4
    assert method("hiql-hauto-k2", 3).model.n_intentions == 2
    with pytest.raises(InputError, match="no variant"):
        method("maxent-hauto", 3)
