"""Tests of GPU paths that run under pytest and, where there is no pytest, under `python tests/run_cuda.py`.

Each compares what a device computes with the reference on the CPU. PRISM_CUDA_TESTS_DEVICE=cpu puts the CPU in the
place of the device, which checks the tests themselves; what needs Triton is then left out.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar
from unittest import mock

import numpy as np
import torch

from prism_irl.data.batching import Prepared
from prism_irl.data.contexts import Contexts
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.switching.inference import use_triton

DEVICE = torch.device(os.environ.get("PRISM_CUDA_TESTS_DEVICE", "cuda"))
CPU = torch.device("cpu")
Test = TypeVar("Test", bound=Callable[..., None])


def missing(triton: bool) -> str:
    """What a test would need that is not here; empty when it can run."""
    if DEVICE.type == "cuda" and not torch.cuda.is_available():
        return "needs a GPU"
    return "needs Triton" if triton and not use_triton(DEVICE) else ""


def cuda(*, triton: bool = False, **choices: Sequence[Any]) -> Callable[[Test], Test]:
    """Mark a test of a GPU path; it runs for every combination of the choices, which are given to it by name."""

    def mark(test: Test) -> Test:
        test.cuda_choices = choices, triton  # type: ignore[attr-defined]
        try:
            import pytest
        except ImportError:
            return test
        for name, values in choices.items():
            test = pytest.mark.parametrize(name, values)(test)
        return pytest.mark.cuda(pytest.mark.skipif(bool(missing(triton)), reason=missing(triton))(test))

    return mark


@contextmanager
def exact_products() -> Iterator[None]:
    """Products in full single precision: cuDNN's recurrences would take TF32, with three digits."""
    before, torch.backends.cudnn.allow_tf32 = torch.backends.cudnn.allow_tf32, False
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32 = before


def without_triton() -> Any:
    """The plain-torch path, on whatever device."""
    return mock.patch.dict(os.environ, {"PRISM_BACKEND": "torch"})


def close(found: Any, wanted: Any, tolerance: float, what: str = "") -> None:
    """Equal to the tolerance, relative to the largest number that is wanted or to one."""
    found, wanted = (
        np.asarray(x.detach().cpu() if isinstance(x, torch.Tensor) else x, dtype=np.float64) for x in (found, wanted)
    )
    np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance * max(1.0, np.abs(wanted).max()), err_msg=what)


def ragged(seed: int, n: int = 14, *, n_states: int = 7, n_actions: int = 3, longest: int = 15) -> Demonstrations:
    """Trajectories of different lengths whose actions lean on the state, so that EM has something to find."""
    rng = np.random.default_rng(seed)
    states = [rng.integers(n_states, size=length) for length in rng.integers(3, longest, n)]
    actions = [np.where(rng.random(len(s)) < 0.7, s % n_actions, rng.integers(n_actions, size=len(s))) for s in states]
    return Demonstrations.from_arrays(states, actions, n_states=n_states, n_actions=n_actions)


def prepared(demos: Demonstrations) -> tuple[Prepared, Prepared]:
    """The data on the device and on the CPU."""
    contexts = Contexts.fit(demos, 1)
    return Prepared.of(demos, contexts, DEVICE), Prepared.of(demos, contexts)
