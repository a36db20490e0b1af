"""`prism segment --names`: the names of the report's page beside the numbers."""

import json

import numpy as np
import pandas as pd
import pytest

from prism_irl.cli.main import main
from prism_irl.cli.segment import segmented
from prism_irl.data.read import read_data
from prism_irl.errors import InputError
from prism_irl.report.names import read_names

NAMES = ("go left", "go right")


class LastDigit:
    """A stand-in for a fitted model: the intention is the action."""

    n_intentions = 2

    def predict_proba(self, demos):
        return np.eye(2)[demos.actions]

    def labels_of(self, probabilities, demos):
        return probabilities.argmax(axis=1)


@pytest.fixture
def table():
    frame = pd.DataFrame(
        {"trajectory": [1, 0, 1, 0], "state": [0, 1, 2, 0], "action": [1, 0, 0, 1], "time": [9, 8, 1, 2]}
    )
    return read_data(frame)


@pytest.fixture
def names():
    return list(NAMES)


def test_names_follow_the_rows_of_the_table(table, names):
    frame = segmented(LastDigit(), table, names)
    assert frame["time"].tolist() == [9, 8, 1, 2]  # as they came
    assert frame["intention"].tolist() == [1, 0, 0, 1]
    assert frame["intention_name"].tolist() == [NAMES[k] for k in (1, 0, 0, 1)]
    assert "intention_name" not in segmented(LastDigit(), table).columns


def test_a_column_that_is_there_is_kept(table, names):
    table.frame["intention_name"] = "mine"
    frame = segmented(LastDigit(), table, names)
    assert set(frame["intention_name"]) == {"mine"}
    assert frame["predicted_intention_name"].tolist() == [NAMES[k] for k in (1, 0, 0, 1)]


def test_names_of_another_model_are_refused(tmp_path):
    (tmp_path / "names.json").write_text(json.dumps({"names": ["one", "two", "three"]}))
    with pytest.raises(InputError, match="3 names for 2 intentions"):
        read_names(tmp_path / "names.json", 2)


def test_fit_report_and_segment_with_names_from_the_command_line(tmp_path, capsys):
    rng = np.random.default_rng(0)
    goal = np.repeat(rng.integers(2, size=60), 5)  # walks to one end of a corridor of five places, then to the other
    states, actions = [2], []
    for g in goal:
        actions.append(int(g))
        states.append(int(np.clip(states[-1] + (1 if g else -1), 0, 4)))
    frame = pd.DataFrame({"trajectory": np.arange(300) // 50, "state": states[:-1], "action": actions})
    frame["state"] = [f"place {s}" for s in frame["state"]]
    frame.to_csv(tmp_path / "walk.csv", index=False)
    run, labels = tmp_path / "run", tmp_path / "labels.csv"
    options = ["--intentions", "2", "--switching", "markov", "--n-starts", "2", "--max-iterations", "20"]
    assert main(["fit", str(tmp_path / "walk.csv"), *options, "--out", str(run)]) == 0
    explored = json.loads((run / "explorer.json").read_text())
    assert explored["states"][0] == "place 0"
    assert explored["layout"]["kind"] == "graph"
    assert {path.name for path in (run / "figures").glob("*.csv")} >= {"maps.csv", "switches.csv", "em_curves.csv"}
    (run / "names.json").write_text(json.dumps({"names": NAMES}))
    assert main(["report", str(run)]) == 0
    page = (run / "report.html").read_text()
    for words in ("Did it converge?", "Can I trust it?", "go left</b>", "explorer-data"):
        assert words in page, words
    command = [
        "segment",
        str(run),
        str(tmp_path / "walk.csv"),
        "--out",
        str(labels),
        "--names",
        str(run / "names.json"),
    ]
    assert main(command) == 0
    written = pd.read_csv(labels)
    assert written["intention_name"].tolist() == [NAMES[k] for k in written["intention"]]
    capsys.readouterr()
    assert main([*command, "--overwrite", "--write-back", "x"]) == 2
    assert "--write-back" in capsys.readouterr().err
