"""Commands that compare: densities with densities alone, and a sentence where continuous data make no sense."""

from __future__ import annotations

import json

import pytest

from continuous_worlds import walks
from support import prism

COLUMNS = ("--observe", "x,y", "--act", "vx,vy")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("continuous")
    walks(n_trajectories=4, length=25).drop(columns="intention").to_csv(folder / "arm.csv", index=False)
    return folder


def test_densities_stand_beside_one_policy_and_no_token(folder):
    few = ("--folds", 2, "--jobs", 1, "--intentions", 2)
    done = prism("compare", "arm.csv", *COLUMNS, "--methods", "markov+windows", *few, "--out", "c", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "Scores are log densities of the commands" in done.stdout
    metrics = json.loads((folder / "c" / "metrics.json").read_text())
    assert set(metrics["methods"]) == {"markov+windows", "single+features"}
    assert [row["id"] for row in metrics["budget"]] == ["state", "intentions"]
    explorer = json.loads((folder / "c" / "explorer.json").read_text())
    assert explorer["states"][0].startswith("cell 0 (x ")


@pytest.mark.parametrize("method", ["hiql", "ngram", "markov+tabular"])
def test_probabilities_of_tokens_are_not_compared_with_densities(folder, method):
    methods = f"markov+features,{method}"
    done = prism("compare", "arm.csv", *COLUMNS, "--methods", methods, "--folds", 2, "--out", "no", cwd=folder)
    assert done.returncode == 2
    assert f"{method} gives probabilities of tokens" in done.stderr
    assert not (folder / "no").exists()


@pytest.mark.parametrize("command", ["evidence", "select"])
def test_halves_of_few_trajectories_are_not_compared(folder, command):
    done = prism(command, "arm.csv", *COLUMNS, "--out", "no", cwd=folder)
    assert done.returncode == 2
    assert "from 8 trajectories on" in done.stderr
    assert not (folder / "no").exists()


@pytest.mark.parametrize("command", ["evidence", "select"])
def test_both_commands_answer_in_the_same_words(folder, command):
    walks(n_trajectories=12, length=25).drop(columns="intention").to_csv(folder / "more.csv", index=False)
    few = ("--intentions", 2, "--surrogates", 2, "--jobs", 1, "--json")
    done = prism(command, "more.csv", *COLUMNS, *few, "--out", command, cwd=folder)
    assert done.returncode == 0, done.stderr
    metrics = json.loads(done.stdout)
    assert "beyond recordings spliced where position and last command are alike" in metrics["notes"][0]
    assert not metrics["evidence"]["found"]  # two simulations say nothing
    assert ("recommended" in metrics) == (command == "select")
    assert "do not trust" not in (folder / command / "report.html").read_text().lower()
