"""`--covariates` on the command line: read by the fit, kept with the run, refused where nobody would read them."""

import io
import json

import numpy as np
import pandas as pd
import pytest

from prism_irl.cli.stream import stream
from prism_irl.data.covariates import Inputs
from prism_irl.data.read import read_data
from prism_irl.errors import InputError
from prism_irl.models.persistence import load
from support import one_sentence, prism
from worlds.cohort import CohortWorld

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
        "fit", "mouse.csv", "--switching", "state", "--covariates", "thirst", "--time-since", "water", *QUICK,
        "--out", "run",
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
    table, answers = pd.read_csv(folder / "mouse.csv"), []
    stream(folder / "run", None, io.StringIO(table.to_csv(index=False)), answers.append)
    answered = pd.read_csv(io.StringIO("\n".join(answers)))[["p_0", "p_1"]]
    kept = json.loads((folder / "run" / "config.json").read_text())["data"]["inputs"]
    rows = Inputs.from_json(kept).apply(read_data(folder / "mouse.csv"))
    np.testing.assert_allclose(answered, load(folder / "run").filter_proba(rows.demonstrations), atol=2e-6)
    for wrong, said in (({"thirst": "much"}, "'much' in column 'thirst'"), ({"water": "2"}, "send 1 at an event")):
        text = table.astype(str).assign(**wrong).to_csv(index=False)
        with pytest.raises(InputError) as error:
            stream(folder / "run", None, io.StringIO(text), answers.append)
        assert said in one_sentence(error)
    pd.read_csv(folder / "mouse.csv").drop(columns="thirst").to_csv(folder / "without.csv", index=False)
    done = prism("score", "run", "without.csv", cwd=folder)
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
def test_inputs_that_nobody_reads_are_refused(folder, options, said):
    done = prism("fit", "mouse.csv", *options, *QUICK, "--out", "never", cwd=folder)
    assert done.returncode == 2
    assert said in done.stderr
    assert not (folder / "never").exists()
