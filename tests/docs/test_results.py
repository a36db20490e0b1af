"""Numbers in README and docs are those of the results files: no digit can change by itself."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs" / "results"))

import blocks  # noqa: E402
import results  # noqa: E402

BY_HAND: dict[str, str] = {}
"""Pages whose tables no results file can write, and why."""


@pytest.mark.parametrize("page", blocks.pages(ROOT), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_tables_are_those_of_the_results_files(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text == blocks.rendered(text), "python docs/results/results.py render"
    if page.relative_to(ROOT).as_posix() not in BY_HAND:
        loose = blocks.loose_numbers(text)
        assert not loose, f"a table with numbers outside of a block: {loose[0]}"


def test_a_digit_that_changes_is_noticed() -> None:
    text = (ROOT / "docs" / "results" / "summary.md").read_text(encoding="utf-8")
    inside = blocks.BLOCK.search(text)
    assert inside is not None
    digits = [found.start() + inside.start(3) for found in re.finditer(r"\d", inside[3])]
    assert digits
    for at in digits[:: max(1, len(digits) // 20)]:
        changed = text[:at] + str((int(text[at]) + 1) % 10) + text[at + 1 :]
        assert blocks.rendered(changed) != changed


def test_a_table_written_by_hand_is_noticed() -> None:
    row = "| recurrent switching | −1.099 |\n"
    inside = "<!-- results: gridworld_methods -->\n" + row + "<!-- end of results -->\n"
    assert blocks.loose_numbers(row) == [row.strip()]
    assert blocks.loose_numbers(inside) == []
    assert blocks.loose_numbers("| option | 3 folds |\n") == []
    assert blocks.loose_numbers("| format | 0.1.0 and later |\n") == []


def test_every_block_of_a_page_is_known_and_used() -> None:
    used = [
        found[2] for page in blocks.pages(ROOT) for found in blocks.BLOCK.finditer(page.read_text(encoding="utf-8"))
    ]
    assert set(used) == set(blocks.BLOCKS)


def test_results_files_say_where_they_come_from() -> None:
    files = list((ROOT / "docs" / "results").glob("*.json"))
    for path in files:
        found = json.loads(path.read_text(encoding="utf-8"))
        assert path.stem in blocks.COMMANDS
        assert {"command", "date", "versions", "machine", "seconds", "metrics"} <= set(found)
        # A quick run stands in for the long one until that is made, and every table says that it is one.
        assert blocks.origin(found).startswith("*a quick run: ") == bool(found["metrics"].get("quick"))
    assert results.listing().count("not run yet") == len(blocks.COMMANDS) - len(files)


def test_a_run_becomes_a_results_file_and_a_table(tmp_path: Path) -> None:
    spread = {"mean": -1.25, "std": 0.125}
    entry = {"name": "One", "predictive_ll": spread, "mean_dwell": None, "n_intentions": 1, "fit_seconds": 1 / 3}
    run = tmp_path / "run"
    run.mkdir()
    metrics = {"folds": 5, "seeds": 3, "every_fifth": {"one": entry}, "arrival": [1.0]}
    (run / "metrics.json").write_text(json.dumps(metrics))
    config = {"command": "prism reproduce labyrinth", "date": "2026-01-02", "versions": {"prism-irl": "0.1.0"}}
    (run / "config.json").write_text(json.dumps(config))
    with pytest.raises(SystemExit, match="does not say machine, seconds"):
        results.keep(run, "labyrinth", tmp_path)
    (run / "config.json").write_text(json.dumps(config | {"machine": "two cores", "seconds": 90.0}))
    with pytest.raises(SystemExit, match="no table of 'maze'"):
        results.keep(run, "maze", tmp_path)
    assert results.keep(run, "labyrinth", tmp_path) == tmp_path / "labyrinth.json"
    assert "arrival" not in blocks.read("labyrinth", tmp_path)["metrics"]
    text = blocks.BLOCKS["labyrinth_fifth"].render(tmp_path)
    assert "| One | −1.2500 ± 0.1250 | – |" in text
    age = "version 0.1.0 (older than the present code)"
    assert text.endswith(f"*`prism reproduce labyrinth`, 5 folds × 3 seeds, {age}, 2026-01-02, two cores.*\n")
    assert blocks.spent(blocks.read("labyrinth", tmp_path)) == "90 s"
    results.keep(run, "labyrinth", tmp_path, made="fits on 16 cores")
    assert blocks.spent(blocks.read("labyrinth", tmp_path)) == "fits on 16 cores"
    assert "prism reproduce labyrinth" in blocks.BLOCKS["labyrinth_frontier"].render(tmp_path)
    assert "prism reproduce gridworld" in blocks.BLOCKS["gridworld_methods"].render(tmp_path)


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (None, 3, "–"),
        (-0.5, 2, "−0.50"),
        (-0.0004, 3, "0.000"),
        (1e-12, 2, "0.00"),
        ({"mean": 2, "std": 0.0}, 1, "2.0"),
    ],
)
def test_numbers(value: object, digits: int, text: str) -> None:
    assert blocks.number(value, digits, spread=True) == text


SETTINGS: dict[str, str] = {
    "0.001": "smallest effect of the evidence; convergence, in nats per step",
    "0.002": "starts that are equally good, in nats per step",
    "0.05": "level of a test; default of --switch-penalty",
    "0.1": "smallest p that three against three could have",
    "0.3": "share of the paper's penalties that the Transformer gets",
    "0.4": "agreement that is never good; share of a reward that moves in the simulated studies",
    "0.5": "a reward that wants nothing; a version of LeRobot",
    "0.6": "a version of LeRobot",
    "0.8": "agreement at which a number of intentions is identified; default discount of continuous rewards",
    "0.9": "discount of the gridworld",
    "1.8": "how much rates differ in the simulated studies",
    "3.5": "robust z score of triage",
    "2%": "steps that an intention has to take",
    "5%": "nodes below which an intention is called explore",
    "90%": "labels that the tutorial calls right",
    "95%": "intervals",
    "3.11": "version of Python",
}
"""Numbers of prose that no run has made: settings and definitions. Whatever was measured stands in a block."""


def measured(text: str) -> list[str]:
    """Numbers in the prose of a page that look like results."""
    found = []
    for part in blocks.prose(text):
        part = re.sub(r"(\barXiv:|§|\bversion )[\d.]+", "", part)
        numbers = re.findall(r"(?<![\w.])[−-]?\d+\.\d+%?(?![.\d])|\b\d+%", part)
        found += [number for number in numbers if number not in SETTINGS]
        found += re.findall(r"\b(?:\w+|\d+) times (?:as|faster|slower|longer|the time)\b", part)
    return found


@pytest.mark.parametrize("page", blocks.pages(ROOT), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_numbers_in_prose_are_settings(page: Path) -> None:
    assert not measured(page.read_text(encoding="utf-8"))


def test_a_result_in_prose_is_noticed() -> None:
    assert measured("Ours reaches −0.656, which is 7% better, and four times as fast at a level of 0.05.") == [
        "−0.656",
        "7%",
        "four times as",
    ]


def test_results_of_this_version_name_their_commit() -> None:
    for path in (ROOT / "docs" / "results").glob("*.json"):
        versions = json.loads(path.read_text(encoding="utf-8"))["versions"]
        assert versions["prism-irl"] != blocks.VERSION or versions.get("commit"), path.name


def test_files_that_the_paper_pages_name_exist() -> None:
    missing = []
    for name in ("paper", "paper_claims"):
        text = (ROOT / "docs" / "results" / f"{name}.md").read_text(encoding="utf-8")
        missing += [path for path in re.findall(r"pytest ([\w/.]+\.py)", text) if not (ROOT / path).is_file()]
        modules = re.findall(r"`((?:[\w]+/)*\w+\.py)`", text)
        missing += [path for path in modules if not (ROOT / "src" / "prism_irl" / path).is_file()]
    assert not missing


def test_every_row_of_the_paper_pages_has_a_verdict_and_a_command_that_exists() -> None:
    from labyrinth.data import PARTS

    words = r"\*\*(confirmed|not|the same|differs|no likelihood|ours|other|another|faster|in part|lifted|the \w+)"
    for name in ("paper", "paper_claims"):
        text = (ROOT / "docs" / "results" / f"{name}.md").read_text(encoding="utf-8")
        rows = [line for line in text.splitlines() if line.startswith("| ")]
        for row in (row for row in rows if not row.startswith("| in the paper |") and "| verdict |" not in row):
            assert re.search(words, row.rsplit("| ", 1)[1]), row
            assert re.search(r"`(prism|pytest|make) ", row), row
        for path, word in re.findall(r"pytest ([\w/.]+\.py) -k (\w+)", text):
            assert re.search(rf"def test_\w*{word}", (ROOT / path).read_text(encoding="utf-8")), (path, word)
        for parts in re.findall(r"prism reproduce labyrinth --parts ([\w,]+)", text):
            assert set(parts.split(",")) <= set(PARTS), parts
