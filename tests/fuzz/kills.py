"""SIGKILL at random moments, then --resume: python tests/fuzz/kills.py --kills 20 (`make kills`).

A recurrent fit, a selection and a comparison are killed again and again until they end by themselves; the results must
be those of runs that nobody touched, byte for byte, apart from what tells times.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

COMMANDS = {
    "fit": "fit DATA --intentions 2 --n-starts 2 --warm-up 2 --max-iterations 60 --patience 60 --batch-size 4 "
    "--hidden 8 --embedding 8 --simulations 0 --device cpu",
    "select": "select DATA --intentions 1..3 --surrogates 3 --splits 2 --folds 2 --starts 1 --max-iterations 5 "
    "--jobs 1",
    "compare": "compare DATA --methods hiql,iavi,ngram --folds 3 --jobs 1",
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
        elif path.name == "segments.parquet":
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        elif path.name in ("folds.csv", "table.csv", "history.csv"):
            frame = pd.read_csv(path)
            found[name] = frame[[c for c in frame.columns if not TIMES.search(c)]].to_csv(index=False)
        elif path.name == "model.safetensors":
            from safetensors.numpy import load_file

            found[name] = hashlib.sha256(b"".join(v.tobytes() for _, v in sorted(load_file(path).items()))).hexdigest()
    return found


def _timeless(value: object) -> object:
    if isinstance(value, dict):
        return {key: _timeless(item) for key, item in value.items() if not TIMES.search(key)}
    return [_timeless(item) for item in value] if isinstance(value, list) else value


def struck(words: list[str], folder: Path, kills: int, rng: random.Random, longest: float) -> int:
    """Kill and resume until the command ends by itself; returns how often it was killed."""
    done, begun = 0, False
    while True:
        marked = folder / "cut" / ".prism-run.json"
        begun = begun or any((folder / "cut").glob("checkpoint/request.json")) or (folder / "cut" / "cache").is_dir()
        # Killed before anything could be kept, it begins again.
        extra = ["--resume"] if begun else ["--overwrite"] if marked.exists() else []
        process = start([*words, "--out", "cut", *extra], folder)
        if done < kills:
            time.sleep(rng.uniform(0.2, 1.0) * longest)
            if process.poll() is None:
                process.kill()
                process.communicate()
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
    options = parser.parse_args()
    wrong = 0
    for name, command in COMMANDS.items():
        if options.only not in (None, name):
            continue
        rng, total = random.Random(f"{options.seed} {name}"), 0
        with tempfile.TemporaryDirectory(prefix="prism-kills-") as place:
            folder = Path(place)
            table(folder / "data.csv")
            words = command.replace("DATA", "data.csv").split()
            began = time.monotonic()
            process = start([*words, "--out", "whole"], folder)
            _, stderr = process.communicate()
            if process.returncode != 0:
                raise SystemExit(f"{command} fails by itself: {stderr.decode()}")
            longest, expected = time.monotonic() - began, results(folder / "whole")
            while total < options.kills:
                subprocess.run(["rm", "-rf", "cut"], cwd=folder, check=True)
                total += max(struck(words, folder, min(5, options.kills - total), rng, longest), 1)
                found = results(folder / "cut")
                differ = sorted(key for key in expected | found if expected.get(key) != found.get(key))
                wrong += bool(differ)
                print(f"{name}: {total} kills so far; " + (f"different: {differ}" if differ else "equal"), flush=True)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
