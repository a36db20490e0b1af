"""Good inputs, and how a case is judged: a result or one sentence, never anything else."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import warnings
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd

import prism_irl as prism
from prism_irl.cli.main import main
from prism_irl.data.mapped import write_folder
from prism_irl.data.read import write_npz
from prism_irl.errors import InputError
from prism_irl.robots.episodes import Episode
from prism_irl.robots.lerobot_writing import write_lerobot
from recordings_on_disk import write_rlds


class WrongError(Exception):
    """The contract is broken: an internal error, more than one sentence, or another answer."""


class Corpus:
    """Good inputs, made once in a folder; each case works on copies."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        rng = np.random.default_rng(0)
        n, m = 8, 15
        states = rng.integers(0, 5, (n, m))
        names = np.array(["north", "south", "stay"])[rng.integers(0, 3, (n, m))]
        frame = pd.DataFrame(
            {
                "trajectory": np.repeat([f"t{i}" for i in range(n)], m),
                "state": states.ravel(),
                "action": names.ravel(),
                "time": np.tile(np.arange(m)[::-1], n),
                "group": np.repeat([f"g{i % 2}" for i in range(n)], m),
                "intention": rng.integers(0, 2, n * m),
                "water": rng.integers(0, 2, n * m),
                "note": ["plain"] * (n * m),
            }
        )
        self.csv, self.parquet, self.npz = folder / "data.csv", folder / "data.parquet", folder / "data.npz"
        frame.to_csv(self.csv, index=False)
        frame.to_parquet(self.parquet)
        self.demos = prism.Demonstrations.from_table(frame)
        write_npz(self.demos, self.npz)
        self.archive = write_folder(folder / "archive", [self.demos])
        self.run = folder / "run"
        self.fit_options = "--switching markov --intentions 2 --n-starts 1 --max-iterations 3 --simulations 2".split()
        run_main("fit", self.csv, *self.fit_options, "--events", "water", "--out", self.run)
        self.answer = run_main("score", self.run, self.csv, "--json")
        self.truth = folder / "truth.npz"
        P = rng.dirichlet(np.ones(5), size=(5, 3))
        np.savez(self.truth, rewards=rng.normal(size=(2, 5, 3)), transitions=P, discount=0.9)
        episodes = [
            Episode(i, rng.normal(size=(6, 3)).astype("f4"), rng.normal(size=(6, 2)).astype("f4"), language="go")
            for i in range(3)
        ]
        self.lerobot, self.rlds = folder / "lerobot", folder / "rlds"
        write_lerobot(self.lerobot, episodes, fps=10)
        write_rlds(self.rlds, episodes)
        self.pickle = folder / "obs.pkl"
        self.pickle.write_bytes(pickle.dumps({"full_state": rng.normal(size=(4, 3)), "time_stamp": [1.0, 2.0]}))

    @cached_property
    def wide(self) -> Path:
        """A table with numbered actions, covariates, a condition per animal, a few labels, positions and commands."""
        rng, frame = np.random.default_rng(1), pd.read_csv(self.csv)
        n = len(frame)
        told = rng.random(n) < 0.2
        frame = frame.drop(columns=["note", "intention"]).assign(
            action=rng.integers(0, 3, n),
            thirst=rng.normal(size=n).round(3),
            sex=frame["group"].map({"g0": "f", "g1": "m"}),
            drug=np.where(frame["trajectory"].str[1:].astype(int) < 4, "saline", "drug"),
            animal=frame["trajectory"].str[1:].astype(int) // 1 % 4,
            known=np.where(told, np.where(rng.random(n) < 0.5, "eat", "home"), ""),
            **{name: rng.normal(size=n).round(3) for name in ("x", "y", "vx", "vy")},
        )
        frame.to_csv(self.folder / "wide.csv", index=False)
        return self.folder / "wide.csv"

    @cached_property
    def wide_run(self) -> Path:
        """A fit of it whose chain reads covariates."""
        inputs = "--covariates thirst,sex --time-since water --group animal --grid 5x1".split()
        return self._fitted("wide_run", self.wide, *inputs)

    @cached_property
    def arm(self) -> Path:
        """A fit of its positions and commands."""
        return self._fitted("arm", self.wide, *"--observe x,y --act vx,vy".split())

    @cached_property
    def robot(self) -> Path:
        """A fit of the episodes of a dataset."""
        return self._fitted("robot", self.lerobot, *"--observe observation.state --act action".split())

    def _fitted(self, name: str, *words: object) -> Path:
        code, _ = run_main("fit", *words, *self.fit_options, "--out", self.folder / name)
        if code:
            raise WrongError(f"the fit {name} was refused")
        return self.folder / name

    @cached_property
    def world(self) -> dict[str, Path]:
        """Files about the world of the table, by their option."""
        rng, files = np.random.default_rng(2), {}
        near = [" ".join(str(j) for j in (s - 1, s + 1) if 0 <= j < 5) for s in range(5)]
        places = pd.DataFrame({"state": range(5), "x": range(5), "y": 0.5, "neighbours": near})
        moves = pd.DataFrame([(s, a, j, 0.5) for s in range(5) for a in range(3) for j in (s, (s + a) % 5 if a else 0)])
        moves = moves.set_axis(["state", "action", "next_state", "probability"], axis=1)
        tables = {"map": places, "dynamics": moves, "valid-actions": moves[["state", "action"]].drop_duplicates()}
        for name, table in tables.items():
            files[name] = self.folder / f"{name}.csv"
            table.to_csv(files[name], index=False)
        files["dynamics-npz"] = self.folder / "dynamics.npz"
        np.savez(files["dynamics-npz"], P=rng.dirichlet(np.ones(5), size=(5, 3)))
        return files

    @cached_property
    def minari(self) -> Path:
        """The first table as a dataset of Minari, in a folder of its own."""
        from prism_irl.data.interop import to_minari

        folder = self.folder / "minari"
        with mock.patch.dict(os.environ, MINARI_DATASETS_PATH=str(folder)), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about missing authors
            to_minari(self.demos, "fuzz/table-v0", np.arange(self.demos.n_steps) % 2)
        return folder

    @cached_property
    def excel(self) -> Path:
        """The first table as a spreadsheet."""
        pd.read_csv(self.csv).to_excel(self.folder / "data.xlsx", index=False)
        return self.folder / "data.xlsx"

    @cached_property
    def nwb(self) -> Path:
        """The first table, segmented, as a session."""
        path = self.folder / "data.nwb"
        run_main("segment", self.run, self.csv, "--out", path, "--session-start", "2024-05-01T09:00:00+00:00")
        return path


def run_main(*arguments: object) -> tuple[int, str]:
    """Run a command; anything but a result or one sentence is wrong. Returns exit code and standard output."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        code = main([str(argument) for argument in arguments])
    said = err.getvalue().strip().splitlines()
    if code not in (0, 2) or (code == 2 and (not said or not said[-1].startswith("prism: "))):
        raise WrongError(f"exit {code}: {' '.join(map(str, arguments))}: {err.getvalue()[-500:]}")
    if code == 2 and len([line for line in said if not line.startswith("prism: warning")]) != 1:
        raise WrongError(f"more than one line: {err.getvalue()[-800:]}")
    for text in (err.getvalue(), out.getvalue()):
        if not text.replace("\n", "").isprintable():
            raise WrongError(f"control characters: {text!r:.300}")
    return code, out.getvalue()


def guarded(read: Callable[[], Any]) -> Any:
    """Call a reader; an `InputError` of one line is fine."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return read()
    except InputError as error:
        if "\n" in str(error):
            raise WrongError(f"more than one line: {error}") from None
        return None
