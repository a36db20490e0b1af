"""`make release-check`: would what we publish install and work for a stranger?

Builds wheel and sdist, checks description and contents, installs the wheel without constraints into a clean environment
(torch first, so that its CPU build is kept), and types the first commands of README there, away from the checkout.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LARGEST = 1_500_000
"""Bytes of a wheel."""
FIRST_COMMANDS = (
    "prism --version",
    "prism sample mouse > mouse.csv",
    "prism analyze mouse.csv --quick --out runs/mouse",
)
NOT_OURS = ("tests/", "reproduce/", "benchmarks/", "docs/")


def run(*words: str | Path, **options: object) -> None:
    """Run a command that must succeed."""
    print("$", *words, flush=True)
    subprocess.run([str(word) for word in words], check=True, **options)  # type: ignore[call-overload]


def torch_pin() -> str:
    """The line of constraints.txt that names torch."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return next(line for line in lines if line.startswith("torch=="))


def check_wheel(wheel: Path) -> None:
    """Small, and nothing in it but the package."""
    size = wheel.stat().st_size
    names = zipfile.ZipFile(wheel).namelist()
    strangers = [name for name in names if name.startswith(NOT_OURS)]
    assert not strangers, f"the wheel holds {strangers[:3]}"
    assert size < LARGEST, f"the wheel has {size:,} bytes, more than {LARGEST:,}"
    print(f"{wheel.name}: {size:,} bytes, {len(names)} files")


def main() -> None:
    """Build, check, install and try."""
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        run(sys.executable, "-m", "build", "--outdir", work / "dist", ROOT)
        built = sorted((work / "dist").iterdir())
        run(sys.executable, "-m", "twine", "check", "--strict", *built)
        wheel = next(path for path in built if path.suffix == ".whl")
        check_wheel(wheel)
        run(sys.executable, "-m", "venv", work / "clean")
        pip = work / "clean" / "bin" / "pip"
        run(pip, "install", "--quiet", torch_pin())
        run(pip, "install", "--quiet", f"{wheel}[fast]")
        (work / "away").mkdir()
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        environment["PATH"] = f"{work / 'clean' / 'bin'}{os.pathsep}{environment['PATH']}"
        for command in FIRST_COMMANDS:
            run("bash", "-c", command, cwd=work / "away", env=environment)
    print("The release can be published.")


if __name__ == "__main__":
    main()
