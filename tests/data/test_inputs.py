"""Inputs are standardised once and read the same way again; words are levels; time since an event is what it says."""

import numpy as np
import pandas as pd
import pytest

from prism_irl.data.inputs import Inputs, since
from prism_irl.data.tables import read
from prism_irl.errors import InputError


@pytest.fixture
def table():
    return read(
        pd.DataFrame(
            {
                "trajectory": list("aaaabbb"),
                "state": 0,
                "action": [0, 1, 0, 1, 0, 1, 0],
                "thirst": [1.0, 2, 3, 4, 5, 6, 7],
                "sex": list("mmmmfff"),
                "water": [0, 1, 0, 0, 0, 0, 1],
                "same": 3,
            }
        )
    )


def test_numbers_and_words_become_standardised_columns(table):
    found = Inputs.learn(table, ["thirst", "sex"], [])
    assert [one.name for one in found.inputs] == ["thirst", "sex = m"]
    values = found.apply(table).demonstrations.observations
    np.testing.assert_allclose(values.mean(0), 0, atol=1e-6)
    np.testing.assert_allclose(values.std(0), 1, atol=1e-6)


def test_new_data_are_read_with_the_numbers_of_the_fit(table):
    found = Inputs.from_json(Inputs.learn(table, ["thirst", "sex"], ["water"]).to_json())
    new = table._replace(frame=table.frame.assign(thirst=4.0, sex="x"))
    values = found.apply(new).demonstrations.observations
    np.testing.assert_allclose(values[:, 0], 0, atol=1e-6)
    assert len(np.unique(values[:, 1])) == 1


def test_time_since_an_event_begins_with_the_trajectory_and_at_the_event(table):
    found = np.expm1(since(table.demonstrations, table.frame["water"].to_numpy() == 1))
    np.testing.assert_allclose(found, [0, 0, 1, 2, 0, 1, 0])


def test_where_there_are_seconds_they_count(table):
    timed = read(table.frame.assign(time=[0.0, 0.5, 2, 3, 10, 12, 13]))
    found = np.expm1(since(timed.demonstrations, timed.frame["water"].to_numpy() == 1))
    np.testing.assert_allclose(found, [0, 0, 1.5, 2.5, 0, 2, 0])


@pytest.mark.parametrize(
    ("columns", "events", "said"),
    [
        (["gone"], [], "There is no column 'gone' for the inputs"),
        (["same"], [], "is the same at every step"),
        ([], ["thirst"], "write 1 where it happens"),
    ],
)
def test_wrong_inputs_are_one_sentence(table, columns, events, said):
    with pytest.raises(InputError, match=said):
        Inputs.learn(table, columns, events)


def test_a_missing_input_is_named(table):
    table.frame.loc[2, "thirst"] = np.nan
    with pytest.raises(InputError, match="'thirst', row 2"):
        Inputs.learn(table, ["thirst"], [])
