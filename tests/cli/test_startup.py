"""Starting costs nothing until a model is used: neither the package nor a help text loads what is heavy."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
import typing

import pytest

import prism_irl
from prism_irl.cli.signature import read_constructor
from prism_irl.models.prism import PRISM

HEAVY = ("torch", "sklearn", "pandas", "scipy", "matplotlib", "numba", "numpy", "pyarrow")
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


def test_the_constructor_that_is_read_is_the_one_that_runs() -> None:
    found = read_constructor("prism_irl.models.prism", "PRISM")
    parameters = dict(list(inspect.signature(PRISM.__init__).parameters.items())[1:])
    hints = typing.get_type_hints(PRISM.__init__)
    assert found.doc == inspect.getdoc(PRISM)
    assert list(found.types) == list(parameters)
    assert found.types == {name: hints[name] for name in parameters}
    assert found.defaults == {name: parameter.default for name, parameter in parameters.items()}
