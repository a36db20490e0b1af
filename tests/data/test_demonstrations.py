from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score

from continuous_worlds import walking
from prism_irl import HIQL
from prism_irl.data.demonstrations import Demonstrations, Space, between, parts_of, some_trajectories, steps_of
from prism_irl.errors import InputError
from support import assert_same

OPTIONAL = ("observations", "labels", "times", "groups", "trajectory_names")


def build(lengths: list[int], groups: list[Any] | None = None) -> Demonstrations:
    """Every step has its own state, so that a step is recognised wherever it ends up."""
    n = sum(lengths)
    return Demonstrations(
        states=np.arange(n),
        actions=np.arange(n) % 3,
        offsets=np.cumsum([0, *lengths]),
        n_states=max(n, 1),
        n_actions=3,
        observations=np.arange(2 * n, dtype=np.float32).reshape(n, 2),
        labels=np.arange(n) % 2,
        times=np.arange(n) * 0.5,
        groups=None if groups is None else np.array(groups),
        trajectory_names=np.array([f"t{i}" for i in range(len(lengths))]),
    )


def groups_of(demos: Demonstrations) -> set[Any]:
    assert demos.groups is not None
    return set(demos.groups.tolist())


lengths_of_trajectories = st.lists(st.integers(1, 6), min_size=1, max_size=8)


def simple(**changes: Any) -> Demonstrations:
    fields = {"states": [0, 1, 2], "actions": [0, 1, 0], "offsets": [0, 2, 3], "n_states": 3, "n_actions": 2} | changes
    arrays: dict[str, Any] = {name: v if isinstance(v, int) else np.asarray(v) for name, v in fields.items()}
    return Demonstrations(**arrays)


class TestChecks:
    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"offsets": [0]}, "no trajectory"),
            ({"offsets": []}, "no trajectory"),
            ({"offsets": [1, 2, 3]}, "offsets begin with 1"),
            ({"offsets": [0, 2, 2, 3]}, "Trajectory 1 is empty"),
            ({"offsets": [0, 2, 2, 3], "trajectory_names": ["a", "b", "c"]}, "Trajectory b is empty"),
            ({"offsets": [0, 2, 4]}, r"states have shape \(3,\) for 4 steps"),
            ({"actions": [0, 1]}, r"actions have shape \(2,\) for 3 steps"),
            ({"labels": [[0, 1, 0]]}, r"labels have shape \(1, 3\) for 3 steps"),
            ({"states": [0.0, 1.0, 2.0]}, "states are of type float64"),
            ({"actions": ["a", "b", "a"]}, "actions are of type"),
            ({"states": [0, 3, 2]}, "state 3 at trajectory 0, step 1 is out of range; state ids run from 0 to 2"),
            ({"actions": [0, 1, -1]}, "action -1 at trajectory 1, step 0 is out of range"),
            ({"labels": [0, 0, -1]}, "label -1 at trajectory 1, step 0"),
            ({"states": [0, 3, 2], "trajectory_names": ["a", "b"]}, "state 3 at trajectory a, step 1"),
            ({"times": [0, 1]}, "2 times for 3 steps"),
            ({"observations": [[0.0], [1.0]]}, "2 observations for 3 steps"),
            ({"observations": [0.0, 1.0, 2.0]}, r"Observations have shape \(3,\)"),
            ({"observations": [[0.0], [1.0], [np.nan]]}, "observation at trajectory 1, step 0 is not finite"),
            ({"groups": [0]}, "1 groups for 2 trajectories"),
            ({"trajectory_names": ["a", "b", "c"]}, "3 trajectory_names for 2 trajectories"),
            ({"valid_actions": np.ones((2, 3))}, r"\(states, actions\) = \(3, 2\)"),
            ({"valid_actions": [[1, 1], [1, 1], [0, 0]]}, "State 2 has no valid action"),
            ({"valid_actions": [[1, 1], [1, 0], [1, 1]]}, "Action 1 in state 1 at trajectory 0, step 1 is marked"),
        ],
    )
    def test_what_is_wrong_and_where(self, changes: dict[str, Any], message: str) -> None:
        with pytest.raises(InputError, match=message):
            simple(**changes)

    @pytest.mark.parametrize(("size", "dtype"), [(1, "u1"), (256, "u1"), (257, "u2"), (65536, "u2"), (65537, "u4")])
    def test_smallest_type_that_fits(self, size: int, dtype: str) -> None:
        demos = simple(states=[0, size - 1, 0], n_states=size, actions=[0, size - 1, 0], n_actions=size)
        assert demos.states.dtype == demos.actions.dtype == np.dtype(dtype)
        assert demos.states[1] == demos.actions[1] == size - 1

    def test_types_of_the_rest(self) -> None:
        demos = simple(labels=[0, 1, 2], observations=np.ones((3, 2)), valid_actions=np.ones((3, 2)))
        assert demos.labels is not None
        assert demos.observations is not None
        assert demos.valid_actions is not None
        types = [values.dtype.name for values in (demos.labels, demos.observations, demos.valid_actions)]
        assert types == ["int32", "float32", "bool"]


class TestShape:
    @given(lengths_of_trajectories)
    @settings(max_examples=30, deadline=None)
    def test_indices(self, lengths: list[int]) -> None:
        demos = build(lengths)
        assert (demos.n_trajectories, len(demos), demos.n_steps) == (len(lengths), len(lengths), sum(lengths))
        assert demos.lengths.tolist() == lengths
        steps = [(i, t) for i, length in enumerate(lengths) for t in range(length)]
        assert list(zip(demos.trajectory_index, demos.step_index, strict=True)) == steps
        assert demos.first_steps.tolist() == [t == 0 for _, t in steps]
        assert [demos.where(j) for j in range(len(steps))] == [f"trajectory t{i}, step {t}" for i, t in steps]

    def test_repr(self) -> None:
        assert repr(build([2, 2])).startswith("Demonstrations(2 trajectories, 2 steps each, 4 in all; 4 states")
        text = repr(build([1, 3], groups=[5, 5]))
        assert "1–3 steps" in text
        assert "observations, true labels, 1 groups" in text


class TestFromArrays:
    def test_ragged_and_rectangular(self) -> None:
        ragged = Demonstrations.from_arrays([[0, 4], [1]], [np.array([0, 1]), np.array([1])], labels=[[0, 0], [1]])
        assert (ragged.n_states, ragged.n_actions) == (5, 2)
        assert ragged.offsets.tolist() == [0, 2, 3]
        assert ragged.labels is not None
        assert ragged.labels.tolist() == [0, 0, 1]
        square = Demonstrations.from_arrays(
            np.array([[0, 1], [2, 0]]),
            np.array([[0, 1], [1, 1]]),
            observations=np.arange(12.0).reshape(2, 2, 3),
            times=np.array([[0, 1], [5, 6]]),
            groups=["a", "b"],
            n_states=9,
        )
        assert square.n_states == 9
        assert square.states.tolist() == [0, 1, 2, 0]
        assert square.times is not None
        assert square.times.tolist() == [0, 1, 5, 6]
        assert square.observations is not None
        assert square.observations[2].tolist() == [6, 7, 8]

    def test_one_trajectory(self) -> None:
        one = Demonstrations.from_arrays(np.array([0, 1, 2]), np.array([0, 0, 0]), observations=np.zeros((3, 2)))
        assert one.offsets.tolist() == [0, 3]

    @pytest.mark.parametrize(
        ("arrays", "message"),
        [
            ({"states": [], "actions": []}, "no trajectory"),
            ({"states": [[0], []], "actions": [[0], [0]]}, "Trajectory 1 is empty"),
            ({"states": [[0], [1, 1]], "actions": [[0], [0]]}, "actions of trajectory 1 do not match"),
            ({"states": [[0], [1]], "actions": [[0]]}, "actions of trajectory 1 do not match"),
            ({"states": [[0, 1]], "actions": [[0, 1]], "labels": [[0]]}, "labels of trajectory 0 do not match"),
            ({"states": [0, 1], "actions": [0, 1]}, "states of trajectory 0 have 0 dimensions instead of 1"),
            ({"states": np.zeros((1, 2, 3), int), "actions": [[0]]}, "states have 3 dimensions"),
            ({"states": [[0.5, 1]], "actions": [[0, 1]]}, "states are of type float64"),
            ({"states": [[0, 1]], "actions": [["a", "b"]]}, "actions are of type"),
            ({"states": [[0, 1]], "actions": [[0, 1]], "n_actions": 1}, "action 1 at trajectory 0, step 1"),
            ({"states": [[0, -1]], "actions": [[0, 1]]}, "state -1 at trajectory 0, step 1"),
            ({"states": [[0, 1]], "actions": [[0, 1]], "groups": [0, 1]}, "2 groups for 1 trajectories"),
        ],
    )
    def test_wrong_arrays(self, arrays: dict[str, Any], message: str) -> None:
        with pytest.raises(InputError, match=message):
            Demonstrations.from_arrays(**arrays)


class TestSubset:
    @given(lengths_of_trajectories, st.data())
    @settings(max_examples=30, deadline=None)
    def test_everything_moves_together(self, lengths: list[int], data: st.DataObject) -> None:
        demos = build(lengths, groups=list(range(len(lengths))))
        index = data.draw(st.lists(st.integers(0, len(lengths) - 1), min_size=1, max_size=10))
        part = demos.subset(index)
        slices = [range(demos.offsets[i], demos.offsets[i + 1]) for i in index]
        steps = [step for steps in slices for step in steps]
        assert part.states.tolist() == steps
        assert part.lengths.tolist() == [lengths[i] for i in index]
        for name in ("actions", "observations", "labels", "times"):
            np.testing.assert_array_equal(getattr(part, name), getattr(demos, name)[steps])
        for name in ("groups", "trajectory_names"):
            np.testing.assert_array_equal(getattr(part, name), getattr(demos, name)[index])
        assert (part.n_states, part.states.dtype) == (demos.n_states, demos.states.dtype)

    def test_masks(self) -> None:
        assert build([2, 1, 3]).subset([True, False, True]).states.tolist() == [0, 1, 3, 4, 5]
        with pytest.raises(InputError, match="no trajectory"):
            build([2, 1]).subset([False, False])

    def test_without_optional_parts(self) -> None:
        part = simple().subset([1])
        assert all(getattr(part, name) is None for name in OPTIONAL)


class TestSplits:
    @given(lengths_of_trajectories.filter(lambda x: len(x) > 1), st.floats(0.01, 0.99), st.integers(0, 9))
    @settings(max_examples=30, deadline=None)
    def test_split_is_a_partition_of_about_the_fraction(self, lengths: list[int], fraction: float, seed: int) -> None:
        demos = build(lengths)
        first, second = demos.split(fraction, seed=seed)
        assert sorted([*first.states, *second.states]) == list(range(demos.n_steps))
        assert abs(len(first) - fraction * len(demos)) <= 1
        for part in (first, second):
            assert part.trajectory_names is not None
            assert (np.diff(part.states.astype(int)) > 0).all(), "in the original order"

    @given(st.lists(st.integers(0, 4), min_size=2, max_size=12), st.data())
    @settings(max_examples=30, deadline=None)
    def test_folds_are_a_partition_and_never_cut_a_group(self, groups: list[int], data: st.DataObject) -> None:
        demos = build([2] * len(groups), groups=groups)
        by = data.draw(st.sampled_from(["trajectory", "group"] if len(set(groups)) > 1 else ["trajectory"]))
        n_units = len(groups) if by == "trajectory" else len(set(groups))
        k = data.draw(st.integers(2, n_units))
        folds = list(demos.folds(k, by=by, seed=data.draw(st.integers(0, 5))))
        assert len(folds) == k
        assert sorted(s for _, test in folds for s in test.states) == list(range(demos.n_steps))
        for train, test in folds:
            assert sorted([*train.states, *test.states]) == list(range(demos.n_steps))
            if by == "group":
                assert not groups_of(train) & groups_of(test)
        sizes = [len(test) if by == "trajectory" else len(groups_of(test)) for _, test in folds]
        assert max(sizes) - min(sizes) <= 1

    @given(st.lists(st.sampled_from("abc"), min_size=2, max_size=12).filter(lambda g: len(set(g)) > 1))
    @settings(max_examples=30, deadline=None)
    def test_split_by_group_never_cuts_a_group(self, groups: list[str]) -> None:
        demos = build([1] * len(groups), groups=groups)
        first, second = demos.split(0.5, by="group", seed=3)
        assert not groups_of(first) & groups_of(second)
        assert len(first) + len(second) == len(groups)

    def test_seed_decides(self) -> None:
        demos = build([1] * 20)
        splits = [demos.split_indices(0.5, seed=seed)[0].tolist() for seed in (0, 0, 1)]
        assert splits[0] == splits[1] != splits[2]
        folds = [[test.tolist() for _, test in demos.fold_indices(4, seed=seed)] for seed in (0, 0, 1)]
        assert folds[0] == folds[1] != folds[2]

    @pytest.mark.parametrize("fraction", [0.0, 1.0, -1.0, 2.0, float("nan")])
    def test_fraction_out_of_range(self, fraction: float) -> None:
        with pytest.raises(InputError, match="between 0 and 1"):
            build([1, 1]).split(fraction)

    def test_impossible_splits(self) -> None:
        with pytest.raises(InputError, match="Cannot split one trajectory"):
            build([3]).split(0.5)
        with pytest.raises(InputError, match="Cannot split one group"):
            build([1, 1], groups=[0, 0]).split(0.5, by="group")
        with pytest.raises(InputError, match="have no groups; name the group column"):
            build([1, 1]).split(0.5, by="group")
        with pytest.raises(InputError, match="'trajectory' or 'group'"):
            build([1, 1]).split(0.5, by="animal")
        for k in (0, 1, 3):
            with pytest.raises(InputError, match=f"{k} folds of 2 trajectories; choose between 2 and 2"):
                build([1, 1]).fold_indices(k)


class TestOther:
    def test_checksum_covers_what_a_fit_reads_and_nothing_else(self) -> None:
        base = {"observations": np.zeros((3, 1)), "valid_actions": np.ones((3, 2))}
        variants = [
            simple(**base),
            simple(),
            simple(**base, states=[0, 1, 1]),
            simple(**base, actions=[0, 0, 0]),
            simple(**base, offsets=[0, 1, 3]),
            simple(**base, offsets=[0, 3]),
            simple(**base | {"observations": np.ones((3, 1))}),
            simple(**base | {"valid_actions": [[1, 1], [1, 1], [1, 0]]}),
            simple(observations=np.zeros((3, 1)), n_states=4),
            simple(observations=np.zeros((3, 1)), n_actions=3),
        ]
        sums = [demos.checksum() for demos in variants]
        assert len(set(sums)) == len(sums)
        assert simple(**base, labels=[0, 1, 1], times=[1, 2, 3]).checksum() == sums[0]
        # Individuals may have policies of their own.
        assert simple(**base, groups=[0, 1]).checksum() not in (*sums, simple(**base, groups=[0, 2]).checksum())
        # The same steps in wider types are the same data.
        assert simple(n_states=3).checksum() == simple(states=np.array([0, 1, 2], dtype=np.int64)).checksum()

    def test_resized(self) -> None:
        demos = simple(valid_actions=np.ones((3, 2)))
        wider = demos.resized(n_actions=300)
        assert (wider.n_states, wider.n_actions, wider.valid_actions) == (3, 300, None)
        assert wider.actions.dtype == np.uint16
        assert demos.resized(n_states=7).n_states == 7
        with pytest.raises(InputError, match="state 2"):
            demos.resized(n_states=2)

    def test_with_valid_actions(self) -> None:
        mask = [[1, 0], [0, 1], [1, 1]]
        masked = simple().with_valid_actions(mask)
        assert masked.valid_actions is not None
        assert masked.valid_actions.tolist() == np.array(mask, dtype=bool).tolist()
        assert masked.with_valid_actions(None).valid_actions is None

    def test_table_and_back(self) -> None:
        demos = build([2, 3], groups=[4, 5])
        again = Demonstrations.from_table(demos.to_pandas(), observations=("observation_0", "observation_1"))
        for name in ("states", "actions", "offsets", *OPTIONAL):
            np.testing.assert_array_equal(getattr(again, name), getattr(demos, name))

    def test_history_is_the_contexts_of_that_length(self) -> None:
        contexts = build([3, 2]).with_history(2)
        assert contexts.length == 2
        pairs = [(a, b) for part in ([0, 1, 2], [3, 4]) for a, b in pairwise(part)]
        assert sorted(zip(contexts.oldest[0], contexts.parents[0], strict=True)) == pairs


LENGTHS = (7, 1, 4, 12)


def motion_demos(make_demos, **options):
    demos = make_demos(0, lengths=LENGTHS, n_observations=2)
    rng = np.random.default_rng(1)
    n = demos.n_steps
    return demos.with_commands(rng.normal(size=(n, 3)), rng.normal(size=(n, 3, 2)), **options)


def test_subset_takes_commands_of_the_same_steps(make_demos):
    demos = motion_demos(make_demos)
    part = demos.subset([3, 0])
    steps = [*range(12, 24), *range(7)]
    np.testing.assert_array_equal(part.motions, demos.motions[steps])
    np.testing.assert_array_equal(part.design, demos.design[steps])
    np.testing.assert_array_equal(part.states, demos.states[steps])
    mask = np.array([True, False, False, True])
    np.testing.assert_array_equal(demos.subset(mask).motions, demos.motions[[*range(7), *range(12, 24)]])


def test_checksum_knows_commands(make_demos):
    demos = motion_demos(make_demos)
    moved = demos.with_commands(demos.motions + 1e-9, demos.design)
    assert demos.checksum() != moved.checksum()
    assert demos.checksum() == motion_demos(make_demos).checksum()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"motions": np.zeros((5, 3))}, "commands have shape"),
        ({"design": np.zeros((24, 2, 2))}, "design has shape"),
        ({"noise_blocks": (0, 2, 2)}, "no gaps"),
        ({"noise_blocks": (0, 1)}, "each of 3"),
    ],
)
def test_wrong_shapes_are_named(make_demos, change, words):
    demos = motion_demos(make_demos)
    given = {"motions": demos.motions, "design": demos.design} | change
    with pytest.raises(InputError, match=words):
        demos.with_commands(given.pop("motions"), given.pop("design"), **given)


def test_commands_that_are_not_finite_are_located(make_demos):
    demos = motion_demos(make_demos)
    broken = demos.motions.copy()
    broken[9, 1] = np.nan
    with pytest.raises(InputError, match="command at trajectory 2"):
        demos.with_commands(broken, demos.design)


def test_spaces_are_of_ids_or_of_numbers(make_demos):
    tokens = make_demos(0, lengths=LENGTHS, n_observations=2)
    assert (tokens.state_space, tokens.action_space) == (Space(tokens.n_states), Space(tokens.n_actions))
    explained = motion_demos(make_demos)
    assert (explained.state_space.continuous, explained.action_space) == (False, Space(3, continuous=True))
    measured = tokens.with_commands(explained.motions)
    assert measured.state_space == Space(2, continuous=True)
    assert repr(measured).endswith("R^2 as states, R^3 as actions)")


def test_commands_need_something_to_depend_on(make_demos):
    with pytest.raises(InputError, match="observations or a design"):
        make_demos(0, lengths=LENGTHS).with_commands(np.zeros((24, 2)))


def test_demonstrations_are_a_sequence_of_trajectories() -> None:
    demos = Demonstrations.from_arrays([[0, 1], [1], [0, 0, 1]], [[0, 0], [1], [1, 0, 0]])
    assert_same(demos[-1], demos.subset([2]))
    assert_same(demos[1:], demos.subset([1, 2]))
    assert_same(demos[np.array([True, False, True])], demos.subset([0, 2]))
    assert [one.n_steps for one in demos] == [2, 1, 3]
    with pytest.raises(IndexError):
        demos[3]


def test_splits_and_searches_of_scikit_learn_work() -> None:
    rng = np.random.default_rng(0)
    demos = Demonstrations.from_arrays(rng.integers(3, size=(12, 8)), rng.integers(2, size=(12, 8)))
    model = HIQL(1, n_starts=1, max_iterations=2, device="cpu")
    groups = np.repeat([0, 1, 2], 4)
    scores = cross_val_score(model, demos, cv=GroupKFold(3), groups=groups)
    train, test = next(GroupKFold(3).split(demos, groups=groups))
    first = model.fit(demos.subset(train)).score(demos.subset(test))
    assert scores[0] == pytest.approx(first)
    search = GridSearchCV(model, {"n_intentions": [1, 2]}, cv=2, error_score="raise").fit(demos)
    assert search.best_params_["n_intentions"] in (1, 2)


# -- steps of some trajectories, and some trajectories of many.


SOME_LENGTHS = st.lists(st.integers(1, 9), min_size=1, max_size=12)


def of_lengths(lengths: list[int]) -> Demonstrations:
    """Trajectories of these lengths, of one state and one action."""
    rows = [np.zeros(n, np.int64) for n in lengths]
    return Demonstrations.from_arrays(rows, rows)


@settings(max_examples=30, deadline=None)
@given(SOME_LENGTHS, st.randoms())
def test_steps_are_those_of_the_trajectories_in_their_order(lengths, random):
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    chosen = random.sample(range(len(lengths)), random.randint(0, len(lengths)))
    expected = [step for i in chosen for step in range(offsets[i], offsets[i + 1])]
    assert steps_of(offsets, np.array(chosen, np.int64)).tolist() == expected


@settings(max_examples=30, deadline=None)
@given(SOME_LENGTHS, st.integers(1, 40), st.integers(0, 5))
def test_a_sample_is_enough_and_hardly_more(lengths, most, seed):
    demos = of_lengths(lengths)
    chosen = some_trajectories(demos, most, seed)
    taken = demos.lengths[chosen]
    assert (np.diff(chosen) > 0).all()
    assert taken.sum() >= min(most, sum(lengths))
    assert taken.sum() < most + max(lengths)
    among = some_trajectories(demos, most, seed, np.arange(0, len(demos), 2))
    assert (among % 2 == 0).all()


def test_whoever_is_known_is_in_the_sample():
    demos = of_lengths([5] * 40)
    known = np.full(demos.n_steps, -1)
    known[[33, 101]] = 1  # in trajectories 6 and 20
    for seed in range(5):
        assert {6, 20} <= set(some_trajectories(replace(demos, partial_labels=known), 15, seed).tolist())


@settings(max_examples=20, deadline=None)
@given(SOME_LENGTHS, st.integers(1, 20))
def test_parts_are_all_steps_in_order(lengths, most):
    demos = of_lengths(lengths)
    rows = [(part.start, part.stop, own.n_steps) for part, own in parts_of(demos, most)]
    assert [begin for begin, _, _ in rows] == [0, *(end for _, end, _ in rows[:-1])]
    assert rows[-1][1] == demos.n_steps
    assert all(end - begin == n for begin, end, n in rows)


def test_what_lies_together_is_not_copied():
    demos = walking(n_trajectories=6, length=5)
    demos = replace(demos, groups=np.arange(6), trajectory_names=np.array(list("abcdef")))
    part = between(demos, 2, 5)
    assert_same(part, demos.subset([2, 3, 4]))
    assert part.where(7) == "trajectory d, step 2"
    assert part.observations.base is not None


def test_few_long_trajectories_are_cut_into_pieces():
    demos = Demonstrations.from_arrays([np.zeros(100, int), np.zeros(30, int)], [np.zeros(100, int), np.zeros(30, int)])
    assert demos.in_pieces(6).lengths.tolist() == [33, 33, 34, 30]
    assert demos.in_pieces(2) is demos
