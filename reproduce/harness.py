"""One way to run an experiment: registered methods with its settings, cross-validated, into one folder.

An experiment names its methods by the identifiers of `models.registry` and says in a small dictionary which options
each of them gets; nothing else in the experiments knows how a method is built. `studies.cross_validation` makes the
fits, as it does for `prism compare` and `prism select`, and `studies.results` knows the files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.figures import style, timelines
from prism_irl.models import registry
from prism_irl.models.oracle import WorldOracle
from prism_irl.models.prism import PAPER
from prism_irl.models.registry import Method
from prism_irl.studies import results
from prism_irl.studies.cross_validation import Evaluation, cross_validate

Options = Mapping[str, Mapping[str, Any]]
"""Identifier → options of the method and of its variants; those of ``""`` serve the methods that are not named."""

NETWORK = {"network": "gru", "embedding": 32, "hidden": 32, "learning_rate": 3e-3}
"""The small network of the learned methods that are not the paper's."""


def build_method(identifier: str, n_intentions: int, options: Options) -> Method:
    """Return a registered method with the options of the longest identifier that it is or is a variant of."""
    named = [key for key in options if not key or identifier == key or identifier.startswith(f"{key}-")]
    return registry.method(identifier, n_intentions, **(options[max(named, key=len)] if named else {}))


def simulated_methods(world: Any, identifiers: Sequence[str], options: Options) -> list[Method]:
    """The methods of an experiment on a simulated world, after the truth."""
    oracle = WorldOracle(world)
    known = [build_method(identifier, oracle.n_intentions, options) for identifier in identifiers]
    return [Method("oracle", "Truth (Bayes filter)", oracle), *known]


def paper_options(experiment: str, **changes: Any) -> dict[str, Any]:
    """Options that make the registered gate of the paper the one of an experiment of the paper (Table hparams)."""
    return {name: value for name, value in PAPER[experiment].items() if name != "n_intentions"} | changes


def write(folder: Path, done: Evaluation, title: str, experiment: str, *, quick: bool, **found: Any) -> dict[str, Any]:
    """Write metrics.json and folds.csv of an experiment, and return the metrics."""
    counts = {"folds": len(done.tested), "seeds": len(done.seeds)}
    result = results.heading(title, done.demos, experiment=experiment, quick=quick, **counts) | found
    results.write_results(folder, result, done.rows)
    return result


class Simulated(NamedTuple):
    """Fits to a simulated world, and the fold that figures show: its models, trajectories and hidden counters."""

    evaluation: Evaluation
    models: dict[str, Any]
    test: Demonstrations
    counters: npt.NDArray[np.int64]


def run_simulated(simulation: Any, methods: Sequence[Method], **options: Any) -> Simulated:
    """Cross-validate methods on a simulation (`cross_validate` takes the options), and keep the models of one fold."""
    demos: Demonstrations = simulation.demonstrations
    done = cross_validate(demos, methods, keep_models=True, **options)
    steps = steps_of(demos.offsets, done.test)
    return Simulated(done, done.models(), demos.subset(done.test), simulation.counters[steps])


def steps_of(offsets: npt.NDArray[np.int64], trajectories: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Steps of some trajectories, one trajectory after the other, where ``offsets`` tell where each begins."""
    return np.concatenate([np.arange(offsets[i], offsets[i + 1]) for i in np.asarray(trajectories)])


def posterior_above_counter(
    done: Simulated,
    main: str,
    order: Sequence[int],
    trajectory: int,
    *,
    title: str,
    intentions: Sequence[str],
    label: str,
    width: float,
) -> tuple[Figure, list[Axes]]:
    """Draw one test trajectory: the posterior of a model, that of the truth where it is there, and the counter below.

    Parameters
    ----------
    main, title : identifier of the model, and its name above the axes
    order : intentions of the model in the order of the true ones, ``intentions``
    label : name of the counter
    """
    assert done.test.labels is not None
    steps = slice(int(done.test.offsets[trajectory]), int(done.test.offsets[trajectory + 1]))
    found = [(title, main, list(order)), ("Truth (Bayes smoother)", "oracle", list(range(len(intentions))))]
    found = [row for row in found if row[1] in done.models]
    rows = len(found) + 1
    figure, axes = style.new_figure(rows, 1, width=width, height=1.2 * rows, sharex=True)
    for ax, (name, model, columns) in zip(axes, found, strict=False):
        probabilities = done.models[model].predict_proba(done.test)[steps][:, columns]
        timelines.posterior_timeline(ax, probabilities, names=intentions, true=done.test.labels[steps])
        # Right of the legend, which stands above the axes on the left.
        ax.set_title(name, loc="right")
        ax.set_xlabel("")
    timelines.counter_timeline(axes[-1], done.counters[steps], label=label)
    return figure, axes
