"""`prism demo`: small worlds with known intentions, from simulation to report, without the folder of experiments."""

import json

import pytest

from prism_irl.cli.demo import run_gridworld, run_labyrinth
from prism_irl.report.explorer import read_explorer
from prism_irl.worlds import frustration, labyrinth


@pytest.mark.parametrize(
    ("run", "n", "intentions", "counter"),
    [
        (run_gridworld, 20, frustration.INTENTIONS, "frustration"),
        (run_labyrinth, 10, labyrinth.INTENTIONS, "port rests"),
    ],
)
def test_methods_are_compared_with_the_truth(run, n, intentions, counter, tmp_path):
    result = run(tmp_path, n=n, n_starts=1, max_iterations=1)
    methods = result["methods"]
    assert next(iter(methods)) == "oracle"
    ceiling = methods["oracle"]["predictive_ll"]["mean"]
    assert all(entry["predictive_ll"]["mean"] < ceiling for name, entry in methods.items() if name != "oracle")
    assert methods["oracle"]["label_accuracy"]["mean"] > 0.8
    assert {f"evd_{name}" for name in intentions} <= set(methods["hiql"])
    assert json.loads((tmp_path / "metrics.json").read_text())["quick"]
    explorer = read_explorer(tmp_path)
    assert counter in json.dumps(explorer)
    captions = json.loads((tmp_path / "figures" / "captions.json").read_text())
    assert "method_bars" in captions
    assert all((tmp_path / "figures" / f"{stem}.png").is_file() for stem in captions)
