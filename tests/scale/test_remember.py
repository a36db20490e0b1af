"""Rows on disk are taken as they are, and the rest is worked out and written."""

import json

from prism_irl.scale import remember


def square(task, offset):
    return {"value": task * task + offset}


def test_rows_keep_the_order_of_the_tasks_and_are_written(tmp_path):
    seen = []
    rows = remember.spread(square, [3, 1, 2], (10,), lambda task: tmp_path / f"{task}.json", on_rows=seen.append)
    assert rows == [{"value": 19}, {"value": 11}, {"value": 14}]
    assert seen == [0, 1, 2, 3]
    assert json.loads((tmp_path / "1.json").read_text())["value"] == 11


def test_what_is_on_disk_is_not_done_again(tmp_path):
    (tmp_path / "1.json").write_text('{"value": -1}')
    seen = []
    rows = remember.spread(square, [3, 1], (0,), lambda task: tmp_path / f"{task}.json", on_rows=seen.append)
    assert rows == [{"value": 9}, {"value": -1}]
    assert seen == [1, 2]


def test_without_a_path_nothing_is_remembered(tmp_path):
    assert remember.spread(square, [2], (0,), lambda task: None) == [{"value": 4}]
    assert list(tmp_path.iterdir()) == []
