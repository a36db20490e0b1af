"""The numbers behind a figure as a table, read off the figure itself, so that every figure comes with its data.

One row per point: which axes, which series, what kind of mark, where it is and, for maps and pictures, its value.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from io import StringIO
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection, PolyCollection, QuadMesh
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle, StepPatch

from prism_irl.storage import inert

BACKDROP = "_backdrop"  # label of what is drawn for orientation and is no data, such as walls
COLUMNS = ("axes", "series", "kind", "x", "y", "value")
MAX_ROWS = 50_000  # a picture with more points is not data that anybody reads

Row = tuple[str, str, str, Any, Any, Any]


def to_csv(figure: Figure) -> str:
    """Return the data of all axes of a figure as CSV with the columns of `COLUMNS`; coordinates are those of the axes.

    Bars are given by the middle of their end, steps by the middle of each, polygons by their centre, pictures by column
    and row. Colour scales, and what is drawn for orientation (`BACKDROP`), are left out.
    """
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    written = 0
    for number, ax in enumerate(figure.axes):
        if ax.get_label() == "<colorbar>":  # as matplotlib calls the axes of a colour scale
            continue
        name = ax.get_title(loc="left") or ax.get_title() or ax.get_title(loc="right") or ax.get_ylabel() or str(number)
        for series, kind, x, y, value in _points(ax):
            if written == MAX_ROWS:
                return text.getvalue()
            writer.writerow((inert(name.replace("\n", " ")), inert(series), kind, _cell(x), _cell(y), _cell(value)))
            written += 1
    return text.getvalue()


def _points(ax: Axes) -> Iterator[tuple[str, str, Any, Any, Any]]:
    for line in ax.lines:
        x, y = np.asarray(line.get_xdata(), object), np.asarray(line.get_ydata(), object)
        yield from ((_label(line), "line", a, b, None) for a, b in zip(x, y, strict=False))
    ticks = {
        round(float(at), 6): text.get_text() for at, text in zip(ax.get_yticks(), ax.get_yticklabels(), strict=False)
    }
    for patch in ax.patches:
        if isinstance(patch, StepPatch):
            heights, edges, _ = patch.get_data()
            if not patch.get_fill():  # the filled twin of a line says the same
                middles = (edges[1:] + edges[:-1]) / 2
                yield from ((_label(patch), "step", a, b, None) for a, b in zip(middles, heights, strict=True))
        elif isinstance(patch, Rectangle):
            end, middle = patch.get_x() + patch.get_width(), patch.get_y() + patch.get_height() / 2
            yield _label(patch) or ticks.get(round(float(middle), 6), ""), "bar", end, middle, None
    for collection in ax.collections:
        values = collection.get_array()
        if collection.get_label() == BACKDROP:
            continue
        if isinstance(collection, LineCollection):
            for segment in collection.get_segments():
                yield from ((_label(collection), "segment", a, b, None) for a, b in np.asarray(segment)[:, :2])
        elif isinstance(collection, PathCollection):
            yield from ((_label(collection), "point", a, b, None) for a, b in np.asarray(collection.get_offsets()))
        elif isinstance(collection, QuadMesh):
            yield from _mesh(collection)
        elif isinstance(collection, PolyCollection):
            yield from _polygons(collection, values)
    for image in ax.images:
        picture: Any = np.ma.masked_invalid(np.ma.asarray(image.get_array(), float))
        if picture.ndim == 2:  # a photograph is no table
            rows, columns = np.nonzero(~np.ma.getmaskarray(picture))
            yield from (("", "cell", c, r, picture[r, c]) for r, c in zip(rows, columns, strict=True))


def _mesh(mesh: QuadMesh) -> Iterator[tuple[str, str, Any, Any, Any]]:
    corners = np.asarray(mesh.get_coordinates())
    middles = (corners[:-1, :-1] + corners[1:, 1:]) / 2
    values = np.ma.masked_invalid(np.ma.asarray(mesh.get_array(), float)).reshape(middles.shape[:2])
    for r, c in np.argwhere(~np.ma.getmaskarray(values)):
        yield _label(mesh), "cell", middles[r, c, 0], middles[r, c, 1], values[r, c]


def _polygons(collection: PolyCollection, values: Any) -> Iterator[tuple[str, str, Any, Any, Any]]:
    paths = collection.get_paths()
    if values is not None and len(values) == len(paths):  # a map: one number per place
        known = ~np.ma.getmaskarray(np.ma.asarray(values))
        for i in np.flatnonzero(known):
            x, y = np.asarray(paths[int(i)].vertices)[:-1].mean(axis=0)
            yield _label(collection), "place", x, y, np.ma.getdata(values)[i]
        return
    if len(paths) == 1:  # a band or a stacked area: its outline
        yield from ((_label(collection), "outline", a, b, None) for a, b in np.asarray(paths[0].vertices))


def _label(artist: Any) -> str:
    label = str(artist.get_label() or "")
    return "" if label.startswith("_") else label.replace("\n", " ")


def _cell(value: Any) -> Any:
    if value is None or value is np.ma.masked:
        return ""
    return f"{float(value):.6g}" if isinstance(value, int | float | np.number) else str(value)
