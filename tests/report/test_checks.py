"""The page says what lies outside, what lies furthest, and what chance allows; a damaged file is refused."""

import json
from pathlib import Path

import numpy as np
import pytest

from prism_irl import storage
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.evaluation.checks import Behaviour, Checks, compare
from prism_irl.report.checks import FILE, read_checks, section, without_checks
from prism_irl.report.draw import draw_run
from prism_irl.report.explorer import write_explorer
from prism_irl.report.render import write_report

FIT = json.loads(Path(__file__).with_name("fit.json").read_text())


def statistic(name, data, outside, unit="share", **about):
    numbers = {"data": data, "mean": 0.5, "low": 0.4, "high": 0.6, "p": 0.095 if outside else 0.5, "spread": 0.05}
    return {"name": name, "unit": unit, "intention": None, "state": None, **about, **numbers, "outside": outside}


def value(*statistics, **changes):
    sizes = {"n_trajectories": 3, "n_steps": 30, "of_trajectories": 3, "of_steps": 30}
    return {"version": 1, "simulations": 20, **sizes, "statistics": list(statistics), "note": "", **changes}


def test_nothing_outside_is_good():
    found = section(value(*(statistic(str(i), 0.5, False) for i in range(9))), None, None)
    assert found.finding.level == "good"
    assert "All 9 numbers" in found.finding.text
    assert "the 3 trajectories of the data" in found.how
    assert "intentions" not in found.how  # there is one


@pytest.mark.parametrize(("n", "level"), [(1, "good"), (2, "good"), (3, "warning"), (15, "warning")])
def test_more_outside_than_chance_allows_is_a_warning(n, level):
    """Of 15 numbers, 2 may lie outside in 95 of 100 cases."""
    found = section(value(*(statistic(str(i), 0.9 if i < n else 0.5, i < n) for i in range(15))), None, None)
    assert found.finding.level == level
    assert sum(row.outside for row in found.rows) == n


def test_what_lies_furthest_is_named_first():
    statistics = [statistic(f"number {i}", 0.7 + 0.05 * i, True) for i in range(5)]
    text = section(value(*statistics), None, None).finding.text
    assert text.index("number 4") < text.index("number 3") < text.index("number 2")
    assert "number 1" not in text


def test_rows_speak_of_intentions_and_places_by_name():
    dwell = statistic("dwell", 0.9, True, unit="steps", intention=1)
    visits = statistic("time between visits", 12.0, False, unit="steps", state=2)
    far = statistic("where it is", 0.123, True, unit="distance")
    found = section(value(dwell, visits, far), ["rest", "water"], ["a", "b", "port"])
    rows = found.rows
    assert "its intentions were read off" in found.how
    assert (rows[0].what, rows[0].intention, rows[0].k, rows[0].unit) == ("dwell", "water", 1, "steps")
    assert (rows[1].what, rows[1].data, rows[1].interval) == ("time between visits of port", "12.0", "0.4 to 0.6")
    assert (rows[2].what, rows[2].data, rows[2].interval) == ("difference in where it is", "12.3%", "up to 60.0%")
    assert section(value(visits), None, None).rows[0].what.endswith("state 2")


def test_of_much_data_a_part_is_named():
    how = section(value(of_trajectories=9, of_steps=90), None, None).how
    assert "3 of the 9 trajectories (30 of 90 steps" in how


def run(folder, note=""):
    rng = np.random.default_rng(0)
    states = rng.integers(4, size=(6, 40))
    demos = Demonstrations.from_arrays(states, states % 2, n_states=4, n_actions=2)
    labels = np.repeat(rng.integers(2, size=(6, 8)), 5, axis=1).ravel()
    write_explorer(folder, demos, np.eye(2)[labels])
    (folder / "figures").mkdir(exist_ok=True)
    own, *others = [Behaviour(rng.integers(4, size=240), np.roll(labels, i), demos.offsets) for i in range(8)]
    sizes = (6, 240, 6, 240)
    found = Checks(0, *sizes, [], [], {}, note=note) if note else compare(own, others, 4, 2, sizes)
    without_checks(folder)
    storage.write_json(folder / FILE, found.to_json())
    captions = draw_run(folder)
    (folder / "metrics.json").write_text(json.dumps({**FIT, "n_intentions": 2}))
    return captions


def test_the_page_has_sentence_table_and_figure(tmp_path):
    captions = run(tmp_path)
    assert "checks" in captions
    assert (tmp_path / "figures" / "checks.csv").is_file()
    page = write_report(tmp_path).read_text(encoding="utf-8")
    part = page[page.index('<section id="checks"') :]
    part = part[: part.index("</section>")]
    assert "Does the model behave like the agent?" in part
    assert part.count("<tr") == 1 + len(json.loads((tmp_path / FILE).read_text())["statistics"])
    assert 'data-stem="checks"' in part
    assert page.count('data-stem="checks"') == 1  # and not once more among the figures


def test_what_was_not_simulated_has_its_reason_and_no_old_figure(tmp_path):
    run(tmp_path)
    assert "checks" not in run(tmp_path, note="It reads a camera.")
    page = write_report(tmp_path).read_text(encoding="utf-8")
    assert "Nothing was simulated. It reads a camera." in page
    assert not list((tmp_path / "figures").glob("checks*"))


@pytest.mark.parametrize("damage", [{"version": 2}, {"statistics": [{}]}, {"statistics": [statistic("x", None, True)]}])
def test_a_damaged_file_is_refused(tmp_path, damage):
    run(tmp_path)
    assert read_checks(tmp_path)["version"] == 1
    (tmp_path / FILE).write_text(json.dumps({**json.loads((tmp_path / FILE).read_text()), **damage}))
    with pytest.raises(InputError, match=r"checks\.json is damaged"):
        write_report(tmp_path)


def test_a_run_without_checks_has_no_such_section(tmp_path):
    (tmp_path / "metrics.json").write_text(json.dumps(FIT))
    assert 'id="checks"' not in write_report(tmp_path).read_text(encoding="utf-8")
