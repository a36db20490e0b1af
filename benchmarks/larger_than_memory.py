"""A fit to continuous data that are larger than the memory it may take: mapped files, in a process with a limit.

Steps of 32 observations and 7 commands of six known intentions are written part by part as a folder of mapped files;
then processes of their own, whose private memory is limited (RLIMIT_DATA, which does not count mapped files; that it
bites is tried first), fit a Markov chain and a recurrent one to the folder and write the label of every step.

    python benchmarks/larger_than_memory.py --steps 20_000_000 --limit 2.4 --out runs/larger
    python benchmarks/larger_than_memory.py --steps 4_000_000 --limit 2 --command    # prism fit itself, with its page

Prints one JSON object per chain: gigabytes of the data, limit and peak of private memory, seconds of an iteration with
its validation, of everything, and how many labels are right. Part of ``make bench`` in a small form, without a limit.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from timing import Limit, machine, write

D, M, K, LENGTH, PIECE = 32, 7, 6, 500, 200
SMALL = 2_000_000
CHAINS = ("markov", "recurrent")


def limits(n: int = SMALL, iterations: int = 2) -> list[Limit]:
    """The small form: private memory that a fit takes beyond its libraries, beside the size of the data."""
    work = f"Fit to {n:,} mapped steps × {D} × {M}"
    found = measure(n, iterations, None)
    return [Limit(f"{work}, {one['switching']}, memory", one["own_gb"], "GB", 1.5) for one in found]


def measure(
    n: int,
    iterations: int,
    limit: float | None,
    *,
    command: bool = False,
    chains: Sequence[str] = CHAINS,
    folder: Path | None = None,
) -> list[Any]:
    """Write the data, fit each chain in a process of its own, and remove what was written."""
    with tempfile.TemporaryDirectory(prefix="prism-larger-", dir=folder) as place:
        data = Path(place) / "data"
        began = time.perf_counter()
        simulate(data, n)
        size = sum(file.stat().st_size for file in data.iterdir()) / 1e9
        written = {"steps": n, "data_gb": size, "seconds_to_write": time.perf_counter() - began, "limit_gb": limit}
        found = []
        for switching in chains:
            options = [str(data), switching, str(iterations), str(limit or 0), "command" if command else "fit"]
            child = [sys.executable, str(Path(__file__)), "--child", *options]
            done = subprocess.run(child, stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": place})
            if done.returncode:
                raise SystemExit(f"The fit of the {switching} chain ended with {done.returncode}.")
            found.append({"switching": switching, **written, **json.loads(done.stdout.splitlines()[-1])})
            print(json.dumps(found[-1]), flush=True)
        return found


def simulate(folder: Path, n: int) -> None:
    """Commands are linear in the observations, in each of K intentions in another way; one lasts about 40 steps."""
    from prism_irl.data.demonstrations import Demonstrations
    from prism_irl.data.mapped import write_folder

    rng = np.random.default_rng(0)
    weights = 0.3 * rng.standard_normal((K, D, M)).astype(np.float32)

    def parts() -> Iterator[Demonstrations]:
        left = n // LENGTH
        while left:
            some = min(left, PIECE)
            left -= some
            x = rng.standard_normal((some * LENGTH, D), dtype=np.float32)
            jumps = np.where(rng.random((some, LENGTH)) < 1 / 40, rng.integers(1, K, (some, LENGTH)), 0)
            z = (rng.integers(K, size=(some, 1)) + jumps.cumsum(axis=1)).ravel() % K
            y = rng.standard_normal((len(x), M), dtype=np.float32)
            for k in range(K):
                y[z == k] += x[z == k] @ weights[k]
            none = np.zeros(len(x), np.int64)
            cuts = np.arange(0, len(x) + 1, LENGTH)
            yield Demonstrations(none, none, cuts, 1, 1, observations=x, motions=y, labels=z)

    write_folder(folder, parts())


def child(data: str, switching: str, iterations: str, limit: str, how: str) -> None:
    """One fit, in a process that has nothing else to do."""
    import sklearn.cluster  # noqa: F401
    import torch  # noqa: F401

    if float(limit):
        limited(int(float(limit) * 1e9))
    peak, before = Peak(), private()
    began = time.perf_counter()
    found = (by_command if how == "command" else by_fit)(Path(data), switching, int(iterations))
    found |= {"seconds": time.perf_counter() - began, "peak_gb": peak.bytes / 1e9}
    print(json.dumps({**found, "own_gb": (peak.bytes - before) / 1e9}))


def by_fit(data: Path, switching: str, iterations: int) -> dict[str, Any]:
    """`PRISM.fit` of the mapped folder, as `prism fit` calls it, and labels as a file."""
    import prism_irl as prism
    from prism_irl.labels import label_accuracy
    from prism_irl.rewards.options import Features

    demos = prism.Demonstrations.open(data)
    options = {"n_starts": 1, "max_iterations": iterations, "patience": None, "device": "cpu"}
    network = {"embedding": 16, "hidden": 16} if switching == "recurrent" else {}
    model = prism.Intentions(K, switching=switching, rewards=Features(ridge=1.0), **options, **network).fit(demos)
    labels = model.predict(demos)
    np.save(data.parent / f"{switching}.npy", labels.astype(np.int8))
    seconds = np.diff([row["seconds"] for row in model.monitor_])
    return {"iteration": float(seconds.mean()), "accuracy": label_accuracy(demos.labels, labels)}


def by_command(data: Path, switching: str, iterations: int) -> dict[str, Any]:
    """`prism fit` as somebody would type it, with everything that it writes."""
    from prism_irl.__main__ import run

    out = data.parent / f"run-{switching}"
    options = f"--switching {switching} --rewards features --intentions {K} --n-starts 1 --quiet"
    options += f" --max-iterations {iterations}"
    sys.argv = ["prism", "fit", str(data), *options.split(), "--out", str(out), "--json"]
    terminal = os.dup(1)
    os.dup2(2, 1)  # what the command prints is not what this process answers
    code = run()
    os.dup2(terminal, 1)
    if code:
        raise SystemExit(code)
    metrics = json.loads((out / "metrics.json").read_text())
    rows = (out / "history.csv").read_text().splitlines()
    at = rows[0].split(",").index("seconds")
    seconds = np.diff([float(row.split(",")[at]) for row in rows[1:]])
    return {"iteration": float(seconds.mean()), "accuracy": metrics["label_accuracy"]}


def limited(most: int) -> None:
    """Limit private memory, and see that more of it is refused."""
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    try:
        np.ones(most // 8)
    except MemoryError:
        return
    raise SystemExit("The limit of memory does not bite on this system; nothing would be shown.")


def private() -> int:
    """Bytes of private memory that are in use now, without mapped files."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return 1024 * int(line.split()[1])
    raise SystemExit("This system does not tell private memory from mapped files.")


class Peak:
    """The most private memory that was in use, looked at fifty times a second."""

    def __init__(self) -> None:
        self.bytes = private()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            self.bytes = max(self.bytes, private())
            time.sleep(0.02)


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=SMALL)
    parser.add_argument("--iterations", type=int, default=3)
    parser.add_argument("--switching", choices=CHAINS, help="one of the chains alone")
    parser.add_argument("--limit", type=float, help="gigabytes of private memory, at most")
    parser.add_argument("--command", action="store_true", help="prism fit with all that it writes")
    parser.add_argument("--folder", type=Path, help="where the data and what is made of them lie meanwhile")
    parser.add_argument("--out", type=Path, help="write metrics.json there, for the docs")
    options = parser.parse_args()
    title, clock = machine(), time.perf_counter()
    chains = CHAINS if options.switching is None else (options.switching,)
    asked: dict[str, Any] = {"command": options.command, "chains": chains, "folder": options.folder}
    found = measure(options.steps, options.iterations, options.limit, **asked)
    if options.out is not None:
        command = "python " + " ".join([f"benchmarks/{Path(__file__).name}", *sys.argv[1:]])
        write(options.out, command, title, time.perf_counter() - clock, fits=found)


if __name__ == "__main__":
    main()
