"""Starting costs nothing until a model is used: neither the package nor a help text loads what is heavy."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import typing
from pathlib import Path

import numpy as np
import pytest

import prism_irl
from prism_irl import halves
from prism_irl.cli.signature import read_options
from prism_irl.models import registry
from prism_irl.models.prism import PRISM
from prism_irl.rewards import REWARDS
from prism_irl.rewards.options import RewardOptions
from prism_irl.switching import SWITCHING
from prism_irl.switching.options import SwitchingOptions

HEAVY = ("torch", "sklearn", "pandas", "scipy", "matplotlib", "numba", "numpy", "pyarrow")
HALVES = (*SWITCHING.values(), *REWARDS.values())
HELP = "import contextlib, io; from prism_irl.cli.main import main\nwith contextlib.redirect_stdout(io.StringIO()):\n"


@pytest.mark.parametrize(
    "program",
    [
        "import prism_irl; prism_irl.__version__; dir(prism_irl)",
        HELP + "    assert main(['--help']) == 0",
        HELP + "    assert main(['fit', '--help']) == 0",
        HELP + "    assert main(['tokenize', '--help']) == 0",
        "from prism_irl.cli.main import main; assert main(['fit', 'a.csv', '--intentions', 'x', '--out', 'b']) == 2",
        "from prism_irl import storage, errors",
    ],
)
def test_nothing_heavy_is_loaded(program: str) -> None:
    ask = f"import json, sys\n{program}\nprint(json.dumps([name for name in {HEAVY} if name in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []


LOADED = "import sys\n{program}\nprint(*(name for name in {names} if name in sys.modules), file=sys.stderr)"
FIT = """
from prism_irl.cli.main import main
assert main(["fit", {table!r}, "--switching", "markov", "--intentions", "2", "--n-starts", "2", "--out", {out!r}]) == 0
"""
FIGURES = "from prism_irl.report import check_pictures, fit_pictures, pictures"


def loaded(program: str, *names: str) -> list[str]:
    """Which of some modules a program has imported when it ends."""
    ask = LOADED.format(program=program, names=names)
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    return done.stderr.split()


def test_a_markov_chain_is_fitted_and_reported_without_torch_and_scikit_learn(tmp_path: Path) -> None:
    rng, n = np.random.default_rng(0), 400
    rows = zip(np.arange(n) // 20, rng.integers(5, size=n), rng.integers(3, size=n), strict=True)
    table = tmp_path / "walk.csv"
    table.write_text("trajectory,state,action\n" + "\n".join(",".join(map(str, row)) for row in rows))
    program = FIT.format(table=str(table), out=str(tmp_path / "run"))
    assert loaded(program, "torch", "sklearn", "scipy.stats", "scipy.optimize", "joblib") == []
    assert (tmp_path / "run" / "report.html").is_file()


def test_figures_are_drawn_without_pandas_and_scipy() -> None:
    assert loaded(FIGURES, "pandas", "scipy", "torch", "matplotlib.pyplot") == []


def test_public_names_are_there_when_they_are_asked_for() -> None:
    assert prism_irl.PRISM is PRISM
    assert set(prism_irl.__all__) <= set(dir(prism_irl))
    for name in prism_irl.__all__:
        assert getattr(prism_irl, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'PRISN'"):
        prism_irl.PRISN  # noqa: B018
    everything: dict[str, object] = {}
    exec("from prism_irl import *", everything)
    assert set(prism_irl.__all__) <= set(everything)


@pytest.mark.parametrize("where", [registry.NAMED["prism-recurrent"].where, *(half.where for half in HALVES)])
def test_the_options_that_are_read_are_those_that_run(where: str) -> None:
    found, real = read_options(where), halves.locate(where, "class")
    fields = {field.name: field.default for field in dataclasses.fields(real)}
    assert {name: option.default for name, option in found.items()} == fields
    hints = typing.get_type_hints(real)
    for name, option in found.items():
        if not ({SwitchingOptions, RewardOptions} & set(typing.get_args(hints[name]))):  # by name on a command line
            assert option.type == hints[name], name
    assert all(option.help for option in found.values() if option is not found.get("device"))
