"""What a model believes over time, beside the truth of a simulated world and above the hidden counter behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.figures import style, timelines
from prism_irl.models.base import IntentionModel


def posterior_above_counter(
    found: Mapping[str, tuple[IntentionModel, Sequence[int]]],
    test: Demonstrations,
    trajectory: int,
    counter: Any,
    *,
    intentions: Sequence[str],
    label: str,
    width: float,
) -> tuple[Figure, list[Axes]]:
    """Draw one test trajectory, a row per model and the counter below.

    Parameters
    ----------
    found : title → model, and its intentions in the order of the true ones
    counter : (n,) hidden quantity of every test step
    """
    assert test.labels is not None
    steps = slice(int(test.offsets[trajectory]), int(test.offsets[trajectory + 1]))
    rows = len(found) + 1
    figure, axes = style.new_figure(rows, 1, width=width, height=1.2 * rows, sharex=True)
    for ax, (title, (model, order)) in zip(axes, found.items(), strict=False):
        probabilities = model.predict_proba(test)[steps][:, list(order)]
        timelines.posterior_timeline(ax, probabilities, names=intentions, true=test.labels[steps])
        # Right of the legend, which stands above the axes on the left.
        ax.set_title(title, loc="right")
        ax.set_xlabel("")
    timelines.counter_timeline(axes[-1], counter[steps], label=label)
    return figure, axes
