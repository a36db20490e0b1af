"""Few labels: the E-step believes what somebody knows, and columns come into the order of the labels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from continuous_worlds import walking
from prism_irl.data.batching import Prepared
from prism_irl.data.contexts import Contexts
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.known import aligned, alignment, check_known, clamped
from prism_irl.data.tables import read, to_pandas
from prism_irl.errors import InputError
from prism_irl.models.prism import PRISM
from prism_irl.rewards import REWARDS
from prism_irl.switching import SWITCHING
from prism_irl.switching.markov import MarkovChain
from prism_irl.worlds.frustration import FrustrationWorld
from support import assert_same, frame, one_sentence, prism, refused


def steps(known: list[int]) -> Demonstrations:
    n = len(known)
    return Demonstrations.from_arrays([np.arange(n) % 3], [np.arange(n) % 2], known=[np.array(known)])


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(-1, 2), min_size=2, max_size=12), st.integers(0, 999))
def test_the_posterior_is_that_of_the_chain_given_the_known_steps(known, seed):
    """Clamping is conditioning: compare with the sum over all paths that pass through the known intentions."""
    rng = np.random.default_rng(seed)
    demos, K = steps(known), 3
    chain = MarkovChain(K)
    kernel = rng.dirichlet(np.ones(K), K)
    chain.kernel.copy_(torch.from_numpy(kernel))
    emission = np.log(rng.uniform(0.01, 1.0, (len(known), K)))
    data = Prepared.of(demos, Contexts(demos.n_states))
    found = chain.expectation(data, torch.from_numpy(clamped(emission, demos)))
    allowed = np.array([np.ones(K) if k < 0 else np.eye(K)[k] for k in known])
    weights = np.exp(emission) * allowed
    forward, total = [np.full(K, 1 / K) * weights[0]], 0.0
    for row in weights[1:]:
        forward.append(forward[-1] @ kernel * row)
    backward = [np.ones(K)]
    for row in weights[:0:-1]:
        backward.insert(0, kernel @ (row * backward[0]))
    expected = np.array(forward) * np.array(backward)
    total = expected[-1].sum()
    np.testing.assert_allclose(found.responsibilities, expected / total, atol=1e-9)
    np.testing.assert_allclose(found.log_likelihood.sum(), np.log(total), atol=1e-8)


def test_a_step_that_the_known_intention_explains_badly_is_clamped_all_the_same():
    emission = np.array([[-5000.0, -1.0], [-np.inf, -1.0]])
    held = clamped(emission, steps([0, 0]))
    assert held[0, 0] == -5000.0
    assert held[0, 1] <= -6000.0
    assert np.isneginf(held[1, 0])


def test_columns_come_into_the_order_of_the_labels():
    found = np.array([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]])
    demos = steps([1, 0, -1])
    np.testing.assert_array_equal(alignment(found, demos), [1, 0])
    np.testing.assert_array_equal(aligned(found, demos), [[0, 1], [1, 0], [0.025, 0.025]])
    np.testing.assert_array_equal(aligned(found, demos, in_order=True)[2], 0.05 * found[2])
    np.testing.assert_array_equal(alignment(found, demos, keep_last=True), [0, 1])


def test_more_known_intentions_than_intentions_are_refused():
    with pytest.raises(InputError, match="number 3, and the model has 2 intentions") as error:
        check_known(steps([0, 2]), 2)
    one_sentence(error)


def test_a_column_of_labels_with_empty_cells_is_read_and_written(tmp_path):
    table = frame(phase=["reach", None, "grasp", "", None])
    demos = read(table, labels="phase").demonstrations
    np.testing.assert_array_equal(demos.known, [0, 1, -1, -1, -1])
    assert demos.known_names == ("reach", "grasp")
    again = read(to_pandas(demos), labels="labels").demonstrations
    np.testing.assert_array_equal(again.known, demos.known)
    for name in ("d.npz", "folder"):
        demos.save(tmp_path / name)
        assert_same(Demonstrations.open(tmp_path / name), demos)
    assert demos.subset([1]).known.tolist() == [-1, -1]
    assert demos.checksum() != read(table).demonstrations.checksum()


def test_numbers_of_intentions_stay_what_they_are():
    demos = read(frame(phase=[2.0, None, None, 0.0, None]), labels="phase").demonstrations
    np.testing.assert_array_equal(demos.known, [2, -1, -1, -1, 0])


def test_labels_that_nobody_filled_in_are_refused():
    refused(frame(phase=[None] * 5), "'phase'", "empty", labels="phase")
    refused(frame(), "no column 'phase' for the labels", labels="phase")


CONTINUOUS = ("features", "landmarks", "windows")


@pytest.mark.parametrize("rewards", CONTINUOUS)
def test_continuous_pairs_are_told(rewards):
    """Goal 2 is called 0: intention 0 is what was called so, wherever nobody says anything."""
    demos = walking(n_trajectories=8, length=40)
    names = np.array([1, 2, 0])[demos.labels]
    known = np.where(np.arange(demos.n_steps) % 2 == 0, names, -1)
    options = {"n_starts": 1, "max_iterations": 4, "warm_up": 2, "n_candidates": 1, "device": "cpu"}
    model = PRISM(3, switching="markov", rewards=rewards, validation_fraction=0.0, **options)
    model.fit(replace(demos, known=known))
    found = model.predict(demos)  # which is told nothing
    assert (found == names).mean() > 0.6


def pairs() -> list[tuple[str, str]]:
    discrete = [name for name in REWARDS if name not in CONTINUOUS]
    chains = [name for name in SWITCHING if name != "single"]
    return [*((name, "tabular") for name in chains), *(("markov", name) for name in discrete if name != "tabular")]


@pytest.mark.parametrize(("switching", "rewards"), pairs())
def test_every_pair_is_told(switching, rewards):
    """With a known step in every trajectory, intention 0 of any model is what was called 0."""
    world = FrustrationWorld(horizon=20)
    demos = world.simulate(12, seed=1).demonstrations
    known = np.full(demos.n_steps, -1)
    known[:: 5 if switching != "per-trajectory" else 20] = 1
    if switching == "ordered":
        known[demos.first_steps] = 0
    told = replace(demos, known=known)
    options = {"n_starts": 1, "max_iterations": 3, "warm_up": 2, "n_candidates": 1, "embedding": 8, "hidden": 4}
    memory = {"history": 1, "backoff": 5.0} if rewards == "goals" else {}
    model = PRISM(2, switching=switching, rewards=rewards, validation_fraction=0.0, device="cpu", **options, **memory)
    seen: list[np.ndarray] = []
    original = model._new_start

    def watched(index, given):
        start = original(index, given)
        maximise = start.rewards.maximise
        start.rewards.maximise = lambda data, w: (seen.append(w), maximise(data, w))[1]
        return start

    model._new_start = watched
    model.fit(told)
    assert seen
    for responsibilities in seen:
        np.testing.assert_allclose(responsibilities[known == 1, 1], 1.0, atol=1e-6)


def test_a_fit_is_told_on_the_command_line(tmp_path):
    demos = FrustrationWorld(horizon=12).simulate(10, seed=0).demonstrations
    table = to_pandas(demos).assign(phase=None)
    table.loc[::3, "phase"] = np.where(demos.labels[::3] == 0, "goal", "give up")
    table.to_csv(tmp_path / "t.csv", index=False)
    small = ("--switching", "markov", "--starts", "windows", "--n-starts", "1", "--simulations", "0")
    done = prism("fit", "t.csv", "--labels", "phase", "--intentions", "2", *small, "--out", "r", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    scored = prism("score", "r", "t.csv", "--json", cwd=tmp_path)
    assert scored.returncode == 0, scored.stderr
    few = prism("fit", "t.csv", "--labels", "phase", "--intentions", "1", *small, "--out", "q", cwd=tmp_path)
    assert few.returncode == 2
    assert "ask for at least as many" in few.stderr
