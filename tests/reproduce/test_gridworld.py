"""The gridworld experiment on a tiny simulation: everything is written, and the numbers are those of the fits."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import gridworld
from gridworld import EVD_COLUMNS, METHODS, PAPER_EVD, Gridworld, elsewhere, moved_worlds
from prism_irl.models.references import WorldOracle
from prism_irl.worlds.frustration import FrustrationWorld

IDS = ["oracle", *METHODS]
GATES = ["prism-paper", "prism-paper-starts"]


class Tiny(Gridworld):
    """The experiment trains everything to the end; here some are stopped at once."""

    def options(self):
        short = {"bc": {"hidden": 8, "max_epochs": 2}, "dirl": {"n_rounds": 1, "steps_per_round": 2}}
        soft = {"max_iterations": 2, "warm_up": 1, "n_candidates": 1, "n_starts": 1}
        return {**super().options(), **short, "recurrent+soft-1": soft, "swirl-2": soft, "iql": {"epochs": 2}}


TINY = Tiny(
    n_trajectories=30,
    only_folds=(0,),
    seeds=(0,),
    moved=2,
    starts=1,
    max_iterations=2,
    paper_iterations=2,
    world=FrustrationWorld(horizon=10),
)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """The folder, what was returned, what the progress bar heard, and what the figures would show."""
    folder, heard, drawn = tmp_path_factory.mktemp("gridworld"), [], []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gridworld, "write_all", lambda *arguments: drawn.append(arguments))
        result = gridworld.run(
            TINY, folder, on_fit=lambda fit, total: heard.append((fit.method.id, total)), title="Tiny"
        )
    return folder, result, heard, drawn


def test_metrics_have_every_method(done):
    folder, result, heard, _ = done
    written = json.loads((folder / "metrics.json").read_text())
    assert list(written["methods"]) == list(result["methods"]) == IDS
    assert sorted(heard) == sorted((name, len(IDS)) for name in IDS)
    assert (written["title"], written["quick"], written["folds"], written["seeds"]) == ("Tiny", False, 1, 1)
    assert (written["n_trajectories"], written["n_steps"]) == (30, 300)
    for entry in written["methods"].values():
        assert set(entry["predictive_ll"]) == set(entry["paper_score"]) == {"mean", "std"}
        assert entry["predictive_ll"]["mean"] < 0
        accuracy = entry["label_accuracy"]
        assert accuracy is None if entry["n_intentions"] == 1 else 0 <= accuracy["mean"] <= 1
        assert entry["fit_seconds"] >= 0


def test_only_the_gate_of_the_paper_leaks(done):
    entries = done[1]["methods"]
    assert [name for name, entry in entries.items() if entry["leaks"]] == GATES
    for name, entry in entries.items():
        same = entry["paper_score"]["mean"] == pytest.approx(entry["predictive_ll"]["mean"], abs=1e-6)
        assert same == (name not in GATES), name


def test_the_gate_of_the_paper_stands_in_two_rows():
    ours, paper = ({m.id: m.model for m in gridworld.methods(Gridworld())}[name] for name in (GATES[1], GATES[0]))
    assert (paper.starts, paper.n_starts) == ("random", 1)
    assert (ours.starts, ours.n_starts) == ("mixed", Gridworld().starts)
    same = ours.get_params() | {"starts": paper.starts, "n_starts": 1}
    assert same == paper.get_params()


def test_rewards_are_judged_wherever_there_are_any(done):
    entries = done[1]["methods"]
    without = {"oracle", "ngram", "bc", "uniform"}
    for name, entry in entries.items():
        keys = {"reward_distance_goal", "transfer_goal", "reward_distance_abandon", "transfer_abandon"}
        assert (keys <= set(entry)) == (name not in without), name
        assert keys.isdisjoint(entry) == (name in without), name
    assert "carried_goal" in entries["oracle"]
    assert "carried_goal" not in entries["dirl"]


def test_the_oracle_is_the_bayes_filter_of_the_world(done):
    oracle = done[1]["methods"]["oracle"]
    demos = TINY.world.simulate(30, seed=TINY.simulation_seed).demonstrations
    test = demos.subset(demos.fold_indices(5)[0][1])
    exact = TINY.world.oracle(test)
    assert oracle["predictive_ll"]["mean"] == pytest.approx(exact.log_likelihood.mean())
    assert oracle["label_accuracy"]["mean"] == pytest.approx((exact.smoothed.argmax(axis=1) == test.labels).mean())
    for column in EVD_COLUMNS:
        assert oracle[column]["mean"] == pytest.approx(0.0, abs=1e-9)
    known = np.log(TINY.world.policies[demos.labels, demos.states, demos.actions]).mean()
    assert done[1]["ll_with_true_intentions_known"] == pytest.approx(known)


def test_value_differences_stand_beside_those_of_the_paper(done):
    entries = done[1]["methods"]
    for name, reported in PAPER_EVD.items():
        assert tuple(entries[name]["paper_evd"][column] for column in EVD_COLUMNS) == reported
        assert entries[name]["evd_goal"]["mean"] > 0
    assert "paper_evd" not in entries["swirl-1"]
    assert "evd_goal" not in entries["bc"]


def test_one_row_per_fit(done):
    folder, result, _, _ = done
    rows = pd.read_csv(folder / "folds.csv")
    assert sorted(rows["method"]) == sorted(IDS)
    assert set(rows["fold"]) == {0}
    scores = rows.set_index("method")["predictive_ll"]
    for name, entry in result["methods"].items():
        assert scores[name] == pytest.approx(entry["predictive_ll"]["mean"])


def test_figures_show_the_models_and_the_test_fold(done):
    folder, result, _, [(figures, world, metrics, fitted)] = done
    assert (figures, world, metrics) == (folder / "figures", TINY.world, result)
    assert list(fitted.models) == IDS
    simulation = TINY.world.simulate(30, seed=TINY.simulation_seed)
    chosen = simulation.demonstrations.fold_indices(5)[0][1]
    np.testing.assert_array_equal(
        fitted.test.states.reshape(-1, 10), simulation.demonstrations.states.reshape(-1, 10)[chosen]
    )
    np.testing.assert_array_equal(fitted.counters.reshape(-1, 10), simulation.counters.reshape(-1, 10)[chosen])


def test_figures_have_captions(tmp_path):
    gridworld.run(replace(TINY, chosen=("prism-paper", "prism-recurrent", "oracle")), tmp_path)
    figures = tmp_path / "figures"
    captions = json.loads((figures / "captions.json").read_text())
    drawn = {"method_bars", "c_posterior", "b_values", "b_rewards", "values_all", "rewards_all", "switches"}
    assert set(captions) == drawn
    explored = json.loads((tmp_path / "explorer.json").read_text())
    assert explored["names"] == ["goal", "abandon"]
    assert {"em", "usage", "mean_dwell"} <= set(explored["fit"])
    assert explored["fit"]["name"].startswith("Recurrent switching")  # and not the gate that sees the action
    assert "has not seen" in explored["fit"]["how"]
    for stem, caption in captions.items():
        assert caption.endswith(".")
        assert (figures / f"{stem}.svg").stat().st_size > 1000
        assert (figures / f"{stem}.png").read_bytes().startswith(b"\x89PNG")
    assert "hatched" in captions["method_bars"]
    assert "Bayes filter" in captions["method_bars"]


def test_events_are_barriers_met_and_targets_reached():
    world = FrustrationWorld(horizon=30)
    simulation = world.simulate(20, seed=3)
    demos, counters = simulation.demonstrations, simulation.counters
    found = gridworld._events(world, demos)
    inside = np.setdiff1d(np.arange(demos.n_steps), demos.offsets[1:] - 1)
    grown, kept = (counters[inside + 1] == counters[inside] + more for more in (1, 0))
    met = found["barrier met"][inside]
    assert grown.sum() > 100
    assert met[grown].all()  # frustration grows where a barrier is met, unless the expert gives up at once
    assert not met[kept & (counters[inside] > 0)].any()
    for name, cell in (("goal reached", world.goal), ("abandon reached", world.abandon)):
        at = np.flatnonzero(found[name])
        assert (demos.states[at] == world.state(cell)).all()
        later = at[~np.isin(at, demos.offsets[:-1])]
        assert (demos.states[later - 1] != world.state(cell)).all()


def test_rewards_of_all_methods_can_be_drawn(done, tmp_path):
    _, result, _, [(_, world, _, fitted)] = done
    names = {name: entry["name"] for name, entry in result["methods"].items()}
    caption = gridworld.rewards(tmp_path / "rewards", world, fitted.models, names, fitted.test)
    assert "both rows" in caption
    text = (tmp_path / "rewards.svg").read_text()
    assert "DIRL" in text
    assert "IAVI" in text
    assert "n-gram" not in text


def test_settings_of_the_shorter_runs_are_labelled():
    settings = Gridworld.small()
    assert settings.quick
    assert settings.n_trajectories < Gridworld().n_trajectories
    assert "quick run" in gridworld._notes(settings, -0.5)[0]
    assert not Gridworld().quick
    assert len(Gridworld().seeds) == 3


def test_chosen_methods_and_folds_only(tmp_path, monkeypatch):
    monkeypatch.setattr(gridworld, "write_all", lambda *_: None)
    result = gridworld.run(replace(TINY, chosen=("iavi", "oracle"), only_folds=(1, 3), folds=4), tmp_path)
    assert list(result["methods"]) == ["oracle", "iavi"]
    assert result["folds"] == 2
    assert sorted(pd.read_csv(tmp_path / "folds.csv")["fold"]) == [1, 1, 3, 3]


def test_the_oracle_can_be_cloned_with_its_world():
    from sklearn.base import clone

    assert clone(WorldOracle(TINY.world)).world == TINY.world


WORLD = FrustrationWorld()


def test_barriers_have_moved_and_every_cell_can_be_reached():
    worlds = moved_worlds(WORLD, 12)
    assert len({world.barriers for world in worlds}) > 6
    for world in worlds:
        assert len(world.barriers) == len(WORLD.barriers)
        assert set(world.barriers).isdisjoint(WORLD.barriers)
        reached = np.zeros(world.n_states, bool)
        reached[0] = True
        for _ in range(world.n_states):  # breadth first, from the origin
            reached |= (world.transitions[reached] > 0).any(axis=(0, 1))
        assert reached[world.free].all()
        assert not reached[~world.free].any()
    assert moved_worlds(WORLD, 12) == worlds


def test_the_true_reward_earns_everything_and_nothing_earns_little():
    for world in elsewhere(WORLD, 3):
        for k in range(2):
            assert world.transfer(WORLD.rewards[k], k) == pytest.approx(1.0)
            assert world.transfer(np.zeros((25, 5)), k) < 0.2
            assert world.transfer(WORLD.rewards[1 - k], k) < 0.2
            assert world.carried(WORLD.policies[k], k) < 1.0


def test_arrows_point_where_the_world_moves():
    world = FrustrationWorld(barriers=(), success=1.0)
    middle = world.state((2, 2))
    for action, step in enumerate(gridworld.DIRECTIONS):
        target = int(world.transitions[middle, action].argmax())
        assert (target % 5 - 2, target // 5 - 2) == tuple(step)
