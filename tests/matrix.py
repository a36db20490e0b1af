"""Installs the package with the newest and with the oldest libraries that pyproject.toml allows, and runs the tests.

    make matrix                                            all of it; hours, and some gigabytes per environment
    make matrix MATRIX="3.13-newest -- tests/data"         one environment, and what pytest is given

The newest libraries, without constraints, on every interpreter that is here; the oldest on the oldest of them. torch
is installed first and alone, in the version of constraints.txt, so that nothing else pulls another build. Which
interpreters are not here is said at the end, and is no failure.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
WHERE = ROOT / "build" / "matrix"
PYTHONS = ("3.11", "3.12", "3.13")
EXTRAS = ("fast", "cluster", "data", "excel", "nwb", "interop")
TOOLS = ("hmmlearn", "hypothesis", "nbclient", "ipykernel", "pytest", "pytest-xdist")
"""Of the extra test, what the tests themselves import: linters and browsers are the same everywhere."""
USUAL = ("-n", "2", "-q", "-m", "not slow", "-W", "default")
"""Old libraries and new ones warn of one another; make test, with what is tested most, takes warnings for errors."""


def interpreter(version: str) -> str | None:
    """Path of a Python of a version (3.12): on the PATH, or among those of pyenv."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    own = [str(path) for path in sorted(root.glob(f"versions/{version}.*/bin/python"), reverse=True)]
    for found in (*own, shutil.which(f"python{version}")):
        if found and subprocess.run([found, "-c", "import venv, ensurepip"], capture_output=True).returncode == 0:
            return found
    return None


def wanted(extras: tuple[str, ...]) -> list[str]:
    """Requirements of the package and of some extras, as pyproject.toml writes them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [*project["dependencies"], *(one for extra in extras for one in project["optional-dependencies"][extra])]


def oldest(requirements: list[str]) -> Iterator[str]:
    """The same requirements, each held to its lower bound."""
    for requirement in requirements:
        name, bound = re.match(r"([\w.-]+)(?:[><=~!]=?([\d.]+))?", requirement).groups()
        yield requirement if bound is None else f"{name}=={bound}"


def torch_of_the_constraints() -> str:
    """torch==… of constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return next(line for line in lines if line.startswith("torch=="))


def prepare(python: str, folder: Path, libraries: str) -> str | None:
    """Make an environment; return the path of its Python, None where pip finds no solution."""
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([python, "-m", "venv", folder], check=True)
    own = str(folder / "bin" / "python")
    requirements = [one for one in wanted(EXTRAS) if not one.startswith("torch>=")]
    steps = [[torch_of_the_constraints()], requirements if libraries == "newest" else list(oldest(requirements))]
    for packages in (*steps, ["--no-deps", "--editable", str(ROOT)], [*TOOLS]):
        if subprocess.run([own, "-m", "pip", "install", "-q", *packages], cwd=ROOT).returncode:
            return None
    return own


def main(arguments: list[str]) -> int:
    """Prepare and test the environments that are asked for; 1 where one of them is red."""
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    asked, given = arguments[:cut], arguments[cut + 1 :]
    everything = [*(f"{version}-newest" for version in PYTHONS), f"{PYTHONS[0]}-oldest"]
    if unknown := set(asked) - set(everything):
        sys.exit(f"There is no environment {', '.join(unknown)}; choose among {', '.join(everything)}.")
    results, missing = {}, []
    for name in asked or everything:
        version, libraries = name.split("-")
        python = interpreter(version)
        if python is None:
            missing.append(version)
            continue
        own = prepare(python, WHERE / name, libraries)
        if own is None:
            results[name] = "cannot be installed"
            continue
        listed = subprocess.run([own, "-m", "pip", "freeze"], capture_output=True, text=True).stdout
        (WHERE / f"{name}.txt").write_text(listed, encoding="utf-8")
        code = subprocess.run([own, "-m", "pytest", "-p", "no:cacheprovider", *USUAL, *given], cwd=ROOT).returncode
        results[name] = "green" if code == 0 else f"red (pytest returned {code})"
    for name, result in results.items():
        print(f"{name}: {result}; versions in {WHERE / name}.txt")
    for version in dict.fromkeys(missing):
        print(f"Python {version}: not here")
    return int(any(result != "green" for result in results.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
