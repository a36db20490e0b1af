"""What is fuzzed: every reader and every command that reads, each with a good input and a way to make it bad.

A case is right when it ends with a result or with one sentence; where the good answer is known, a result has to be it.
Commands and readers of studies and robots are in `study_targets`, data of other libraries in `library_targets`,
labels and data in several files in `file_targets`, all other verbs, study files, recordings in arrays, caches and
resumed runs in `verb_targets`.
"""

from __future__ import annotations

import contextlib
import csv
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import file_targets
import library_targets
import numpy as np
import pandas as pd
import study_targets
import verb_targets
from corpus import Corpus, WrongError, guarded, run_main
from mutators import CELLS, mutate_array, mutate_bytes, mutate_csv, mutate_json

import prism_irl as prism
from bridge.raw import load_arrays
from prism_irl import storage
from prism_irl.data.files import write_table
from prism_irl.data.mapped import open_folder
from prism_irl.data.read import read_data
from prism_irl.evaluation.truth import read_truth
from prism_irl.robots.episodes import open_episodes


def _table(corpus: Corpus, rng: random.Random, path: Path) -> None:
    roles = rng.choice(
        [{}, {"observations": ("water",)}, {"time": "state"}, {"group": "note"}, {"trajectory": "state"}]
    )
    found = guarded(lambda: read_data(path, **roles))
    if found is None:
        return
    written = path.with_name("out.parquet")
    guarded(lambda: write_table(found.frame if found.frame is not None else found.demonstrations.to_pandas(), written))
    if rng.random() < 0.3:
        run_main("segment", corpus.run, path, "--out", path.with_name("labels.csv"), "--overwrite")
    if rng.random() < 0.02:
        run_main("fit", path, *corpus.fit_options, "--out", path.with_name("fit"))


def _csv(corpus: Corpus, rng: random.Random, folder: Path) -> None:
    path = folder / rng.choice(["x.csv", "x.csv", "x.tsv"])
    path.write_bytes(mutate_csv(rng, corpus.csv.read_bytes()))
    _table(corpus, rng, path)
    found = guarded(lambda: read_data(path))
    if found is not None and found.frame is not None:
        with path.open(newline="", encoding="utf-8-sig") as file:  # Python's own parser counts the rows
            rows = sum(1 for row in csv.reader(file, delimiter="\t" if path.suffix == ".tsv" else ",") if row) - 1
        if len(found.frame) != rows:
            raise WrongError(f"{len(found.frame)} rows of {rows} were read")


def _parquet(corpus: Corpus, rng: random.Random, folder: Path) -> None:
    path = folder / "x.parquet"
    if rng.random() < 0.6:
        path.write_bytes(mutate_bytes(rng, corpus.parquet.read_bytes()))
    else:
        frame = pd.read_parquet(corpus.parquet).astype(object)
        value = rng.choice([*CELLS, None, 2**62, -1, 0.5, float("inf"), b"bytes", [1, 2], {"a": 1}])
        name = rng.choice(list(frame.columns))
        rows = [rng.randrange(len(frame)) for _ in range(rng.choice([1, 5]))]
        frame[name] = pd.Series([value if i in rows else old for i, old in enumerate(frame[name])], dtype=object)
        try:
            frame.infer_objects().to_parquet(path)
        except Exception:  # not a table that Parquet can hold
            return
    _table(corpus, rng, path)


def _npz(corpus: Corpus, rng: random.Random, folder: Path) -> None:
    path = folder / "x.npz"
    if rng.random() < 0.5:
        path.write_bytes(mutate_bytes(rng, corpus.npz.read_bytes()))
    else:
        with np.load(corpus.npz) as stored:
            arrays = {name: stored[name] for name in stored.files}
        name = rng.choice(list(arrays))
        arrays[name] = mutate_array(rng, arrays[name])
        if rng.random() < 0.2:
            del arrays[rng.choice(list(arrays))]
        np.savez(path, **arrays)
    _table(corpus, rng, path)


def _archive(corpus: Corpus, rng: random.Random, folder: Path) -> None:
    copy = shutil.copytree(corpus.archive, folder / "archive")
    file = rng.choice(sorted(copy.iterdir()))
    change = mutate_json if file.suffix == ".json" else mutate_bytes
    file.write_bytes(change(rng, file.read_bytes()))
    if rng.random() < 0.5:
        guarded(lambda: open_folder(copy, verify=False).checksum())
    else:
        _table(corpus, rng, copy)


def _model_bytes(corpus: Corpus, rng: random.Random, folder: Path) -> None:
    """Whatever happens to the files of a model: the same answer, or none."""
    copy = folder / "run"
    copy.mkdir()
    for name in ("config.json", "model.safetensors"):
        shutil.copy(corpus.run / name, copy)
    file = copy / rng.choice(["config.json", "model.safetensors", "model.safetensors"])
    change = mutate_json if file.suffix == ".json" and rng.random() < 0.7 else mutate_bytes
    file.write_bytes(change(rng, file.read_bytes()))
    found = run_main("score", copy, corpus.csv, "--json")
    if found[0] == 0 and found != corpus.answer:
        raise WrongError(f"another answer: {found[1]:.200}")


def _sealed(rng: random.Random, path: Path) -> None:
    """Change tensors or the header of a file, and seal it with a checksum that fits."""
    tensors, header = storage.load_tensors(path)
    if rng.random() < 0.6:
        name = rng.choice(list(tensors))
        made = mutate_array(rng, tensors[name].numpy())
        if made.dtype.kind in "biuf" and made.dtype.itemsize <= 8:
            tensors[name] = np.ascontiguousarray(made)
    else:
        header = json.loads(mutate_json(random.Random(rng.random()), json.dumps(header).encode()) or b"{}")
    storage.save_tensors(path, tensors, header if isinstance(header, dict) else {"header": header})


def _model_sealed(corpus: Corpus, rng: random.Random, folder: Path) -> None:
    copy = folder / "run"
    copy.mkdir()
    for name in ("config.json", "model.safetensors"):
        shutil.copy(corpus.run / name, copy)
    with contextlib.suppress(ValueError, TypeError, RecursionError):
        _sealed(rng, copy / "model.safetensors")
    run_main("score", copy, corpus.csv, "--json")
    if rng.random() < 0.2:
        guarded(lambda: prism.load(copy).rewards_)


def _checkpoint(corpus: Corpus, rng: random.Random, folder: Path) -> None:
    settings: dict[str, Any] = {"n_intentions": 2, "n_starts": 1, "max_iterations": 2, "patience": None}
    kept = corpus.folder / "checkpoint"
    if not kept.is_dir():
        prism.HIQL(**settings).fit(corpus.demos, checkpoint=kept)
    copy = shutil.copytree(kept, folder / "checkpoint")
    (path,) = copy.glob("*.safetensors")
    if rng.random() < 0.5:
        path.write_bytes(mutate_bytes(rng, path.read_bytes()))
    else:
        with contextlib.suppress(ValueError, TypeError, RecursionError):
            _sealed(rng, path)
    guarded(lambda: prism.HIQL(**settings).fit(corpus.demos, checkpoint=copy, resume=True))


def _report(corpus: Corpus, rng: random.Random, folder: Path) -> None:
    copy = shutil.copytree(corpus.run, folder / "run")
    (copy / "names.json").write_text('{"names": ["water", "home"]}')
    files = [*copy.glob("*.json"), copy / "history.csv", *copy.glob("figures/*.json"), *copy.glob("figures/*.csv")]
    file = rng.choice(sorted(files))
    change = mutate_json if file.suffix == ".json" else mutate_bytes
    file.write_bytes(change(rng, file.read_bytes()))
    run_main("report", copy)


def _dataset(corpus: Corpus, rng: random.Random, folder: Path) -> None:
    copy = shutil.copytree(rng.choice([corpus.lerobot, corpus.rlds]), folder / "dataset")
    file = rng.choice(sorted(path for path in copy.rglob("*") if path.is_file()))
    if file.suffix == ".json":
        file.write_bytes(mutate_json(rng, file.read_bytes()))
    elif file.suffix == ".jsonl":
        lines = file.read_bytes().splitlines()
        at = rng.randrange(len(lines))
        lines[at] = mutate_json(rng, lines[at])
        file.write_bytes(b"\n".join(lines))
    else:
        file.write_bytes(mutate_bytes(rng, file.read_bytes()))
    guarded(lambda: [len(episode) for episode in open_episodes(copy, strict=rng.random() < 0.5)])


def _pickle(corpus: Corpus, rng: random.Random, folder: Path) -> None:
    path = folder / "x.pkl"
    path.write_bytes(mutate_bytes(rng, corpus.pickle.read_bytes()))
    guarded(lambda: load_arrays(path))


def _truth(corpus: Corpus, rng: random.Random, folder: Path) -> None:
    path = folder / "truth.npz"
    if rng.random() < 0.4:
        path.write_bytes(mutate_bytes(rng, corpus.truth.read_bytes()))
    else:
        with np.load(corpus.truth) as stored:
            arrays = {name: stored[name] for name in stored.files}
        name = rng.choice(list(arrays))
        arrays[name] = mutate_array(rng, arrays[name])
        np.savez(path, **arrays)
    with np.errstate(all="ignore"):
        guarded(lambda: read_truth(path, corpus.demos))


OPTIONS = (
    *("--intentions", "--history", "--n-starts", "--max-iterations", "--patience", "--hidden", "--embedding", "--seed"),
    *("--batch-size", "--warm-up", "--n-candidates", "--discount", "--validation-fraction", "--switch-penalty", "--l1"),
    *("--switching", "--rewards", "--method", "--preset", "--device", "--simulations", "--state", "--time", "--events"),
    *("--epochs-per-m-step", "--learning-rate", "--smoothing", "--backoff", "--network", "--observe", "--group"),
)
SETTINGS = (
    *("0", "-1", "1", "999999999", "1e999", "nan", "inf", "-inf", "1e-300", str(10**30), "", " ", "x", "auto", "none"),
    *("markov", "state", "goals", "soft", "tabular", "iavi", "uniform", "os:system", "state", "action", "\x1b[31m"),
)


def _options(corpus: Corpus, rng: random.Random, folder: Path) -> None:
    said = [word for _ in range(rng.choice([1, 1, 2])) for word in (rng.choice(OPTIONS), rng.choice(SETTINGS))]
    small = "--switching markov --intentions 2 --n-starts 1 --max-iterations 2 --simulations 0".split()
    given = [word for at in range(0, len(small), 2) if small[at] not in said for word in small[at : at + 2]]
    run_main("fit", corpus.csv, *given, *said, "--out", folder / "fit")


def _commands(corpus: Corpus, rng: random.Random, folder: Path) -> None:
    """Commands that must refuse: nonsense in the place of folders, files and numbers."""
    odd = rng.choice(
        [corpus.csv, corpus.run, corpus.npz, folder / "none", folder, Path("/"), Path("\x1b"), Path("a" * 300)]
    )
    number = rng.choice(["0", "-1", "99999999999", "x", "1e9", "1..1000000000", "3..1", ""])
    command = rng.choice(
        [
            ["score", odd, corpus.csv],
            ["score", corpus.run, odd],
            ["segment", corpus.run, corpus.csv, "--out", rng.choice([odd, folder / "x.xlsx", "/proc/x.csv"])],
            ["segment", corpus.run, corpus.csv, "--names", odd, "--out", folder / "y.csv"],
            ["report", odd],
            ["fit", odd, *corpus.fit_options, "--out", rng.choice([folder / "f", odd])],
            ["fit", corpus.csv, *corpus.fit_options, "--evidence", odd, "--out", folder / "f"],
            ["select", corpus.csv, "--intentions", number, "--surrogates", "-5", "--out", folder / "s"],
            ["compare", corpus.csv, "--folds", number, "--methods", "x", "--out", folder / "c"],
            ["compare", corpus.csv, "--jobs", rng.choice(["0", "-7", "99999999"]), "--out", folder / "c"],
            ["tokenize", odd, "--out", folder / "t"],
            ["fit", corpus.csv, *corpus.fit_options, "--out", rng.choice([corpus.csv, corpus.run, "/proc/x", odd])],
        ]
    )
    before = sorted(corpus.folder.rglob("*"))
    run_main(*command)
    if sorted(corpus.folder.rglob("*")) != before:
        raise WrongError(f"files came or went: {' '.join(map(str, command))}")


TARGETS: dict[str, tuple[int, Callable[[Corpus, random.Random, Path], None]]] = {
    "csv": (20, _csv),
    "parquet": (10, _parquet),
    "npz": (10, _npz),
    "archive": (8, _archive),
    "model bytes": (12, _model_bytes),
    "model sealed": (8, _model_sealed),
    "checkpoint": (6, _checkpoint),
    "report": (6, _report),
    "dataset": (10, _dataset),
    "pickle": (6, _pickle),
    "truth": (4, _truth),
    "options": (2, _options),
    "commands": (4, _commands),
    **study_targets.TARGETS,
    **library_targets.TARGETS,
    **file_targets.TARGETS,
    **verb_targets.TARGETS,
}
"""Name → how often among a hundred cases or so, and what a case does."""
