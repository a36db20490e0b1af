"""`explorer.json`: what the interactive part of the report shows, small enough to travel inside the page.

Written by whoever has a segmentation at hand (`prism fit`, the experiments) and read by the report. Probabilities are
whole per mille; of many trajectories some are taken, evenly over the data, and the page says how many.
"""

from __future__ import annotations

import base64
import io
import json
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
from prism_irl.evaluation.tables import choice_counts
from prism_irl.optional import need
from prism_irl.report import story
from prism_irl.report.names import place_name
from prism_irl.report.places import find_layout
from prism_irl.robots.episodes import DamagedEpisodeError
from prism_irl.storage import read_part

FILE = "explorer.json"
FRAMES = "frames.json"  # belongs to it, see `prism_irl.report.explorer`
MAX_TRAJECTORIES = 120  # rows of the raster that a finger or a pointer can still hit
MAX_NUMBERS = 400_000  # states, actions and probabilities together: about 1.6 MB of text
MAX_CHOICES = 30_000  # numbers of a table of intentions, states and actions
MAX_BYTES = 3_000_000  # a file above this is not taken into a page
STAYS = 0.7  # share of the steps in a state after which the agent is still there, to say that it stays
MIN_NAME, MAX_NAME = 6, 60  # characters of a state's, action's or trajectory's name
MAX_NAMES = 400_000  # characters of all names of states


def write_explorer(
    folder: Path,
    demos: Demonstrations,
    probabilities: npt.ArrayLike,
    *,
    layout: Mapping[str, Any] | None = None,
    find: bool = True,
    rewards: npt.ArrayLike | None = None,
    values: npt.ArrayLike | None = None,
    names: Sequence[str] | None = None,
    actions: Sequence[str] | None = None,
    counters: Mapping[str, npt.ArrayLike] | None = None,
    events: Mapping[str, npt.ArrayLike] | None = None,
    goals: Sequence[Sequence[int]] | None = None,
    fit: Mapping[str, Any] | None = None,
    movement: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Write ``explorer.json`` into a run folder and return what it holds; ``probabilities`` are posteriors, (n, K).

    A ``layout`` is as `places.find_layout` returns it; by default it is found from the data, unless ``find`` is false:
    tokens of images have no place. ``rewards`` and ``values`` (K, S) colour the map, NaN where they are not known.
    ``names`` (K) are those of the intentions, ``actions`` (A) those of actions where the data has only numbers.
    ``counters`` {name: (n,)} are hidden quantities that no method saw, drawn below the posterior; ``events`` {name:
    (n,) bool} are marked above it. ``goals`` are K lists of the states where intentions end: one, or several that they
    explore. ``fit`` has the entries of a fit's metrics.json that the verdict reads where metrics.json is a table of
    methods (``name``: which model is shown, ``how``: what it was fitted to), ``movement`` is that of
    `story.movement_of`.
    """
    p = np.asarray(probabilities, np.float64)
    if p.ndim != 2 or len(p) != demos.n_steps:
        raise InputError(f"The probabilities have shape {p.shape}; give one row for each of {demos.n_steps} steps.")
    if not np.isfinite(p).all():
        raise InputError("Some probabilities are not finite; fit the model again.")
    place = dict(layout) if layout is not None else find_layout(demos) if find else None
    marks: dict[str, Any] = {}
    for name, at in (events or {}).items():
        happened, short, number = np.asarray(at), _short(name), 2
        if happened.shape != (demos.n_steps,) or happened.dtype.kind not in "biu":
            raise InputError(
                f"The events {name!r} have shape {happened.shape} and type {happened.dtype}; give true or false for "
                f"each of {demos.n_steps} steps."
            )
        while short in marks:  # long names may be cut to the same beginning
            short, number = f"{_short(name)[: MAX_NAME - 5]}… {number}", number + 1
        marks[short] = happened.astype(bool)
    told = story.describe(demos, p, marks)
    for k, want in enumerate(told["wants"]):
        own = [] if goals is None else goals[k]
        want["goal"], want["explores"] = own[0] if len(own) == 1 else None, len(own) if len(own) > 1 else 0
    few, many = demos.n_actions == 1, p.shape[1] * demos.n_states * demos.n_actions > MAX_CHOICES
    value = {
        "version": 1,
        "n_intentions": p.shape[1],
        "names": None if names is None else [_short(name) for name in names],
        "states": _vocabulary(demos.state_names),
        "actions": _vocabulary(actions or demos.action_names),
        "total": {"trajectories": demos.n_trajectories, "steps": demos.n_steps},
        "trajectories": _trajectories(demos, p, counters or {}, marks),
        "events": list(marks),
        **map_numbers(demos, p, place, rewards, values),
        "choices": None if movement or few or many else np.round(choice_counts(demos, p), 1).tolist(),
        "movement": None if movement is None else dict(movement),
        "story": told,
        "fit": None if fit is None else dict(fit),
    }
    plain: dict[str, Any] = storage.read_plain(value)
    (folder / FRAMES).unlink(missing_ok=True)  # of another segmentation
    storage.write_text(folder / FILE, json.dumps(plain, separators=(",", ":")) + "\n")  # one line: half the size
    return plain


def map_numbers(
    demos: Demonstrations,
    p: npt.NDArray[np.float64],
    layout: Mapping[str, Any] | None,
    rewards: npt.ArrayLike | None = None,
    values: npt.ArrayLike | None = None,
) -> dict[str, Any]:
    """What is drawn on maps, by the names of explorer.json: (K, S) lists, None where there is no map.

    Without a map nobody would see them, and with many states they would fill the page.
    """
    there = layout is not None
    visits = np.stack([np.bincount(demos.states, weights=w, minlength=demos.n_states) for w in p.T])
    return {
        "layout": layout,
        "flow": _flow(demos, p) if there else None,
        "leads": _numbers(story.long_runs(demos, p)) if there else None,
        "rewards": None if not there or rewards is None else _numbers(rewards),
        "values": None if not there or values is None else _numbers(values),
        "occupancy": _numbers(visits / np.maximum(visits.sum(axis=1, keepdims=True), 1e-12)) if there else None,
    }


def read_explorer(folder: Path) -> dict[str, Any] | None:
    """Return what ``explorer.json`` holds, None where there is none; a file that is no explorer is an error."""
    return read_part(folder, FILE, MAX_BYTES, _is_whole, "the interactive part")


def _is_whole(value: dict[str, Any]) -> bool:
    K, rows = value["n_intentions"], value["trajectories"]
    marks = ((t, len(one["states"])) for one in rows for own in one.get("events", {}).values() for t in own)
    return (
        value["version"] == 1
        and len(value["story"]["wants"]) == K
        and all(len(one["p"]) == K * len(one["states"]) == K * len(one["actions"]) for one in rows)
        and all(isinstance(t, int) and 0 <= t < length for t, length in marks)
    )


def script_json(value: Any) -> str:
    """Return JSON that is safe inside a script element: no character of it can end the element or begin a comment."""
    text = json.dumps(storage.read_plain(value), separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def evenly(n: int, most: int) -> npt.NDArray[np.int64]:
    """At most so many of n things, evenly over them, the first and the last among them."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(np.int64))


def _trajectories(
    demos: Demonstrations,
    p: npt.NDArray[Any],
    counters: Mapping[str, Any],
    marks: Mapping[str, npt.NDArray[np.bool_]],
) -> list[dict[str, Any]]:
    K = p.shape[1]
    truth = None
    if demos.labels is not None:  # under the numbers of the intentions that share most steps with them, or behind K
        from scipy.optimize import linear_sum_assignment  # here, because few data have true labels

        kinds, codes = np.unique(demos.labels, return_inverse=True)
        shared = np.stack([np.bincount(codes, weights=w, minlength=len(kinds)) for w in p.T], axis=1)
        number, (of, k) = K + np.arange(len(kinds)), linear_sum_assignment(-shared)
        number[of] = k
        truth = number[codes]
    chosen = evenly(demos.n_trajectories, MAX_TRAJECTORIES)
    # Every trajectory gets its share of the page; what short ones leave over is not worth the bookkeeping.
    longest = max(50, MAX_NUMBERS // ((K + 2 + len(counters) + len(marks)) * len(chosen)))
    rows = []
    for i in chosen:
        begin, end = int(demos.offsets[i]), int(demos.offsets[i + 1])
        steps = slice(begin, min(end, begin + longest))
        one: dict[str, Any] = {
            "name": _short(i if demos.trajectory_names is None else demos.trajectory_names[i]),
            "length": end - begin,
            "states": demos.states[steps].tolist(),
            "actions": demos.actions[steps].tolist(),
            "p": np.rint(1000 * p[steps]).astype(int).ravel().tolist(),
        }
        if demos.groups is not None:
            one["group"] = _short(demos.groups[i])
        if truth is not None:
            one["truth"] = truth[steps].tolist()
        for name, values in counters.items():
            one.setdefault("counters", {})[name] = np.asarray(values)[steps].tolist()
        for name, happened in marks.items():
            one.setdefault("events", {})[name] = np.flatnonzero(happened[steps]).tolist()
        rows.append(one)
    return rows


def _flow(demos: Demonstrations, p: npt.NDArray[Any]) -> dict[str, Any]:
    """For each intention the state that follows each state most often (−1: none), and how often, (K, S) each."""
    towards, confidence = [], []
    for w in p.T:
        counts = story.successor_counts(demos, w).toarray()
        total = np.maximum(counts.sum(axis=1), 1e-12)
        stays = np.diagonal(counts) / total > STAYS
        # Waiting in front of a wall is not an aim: a state follows itself only where hardly anything else does.
        np.fill_diagonal(counts, np.where(stays, np.diagonal(counts), 0.0))
        towards.append(np.where(counts.max(axis=1) > 0.5, counts.argmax(axis=1), -1).tolist())
        confidence.append([round(float(c), 3) for c in counts.max(axis=1) / total])
    return {"towards": towards, "confidence": confidence}


def _numbers(values: npt.ArrayLike) -> list[list[float | None]]:
    return [[float(f"{x:.4g}") if np.isfinite(x) else None for x in row] for row in np.asarray(values, float)]


def _vocabulary(names: Sequence[str] | None) -> list[str] | None:
    """Names of states or actions, the shorter the more there are; None, which means numbers, where there are none."""
    longest = min(MAX_NAME, MAX_NAMES // max(1, len(names or ())))
    return None if not names or longest < MIN_NAME else [_short(name, longest) for name in names]


def _short(name: Any, longest: int = MAX_NAME) -> str:
    text = str(name)
    return text if len(text) <= longest else text[: longest - 1] + "…"


PLACES, STEPS = 3, 3  # frames of each kind at most
SURE = 0.6  # probability of the intention at a step that may stand for it


def exemplars(explorer: Mapping[str, Any], frames: Mapping[str, Any] | None) -> list[list[dict[str, str]]]:
    """A few frames for each intention (data ``uri``, ``caption``); none where there are no frames of its steps.

    First the places that its sentence speaks of, each by the step at which the intention is surest; then steps of its
    own, evenly over the trajectories.
    """
    K, kept = explorer["n_intentions"], []
    for row, one in (frames or {"trajectories": {}})["trajectories"].items():
        shown = explorer["trajectories"][int(row)]
        for step, jpeg in zip(one["steps"], one["jpeg"], strict=True):
            if step < len(shown["states"]):
                p = [value / 1000 for value in shown["p"][step * K : step * K + K]]
                kept.append((p, int(shown["states"][step]), jpeg, f"trajectory {shown['name']}, step {step}"))
    found = []
    for k in range(K):
        own = [one for one in kept if one[0][k] >= SURE]
        chosen: dict[str, str] = {}  # frame → caption: the same frame does not stand twice
        for state, _ in explorer["story"]["wants"][k]["leads_to"][:PLACES]:
            there = [one for one in own if one[1] == state]
            if there:
                best = max(there, key=lambda one: one[0][k])
                chosen.setdefault(best[2], place_name(int(state), explorer.get("states")))
        rest = [one for one in own if one[2] not in chosen]
        for i in evenly(len(rest), STEPS) if rest else ():
            chosen.setdefault(rest[i][2], rest[i][3])
        found.append([{"uri": f"data:image/jpeg;base64,{jpeg}", "caption": words} for jpeg, words in chosen.items()])
    return found


# -- frames.json: every n-th step of some trajectories of the raster as a small JPEG, below a limit on the file --------

FRAME_WIDTH = 96  # pixels
FRAME_QUALITY = 70
MAX_SHOWN = 12  # with pictures
MAX_FRAMES = 600  # of all trajectories together
MAX_PICTURES = 2_000_000  # of the pictures as text: a quarter of the largest page
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

    A damaged trajectory is left out; any other `InputError` of ``pictures`` is named in the page, which then has none.
    Shown are some of the raster's trajectories, evenly, or of the positions in ``trajectories`` those that it has.
    """
    rows = {int(i): row for row, i in enumerate(evenly(demos.n_trajectories, MAX_TRAJECTORIES))}
    wanted = list(rows) if trajectories is None else [int(i) for i in trajectories if int(i) in rows]
    chosen = [wanted[j] for j in evenly(len(wanted), MAX_SHOWN)] if wanted else []
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
            if size > MAX_PICTURES:
                break
            kept[str(rows[i])] = {"steps": steps, "jpeg": small}
    except InputError as error:
        kept, note = {}, f"There are no frames here. {error}"
    if not kept and not note:
        note = "There are no frames here: these trajectories have no readable recording of a camera."
    plain = {"version": 1, "every": every, "trajectories": kept, "note": note}
    storage.write_json(folder / FRAMES, plain)
    return plain


def thumbnail(frame: Frame) -> str:
    """One picture, (height, width, 3), as base64 of a JPEG of at most `FRAME_WIDTH` pixels' width."""
    image = need("PIL.Image", "robots").fromarray(np.ascontiguousarray(frame))
    if image.width > FRAME_WIDTH:
        image = image.resize((FRAME_WIDTH, max(1, round(image.height * FRAME_WIDTH / image.width))))
    buffer = io.BytesIO()
    image.save(buffer, format="JPEG", quality=FRAME_QUALITY)
    return base64.b64encode(buffer.getvalue()).decode("ascii")


def read_frames(folder: Path, rows: int) -> dict[str, Any] | None:
    """Return what ``frames.json`` holds, None where there is none; anything but small pictures is an error."""

    def is_whole(value: dict[str, Any]) -> bool:
        of = [(one["steps"], one["jpeg"]) for one in value["trajectories"].values()]
        return (
            value["version"] == 1
            and isinstance(value["every"], int)
            and isinstance(value["note"], str)
            and all(int(row) in range(rows) for row in value["trajectories"])
            and all(len(steps) == len(jpeg) > 0 and steps == sorted(set(steps)) for steps, jpeg in of)
            and all(isinstance(step, int) for steps, _ in of for step in steps)
            and all(_JPEG.fullmatch(text) is not None for _, jpeg in of for text in jpeg)
        )

    return read_part(folder, FRAMES, 1.2 * MAX_PICTURES + 100_000, is_whole, "frames")
