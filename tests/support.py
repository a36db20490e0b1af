"""What several test files share: small tables, refusals in one sentence, and the command run in this process."""

from __future__ import annotations

import contextlib
import io
import re
from itertools import pairwise, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp

from prism_irl.cli.main import main
from prism_irl.data.batching import Parts
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.read import read_data
from prism_irl.devices import as_array
from prism_irl.errors import InputError
from prism_irl.switching.arrival import ArrivalChain

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


def summed_paths(model: Any, demos: Demonstrations) -> tuple[np.ndarray, np.ndarray]:
    """Log-likelihood of every trajectory and P(z_t=k | all), (n, K), as sums over all sequences of intentions.

    P(z_t | z_1 … z_{t-1}, history) comes from a stream that is told the intention of every step, one row per sequence.
    """
    switching, data = model.switching_, model._prepare(model._check_new(demos))
    emission, K = as_array(model._emission(data)), model.n_intentions
    own, totals, marginals = data.demos, [], np.zeros(emission.shape)
    for begin, end in pairwise(own.offsets):
        paths = np.array(list(product(range(K), repeat=end - begin)))
        stream, weight = switching.stream(len(paths)), np.zeros(len(paths))
        uniform = np.full((len(paths), K, own.n_actions), 1.0 / own.n_actions)
        with np.errstate(divide="ignore", invalid="ignore"):
            for t, chosen in zip(range(begin, end), paths.T, strict=True):
                states, actions = (np.full(len(paths), int(tokens[t])) for tokens in (own.states, own.actions))
                seen = None if own.observations is None else np.repeat(own.observations[t][None], len(paths), axis=0)
                given = (None if each is None else switching.reads(each) for each in (states, uniform, seen))
                prior = as_array(stream.joint(*given)).sum(-1)[np.arange(len(paths)), chosen]
                weight += np.log(np.nan_to_num(prior)) + emission[t, chosen]
                stream.update(switching.reads(actions), switching.reads(np.log(np.eye(K)[chosen])))
        totals.append(logsumexp(weight))
        weight += closing(switching, own.states[begin:end], paths)
        for t, chosen in zip(range(begin, end), paths.T, strict=True):
            marginals[t] = np.bincount(chosen, np.exp(weight - logsumexp(weight)), minlength=K)
    return np.array(totals), marginals


def closing(switching: Any, states: np.ndarray, paths: np.ndarray) -> np.ndarray:
    """Log-probability of where a trajectory goes on and where it ends, given each sequence of intentions, (N,).

    It is known only to whoever looks back. Only intentions that end at places say anything
    about it. ``paths`` are sequences of intentions (N, T).
    """
    if not isinstance(switching, ArrivalChain):
        return np.zeros(len(paths))
    last = switching.last[switching.ends[paths, states].astype(np.int64)]
    return np.log(np.where(np.arange(len(states)) == len(states) - 1, last, 1.0 - last)).sum(axis=1)


def assert_sums_over_paths(model: Any, demos: Demonstrations) -> None:
    """Beliefs and likelihoods of both passes are those sums."""
    totals, marginals = summed_paths(model, demos)
    data = model._prepare(model._check_new(demos))
    found = model.switching_.expectation(data, model._emission(data))
    np.testing.assert_allclose(np.add.reduceat(found.log_likelihood, demos.offsets[:-1]), totals, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found.responsibilities, marginals, atol=1e-5)
