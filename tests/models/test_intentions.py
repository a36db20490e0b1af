"""PRISM as a composition: defaults by the pair, options as objects, and what the parts promise together."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

import prism_irl as prism
from prism_irl.errors import InputError
from prism_irl.labels import label_accuracy
from prism_irl.rewards.options import Goals
from prism_irl.switching.options import Recurrent, State
from prism_irl.worlds.frustration import FrustrationWorld

QUICK = {"n_starts": 1, "max_iterations": 3, "device": "cpu"}


def test_a_pair_has_its_own_defaults() -> None:
    chosen = {
        ("recurrent", "tabular"): {"history": 1, "max_iterations": 180, "network": "gru", "hidden": 32, "n_starts": 4},
        ("independent", "tabular"): {"network": "rnn", "hidden": 128, "learning_rate": 1e-3},
        ("state", "goals"): {"history": "auto", "backoff": "auto", "max_iterations": 15, "n_starts": 3, "hidden": 32},
        ("markov", "soft-1"): {"discount": 0.95, "max_iterations": 80, "warm_up": 15, "n_candidates": 2},
    }
    for (switching, rewards), expected in chosen.items():
        model = prism.Intentions(3, switching=switching, rewards=rewards)
        assert {name: getattr(model, name) for name in expected} == expected
        assert clone(model).get_params() == model.get_params()
    assert prism.Intentions(3, switching="state", rewards="goals", max_iterations=7).max_iterations == 7
    model = prism.Intentions(3, rewards=Goals(sparsity=5.0))
    assert (model.history, model.pair) == ("auto", "recurrent+goals")
    assert prism.SWIRL(2, order=2).pair == "state+soft-2"


def test_options_stand_for_a_name() -> None:
    demos = FrustrationWorld().simulate(30, seed=0).demonstrations
    by_name = prism.Intentions(
        2, switching="recurrent", network="gru", hidden=8, embedding=8, learning_rate=1e-2, **QUICK
    )
    options = Recurrent(network="gru", hidden=8, embedding=8, learning_rate=1e-2)
    by_options = prism.Intentions(2, switching=options, **QUICK)
    np.testing.assert_array_equal(by_name.fit(demos).predict_proba(demos), by_options.fit(demos).predict_proba(demos))


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"switching": State(kernel="cube")}, "kernel is 'cube'; choose auto, pair, place, table, mlp"),
        ({"switching": State(shrinkage=-1.0)}, "shrinkage must be at least 0"),
        ({"rewards": Goals(habit="some")}, "habit is 'some'; choose all, idle or none"),
        ({"rewards": Goals(goal_discount=1.0)}, "goal_discount must be at least 0 and below 1"),
        ({"rewards": "soft-1", "history": 2}, "see the current state alone"),
        ({"switching": 3}, "give a name"),
        ({"switching": "single"}, "single has one intention"),
        ({"rewards": "features"}, "need observations"),
        ({"switching": "markov", "observe": "now"}, "observe is 'now'"),
        ({"switching": "per-trajectory", "starts": "annealed"}, "belongs to chains"),
    ],
)
def test_what_makes_no_sense_is_one_sentence(parameters: dict[str, object], words: str) -> None:
    demos = FrustrationWorld().simulate(5, seed=0).demonstrations
    with pytest.raises(InputError, match=words) as error:
        prism.Intentions(2, **{**QUICK, **parameters}).fit(demos)
    assert "\n" not in str(error.value)


def test_goals_with_a_kernel_that_sees_the_state() -> None:
    """The two goals of the gridworld by name, a habit that every step has taught, and a proper likelihood."""
    world = FrustrationWorld()
    demos, test = (world.simulate(n, seed=seed).demonstrations for n, seed in ((120, 3), (60, 4)))
    options = {"history": 2, "backoff": 16.0, "n_starts": 2, "max_iterations": 5, "device": "cpu"}
    model = prism.Intentions(3, switching="state", rewards="goals", **options).fit(demos)
    assert {goals[0] for goals in model.goals_[:-1]} == {0, 24}
    assert model.goals_[-1] == []
    assert model.state_rewards_.shape == (3, world.n_states)
    np.testing.assert_allclose(model.action_proba(test).sum(1), 1.0, atol=1e-9)
    idle = prism.Intentions(3, switching="state", rewards=Goals(habit="idle"), **options).fit(demos)
    assert model.score(test) > idle.score(test) - 0.005
    assert test.labels is not None
    assert label_accuracy(test.labels, model.predict(test)) > 0.6


def test_the_former_name_of_the_log_still_reads() -> None:
    demos = FrustrationWorld().simulate(5, seed=0).demonstrations
    model = prism.HIQL(2, n_starts=1, max_iterations=2).fit(demos)
    with pytest.warns(FutureWarning, match="monitor_"):
        assert model.history_ == model.monitor_


def test_rewards_on_states_only_where_there_are_some() -> None:
    demos = FrustrationWorld().simulate(10, seed=0).demonstrations
    model = prism.HIQL(2, n_starts=1, max_iterations=2).fit(demos)
    assert not hasattr(model, "state_rewards_")
    assert not hasattr(model, "goals_")
    assert not hasattr(prism.TrajectoryMixture(2, n_starts=1, max_iterations=2).fit(demos), "kernel_")


def test_another_pair_brings_its_own_defaults() -> None:
    """A grid search over pairs fits the models that it says."""
    for switching, rewards in (
        ("independent", "tabular"),
        ("state", "goals"),
        ("markov", "soft-1"),
        ("single", "tabular"),
    ):
        made = prism.Intentions(switching=switching, rewards=rewards)
        changed = clone(prism.Intentions()).set_params(switching=switching, rewards=rewards)
        assert repr(changed) == repr(made)
        assert {name: getattr(changed, name) for name in made.get_params()} == {
            name: getattr(made, name) for name in made.get_params()
        }
    named = "Intentions(n_intentions=3, switching='recurrent', seed=4)"
    assert repr(prism.Intentions(3, switching="recurrent", hidden=32, seed=4)) == named
    assert repr(prism.Intentions()) == "Intentions()"  # whose number is found


def test_the_papers_model_has_the_name_and_the_general_estimator_had_it() -> None:
    model = prism.PRISM()
    assert (model.pair, model.observe, model.n_starts) == ("independent+tabular", "current", 1)
    with pytest.warns(FutureWarning, match=r"write Intentions"):
        former = prism.PRISM(2, switching="markov")  # type: ignore[call-arg]
    assert repr(former) == "Intentions(n_intentions=2, switching='markov')"


def test_a_saved_model_is_resolved_by_its_version(tmp_path: Path) -> None:
    demos = FrustrationWorld().simulate(20, seed=0).demonstrations
    prism.PRISM(2, max_iterations=2, hidden=8, embedding=8, device="cpu").fit(demos).save(tmp_path)
    assert type(prism.load(tmp_path)) is prism.PRISM
