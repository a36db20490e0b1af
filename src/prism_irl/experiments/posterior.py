"""What a model believes over time, beside the truth of a simulated world and above the hidden counter behind it."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from prism_irl.experiments.harness import Simulated
from prism_irl.figures import style, timelines


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
