"""Continuous data on a map: the cells of a fit as places, over two observations or the first principal components."""

from __future__ import annotations

from typing import Any

import numpy as np

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.units import Units
from prism_irl.report.state_places import layout_of
from prism_irl.report.story import successor_counts


def cells_of(demos: Demonstrations, units: Units) -> tuple[Demonstrations, dict[str, Any]]:
    """Demonstrations over cells, which have names, and their layout.

    Two observations are the two axes. Of more, the first two principal components of the standardised cells are, which
    show most of the spread and no single quantity.
    """
    in_cells = units.apply(demos)
    names = in_cells.observation_names or tuple(f"observation {i}" for i in range(units.cells.shape[1]))
    places = units.places()
    if len(names) == 2:
        xy, note = places, f"Cells of the observations; {names[0]} to the right, {names[1]} upwards."
    elif len(names) == 1:
        xy = np.concatenate([places, np.zeros_like(places)], axis=1)
        note = f"Cells of the observation; {names[0]} to the right."
    else:
        # Weighted by their steps: a few cells far out would otherwise be all that one sees.
        visits = np.bincount(in_cells.states, minlength=in_cells.n_states) / in_cells.n_steps
        centred = units.cells - visits @ units.cells
        axes = np.linalg.svd(np.sqrt(visits)[:, None] * centred, full_matrices=False)[2][:2]
        low, high = np.quantile((centred @ axes.T)[in_cells.states], (0.01, 0.99), axis=0)
        xy = np.clip(centred @ axes.T, low, high)
        most = [names[int(np.abs(axis).argmax())] for axis in axes]
        what = f"most of {most[0]}; of {most[1]}"
        note = f"Cells on the first two principal components of the observations ({what}), far ones at the margin."
    words = tuple(
        f"{i}: " + ", ".join(f"{name} {value:.3g}" for name, value in zip(names[:3], place, strict=False))
        for i, place in enumerate(places)
    )
    shown = Demonstrations(
        in_cells.states,
        in_cells.actions,
        in_cells.offsets,
        in_cells.n_states,
        in_cells.n_actions,
        labels=demos.labels,
        groups=demos.groups,
        state_names=words,
        label_names=demos.label_names,
        trajectory_names=demos.trajectory_names,
    )
    if len(names) > 2:  # lines between all of them would hide them
        return shown, layout_of("cells", xy, [], note)
    counts = successor_counts(shown, np.ones(shown.n_steps)).toarray()
    moves = np.triu((counts + counts.T) > 0, 1)
    return shown, layout_of("cells", xy, np.argwhere(moves), note)
