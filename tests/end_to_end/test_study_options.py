"""Every option of a study that takes a value has a wrong one here: one sentence, exit code 2, and nothing lost."""

from __future__ import annotations

import inspect
from typing import get_type_hints

import numpy as np
import pytest

from prism_irl.cli.animals import contrast, imagine, individuals
from prism_irl.cli.main import main
from worlds.cohort import CohortWorld

COMMANDS = {"contrast": contrast, "individuals": individuals, "imagine": imagine}
OF_FIT = ("inputs", "since", "missing", "intervals", "labels")
"""Options of `prism fit` that came with studies."""
QUICK = ("--intentions", "2", "--n-starts", "1", "--max-iterations", "3", "--simulations", "0", "--device", "cpu")
BY = ("--by", "drug", "--unit", "animal")
CLOSED = ("--block", "4")

WRONG: dict[tuple[str, str], list[tuple[tuple[str, ...], str]]] = {
    ("contrast", "by"): [
        (("--by", "gone", "--unit", "animal"), "There is no column 'gone'"),
        (("--by", "state", "--unit", "animal"), "changes within a trajectory"),
        (("--by", "same", "--unit", "animal"), "everywhere"),
    ],
    ("contrast", "unit"): [(("--by", "drug", "--unit", "gone"), "There is no column 'gone'")],
    ("contrast", "levels"): [((*BY, "--levels", "drug"), "give two to 6 different values")],
    ("contrast", "table"): [((*BY, "--table", "gone.csv"), "There is no file")],
    ("contrast", "intervals"): [
        ((*BY, "--intervals", "3"), "give 20 or more"),
        ((*BY, "--intervals", "-5"), "give 20 or more"),
        ((*BY, "--intervals", "many"), "many"),
    ],
    ("contrast", "jobs"): [((*BY, "--jobs", "0"), "--jobs is 0")],
    ("contrast", "seed"): [((*BY, "--seed", "-1"), "seed must be at least 0")],
    ("contrast", "method"): [((*BY, "--method", "nowhere:Nothing"), "nowhere:Nothing")],
    ("individuals", "unit"): [(("--unit", "gone"), "There is no column 'gone'")],
    ("individuals", "seed"): [(("--seed", "-1"), "seed must be at least 0")],
    ("individuals", "method"): [(("--method", "nowhere:Nothing"), "nowhere:Nothing")],
    ("imagine", "block"): [(("--block", "99"), "is no state of the fit"), (("--block", ","), "names no state")],
    ("imagine", "dynamics"): [(("--dynamics", "gone.csv"), "There is no file")],
    ("imagine", "without"): [(("--without", "water"), "There is no intention 'water'")],
    ("imagine", "intervals"): [((*CLOSED, "--intervals", "3"), "give 20 or more")],
    ("imagine", "simulations"): [((*CLOSED, "--simulations", "-1"), "needs 20 or more")],
    ("imagine", "name"): [((*CLOSED, "--name", ""), "--name")],
    ("imagine", "jobs"): [((*CLOSED, "--jobs", "0"), "--jobs is 0")],
    ("imagine", "seed"): [((*CLOSED, "--seed", "-1"), "seed must be at least 0")],
    ("imagine", "method"): [((*CLOSED, "--method", "nowhere:Nothing"), "nowhere:Nothing")],
    ("fit", "inputs"): [
        (("--switching", "semi-markov", "--covariates", "gone"), "There is no column 'gone'"),
        (("--switching", "state", "--covariates", "same"), "is the same at every step"),
        (("--switching", "ordered", "--covariates", "gap"), "gap"),
        (("--switching", "per-trajectory", "--covariates", "thirst"), "reads no inputs"),
        (("--method", "swirl-1", "--covariates", "thirst"), "reads no inputs"),
    ],
    ("fit", "since"): [
        (("--switching", "semi-markov", "--time-since", "gone"), "There is no column 'gone'"),
        (("--switching", "markov", "--time-since", "thirst"), "write 1 where it happens"),
    ],
    ("fit", "missing"): [(("--missing", "maybe"), "maybe"), (("--state", "gap"), "--missing")],
    ("fit", "intervals"): [
        (("--method", "hiql", "--intervals", "3"), "give 20 or more"),
        (("--method", "hiql", "--intervals", "many"), "many"),
    ],
    ("fit", "labels"): [
        (("--labels", "gone"), "gone"),
        (("--labels", "thirst"), "thirst"),
        (("--labels", "gone.csv"), "gone.csv"),
    ],
}


def takes_a_value(command) -> set[str]:
    """Names of the options of a command, those that are only there or not left out."""
    options = inspect.signature(command).parameters.values()
    keywords = (one for one in options if one.kind is inspect.Parameter.KEYWORD_ONLY and one.name != "common")
    kinds = get_type_hints(command)
    return {one.name for one in keywords if kinds[one.name] is not bool}


def test_every_option_has_a_wrong_value_here():
    expected = {(name, option) for name, command in COMMANDS.items() for option in takes_a_value(command)}
    assert set(WRONG) == expected | {("fit", option) for option in OF_FIT}


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    cohort = CohortWorld(animals=3, trajectories=2, horizon=20, size=3).simulate(0)
    frame = cohort.demonstrations.to_pandas().drop(columns="intention").rename(columns={"group": "animal"})
    frame = frame.assign(thirst=cohort.covariate, same=1)
    frame["drug"] = np.repeat(cohort.condition, cohort.demonstrations.lengths)
    frame["gap"] = frame["state"].where(np.arange(len(frame)) != 7)
    frame.to_csv(folder / "mouse.csv", index=False)
    pair = ("--switching", "markov", "--rewards", "soft-1", "--grid", "3x3", "--group", "animal")
    assert main(["fit", str(folder / "mouse.csv"), *pair, *QUICK, "--out", str(folder / "run")]) == 0
    return folder


@pytest.mark.parametrize(
    ("command", "arguments", "said"),
    [(command, arguments, said) for (command, _), cases in WRONG.items() for arguments, said in cases],
)
def test_it_is_one_sentence_and_nothing_is_lost(study, capsys, monkeypatch, command, arguments, said):
    monkeypatch.chdir(study)
    before = {path: path.stat().st_mtime_ns for path in study.rglob("*")}
    given = ("mouse.csv", *QUICK, "--out", "never") if command == "fit" else ("run",)
    assert main([command, *given, *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert error.startswith("prism: ")
    assert error.strip().endswith((".", "?"))
    assert {path: path.stat().st_mtime_ns for path in study.rglob("*")} == before
