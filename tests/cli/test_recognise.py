"""Columns are taken for what they are, and asked for where nobody can know."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from prism_irl.cli.recognise import recognise
from prism_irl.errors import InputError
from support import one_sentence

N = 60


def table(folder: Path, **columns: object) -> Path:
    """A table of three animals with two bouts each, numbered anew for each animal, with further columns."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"animal": np.repeat(["a", "b", "c"], N // 3), "bout": np.arange(N) // 10 % 2})
    frame = frame.assign(state=rng.integers(0, 4, N), action=rng.integers(0, 2, N) + 5)
    for name, values in columns.items():
        frame[name] = values
    frame = frame[[name for name in frame if frame[name].notna().any()]]
    frame.to_csv(folder / "table.csv", index=False)
    return folder / "table.csv"


def test_names_and_contents_say_what_a_column_is(tmp_path: Path) -> None:
    found = recognise(table(tmp_path, water=np.arange(N) % 7 == 0, drug=np.repeat(["x", "y", "y"], 20)), {})
    assert found.columns == {"trajectory": "animal,bout", "state": "state", "action": "action", "group": "animal"}
    assert (found.events, found.conditions) == (["water"], ["drug"])
    assert found.said == (
        "Columns: trajectory animal,bout, state state, action action, group animal, event water, condition drug."
    )


def test_what_is_given_wins(tmp_path: Path) -> None:
    found = recognise(table(tmp_path, cell=np.arange(N) % 3), {"state": "cell", "trajectory": "animal"})
    assert (found.columns["state"], found.columns["trajectory"]) == ("cell", "animal")


def test_a_group_of_treatments_is_no_group_of_animals(tmp_path: Path) -> None:
    found = recognise(table(tmp_path, group=np.repeat(["control", "drug", "drug"], 20)), {})
    assert found.columns["group"] == "animal"
    assert found.conditions == ["group"]
    alone = table(
        tmp_path, group=np.repeat(["control", "drug", "drug"], 20), animal=None, trajectory=np.arange(N) // 10
    )
    assert "group" not in recognise(alone, {}).columns


def test_numbers_with_their_velocities_are_continuous(tmp_path: Path) -> None:
    x = np.random.default_rng(1).normal(size=(N, 4)).round(3)
    numbers = dict(zip(("x", "grip", "vx", "vgrip"), x.T, strict=True))
    found = recognise(table(tmp_path, **numbers, state=None, action=None), {})
    assert (found.columns["observe"], found.columns["act"]) == ("x,grip", "vx,vgrip")


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (
            {"state": None, "cell": np.arange(N) % 3, "node": np.arange(N) % 4},
            "state may be cell or node; .* --state cell",
        ),
        ({"state": None, "action": None}, "No column of the table looks like the state"),
        ({"animal": None, "bout": None}, "No column of the table names the trajectory .* --trajectory animal,bout"),
    ],
)
def test_what_nobody_can_know_is_one_sentence(columns: dict[str, object], words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words) as error:
        recognise(table(tmp_path, **columns), {})
    one_sentence(error)
