import numpy as np
import pandas as pd
import pytest

from prism_irl.data.covariates import Inputs, since
from prism_irl.data.read import read_data
from prism_irl.errors import InputError


@pytest.fixture
def table():
    return read_data(
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
    later = ~table.demonstrations.first_steps  # the first steps have no row before
    np.testing.assert_allclose(values[later, 0].mean(), 0, atol=1e-6)
    np.testing.assert_allclose(values[later, 0].std(), 1, atol=1e-6)
    np.testing.assert_allclose((values[:, 1].mean(), values[:, 1].std()), (0, 1), atol=1e-6)


def test_new_data_are_read_with_the_numbers_of_the_fit(table):
    found = Inputs.from_json(Inputs.learn(table, ["thirst", "sex"], ["water"]).to_json())
    new = table._replace(frame=table.frame.assign(thirst=found.inputs[0].mean, sex="x"))
    values = found.apply(new).demonstrations.observations
    np.testing.assert_allclose(values[:, 0], 0, atol=1e-6)
    assert len(np.unique(values[:, 1])) == 1


def test_time_since_an_event_begins_with_the_trajectory_and_at_the_event(table):
    found = np.expm1(since(table.demonstrations, table.frame["water"].to_numpy() == 1))
    np.testing.assert_allclose(found, [0, 0, 1, 2, 0, 1, 0])


def test_where_there_are_seconds_they_count(table):
    timed = read_data(table.frame.assign(time=[0.0, 0.5, 2, 3, 10, 12, 13]))
    found = np.expm1(since(timed.demonstrations, timed.frame["water"].to_numpy() == 1))
    np.testing.assert_allclose(found, [0, 0, 1.5, 2.5, 0, 2, 0])


def test_what_varies_is_read_from_the_row_before(table):
    found = Inputs.learn(table, ["thirst", "sex"], ["water"])
    assert [one.lag for one in found.inputs] == [1, 0, 1]  # the sex of an animal is known before it does anything
    np.testing.assert_array_equal(found.inputs[0].raw(table), [np.nan, 1, 2, 3, np.nan, 5, 6])
    assert found.apply(table).demonstrations.observations[[0, 4], 0].tolist() == [0.0, 0.0]
    assert Inputs.learn(table, ["thirst:now"], []).inputs[0].lag == 0


def test_time_since_counts_from_the_step_after_the_event(table):
    found = Inputs.learn(table, [], ["water"]).inputs[0]
    np.testing.assert_allclose(np.expm1(found.raw(table)), [0, 1, 0, 1, 0, 1, 2])
    later = table._replace(frame=table.frame.assign(water=[0, 0, 1, 0, 0, 0, 0]))
    own = Inputs.from_json([vars(found) | {"lag": 0}]).inputs[0]
    np.testing.assert_array_equal(own.raw(later), found.raw(table))  # as if it had been marked one row later


def test_inputs_of_a_step_do_not_know_its_row(table):
    """Change every row from some step on: what steps up to that one read stays as it was."""
    found = Inputs.learn(table, ["thirst"], ["water"])
    values = found.apply(table).demonstrations.observations
    for t in range(7):
        frame = table.frame.copy()
        frame.loc[t:, "thirst"] += 5.0
        frame.loc[t:, "water"] = 1 - frame.loc[t:, "water"]
        changed = found.apply(table._replace(frame=frame)).demonstrations.observations
        np.testing.assert_array_equal(changed[: t + 1], values[: t + 1])


def test_saved_inputs_without_a_lag_are_read_as_they_were_fitted(table):
    old = Inputs.from_json([{"column": "water", "kind": "since", "level": None, "mean": 0.0, "spread": 1.0}])
    np.testing.assert_allclose(np.expm1(old.inputs[0].raw(table)), [0, 0, 1, 2, 0, 1, 0])


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
