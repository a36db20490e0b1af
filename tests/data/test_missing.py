"""A missing step is an error that names the ways out, a cut, or a step that says nothing and breaks nothing."""

import numpy as np
import pandas as pd
import pytest

from prism_irl.data.tables import read
from prism_irl.errors import InputError
from prism_irl.labels import label_accuracy
from prism_irl.models.hiql import HIQL
from support import prism
from worlds.cohort import CohortWorld


@pytest.fixture
def frame():
    return pd.DataFrame(
        {
            "trajectory": list("aaaabb"),
            "state": ["x", "y", None, "x", "y", "y"],
            "action": [0, 1, 0, 1, np.nan, 0],
            "group": list("ggggii"),
        }
    )


def test_the_error_names_the_place_and_two_ways_out(frame):
    with pytest.raises(InputError, match=r"row 2 \(trajectory a\) is missing.*skip.*split"):
        read(frame)


def test_split_begins_a_new_trajectory_after_each_gap(frame):
    found = read(frame, missing="split")
    assert found.demonstrations.trajectory_names.tolist() == ["a/0", "a/1", "b/1"]
    assert found.demonstrations.lengths.tolist() == [2, 1, 1]
    assert found.demonstrations.groups.tolist() == ["g", "g", "i"]
    assert len(found.frame) == 4


def test_split_follows_time_and_not_the_rows(frame):
    found = read(frame.iloc[:4].assign(time=[3, 2, 1, 0]), missing="split").demonstrations
    assert found.lengths.tolist() == [2, 1] or found.lengths.tolist() == [1, 2]
    assert found.n_steps == 3


def test_skip_keeps_every_row_and_gives_the_missing_ones_one_thing_to_do(frame):
    found = read(frame, missing="skip")
    demos = found.demonstrations
    assert demos.states.tolist() == [0, 1, 2, 0, 2, 1]
    assert demos.actions.tolist() == [0, 1, 0, 1, 0, 0]
    assert demos.valid_actions.tolist() == [[True, True], [True, True], [True, False]]
    again = read(frame, missing="skip", states=found.states, actions=found.actions).demonstrations
    np.testing.assert_array_equal(again.states, demos.states)


def test_without_gaps_split_changes_nothing(frame):
    whole = frame.iloc[[0, 1, 3, 5]]
    assert read(whole, missing="split").demonstrations.checksum() == read(whole).demonstrations.checksum()


def test_nothing_at_all_is_refused(frame):
    with pytest.raises(InputError, match="Every row lacks"):
        read(frame.assign(state=None), missing="skip")
    with pytest.raises(InputError, match="choose error, skip or split"):
        read(frame, missing="guess")


@pytest.mark.parametrize(("share", "most"), [(0.1, 0.02), (0.3, 0.05)])
def test_labels_survive_missing_actions(share, most):
    whole = CohortWorld(animals=6, trajectories=5, horizon=60).simulate(0).demonstrations.to_pandas()
    gaps = whole.assign(action=whole["action"].mask(np.random.default_rng(0).random(len(whole)) < share))
    accuracy = {}
    for name, table in (("whole", whole), ("gaps", gaps)):
        demos = read(table, missing="skip").demonstrations
        model = HIQL(2, n_starts=2).fit(demos)
        accuracy[name] = label_accuracy(demos.labels, model.predict(demos))
        lost = demos.states == demos.n_states - 1
        np.testing.assert_allclose(model.posterior(demos).log_likelihood[lost], 0, atol=1e-12)
    assert accuracy["gaps"] > accuracy["whole"] - most


def test_on_the_command_line_a_run_keeps_its_way_with_gaps(tmp_path):
    frame = CohortWorld(animals=4, trajectories=2, horizon=40).simulate(0).demonstrations.to_pandas()
    frame["drug"] = np.where(frame["group"] < "a04", "saline", "drug")
    gaps = frame.assign(action=frame["action"].mask(np.random.default_rng(0).random(len(frame)) < 0.1))
    gaps.to_csv(tmp_path / "gaps.csv", index=False)
    quick = ("--method", "hiql", "--intentions", 2, "--n-starts", 1, "--simulations", 0, "--out", "run")
    refused = prism("fit", "gaps.csv", *quick, cwd=tmp_path)
    assert refused.returncode == 2
    assert "--missing skip" in refused.stderr
    done = prism("fit", "gaps.csv", "--missing", "skip", *quick, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert prism("score", "run", "gaps.csv", cwd=tmp_path).returncode == 0
    done = prism("contrast", "run", "--by", "drug", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(pd.read_parquet(tmp_path / "run" / "segments.parquet")) == len(frame)
