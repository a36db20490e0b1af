"""`--events`: columns become marks in the order of the steps, and wrong ones are named."""

import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from continuous_worlds import walks
from prism_irl import storage
from prism_irl.cli.options import ColumnOptions
from prism_irl.cli.progress import Whole
from prism_irl.cli.segment import stream
from prism_irl.cli.sources import (
    content,
    find_evidence,
    read_events,
    read_evidence,
    read_source,
    read_table,
    steps_per_second,
)
from prism_irl.data.covariates import Inputs
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.read import read_data
from prism_irl.errors import InputError
from prism_irl.models.registry import load
from prism_irl.robots.episodes import Episode
from support import one_sentence, prism
from worlds.cohort import CohortWorld
from worlds.lerobot import write_lerobot


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


def test_what_looks_wrong_is_said_once(tmp_path: Path, capsys) -> None:
    rows = [f"{t},{s * 3 % 7},{s % 2}" for t in range(2) for s in range(40)]  # the same trajectory twice
    (tmp_path / "twice.csv").write_text("\n".join(["trajectory,state,action", *rows]))
    read_table(tmp_path / "twice.csv", ColumnOptions())
    assert "the same" in capsys.readouterr().err
    with Whole({}).waiting():  # a step of prism analyze, which has said it
        read_table(tmp_path / "twice.csv", ColumnOptions())
    assert capsys.readouterr().err == ""


def test_named_data_has_events_of_its_own(monkeypatch, capsys):
    marks = {"exit": np.array([True, False, False, False])}
    monkeypatch.setattr("prism_irl.cli.sources.NAMED", {"labyrinth": (lambda: table().demonstrations, lambda: None)})
    monkeypatch.setattr("prism_irl.cli.sources.EVENTS", {"labyrinth": lambda: marks})
    assert read_source(Path("labyrinth"), ColumnOptions(events=("exit",))).events == marks
    assert read_source(Path("labyrinth"), ColumnOptions()).events == {}
    assert "no part of the public download" in capsys.readouterr().err  # what falls away is said
    with pytest.raises(InputError, match="no event 'water' in labyrinth; there are exit"):
        read_source(Path("labyrinth"), ColumnOptions(events=("water",)))


# -- a fit speaks of the evidence that an earlier run found, if it is about the same data.


FOUND = {"p_value": 0.05, "gain": 0.01, "surrogates": 19, "agreement": 0.9, "agreement_p_value": 0.05}


@pytest.fixture
def demos() -> Demonstrations:
    rng = np.random.default_rng(0)
    return Demonstrations.from_arrays(
        rng.integers(3, size=(4, 6)), rng.integers(2, size=(4, 6)), n_states=3, n_actions=2
    )


def run(folder: Path, demos: Demonstrations, **changes: object) -> Path:
    (folder / "metrics.json").write_text(json.dumps({"evidence": {**FOUND, "surrogate_gains": [0.0], **changes}}))
    (folder / "config.json").write_text(json.dumps({"data": {"content": content(demos)}}))
    return folder


def test_what_was_found_is_read_whether_or_not_animals_are_named(tmp_path: Path, demos: Demonstrations) -> None:
    named = replace(demos, groups=np.array(["a", "a", "b", "b"]))
    assert content(named) == content(demos)
    assert named.checksum() != demos.checksum()
    found = read_evidence(run(tmp_path, named), demos)
    assert found == {**FOUND, "from": tmp_path.name}


def test_evidence_beside_a_run_is_found(tmp_path: Path, demos: Demonstrations) -> None:
    assert find_evidence(tmp_path / "fit", demos) is None
    for name, data in (("other", demos.subset([0, 1])), ("evidence", demos)):
        (tmp_path / name).mkdir()
        run(tmp_path / name, data, g1={"found": False})
    found = find_evidence(tmp_path / "fit", demos)
    assert found is not None
    assert (found["from"], found["g1"]) == ("evidence", {"found": False})
    with_covariates = replace(demos, observations=np.zeros((demos.n_steps, 1), np.float32))
    assert find_evidence(tmp_path / "fit", with_covariates) == found
    assert find_evidence(tmp_path / "fit", demos.subset([0])) is None


def test_other_data_and_other_folders_are_refused(tmp_path: Path, demos: Demonstrations) -> None:
    with pytest.raises(InputError, match="holds no evidence"):
        read_evidence(tmp_path, demos)
    run(tmp_path, demos, gain="much")
    with pytest.raises(InputError, match="holds no evidence"):
        read_evidence(tmp_path, demos)
    for wrong in ({"surrogates": float("inf")}, {"gain": float("nan")}, {"p_value": 7}):
        run(tmp_path, demos, **wrong)
        with pytest.raises(InputError, match="holds no evidence"):
            read_evidence(tmp_path, demos)
    run(tmp_path, demos.subset([0, 1]))
    with pytest.raises(InputError, match="about other data"):
        read_evidence(tmp_path, demos)


# -- `--window`: typed, saved in steps, read again by segment, score and streams.


SMALL = ("--intentions", 2, "--n-starts", 1, "--max-iterations", 3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("window")
    table = walks(n_trajectories=4, length=25)
    table.assign(time=0.1 * (np.arange(100) % 25)).to_csv(folder / "arm.csv", index=False)
    columns = ("--observe", "x,y", "--act", "vx,vy")
    done = prism("fit", "arm.csv", *columns, "--window", "0.4s", *SMALL, "--out", "run", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_seconds_become_steps_and_the_run_keeps_them(folder):
    rewards = storage.read_object(folder / "run" / "config.json")["parameters"]["rewards"]
    assert rewards["half"].endswith("Windows")
    assert rewards["window"] == 4
    metrics = storage.read_object(folder / "run" / "metrics.json")
    assert metrics["pair"] == "markov+windows"
    assert metrics["predictive_ll"] == metrics["paper_score"]
    assert "Labels look at what happens before and after a step" in (folder / "run" / "report.html").read_text("utf-8")


def test_segment_labels_as_the_fit_did(folder):
    done = prism("segment", "run", "arm.csv", "--out", "labels.csv", cwd=folder)
    assert done.returncode == 0, done.stderr
    fit = pd.read_parquet(next(folder.glob("run/segments.*")))
    labels = pd.read_csv(folder / "labels.csv")
    np.testing.assert_allclose(labels[["p_0", "p_1"]], fit[["p_0", "p_1"]], atol=1e-9)


def test_a_stream_says_that_it_cannot_look_ahead(folder):
    table = walks(n_trajectories=1, length=10, seed=4)
    answers: list[str] = []
    notes: list[str] = []
    stream(folder / "run", None, io.StringIO(table.to_csv(index=False)), answers.append, notes.append)
    assert len(notes) == 1
    assert "by the commands alone" in notes[0]
    rows = pd.read_csv(io.StringIO("\n".join(answers)))

    expected = load(folder / "run").filter_proba(read_data(table, observe="x,y", act="vx,vy").demonstrations)
    np.testing.assert_allclose(rows[["p_0", "p_1"]], expected, atol=2e-6)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--window", "long"), "a number of steps such as 15"),
        (("--window", "9s"), "the longest has 25"),
        (("--window", "4", "--rewards", "features"), "does not read --window"),
    ],
)
def test_bad_windows_are_refused_in_a_sentence(folder, options, words):
    done = prism("fit", "arm.csv", "--observe", "x,y", "--act", "vx,vy", *options, *SMALL, "--out", "no", cwd=folder)
    assert done.returncode == 2
    assert words in done.stderr
    assert not (folder / "no").exists()


def test_datasets_know_their_steps_per_second(tmp_path):
    write_lerobot(tmp_path / "arm", [Episode(0, np.zeros((5, 2)), np.zeros((5, 3)))], fps=20, robot_type="test")
    assert steps_per_second(tmp_path / "arm") == 20.0
    assert steps_per_second(tmp_path / "arm.csv") is None


# -- `--covariates` on the command line: read by the fit, kept with the run, refused where nobody would read them.


QUICK = ("--intentions", 2, "--n-starts", 1, "--max-iterations", 10, "--simulations", 0, "--device", "cpu")


@pytest.fixture(scope="module")
def cohort(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    simulated = CohortWorld(animals=3, trajectories=3, horizon=40, covariate=1.5).simulate(0)
    frame = simulated.demonstrations.to_pandas().assign(thirst=simulated.covariate)
    frame["water"] = (frame["state"] == 0).astype(int)
    frame.to_csv(folder / "mouse.csv", index=False)
    return folder


def test_inputs_are_fitted_drawn_and_read_again(cohort):
    done = prism(
        "fit", "mouse.csv", "--switching", "state", "--covariates", "thirst", "--time-since", "water", *QUICK,
        "--out", "run",
        cwd=cohort,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    kept = json.loads((cohort / "run" / "config.json").read_text())["data"]["inputs"]
    assert [one["column"] for one in kept] == ["thirst", "water"]
    assert (cohort / "run" / "figures" / "inputs.svg").is_file()
    done = prism("score", "run", "mouse.csv", "--json", cwd=cohort)
    assert done.returncode == 0, done.stderr
    fitted = json.loads((cohort / "run" / "metrics.json").read_text())
    n = fitted["n_steps"]
    assert json.loads(done.stdout)["n_steps"] == n
    table, answers = pd.read_csv(cohort / "mouse.csv"), []
    stream(cohort / "run", None, io.StringIO(table.to_csv(index=False)), answers.append)
    answered = pd.read_csv(io.StringIO("\n".join(answers)))[["p_0", "p_1"]]
    kept = json.loads((cohort / "run" / "config.json").read_text())["data"]["inputs"]
    rows = Inputs.from_json(kept).apply(read_data(cohort / "mouse.csv"))
    np.testing.assert_allclose(answered, load(cohort / "run").filter_proba(rows.demonstrations), atol=2e-6)
    for wrong, said in (({"thirst": "much"}, "'much' in column 'thirst'"), ({"water": "2"}, "send 1 at an event")):
        text = table.astype(str).assign(**wrong).to_csv(index=False)
        with pytest.raises(InputError) as error:
            stream(cohort / "run", None, io.StringIO(text), answers.append)
        assert said in one_sentence(error)
    pd.read_csv(cohort / "mouse.csv").drop(columns="thirst").to_csv(cohort / "without.csv", index=False)
    done = prism("score", "run", "without.csv", cwd=cohort)
    assert done.returncode == 2
    assert "There is no column 'thirst'" in done.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--switching", "per-trajectory", "--covariates", "thirst"), "per-trajectory switching reads no inputs"),
        (("--method", "hiql", "--covariates", "thirst"), "markov switching reads no inputs"),
        (("--switching", "markov", "--covariates", "gone"), "There is no column 'gone'"),
        (("--switching", "markov", "--time-since", "thirst"), "write 1 where it happens"),
        (("--switching", "markov", "--network-inputs", "thirst"), "does not read --network-inputs"),
    ],
)
def test_inputs_that_nobody_reads_are_refused(cohort, options, said):
    done = prism("fit", "mouse.csv", *options, *QUICK, "--out", "never", cwd=cohort)
    assert done.returncode == 2
    assert said in done.stderr
    assert not (cohort / "never").exists()
