"""`--events`: columns become marks in the order of the steps, and wrong ones are named."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from prism_irl.cli.options import ColumnOptions
from prism_irl.cli.sources import read_events, read_source
from prism_irl.data.read import read_data
from prism_irl.errors import InputError


def table(**columns):
    rows = {"trajectory": ["b", "a", "b", "a"], "time": [1, 0, 0, 1], "state": [0, 1, 2, 3], "action": [0, 0, 0, 0]}
    return read_data(pd.DataFrame(rows | columns))


def test_marks_follow_their_rows():
    read = table(water=[1, 0, 0, 1], shock=[True, False, False, False], odd=[None, 1.0, None, None])
    found = read_events(read, ["water", "shock", "odd"])
    # b: rows 2 and 0 by time; a: rows 1 and 3.
    np.testing.assert_array_equal(read.demonstrations.states, [2, 0, 1, 3])
    np.testing.assert_array_equal(found["water"], [False, True, False, True])
    np.testing.assert_array_equal(found["shock"], [False, True, False, False])
    np.testing.assert_array_equal(found["odd"], [False, False, True, False])
    assert read_events(read, []) == {}


def test_wrong_columns_are_named():
    with pytest.raises(InputError, match=r"no column 'water'.*state"):
        read_events(table(), ["water"])
    with pytest.raises(InputError, match="column 'water', row 2 is 7"):
        read_events(table(water=[0, 1, 7, 0]), ["water"])
    with pytest.raises(InputError, match="row 1 is yes"):
        read_events(table(water=["0", "yes", "1", "0"]), ["water"])
    with pytest.raises(InputError, match="npz"):
        read_events(table()._replace(frame=None), ["water"])


def test_named_data_has_events_of_its_own(monkeypatch):
    marks = {"exit": np.array([True, False, False, False])}
    monkeypatch.setattr("prism_irl.cli.sources.NAMED", {"labyrinth": (lambda: table().demonstrations, lambda: None)})
    monkeypatch.setattr("prism_irl.cli.sources.EVENTS", {"labyrinth": lambda: marks})
    assert read_source(Path("labyrinth"), ColumnOptions(events=("exit",))).events == marks
    assert read_source(Path("labyrinth"), ColumnOptions()).events == {}
    with pytest.raises(InputError, match="no event 'water' in labyrinth; there are exit"):
        read_source(Path("labyrinth"), ColumnOptions(events=("water",)))
