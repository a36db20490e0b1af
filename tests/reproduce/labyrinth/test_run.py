"""The labyrinth experiment on a few simulated windows: every part, one by one, remembered and put together."""

from __future__ import annotations

import contextlib
import io
import json
import os
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from labyrinth import claims
from labyrinth import figures as labyrinth_figures
from labyrinth import parts as labyrinth_parts
from labyrinth import run as labyrinth
from labyrinth.alignment import Events
from labyrinth.data import PAPER_NUM_LATENTS, PARTS, Data, Labyrinth
from prism_irl import storage
from prism_irl.cli.main import main
from prism_irl.errors import InputError
from prism_irl.maze import HOME, WATER, maze_mdp
from prism_irl.report.render import write_report
from worlds.labyrinth import LabyrinthWorld

TINY = Labyrinth(
    only_folds=(0,),
    seeds=(0,),
    network_ks=(2, 3),
    collapse_iterations=1,
    collapse_cases=1,
    sizes=((4, 1), (8, 2)),
    swirl_changes=("swirl-2-masked",),
    paper_ks=(1, 2, 3),
    paper_iterations=2,
    transformer_iterations=1,
    paper_size=8,
    histories=(1, 2),
    families=("hiql",),
    others=("uniform", "iavi", "ngram", "prism-recurrent"),
    starts=1,
    chain_starts=1,
    max_iterations=2,
    penalties=(0.0, 0.5),
    frontier_folds=(0,),
    frontier_histories=("",),
    animals=("iavi", "hiql"),
    explained=("hiql", "hiql-h2"),
    independent_fits=2,
    quick=True,
)


def simulated(n: int = 10, steps: int = 40) -> Data:
    demos = LabyrinthWorld().simulate(n, steps, seed=0).demonstrations
    assert demos.labels is not None
    states, modes = demos.states.astype(np.int64), demos.labels.astype(np.int64)
    demos = replace(demos, trajectory_names=np.arange(n), labels=None)
    happened = {
        "water visit": states == WATER,
        "delivery": states == WATER,
        "exit": (states == HOME) & (demos.actions == 3),
    }
    animals = replace(demos, groups=np.arange(n) % 2)
    return Data(demos, maze_mdp(), Events(happened, modes, ("leave", "drink", "explore")), animals)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    folder = tmp_path_factory.mktemp("labyrinth")
    return folder, labyrinth.run(TINY, folder, data=simulated())


def test_every_part_leaves_its_numbers(finished):
    folder, result = finished
    assert result["parts"] == list(PARTS)
    assert storage.read_json(folder / "metrics.json")["experiment"] == "labyrinth"
    methods = result["methods"]
    for name in ("uniform", "iavi", "ngram", "hiql", "hiql-h2", "hiql-hauto", "prism-recurrent", "prism-paper"):
        assert methods[name]["predictive_ll"]["mean"] < 0
    # One intention: both scores are the likelihood of the counts, and the paper's number stands beside them.
    single = methods["prism-paper-k1"]
    assert single["paper_score"]["mean"] == pytest.approx(single["predictive_ll"]["mean"], abs=1e-9)
    assert single["predictive_ll"]["mean"] == pytest.approx(methods["iavi"]["predictive_ll"]["mean"], abs=1e-6)
    assert single["paper_reported"] == -0.87071
    assert methods["hiql-h2"]["history_length"]["mean"] == 2
    assert "drink_enrichment" in methods["hiql"]
    assert {row["K"] for row in result["paper"]["num_latents"]} == {1, 2, 3}
    asked = [(row["network"], row["K"]) for row in result["paper"]["networks"]]
    assert asked == [("rnn", 1), ("rnn", 2), ("rnn", 3), *((n, k) for n in ("lstm", "transformer") for k in (2, 3))]
    assert [row["network"] for row in result["paper"]["model_type"]] == ["rnn", "lstm", "transformer"]
    timing = result["paper"]["timing"][0]
    assert 0 < timing["rewards_per_intention"] < timing["total"]
    assert result["animals"]["n_animals"] == 2
    assert len(result["frontier"]["methods"]) == 4
    assert result["recommended"]["explanation"] in ("hiql", "hiql-h2")


def test_the_model_of_the_paper_is_asked_what_the_paper_says(finished):
    _, result = finished
    found = result["published"]
    assert [fit["seed"] for fit in found["fits"]] == [42, 43]
    assert len(found["ari"]) == 1
    for fit in found["fits"]:
        assert fit["paper_score"] > fit["predictive_ll"]
        assert set(fit["matched"]) == {"leave", "drink", "explore"}
        assert 0 <= fit["iterations"] <= TINY.paper_iterations


def test_a_fit_has_converged_where_it_stays_near_its_end():
    converge = claims.iterations_to_converge
    assert converge([-3.0, -2.0, -1.0005, -1.0]) == 2
    assert converge([-1.0, -2.0, -1.0]) == 2
    assert converge([-1.0]) == 0


def test_changes_of_swirl_come_one_after_the_other():
    models = [claims.changed(name).model.get_params() for name in claims.SWIRL_CHANGES]
    different = [{key for key in one if one[key] != other[key]} for one, other in pairwise(models)]
    assert different == [{"invalid_actions"}, {"n_candidates", "warm_up"}, {"n_starts"}]
    assert models[-1]["invalid_actions"] == "mask"


def test_alignment_has_its_control_and_names_from_maps(finished):
    _, result = finished
    for entry in result["alignment"]["methods"].values():
        assert set(entry["matched"]) == {"leave", "drink", "explore"}
        assert set(entry["shuffled"]["matched"]) == set(entry["matched"])
        assert len(entry["names"]) == 3
        assert -1 <= entry["agreement"] <= 1
        assert "consensus" in entry
        assert np.shape(entry["arrival"]) == (3, 2)


def test_consensus_counts_the_fits_that_are_equally_good():
    data = simulated()
    model = labyrinth_parts.honest_method("hiql", TINY).model.fit(data.demos, data.mdp)
    same = labyrinth_parts._consensus([model, model], [-0.5, -0.501], data.demos)
    assert same == {"members": 2, "unanimous": 1.0, "support": 1.0}
    assert labyrinth_parts._consensus([model, model], [-0.5, -0.51], data.demos) is None


def test_figures_tables_and_report(finished):
    folder, _ = finished
    drawn = {path.stem for path in (folder / "figures").glob("*.svg")}
    drawn -= {"maps"}  # of the model that is explored, where it is not the one of figure (c)
    wanted = {"method_bars", "b_networks", "c_published", "c_maps", "d_segmentation", "frontier", "animals"}
    assert drawn == wanted | {"alignment", "switches"}
    tables = {path.stem for path in (folder / "tables").glob("*.csv")}
    assert {"methods", "num_latents", "model_type", "timing", "frontier", "animals", "alignment"} <= tables
    assert "(c) Rewards recovered" in write_report(folder).read_text()


def test_the_page_explores_a_fit_to_all_windows_with_its_events(finished):
    folder, result = finished
    explored = storage.read_json(folder / "explorer.json")
    data = simulated()
    shown = [entry for entry in result["alignment"]["methods"].values() if entry["name"] in explored["fit"]["name"]]
    assert explored["fit"]["agreement"] in [entry["agreement"] for entry in shown]
    assert "all windows" in explored["fit"]["how"]
    assert explored["events"] == ["water visit", "delivery", "exit"]
    for i, one in enumerate(explored["trajectories"]):
        own = slice(int(data.demos.offsets[i]), int(data.demos.offsets[i + 1]))
        assert one["states"] == data.demos.states[own].tolist()
        for name, steps in one["events"].items():
            assert steps == np.flatnonzero(data.events.happened[name][own]).tolist()
    assert "When does the agent switch?" in write_report(folder).read_text()


def test_of_fits_that_agree_the_likeliest_is_explored(finished, tmp_path):
    folder, result = finished
    saved = folder / "cache" / "models"
    entries = result["alignment"]["methods"]
    changed = {name: {**entry, "agreement": 0.9} for name, entry in entries.items()}
    best = max(entries, key=lambda name: result["methods"][name]["predictive_ll"]["mean"])
    labyrinth_figures.explore(tmp_path, simulated(), result | {"alignment": {"methods": changed}}, saved)
    assert storage.read_json(tmp_path / "explorer.json")["fit"]["name"].startswith(entries[best]["name"] + ", which")
    other = next(name for name in entries if name != best)
    changed[best]["agreement"] = 0.1
    labyrinth_figures.explore(tmp_path, simulated(), result | {"alignment": {"methods": changed}}, saved)
    assert storage.read_json(tmp_path / "explorer.json")["fit"]["name"].startswith(entries[other]["name"] + ", which")
    labyrinth_figures.explore(tmp_path, simulated(), {"methods": {}}, saved)
    assert not (tmp_path / "explorer.json").exists()  # nothing is shown that no part of this run has fitted


def test_finished_fits_are_not_made_again(finished, monkeypatch):
    folder, result = finished

    def forbidden(*_: object) -> None:
        raise AssertionError("a finished fit was made again")

    monkeypatch.setattr("prism_irl.studies.cross_validation.run_job", forbidden)
    monkeypatch.setattr("prism_irl.studies.cross_validation._fit", forbidden)
    monkeypatch.setattr(labyrinth_parts, "timing", lambda *_: result["paper"]["timing"][0])
    again = labyrinth.run(TINY, folder, data=simulated())
    assert again["methods"] == result["methods"]
    assert again["alignment"] == result["alignment"]


def test_parts_run_alone_and_come_together(tmp_path):
    data = simulated()
    first = labyrinth.run(TINY, tmp_path, parts=("animals",), data=data)
    assert first["parts"] == ["animals"]
    assert set(first["methods"]) == {"iavi", "hiql"}  # its own table, for want of another
    short = replace(TINY, others=("uniform", "iavi"), families=())
    both = labyrinth.run(short, tmp_path, parts=("honest",), data=data)
    assert both["parts"] == ["honest", "animals"]
    assert set(both["methods"]) == {"uniform", "iavi"}
    # A quick part is never mixed with a full one.
    full = labyrinth.run(replace(short, quick=False), tmp_path, parts=("honest",), data=data)
    assert full["parts"] == ["honest"]


def test_without_annotations_there_are_visits_and_exits_only():
    known = simulated()
    bare = Data(known.demos, known.mdp, Events(known.events.happened, np.zeros(known.demos.n_steps, np.int64), ()))
    assert labyrinth_parts.animals(TINY, bare, labyrinth_parts.Work(Path())) == {"methods": {}, "n_animals": 0}
    model = labyrinth_parts.honest_method("hiql", TINY).model.fit(known.demos, known.mdp)
    row = bare.meaning(model, known.demos)
    assert not any(key.endswith("_enrichment") for key in row)


def test_meaning_is_read_from_the_windows_that_are_given():
    data = simulated()
    steps = data._steps(data.demos.subset([3, 1]))
    np.testing.assert_array_equal(steps, np.concatenate([np.arange(120, 160), np.arange(40, 80)]))


def test_annealed_starts_are_not_replaced_by_those_of_the_networks():
    model = labyrinth_parts.honest_method("prism-markov-k2", TINY).model
    assert (model.n_intentions, model.n_starts, model.starts) == (2, 8, "annealed")
    remembering = labyrinth_parts.honest_method("prism-markov-h2", TINY).model
    assert (remembering.n_starts, remembering.backoff, remembering.recount) == (8, "auto", True)
    network = labyrinth_parts.honest_method("prism-recurrent", TINY).model
    assert (network.n_starts, network.n_candidates, network.hidden) == (1, 3, 32)


def test_unknown_parts_are_refused(tmp_path):
    with pytest.raises(InputError, match="no part 'meaning'; choose among paper"):
        labyrinth.run(TINY, tmp_path, parts=("meaning",), data=simulated())


def command(*arguments: object) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(argument) for argument in arguments])
    return code, out.getvalue(), err.getvalue()


def test_the_command_runs_parts_and_prints_tables(tmp_path, monkeypatch):
    monkeypatch.setattr(labyrinth, "load", lambda settings: simulated())
    monkeypatch.setattr(Labyrinth, "small", classmethod(lambda cls: TINY))
    out = tmp_path / "run"
    code, text, err = command("reproduce", "labyrinth", "--quick", "--parts", "paper", "--out", out, "--jobs", 1)
    assert code == 0, err
    assert "Table num_latents" in text
    assert (out / "report.html").is_file()
    code, _, err = command("reproduce", "labyrinth", "--quick", "--out", out)
    assert code == 2
    assert "already holds a run" in err
    more = ("--parts", "alignment", "--out", out, "--jobs", 1, "--resume", "--json")
    code, text, err = command("reproduce", "labyrinth", "--quick", *more)
    assert code == 0, err
    assert json.loads(text)["parts"] == ["paper", "alignment"]
    code, _, err = command("reproduce", "gridworld", "--parts", "paper")
    assert code == 2
    assert "belongs to the labyrinth" in err


def test_missing_data_name_the_command_that_gets_them(tmp_path, monkeypatch):
    monkeypatch.setenv("PRISM_DATA", str(tmp_path))
    code, _, err = command("reproduce", "labyrinth", "--quick", "--out", tmp_path / "run")
    assert code == 2
    assert "prism data fetch labyrinth" in err
    assert not (tmp_path / "run").exists()


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the real data, or a skipped test."""
    folder = Path(os.environ.get("PRISM_DATA", Path(__file__).parents[4] / "shared" / "data"))
    if not (folder / "labyrinth" / "emissions500new.npy").is_file():
        pytest.skip("the labyrinth is absent; set PRISM_DATA to the folder that holds labyrinth/")
    monkeypatch.setenv("PRISM_DATA", str(folder))
    return folder


def test_one_intention_on_the_real_mice_is_the_paper_s_first_row(published, tmp_path):
    data = labyrinth.load(Labyrinth())
    assert len(data.demos) == 238
    found = labyrinth_parts.cross_validated(
        Labyrinth(), data, [labyrinth_parts.honest_method("iavi", TINY)], labyrinth_parts.Work(tmp_path)
    )["iavi"]
    train, test = PAPER_NUM_LATENTS[1]
    for key, reported in (("train_predictive_ll", train), ("predictive_ll", test), ("paper_score", test)):
        assert found[key]["mean"] == pytest.approx(reported, abs=2e-3)


def test_annotations_of_the_real_mice(published):
    if not (published / "labyrinth" / "annotations.npz").is_file():
        pytest.skip("annotations.npz is absent")
    data = labyrinth.load(Labyrinth())
    assert {name: int(at.sum()) for name, at in data.events.happened.items()} == {
        "water visit": 2622,
        "exit": 1486,
        "delivery": 768,
    }
    assert data.animals is not None
    assert (len(data.animals), len(np.unique(data.animals.groups))) == (233, 10)
    fewer = labyrinth.load(replace(Labyrinth(), n_trajectories=20))
    assert len(fewer.demos) == 20
    # The events move along with the windows: deliveries happen at the port and nowhere else.
    assert (fewer.demos.states[fewer.events.happened["delivery"]] == WATER).all()
