"""The calibration counts what was found, keeps what is done, and tells it in words and a figure."""

import contextlib
import io
import json

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import evidence
from evidence import SIZES, TRUTHS, Calibration, DataSet
from prism_irl.cli.main import main
from prism_irl.studies import null
from prism_irl.studies.analysis import Analysis
from worlds.errands import ErrandsWorld
from worlds.habits import HabitWorld

ANALYSIS = Analysis(intentions=(2,), folds=2, starts=1, max_iterations=5)
MAKE = DataSet.make
"""Before small worlds take its place."""


class Tiny(Calibration):
    """Three small data sets: a habit, a drifting one, and errands."""

    def data_sets(self):
        yield DataSet("habit", 1, 50, 1, 1, "grid")
        yield DataSet("drift", 1, 50, 1, 2, "grid")
        yield DataSet("errands", 2, 200, 1)


TINY = Tiny(analysis=ANALYSIS, surrogates=1, tried=(1, 2), quick=True)


@pytest.fixture(scope="module", autouse=True)
def small_worlds():
    """Sixteen trajectories of 30 steps, whatever size a data set is said to have."""

    def make(self):
        if self.place:
            world = HabitWorld(memory=self.memory, place=self.place, habit=self.seed, horizon=30)
            return world.simulate(16, seed=self.seed), world.mdp
        return ErrandsWorld(horizon=30).simulate(16, seed=self.seed).demonstrations, None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evidence.DataSet, "make", make)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("calibration")
    result = evidence.run(TINY, folder)
    assert json.loads((folder / "metrics.json").read_text()) == result
    return folder


def test_every_data_set_is_tested_once_and_as_by_hand(folder):
    rows = pd.read_csv(folder / "folds.csv")
    assert rows["id"].tolist() == [data.id for data in TINY.data_sets()]
    assert rows["world"].tolist() == ["habit, grid", "drift, grid", "errands"]
    assert rows["half"].unique().tolist() == ["report"]
    demos, mdp = next(iter(TINY.data_sets())).make()
    by_hand = null.sequential(demos, ANALYSIS, most=1, mdp=mdp)
    assert rows["gain"][0] == pytest.approx(by_hand["gain"])
    np.testing.assert_array_equal(rows["found"], rows["reached"] == 0)
    assert rows["found"][0] == (by_hand["gain"] > by_hand["surrogate_gains"][0])


def test_everything_is_left_behind(folder):
    metrics = json.loads((folder / "metrics.json").read_text())
    assert (metrics["experiment"], metrics["quick"], metrics["surrogates"]) == ("calibration", True, 1)
    rows = pd.read_csv(folder / "folds.csv")
    found = metrics["calibration"]
    assert found["false_positives"]["of"] == 2
    assert found["false_positives"]["found"] == rows["found"][:2].sum()
    assert found["power_at_largest"]["found"] == rows["found"][2]
    assert len(metrics["methods"]) == 3
    assert found["select"]["errands"]["of"] == 1
    assert rows["recommended"].notna().tolist() == [False, False, True]
    assert {path.name for path in (folder / "figures").iterdir()} >= {"power.svg", "power.png", "captions.json"}


def test_what_is_done_is_not_done_again(folder, monkeypatch):
    monkeypatch.setattr(evidence, "test_one", None)
    monkeypatch.setattr(evidence, "count_one", None)
    before = json.loads((folder / "metrics.json").read_text())
    told = []
    assert evidence.run(TINY, folder, on_part=lambda *numbers: told.append(numbers)) == before
    assert told == [(3, 4), (4, 4)]
    with pytest.raises(TypeError):  # other settings are another test
        evidence.run(Tiny(analysis=ANALYSIS, surrogates=2, quick=True), folder)


def row(found, *, world="habit", truth=1, n=50, **changes):
    return {"world": world, "truth": truth, "n_trajectories": n, "found": found, "gain": 0.1, "seconds": 2.0} | changes


def test_shares_have_exact_intervals():
    found = evidence.share([row(i < 2) for i in range(40)])
    assert (found["found"], found["of"], found["share"]) == (2, 40, 0.05)
    # Clopper and Pearson's, from the beta distribution.
    assert found["low"] == pytest.approx(stats.beta.ppf(0.025, 2, 39))
    assert found["high"] == pytest.approx(stats.beta.ppf(0.975, 3, 38))
    assert evidence.share([row(False)] * 5)["low"] == 0.0


def test_false_positives_and_power_are_kept_apart():
    rows = [row(i == 0) for i in range(4)] + [row(False, world="drift", n=100)] * 2
    rows += [row(True, world="mice", truth=3, n=200)] * 3 + [row(False, world="mice", truth=3, n=200)]
    rows += [row(False, world="mice", truth=3, n=50), row(True, world="errands", truth=2, n=200)]
    found = evidence.summary(rows)
    assert (found["false_positives"]["found"], found["false_positives"]["of"]) == (1, 6)
    assert {kind: (s["found"], s["of"]) for kind, s in found["by_kind"].items()} == {"habit": (1, 4), "drift": (0, 2)}
    assert {key: (p["n"], p["share"]) for key, p in found["power"].items()} == {
        "mice 50": (50, 0.0),
        "mice 200": (200, 0.75),
        "errands 200": (200, 1.0),
    }
    assert (found["power_at_largest"]["found"], found["power_at_largest"]["of"]) == (4, 5)
    assert evidence.summary(rows[:6])["power_at_largest"] is None


def test_words_are_those_of_the_numbers():
    rows = [row(i < 3) for i in range(40)] + [row(True, world="mice", truth=3, n=200)]
    first, second = evidence.notes(Calibration(), rows)
    assert "in 3 of 40 cases (7.5%" in first
    assert "the level is 5%" in first
    chance = sum(stats.binom.pmf(k, 40, 0.05) for k in range(3, 41))
    assert f"by chance with probability {chance:.2f}" in first
    assert second == "With intentions and 200 trajectories they are found in 1 of 1 cases."
    assert len(evidence.notes(Calibration(), rows[:40])) == 1
    assert "with probability 1.00" in evidence.notes(Calibration(), [row(False)] * 40)[0]


def test_the_table_has_a_row_per_kind_and_size():
    rows = [row(True), row(False, gain=0.3), row(True, n=100), row(True, world="mice", truth=3, n=200)]
    found = evidence._table(rows)
    assert [entry["name"] for entry in found.values()] == [
        "habit, 50 trajectories (no intentions)",
        "habit, 100 trajectories (no intentions)",
        "mice, 200 trajectories",
    ]
    first = found["habit-50"]
    assert (first["evidence_found"], first["data_sets"]) == (1, 2)
    assert first["gain_over_habit"] == pytest.approx(0.2)


def test_the_command_prints_it_and_leaves_a_page(tmp_path, monkeypatch):
    monkeypatch.setattr(evidence.Calibration, "small", classmethod(lambda cls: TINY))
    monkeypatch.setattr(
        evidence, "test_one", lambda data, *_: row(True, world=data.world, truth=data.truth, n=data.n, id=data.id)
    )
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(["reproduce", "evidence", "--quick", "--jobs", "1", "--out", str(tmp_path / "run")]) == 0
    assert "in 2 of 2 cases" in out.getvalue()
    assert "errands, 200 trajectories" in out.getvalue()
    page = (tmp_path / "run" / "report.html").read_text()
    assert "in 2 of 2 cases" in page
    assert "No more false positives than the level of the test allows for." in page  # 2 of 2, at a level of one half
    assert "evidence found" in page
    assert "Predictive LL" not in page  # there are no likelihoods to compare


def test_every_data_set_has_a_name_of_its_own():
    for settings in (Calibration(), Calibration.small()):
        names = [data.id for data in settings.data_sets()]
        assert len(set(names)) == len(names)


def test_there_are_enough_of_them():
    found = list(Calibration().data_sets())
    without = [data for data in found if data.truth == 1]
    assert len(without) >= 40
    assert {data.world for data in without} == {"habit", "drift", "cloned"}
    habits = {(data.place, data.memory, data.individuals) for data in without if data.world == "habit"}
    assert len(habits) == 2 * 5 * 2
    assert {data.n for data in without} == set(SIZES)
    for world, truth in TRUTHS.items():
        own = [data for data in found if data.world == world]
        assert {data.truth for data in own} == {truth}
        assert {data.n for data in own} == set(SIZES)
    assert sum(data.truth > 1 for data in found) >= 20


def test_halves_go_by_the_parity_of_seeds():
    assert [DataSet("mice", 3, 50, seed).half for seed in (0, 1, 2, 3)] == ["settle", "report"] * 2
    assert {data.half for data in Calibration().data_sets()} == {"report"}
    even = Calibration(habits=(0, 2), further=(0,), power=(0,), smaller=(2,))
    assert {data.half for data in even.data_sets()} == {"settle"}
    assert not {data.id for data in even.data_sets()} & {data.id for data in Calibration().data_sets()}


def test_a_quick_run_has_every_kind():
    kinds = [{data.world for data in settings.data_sets()} for settings in (Calibration(), Calibration.small())]
    assert kinds[0] == kinds[1]
    assert len(list(Calibration.small().data_sets())) < 20


@pytest.mark.parametrize(
    "data",
    [
        DataSet("habit", 1, 8, 1, 2, "grid"),
        DataSet("habit", 1, 8, 1, 2, "maze", individuals=True),
        DataSet("drift", 1, 8, 1, 2, "grid"),
        *(DataSet(world, truth, 8, 1) for world, truth in TRUTHS.items()),
    ],
    ids=lambda data: data.id,
)
def test_data_sets_are_what_they_are_called(data):
    demos, mdp = MAKE(data)
    again, _ = MAKE(data)
    np.testing.assert_array_equal(demos.actions, again.actions)
    assert len(demos) == 8
    assert (demos.groups is not None) == data.individuals
    if mdp is not None:
        assert (mdp.n_states, mdp.n_actions) == (demos.n_states, demos.n_actions)
    labels = 1 if demos.labels is None else len(np.unique(demos.labels))
    assert labels == data.truth


def test_drift_changes_the_habit():
    still, _ = MAKE(DataSet("habit", 1, 20, 1, 2, "grid"))
    moving, _ = MAKE(DataSet("drift", 1, 20, 1, 2, "grid"))
    assert (still.actions[:50] == moving.actions[:50]).all()  # the first trajectory has not moved yet
    assert (still.actions[-50:] != moving.actions[-50:]).any()
