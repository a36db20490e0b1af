from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from continuous_worlds import walking
from prism_irl.data.batching import Prepared
from prism_irl.data.contexts import Contexts
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.labels import aligned, alignment, check_known, clamped, is_file, labelled, with_labels
from prism_irl.data.read import read_data, to_pandas
from prism_irl.errors import InputError
from prism_irl.models.intentions import Intentions
from prism_irl.rewards import REWARDS
from prism_irl.switching import SWITCHING
from prism_irl.switching.markov import MarkovChain
from prism_irl.worlds.frustration import FrustrationWorld
from support import assert_same, frame, one_sentence, prism, refused


def steps(known: list[int]) -> Demonstrations:
    n = len(known)
    return Demonstrations.from_arrays([np.arange(n) % 3], [np.arange(n) % 2], partial_labels=[np.array(known)])


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
    demos = read_data(table, labels="phase").demonstrations
    np.testing.assert_array_equal(demos.partial_labels, [0, 1, -1, -1, -1])
    assert demos.partial_label_names == ("reach", "grasp")
    again = read_data(to_pandas(demos), labels="labels").demonstrations
    np.testing.assert_array_equal(again.partial_labels, demos.partial_labels)
    for name in ("d.npz", "folder"):
        demos.save(tmp_path / name)
        assert_same(Demonstrations.open(tmp_path / name), demos)
    assert demos.subset([1]).partial_labels.tolist() == [-1, -1]
    assert demos.checksum() != read_data(table).demonstrations.checksum()


def test_numbers_of_intentions_stay_what_they_are():
    demos = read_data(frame(phase=[2.0, None, None, 0.0, None]), labels="phase").demonstrations
    np.testing.assert_array_equal(demos.partial_labels, [2, -1, -1, -1, 0])


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
    model = Intentions(3, switching="markov", rewards=rewards, validation_fraction=0.0, **options)
    model.fit(replace(demos, partial_labels=known))
    found = model.predict(demos)  # which is told nothing
    assert (found == names).mean() > 0.6


def pairs() -> list[tuple[str, str]]:
    discrete = [name for name in REWARDS if name not in CONTINUOUS]
    chains = [name for name in SWITCHING if name not in ("single", "arrival")]  # whose intentions are places
    pairs = [*((name, "tabular") for name in chains), *(("markov", name) for name in discrete if name != "tabular")]
    return [*pairs, ("arrival", "places")]


@pytest.mark.parametrize(("switching", "rewards"), pairs())
def test_every_pair_is_told(switching, rewards):
    """With a known step in every trajectory, intention 0 of any model is what was called 0."""
    world = FrustrationWorld(horizon=20)
    demos = world.simulate(12, seed=1).demonstrations
    known = np.full(demos.n_steps, -1)
    known[:: 5 if switching != "per-trajectory" else 20] = 1
    if switching == "ordered":
        known[demos.first_steps] = 0
    told = replace(demos, partial_labels=known)
    options = {"n_starts": 1, "max_iterations": 3, "warm_up": 2, "n_candidates": 1, "embedding": 8, "hidden": 4}
    memory = {"history": 1, "backoff": 5.0} if rewards == "goals" else {}
    model = Intentions(
        2, switching=switching, rewards=rewards, validation_fraction=0.0, device="cpu", **options, **memory
    )
    seen: list[np.ndarray] = []
    original = model._new_start

    def watched(index, given):
        start = original(index, given)
        statistics = start.rewards.statistics
        start.rewards.statistics = lambda data, w: (seen.append(w), statistics(data, w))[1]
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


# -- labels in a table of their own ------------------------------------------------------------------------------------


def two_trajectories(**options: object) -> Demonstrations:
    """Trajectories a (4 two_trajectories) and b (3 two_trajectories)."""
    demos = Demonstrations.from_arrays([[0, 1, 0, 1], [1, 0, 1]], [[0] * 4, [0] * 3], **options)
    return replace(demos, trajectory_names=np.array(["a", "b"]))


def written(folder: Path, text: str) -> Path:
    path = folder / "known.csv"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "text",
    [
        "trajectory,step,label\nb,1,grasp\na,0,reach\na,1,reach\nb,2,grasp\na,2,\na,3,-1\n",
        "episode,start,end,label\nb,1,9,grasp\na,0,2,reach\n",
        "episode_index,first,last,label\na,0,1,reach\nb,1,2,grasp\na,0,0,reach\n",
    ],
)
def test_steps_and_stretches_say_the_same(text, tmp_path):
    demos = with_labels(two_trajectories(), written(tmp_path, text))
    np.testing.assert_array_equal(demos.partial_labels, [0, 0, -1, -1, -1, 1, 1])
    assert demos.partial_label_names == ("reach", "grasp")  # as they come in the data, whatever the order of the file


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(-1, 2), min_size=7, max_size=7).filter(lambda known: max(known) >= 0))
def test_stretches_of_any_labels_give_them_back(tmp_path_factory, known):
    flat = np.array(known)
    rows = [
        (name, i, i + 1, flat[offset + i])
        for name, offset, length in (("a", 0, 4), ("b", 4, 3))
        for i in range(length)
        if flat[offset + i] >= 0
    ]
    path = tmp_path_factory.mktemp("labels") / "known.parquet"
    pd.DataFrame(rows, columns=["trajectory", "start", "end", "label"]).to_parquet(path)
    np.testing.assert_array_equal(with_labels(two_trajectories(), path).partial_labels, flat)


def test_stretches_are_in_the_times_of_the_data(tmp_path):
    seconds = two_trajectories(times=[[0.0, 0.5, 1.0, 1.5], [10.0, 10.5, 11.0]])
    text = "trajectory,start,end,label\na,0.4,1.2,1\nb,10.5,99,0\n"
    np.testing.assert_array_equal(
        with_labels(seconds, written(tmp_path, text)).partial_labels, [-1, 1, 1, -1, -1, 0, 0]
    )
    days = np.array(["2026-01-01T10:00:00", "2026-01-01T10:01:00", "2026-01-01T10:02:00"], dtype="datetime64[ns]")
    dated = Demonstrations.from_arrays([[0, 1, 0]], [[0, 0, 0]], times=[days])
    text = "trajectory,start,end,label\n0,2026-01-01 10:00:30,2026-01-01 10:01:30,1\n"
    np.testing.assert_array_equal(with_labels(dated, written(tmp_path, text)).partial_labels, [-1, 1, -1])


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([3.0, 5.0, 10.0, 29.97, 30.0, 50.0, 60.0]), st.data())
def test_seconds_are_frames_at_any_rate(tmp_path_factory, rate, data):
    """A stretch of frames, said in seconds with the digits of an annotation program, is the same stretch."""
    frames = np.arange(200) + data.draw(st.integers(0, 5))
    demos = Demonstrations.from_arrays([[0] * 200], [[0] * 200], times=[frames])
    begin = data.draw(st.integers(int(frames[0]), int(frames[-1])))
    end = data.draw(st.integers(begin + 1, int(frames[-1]) + 1))
    digits = data.draw(st.sampled_from([7, 9, 15]))
    folder = tmp_path_factory.mktemp("labels")
    rows = f"trajectory,start_s,end_s,label\n0,{begin / rate:.{digits}f},{end / rate:.{digits}f},x\n"
    told = with_labels(demos, written(folder, rows), rate=rate).partial_labels
    np.testing.assert_array_equal(told == 0, (frames >= begin) & (frames < end))
    plain = with_labels(demos, written(folder, f"trajectory,start,end,label\n0,{begin},{end},x\n")).partial_labels
    np.testing.assert_array_equal(told, plain)


def test_seconds_count_from_the_first_step_where_the_data_have_a_clock(tmp_path):
    path = written(tmp_path, "trajectory,start_s,end_s,label\na,0.7,1.5,x\nb,0,0.3,y\n")
    clock = [[10.0, 10.7, 11.0, 11.5], [3.0, 3.3, 4.0]]  # 10.7 − 10 is a little less than 0.7
    expected = [-1, 0, 0, -1, 1, -1, -1]
    np.testing.assert_array_equal(with_labels(two_trajectories(times=clock), path).partial_labels, expected)
    dates = [
        np.datetime64("2026-01-01T10:00:00", "ns") + (1e9 * np.array(one)).astype("timedelta64[ns]") for one in clock
    ]
    np.testing.assert_array_equal(with_labels(two_trajectories(times=dates), path).partial_labels, expected)
    for demos, rate, words in (
        (two_trajectories(), None, "with --hz, or give start and end"),
        (two_trajectories(times=[[0, 1, 2, 3], [0, 1, 2]]), None, "whole numbers for times or none"),
        (two_trajectories(times=clock), 10.0, "leave --hz out"),
    ):
        with pytest.raises(InputError) as error:
            with_labels(demos, path, rate=rate)
        assert words in one_sentence(error)


def test_labels_stand_beside_the_rows_of_a_table(tmp_path):
    path = written(tmp_path, "bout,step,label\na,1,drink\nb,0,run\n")
    table = labelled(read_data(frame().rename(columns={"trajectory": "bout"}), trajectory="bout"), path, "bout")
    assert table.frame is not None
    assert table.frame["labels"].fillna("").tolist() == ["run", "", "", "drink", ""]  # rows of b and a take turns
    again = read_data(table.frame, trajectory="bout", labels="labels").demonstrations
    np.testing.assert_array_equal(again.partial_labels, table.demonstrations.partial_labels)
    assert "labels" in to_pandas(table.demonstrations)
    with pytest.raises(InputError, match="column 'labels' already") as error:
        labelled(read_data(frame(labels=0)), written(tmp_path, "trajectory,step,label\na,1,drink\n"))
    one_sentence(error)


def test_a_file_is_told_from_a_column_by_its_ending():
    assert is_file("known.csv")
    assert is_file(Path("known.parquet"))
    assert not is_file("known_drive")
    assert not is_file(None)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("trajectory,step\na,0\n", "needs the columns of a trajectory, a label"),
        ("bout,step,label\na,0,x\n", "it has bout, step, label"),
        ("trajectory,label\na,x\n", "start and end, or first and last"),
        ("trajectory,step,label\na,0,\n", "is empty"),
        ("trajectory,step,label\na,1,x\nc,0,x\n", "trajectory c at line 3"),
        ("trajectory,step,label\na,4,x\n", "step 4 at line 2"),
        ("trajectory,step,label\na,-1,x\n", "0 to 3"),
        ("trajectory,step,label\na,half,x\n", "half at line 2"),
        ("trajectory,step,label\na,0.5,x\n", "not a whole number"),
        ("trajectory,step,label\na,0,x\na,0,y\n", "two labels for trajectory a, step 0, x at line 2"),
        ("trajectory,start,end,label\na,0,3,x\na,2,4,y\n", "two labels for trajectory a, step 2"),
        ("trajectory,start,end,label\na,2,2,x\n", "ends before it begins"),
        ("trajectory,first,last,label\na,2,1,x\n", "ends before it begins"),
        ("trajectory,start,end,label\na,7,9,x\n", "holds no step of trajectory a"),
        ("trajectory,step,label\na,0,0.5\n", "0.5"),
        (
            "trajectory,start,end,start_s,end_s,label\na,0,1,0,1,x\n",
            "more than once (start and end; start_s and end_s)",
        ),
        ("trajectory,start_s,end,label\na,0,1,x\n", "or start_s and end_s; it has"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_sentence(text, words, tmp_path):
    with pytest.raises(InputError) as error:
        with_labels(two_trajectories(), written(tmp_path, text))
    assert words in one_sentence(error)


def test_data_that_cannot_be_labelled_are_refused(tmp_path):
    path = written(tmp_path, "trajectory,start,end,label\na,0,1,x\n")
    with pytest.raises(InputError, match="no file") as error:
        with_labels(two_trajectories(), tmp_path / "gone.csv")
    one_sentence(error)
    with pytest.raises(InputError, match="Time goes back") as error:
        with_labels(two_trajectories(times=[[3, 2, 1, 0], [0, 1, 2]]), path)
    one_sentence(error)
    twins = replace(two_trajectories(), trajectory_names=np.array(["a", "a"]))
    with pytest.raises(InputError, match="share a name") as error:
        with_labels(twins, path)
    one_sentence(error)
    dated = two_trajectories(times=[np.array(["2026-01-01"] * n, dtype="datetime64[ns]") for n in (4, 3)])
    with pytest.raises(InputError, match="are dates") as error:
        with_labels(dated, path)
    one_sentence(error)


def test_archives_with_the_former_name_of_partial_labels_are_read(tmp_path):
    demos = replace(steps([0, -1, 1]), partial_label_names=("eat", "run"))
    arrays = {"states": demos.states, "actions": demos.actions, "lengths": demos.lengths}
    np.savez(tmp_path / "old.npz", known=demos.partial_labels, known_names=np.array(["eat", "run"]), **arrays)
    demos.save(tmp_path / "old")
    (tmp_path / "old/partial_labels.npy").rename(tmp_path / "old/known.npy")
    meta = (tmp_path / "old/meta.json").read_text().replace("partial_labels", "known")
    (tmp_path / "old/meta.json").write_text(meta.replace("partial_label_names", "known_names"))
    for path, verify in ((tmp_path / "old.npz", True), (tmp_path / "old", False)):
        found = Demonstrations.open(path, verify=verify)
        np.testing.assert_array_equal(found.partial_labels, demos.partial_labels)
        assert found.partial_label_names == ("eat", "run")
