"""Data of other libraries: posteriors for xarray."""

from __future__ import annotations

import random
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from corpus import Corpus, WrongError, guarded

import prism_irl as prism
from prism_irl.data.interop import to_xarray


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
    "xarray": (1, _xarray),
}
"""Name → how often among a hundred cases or so, and what a case does."""
