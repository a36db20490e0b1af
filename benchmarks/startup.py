"""How long prism takes to start, and what the command adds to the fit itself.

Starting is CPU time of a process, against one that imports NumPy: what every tool of the field pays. The command is
wall-clock time against the same fit in a process that has everything imported, so that the difference is imports,
reading the table, and writing the run folder with its figures and report; and against the imports alone.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from prism_irl.worlds.frustration import FrustrationWorld
from timing import Row

OPTIONS = ["--switching", "markov", "--intentions", "2", "--n-starts", "4", "--overwrite"]
IMPORTED = "numpy, pandas, scipy.sparse, numba, matplotlib.figure"
"""What reading a table, compiled passes and figures cannot do without."""
ALONE = """
import time
from prism_irl import Demonstrations, Intentions
demos = Demonstrations.from_table({table!r})
for _ in range(2):  # the first compiles, or loads what was compiled
    clock = time.perf_counter()
    Intentions(2, switching="markov", n_starts=4).fit(demos)
print(time.perf_counter() - clock)
"""


def python(*arguments: str) -> None:
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)


def cpu_seconds(*arguments: str) -> float:
    """CPU time, user and system, of one Python process."""
    before = os.times()
    python(*arguments)
    after = os.times()
    return after.children_user - before.children_user + after.children_system - before.children_system


def starts(repeat: int) -> list[Row]:
    """CPU time of `import prism_irl` and of the help, taking turns with `import numpy`."""
    works = {
        "import prism_irl": ("-c", "import prism_irl"),
        "prism --help": ("-m", "prism_irl", "--help"),
        "prism fit --help": ("-m", "prism_irl", "fit", "--help"),
    }
    reference = ("-c", "import numpy")
    commands = [reference, *works.values()]
    for command in commands:  # bytecode and file caches are warm
        python(*command)
    times = np.array([[cpu_seconds(*command) for command in commands] for _ in range(repeat)])
    middle = np.median(times, axis=0)
    quartiles = np.quantile(times[:, :1] / times, [0.25, 0.75], axis=0)
    return [
        Row(
            f"CPU time of {work}",
            "import numpy",
            float(middle[0]),
            float(middle[i]),
            "0.5 s at most",
            (float(quartiles[0, i]), float(quartiles[1, i])),
        )
        for i, work in enumerate(works, start=1)
    ]


def command(n_trajectories: int, repeat: int) -> list[Row]:
    """`prism fit` from a CSV file to the report, beside the same fit alone and beside its imports alone, by turns."""
    demos = FrustrationWorld().simulate(n_trajectories).demonstrations
    alone, imports, whole = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        table = str(Path(folder) / "steps.csv")
        demos.to_pandas()[["trajectory", "state", "action"]].to_csv(table, index=False)
        fit = [sys.executable, "-c", ALONE.format(table=table)]
        waiting = {**os.environ, "OMP_WAIT_POLICY": "passive"}  # as the command has it
        for turn in range(-1, repeat):
            done = subprocess.run(fit, check=True, capture_output=True, text=True, env=waiting)
            clock = time.perf_counter()
            python("-c", f"import {IMPORTED}")
            imported = time.perf_counter()
            python("-m", "prism_irl", "fit", table, *OPTIONS, "--out", str(Path(folder) / "run"))
            if turn >= 0:
                alone.append(float(done.stdout))
                imports.append(imported - clock)
                whole.append(time.perf_counter() - imported)
    work = f"prism fit, {demos.n_steps:,} steps, Markov, K = 2, 4 starts: CSV to report"
    references = {"the fit alone, everything imported": alone, f"import {IMPORTED}": imports}
    return [Row(work, name, float(np.median(times)), float(np.median(whole))) for name, times in references.items()]


def rows(n_trajectories: int = 500, repeat: int = 9) -> list[Row]:
    return [*starts(repeat), *command(n_trajectories, max(1, repeat // 3))]


if __name__ == "__main__":
    for row in rows():
        print(f"{row.work}: {row.seconds:.3f} s; {row.reference}: {row.reference_seconds:.3f} s; {row}")
