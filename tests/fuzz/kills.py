"""SIGKILL at random moments, then --resume: python tests/fuzz/kills.py --kills 20 (`make kills`).

A recurrent fit, a selection, a comparison and an encoding of frames are killed again and again until they end by
themselves; the results must be those of runs that nobody touched, byte for byte, apart from what tells times. With
``--signal INT`` they are interrupted as by Ctrl-C, from the first import on, and each has to say so in one line.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

COMMANDS = {
    "fit": "fit DATA --intentions 2 --n-starts 2 --warm-up 2 --max-iterations 60 --patience 60 --batch-size 4 "
    "--hidden 8 --embedding 8 --simulations 0 --device cpu",
    "select": "select DATA --intentions 1..3 --surrogates 3 --splits 2 --folds 2 --starts 1 --max-iterations 5 "
    "--jobs 1",
    "compare": "compare DATA --methods hiql,iavi,ngram --folds 3 --jobs 1",
    "tokenize": "tokenize FRAMES --encoder pixels --states 8 --actions 3",
}
TIMES = re.compile(r"second|time|command|process|since|date|versions", re.IGNORECASE)


def table(path: Path) -> None:
    """Two habits that take turns."""
    rng = np.random.default_rng(0)
    n, m = 24, 60
    mode = (np.arange(m) // 15) % 2
    action = (mode + rng.integers(0, 10, (n, m)) // 9) % 2
    columns = {"trajectory": np.repeat(np.arange(n), m), "state": rng.integers(0, 4, n * m)}
    pd.DataFrame({**columns, "action": action.ravel()}).to_csv(path, index=False)


def frames(folder: Path) -> None:
    """Sixty episodes of a block that moves, with pictures."""
    from functools import partial

    from prism_irl.robots.episodes import Episode
    from prism_irl.robots.lerobot_writing import write_lerobot

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


def start(words: list[str], folder: Path) -> subprocess.Popen[bytes]:
    """The command in a process of its own."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-m", "prism_irl", *words], cwd=folder, **quiet)


def results(run: Path) -> dict[str, str]:
    """What must be equal: tensors, labels and numbers without times."""
    found = {}
    for path in sorted(run.rglob("*")):
        name = path.relative_to(run).as_posix()
        if path.name in ("metrics.json", "explorer.json"):
            found[name] = json.dumps(_timeless(json.loads(path.read_text())), sort_keys=True)
        elif path.name in ("segments.parquet", "demonstrations.npz"):
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        elif path.name in ("folds.csv", "table.csv", "history.csv"):
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
    done, begun = 0, False
    while True:
        marked = folder / "cut" / ".prism-run.json"
        kept = ("checkpoint/request.json", "cache", "embeddings")
        begun = begun or any((folder / "cut" / name).exists() for name in kept)
        # Killed before anything could be kept, it begins again.
        extra = ["--resume"] if begun else ["--overwrite"] if marked.exists() else []
        process = start([*words, "--out", "cut", *extra], folder)
        if done < kills:
            # An interrupt is looked for from the imports on; Python itself needs a moment to begin.
            time.sleep(
                rng.uniform(0.2, 1.0) * longest if how == signal.SIGKILL else 0.2 + rng.uniform(0, 0.9) * longest
            )
            if process.poll() is None:
                process.send_signal(how)
                said = process.communicate()[1].decode().strip().splitlines()
                if how == signal.SIGINT and process.returncode == 0:
                    return done  # it had ended already
                if how == signal.SIGINT and not (
                    process.returncode == 130 and said[-1].startswith("prism: interrupted")
                ):
                    raise SystemExit(f"{' '.join(words)} {extra}: {process.returncode}: {chr(10).join(said)}")
                if any("Traceback" in line for line in said):
                    raise SystemExit(f"{' '.join(words)} {extra}: {chr(10).join(said)}")
                done += 1
                continue
        _, stderr = process.communicate()
        if process.returncode == 0:
            return done
        if "nothing to resume" in stderr.decode():
            begun = False
            continue
        raise SystemExit(f"{' '.join(words)} {extra}: {process.returncode}: {stderr.decode()}")


def main() -> int:
    """Exit code 1 where a resumed result differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=sorted(COMMANDS))
    parser.add_argument("--signal", choices=("KILL", "INT"), default="KILL")
    options = parser.parse_args()
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
            began = time.monotonic()
            process = start([*words, "--out", "whole"], folder)
            _, stderr = process.communicate()
            if process.returncode != 0:
                raise SystemExit(f"{command} fails by itself: {stderr.decode()}")
            longest, expected = time.monotonic() - began, results(folder / "whole")
            while total < options.kills:
                subprocess.run(["rm", "-rf", "cut"], cwd=folder, check=True)
                total += max(struck(words, folder, min(5, options.kills - total), rng, longest, how), 1)
                found = results(folder / "cut")
                differ = sorted(key for key in expected | found if expected.get(key) != found.get(key))
                wrong += bool(differ)
                print(f"{name}: {total} kills so far; " + (f"different: {differ}" if differ else "equal"), flush=True)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
