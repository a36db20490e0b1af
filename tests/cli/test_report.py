"""The page of a run that was there before: whatever has become of its files is one sentence."""

import json
from pathlib import Path

import pandas as pd
import pytest

from prism_irl.cli.report import write_again
from prism_irl.errors import InputError
from prism_irl.worlds.frustration import FrustrationWorld
from support import one_sentence, prism


@pytest.mark.parametrize("wrong", [["markov", "tabular"], 3])
def test_files_that_were_changed_are_no_fault_of_ours(tmp_path, wrong):
    score = {"train": -1.0, "validation": -1.1}
    whole = {"method": "HIQL", "n_intentions": 2, "n_steps": 9, "predictive_ll": score, "paper_score": score}
    (tmp_path / "metrics.json").write_text(json.dumps(whole))
    assert write_again(tmp_path).is_file()
    (tmp_path / "metrics.json").write_text(json.dumps(whole | {"pair": wrong}))
    with pytest.raises(InputError) as error:
        write_again(tmp_path)
    assert "not those of a run" in one_sentence(error)


# -- names from the page to the run, to its report, to segments, and to the next fit.


RENAMED = {"intention 0": "seek <b>", "intention 1": "go home"}
FIT = "--intentions 2 --method hiql --n-starts 2 --max-iterations 30 --simulations 0 --device cpu".split()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    demos = FrustrationWorld(horizon=20).simulate(60, seed=1).demonstrations
    demos.to_pandas().drop(columns="intention").to_csv(tmp_path / "a.csv", index=False)
    assert prism("fit", "a.csv", *FIT, "--out", "run", cwd=tmp_path).returncode == 0
    (tmp_path / "names.json").write_text(json.dumps({"names": ["seek <b>", "go home"]}))
    return tmp_path


def numbers(run: Path) -> dict[str, str]:
    """What the figures of a run show."""
    return {path.name: path.read_text() for path in sorted((run / "figures").glob("*.csv"))}


def renamed(text: str) -> str:
    for old, new in RENAMED.items():
        text = text.replace(old, new)
    return text


def test_names_stay_with_the_run(folder: Path) -> None:
    assert "Nobody has named" in prism("names", "run", cwd=folder).stdout
    before = numbers(folder / "run")
    done = prism("names", "run", "names.json", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert numbers(folder / "run") == {name: renamed(text) for name, text in before.items()}
    assert sum(text != renamed(text) for text in before.values()) >= 3  # maps, dwell and switches
    assert "go home" in (folder / "run" / "report.html").read_text()
    assert json.loads(prism("names", "run", "--json", cwd=folder).stdout)["names"] == ["seek <b>", "go home"]
    assert prism("segment", "run", "a.csv", "--out", "labels.csv", cwd=folder).returncode == 0
    labels = pd.read_csv(folder / "labels.csv")
    assert labels.groupby("intention")["intention_name"].unique().str[0].tolist() == ["seek <b>", "go home"]

    assert prism("names", "run", "seek <b>, go home", cwd=folder).returncode == 0  # typed, they are the same
    assert json.loads((folder / "run" / "names.json").read_text())["names"] == ["seek <b>", "go home"]

    # A fit into the same folder, from another seed, may number them otherwise; steps keep the names that they had.
    again = prism("fit", "a.csv", *FIT, "--seed", "3", "--out", "run", "--overwrite", cwd=folder)
    assert again.returncode == 0, again.stderr
    assert "go home" in again.stdout
    assert not any("intention 0" in text for text in numbers(folder / "run").values())
    assert prism("fit", "a.csv", *FIT, "--seed", "4", "--out", "other", cwd=folder).returncode == 0
    assert prism("names", "other", "--like", "run", cwd=folder).returncode == 0
    for run in ("run", "other"):
        assert prism("segment", run, "a.csv", "--out", f"{run}.csv", cwd=folder).returncode == 0
        assert (pd.read_csv(folder / f"{run}.csv")["intention_name"] == labels["intention_name"]).mean() > 0.8

    # What else a fit reads of the same steps does not matter; a fit of other steps keeps the names that it has.
    rows = pd.read_csv(folder / "a.csv")
    rows["note"] = rows["state"].map({3: "here"})  # empty cells are the same in every file
    rows.assign(animal=rows["trajectory"] % 2).to_csv(folder / "animals.csv", index=False)
    for further in ((), ("--group", "animal")):
        again = prism("fit", "animals.csv", *FIT, *further, "--out", "run", "--overwrite", cwd=folder)
        assert again.returncode == 0, again.stderr
    assert "go home" in (folder / "run" / "names.json").read_text()
    rows[rows["trajectory"] > 3].to_csv(folder / "fewer.csv", index=False)
    assert prism("fit", "fewer.csv", *FIT, "--out", "fewer", cwd=folder).returncode == 0
    assert prism("names", "fewer", "left,right", cwd=folder).returncode == 0
    refused = prism("names", "fewer", "--like", "run", cwd=folder)
    assert (refused.returncode, "was fitted to other data" in refused.stderr) == (2, True)
    assert json.loads((folder / "fewer" / "names.json").read_text())["names"] == ["left", "right"]


def test_a_file_of_names_that_was_put_there_is_read_by_the_report(folder: Path) -> None:
    (folder / "run" / "names.json").write_text((folder / "names.json").read_text())
    assert prism("report", "run", cwd=folder).returncode == 0
    assert "go home: mean" in (folder / "run" / "figures" / "dwell.csv").read_text()
    (folder / "run" / "model.safetensors").unlink()  # all that is drawn lies in the run: neither model nor data
    (folder / "run" / "segments.parquet").unlink()
    assert prism("names", "run", "water,home", cwd=folder).returncode == 0
    assert "home: mean" in (folder / "run" / "figures" / "dwell.csv").read_text()
    assert "into home" in (folder / "run" / "figures" / "switches.csv").read_text()


def test_what_is_refused(folder: Path) -> None:
    (folder / "three.json").write_text(json.dumps({"names": ["a", "b", "c"]}))
    for command, words in (
        (("names", "run", "three.json"), "3 names for 2 intentions"),
        (("names", "nowhere", "names.json"), "no run in nowhere"),
        (("names", "run", "names.json", "--like", "run"), "pass one of them"),
        (("names", "run", "--like", "nowhere"), "segments.parquet"),
        (("names", "run", "water,home,explore"), "3 names for 2 intentions"),
        (("names", "run", "water,water"), "both called 'water'"),
    ):
        done = prism(*command, cwd=folder)
        assert done.returncode == 2
        assert words in done.stderr
    assert not (folder / "run" / "names.json").exists()
