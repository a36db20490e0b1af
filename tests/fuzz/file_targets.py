"""Labels in a table of their own, and one table in several files ("animals/*.csv").

Where nothing was made bad the answer is known, and has to be that.
"""

from __future__ import annotations

import contextlib
import io
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from corpus import Corpus, WrongError, guarded, run_main
from mutators import CELLS, mutate_bytes, mutate_csv

from prism_irl.cli.sources import read_rows

HZ = 10.0
VECTORS = {"observe": "observation.state", "act": "action"}
RATES = [0.0, -1.0, 1e-300, 1e300, float("nan"), float("inf"), 0.5]


def _read(table: Path, **said: Any) -> Any:
    with contextlib.redirect_stderr(io.StringIO()):
        return guarded(lambda: read_rows(table, **said))


def _labels(corpus: Corpus, rng: random.Random, folder: Path) -> None:
    """Steps and stretches, in frames and in seconds, beside tables, .npz files and robot datasets."""
    data, said = rng.choice(
        [(corpus.csv, {}), (corpus.npz, {}), (corpus.wide, {}), (corpus.lerobot, VECTORS), (corpus.rlds, VECTORS)]
    )
    demos = _read(data, **said).demonstrations
    known = np.array([rng.choice([-1, -1, 0, 1]) for _ in range(demos.n_steps)])
    known[rng.randrange(demos.n_steps)] = 0
    kind = rng.choice([("step",), ("start", "end"), ("first", "last"), ("start_s", "end_s")])
    frame = _written(rng, demos, known, kind)
    hz = HZ if kind[0] == "start_s" else None
    path, good = folder / rng.choice(["known.csv", "known.tsv", "known.parquet"]), rng.random() < 0.2
    if path.suffix == ".parquet":
        frame.to_parquet(path)
        if not good:
            path.write_bytes(mutate_bytes(rng, path.read_bytes()))
    else:
        content = frame.to_csv(index=False).encode()
        content = content if good else mutate_csv(rng, content)
        path.write_bytes(content.replace(b",", b"\t") if path.suffix == ".tsv" else content)
    if not good and rng.random() < 0.1:
        hz = rng.choice([None, *RATES])
    found = _read(data, hz=hz, labels=str(path), **said)
    if found is None:
        if good:
            raise WrongError(f"good labels ({kind[0]}) of {data.name} were refused")
        return
    told = found.demonstrations.partial_labels
    if told.shape != (demos.n_steps,) or told.min() < -1 or told.max() < 0:
        raise WrongError("labels that are no intentions, or of no step")
    if good and not np.array_equal(told >= 0, known >= 0):
        raise WrongError(f"good labels ({kind[0]}) of {data.name} are at other steps")
    if rng.random() < 0.03:
        words = [f"--{name}={value}" for name, value in {**said, "labels": path, "hz": hz}.items() if value is not None]
        run_main("fit", data, *corpus.fit_options, *words, "--out", folder / "fit")


def _written(rng: random.Random, demos: Any, known: np.ndarray[Any, Any], kind: tuple[str, ...]) -> pd.DataFrame:
    """A file that says what is known, in one row per step; stretches are as short as that, too."""
    names = ["reach", "grasp"] if rng.random() < 0.5 else [0, 1]
    rows = []
    for i in range(len(demos)):
        for step in range(int(demos.lengths[i])):
            at = int(demos.offsets[i]) + step
            if known[at] < 0:
                continue
            when = step if kind[0] == "step" or demos.times is None else demos.times[at]
            place = {
                "step": (when,),
                "start": (when, when + 1),
                "first": (when, when),
                "start_s": (when / HZ, (when + 1) / HZ),
            }
            rows.append((demos.name_of(i), *place[kind[0]], names[known[at]]))
    rng.shuffle(rows)
    return pd.DataFrame(rows, columns=[rng.choice(["trajectory", "episode", "episode_index"]), *kind, "label"])


NAMES = (
    "a.csv",
    "b.csv",
    "10.csv",
    "9.csv",
    "é.csv",
    "-x.csv",
    "a b.csv",
    "a[1].csv",
    "x*.csv",
    "\x1b.csv",
    "a\nb.csv",
)
PATTERNS = (
    "*.csv",
    "*",
    "**/*.csv",
    "?.csv",
    "[ab].csv",
    "[",
    "[]",
    "none*.csv",
    "a[1].csv",
    "*.parquet",
    "../*",
    "~*",
)
KEYS = ("file,trajectory", "file,trajectory", "trajectory", "file", "file,", ",", "trajectory,file", "none,file")


def _patterns(corpus: Corpus, rng: random.Random, folder: Path) -> None:
    """One table in several files, one of which is bad, under patterns that are good or bad."""
    frame = pd.read_csv(corpus.csv)
    parts = [part for _, part in frame.groupby("trajectory")][: rng.choice([1, 2, 4])]
    names, good = rng.sample(NAMES, len(parts)), rng.random() < 0.25
    place = folder / rng.choice(["animals", "a*", "[x]"])
    place.mkdir()
    for part, name in zip(parts, names, strict=True):
        (place / name).write_text(part.to_csv(index=False), encoding="utf-8")
    if not good:
        bad = place / rng.choice([*names, "other.csv", "notes.txt", "empty.csv"])
        content = mutate_csv(rng, bad.read_bytes()) if bad.is_file() else rng.choice(CELLS).encode("utf-8", "replace")
        bad.write_bytes(content)
    pattern = "*.csv" if good else rng.choice(PATTERNS)
    key = "file,trajectory" if good else rng.choice(KEYS)
    said = {"trajectory": key} | ({"group": "file"} if rng.random() < 0.3 else {})
    escaped = folder / ("".join(f"[{c}]" if c in "*?[" else c for c in place.name) if good else place.name) / pattern
    found = _read(escaped, **said)
    if found is None:
        if good:
            raise WrongError(f"good files {names} were refused")
        return
    if good:
        demos = found.demonstrations
        if len(demos) != len(parts) or demos.n_steps != sum(map(len, parts)):
            raise WrongError(f"{len(demos)} trajectories of {len(parts)} good files were read")
    if rng.random() < 0.05:
        words = [f"--{role}={name}" for role, name in said.items()]
        run_main("fit", escaped, *corpus.fit_options, *words, "--out", folder / "fit")


TARGETS: dict[str, tuple[int, Callable[[Corpus, random.Random, Path], None]]] = {
    "labels": (6, _labels),
    "patterns": (4, _patterns),
}
"""Name → how often among a hundred cases or so, and what a case does."""
