"""The demonstration on the simulated labyrinth, small enough for a test."""

import json

import numpy as np
import pytest

from prism_irl.experiments.labyrinth import demo as labyrinth_demo
from prism_irl.experiments.labyrinth.demo import LabyrinthDemo
from prism_irl.experiments.oracle import WorldOracle
from prism_irl.worlds.labyrinth import INTENTIONS, LabyrinthWorld


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("demo")
    world = LabyrinthWorld(horizon=80)
    settings = LabyrinthDemo(n_trajectories=10, starts=1, max_iterations=1, chain_starts=1, world=world)
    return folder, labyrinth_demo.run(settings, folder)


def test_methods_are_compared_with_the_truth(outcome):
    folder, result = outcome
    assert list(result["methods"]) == ["oracle", "prism-recurrent", "prism", "hiql", "iavi"]
    ceiling = result["methods"]["oracle"]["predictive_ll"]["mean"]
    for name, entry in result["methods"].items():
        if name != "oracle":
            assert entry["predictive_ll"]["mean"] < ceiling
    assert result["methods"]["oracle"]["label_accuracy"]["mean"] > 0.9
    assert {f"evd_{name}" for name in INTENTIONS} <= set(result["methods"]["hiql"])
    assert json.loads((folder / "metrics.json").read_text())["quick"]


def test_figures_are_drawn_with_captions(outcome):
    folder, _ = outcome
    captions = json.loads((folder / "figures" / "captions.json").read_text())
    assert list(captions) == ["method_bars", "rewards", "occupancy", "posterior", "switches"]
    for stem in captions:
        assert (folder / "figures" / f"{stem}.png").stat().st_size > 10_000
        assert (folder / "figures" / f"{stem}.svg").is_file()


def test_oracle_is_a_model():
    world = LabyrinthWorld()
    demos = world.simulate(3, horizon=50, seed=2).demonstrations
    model = WorldOracle(world).fit(demos)
    assert model.score(demos) == pytest.approx(world.oracle(demos).log_likelihood.mean())
    np.testing.assert_allclose(model.predict_proba(demos).sum(axis=1), 1)
    np.testing.assert_array_equal(model.policies_, world.policies)
