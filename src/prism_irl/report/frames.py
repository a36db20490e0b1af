"""`frames.json`: small pictures of a few trajectories, so that the report shows what the camera saw at the step.

Every n-th step of some trajectories is kept as a JPEG of at most 96 pixels' width; n follows from how many steps there
are, and a limit on the file keeps the page small. The file belongs to the explorer.json beside it: trajectories are
the rows of its raster, steps count from the row's beginning.
"""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from prism_irl import storage
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.optional import need
from prism_irl.report.explorer import FRAMES, evenly, selected_trajectories
from prism_irl.report.run_files import read_part
from prism_irl.robots.episodes import DamagedEpisodeError

WIDTH = 96  # pixels
QUALITY = 70
MAX_TRAJECTORIES = 12  # with pictures
MAX_FRAMES = 600  # of all trajectories together
MAX_BYTES = 2_000_000  # of the pictures as text: a quarter of the largest page
_JPEG = re.compile(r"/9j/[A-Za-z0-9+/]+={0,2}")  # base64 that begins like a JPEG

Frame = npt.NDArray[np.uint8]
Pictures = Callable[[int], Iterable[Frame] | None]
"""From the position of a trajectory to one picture for each of its steps; None where it has none."""


def write_frames(
    folder: Path,
    demos: Demonstrations,
    explorer: Mapping[str, Any],
    pictures: Pictures,
    *,
    trajectories: Sequence[int] | None = None,
) -> dict[str, Any]:
    """Write ``frames.json`` beside explorer.json and return what it holds.

    Parameters
    ----------
    folder : path
        Of the run.
    demos, explorer : Demonstrations, dict
        What explorer.json was made from, and what it holds.
    pictures : function
        See `Pictures`; a damaged trajectory is left out, any other `InputError` is named in the page, which then has
        no pictures.
    trajectories : positions, optional
        Which trajectories to show, as far as the raster has them; by default some of the raster's, evenly.
    """
    rows = {int(i): row for row, i in enumerate(selected_trajectories(demos))}
    wanted = list(rows) if trajectories is None else [int(i) for i in trajectories if int(i) in rows]
    chosen = [wanted[j] for j in evenly(len(wanted), MAX_TRAJECTORIES)] if wanted else []
    lengths = {i: len(explorer["trajectories"][rows[i]]["states"]) for i in chosen}
    every = max(1, -(-sum(lengths.values()) // MAX_FRAMES))
    kept: dict[str, dict[str, Any]] = {}
    size, note = 0, ""
    try:
        for i in chosen:
            steps = list(range(0, lengths[i], every))
            try:
                found = pictures(i)
                small = [] if found is None else [thumbnail(f) for f in islice(found, 0, lengths[i], every)]
            except DamagedEpisodeError:
                continue
            if len(small) != len(steps):
                continue
            size += sum(map(len, small))
            if size > MAX_BYTES:
                break
            kept[str(rows[i])] = {"steps": steps, "jpeg": small}
    except InputError as error:
        kept, note = {}, f"There are no frames here. {error}"
    if not kept and not note:
        note = "There are no frames here: these trajectories have no readable recording of a camera."
    return write(folder, {"every": every, "trajectories": kept, "note": note})


def without_frames(folder: Path, why: str) -> dict[str, Any]:
    """Write a file that says in one sentence why there are no pictures."""
    return write(folder, {"every": 1, "trajectories": {}, "note": why})


def write(folder: Path, value: dict[str, Any]) -> dict[str, Any]:
    """Write the file."""
    plain = {"version": 1, **value}
    storage.write_json(folder / FRAMES, plain)
    return plain


def thumbnail(frame: Frame) -> str:
    """One picture, (height, width, 3), as base64 of a JPEG of at most `WIDTH` pixels' width."""
    image = need("PIL.Image", "robots").fromarray(np.ascontiguousarray(frame))
    if image.width > WIDTH:
        image = image.resize((WIDTH, max(1, round(image.height * WIDTH / image.width))))
    buffer = io.BytesIO()
    image.save(buffer, format="JPEG", quality=QUALITY)
    return base64.b64encode(buffer.getvalue()).decode("ascii")


def read_frames(folder: Path, rows: int) -> dict[str, Any] | None:
    """Return what ``frames.json`` holds, None where there is none; anything but small pictures is an error."""

    def is_whole(value: dict[str, Any]) -> bool:
        return (
            value["version"] == 1
            and isinstance(value["every"], int)
            and isinstance(value["note"], str)
            and all(int(row) in range(rows) and _pictures(one) for row, one in value["trajectories"].items())
        )

    return read_part(folder, FRAMES, 1.2 * MAX_BYTES + 100_000, is_whole, "frames")


def _pictures(one: dict[str, Any]) -> bool:
    steps, jpeg = one["steps"], one["jpeg"]
    return (
        len(steps) == len(jpeg) > 0
        and all(isinstance(t, int) for t in steps)
        and steps == sorted(set(steps))
        and all(_JPEG.fullmatch(text) is not None for text in jpeg)
    )
