"""`prism imagine` from a run folder: the answer is printed, kept and drawn, and wrong input loses nothing."""

import json

import pandas as pd
import pytest

from prism_irl.cli.main import main
from worlds.cohort import CohortWorld


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("imagine")
    demos = CohortWorld(animals=3, trajectories=2, horizon=30, size=3).simulate(0).demonstrations
    demos.to_pandas().drop(columns="intention").to_csv(folder / "mouse.csv", index=False)
    quick = ["--n-starts", "1", "--max-iterations", "5", "--simulations", "0", "--intentions", "2"]
    pair = ["--switching", "markov", "--rewards", "soft-1", "--grid", "3x3"]
    assert main(["fit", str(folder / "mouse.csv"), *pair, *quick, "--out", str(folder / "soft")]) == 0
    return folder


def test_the_answer_is_printed_kept_and_drawn(run, capsys):
    assert main(["imagine", str(run / "soft"), "--block", "4", "--simulations", "20", "--jobs", "1"]) == 0
    assert "With 4 closed:" in capsys.readouterr().out
    table = pd.read_csv(run / "soft" / "imagined" / "block-4.csv")
    assert table.loc[table.of == "state 4", "after"].item() == 0
    kept = json.loads((run / "soft" / "imagined" / "block-4.json").read_text())
    assert kept["in_words"] in (run / "soft" / "report.html").read_text().replace("&#39;", "'")
    assert (run / "soft" / "figures" / "imagine-block-4.svg").is_file()
    assert main(["imagine", str(run / "soft"), "--block", "4", "--simulations", "20"]) == 2
    assert "--overwrite" in capsys.readouterr().err


def test_other_dynamics_from_a_file_and_a_missing_intention(run, capsys):
    rows = pd.DataFrame(
        [(s, a, (s + a) % 9, 1.0) for s in range(9) for a in range(5)],
        columns=["state", "action", "next_state", "probability"],
    )
    rows.to_csv(run / "ring.csv", index=False)
    asked = ["imagine", str(run / "soft"), "--dynamics", str(run / "ring.csv"), "--without", "1", "--unaware"]
    assert main([*asked, "--simulations", "20", "--jobs", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["usage"]["after"]["mean"][1] == 0
    assert found["name"] == "ring-without-1-unaware"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "What is different?"),
        (("--block", "9"), "'9', which is no state of the fit; there are 0 to 8"),
        (("--block", ","), "names no state"),
        (("--without", "water"), "There is no intention 'water'; there are 0 (intention 0)"),
        (("--dynamics", "nothing.csv"), "There is no file nothing.csv"),
        (("--block", "4", "--simulations", "3"), "an interval needs 20 or more"),
        (("--block", "4", "--intervals", "3"), "give 20 or more resamples"),
    ],
)
def test_bad_input_is_one_sentence_and_loses_nothing(run, capsys, arguments, said):
    before = sorted(run.rglob("*"))
    assert main(["imagine", str(run / "soft"), *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert sorted(run.rglob("*")) == before
