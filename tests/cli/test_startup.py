"""Starting costs nothing until a model is used: neither the package nor a help text loads what is heavy."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import prism_irl
from prism_irl import halves
from prism_irl.cli.options import read_options
from prism_irl.models.intentions import Intentions
from prism_irl.models.settings import Settings
from prism_irl.rewards import REWARDS
from prism_irl.switching import SWITCHING

HEAVY = ("torch", "sklearn", "pandas", "scipy", "matplotlib", "numba", "numpy", "pyarrow")
HALVES = (*SWITCHING.values(), *REWARDS.values())
HELP = "import contextlib, io; from prism_irl.cli.main import main\nwith contextlib.redirect_stdout(io.StringIO()):\n"


@pytest.mark.parametrize(
    "program",
    [
        "import prism_irl; prism_irl.__version__; dir(prism_irl)",
        HELP + "    assert main(['--help']) == 0",
        HELP + "    assert main(['fit', '--help']) == 0",
        HELP + "    assert main(['fit', '--help-all']) == 0",
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
small = ["--switching", "markov", "--intentions", "2", "--n-starts", "2", "--quiet"]
assert main(["fit", {table!r}, *small, "--out", {out!r}]) == 0
"""
FIGURES = "from prism_irl.report import draw"


def loaded(program: str, *names: str) -> list[str]:
    """Which of some modules a program has imported when it ends."""
    ask = LOADED.format(program=program, names=names)
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    return done.stderr.split()


def test_a_markov_chain_is_fitted_and_reported_without_torch(tmp_path: Path) -> None:
    rng, n = np.random.default_rng(0), 400
    rows = zip(np.arange(n) // 20, rng.integers(5, size=n), rng.integers(3, size=n), strict=True)
    table = tmp_path / "walk.csv"
    table.write_text("trajectory,state,action\n" + "\n".join(",".join(map(str, row)) for row in rows))
    program = FIT.format(table=str(table), out=str(tmp_path / "run"))
    assert loaded(program, "torch") == []
    assert (tmp_path / "run" / "report.html").is_file()


def test_figures_are_drawn_without_pandas_and_scipy() -> None:
    assert loaded(FIGURES, "pandas", "scipy", "torch", "matplotlib.pyplot") == []


def test_public_names_are_there_when_they_are_asked_for() -> None:
    assert prism_irl.Intentions is Intentions
    assert set(prism_irl.__all__) <= set(dir(prism_irl))
    for name in prism_irl.__all__:
        assert getattr(prism_irl, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'PRISN'"):
        prism_irl.PRISN  # noqa: B018
    everything: dict[str, object] = {}
    exec("from prism_irl import *", everything)
    assert set(prism_irl.__all__) <= set(everything)


@pytest.mark.parametrize("half", HALVES)
def test_every_option_of_a_component_is_documented(half: halves.Half) -> None:
    assert all(option.help for option in read_options(halves.locate(half.where, "component")).values())


def test_every_parameter_is_documented() -> None:
    assert {name for name, option in read_options(Settings).items() if not option.help} <= {"device"}


FIRST_WEIGHTS = """
import sys
{first}
import numpy as np
from prism_irl import Demonstrations, Intentions
demos = Demonstrations.from_arrays([np.arange(12) % 3] * 4, [np.arange(12) % 2] * 4)
options = {{"n_starts": 1, "max_iterations": 1, "n_candidates": 1, "warm_up": 1, "device": "cpu"}}
model = Intentions(2, switching="independent", hidden=4, embedding=4, **options).fit(demos)
print(repr(model.log_likelihood(demos).sum()), file=sys.stderr)
"""


def test_a_seed_means_the_same_before_torch_is_imported_and_after() -> None:
    found = [
        subprocess.run(
            [sys.executable, "-c", FIRST_WEIGHTS.format(first=first)], capture_output=True, text=True, check=True
        )
        for first in ("", "import torch; torch.rand(5)")
    ]
    assert found[0].stderr.splitlines()[-1] == found[1].stderr.splitlines()[-1]
