"""`prism triage` from the command line: the table, the file, and LeRobot's command."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from prism_irl.cli.main import main
from worlds.lerobot import write_lerobot
from worlds.scripted import episodes


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("triage")
    found = list(episodes("drawer", 12, seed=1))
    found[4] = replace(found[4], actions=np.random.default_rng(0).permutation(found[4].actions))
    dataset = write_lerobot(folder / "arm", found, fps=15)
    columns = ["--observe", "observation.state", "--act", "action"]
    assert main(["fit", str(dataset), *columns, "--intentions", "4", "--out", str(folder / "run"), "--quiet"]) == 0
    return dataset, folder / "run"


def test_the_list_and_the_command(fitted, tmp_path, capsys):
    dataset, run = fitted
    out = tmp_path / "triage.csv"
    command = ["triage", str(dataset), "--run", str(run), "--out", str(out)]
    assert main(command) == 0
    text = capsys.readouterr().out
    assert "of 12 episodes to watch" in text
    assert f"--root {dataset}" in text
    assert "--operation.type delete_episodes --operation.episode_indices" in text
    written = pd.read_csv(out)
    assert list(written.columns) == ["episode", "reason", "value", "usual", "z"]
    row = written[(written["episode"] == 4) & (written["reason"] == "unlikely")].iloc[0]
    assert row["z"] < -3.5
    assert main(command) == 2
    assert "exists already" in capsys.readouterr().err


def test_json_says_the_same(fitted, capsys):
    dataset, run = fitted
    assert main(["triage", str(dataset), "--run", str(run), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["n_episodes"] == 12
    assert "4" in found["episodes"]
    assert {"episode", "reason", "value", "usual", "z"} == set(found["findings"][0])
    assert found["delete"].startswith("lerobot-edit-dataset --repo_id local/arm ")


def test_a_list_that_is_no_csv_is_refused(fitted, tmp_path, capsys):
    dataset, run = fitted
    assert main(["triage", str(dataset), "--run", str(run), "--out", str(tmp_path / "list.parquet")]) == 2
    assert "The list is a .csv file" in capsys.readouterr().err
