"""How every figure looks: one palette, one set of matplotlib settings, one way of saving.

Colours are those of Okabe and Ito, which colour-blind readers can tell apart; an intention has the same colour in
every figure and in the report. Nothing here touches pyplot's global state, so figures can be drawn in any thread.
"""

from __future__ import annotations

import csv
import logging
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from functools import cache
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection, PathCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle, StepPatch
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator, StrMethodFormatter
from numpy.typing import ArrayLike, NDArray

from prism_irl import storage
from prism_irl.figures.palette import PALETTE as PALETTE
from prism_irl.figures.palette import intention_color as intention_color
from prism_irl.storage import inert

logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)  # of its cache nobody has to hear

COLUMN_WIDTH = 3.3  # inches: one column of a two-column page
PAGE_WIDTH = 6.8
LONGEST_NAME = 28  # letters of an intention's name in a figure

INK = "#1b1f24"
MUTED = "#6b7280"
FAINT = "#d5d9df"
UNVISITED = "#dfe2e6"
BARRIER = "#3a4048"
VALUE_MAP = "viridis"  # even in lightness, so that it survives a grey printer
SIGNED_MAP = "PuOr_r"  # of numbers around zero, which is nearly white: orange above, purple below


def ink_on(shares: ArrayLike, colours: str = VALUE_MAP) -> NDArray[np.bool_]:
    """Whether dark ink, and not white, is readable at some shares (n,) of a colour scale, by their luminance."""
    rgb = mpl.colormaps[colours](np.asarray(shares, float))[..., :3]
    return np.asarray(rgb @ (0.299, 0.587, 0.114) > 0.485)


@cache
def _settings() -> Any:
    return mpl.rc_params_from_file(Path(__file__).with_name("prism.mplstyle"), use_default_template=False)


def paper_style() -> AbstractContextManager[None]:
    """Return the settings of all figures as a context: text stays text, fonts are readable in one column (3.3 in)."""
    return mpl.rc_context(_settings())


def short(name: str, most: int = LONGEST_NAME) -> str:
    """A name as a figure has room for it; pages and tables have all of it."""
    name = f" {name}" if name.startswith("_") else name  # which a legend would leave out
    return name if len(name) <= most else name[: most - 1].rstrip() + "…"


def legend_columns(ax: Axes, labels: Sequence[str], most: int = 4) -> int:
    """How many labels stand side by side above the axes without leaving the figure."""
    figure = ax.get_figure(root=True)
    letters = 14.0 * (COLUMN_WIDTH if figure is None else figure.get_size_inches()[0])  # of the legend's size of type
    beside = int(letters // (max(len(label) for label in labels) + 7))  # and the coloured key in front of each
    return max(1, min(most, len(labels), beside))


def plain_log_ticks(axis: Axis, low: float, high: float, *, integer: bool = False) -> None:
    """Label 1, 2 and 5 of every power of ten, fewer over several powers, with plain numbers, which draw quickly."""
    decades = np.log10(high / low)
    between = (1.0, 2.0, 5.0) if decades < 2 else (1.0, 3.0) if decades < 4 else (1.0,)
    axis.set_major_locator(MaxNLocator(5, integer=integer) if decades < 1 else LogLocator(subs=between))
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_locator(NullLocator())


def new_figure(
    n_rows: int = 1, n_columns: int = 1, *, width: float = COLUMN_WIDTH, height: float = 2.2, **options: Any
) -> tuple[Figure, list[Axes]]:
    """A figure outside pyplot and its axes, row by row; sizes in inches, ``options`` are those of `Figure.subplots`."""
    with paper_style():
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots(n_rows, n_columns, squeeze=False, **options)
    return figure, list(axes.ravel())


def note(ax: Axes, text: str, x: float, y: float, *, relative: str, offset: tuple[float, float], **look: Any) -> None:
    """Write a small text at a point, ``offset`` points away; the coordinate ``relative`` is a share of the axes."""
    where = ("axes fraction", "data") if relative == "x" else ("data", "axes fraction")
    options: dict[str, Any] = {"fontsize": 7, **look}
    ax.annotate(text, (x, y), xytext=offset, xycoords=where, textcoords="offset points", **options)


def to_svg(figure: Figure) -> bytes:
    """Return the figure as SVG; the same figure gives the same bytes."""
    with paper_style():
        figure.savefig(buffer := BytesIO(), format="svg", metadata={"Date": None, "Creator": None})
    return buffer.getvalue()


def save(figure: Figure, path_without_suffix: str | Path) -> None:
    """Write ``<path>.svg``, ``<path>.png`` and the numbers behind them, ``<path>.csv``; repeatable to the byte."""
    path, drawn, engine = Path(path_without_suffix), BytesIO(), figure.get_layout_engine()
    with paper_style():
        if engine is not None:  # laid out once for all formats: matplotlib would do it, and draw it, twice for each
            engine.execute(figure)
            figure.set_layout_engine(None)
        try:
            vectors, numbers = to_svg(figure), to_csv(figure)
            # Half the time of the usual 6 for a fifth more bytes.
            figure.savefig(drawn, format="png", metadata={"Software": None}, pil_kwargs={"compress_level": 3})
        finally:
            figure.set_layout_engine(engine)
    # Not with_suffix: a name such as "history-0.5" has a dot of its own.
    storage.write_file(path.with_name(path.name + ".svg"), lambda file: file.write(vectors))
    storage.write_text(path.with_name(path.name + ".csv"), numbers)
    storage.write_file(path.with_name(path.name + ".png"), lambda file: file.write(drawn.getvalue()))


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
            cells = ("" if one is None or one is np.ma.masked else one for one in (x, y, value))
            texts = (f"{float(one):.6g}" if isinstance(one, int | float | np.number) else str(one) for one in cells)
            writer.writerow((inert(name.replace("\n", " ")), inert(series), kind, *texts))
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
        elif isinstance(collection, PolyCollection):
            paths = collection.get_paths()
            if values is not None and len(values) == len(paths):  # a map: one number per place
                known = ~np.ma.getmaskarray(np.ma.asarray(values))
                for i in np.flatnonzero(known):
                    x, y = np.asarray(paths[int(i)].vertices)[:-1].mean(axis=0)
                    yield _label(collection), "place", x, y, np.ma.getdata(values)[i]
            elif len(paths) == 1:  # a band or a stacked area: its outline
                yield from ((_label(collection), "outline", a, b, None) for a, b in np.asarray(paths[0].vertices))
    for image in ax.images:
        picture: Any = np.ma.masked_invalid(np.ma.asarray(image.get_array(), float))
        if picture.ndim == 2:  # a photograph is no table
            rows, columns = np.nonzero(~np.ma.getmaskarray(picture))
            yield from (("", "cell", c, r, picture[r, c]) for r, c in zip(rows, columns, strict=True))


def _label(artist: Any) -> str:
    label = str(artist.get_label() or "")
    return "" if label.startswith("_") else label.replace("\n", " ")
