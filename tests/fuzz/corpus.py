"""Good inputs, and how a case is judged: a result or one sentence, never anything else."""

from __future__ import annotations

import contextlib
import io
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
from recordings_on_disk import write_rlds
from worlds.lerobot import write_lerobot

TOO_MUCH = ("not enough memory", "File too large", "Cannot allocate memory")
"""What the limits of a process say; nothing may come that far."""


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
    def recordings(self) -> dict[str, Path]:
        """A file of robomimic and one of ALOHA."""
        import h5py

        rng, files = np.random.default_rng(3), {name: self.folder / f"{name}.hdf5" for name in ("robomimic", "aloha")}
        with h5py.File(files["robomimic"], "w") as store:
            for i in range(3):
                demo = store.create_group(f"data/demo_{i}")
                demo["actions"], demo["obs/eef"] = rng.normal(size=(6, 3)), rng.normal(size=(6, 2))
                demo["obs/view"] = np.zeros((6, 4, 4, 3), np.uint8)
        with h5py.File(files["aloha"], "w") as store:
            store["action"], store["observations/qpos"] = rng.normal(size=(9, 3)), rng.normal(size=(9, 2))
        return files

    @cached_property
    def replay(self) -> Path:
        """A replay buffer of Diffusion Policy, in zarr's older format or in its present one."""
        import zarr

        rng, folder = np.random.default_rng(4), self.folder / "replay.zarr"
        store = zarr.open_group(str(folder), mode="w", zarr_format=2)
        for name, width in (("action", 3), ("state", 2)):
            store.create_array(f"data/{name}", data=rng.normal(size=(18, width)).astype("f4"), chunks=(5, width))
        store.create_array("meta/episode_ends", data=np.array([6, 12, 18]))
        return folder

    @cached_property
    def kept(self) -> dict[str, tuple[list[Any], Path]]:
        """A comparison and a selection with their caches, by verb: the words typed, and the folder."""
        small = "--folds 2 --jobs 1".split()
        few = "--intentions 1..2 --surrogates 1 --splits 1 --starts 1 --max-iterations 2".split()
        typed = {"compare": ["--methods", "iavi,ngram", *small], "select": [*few, *small]}
        found = {}
        for verb, words in typed.items():
            if run_main(verb, self.csv, *words, "--out", self.folder / verb)[0]:
                raise WrongError(f"the good {verb} was refused")
            found[verb] = ([verb, self.csv, *words], self.folder / verb)
        return found

    @cached_property
    def interrupted(self) -> tuple[list[Any], Path]:
        """The words of a fit, and the folder that it left when it was interrupted."""
        from prism_irl import em

        small = "--switching markov --intentions 2 --n-starts 2 --max-iterations 3 --simulations 0".split()
        words, folder = ["fit", self.csv, *small], self.folder / "interrupted"
        save, saved = em.storage.save_tensors, []

        def interrupt(*given: Any) -> None:
            save(*given)
            saved.append(given)
            if len(saved) == 2:
                raise KeyboardInterrupt

        nothing = io.StringIO()
        with (
            mock.patch.object(em, "CHECKPOINT_SECONDS", 1e-9),
            mock.patch.object(em.storage, "save_tensors", interrupt),
            contextlib.redirect_stderr(nothing),
            contextlib.redirect_stdout(nothing),
        ):
            code = main([str(word) for word in (*words, "--out", folder)])
        if code != 130 or not (folder / "checkpoint").is_dir():
            raise WrongError(f"the interrupted fit ended with {code}")
        return words, folder

    @cached_property
    def analysis(self) -> Path:
        """An analysis of the first table."""
        folder = self.folder / "analysis"
        quick = "--quick --surrogates 1 --jobs 1 --intentions 2".split()
        if run_main("analyze", self.csv, *quick, "--out", folder)[0]:
            raise WrongError("the good analysis was refused")
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
    if code == 2 and any(not line.startswith("prism: ") for line in said):  # notes, and one sentence
        raise WrongError(f"more than one line: {err.getvalue()[-800:]}")
    if any(limit in said[-1] for limit in TOO_MUCH if code == 2):
        raise WrongError(f"more than may be taken without asking: {said[-1]:.300}")
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
