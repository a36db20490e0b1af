"""The robot experiment end to end: on a tiny written dataset with and without truth, and what it refuses."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bridge import data as bridge_data
from bridge import features as manipulation_features
from bridge import run as bridge
from bridge.data import Bridge
from bridge.likelihoods import likelihood_table, n_fits
from prism_irl.cli.main import main
from prism_irl.errors import InputError
from prism_irl.models.intentions import Intentions
from prism_irl.models.registry import load
from prism_irl.robots.episodes import Episode
from worlds.lerobot import write_lerobot
from worlds.manipulation import ACTION_NAMES, PHASES, STATE_NAMES

TINY = {
    "n_intentions": 3,
    "n_states": 8,
    "n_actions": 4,
    "granularity_states": (4, 8),
    "starts": 2,
    "network_starts": 1,
    "paper_iterations": 3,
    "sweep": (1, 2),
    "networks": ("rnn", "lstm"),
    "tested_folds": 2,
    "seeds": (0, 1),
}


def pick_and_place(index, rng, phases=True):
    """A caricature of an episode: straight to the block, close, straight to the target."""
    T = 24
    hand, block, target = (rng.uniform(0, 0.4, 3) for _ in range(3))
    states, actions, labels = [], [], []
    opening = 0.0
    for t in range(T):
        phase = 0 if t < 9 else 1 if t < 14 else 2
        aim, closed = (block, 0.0) if phase == 0 else (block, 0.5) if phase == 1 else (target, 0.5)
        move = np.clip(aim - hand, -0.05, 0.05) / 0.05 + 0.1 * rng.normal(size=3)
        action = np.array([*move, 0.0, closed - opening + 0.02 * rng.normal()])
        values = dict.fromkeys(STATE_NAMES, 0.0) | {"gripper_opening": opening}
        for axis, h, b, g in zip("xyz", hand, block, target, strict=True):
            values |= {f"effector_{axis}": h, f"block_{axis}": b, f"target_{axis}": g}
        states.append([values[name] for name in STATE_NAMES])
        actions.append(action)
        labels.append(phase)
        opening += 0.6 * (closed - opening)
        hand = hand + 0.05 * move
        if phase == 2:
            block = hand
    frames = [np.full((16, 16, 3), 40 + 60 * label, np.uint8) for label in labels]
    return Episode(
        index,
        np.clip(actions, -1, 1),
        np.array(states),
        language="put it there",
        cameras={"observation.images.front": lambda: iter(frames)},
        phases=np.array(labels) if phases else None,
        phase_names=PHASES[:3] if phases else (),
    )


def write(folder, *, phases=True, names=True):
    rng = np.random.default_rng(0)
    episodes = [pick_and_place(i, rng, phases) for i in range(15)]
    options = {"state_names": STATE_NAMES, "action_names": ACTION_NAMES} if names else {}
    return write_lerobot(folder, episodes, **options)


def test_features_of_pick_and_place_point_to_block_and_target(make_demos):
    rng = np.random.default_rng(0)
    episode = pick_and_place(0, rng)
    demos = make_demos(0, lengths=(24,))
    motions = manipulation_features.pick_and_place(demos, episode.states, episode.actions)
    assert motions.design.shape == (24, 5, 4)
    to_block = manipulation_features.state_columns(episode.states, "block_x", "block_y", "block_z")
    to_block = to_block - manipulation_features.state_columns(episode.states, "effector_x", "effector_y", "effector_z")
    size = np.linalg.norm(to_block, axis=1, keepdims=True)
    np.testing.assert_allclose(motions.design[:, :3, 0] * (size + 0.03), to_block, atol=1e-9)
    assert (np.linalg.norm(motions.design[:, :3, :2], axis=1) <= 1.0).all()
    np.testing.assert_array_equal(motions.design[:, 3:, :2], 0.0)
    np.testing.assert_array_equal(motions.design[:, 3:, 2:], np.broadcast_to(np.eye(2), (24, 2, 2)))


def test_a_habit_sees_what_policies_see_and_no_opening_of_the_gripper(make_demos):
    rng = np.random.default_rng(0)
    episode = pick_and_place(0, rng)
    motions = manipulation_features.pick_and_place(make_demos(0, lengths=(24,)), episode.states, episode.actions)
    seen = manipulation_features.policies_see(motions)
    assert seen.design is None
    assert seen.observations.shape == (24, 6)  # towards block and target; constants are a policy's own
    assert {tuple(x) for x in seen.observations.T} == {
        tuple(np.float32(motions.design[:, i, j])) for i in range(3) for j in range(2)
    }
    robot = manipulation_features.unknown_robot(make_demos(0, lengths=(24,)), rng.normal(size=(24, 3)), episode.actions)
    assert manipulation_features.policies_see(robot).observations.shape == (24, 3)  # not once per command


def test_a_dataset_with_truth_gets_every_table_and_figure(tmp_path):
    settings = Bridge(dataset=write(tmp_path / "data"), encoder="proprio", **TINY)
    out = tmp_path / "run"
    out.mkdir()
    result = bridge.run(settings, out)
    assert json.loads((out / "metrics.json").read_text())["methods"].keys() == result["methods"].keys()
    families = {entry["family"] for entry in result["methods"].values()}
    assert families == {"tokens", "features", "baselines", "habits"}
    for entry in result["methods"].values():
        assert (entry["label_accuracy"] is None) == (entry["family"] == "habits")  # which has no phases
        assert entry["label_accuracy"] is None or 0.0 < entry["label_accuracy"]["mean"] <= 1.0
        # a density never stands in the column of likelihoods
        assert entry["log_density"] is None or entry["predictive_ll"] is None
    habits = {name: result["methods"][f"habit-{name}"] for name in ("tokens", "features")}
    assert habits["tokens"]["predictive_ll"]["mean"] == habits["tokens"]["paper_score"]["mean"] < 0
    assert np.isfinite(habits["features"]["log_density"]["mean"])
    ordered = result["methods"]["features-ordered"]
    assert ordered["label_accuracy"]["mean"] > 0.8
    assert ordered["label_accuracy"]["mean"] > result["methods"]["hiql"]["label_accuracy"]["mean"]
    assert np.sum(result["confusion"]["steps"]) == 15 * 24
    asked = [(row["K"], row["network"], row["fits"]) for row in result["likelihood_by_k"]]
    assert asked == [(1, "rnn", 4), (2, "rnn", 4), (1, "lstm", 2), (2, "lstm", 2)]  # folds × seeds
    assert [row["reported"] for row in result["likelihood_by_k"]] == [-2.52187, -1.81282, None, None]
    assert result["likelihood_by_k"][0]["paper_score"] == pytest.approx(
        result["likelihood_by_k"][0]["predictive_ll"], abs=1e-6
    )  # one intention cannot leak
    assert [row["n_states"] for row in result["granularity"]] == [4, 8]
    stems = {path.stem for path in (out / "figures").glob("*.svg")}
    assert {"confusion", "label_accuracy", "likelihood_by_k"} <= stems
    assert sum(stem.startswith("filmstrip_") for stem in stems) == 3
    assert set(json.loads((out / "figures" / "captions.json").read_text())) == stems
    explored = json.loads((out / "explorer.json").read_text())
    main_accuracy = result["methods"]["features-ordered-recurrent"]["label_accuracy"]["mean"]
    assert explored["fit"]["name"].startswith("Gaussian features, ordered recurrent")
    assert "four fifths" in explored["fit"]["how"]
    assert explored["names"] == list(PHASES[:3])
    found = np.concatenate([np.reshape(one["p"], (-1, 3)).argmax(axis=1) for one in explored["trajectories"]])
    true = np.tile([0] * 9 + [1] * 5 + [2] * 10, 15)
    assert (found == true).mean() == pytest.approx(main_accuracy)  # names and colours are those of the phases
    frames = json.loads((out / "frames.json").read_text())
    assert len(frames["trajectories"]) == 12
    assert frames["trajectories"]["0"]["steps"] == list(range(24))


def test_a_dataset_without_truth_from_the_command_line(tmp_path, capsys, monkeypatch):
    folder = write(tmp_path / "data", phases=False, names=False)
    few = {"sweep": (2,), "networks": ("rnn",), "tested_folds": 1, "seeds": (0,), "granularity_states": (4,)}
    tiny = Bridge(dataset=folder, **{**TINY, **few})
    monkeypatch.setattr(Bridge, "of", classmethod(lambda cls, dataset, **_: tiny))
    out = tmp_path / "run"
    assert main(["reproduce", "bridge", str(folder), "--quick", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "not a likelihood" in printed
    result = json.loads((out / "metrics.json").read_text())
    assert "confusion" not in result
    assert result["methods"]["features-markov"]["label_accuracy"] is None
    assert not any(name.startswith("kmeans") for name in result["methods"])
    rows = pd.read_csv(out / "segments.csv")
    assert list(rows.columns[:3]) == ["episode", "step", "prism-paper"]
    assert len(rows) == result["n_steps"]
    loaded = load(out / "models" / "hiql")
    assert loaded.n_intentions == 3
    page = (out / "report.html").read_text()
    assert "Frames are kept of every step of 12 trajectories" in page
    assert len(page) < 8_000_000
    assert main(["reproduce", "bridge", str(folder), "--out", str(out)]) == 2


def test_wrong_arguments(tmp_path, capsys):
    assert main(["reproduce", "gridworld", str(tmp_path), "--out", str(tmp_path / "run")]) == 2
    assert "belongs to bridge" in capsys.readouterr().err
    assert main(["reproduce", "bridge", str(tmp_path / "nothing"), "--out", str(tmp_path / "other")]) == 2
    assert "no folder" in capsys.readouterr().err
    assert main(["reproduce", "bridge", "--split", "val", "--out", str(tmp_path / "other")]) == 2
    assert "belong to bridge with a dataset" in capsys.readouterr().err
    folder = write(tmp_path / "data")
    assert main(["reproduce", "bridge", str(folder), "--split", "val", "--out", str(tmp_path / "other")]) == 2
    assert "has no splits" in capsys.readouterr().err


def test_on_a_dataset_the_protocol_is_the_papers():
    settings = Bridge.of(Path("bridge"), weights=Path("weights"))
    assert (settings.encoder, settings.action_scaling, settings.tested_folds) == ("dinov2-small", "none", 5)
    assert (settings.n_states, settings.n_actions, settings.n_intentions) == (2048, 32, 4)
    assert settings.granularity_states == (1024, 2048, 3072, 4096)
    assert bridge_data.encoder_of(settings).endswith("/weights")
    assert bridge_data.encoder_of(Bridge.of(Path("bridge"))) == "pixels"
    assert bridge_data.encoder_of(Bridge.of(None)) == "proprio"
    assert Bridge.of(None).action_scaling == "standardised"


def test_episodes_that_are_repeated_are_not_held_out(tmp_path):
    rng = np.random.default_rng(0)
    episodes = [pick_and_place(i, rng) for i in range(6)]
    again = replace(episodes[2], index=6, name="6")
    folder = write_lerobot(tmp_path / "data", [*episodes, again], state_names=STATE_NAMES, action_names=ACTION_NAMES)
    data = bridge_data.load(Bridge(dataset=folder, encoder="proprio", folds=3, **TINY), tmp_path / "run")
    assert data.repeated.tolist() == [6]
    tested = np.concatenate([test for _, test in data.splits])
    assert sorted(tested.tolist()) == list(range(6))
    for train, test in data.splits:
        assert sorted([*train.tolist(), *test.tolist()]) == list(range(6))
    with pytest.raises(InputError, match="2 different episodes; 5 are needed"):
        bridge_data.split_episodes(np.arange(2), 5)


def test_codebooks_know_the_training_episodes_only(tmp_path):
    settings = Bridge(dataset=write(tmp_path / "data"), encoder="proprio", **TINY)
    data = bridge_data.load(settings, tmp_path / "run")
    train, test = data.splits[0]
    before = bridge_data.fitted_tokenizer(settings, data.cache, train)
    steps = np.repeat(np.isin(np.arange(15), test), np.diff(data.cache.offsets))
    data.cache.actions[steps] += 100.0
    after = bridge_data.fitted_tokenizer(settings, data.cache, train)
    np.testing.assert_array_equal(after.action_centroids_, before.action_centroids_)
    np.testing.assert_array_equal(after.state_centroids_, before.state_centroids_)


def test_finished_fits_of_the_likelihood_table_are_not_made_again(tmp_path, monkeypatch):
    settings = Bridge(dataset=write(tmp_path / "data"), encoder="proprio", **(TINY | {"networks": ("rnn",)}))
    data = bridge_data.load(settings, tmp_path / "run")
    told = []
    before = likelihood_table(settings, data, tmp_path / "cache", told.append)
    assert len(told) == n_fits(settings) == 8
    assert told[0].startswith("likelihood, fold 1, PRISM, paper gate")
    monkeypatch.setattr(Intentions, "fit", lambda *_: pytest.fail("a finished fit was made again"))
    assert likelihood_table(settings, data, tmp_path / "cache", told.append) == before
    # Codebooks of another fold are other data: its fits are its own.
    assert len(list((tmp_path / "cache").glob("*.json"))) == 8


@pytest.mark.slow
def test_the_command_on_simulated_episodes(tmp_path, capsys, monkeypatch):
    pytest.importorskip("ogbench", reason="the extra sim is not installed")
    few = {"n_intentions": 5, "sweep": (2,), "networks": ("rnn",), "tested_folds": 1, "granularity_states": (4,)}
    tiny = Bridge(n_episodes=6, **{**TINY, **few})
    monkeypatch.setattr(Bridge, "of", classmethod(lambda cls, dataset, **_: tiny))
    assert main(["reproduce", "bridge", "--quick", "--out", str(tmp_path / "run")]) == 0
    assert "not run here" in capsys.readouterr().out
    result = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert result["simulated"]
    assert result["repeated"] == []
    assert result["methods"]["features-ordered"]["label_accuracy"]["mean"] > 0.4
