"""`prism demo`: a small world with known intentions, from simulation to report, without the folder of experiments."""

import json
from types import SimpleNamespace

import pytest

from prism_irl.cli.options import CommonOptions
from prism_irl.cli.start import KEYS, methods, run_gridworld
from prism_irl.models import registry
from prism_irl.report.explorer import read_explorer
from prism_irl.worlds.frustration import INTENTIONS


def test_methods_are_compared_with_the_truth(tmp_path):
    result = run_gridworld(tmp_path, n=20, n_starts=1, max_iterations=1)
    methods = result["methods"]
    assert next(iter(methods)) == "oracle"
    ceiling = methods["oracle"]["predictive_ll"]["mean"]
    assert all(entry["predictive_ll"]["mean"] < ceiling for name, entry in methods.items() if name != "oracle")
    assert methods["oracle"]["label_accuracy"]["mean"] > 0.8
    assert {f"evd_{name}" for name in INTENTIONS} <= set(methods["hiql"])
    assert json.loads((tmp_path / "metrics.json").read_text())["quick"]
    explorer = read_explorer(tmp_path)
    assert "frustration" in json.dumps(explorer)
    captions = json.loads((tmp_path / "figures" / "captions.json").read_text())
    assert "method_bars" in captions
    assert all((tmp_path / "figures" / f"{stem}.png").is_file() for stem in captions)


# -- `prism methods`: one line per method, or a list of dictionaries.


ENTRIES = [
    SimpleNamespace(
        id="hiql",
        name="HIQL",
        switching="markov",
        rewards="tabular",
        leaks=False,
        takes_intentions=True,
        when="Choose it first.",
    ),
    SimpleNamespace(
        id="ngram",
        name="n-gram",
        switching=None,
        rewards=None,
        leaks=False,
        takes_intentions=False,
        when="A floor for predictions.",
    ),
]


def test_lines_and_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(registry, "entries", lambda: ENTRIES, raising=False)
    methods()
    assert capsys.readouterr().out.splitlines() == [
        "hiql   markov + tabular  Choose it first.",
        "ngram  –                 A floor for predictions.",
    ]
    methods(common=CommonOptions(json=True))
    found = json.loads(capsys.readouterr().out)
    assert [tuple(entry) for entry in found] == [KEYS, KEYS]
    assert found == [vars(entry) for entry in ENTRIES]
