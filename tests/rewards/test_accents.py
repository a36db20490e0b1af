"""Individuals: accents are estimated without the step itself, shared by intentions, and absent for new animals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from prism_irl.data.batching import Prepared
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.models.presets import HIQL
from prism_irl.models.references import NGram
from prism_irl.models.registry import load, save
from prism_irl.rewards.accents import _Counted, find_accents, leave_one_out, short_contexts
from prism_irl.rewards.tabular import TabularPolicies


def walkers(seed: int = 0, per_animal: int = 15, difference: float = 0.35) -> Demonstrations:
    """Three animals on a ring of five states; one of them goes left more often than the others."""
    generator = np.random.default_rng(seed)
    states, actions, groups = [], [], []
    for name, left in (("ann", 0.5 - difference), ("bob", 0.5), ("cat", 0.5 + difference)):
        for _ in range(per_animal):
            s = [int(generator.integers(5))]
            a = []
            for _ in range(40):
                a.append(int(generator.random() < left))
                s.append((s[-1] + (1 if a[-1] else -1)) % 5)
            states.append(s[:-1])
            actions.append(a)
            groups.append(name)
    return Demonstrations.from_arrays(states, actions, n_states=5, n_actions=2, groups=np.array(groups))


def test_leaving_a_step_out_is_counting_without_it() -> None:
    demos = walkers(per_animal=1)
    contexts = demos.with_history(3)
    settings = {"smoothing": 0.1, "backoff": 4.0}
    table = TabularPolicies(1, 2, contexts, **settings)
    data = Prepared.of(demos, contexts)
    table.m_step(data, np.ones((demos.n_steps, 1)))
    found = leave_one_out(table, data)
    for step in (0, 1, 2, 57, 119):
        without = np.ones((demos.n_steps, 1))
        without[step] = 0.0
        other = TabularPolicies(1, 2, contexts, **settings)
        other.m_step(data, without)
        np.testing.assert_allclose(found[step], other.policies[0][data.rows[step]], rtol=1e-12)


def test_short_contexts_end_with_the_same_states() -> None:
    demos = walkers(per_animal=2)
    deep, shallow = demos.with_history(4), demos.with_history(2)
    cells, n = short_contexts(deep)
    assert n == shallow.n_contexts
    np.testing.assert_array_equal(cells[deep.encode(demos)], shallow.encode(demos))
    assert cells[-1] == n


def test_animals_that_differ_are_predicted_better_and_new_ones_as_all() -> None:
    train, test = walkers(0), walkers(1)
    alike, own = (NGram(length=2, kernels=False, individuals=known).fit(train) for known in (False, True))
    assert own.score(test) > alike.score(test) + 0.02
    stranger = replace(test, groups=np.full(len(test), "dan"))
    np.testing.assert_allclose(own.action_proba(stranger), alike.action_proba(stranger), rtol=1e-12)
    nobody = replace(test, groups=None)
    np.testing.assert_allclose(own.action_proba(nobody), alike.action_proba(nobody), rtol=1e-12)
    np.testing.assert_allclose(own.action_proba(test).sum(1), 1.0)


def test_an_animal_has_its_bias_where_it_is_new() -> None:
    lefts, rights, either = [0] * 20, [1] * 20, [0, 1] * 10
    demos = Demonstrations.from_arrays(
        [[0] * 20, [0] * 20, [0, 1] * 10, [1, 0] * 10],
        [lefts, rights, either, either],
        n_states=2,
        n_actions=2,
        groups=np.array(["ann", "cat", "bob", "bob"]),
    )
    effects = NGram(length=1, kernels=False, individuals=True).fit(demos).table_.accents
    assert effects is not None
    left = effects.factors[:, 1, 0] / effects.factors[:, 1, 1]  # in state 1, where only bob has been
    assert left[effects.names.index("ann")] > 1.05 > 0.95 > left[effects.names.index("cat")]


def test_animals_that_do_not_differ_hardly_get_an_accent() -> None:
    same = walkers(0, difference=0.0)
    contexts = same.with_history(1)
    parts = same.split(0.8, seed=1)
    accents = find_accents(same, parts, contexts, smoothing=0.01, backoff=5.0)
    assert np.abs(np.log(accents.factors)).max() < 0.25


@pytest.mark.parametrize("history", [1, 2])
def test_a_chain_with_individuals(history: int, tmp_path: Path) -> None:
    train, test = walkers(0), walkers(1)
    options = {"history": history, "n_starts": 2, "max_iterations": 15}
    alike, own = HIQL(2, **options).fit(train), HIQL(2, individuals=True, **options).fit(train)
    assert own.accents_ is not None
    assert own.score(test) > alike.score(test)
    proba = own.action_proba(test)
    np.testing.assert_allclose(proba.sum(1), 1.0)
    np.testing.assert_allclose(np.log(proba[np.arange(len(proba)), test.actions]).mean(), own.score(test))
    save(own, tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.action_proba(test), proba)
    assert own.rewards_.shape == (2, 5, 2)


def test_individuals_need_groups() -> None:
    demos = replace(walkers(per_animal=2), groups=None)
    for model in (NGram(individuals=True), HIQL(2, individuals=True)):
        with pytest.raises(InputError, match="Individuals need groups"):
            model.fit(demos)


def test_a_saved_habit_keeps_its_accents(tmp_path: Path) -> None:
    demos = walkers()
    habit = NGram(individuals=True).fit(demos)
    save(habit, tmp_path / "habit")
    np.testing.assert_array_equal(load(tmp_path / "habit").action_proba(demos), habit.action_proba(demos))


def test_validation_trajectories_do_not_teach_the_accents_that_they_judge() -> None:
    """Other actions in the validation trajectories may change the strength, never what was counted."""
    demos = walkers()
    train, validation = demos.split(0.8, seed=0)
    other = replace(validation, actions=1 - validation.actions)
    contexts, settings = demos.with_history(2), {"smoothing": 0.01, "backoff": 5.0}
    seen = [_Counted(part, contexts, **settings).accents(32.0).factors for part in (train, demos)]
    for judge in (validation, other):
        found = find_accents(demos, (train, judge), contexts, all_data=False, **settings)
        np.testing.assert_allclose(found.factors, _Counted(train, contexts, **settings).accents(found.strength).factors)
    assert not np.allclose(seen[0], seen[1])


def test_a_model_keeps_its_validation_trajectories_out_of_its_accents() -> None:
    demos = walkers()
    model = HIQL(2, history=2, individuals=True, n_starts=1, max_iterations=3, validation_fraction=0.2).fit(demos)
    kept = demos.subset(demos.split_indices(0.2, seed=0)[1])
    assert model.accents_ is not None
    counted = _Counted(kept, model.contexts_, smoothing=0.01, backoff=model.backoff_).accents(model.accents_.strength)
    np.testing.assert_allclose(model.accents_.factors, counted.factors)
