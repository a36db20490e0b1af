"""`--inputs` on the command line: read by the fit, kept with the run, refused where nobody would read them."""

import json

import pandas as pd
import pytest

from prism_irl.worlds.cohort import CohortWorld
from support import prism

QUICK = ("--intentions", 2, "--n-starts", 1, "--max-iterations", 10, "--simulations", 0, "--device", "cpu")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    cohort = CohortWorld(animals=3, trajectories=3, horizon=40, covariate=1.5).simulate(0)
    frame = cohort.demonstrations.to_pandas().assign(thirst=cohort.covariate)
    frame["water"] = (frame["state"] == 0).astype(int)
    frame.to_csv(folder / "mouse.csv", index=False)
    return folder


def test_inputs_are_fitted_drawn_and_read_again(folder):
    done = prism(
        "fit", "mouse.csv", "--switching", "markov", "--inputs", "thirst", "--since", "water", *QUICK, "--out", "run",
        cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    kept = json.loads((folder / "run" / "config.json").read_text())["data"]["inputs"]
    assert [one["column"] for one in kept] == ["thirst", "water"]
    assert (folder / "run" / "figures" / "inputs.svg").is_file()
    done = prism("score", "run", "mouse.csv", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    fitted = json.loads((folder / "run" / "metrics.json").read_text())
    n = fitted["n_steps"]
    assert json.loads(done.stdout)["n_steps"] == n
    pd.read_csv(folder / "mouse.csv").drop(columns="thirst").to_csv(folder / "without.csv", index=False)
    done = prism("score", "run", "without.csv", cwd=folder)
    assert done.returncode == 2
    assert "There is no column 'thirst'" in done.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--switching", "state", "--inputs", "thirst"), "state switching reads no inputs"),
        (("--method", "hiql", "--inputs", "thirst"), "markov switching reads no inputs"),
        (("--switching", "markov", "--inputs", "gone"), "There is no column 'gone'"),
        (("--switching", "markov", "--since", "thirst"), "write 1 where it happens"),
        (("--switching", "markov", "--observations", "thirst"), "does not read --observations"),
    ],
)
def test_inputs_that_nobody_reads_are_refused(folder, options, said):
    done = prism("fit", "mouse.csv", *options, *QUICK, "--out", "never", cwd=folder)
    assert done.returncode == 2
    assert said in done.stderr
    assert not (folder / "never").exists()
