"""The calibration: nulls have no intentions, cells resume, shares have exact intervals."""

import numpy as np
import pytest

import evidence
from evidence import NULLS, POSITIVES, Cell


@pytest.mark.parametrize("family", [*NULLS, *POSITIVES])
def test_every_family_can_be_simulated_again(family):
    cell = Cell(family, 50, 1)
    first, again = cell.make(), cell.make()
    assert len(first) == 50
    np.testing.assert_array_equal(first.actions, again.actions)


@pytest.mark.parametrize("n", evidence.SIZES)
def test_worlds_have_the_size_that_is_asked_for(n):
    demos = Cell("individuals", n, 0).make()
    assert len(demos) == n
    assert demos.n_groups == 8


def test_enough_data_sets_and_none_twice():
    wanted = list(evidence.cells(quick=False))
    assert len(set(wanted)) == len(wanted)
    assert sum(not cell.truth for cell in wanted) >= 200
    assert {cell.n for cell in wanted} == set(evidence.SIZES)
    assert sum(cell.family == "practised routes" and cell.n == 200 for cell in wanted) >= 10
    assert [cell.number for cell in wanted] == sorted(cell.number for cell in wanted)
    quick = list(evidence.cells(quick=True))
    assert {cell.family for cell in quick} == {*NULLS, *POSITIVES}
    assert len(quick) == len({*NULLS, *POSITIVES})


def row(family, found, n=200):
    return {"family": family, "found": found, "n": n, "seed": 0, "intentions": family in POSITIVES, "seconds": 36.0}


def test_shares_and_families():
    rows = (
        [row("win-stay", i < 5) for i in range(8)]
        + [row("labyrinth habit", False)] * 20
        + [row("simulated mice", True), row("simulated mice", False, 50), row("practised routes", True)]
    )
    found = evidence.summary(rows)
    assert (found["false_positives"]["found"], found["false_positives"]["of"]) == (5, 28)
    assert found["families_above_the_level"] == ["win-stay"]
    assert {n: own["share"] for n, own in found["power"].items()} == {"50": 0.0, "200": 1.0}
    assert found["cpu_hours"] == pytest.approx(0.31)
    said = evidence.notes(found)
    assert "5 of 28" in said[0]
    assert said[1] == "Intentions are found in 0 of 1 of 50 trajectories and 2 of 2 of 200 trajectories."
    assert said[2] == "Over practised routes they are found in 1 of 1 of 200 trajectories."


def test_finished_cells_are_kept(tmp_path, monkeypatch):
    made = []

    def cell_row(cell, surrogates):
        made.append(cell)
        return row(cell.family, False, cell.n) | {"id": cell.id, "seed": cell.number, "p_value": 1.0}

    monkeypatch.setattr(evidence, "run_cell", cell_row)
    wanted = [Cell("win-stay", 50, 1), Cell("labyrinth habit", 50, 1)]
    first = evidence.run(wanted, tmp_path)
    assert evidence.run(wanted, tmp_path) == first
    assert made == wanted
    assert (tmp_path / "metrics.json").is_file()


def test_the_page_judges_level_and_power():
    null, positive = next(iter(NULLS)), next(iter(POSITIVES))
    rows = [row(null, i < 1) for i in range(20)] + [row(positive, True, evidence.LARGE) for _ in range(20)]
    told = evidence.judged(evidence.summary(rows), 39)
    assert [one["level"] for one in told["findings"]] == ["good", "good"]
    assert told["summary"].startswith("No more false positives")
    wrong = evidence.judged(evidence.summary([row(null, True) for _ in range(20)]), 39)
    assert [one["level"] for one in wrong["findings"]] == ["bad"]
