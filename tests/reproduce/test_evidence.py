"""The calibration: nulls have no intentions, cells resume, shares have exact intervals."""

import numpy as np
import pytest

import evidence
from evidence import NULLS, POSITIVES, Cell


@pytest.mark.parametrize("family", [*NULLS, *POSITIVES])
def test_every_family_can_be_simulated_again(family):
    cell = Cell(family, 40, 1)
    first, again = cell.make(), cell.make()
    assert 20 <= len(first) <= 40
    np.testing.assert_array_equal(first.actions, again.actions)
    assert cell.truth == (first.labels is not None or family == "practised routes")


def test_large_worlds_are_cut():
    assert len(Cell("sticky-choices", 200, 0).make()) in (160, 200)


def row(family, found, n=200):
    return {"family": family, "found": found, "n": n, "intentions": family in POSITIVES, "seconds": 36.0}


def test_shares_and_families():
    rows = (
        [row("win-stay", i < 5) for i in range(8)]
        + [row("labyrinth habit", False)] * 20
        + [row("simulated mice", True), row("simulated mice", False, 40)]
    )
    found = evidence.summary(rows)
    assert (found["false_positives"]["found"], found["false_positives"]["of"]) == (5, 28)
    assert found["families_above_the_level"] == ["win-stay"]
    assert found["power_at_largest"]["share"] == 1.0
    assert found["cpu_hours"] == pytest.approx(0.3)
    assert "5 of 28" in evidence.notes(found)[0]


def test_finished_cells_are_kept(tmp_path, monkeypatch):
    made = []

    def cell_row(cell, surrogates):
        made.append(cell)
        return row(cell.family, False, cell.n) | {"id": cell.id, "seed": cell.number, "p_value": 1.0}

    monkeypatch.setattr(evidence, "run_cell", cell_row)
    wanted = [Cell("win-stay", 40, 1), Cell("labyrinth habit", 40, 1)]
    first = evidence.run(wanted, tmp_path)
    assert evidence.run(wanted, tmp_path) == first
    assert made == wanted
    assert (tmp_path / "metrics.json").is_file()
