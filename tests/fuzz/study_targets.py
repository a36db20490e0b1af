"""Studies and robots: worlds, covariates, missing values, labels, streams, contrasts, names, spreadsheets and sessions.

A fit is rare here: what a file or an option can break is the way to it.
"""

from __future__ import annotations

import contextlib
import io
import json
import random
import shutil
import sys
import zipfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from corpus import Corpus, WrongError, guarded, run_main
from mutators import CELLS, mutate_array, mutate_bytes, mutate_csv, mutate_json

from prism_irl.cli.options import ColumnOptions, WorldOptions
from prism_irl.cli.sources import read_inputs, read_table
from prism_irl.data.read import read_data
from prism_irl.report.names import read_names

EXCEL = ("x.xlsx",) if find_spec("openpyxl") else ()
COLUMNS = ("trajectory", "state", "action", "time", "group", "water", "thirst", "sex", "drug", "known", "x", "vx")


def _quiet(read: Callable[[], Any]) -> Any:
    """A reader that may print notes, as one that may not."""
    with contextlib.redirect_stderr(io.StringIO()):
        return guarded(read)


def _world(corpus: Corpus, rng: random.Random, folder: Path) -> None:
    kind = rng.choice(list(corpus.world))
    source = corpus.world[kind]
    path = folder / source.name
    if path.suffix == ".npz" and rng.random() < 0.7:
        with np.load(source) as stored:
            arrays = {name: stored[name] for name in stored.files}
        np.savez(path, P=mutate_array(rng, arrays["P"]))
    else:
        path.write_bytes((mutate_bytes if path.suffix == ".npz" else mutate_csv)(rng, source.read_bytes()))
    option = kind.removesuffix("-npz").replace("-", "_")
    given = str(path) if option == "valid_actions" else path
    found = _quiet(lambda: read_table(corpus.wide, ColumnOptions(), WorldOptions(**{option: given})))
    if found is None:
        return
    if found.mdp is not None and not np.isfinite(found.mdp.transitions.data).all():
        raise WrongError("dynamics that are no numbers")
    if rng.random() < 0.05:
        run_main("fit", corpus.wide, *corpus.fit_options, f"--{option.replace('_', '-')}", path, "--out", folder / "f")


def _wide(corpus: Corpus, rng: random.Random, folder: Path) -> None:
    """Roles of columns, good and bad, on a table that is good or bad."""
    path, content = folder / "wide.csv", corpus.wide.read_bytes()
    path.write_bytes(mutate_csv(rng, content) if rng.random() < 0.7 else content)
    names = [*COLUMNS, "none", "", "x,y", "vx,vy", "thirst,sex", "thirst,thirst", ",", "trajectory,animal", "\x1b"]
    said: dict[str, Any] = {}
    for _ in range(rng.choice([1, 2, 3])):
        role = rng.choice(
            ["trajectory", "state", "action", "time", "group", "labels", "inputs", "since", "observe", "act", "events"]
        )
        said[role] = (rng.choice(names),) if role == "events" else rng.choice(names)
    said["missing"] = rng.choice([None, "skip", "split", "error"])
    said["ties"] = rng.choice([None, "keep"])
    said["max_gap"] = rng.choice([None, None, -1.0, 0.0, 0.5, 1e300, float("nan"), float("inf")])
    if rng.random() < 0.3:
        said |= {"observe": "x,y", "act": "vx,vy"}
    columns = ColumnOptions(**said)
    grid = rng.choice([None, None, "5x1", "0x5", "5x", "99999x99999", "1e9", "٣x٣", "-1x5"])
    world = WorldOptions(grid=grid)
    found = _quiet(lambda: read_inputs(read_table(path, columns, world).rows, columns))
    if found is None:
        return
    demos = found[0].demonstrations
    if demos.observations is not None and not np.isfinite(demos.observations).all():
        raise WrongError("inputs that are no numbers")
    if rng.random() < 0.04:
        words = [word for name, value in said.items() if value is not None for word in _words(name, value)]
        run_main("fit", path, *corpus.fit_options, *words, "--out", folder / "fit")


def _words(name: str, value: Any) -> list[str]:
    return [f"--{name.replace('_', '-')}={value[0] if isinstance(value, tuple) else value}"]


def _new_data(corpus: Corpus, rng: random.Random, folder: Path) -> None:
    """New data for models with covariates, and for continuous ones."""
    path = folder / rng.choice(["new.csv", "new.tsv", "new.parquet"])
    path.write_bytes(mutate_csv(rng, corpus.wide.read_bytes()))
    run = rng.choice([corpus.wide_run, corpus.arm])
    match rng.randrange(3):
        case 0:
            run_main("score", run, path, "--json")
        case 1:
            cuts = ["--intervals", folder / rng.choice(["cuts.csv", "cuts.parquet", "cuts", "x.nwb", ""])]
            run_main("segment", run, path, "--out", folder / "out.csv", *cuts)
        case _:
            run_main("segment", run, path, "--out", folder / "out.parquet")


def _stream(corpus: Corpus, rng: random.Random, folder: Path) -> None:
    run = rng.choice([corpus.run, corpus.wide_run, corpus.arm])
    content = (corpus.csv if run == corpus.run else corpus.wide).read_bytes()
    if rng.random() < 0.3:  # what the run says about itself is bad, not the stream
        copy = folder / "run"
        copy.mkdir()
        for name in ("config.json", "model.safetensors"):
            shutil.copy(run / name, copy)
        (copy / "config.json").write_bytes(mutate_json(rng, (copy / "config.json").read_bytes()))
        run = copy
    else:
        content = mutate_csv(rng, content)
    before = sys.stdin
    sys.stdin = io.StringIO(content.decode(errors="replace"))
    try:
        code, out = run_main("segment", run, "--stream")
    finally:
        sys.stdin = before
    rows = [line.split(",") for line in out.splitlines()[1:]] if code == 0 else []
    if any(not 0.99 < sum(map(float, row[-2:])) < 1.01 for row in rows):
        raise WrongError("beliefs that do not sum to one")


def _excel(corpus: Corpus, rng: random.Random, folder: Path) -> None:
    if find_spec("openpyxl") is None:
        return
    path = folder / "x.xlsx"
    match rng.randrange(3):
        case 0:
            path.write_bytes(mutate_bytes(rng, corpus.excel.read_bytes()))
        case 1:  # a part of the archive, so that it still unpacks
            with zipfile.ZipFile(corpus.excel) as old, zipfile.ZipFile(path, "w") as new:
                chosen = rng.choice(old.namelist())
                for name in old.namelist():
                    content = old.read(name)
                    new.writestr(name, mutate_bytes(rng, content) if name == chosen else content)
        case _:
            frame = pd.read_csv(corpus.csv).astype(object)
            cell = rng.choice([*(c for c in CELLS if c.isprintable()), None, 2**62, 0.5, float("inf"), True])
            frame.iloc[rng.randrange(len(frame)), rng.randrange(frame.shape[1])] = cell
            if rng.random() < 0.3:
                at = rng.randrange(frame.shape[1])
                frame = frame.set_axis(
                    [*frame.columns[:at], rng.choice([*frame.columns]), *frame.columns[at + 1 :]], axis=1
                )
            frame.to_excel(path, index=False)
    _read(corpus, rng, path)


def _nwb(corpus: Corpus, rng: random.Random, folder: Path) -> None:
    if find_spec("pynwb") is None:
        return
    path = folder / "x.nwb"
    path.write_bytes(mutate_bytes(rng, corpus.nwb.read_bytes()))
    _read(corpus, rng, path)


def _read(corpus: Corpus, rng: random.Random, path: Path) -> None:
    if guarded(lambda: read_data(path)) is not None and rng.random() < 0.3:
        run_main("score", corpus.run, path, "--json")


def _same(corpus: Corpus, rng: random.Random, folder: Path) -> None:
    """Ways to write the same table, which must have the same answer."""
    frame = pd.read_csv(corpus.csv)
    frame = frame[rng.sample(list(frame.columns), frame.shape[1])]
    if rng.random() < 0.5:  # the column of time puts the steps in order; which trajectory is first does not matter
        frame = frame.sample(frac=1, random_state=rng.randrange(1000))
    path = folder / rng.choice(["x.csv", "x.tsv", "x.parquet", *EXCEL])
    if path.suffix == ".parquet":
        kind = rng.choice(["int8", "int16", "int64", "uint8", "float64", "Int64"])
        frame.assign(state=frame["state"].astype(kind)).to_parquet(path, row_group_size=rng.choice([None, 7]))
    elif path.suffix == ".xlsx":
        frame.to_excel(path, index=False)
    else:
        text = frame.to_csv(
            index=False,
            sep="," if path.suffix == ".csv" else "\t",
            quoting=rng.choice([0, 1, 2]),
            lineterminator=rng.choice(["\n", "\r\n"]),
        )
        path.write_bytes(text.rstrip("\r\n" * rng.randrange(2)).encode(rng.choice(["utf-8", "utf-8-sig"])))
    code, out = run_main("score", corpus.run, path, "--json")
    if code:
        raise WrongError("the same table was refused")
    found, expected = json.loads(out), json.loads(corpus.answer[1])
    if any(abs(found[name] - expected[name]) > 1e-9 for name in ("predictive_ll", "n_steps", "label_accuracy")):
        raise WrongError(f"another answer: {found}")


def _doubled(corpus: Corpus, rng: random.Random, folder: Path) -> None:
    """A column that is there twice, whatever it is used for: nobody knows which of them is meant."""
    frame, path = pd.read_csv(corpus.wide), folder / rng.choice(["x.csv", "x.tsv", *EXCEL])
    role, name = rng.choice(
        [
            *((role, role) for role in ("trajectory", "state", "action", "time", "group")),
            *(("inputs", "thirst"), ("inputs", "sex"), ("since", "water"), ("events", "water"), ("labels", "known")),
            *(("observations", "x"), ("observe", "x"), ("act", "vx")),
        ]
    )
    at = rng.randrange(frame.shape[1] + 1)
    twice = pd.concat(
        [frame.iloc[:, :at], frame[name].sample(frac=1, random_state=0).reset_index(drop=True), frame.iloc[:, at:]],
        axis=1,
    )
    if path.suffix == ".xlsx":
        twice.to_excel(path, index=False)
    else:
        twice.to_csv(path, index=False, sep="," if path.suffix == ".csv" else "\t")
    said: dict[str, Any] = {role: (name,) if role in ("events", "observations") else name}
    if role in ("observe", "act"):
        said = {"observe": "x,y", "act": "vx,vy"}
    columns = ColumnOptions(**said)
    if _quiet(lambda: read_inputs(read_table(path, columns).rows, columns)) is not None:
        raise WrongError(f"one of two columns {name!r} was taken for {role}")


def _study(corpus: Corpus, rng: random.Random, folder: Path) -> None:
    """Questions to a run whose files were changed, or with options that make no sense."""
    copy = shutil.copytree(corpus.wide_run, folder / "run")
    words: list[Any] = []
    match rng.randrange(3):
        case 0:
            file = copy / rng.choice(["segments.parquet", "config.json", "metrics.json", "figures/captions.json"])
            file.write_bytes((mutate_json if file.suffix == ".json" else mutate_bytes)(rng, file.read_bytes()))
        case 1:
            table = folder / "animals.csv"
            animals = "animal,dose\n" + "".join(f"{i},{'hi' if i % 2 else 'lo'}\n" for i in range(4))
            table.write_bytes(mutate_csv(rng, animals.encode()))
            words = ["--table", table]
        case _:
            words = [rng.choice(["--levels", "--seed", "--intervals", "--jobs"])]
            words.append(rng.choice(["saline,drug", "saline", "x,y", ",", "0", "-1", "1e9", "nan", "99999999999", ""]))
    by, unit = (
        rng.choice(["drug", "sex", "dose", "water", "none", ""]),
        rng.choice(["animal", "group", "state", "x", ""]),
    )
    if words and words[0] == "--table":
        by = rng.choice(["dose", "dose", "animal"])
    if rng.random() < 0.3:
        run_main("individuals", copy, "--unit", unit, *(words if words[:1] == ["--seed"] else []))
    else:
        run_main("contrast", copy, "--by", by, "--unit", unit, *words)


def _imagine(corpus: Corpus, rng: random.Random, folder: Path) -> None:
    """Worlds that have changed in ways that make no sense; a good one is rare, because it simulates."""
    copy = shutil.copytree(corpus.wide_run, folder / "run")
    words: list[Any] = ["--simulations", "20", "--jobs", "1"]
    match rng.randrange(4):
        case 0:
            path = folder / rng.choice(["moved.csv", "moved.npz"])
            source = corpus.world["dynamics" if path.suffix == ".csv" else "dynamics-npz"]
            path.write_bytes((mutate_csv if path.suffix == ".csv" else mutate_bytes)(rng, source.read_bytes()))
            words += ["--dynamics", path, "--unaware"]
        case 1:
            words += ["--block", rng.choice(["9", "x", ",", "-1", "0,0", "0,1,2,3,4", "\x1b", "²", "1" * 400])]
        case 2:
            words += ["--without", rng.choice(["9", "x", "", "²", "٣", "intention 7", "1" * 5000])]
        case _:
            words += ["--block", "1", rng.choice(["--seed", "--intervals", "--simulations", "--jobs", "--name"])]
            words.append(rng.choice(["-1", "0", "x", "99999999999", "../../out", "a" * 300, "\x1b", ""]))
    before = sorted(folder.iterdir())
    run_main("imagine", copy, *words)
    if sorted(folder.iterdir()) != before:
        raise WrongError("something was written beside the run")


def _names(corpus: Corpus, rng: random.Random, folder: Path) -> None:
    copy, path = shutil.copytree(corpus.run, folder / "run"), folder / "names.json"
    path.write_bytes(mutate_json(rng, b'{"names": ["seek water", "go home"]}'))
    match rng.randrange(4):
        case 0 | 1:
            found = guarded(lambda: read_names(path, 2))
            if found is not None and not all(name.isprintable() and 0 < len(name) <= 80 for name in found):
                raise WrongError(f"names that cannot be shown: {found!r:.100}")
        case 2:
            run_main("names", copy, path)
        case _:
            file = copy / rng.choice(["segments.parquet", "metrics.json", "config.json", "names.json"])
            content = file.read_bytes() if file.is_file() else b'{"names": ["seek water", "go home"]}'
            file.write_bytes((mutate_json if file.suffix == ".json" else mutate_bytes)(rng, content))
            other = shutil.copytree(corpus.run, folder / "other")
            run_main("names", *((copy, "--like", other) if rng.random() < 0.5 else (other, "--like", copy)))


def _write_back(corpus: Corpus, rng: random.Random, folder: Path) -> None:
    """A copy of a dataset with subtasks: whole, or not there."""
    copy = shutil.copytree(corpus.lerobot, folder / "dataset")
    file = rng.choice(sorted(path for path in copy.rglob("*") if path.is_file()))
    if file.suffix == ".json":
        file.write_bytes(mutate_json(rng, file.read_bytes()))
    else:
        file.write_bytes(mutate_bytes(rng, file.read_bytes()))
    source = rng.choice([corpus.lerobot, copy])
    code, _ = run_main("segment", corpus.robot, source, "--write-back", copy, "--out", folder / "out")
    if code and (folder / "out").exists():
        raise WrongError("a copy that is not whole was left")


def _evidence(corpus: Corpus, rng: random.Random, folder: Path) -> None:
    """Evidence of an earlier run that was changed, and options of a test that must be refused."""
    numbers = {"p_value": 0.05, "gain": 0.1, "surrogates": 19, "agreement": 0.5, "agreement_p_value": 0.2}
    run = folder / "evidence"
    run.mkdir()
    content = {"metrics.json": {"evidence": numbers}, "config.json": {"data": {"content": "0" * 64}}}
    for name, value in content.items():
        (run / name).write_bytes(mutate_json(rng, json.dumps(value).encode()))
    if rng.random() < 0.5:
        run_main("fit", corpus.csv, *corpus.fit_options, "--evidence", run, "--out", folder / "fit")
        return
    number = rng.choice(["0", "-1", "x", "1e9", "99999999999", "nan", ""])
    option = rng.choice(["--surrogates", "--folds", "--intentions", "--starts", "--max-iterations", "--jobs", "--seed"])
    event = rng.choice(["none", "state", "action", "note", "\x1b", ""])
    words = ["--events", event] if rng.random() < 0.5 else [option, number]
    if (words[0] == "--seed" and words[1] != "-1") or words == ["--jobs", "-1"]:
        return  # a good number, and a test that takes long
    run_main("evidence", corpus.csv, *words, "--out", folder / "e")


TARGETS: dict[str, tuple[int, Callable[[Corpus, random.Random, Path], None]]] = {
    "world": (8, _world),
    "wide": (10, _wide),
    "new data": (6, _new_data),
    "stream": (3, _stream),
    "excel": (4, _excel),
    "nwb": (2, _nwb),
    "same": (2, _same),
    "doubled": (2, _doubled),
    "study": (3, _study),
    "imagine": (2, _imagine),
    "names": (3, _names),
    "write back": (3, _write_back),
    "evidence": (2, _evidence),
}
"""Name → how often among a hundred cases or so, and what a case does."""
