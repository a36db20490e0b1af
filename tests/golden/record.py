"""Fit every pair that can be typed on tiny data, by the command line alone, and write down all numbers that come out.

`python tests/golden/record.py FOUND.json` records the package that is imported. `compare.py` runs it on two commits.
Nothing but commands and the files they leave is used, so that whatever moves inside stays comparable.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

STATES, ACTIONS = 9, 4
SMALL = ["--intentions", "2", "--n-starts", "1", "--max-iterations", "3", "--simulations", "0", "--device", "cpu"]
NETWORK = ["--hidden", "6", "--embedding", "6", "--warm-up", "2", "--n-candidates", "1", "--batch-size", "4"]
COLUMNS = ["--trajectory", "trajectory"]
ALONE = ["mixture", "dirl", "iavi", "iql", "maxent", "maxcausalent", "ngram", "bc", "uniform", "empirical"]


def walk(seed: int) -> pd.DataFrame:
    """Ten walks on a 3 × 3 grid towards one of two corners, with a covariate, labels of a few steps and an animal."""
    rng = np.random.default_rng(seed)
    rows = []
    for trajectory in range(10):
        x, y, goal = *rng.integers(3, size=2), int(rng.integers(2))
        for t in range(24):
            away = np.sign([(0, 0), (2, 2)][goal] - np.array([x, y]))
            move = int(rng.integers(ACTIONS))
            if rng.random() < 0.8 and away.any():
                axis = int(rng.choice(np.flatnonzero(away)))
                move = 2 * axis + int(away[axis] > 0)
            rows.append((trajectory, 3 * y + x, move, trajectory % 3, rng.normal(), f"i{goal}" if t % 9 == 4 else ""))
            if not away.any() or rng.random() < 0.05:
                goal = 1 - goal
            step = ((-1, 0), (1, 0), (0, -1), (0, 1))[move]
            x, y = np.clip([x + step[0], y + step[1]], 0, 2)
    return pd.DataFrame(rows, columns=["trajectory", "state", "action", "animal", "thirst", "known"])


def reach(seed: int) -> pd.DataFrame:
    """Eight movements in a plane towards one point or another."""
    rng = np.random.default_rng(seed)
    rows = []
    for trajectory in range(8):
        at, goal = rng.normal(size=2), int(rng.integers(2))
        for t in range(40):
            towards = np.array([(-2.0, 0.0), (2.0, 1.0)][goal]) - at
            command = 0.3 * towards / (np.linalg.norm(towards) + 0.1) + 0.05 * rng.normal(size=2)
            rows.append((trajectory, *at, *command, f"i{goal}" if t % 9 == 4 else ""))
            at = at + command
            if np.linalg.norm(towards) < 0.4:
                goal = 1 - goal
    return pd.DataFrame(rows, columns=["trajectory", "x", "y", "dx", "dy", "known"])


def run(*arguments: str) -> tuple[int, str, str]:
    """Exit code and what was printed."""
    from prism_irl.cli.main import main

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        code = main(list(arguments))
    return code, out.getvalue(), err.getvalue()


def fitted(typed: list[str]) -> tuple[int, str]:
    """Exit code and complaint of a fit; options that a version refuses because the pair does not read them go."""
    while True:
        code, _, complaint = run("fit", *typed, "--out", "run", "--overwrite", "--quiet")
        unread = [flag for flag in typed if flag.startswith("--") and flag in NETWORK and flag in complaint]
        if code != 2 or not unread:
            return code, complaint
        at = typed.index(unread[0])
        typed = typed[:at] + typed[at + 2 :]


def numbers(value: Any, name: str = "") -> dict[str, float]:
    """Every finite number in a JSON value, by its path; seconds are no result."""
    if isinstance(value, bool) or "seconds" in name:
        return {}
    if isinstance(value, int | float):
        return {name: float(value)}
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return {path: number for key, one in pairs for path, number in numbers(one, f"{name}/{key}").items()}


def written(folder: Path) -> dict[str, Any]:
    """What a run left: names of files, numbers of metrics.json, beliefs and rewards."""
    found: dict[str, Any] = {
        "files": sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
    }
    found["numbers"] = numbers(json.loads((folder / "metrics.json").read_text(encoding="utf-8")))
    beliefs = pd.read_parquet(folder / "segments.parquet").filter(regex=r"^p_\d+$")
    found["beliefs"] = beliefs.to_numpy(float).ravel().tolist()
    if (folder / "rewards.csv").is_file():
        table = pd.read_csv(folder / "rewards.csv").select_dtypes("number")
        found["rewards"] = np.nan_to_num(table.to_numpy(float)).ravel().tolist()
    return found


def cases() -> dict[str, list[str]]:
    """Name of every case, and what is typed."""
    found: dict[str, list[str]] = {}
    code, listed, _ = run("methods", "--json")
    assert code == 0
    everything = run("fit", "--help-all")[1] + run("fit", "--help")[1]
    covariates = "--covariates" if "--covariates" in everything else "--inputs"  # its name in version 0.1.0
    for entry in json.loads(listed):
        when, what = entry["switching"], entry["rewards"]
        if "+" not in entry["id"]:
            if entry["id"] in ALONE:
                found[f"method {entry['id']}"] = ["walk.csv", *COLUMNS, "--method", entry["id"], "--simulations", "0"]
            continue
        moving = what in ("landmarks", "windows", "features")
        small = [*SMALL, *(NETWORK if when in ("recurrent", "independent") else [])]
        if when == "single":
            small[1] = "1"
        pair = ["--switching", when, "--rewards", what, *small]
        if what == "landmarks":
            pair += ["--landmarks", "6"]
        observed = ["--observe", "x,y", "--act", "dx,dy"]
        plain = ["reach.csv", *COLUMNS, *observed] if moving else ["walk.csv", *COLUMNS]
        found[f"{when}+{what}"] = [*plain, *pair]
        if when == "single":
            continue
        found[f"{when}+{what} labels"] = [*plain, *pair, "--labels", "known"]
        if not moving:
            found[f"{when}+{what} covariates"] = [*plain, *pair, covariates, "thirst"]
            found[f"{when}+{what} individuals"] = [*plain, *pair, "--group", "animal", "--individuals"]
    return found


def record() -> dict[str, Any]:
    """Everything, case by case; figures are named, neither laid out nor drawn."""
    import matplotlib.figure
    import matplotlib.layout_engine

    def named(figure: Any, target: Any, *_: Any, **__: Any) -> None:
        if isinstance(target, str | Path):
            Path(target).touch()

    matplotlib.figure.Figure.savefig = named  # type: ignore[assignment, method-assign]
    matplotlib.layout_engine.ConstrainedLayoutEngine.execute = lambda *_: None  # type: ignore[method-assign]
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        walk(0).to_csv("walk.csv", index=False)
        reach(0).to_csv("reach.csv", index=False)
        for case, typed in cases().items():
            code, complaint = fitted(typed)
            found[case] = {"code": code, **(written(Path("run")) if code == 0 else {})}
            print(f"{case}: {code} {complaint.strip()[-160:] if code else ''}", flush=True)
    return found


if __name__ == "__main__":
    import torch

    torch.set_num_threads(1)
    Path(sys.argv[1]).write_text(json.dumps(record()), encoding="utf-8")
