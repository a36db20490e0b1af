"""What a comparison says of its two best methods, and of methods with one intention."""

import pytest

from prism_irl.cli.printing import print_methods
from prism_irl.report.table_rows import method_table
from prism_irl.studies.comparison import best_two_note

SCORE = {"mean": -1.25, "std": 0.125}


def entry(name, n_intentions, **more):
    known = {"name": name, "leaks": False, "n_intentions": n_intentions, "predictive_ll": SCORE, "paper_score": SCORE}
    return known | {"mean_dwell": {"mean": 50.0, "std": 0.0}, "label_accuracy": None, "fit_seconds": 1.0} | more


@pytest.mark.parametrize(
    ("p", "words"),
    [
        (0.19, "by 0.0400 nats per step, which may be chance (p = 0.19, a test)."),
        (0.01, "by 0.0400 nats per step (p = 0.01, a test)."),
        (None, "by 0.0400 nats per step, on one fold, which tells nothing about chance."),
    ],
)
def test_a_difference_that_may_be_chance_is_called_so(p, words):
    pair = {"best": "a", "second": "b", "difference": 0.04, "p_value": p, "test": "a test"}
    result = {"best_two": pair, "methods": {"a": entry("One", 2), "b": entry("Two", 2)}}
    assert best_two_note(result) == [f"One predicts better than Two {words}"]


def test_what_cannot_switch_has_no_dwell(capsys):
    metrics = {"title": "Comparison", "methods": {"hiql": entry("Chain", 2), "iavi": entry("Single", 1)}}
    print_methods(metrics)
    lines = {line.split("│")[1].strip(): line for line in capsys.readouterr().out.splitlines() if line.startswith("│")}
    assert "50.0" in lines["Chain"]
    assert "50.0" not in lines["Single"]
    shown = method_table(metrics)
    dwell = [column.key for column in shown.columns].index("mean_dwell")
    assert [row[2][dwell].text for row in shown.rows] != [shown.rows[0][2][dwell].text] * 2
    assert metrics["methods"]["iavi"]["mean_dwell"] is not None  # the file keeps what it had


def test_a_column_that_nobody_has_is_not_printed(capsys):
    print_methods({"title": "Comparison", "methods": {"hiql": entry("Chain", 2)}})
    assert "label accuracy" not in capsys.readouterr().out
    print_methods({"title": "Comparison", "methods": {"hiql": entry("Chain", 2, label_accuracy=SCORE)}})
    assert "label accuracy" in capsys.readouterr().out
