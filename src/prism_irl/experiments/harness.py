"""One way to run an experiment: registered methods with its settings, over folds and seeds, into one folder.

An experiment names its methods by the identifiers of `models.registry` and says in a small dictionary which options
each of them gets; nothing else in the experiments knows how a method is built.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.models import registry
from prism_irl.models.base import IntentionModel
from prism_irl.models.prism import PAPER
from prism_irl.models.registry import Method
from prism_irl.studies import results
from prism_irl.studies.cross_validation import Fit, run_all, table

Options = Mapping[str, Mapping[str, Any]]
"""Identifier → options of the method and of its variants; those of ``""`` serve the methods that are not named."""


def build_method(identifier: str, n_intentions: int, options: Options) -> Method:
    """Return a registered method with the options of the longest identifier that it is or is a variant of."""
    named = [key for key in options if not key or identifier == key or identifier.startswith(f"{key}-")]
    return registry.method(identifier, n_intentions, **(options[max(named, key=len)] if named else {}))


def paper_options(experiment: str, **changes: Any) -> dict[str, Any]:
    """Options that make the registered gate of the paper the one of an experiment of the paper (Table hparams)."""
    return {name: value for name, value in PAPER[experiment].items() if name != "n_intentions"} | changes


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The fits of an experiment.

    Parameters
    ----------
    demos, methods : what was fitted
    fits : by method, seed and fold
    folds, seeds : how many of each were run
    test : trajectories of the first fold that was run
    """

    demos: Demonstrations
    methods: Sequence[Method]
    fits: Sequence[Fit]
    folds: int
    seeds: int
    test: npt.NDArray[np.int64]

    def table(self) -> dict[str, dict[str, Any]]:
        """Mean and spread of every number per method."""
        return table(self.methods, [fit.row for fit in self.fits])

    def models(self) -> dict[str, IntentionModel]:
        """Models that were kept, in the order of the methods."""
        kept = {fit.method.id: fit.model for fit in self.fits if fit.model is not None}
        return {method.id: kept[method.id] for method in self.methods if method.id in kept}

    def write(self, folder: Path, title: str, experiment: str, *, quick: bool, **found: Any) -> dict[str, Any]:
        """Write metrics.json and folds.csv, and return the metrics."""
        counts = {"folds": self.folds, "seeds": self.seeds}
        result = results.heading(title, self.demos, experiment=experiment, quick=quick, **counts) | found
        results.write_results(folder, result, [fit.row for fit in self.fits])
        return result


def run_methods(
    demos: Demonstrations,
    methods: Sequence[Method],
    *,
    folds: int,
    only_folds: Sequence[int] | None = None,
    seeds: Sequence[int] = (0,),
    by: str = "trajectory",
    keep_models: bool = False,
    **options: Any,
) -> Evaluation:
    """Fit methods over folds and seeds; ``options`` are those of `cross_validate` and ``on_fit``.

    ``keep_models`` keeps the models of the first fold and seed, for figures.
    """
    tested = tuple(range(folds)) if only_folds is None else tuple(only_folds)
    if keep_models:
        first = tested[0], seeds[0]
        options["keep"] = lambda fold, seed: (fold, seed) == first
    fits = run_all(demos, methods, folds=folds, only_folds=tested, seeds=seeds, by=by, **options)
    test = demos.fold_indices(folds, by=by)[tested[0]][1] if tested else np.zeros(0, np.int64)
    return Evaluation(demos, methods, fits, len(tested), len(seeds), test)


def steps_of(offsets: npt.NDArray[np.int64], trajectories: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Steps of some trajectories, one trajectory after the other, where ``offsets`` tell where each begins."""
    return np.concatenate([np.arange(offsets[i], offsets[i + 1]) for i in np.asarray(trajectories)])
