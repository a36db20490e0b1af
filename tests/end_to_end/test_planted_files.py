"""A file beside the data is not imported, whatever it is called; a module that somebody names is, and only that."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import prism_irl
from continuous_worlds import walks
from prism_irl.cli.main import COMMANDS
from prism_irl.robots.episodes import Episode
from prism_irl.worlds.frustration import FrustrationWorld
from worlds.lerobot import write_lerobot

TRIED_BY_LIBRARIES = (
    *(
        "_scproxy",
        "annotationlib",
        "bottleneck",
        "brotli",
        "cffi",
        "cupy",
        "cuda",
        "dask",
        "distributed",
        "fastparquet",
    ),
    *("fastparquet", "fsspec", "IPython", "ipywidgets", "jax", "lz4", "mkl", "numexpr", "orjson", "polars", "psutil"),
    *("scipy_openblas", "sitecustomize", "tblib", "tbb", "threadpoolctl", "torchvision", "tqdm", "uvloop", "zstandard"),
    *("triton", "viztracer", "yaml", "pandas", "numpy", "torch", "joblib", "cloudpickle", "matplotlib", "plotly"),
)
SMALL = "--intentions 2 --switching markov --n-starts 1 --max-iterations 2 --device cpu"
OPTIONS = {**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}


def planted() -> set[str]:
    """Every package that ours, or a library, tries to import, those that are installed and those that are not."""
    found = set(TRIED_BY_LIBRARIES)
    for path in Path(prism_irl.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
            elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "need":
                found |= {str(part.value).partition(".")[0] for part in node.args[:1] if isinstance(part, ast.Constant)}
    return found - set(sys.stdlib_module_names) - {"prism_irl"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A table, and beside it a file for each of these packages that leaves a trace when it is executed."""
    for name in planted():
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'a').write({name!r} + ' ')\n")
    FrustrationWorld(horizon=12).simulate(12, seed=3).demonstrations.to_pandas().to_csv(tmp_path / "t.csv", index=False)
    return tmp_path


def typed(folder: Path, command: str, *, script: bool = False) -> None:
    program = [str(Path(sys.executable).with_name("prism"))] if script else [sys.executable, "-m", "prism_irl"]
    done = subprocess.run([*program, *command.split()], cwd=folder, env=OPTIONS, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    trace = folder / "executed"
    assert not trace.exists(), f"prism {command}: {trace.read_text()}"


FEW = "--surrogates 2 --folds 2 --max-iterations 2"
VERBS = (
    f"fit t.csv {SMALL} --out run",
    "segment run t.csv --out labels.csv",
    "score run t.csv",
    "report run",
    "names run rest,work",
    "individuals run --unit trajectory",
    "contrast run --by drug --unit trajectory --table drugs.csv",
    "imagine run --without 1 --unaware --simulations 20 --jobs 1",
    f"evidence t.csv --intentions 2 --starts 1 {FEW} --jobs 2 --out evidence",
    f"select t.csv --intentions 1..2 --splits 1 --starts 1 {FEW} --out select",
    "compare t.csv --methods iavi,hiql --folds 2 --jobs 2 --out compare",
    "analyze t.csv --quick --intentions 2 --surrogates 1 --jobs 2 --out analysis",
    "init t.csv",
    "sample mouse --out mouse.csv",
    "methods",
    "data list",
    "data map p.csv --observe x,y --act vx,vy --out mapped",
    "demo --jobs 2 --out demo",
    "reproduce tutorial --quick --out tutorial",
    "tokenize frames --encoder proprio --states 3 --actions 2 --out tokens",
    f"fit frames --observe observation.state --act action {SMALL} --out arm",
    "triage frames --run arm --out list.csv",
    "segment arm frames --write-back frames --out copy",
)


@pytest.mark.slow
def test_no_verb_executes_a_file_beside_the_data(folder: Path) -> None:
    assert {"numba", "xarray", "openpyxl"} <= planted()
    names = pd.read_csv(folder / "t.csv")["trajectory"].unique()
    pd.DataFrame({"trajectory": names, "drug": ["saline", "drug"] * (len(names) // 2)}).to_csv(folder / "drugs.csv")
    walks(n_trajectories=4, length=30).to_csv(folder / "p.csv", index=False)
    generator = np.random.default_rng(0)
    moves = [generator.normal(size=(20, 2)) for _ in range(12)]
    write_lerobot(folder / "frames", [Episode(i, one, one.cumsum(0), "go", {}) for i, one in enumerate(moves)])
    assert {command.split()[0] for command in VERBS} == {
        *(name for verbs in COMMANDS.values() for name in verbs),
        "data",
    }
    for command in VERBS:
        typed(folder, command)


@pytest.mark.skipif(not Path(sys.executable).with_name("prism").is_file(), reason="the package is not installed")
def test_nor_does_the_installed_command(folder: Path) -> None:
    typed(folder, f"fit t.csv {SMALL} --out run", script=True)


def test_a_class_that_somebody_names_is_found_here_and_by_workers(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("STARTS = 1\n")
    (tmp_path / "mine.py").write_text(
        "from helper import STARTS\nfrom prism_irl import HIQL\n\n\nclass Mine(HIQL):\n"
        "    def fit(self, demos, mdp=None):\n"
        "        self.set_params(n_starts=STARTS, max_iterations=2)\n"
        "        return super().fit(demos, mdp)\n"
    )
    FrustrationWorld(horizon=12).simulate(12, seed=3).demonstrations.to_pandas().to_csv(tmp_path / "t.csv", index=False)
    typed(tmp_path, "compare t.csv --methods mine:Mine --intentions 2 --folds 2 --jobs 2 --out compared")
    check = (
        "from prism_irl import halves; import sys; halves.locate('mine:Mine', 'method'); print('helper' in sys.modules)"
    )
    check += "; print(sys.path.count(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", check, str(tmp_path)], cwd=tmp_path, env=OPTIONS, capture_output=True, text=True
    )
    assert done.stdout.split() == ["True", "0"], done.stderr
