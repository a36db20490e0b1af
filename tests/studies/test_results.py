"""Which model of a table is shown, and that it is the one that was fitted to all data."""

import numpy as np
import pytest

from prism_irl import storage
from prism_irl.models.dirl import DIRL
from prism_irl.models.presets import HIQL, PRISM, TrajectoryMixture
from prism_irl.models.registry import Method
from prism_irl.models.single import IAVI
from prism_irl.report.answers import questions
from prism_irl.report.explorer import read_explorer
from prism_irl.studies import comparison, results
from prism_irl.worlds.frustration import FrustrationWorld

METHODS = [
    Method("oracle", "Truth", HIQL(2)),
    Method("iavi", "IAVI", IAVI()),
    Method("mixture", "Mixture", TrajectoryMixture(2)),
    Method("paper", "Gate that leaks", PRISM.paper("gridworld"), leaks=True),
    Method("hiql", "HIQL", HIQL(2)),
    Method("hiql-k3", "HIQL, K=3", HIQL(3)),
]


def entries(**scores):
    return {name.replace("_", "-"): {"predictive_ll": {"mean": score, "std": 0.0}} for name, score in scores.items()}


def test_the_likeliest_method_with_several_intentions_is_shown():
    everything = entries(oracle=-0.1, iavi=-0.2, mixture=-0.3, paper=-0.4, hiql=-0.6, hiql_k3=-0.5)
    assert results.choose_exemplar(METHODS, everything).id == "hiql-k3"
    # What leaks, and what never switches, only for want of anything else.
    assert results.choose_exemplar(METHODS[:4], everything).id == "paper"
    assert results.choose_exemplar(METHODS[:3], everything).id == "mixture"
    assert results.choose_exemplar(METHODS[:2], everything) is None
    everything["hiql-k3"]["predictive_ll"] = None  # was not run
    assert results.choose_exemplar(METHODS, everything).id == "hiql"


@pytest.fixture(scope="module")
def demos():
    return FrustrationWorld(horizon=12).simulate(16, seed=3).demonstrations


def test_a_comparison_explores_its_best_method_fitted_to_all_trajectories(demos, tmp_path):
    methods = [Method("iavi", "IAVI", IAVI()), Method("hiql", "HIQL", HIQL(2, n_starts=2, max_iterations=5))]
    happened = demos.states == 0
    result = comparison.compare(demos, methods, tmp_path, folds=2, events={"at home": happened}, simulations=3)
    explored = read_explorer(tmp_path)
    model = HIQL(2, n_starts=2, max_iterations=5).fit(demos)
    expected = np.rint(1000 * model.predict_proba(demos)).astype(int)
    found = np.concatenate([np.reshape(one["p"], (-1, 2)) for one in explored["trajectories"]])
    np.testing.assert_array_equal(found, expected)
    assert explored["total"] == {"trajectories": 16, "steps": demos.n_steps}
    assert explored["fit"]["name"].startswith("HIQL")
    assert "all trajectories" in explored["fit"]["how"]
    assert sum(len(one["events"]["at home"]) for one in explored["trajectories"]) == happened.sum()
    captions = storage.read_json(tmp_path / "figures" / "captions.json")
    assert next(iter(captions)) == "method_bars"
    compared = storage.read_json(tmp_path / "checks.json")
    assert compared["simulations"] == 3
    assert {one["intention"] for one in compared["statistics"]} == {None, 0, 1}
    assert all((tmp_path / "figures" / f"{stem}.svg").is_file() for stem in captions)
    # No score of the table is that of the fit to all data.
    assert result["methods"]["hiql"]["predictive_ll"]["mean"] != pytest.approx(model.score(demos), abs=1e-6)


def test_a_method_whose_policies_change_with_time_is_shown_without_rewards(demos, tmp_path):
    model = DIRL(2, n_rounds=1).fit(demos)
    results.write_exemplar(tmp_path, demos, model, name="DIRL", how="On all data.")
    explored = read_explorer(tmp_path)
    assert explored["rewards"] is None
    asked = questions({"methods": {"dirl": {"predictive_ll": -1.0}}}, explored, ["a", "b"])
    assert [finding.level for finding in asked[0].findings] == ["info", "info"]  # it never heard of EM


def test_without_intentions_there_is_nothing_to_explore(demos, tmp_path):
    (tmp_path / "explorer.json").write_text("of an earlier run")
    (tmp_path / "checks.json").write_text("of an earlier run")
    comparison.compare(demos, [Method("iavi", "IAVI", IAVI())], tmp_path, folds=2)
    assert read_explorer(tmp_path) is None
    assert not (tmp_path / "checks.json").exists()
