"""Data of other libraries: datasets of Minari on the disk, rollouts of imitation in memory, posteriors for xarray."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
from corpus import Corpus, WrongError, guarded
from mutators import mutate_array, mutate_bytes, mutate_json

import prism_irl as prism
from prism_irl.data.interop import to_xarray


def _whole(found: prism.Demonstrations | None) -> None:
    """What is read is what compiled code may look up."""
    if found is None:
        return
    inside = (found.states < found.n_states).all() and (found.actions < found.n_actions).all()
    if not inside or min(found.states.min(), found.actions.min()) < 0 or found.offsets[-1] != found.n_steps:
        raise WrongError("ids that are not there")


def _minari(corpus: Corpus, rng: random.Random, folder: Path) -> None:
    if find_spec("minari") is None or find_spec("h5py") is None:
        return
    copy = shutil.copytree(corpus.minari, folder / "minari")
    name = "fuzz/table-v0"
    with mock.patch.dict(os.environ, MINARI_DATASETS_PATH=str(copy)):
        if rng.random() < 0.7:
            file = rng.choice(sorted(path for path in copy.rglob("*") if path.is_file()))
            file.write_bytes((mutate_json if file.suffix == ".json" else mutate_bytes)(rng, file.read_bytes()))
        else:
            name = rng.choice(["", "x", "fuzz/none-v0", "../../etc", "\x1b[31m", "a" * 300, "fuzz/table-v1", "/"])
        _whole(guarded(lambda: prism.Demonstrations.from_minari(name)))


def _imitation(corpus: Corpus, rng: random.Random, folder: Path) -> None:
    rollouts: list[Any] = [
        SimpleNamespace(obs=np.append(one.states, 0).astype(np.int64), acts=one.actions.astype(np.int64))
        for one in (corpus.demos.subset([i]) for i in range(3))
    ]
    chosen, field = rng.choice(rollouts), rng.choice(["obs", "acts"])
    match rng.randrange(3):
        case 0:
            delattr(chosen, field)
        case 1:
            setattr(chosen, field, rng.choice([None, 3, "text", [], [[1], [2, 3]], np.array(5), [None], object()]))
        case _:
            setattr(chosen, field, mutate_array(rng, getattr(chosen, field)))
    sizes = {rng.choice(["n_states", "n_actions"]): rng.choice([-1, 0, 1, 3, 10**12])} if rng.random() < 0.2 else {}
    _whole(guarded(lambda: prism.Demonstrations.from_imitation(rollouts, **sizes)))


def _xarray(corpus: Corpus, rng: random.Random, folder: Path) -> None:
    """A posterior of any data that the model takes has one row per step, and sums to one."""
    if find_spec("xarray") is None:
        return
    model, demos = prism.load(corpus.run), corpus.demos.subset(sorted(rng.sample(range(8), rng.randrange(1, 8))))
    if rng.random() < 0.5:
        demos = prism.Demonstrations.from_arrays(
            [rng.choices(range(rng.choice([1, 5, 7])), k=6)], [rng.choices(range(rng.choice([1, 3, 4])), k=6)]
        )
    found = guarded(lambda: to_xarray(model, demos))
    if found is not None and not np.allclose(found["posterior"].sum("intention"), 1):
        raise WrongError("beliefs that do not sum to one")


TARGETS: dict[str, tuple[int, Callable[[Corpus, random.Random, Path], None]]] = {
    "minari": (2, _minari),
    "imitation": (2, _imitation),
    "xarray": (1, _xarray),
}
"""Name → how often among a hundred cases or so, and what a case does."""
