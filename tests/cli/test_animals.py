"""`prism contrast` from a run folder: the report says it, and wrong input loses nothing."""

import json

import numpy as np
import pandas as pd
import pytest

from prism_irl.cli.animals import compared_levels
from support import prism
from worlds.cohort import CohortWorld


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run whose table has columns that the fit does not read."""
    folder = tmp_path_factory.mktemp("contrast")
    cohort = CohortWorld(animals=5, trajectories=3, horizon=40, usage=3.0).simulate(0)
    frame = cohort.demonstrations.to_pandas().rename(columns={"group": "animal", "intention": "truth"})
    frame["drug"] = cohort.condition[cohort.demonstrations.trajectory_index]
    frame["dose"] = np.array(["0", "1", "2"])[cohort.demonstrations.trajectory_index % 3]
    frame = frame.sample(frac=1, random_state=0)
    frame["epoch"] = np.where(frame.groupby("trajectory").cumcount() < 20, "early", "late")
    frame.to_csv(folder / "mouse.csv", index=False)
    (frame[["animal", "drug"]].drop_duplicates()).to_csv(folder / "animals.csv", index=False)
    quick = ("--n-starts", 2, "--max-iterations", 40, "--simulations", 0, "--hz", 5)
    done = prism("fit", "mouse.csv", "--method", "hiql", "--intentions", 2, *quick, "--out", "run", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_the_answer_is_printed_kept_and_part_of_the_report(folder):
    done = prism("contrast", "run", "--by", "drug", "--unit", "animal", "--json", "--overwrite", cwd=folder)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {"tests", "n_units", "in_words"} <= set(found)
    keys = {"measure", "intention", "groups", "difference", "interval", "p", "p_adjusted"}
    assert all(keys <= set(test) for test in found["tests"])
    assert {t["measure"] for t in found["tests"]} == {
        "usage", "dwell", "switch_rate", "kernel", "reward", "occupancy",
    }  # fmt: skip
    page = (folder / "run" / "report.html").read_text()
    assert "Conditions by drug: drug against saline" in page
    assert found["in_words"].split(":")[0] in page
    kept = pd.read_csv(folder / "run" / "contrasts" / "drug.csv")
    assert len(kept) == len(found["tests"])
    assert (folder / "run" / "figures" / "contrast-drug-usage.svg").is_file()


def test_a_second_table_says_the_same(folder):
    own = prism("contrast", "run", "--by", "drug", "--unit", "animal", "--json", "--overwrite", cwd=folder)
    other = prism(
        "contrast", "run", "--by", "drug", "--unit", "animal", "--table", "animals.csv", "--json", "--overwrite",
        cwd=folder,
    )  # fmt: skip
    assert json.loads(own.stdout) == json.loads(other.stdout)


def test_an_earlier_contrast_is_not_replaced_without_being_asked(folder):
    prism("contrast", "run", "--by", "drug", "--unit", "animal", "--overwrite", cwd=folder)
    before = (folder / "run" / "contrasts" / "drug.json").read_bytes()
    done = prism("contrast", "run", "--by", "drug", "--unit", "animal", "--levels", "drug,saline", cwd=folder)
    assert done.returncode == 2
    assert "--overwrite" in done.stderr
    assert (folder / "run" / "contrasts" / "drug.json").read_bytes() == before


def test_two_of_three_levels_can_be_named(folder):
    done = prism("contrast", "run", "--by", "dose", "--unit", "animal", "--levels", "0,2", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["paired"]


def test_three_conditions_and_epochs_of_a_trajectory_are_compared(folder):
    done = prism("contrast", "run", "--by", "dose", "--unit", "animal", "--json", "--overwrite", cwd=folder)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["levels"] == ["0", "1", "2"]
    assert all(len(test["values"]) == 3 for test in found["tests"] if test["values"] is not None)
    assert [pair["levels"] for pair in found["pairs"]] == [["0", "1"], ["0", "2"], ["1", "2"]]
    page = (folder / "run" / "report.html").read_text()
    assert "Conditions by dose: 1 and 2 against 0" in page
    assert "which differ" in page
    done = prism("contrast", "run", "--by", "epoch", "--unit", "animal", "--overwrite", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "epoch changes within trajectories: 30 of them are compared in 60 stretches." in done.stderr
    said = " ".join(done.stdout.split())
    assert "10 in column animal, each under both" in said
    assert "switch rate (per step)" in said
    assert "epoch: late against early" in said
    assert " s)</td>" in (folder / "run" / "report.html").read_text()  # dwell in seconds, too


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--by", "nothing", "--unit", "animal"), "There is no column 'nothing' for --by"),
        (("--by", "drug", "--unit", "nobody"), "There is no column 'nobody' for --unit"),
        (("--by", "drug"), "Name its column with --unit"),
        (("--by", "state", "--unit", "animal"), "changes within a trajectory"),
        (("--by", "trajectory", "--unit", "animal"), "values (0, 1, 10"),
        (("--by", "dose", "--unit", "animal", "--intervals", "20"), "--intervals compares two conditions"),
        (("--by", "dose", "--unit", "animal", "--levels", "0"), "give two to 6 different values"),
        (("--by", "dose", "--unit", "animal", "--levels", "0,9"), "never is '9'"),
        (("--by", "sex", "--unit", "animal", "--table", "animals.csv"), "has no column 'sex'"),
        (("--by", "drug", "--unit", "animal", "--table", "gone.csv"), "There is no file gone.csv"),
    ],
)
def test_wrong_input_is_one_sentence(folder, arguments, said):
    before = {path.name for path in (folder / "run" / "contrasts").glob("*")}
    done = prism("contrast", "run", *arguments, "--overwrite", cwd=folder)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert said in done.stderr
    assert before == {path.name for path in (folder / "run" / "contrasts").glob("*")}


def test_a_folder_without_a_fit_is_refused(folder):
    (folder / "empty").mkdir(exist_ok=True)
    done = prism("contrast", "empty", "--by", "drug", "--unit", "animal", cwd=folder)
    assert done.returncode == 2


def test_the_report_of_another_fit_does_not_show_it(folder):
    prism("contrast", "run", "--by", "drug", "--unit", "animal", "--overwrite", cwd=folder)
    kept = folder / "run" / "contrasts" / "drug.json"
    kept.write_text(json.dumps(json.loads(kept.read_text()) | {"model": "another"}))
    assert prism("report", "run", cwd=folder).returncode == 0
    assert "Conditions by drug" not in (folder / "run" / "report.html").read_text()
    kept.unlink()


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        (("drug", "saline"), ("saline", "drug")),
        (("KO", "WT"), ("WT", "KO")),
        (("after", "before"), ("before", "after")),
        (("a", "b"), ("a", "b")),
        (("0", "off"), ("0", "off")),
    ],
)
def test_a_control_comes_first_unless_somebody_says_otherwise(there, expected):
    column = np.array(there * 2)
    assert compared_levels(column, None, "drug") == expected
    assert compared_levels(column, ",".join(there), "drug") == there


def test_epochs_come_in_the_order_of_time():
    assert compared_levels(np.array(["wait", "cue", "act"]), None, "phase", in_time=True) == ("wait", "cue", "act")
    assert compared_levels(np.array(["wait", "cue", "act"]), None, "phase") == ("act", "cue", "wait")
