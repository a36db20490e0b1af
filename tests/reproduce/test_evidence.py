"""The calibration: nulls have no intentions, cells resume, shares have exact intervals."""

import numpy as np
import pytest

import evidence
from evidence import NULLS, POSITIVES, Cell


@pytest.mark.parametrize("family", [*NULLS, *POSITIVES])
def test_every_family_can_be_simulated_again(family):
    cell = Cell(family, 6, 3)
    first, again = cell.make()[0], cell.make()[0]
    assert len(first) == 6
    np.testing.assert_array_equal(first.actions, again.actions)
    assert first.labels is None or cell.truth
    assert cell.truth == (family in POSITIVES)


def test_practised_ways_repeat_themselves_and_others_do_not():
    spread = []
    for family in ("practised", "goals"):
        demos = Cell(family, 60, 1).make()[0]
        counts = np.zeros((demos.n_states, demos.n_actions))
        np.add.at(counts, (demos.states, demos.actions), 1)
        p = counts / np.maximum(counts.sum(1, keepdims=True), 1)
        spread.append(-(p * np.log(np.maximum(p, 1e-12))).sum(1) @ counts.sum(1) / demos.n_steps)
    assert spread[0] < spread[1]


def row(family, found, n=200):
    return {"family": family, "found": found, "n": n, "intentions": family in POSITIVES, "seconds": 36.0}


def test_shares_and_families():
    rows = (
        [row("sticky", i < 5) for i in range(8)]
        + [row("maze", False)] * 20
        + [row("mice", True), row("mice", False, 50)]
    )
    found = evidence.summary(rows)
    assert (found["false_positives"]["found"], found["false_positives"]["of"]) == (5, 28)
    assert found["families_above_the_level"] == ["sticky"]
    assert found["power_at_largest"]["share"] == 1.0
    assert found["cpu_hours"] == pytest.approx(0.3)
    assert "5 of 28" in evidence.notes(found)[0]


def test_finished_cells_are_kept(tmp_path, monkeypatch):
    made = []

    def cell_row(cell, surrogates):
        made.append(cell)
        return row(cell.family, False, cell.n) | {"id": cell.id, "seed": cell.seed, "p_value": 1.0}

    monkeypatch.setattr(evidence, "run_cell", cell_row)
    wanted = [Cell("sticky", 50, 1), Cell("maze", 50, 1)]
    first = evidence.run(wanted, tmp_path)
    assert evidence.run(wanted, tmp_path) == first
    assert made == wanted
    assert (tmp_path / "metrics.json").is_file()
