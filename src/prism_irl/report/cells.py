"""Continuous data on a map: the cells of a fit as places, over two observations or the first principal components."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.units import Units
from prism_irl.report.state_places import layout_of
from prism_irl.report.story import successor_counts

VECTOR = 4
"""Numbers of a vector that stand in the name of a cell."""

SAME = 1e-6
"""Share of a quantity below which its differences are those of rounding."""


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
    given = getattr(demos, "motion_names", None) or tuple(f"command {i}" for i in range(units.commands.shape[1]))
    done = units.commands * units.command_spread + units.command_mean
    shown = Demonstrations(
        in_cells.states,
        in_cells.actions,
        in_cells.offsets,
        in_cells.n_states,
        in_cells.n_actions,
        labels=demos.labels,
        groups=demos.groups,
        state_names=_words("cell", names, places),
        action_names=_words("command", given, done),
        label_names=demos.label_names,
        trajectory_names=demos.trajectory_names,
    )
    counts = successor_counts(shown, np.ones(shown.n_steps)).toarray()
    if len(names) > 2:  # lines between all of them would hide them: the move that is made most often from each cell
        np.fill_diagonal(counts, 0)
        most_often = np.stack([np.arange(len(counts)), counts.argmax(axis=1)], axis=1)[counts.max(axis=1) > 0]
        return shown, layout_of("cells", xy, np.unique(np.sort(most_often, axis=1), axis=0), note)
    moves = np.triu((counts + counts.T) > 0, 1)
    return shown, layout_of("cells", xy, np.argwhere(moves), note)


def _words(what: str, names: Sequence[str], centres: npt.NDArray[np.float64]) -> tuple[str, ...]:
    """A name for each centre (n, d): its number, and the first quantities, as finely as a reader needs them."""
    spread = np.maximum(np.ptp(centres, axis=0), 1e-12)
    digits = np.clip(np.ceil(np.log10(20 / spread)), 0, 6).astype(int)  # steps of at most a twentieth of the range
    still = spread <= SAME * np.abs(centres).max(axis=0)  # what never changes needs no decimals to tell cells apart
    # Adding 0 turns −0.00 into 0.00.
    told = [
        [f"{v:.3g}" if same else f"{round(v, d) + 0.0:.{d}f}" for v, d, same in zip(one, digits, still, strict=True)]
        for one in centres
    ]
    vector = {name.partition("[")[0] for name in names} if all(name.endswith("]") for name in names) else set()
    if len(vector) == 1:  # parts of one vector, observation.state[0] and so on: its name once
        name, rest = vector.pop().rpartition(".")[2], ", …" if len(names) > VECTOR else ""
        return tuple(f"{what} {i} ({name} {', '.join(one[:VECTOR])}{rest})" for i, one in enumerate(told))
    words = [", ".join(f"{name} {value}" for name, value in zip(names[:3], one, strict=False)) for one in told]
    return tuple(f"{what} {i} ({own})" for i, own in enumerate(words))
