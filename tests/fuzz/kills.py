"""SIGKILL at random moments, then --resume: python tests/fuzz/kills.py --kills 20 (`make kills`).

Every verb that works for a while and writes, among them a fit that replaces a run, an analysis, what is added to a run
and labels that are written back, is killed again and again until it ends by itself; the results must be those of runs
that nobody touched, byte for byte, apart from what tells times, no unfinished file is left, and a run that is being
replaced is whole until then. Commands that are to be killed are forked from a
process that has imported everything, so that every moment is one of work, and keep a checkpoint ten times a second.
With ``--signal INT`` they are processes from the first import on, are interrupted as by Ctrl-C, and each has to say so
in one line; with ``--signal TERM`` they are asked to end. Neither leaves an unfinished file.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.append(str(Path(__file__).parents[2] / "reproduce"))

FIT = (
    "fit DATA --intentions 2 --switching recurrent --n-starts 2 --warm-up 2 --max-iterations 30 --patience 30 "
    "--batch-size 4 --hidden 8 --embedding 8 --device cpu --simulations "
)
COMMANDS = {
    "fit": FIT + "0",
    "replace": FIT + "2",
    "select": "select DATA --intentions 1..2 --surrogates 2 --splits 1 --folds 2 --starts 1 --max-iterations 3 "
    "--jobs 1",
    "compare": "compare DATA --methods hiql,iavi,ngram --folds 3 --jobs 1",
    "evidence": "evidence DATA --intentions 2 --surrogates 2 --folds 2 --starts 1 --max-iterations 2 --jobs 1",
    "analyze": "analyze DATA --quick --intentions 2 --surrogates 1 --jobs 1",
    "individuals": "individuals CUT --unit trajectory",
    "tokenize": "tokenize FRAMES --encoder pixels --states 8 --actions 3",
    "write-back": "segment ARM FRAMES --write-back FRAMES",
}
OFTEN = ("fit", "select", "replace")
"""Commands that are killed as often as is said; the others ten times, at most."""
TYPED_AGAIN = ("analyze", "individuals", "segment")
"""Verbs that go on, or begin again, without being told."""
OLDER = "fit DATA --intentions 2 --switching markov --seed 3 --n-starts 1 --simulations 0 --out older"
"""The run that another one replaces, or that something is added to; its intentions have names."""
ARM = (
    "fit frames --observe observation.state --act action --intentions 2 --switching markov --n-starts 1 "
    "--max-iterations 3 --simulations 0"
).split()
"""The fit whose labels are written back."""
TIMES = re.compile(r"second|time|command|process|since|date|versions", re.IGNORECASE)


def table(path: Path) -> None:
    """Two habits that take turns."""
    rng = np.random.default_rng(0)
    n, m = 16, 60
    mode = (np.arange(m) // 15) % 2
    action = (mode + rng.integers(0, 10, (n, m)) // 9) % 2
    columns = {"trajectory": np.repeat(np.arange(n), m), "state": rng.integers(0, 4, n * m)}
    pd.DataFrame({**columns, "action": action.ravel()}).to_csv(path, index=False)


def frames(folder: Path) -> None:
    """Sixty episodes of a block that moves, with pictures."""
    from functools import partial

    from prism_irl.robots.episodes import Episode
    from worlds.lerobot import write_lerobot

    def pictures(places: np.ndarray) -> Iterator[np.ndarray]:
        for place in places:
            picture = np.full((32, 32, 3), 30, np.uint8)
            picture[8:24, place : place + 8] = 220
            yield picture

    rng = np.random.default_rng(0)
    episodes = []
    for i in range(60):
        places = rng.integers(0, 24, 20)
        actions = np.diff(places, append=0)[:, None] / 24.0
        episodes.append(
            Episode(i, actions, places[:, None] / 24.0, "go", {"observation.images.top": partial(pictures, places)})
        )
    write_lerobot(folder, episodes)


class Process:
    """The command in a process of its own, begun by Python or, with ``forked``, where all modules are there already."""

    def __init__(self, words: list[str], folder: Path, forked: bool) -> None:
        self.said = folder / "said.txt"
        if not forked:
            with self.said.open("wb") as said:
                command = [sys.executable, "-m", "prism_irl", *words]
                quiet = {"stdout": subprocess.DEVNULL, "stderr": said}
                self.id = subprocess.Popen(command, cwd=folder, **quiet).pid
            return
        self.id = os.fork()
        if self.id == 0:
            code = 1
            try:
                code = self._run(words, folder)
            finally:
                os._exit(code)

    def _run(self, words: list[str], folder: Path) -> int:
        """What the child does."""
        from prism_irl import em
        from prism_irl.cli.main import main

        os.chdir(folder)
        with self.said.open("w") as said, Path(os.devnull).open("w") as nothing:
            os.dup2(said.fileno(), 2)
            os.dup2(nothing.fileno(), 1)
            em.CHECKPOINT_SECONDS = 0.1
            code = main(words)
            (folder / "modules.json").write_text(json.dumps(sorted(sys.modules)))
        return code

    def ends_within(self, seconds: float) -> bool:
        """Wait at most so long; whether it has ended by itself (it can be waited for all the same)."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if os.waitid(os.P_PID, self.id, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                return True
            time.sleep(0.005)
        return False

    def wait(self) -> tuple[int, str]:
        """Exit code, or minus the signal, and what it said on standard error."""
        _, status = os.waitpid(self.id, 0)
        return os.waitstatus_to_exitcode(status), self.said.read_text(errors="replace").strip()


def preload(folder: Path) -> None:
    """Import what a command has imported, so that the next ones begin with it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in json.loads((folder / "modules.json").read_text()):
            if name not in sys.modules and not name.startswith("__"):
                with contextlib.suppress(Exception):
                    importlib.import_module(name)


def results(run: Path) -> dict[str, str]:
    """What must be equal: tensors, labels and numbers without times."""
    found = {}
    for path in sorted(run.rglob("*")):
        name = path.relative_to(run).as_posix()
        if name.startswith("."):  # a run that has not replaced this one yet
            continue
        if path.name in ("metrics.json", "explorer.json"):
            found[name] = json.dumps(_timeless(json.loads(path.read_text())), sort_keys=True)
        elif path.suffix in (".parquet", ".npz"):
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        elif path.name == "names.json":
            found[name] = path.read_text()
        elif path.name in ("folds.csv", "table.csv", "history.csv", "individuals.csv"):
            frame = pd.read_csv(path)
            found[name] = frame[[c for c in frame.columns if not TIMES.search(c)]].to_csv(index=False)
        elif path.suffix == ".safetensors" and "checkpoint" not in path.parts:
            from safetensors.numpy import load_file

            found[name] = hashlib.sha256(b"".join(v.tobytes() for _, v in sorted(load_file(path).items()))).hexdigest()
    return found


def _timeless(value: object) -> object:
    if isinstance(value, dict):
        return {key: _timeless(item) for key, item in value.items() if not TIMES.search(key)}
    return [_timeless(item) for item in value] if isinstance(value, list) else value


def struck(words: list[str], folder: Path, kills: int, rng: random.Random, longest: float, how: signal.Signals) -> int:
    """Kill and resume until the command ends by itself; returns how often it was killed."""
    done, begun, forked = 0, False, how == signal.SIGKILL
    again = words[0] in TYPED_AGAIN
    older = results(folder / "older") if (folder / "older").is_dir() else None
    while True:
        marked = folder / "cut" / ".prism-run.json"
        kept = ("checkpoint/request.json", ".unfinished/checkpoint/request.json", "cache", "embeddings")
        waiting = older is not None and marked.exists() and (folder / "cut/.unfinished/checkpoint").is_dir()
        if waiting and results(folder / "cut") != older:
            raise SystemExit(f"{' '.join(words)}: the run that is being replaced has changed")
        begun = begun or any((folder / "cut" / name).exists() for name in kept)
        # Killed before anything could be kept, it begins again.
        extra = [] if again else ["--resume"] if begun else ["--overwrite"] if marked.exists() else []
        if words[0] == "segment" and (folder / "cut").exists():
            return done  # the copy is there as a whole, or it is not
        process = Process([*into(words, "cut"), *extra], folder, forked)
        # An interrupt is looked for from the imports on; Python itself needs a moment to begin.
        moment = rng.uniform(0.0, longest) if forked else 0.2 + rng.uniform(0, 0.9) * longest
        killed = done < kills and not process.ends_within(moment)
        if killed:
            os.kill(process.id, how)
        code, said = process.wait()
        if "Traceback" in said:
            raise SystemExit(f"{' '.join(words)} {extra}: {said}")
        if code == 0:
            return done
        told = code == 130 and said.splitlines()[-1].startswith("prism: interrupted")
        if killed and (forked or told or (how == signal.SIGTERM and code in (-how, 128 + how))):
            if not forked and (left := unfinished(folder)):
                raise SystemExit(f"{' '.join(words)} {extra}: left {left}")
            done += 1
        elif "nothing to resume" in said:
            begun = False
        else:
            raise SystemExit(f"{' '.join(words)} {extra}: {code}: {said}")


def unfinished(folder: Path) -> list[str]:
    """Files that a writer has left."""
    return [str(path) for path in folder.rglob(".prism-*.tmp")]


def into(words: list[str], name: str) -> list[str]:
    """The command, with the folder that it writes."""
    return [name if word == "CUT" else word for word in words] if "CUT" in words else [*words, "--out", name]


def undisturbed(words: list[str], folder: Path, name: str, forked: bool) -> tuple[float, dict[str, str]]:
    """Seconds and results of a run that nobody touches."""
    began = time.monotonic()
    replaced = ["--overwrite"] if (folder / name).is_dir() and words[0] not in TYPED_AGAIN else []
    code, said = Process([*into(words, name), *replaced], folder, forked).wait()
    if code != 0:
        raise SystemExit(f"{' '.join(words)} fails by itself: {said}")
    return time.monotonic() - began, results(folder / name)


def make_older(folder: Path, forked: bool) -> None:
    """A run with names, and the same in the places of the two that nobody touches: each of them replaces one."""
    for command in (OLDER.replace("DATA", "data.csv"), "names older rest,work"):
        code, said = Process(command.split(), folder, forked).wait()
        if code != 0:
            raise SystemExit(f"{command} fails by itself: {said}")
    for name in ("whole", "again"):
        shutil.copytree(folder / "older", folder / name)


def main() -> int:
    """Exit code 1 where a resumed result differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=sorted(COMMANDS))
    parser.add_argument("--signal", choices=("KILL", "INT", "TERM"), default="KILL")
    options = parser.parse_args()
    os.environ["PRISM_THREADS"] = "1"  # a process with threads cannot be forked, and figures are drawn in place
    wrong = 0
    for name, command in COMMANDS.items():
        if options.only not in (None, name):
            continue
        rng, total = random.Random(f"{options.seed} {name}"), 0
        with tempfile.TemporaryDirectory(prefix="prism-kills-") as place:
            folder = Path(place)
            table(folder / "data.csv")
            if "FRAMES" in command:
                frames(folder / "frames")
            words = command.replace("DATA", "data.csv").replace("FRAMES", "frames").split()
            how = signal.Signals[f"SIG{options.signal}"]
            forked, began = how == signal.SIGKILL, time.monotonic()
            added_to = name == "replace" or "CUT" in words
            if added_to:
                make_older(folder, forked)
            if "ARM" in words:
                words[words.index("ARM")] = "arm"
                undisturbed(ARM, folder, "arm", forked)
            longest, expected = undisturbed(words, folder, "whole", forked)
            if forked:  # once more, with everything imported: how long the work takes, and that it has one result
                preload(folder)
                longest, again = undisturbed(words, folder, "again", forked)
                if again != expected or len(expected) < 2:
                    raise SystemExit(f"{command}: two runs differ, or have left nothing to compare")
            print(f"{name}: {longest:.1f} s without a kill; {len(expected)} files are compared", flush=True)
            wanted = options.kills if name in OFTEN else min(options.kills, 10)
            while total < wanted:
                shutil.rmtree(folder / "cut", ignore_errors=True)
                if added_to:
                    shutil.copytree(folder / "older", folder / "cut")
                total += max(struck(words, folder, min(5, wanted - total), rng, longest, how), 1)
                found = results(folder / "cut")
                differ = sorted(key for key in expected | found if expected.get(key) != found.get(key))
                left = unfinished(folder)
                wrong += bool(differ or left)
                said = f"different: {differ}; left behind: {left}" if differ or left else "equal, and nothing is left"
                print(f"{name}: {total} kills in {time.monotonic() - began:.0f} s; {said}", flush=True)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
