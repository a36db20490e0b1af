"""What several test files share: small tables, refusals in one sentence, and the command run in this process."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

from prism_irl.cli.main import main
from prism_irl.core.stats import Parts
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.read import read_data
from prism_irl.errors import InputError

FIELDS = list(Demonstrations.__dataclass_fields__)


def frame(**columns: Any) -> pd.DataFrame:
    """Two trajectories, interleaved."""
    base = {"trajectory": ["b", "a", "b", "a", "b"], "state": [0, 1, 2, 1, 0], "action": [0, 1, 0, 0, 1]}
    return pd.DataFrame(base | columns)


def assert_same(one: Demonstrations, other: Demonstrations) -> None:
    for name in FIELDS:
        left, right = getattr(one, name), getattr(other, name)
        assert (left is None) == (right is None), name
        if isinstance(left, np.ndarray):
            assert left.dtype == right.dtype, name
            np.testing.assert_array_equal(left, right, err_msg=name)
        else:
            assert left == right, name


def one_sentence(error: pytest.ExceptionInfo[InputError]) -> str:
    text = str(error.value)
    assert text.endswith((".", "?"))
    assert "\n" not in text
    return text


def refused(source: Any, *parts: str, **options: Any) -> None:
    with pytest.raises(InputError) as error:
        read_data(source, **options)
    text = one_sentence(error)
    for part in parts:
        assert part in text, text


class Done(NamedTuple):
    """What a command left behind."""

    returncode: int
    stdout: str
    stderr: str


def prism(*arguments: object, cwd: Path) -> Done:
    """Run the command in this process, which saves starting Python a hundred times."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(cwd), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(argument) for argument in arguments])
    return Done(code, out.getvalue(), err.getvalue())


def page_of(run: Path) -> str:
    """A run's page as it is read: no tag stands between the options in its sentences and their values."""
    return re.sub("</?code>", "", (run / "report.html").read_text(encoding="utf-8"))


def visited(switching, data, emission, seed):
    """Beliefs that one pass over the data met; a network is trained by it."""
    ((_, posterior),) = switching.visit(Parts(data), lambda part: emission, seed)
    return posterior
