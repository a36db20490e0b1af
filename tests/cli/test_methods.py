"""`prism methods`: one line per method, or a list of dictionaries."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from prism_irl.cli.methods import KEYS, methods
from prism_irl.cli.options import CommonOptions
from prism_irl.models import registry

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
