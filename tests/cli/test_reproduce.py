"""`prism reproduce` finds the experiments in a clone, and says elsewhere where they are."""

import sys
from pathlib import Path

import pytest

from prism_irl.cli import reproduce
from prism_irl.errors import InputError


def test_every_experiment_has_a_command():
    for script in reproduce.SCRIPTS.values():
        assert callable(reproduce.import_script(script).command)


def test_without_a_clone_one_sentence_says_where_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reproduce, "__file__", str(tmp_path / "site-packages" / "prism_irl" / "cli" / "reproduce.py"))
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    with pytest.raises(InputError, match="clone its repository"):
        reproduce.import_script("gridworld")
    assert sys.path == before
