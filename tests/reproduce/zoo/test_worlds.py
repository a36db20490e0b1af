"""Worlds of the zoo: the same seed is the same world, the oracle is exact, and no method is imported."""

import ast
import itertools
from pathlib import Path

import numpy as np
import pytest

from zoo import worlds
from zoo.worlds import BREAKS, CONTINUOUS, FAMILIES, NULLS, draw


@pytest.fixture(scope="module")
def drawn():
    return [draw(seed) for seed in range(len(FAMILIES))]


def test_consecutive_seeds_hold_every_family(drawn):
    assert [world.family for world in drawn] == list(FAMILIES)
    assert len(set(BREAKS)) * 2 >= len(FAMILIES) - len(NULLS)
    with pytest.raises(ValueError, match="choose among arrival"):
        draw(0, "nothing")


@pytest.mark.parametrize("family", FAMILIES)
def test_a_seed_is_a_world(family):
    one, again, other = draw(3, family), draw(3, family), draw(4, family)
    assert one.train.checksum() == again.train.checksum() != other.train.checksum()
    np.testing.assert_array_equal(one.oracle.probabilities, again.oracle.probabilities)
    assert (one.name, one.continuous, one.is_null) == (f"{family}-3", family in CONTINUOUS, family in NULLS)


def test_data_and_truth_belong_together(drawn):
    for world in drawn:
        for data, oracle in ((world.train, world.train_oracle), (world.test, world.oracle)):
            assert oracle.probabilities.shape == (data.n_steps, world.n_intentions)
            assert oracle.log_likelihood.shape == (data.n_steps,)
            np.testing.assert_allclose(oracle.probabilities.sum(axis=1), 1)
            assert (data.labels is None) == world.is_null
        if world.is_null:
            assert (world.n_intentions, world.rewards, world.goals) == (1, None, ())
        else:
            assert len(world.goals) == world.n_intentions >= world.n_present >= 2
        if not world.continuous:
            np.testing.assert_allclose(world.transitions.sum(axis=2), 1)
            chance = world.transitions[world.train.states, world.train.actions]
            inside = np.flatnonzero(~world.train.first_steps)
            assert (chance[inside - 1, world.train.states[inside]] > 0).all()
        if world.rewards is not None:
            rewarded = world.rewards[:, :, 0] > 0
            for places, states in zip(world.goals, rewarded, strict=True):
                assert set(world.place[states]) == set(places)


def test_the_oracle_knows_how_sure_it_is(drawn):
    right, sure = [], []
    for world in drawn:
        if not world.is_null:
            right.append(world.oracle.labels == world.test.labels)
            sure.append(world.oracle.probabilities.max(axis=1))
            assert right[-1].mean() > 0.7
    assert np.concatenate(right).mean() == pytest.approx(np.concatenate(sure).mean(), abs=0.01)


@pytest.mark.parametrize("family", ["arrival", "needs", "failures", "time", "event"])
def test_the_oracle_is_exact(family):
    """All sequences of hidden states of short trajectories, added up."""
    rng = np.random.default_rng(2)
    where = worlds.space(rng, doors=family == "failures")
    at = where.place == worlds.choose_goals(where, 2, rng)[:, None]
    mind, _ = worlds.agent(where, at, rng)
    how = worlds.rule(family, where, at, rng)
    seen = []
    kept = how._replace(seen=lambda step: seen.append(step) or how.seen(step))
    lengths, who = np.array([4, 3]), np.zeros(2, np.int64)
    run = worlds.simulate(where, mind, kept, lengths, who, rng)
    H = len(how.intention)
    for i, length in enumerate(lengths):
        total = np.zeros((length, 2))
        last = np.concatenate([[-1], run.actions[i]])
        policies = [mind.policies(run.states[i, t : t + 1], last[t : t + 1], who[:1])[0] for t in range(length)]
        kernels = [how.seen(step)[i] for step in seen[: length - 1]]
        for path in itertools.product(range(H), repeat=int(length)):
            p = how.initial[path[0]]
            for t, h in enumerate(path):
                p *= policies[t][how.intention[h], run.actions[i, t]]
                p *= kernels[t][h, path[t + 1]] if t + 1 < length else 1
            for t, h in enumerate(path):
                total[t, how.intention[h]] += p
        np.testing.assert_allclose(run.probabilities[i, :length], total / total.sum(axis=1, keepdims=True), atol=1e-9)
        assert run.log_likelihood[i, :length].sum() == pytest.approx(np.log(total[0].sum()))


def test_no_method_is_imported():
    tree = ast.parse(Path(worlds.__file__).read_text(encoding="utf-8"))
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name for name in modules if name.startswith("prism_irl")} == {"prism_irl.data.demonstrations"}
