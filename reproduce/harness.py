"""One way to run an experiment: registered methods with its settings, cross-validated, into one folder.

An experiment names its methods by the identifiers of `models.registry` and says in a small dictionary which options
each of them gets; nothing else in the experiments knows how a method is built. `studies.cross_validation` makes the
fits, as it does for `prism compare` and `prism select`, and `studies.results` knows the files.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from prism_irl.models import registry
from prism_irl.models.presets import PAPER
from prism_irl.models.registry import Method
from prism_irl.studies import results
from prism_irl.studies.cross_validation import Evaluation

Options = Mapping[str, Mapping[str, Any]]
"""Identifier → options of the method and of its variants; those of ``""`` serve the methods that are not named."""

NETWORK = {"network": "gru", "embedding": 32, "hidden": 32, "learning_rate": 3e-3}
"""The small network of the learned methods that are not the paper's."""


def build_method(identifier: str, n_intentions: int, options: Options) -> Method:
    """Return a registered method with the options of the longest identifier that it is or is a variant of."""
    named = [key for key in options if not key or identifier == key or identifier.startswith(f"{key}-")]
    return registry.method(identifier, n_intentions, **(options[max(named, key=len)] if named else {}))


def paper_options(experiment: str, **changes: Any) -> dict[str, Any]:
    """Options that make the registered gate of the paper the one of an experiment of the paper (Table hparams)."""
    return {name: value for name, value in PAPER[experiment].items() if name != "n_intentions"} | changes


def write(folder: Path, done: Evaluation, title: str, experiment: str, *, quick: bool, **found: Any) -> dict[str, Any]:
    """Write metrics.json and folds.csv of an experiment, and return the metrics."""
    counts = {"folds": len(done.tested), "seeds": len(done.seeds)}
    result = results.heading(title, done.demos, experiment=experiment, quick=quick, **counts) | found
    results.write_results(folder, result, done.rows)
    return result


def steps_of(offsets: npt.NDArray[np.int64], trajectories: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Steps of some trajectories, one trajectory after the other, where ``offsets`` tell where each begins."""
    return np.concatenate([np.arange(offsets[i], offsets[i + 1]) for i in np.asarray(trajectories)])
