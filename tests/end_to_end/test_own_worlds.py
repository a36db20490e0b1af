"""What people know of their world, typed on the command line: used by the fit, saved with it, and seen in the page."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from prism_irl import load, maze
from prism_irl.evaluation.tables import state_rewards
from prism_irl.models import registry
from prism_irl.worlds.frustration import FrustrationWorld
from support import page_of, prism
from worlds.labyrinth import LabyrinthWorld

QUICK = {"n_starts": 1, "max_iterations": 4, "device": "cpu"}
FIT = "--intentions 3 --method hiql --n-starts 1 --max-iterations 4 --simulations 0 --device cpu".split()
WORLD = "--map nodes.csv --valid-actions observed".split()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Simulated mice in the labyrinth, as a table with a map."""
    path = tmp_path_factory.mktemp("labyrinth")
    demos = LabyrinthWorld(horizon=200).simulate(20, seed=1).demonstrations
    demos.to_pandas().drop(columns="intention").to_csv(path / "mice.csv", index=False)
    xy, parents = maze.layout(), maze.parents()
    nodes = pd.DataFrame({"state": range(127), "x": xy[:, 0], "y": -xy[:, 1]})
    nodes["neighbours"] = ["", *map(str, parents[1:])]
    nodes.to_csv(path / "nodes.csv", index=False)
    done = prism("fit", "mice.csv", *FIT, *WORLD, "--out", "run", cwd=path)
    assert done.returncode == 0, done.stderr
    return path


def test_observed_actions_are_those_of_the_known_world(folder: Path) -> None:
    """The friction: without them every unseen pair was a move that stays, and likelihoods and rewards were others."""
    demos = LabyrinthWorld(horizon=200).simulate(20, seed=1).demonstrations
    seen = np.zeros((127, 4), bool)
    seen[demos.states, demos.actions] = True
    model = load(folder / "run")
    assert (model.valid_actions_ == np.where(seen.any(axis=1)[:, None], seen, True)).all()
    known = registry.method("hiql", 3, **QUICK).model.fit(demos.with_valid_actions(model.valid_actions_))
    metrics = json.loads((folder / "run" / "metrics.json").read_text())
    assert json.loads(prism("score", "run", "mice.csv", "--json", cwd=folder).stdout)["predictive_ll"] == pytest.approx(
        known.score(demos), abs=1e-9
    )
    assert metrics["data_notes"] == []
    alone = seen.sum(axis=1) == 1
    rewards = state_rewards(model)
    assert rewards is not None
    assert np.nanmax(np.abs(rewards[:, alone])) < 1e-9  # dead ends, which leave no choice, carry none
    assert np.nanmax(np.abs(rewards[:, ~alone])) > 1


def test_without_them_the_verdict_names_the_option(folder: Path) -> None:
    done = prism("fit", "mice.csv", *FIT, "--out", "plain", cwd=folder)
    assert "--valid-actions observed" in done.stderr
    assert "--valid-actions observed" in page_of(folder / "plain")


def test_the_map_is_saved_and_drawn(folder: Path) -> None:
    layout = json.loads((folder / "run" / "explorer.json").read_text())["layout"]
    assert (layout["kind"], len(layout["edges"])) == ("map", 126)
    assert layout["xy"][0] == [float(maze.layout()[0, 0]), -float(maze.layout()[0, 1])]
    page = (folder / "run" / "report.html").read_text()
    assert "The map is nodes.csv" in page
    assert len(page) < 1_500_000  # small enough to send: pictures of 127 places, and 4,000 steps to explore
    assert prism("report", "run", cwd=folder).returncode == 0
    assert (folder / "run" / "report.html").read_text() == page
    assert json.loads((folder / "run" / "config.json").read_text())["world"] == {
        "map": "nodes.csv",
        "valid_actions": "observed",
    }


def test_text_and_map_say_the_same(folder: Path) -> None:
    """The friction: "heads for cell_0_0" beside a map that peaked in the opposite corner."""
    explorer = json.loads((folder / "run" / "explorer.json").read_text())
    for want, leads in zip(explorer["story"]["wants"], explorer["leads"], strict=True):
        place, share = want["leads_to"][0]
        assert place == int(np.argmax(leads))
        assert share == pytest.approx(leads[place], rel=1e-3)
    drawn = pd.read_csv(folder / "run" / "figures" / "maps.csv")
    assert len(drawn)
    assert "Where it leads" in (folder / "run" / "report.html").read_text()


def test_dead_ends_have_no_reward_whatever_the_method(folder: Path) -> None:
    """The friction: rewards on states stand inside dead ends, and rewards of 9 to 11 were painted there."""
    fit = "--method swirl-1 --intentions 2 --n-starts 1 --max-iterations 2 --simulations 0 --device cpu".split()
    done = prism("fit", "mice.csv", *fit, *WORLD, "--out", "planned", cwd=folder)
    assert done.returncode == 0, done.stderr
    table = pd.read_csv(folder / "planned" / "rewards.csv")
    dead_end = table.groupby(["intention", "state"])["action"].transform("size") == 1
    assert dead_end.sum() >= 100  # of two intentions; some are never entered
    assert (table.loc[dead_end, "reward"] == 0).all()
    assert not table.loc[dead_end, "identified"].any()
    assert table.loc[table["identified"], "reward"].abs().max() > 1
    shown = json.loads((folder / "planned" / "explorer.json").read_text())["rewards"]
    seen = {shown[k][s] for k, s in table.loc[dead_end, ["intention", "state"]].to_numpy().tolist()}
    assert seen <= {0.0, None}  # white, or grey where the intention never is
    assert np.abs(load(folder / "planned").state_rewards_).max() > 0.1  # what the method itself worked with is kept


def test_new_data_with_an_action_that_does_not_exist_is_named(folder: Path) -> None:
    table = pd.read_csv(folder / "mice.csv").head(50)
    valid = load(folder / "run").valid_actions_
    here = int(np.flatnonzero(~valid[table["state"]].all(axis=1))[0])
    table.loc[here, "action"] = int(np.argmin(valid[table["state"][here]]))
    table.to_csv(folder / "new.csv", index=False)
    for command in (("score", "run", "new.csv"), ("segment", "run", "new.csv", "--out", "labels.csv")):
        done = prism(*command, cwd=folder)
        assert done.returncode == 2
        assert f"step {here} does not exist by the fit run" in done.stderr
    assert not (folder / "labels.csv").exists()


def test_tables_with_names(folder: Path) -> None:
    rewards, moves = (pd.read_csv(folder / "run" / name) for name in ("rewards.csv", "dynamics.csv"))
    assert {"intention", "state", "action", "steps", "policy", "advantage", "reward", "value"} <= set(rewards)
    assert rewards.groupby(["intention", "state"])["policy"].sum().to_numpy() == pytest.approx(1)
    assert rewards["steps"].sum() == pytest.approx(20 * 200)
    assert moves["seen"].sum() == 20 * 199
    assert moves.groupby(["state", "action"])["probability"].sum(min_count=1).dropna().to_numpy() == pytest.approx(1)


def test_a_grid_and_its_dynamics(tmp_path: Path) -> None:
    world = FrustrationWorld(horizon=15)
    demos = world.simulate(20, seed=1).demonstrations
    demos.to_pandas().drop(columns="intention").to_csv(tmp_path / "a.csv", index=False)
    P = world.transitions
    np.savez(tmp_path / "P.npz", P=P)
    given = ["--grid", "5x5", "--dynamics", "P.npz"]
    done = prism("fit", "a.csv", *FIT[2:], "--intentions", "2", *given, "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(load(tmp_path / "run").mdp_.transitions.toarray().reshape(25, 5, 25), P)
    assert json.loads((tmp_path / "run" / "explorer.json").read_text())["layout"]["kind"] == "grid"
    assert not (tmp_path / "run" / "dynamics.csv").exists()
    for wrong, words in (
        (["--grid", "2x2"], "ends before it"),
        (["--grid", "5x5", "--map", "nodes.csv"], "pass one of them"),
        (["--dynamics", "none.csv"], "no file none.csv"),
    ):
        done = prism("fit", "a.csv", *FIT, *wrong, "--out", "other", cwd=tmp_path)
        assert done.returncode == 2
        assert words in done.stderr
        assert not (tmp_path / "other").exists()
