"""NWB: what is written is accepted by the inspector, and read back and scored it says the same."""

from __future__ import annotations

import json
import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from prism_irl.data import interop as nwb
from prism_irl.data.read import read_data
from prism_irl.worlds.frustration import ACTIONS, FrustrationWorld
from support import prism, refused

pynwb = pytest.importorskip("pynwb", reason="needs the extra nwb")
FIT = "--intentions 2 --method hiql --n-starts 1 --max-iterations 5 --simulations 0 --device cpu".split()
COLUMNS = "--trajectory animal,bout --state cell --action move --time t".split()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("nwb")
    steps = FrustrationWorld(horizon=12).simulate(12, seed=3).demonstrations.to_pandas()
    table = pd.DataFrame(
        {
            "animal": "m1",
            "bout": steps["trajectory"],
            "t": np.arange(len(steps)) * 0.5,
            "cell": [f"x{s % 5}y{s // 5}" for s in steps["state"]],
            "move": [ACTIONS[a] for a in steps["action"]],
            "note": np.where(steps["trajectory"] == 0, "first", None),  # empty in most rows
        }
    )
    table.to_csv(path / "a.csv", index=False)
    done = prism("fit", "a.csv", *COLUMNS, "--group", "animal", *FIT, "--out", "run", cwd=path)
    assert done.returncode == 0, done.stderr
    animal = {"subject_id": "m1", "species": "Mus musculus", "sex": "F", "age": "P90D"}
    (path / "m1.json").write_text(json.dumps(animal))
    when = ["--session-start", "2024-05-01T09:00:00+00:00", "--subject", "m1.json"]
    done = prism("segment", "run", "a.csv", "--out", "s.nwb", "--intervals", "s.csv", *when, cwd=path)
    assert done.returncode == 0, done.stderr
    return path


def test_written_read_back_and_scored_the_likelihood_is_the_same(folder: Path) -> None:
    scores = [json.loads(prism("score", "run", name, "--json", cwd=folder).stdout) for name in ("a.csv", "s.nwb")]
    assert scores[0]["predictive_ll"] == scores[1]["predictive_ll"]
    assert scores[0]["n_steps"] == scores[1]["n_steps"] == 144


def test_columns_of_a_session_are_recognised_where_they_are_named(folder: Path) -> None:
    assert prism("init", "s.nwb", "--out", "x.toml", cwd=folder).stderr.startswith("prism: s.nwb has 2 tables (")
    done = prism("init", "s.nwb", "--state", "cell", "--action", "move", "--out", "x.toml", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "state cell, action move, time t, group animal" in done.stdout


def test_a_shape_that_no_memory_holds_is_refused(folder: Path, tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "s.nwb"
    path.write_bytes((folder / "s.nwb").read_bytes())
    with h5py.File(path, "a") as store:
        store.create_dataset("acquisition/huge", shape=(10**12,), dtype="f8", chunks=(10**6,))
    assert path.stat().st_size < 10**7
    refused(path, "would become", "PRISM_MAX_MEMORY=GB", state="cell", action="move")


def test_the_file_holds_probabilities_and_segments(folder: Path) -> None:
    with pynwb.NWBHDF5IO(str(folder / "s.nwb"), "r") as io:
        file = io.read()
        series = file.processing["behavior"]["intention_probabilities"]
        assert np.asarray(series.data[:]).sum(axis=1) == pytest.approx(1)
        assert (series.starting_time, series.rate) == (0.0, 2.0)
        spans = file.intervals["intentions"].to_dataframe()
        assert (file.subject.subject_id, file.subject.age) == ("m1", "P90D")
        assert file.session_start_time == datetime(2024, 5, 1, 9, tzinfo=UTC)
    table = pd.read_csv(folder / "s.csv")
    assert spans["start_time"].tolist() == table["start"].tolist()
    assert spans["stop_time"].tolist() == table["end"].tolist()
    assert spans["intention"].tolist() == table["intention"].tolist()


def test_the_inspector_finds_nothing_critical(folder: Path) -> None:
    inspector = pytest.importorskip("nwbinspector")
    found = list(inspector.inspect_nwbfile(nwbfile_path=folder / "s.nwb"))
    grave = {inspector.Importance.CRITICAL, inspector.Importance.ERROR, inspector.Importance.PYNWB_VALIDATION}
    assert [message.message for message in found if message.importance in grave] == []


def test_annotations_are_events(folder: Path) -> None:
    written = pynwb.NWBFile(
        session_description="a session", identifier="x", session_start_time=datetime(2024, 5, 1, tzinfo=UTC)
    )
    table = pynwb.epoch.TimeIntervals(name="moves", description="what was done")
    for name in ("trajectory", "state", "action"):
        table.add_column(name=name, description=name)
    for t, (state, action) in enumerate([("a", "go"), ("b", "go"), ("a", "stay")]):
        table.add_interval(start_time=float(t), stop_time=t + 1.0, trajectory=1, state=state, action=action)
    written.add_time_intervals(table)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the newest pynwb reads, but hardly makes, what most files have
        words: dict[str, Any] = {"data": ["water", "door", "water"], "timestamps": [0.2, 1.0, 2.9]}
        written.add_acquisition(pynwb.misc.AnnotationSeries(name="log", description="what happened", **words))
    with pynwb.NWBHDF5IO(str(folder / "b.nwb"), "w") as io:
        io.write(written)
    found = read_data(folder / "b.nwb")
    assert found.frame is not None
    assert found.frame["water"].tolist() == [1, 0, 1]
    assert found.frame["door"].tolist() == [0, 1, 0]
    assert found.states.names == ("a", "b")
    refused(folder / "b.nwb", "no table with the columns node, action", "moves: start_time", state="node")
    (folder / "c.nwb").write_bytes(b"nothing")
    refused(folder / "c.nwb", "damaged or not an NWB file")


def test_tables_of_events_are_events(folder: Path) -> None:
    if not hasattr(pynwb.NWBFile, "create_events_table"):
        pytest.skip("this pynwb has no tables of events yet")
    written = pynwb.NWBFile(
        session_description="a session", identifier="x", session_start_time=datetime(2024, 5, 1, tzinfo=UTC)
    )
    events = written.create_events_table(name="water", description="deliveries")
    for t in (0.2, 2.9):
        events.add_row(timestamp=t)
    assert {name: times.tolist() for name, times in nwb._events(pynwb, written)} == {"water": [0.2, 2.9]}


@pytest.mark.parametrize("apart", [True, False])
def test_bouts_of_an_ethogram_become_columns(apart: bool, tmp_path: Path) -> None:
    """As ndx-ethogram stores them: a table of intervals with a text column ``label``."""
    session = pynwb.NWBFile("s", "id", datetime(2026, 1, 1, tzinfo=UTC))
    steps, bouts = (pynwb.epoch.TimeIntervals(name=name, description="d") for name in ("steps", "ethogram"))
    for name in ("cell", "move"):
        steps.add_column(name, name)
    for i in range(6):
        steps.add_row(start_time=i / 2, stop_time=i / 2 + 0.5, cell=f"c{i % 3}", move="ab"[i % 2])
    bouts.add_column("label", "behaviour")
    for begin, end, label in ((0.0, 1.0, "groom"), (1.0 if apart else 0.5, 2.0, "rear")):
        bouts.add_row(start_time=begin, stop_time=end, label=label)
    session.add_time_intervals(steps)
    session.create_processing_module("behavior", "b").add(bouts)
    with pynwb.NWBHDF5IO(tmp_path / "a.nwb", "w") as io:
        io.write(session)
    frame = nwb.read_nwb(tmp_path / "a.nwb", ("cell", "move"))
    if apart:
        assert frame["ethogram"].fillna("").tolist() == ["groom", "groom", "rear", "rear", "", ""]
    else:
        assert frame["groom"].tolist() == [1, 1, 0, 0, 0, 0]
        assert frame["rear"].tolist() == [0, 1, 1, 1, 0, 0]
