"""A file beside the data is not imported, whatever it is called; a module that somebody names is, and only that."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import prism_irl
from prism_irl.worlds.frustration import FrustrationWorld

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


@pytest.mark.slow
def test_no_verb_executes_a_file_beside_the_data(folder: Path) -> None:
    assert {"numba", "minari", "xarray", "openpyxl"} <= planted()
    for command in (
        f"fit t.csv {SMALL} --out run",
        "segment run t.csv --out labels.csv",
        "score run t.csv",
        "report run",
        "evidence t.csv --intentions 2 --surrogates 2 --folds 2 --starts 1 --max-iterations 2 --jobs 2 --out evidence",
    ):
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
