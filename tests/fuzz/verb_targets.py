"""Whole verbs, and what lies between them: study files, recordings in arrays, caches, and runs that are gone on with.

Where files of ours were changed that hold results, a command that ends well has to answer what it answered before.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import tomllib
from collections.abc import Callable
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

from corpus import Corpus, WrongError, guarded, run_main
from mutators import CELLS, VALUES, mutate_array, mutate_bytes, mutate_csv, mutate_json

from prism_irl.cli.sources import read_rows
from prism_irl.cli.study import read_study

Case = Callable[[Corpus, random.Random, Path], None]
LITERALS = [
    *("0", "-1", "1e999", "nan", "-inf", "true", '""', '"x"', '"x,y"', "[]", "[[]]", "{}", "[1, 2]", '["x", ""]'),
    *(
        "1979-05-27",
        "07:32:00",
        str(10**30),
        "0x_1",
        '"\\u001b[2J"',
        '"\\u0000"',
        '"--out"',
        '"../../etc/passwd"',
        "'''",
    ),
    *('"' + "a" * 5000 + '"', "[" * 3000, "{a = 1}", '["trajectory", "group"]', '"group,trajectory"', '"none"'),
]
"""Right sides of a TOML key."""


def change(rng: random.Random, path: Path) -> None:
    """Make a file bad in the way of its kind."""
    content = path.read_bytes()
    made = {".json": mutate_json, ".csv": mutate_csv}.get(path.suffix, mutate_bytes)
    try:
        path.write_bytes(made(rng, content))
    except ValueError:  # not what its ending says, such as a table without rows
        path.write_bytes(mutate_bytes(rng, content))


def _any_file(rng: random.Random, folder: Path) -> Path:
    return rng.choice(sorted(path for path in folder.rglob("*") if path.is_file()))


def _study_file(corpus: Corpus, rng: random.Random, folder: Path) -> None:
    """study.toml beside a table: whatever it says is a setting or a sentence."""
    table, study = folder / "wide.csv", folder / "study.toml"
    shutil.copy(corpus.wide, table)
    run_main("init", table)
    lines = study.read_text().splitlines()
    for _ in range(rng.choice([1, 1, 2])):
        at = rng.choice([i for i, line in enumerate(lines) if " = " in line])
        key = lines[at].lstrip("# ").partition(" = ")[0]
        left = rng.choice([key, key, key, "none", '"a b"', "a.b"])
        lines[at] = f"{left} = {rng.choice(LITERALS)}"
    content = "\n".join(lines).encode()
    study.write_bytes(mutate_bytes(rng, content) if rng.random() < 0.2 else content)
    guarded(lambda: read_study(study))
    match rng.randrange(4):
        case 0:
            run_main("init", table, "--overwrite")
        case 1:
            run_main("score", corpus.wide_run, table, "--json")
        case 2:
            run_main("contrast", corpus.wide_run)
        case _:
            out = folder / "fit"
            run_main("fit", table, *corpus.fit_options, "--max-iterations", "1", "--simulations", "0", "--out", out)


def _init(corpus: Corpus, rng: random.Random, folder: Path) -> None:
    """A file that prism writes of any table is one that it reads."""
    table = folder / rng.choice(["x.csv", "x.csv", "x\n[y].csv", "é.csv", "*.csv"])
    table.write_bytes(mutate_csv(rng, rng.choice([corpus.csv, corpus.wide]).read_bytes()))
    code, _ = run_main("init", table)
    study = folder / "study.toml"
    if code == 0:
        try:
            tomllib.loads(study.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise WrongError(f"a study file that is none: {error}") from None
    elif study.exists():
        raise WrongError("a study file was left by a command that failed")


def _hdf5(corpus: Corpus, rng: random.Random, folder: Path) -> None:
    """robomimic and ALOHA: damaged bytes, and arrays, claims and links that nobody expects."""
    import h5py

    source = corpus.recordings[rng.choice(["robomimic", "aloha"])]
    path = folder / "lift.hdf5"
    shutil.copy(source, path)
    if rng.random() < 0.5:
        path.write_bytes(mutate_bytes(rng, path.read_bytes()))
    else:
        with h5py.File(path, "a") as store:
            names: list[str] = []
            store.visititems(lambda name, one: names.append(name) if hasattr(one, "dtype") else None)
            name = rng.choice(names)
            old = store[name][()]
            del store[name]
            match rng.randrange(7):
                case 0:
                    store.create_dataset(name, (10**9, 7), "f8", chunks=(1000, 7), fillvalue=1.0)
                case 1:
                    store[name] = h5py.ExternalLink("/etc/passwd", "/")
                case 2:
                    store[name] = h5py.SoftLink(rng.choice(["/", f"/{name}", "/none"]))
                case 3:
                    store.create_dataset(name, data=["a", "b"] * len(old))
                case 4:
                    store.create_group(name)
                case 5:
                    with contextlib.suppress(TypeError, ValueError, OSError):
                        store.create_dataset(name, data=mutate_array(rng, old))
                case _:
                    store.create_dataset(name, data=old[: rng.randrange(len(old) + 1)])
    columns = {
        "observe": rng.choice(["obs/eef", "observations/qpos", "none"]),
        "act": rng.choice(["actions", "action"]),
    }
    guarded(lambda: read_rows(path, **columns))


def _zarr(corpus: Corpus, rng: random.Random, folder: Path) -> None:
    """Diffusion Policy's replay buffers, whose descriptions claim anything."""
    if find_spec("zarr") is None:
        return
    copy = shutil.copytree(corpus.replay, folder / "replay.zarr")
    for _ in range(rng.choice([1, 1, 2])):
        file = _any_file(rng, copy)
        if file.name in ("zarr.json", ".zarray", ".zgroup"):
            file.write_bytes(mutate_json(rng, file.read_bytes()))
        else:
            change(rng, file)
    guarded(lambda: read_rows(copy, observe="observation.state", act="action"))


def _cached(corpus: Corpus, rng: random.Random, folder: Path) -> None:
    """A comparison or a selection whose cache or marker was changed: the same numbers again, or a sentence."""
    verb = rng.choice(["compare", "select"])
    words, whole = corpus.kept[verb]
    copy = shutil.copytree(whole, folder / "run")
    marker = copy / ".prism-run.json"
    marker.write_text(json.dumps({**json.loads(marker.read_text()), "state": "unfinished"}))
    for name in ("metrics.json", "table.csv"):
        (copy / name).unlink()
    if rng.random() < 0.15:
        change(rng, marker)
    for _ in range(rng.choice([1, 1, 3])):
        change(rng, _any_file(rng, copy / "cache"))
    code, _ = run_main(*words, "--out", copy, "--resume")
    if code == 0 and not _alike(copy / "metrics.json", whole / "metrics.json"):
        raise WrongError("another answer after --resume")


def _alike(path: Path, other: Path) -> bool:
    """Whether two files of numbers say the same, apart from times."""
    found, expected = (json.loads(one.read_text())["methods"] for one in (path, other))
    kept = ("predictive_ll", "agreement", "label_accuracy")
    return all(found[key].get(name) == one.get(name) for key, one in expected.items() for name in kept)


def _resumed(corpus: Corpus, rng: random.Random, folder: Path) -> None:
    """A fit that was interrupted, whose files were changed since."""
    words, begun = corpus.interrupted
    copy = shutil.copytree(begun, folder / "run")
    change(rng, _any_file(rng, copy))
    code, _ = run_main(*words, "--out", copy, rng.choice(["--resume", "--resume", "--overwrite"]))
    if code == 0 and not (copy / "metrics.json").is_file():
        raise WrongError("a run without results")


def _analyzed(corpus: Corpus, rng: random.Random, folder: Path) -> None:
    """An analysis again, whose folder was changed; or one of a table that was."""
    table = folder / "data.csv"
    words = ["--quick", "--surrogates", "1", "--jobs", "1", "--intentions", "2", "--out", folder / "run"]
    if rng.random() < 0.1:
        table.write_bytes(mutate_csv(rng, corpus.csv.read_bytes()))
        run_main("analyze", table, *words)
        return
    shutil.copy(corpus.csv, table)
    copy = shutil.copytree(corpus.analysis, folder / "run")
    change(rng, _any_file(rng, copy))
    if rng.random() < 0.2:
        words += [rng.choice(["--state", "--grid", "--hz", "--group", "--seed"]), rng.choice(CELLS)]
    run_main("analyze", table, *words)


def _triage(corpus: Corpus, rng: random.Random, folder: Path) -> None:
    data, run = corpus.lerobot, corpus.robot
    if rng.random() < 0.5:
        data = shutil.copytree(data, folder / "dataset")
        change(rng, _any_file(rng, data))
    else:
        run = shutil.copytree(run, folder / "run")
        change(rng, run / rng.choice(["config.json", "model.safetensors", "metrics.json"]))
    out = rng.choice(["list.csv", "list.parquet", "none/list.csv", "x", "\x1b.csv", "a" * 300 + ".csv"])
    run_main("triage", data, "--run", run, "--out", folder / out)


def _tokenize(corpus: Corpus, rng: random.Random, folder: Path) -> None:
    words: list[Any] = "--encoder proprio --states 3 --actions 2".split()
    data = shutil.copytree(rng.choice([corpus.lerobot, corpus.rlds]), folder / "dataset")
    if rng.random() < 0.4:
        change(rng, _any_file(rng, data))
    else:
        option = rng.choice(
            ["--states", "--actions", "--gripper", "--encoder", "--method", "--like", "--seed", "--camera"]
        )
        words = [word for at in range(0, 6, 2) if words[at] != option for word in words[at : at + 2]]
        words += [option, rng.choice(["0", "-1", "1", "99", "x", "auto", "none", "", str(10**12), "nan"])]
    out = folder / "tokens"
    code, _ = run_main("tokenize", data, *words, "--out", out)
    if code == 0 and rng.random() < 0.5:
        change(rng, _any_file(rng, out))
        run_main("tokenize", data, *words, "--out", out, "--resume")


def _cross_validated(corpus: Corpus, rng: random.Random, folder: Path) -> None:
    """Comparisons, selections and evidence of tables that are bad, or good in another way."""
    table = folder / "x.csv"
    table.write_bytes(mutate_csv(rng, corpus.csv.read_bytes()))
    small = ["--folds", "2", "--jobs", "1", "--out", folder / "run"]
    few = ["--intentions", "2", "--surrogates", "1", "--starts", "1", "--max-iterations", "2"]
    match rng.randrange(3):
        case 0:
            run_main("compare", table, "--methods", rng.choice(["iavi,ngram", "bc", "hiql,uniform"]), *small)
        case 1:
            run_main("select", table, *few, "--splits", "1", *small)
        case _:
            run_main("evidence", table, *few, *small)


def _segments(corpus: Corpus, rng: random.Random, folder: Path) -> None:
    """Labels of a dataset with seconds, as JSON and as subtitles; a subject that is odd."""
    data = shutil.copytree(corpus.lerobot, folder / "dataset")
    if rng.random() < 0.7:
        change(rng, _any_file(rng, data))
    out = folder / rng.choice(["x.json", "x.vtt", "x.csv"])
    code, _ = run_main("segment", corpus.robot, data, "--out", out)
    if code == 0 and out.suffix == ".json":
        json.loads(out.read_text())
    subject = folder / "subject.json"
    subject.write_bytes(mutate_json(rng, b'{"subject_id": "m1", "species": "Mus musculus", "sex": "F", "age": "P90D"}'))
    if rng.random() < 0.1 and find_spec("pynwb") is not None:
        run_main("segment", corpus.run, corpus.csv, "--out", folder / "x.nwb", "--subject", subject)


def _start(corpus: Corpus, rng: random.Random, folder: Path) -> None:
    """Samples, data sets and mapped files: names and places that make no sense."""
    odd = rng.choice(["", "x", "mouse", "\x1b", "..", "a" * 300, str(10**12), "/proc/x.csv", "file:///etc/passwd"])
    table = folder / "x.csv"
    table.write_bytes(mutate_csv(rng, corpus.wide.read_bytes()))
    command: list[Any] = rng.choice(
        [
            ["sample", odd],
            ["sample", "mouse", "--out", odd if odd not in ("", "..", "a" * 300) else folder],
            ["data", "list"],
            ["data", "fetch", odd],
            ["data", "fetch", "labyrinth", "--address", rng.choice(["file:///etc/passwd", "x", "", "ftp://x"])],
            ["data", "map", table, "--observe", "x,y", "--act", "vx,vy", "--out", folder / "mapped"],
            ["data", "map", folder / "*.csv", "--observe", odd, "--act", "vx", "--out", folder / "mapped"],
            ["methods", odd],
            ["reproduce", odd, "--out", folder / "r"],
        ]
    )
    place = rng.choice([str(folder / "data"), "/proc/none", str(table)])
    with mock.patch.dict(os.environ, PRISM_DATA=place):
        run_main(*command)


FEW = "--surrogates 1 --folds 2 --starts 1 --max-iterations 2 --jobs 1"
SMALL = {
    "analyze": "--quick --intentions 2 --surrogates 1 --jobs 1",
    "evidence": f"--intentions 2 {FEW}",
    "select": f"--intentions 1..2 --splits 1 {FEW}",
    "compare": "--methods iavi,ngram --folds 2 --jobs 1",
}
"""What makes a verb end soon, where the value that is tried turns out to be a good one."""


def _numbers(corpus: Corpus, rng: random.Random, folder: Path) -> None:
    """Any number of any option of a verb that fits or tests, which has to be used or refused."""
    verb = rng.choice(["analyze", "evidence", "select", "compare", "contrast", "individuals", "imagine", "triage"])
    option = rng.choice(
        [
            *("surrogates", "folds", "starts", "max-iterations", "splits", "jobs", "seeds", "intentions", "intervals"),
            *(
                "simulations",
                "max-gap",
                "hz",
                "grid",
                "labels",
                "map",
                "dynamics",
                "valid-actions",
                "missing",
                "by",
                "unit",
            ),
        ]
    )
    value = rng.choice(
        ["-1", "-0", "0.5", "1e400", "nan", "", "x", "²", "9" * 40, "3..1", "0x0", str(VALUES[5]), "none"]
    )
    data = corpus.run if verb in ("contrast", "individuals", "imagine") else corpus.csv
    small = SMALL.get(verb, "").split()
    quick = ["--quick"] if "--quick" in small else []
    pairs = [pair for pair in pairwise(small[len(quick) :]) if pair[0].startswith("--") and pair[0] != f"--{option}"]
    words = [*quick, *(word for pair in pairs for word in pair), f"--{option}={value}"]
    run_main(verb, data, *words, *(["--out", folder / "out"] if data == corpus.csv else []))


TARGETS: dict[str, tuple[int, Case]] = {
    "study file": (6, _study_file),
    "init": (5, _init),
    "hdf5": (6, _hdf5),
    "zarr": (4, _zarr),
    "cached": (3, _cached),
    "resumed": (3, _resumed),
    "analyzed": (2, _analyzed),
    "triage": (3, _triage),
    "tokenize": (2, _tokenize),
    "cross-validated": (1, _cross_validated),
    "segments": (3, _segments),
    "start": (3, _start),
    "numbers": (3, _numbers),
}
"""Name → how often among a hundred cases or so, and what a case does."""
