"""Writes hashes.txt: of each version in constraints.txt the file that pip takes here, with its SHA-256 (`make hashes`).

For Linux, x86-64 and Python 3.11, where the tests run: pip install --require-hashes --no-deps -r hashes.txt
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
HEAD = """# Files of the tested set, for Linux, x86-64 and Python 3.11; written by make hashes. To install nothing else:
# pip install --require-hashes --no-deps -r hashes.txt
"""


def pinned(report: dict[str, object]) -> list[str]:
    """Lines of a requirements file, of what pip would install."""
    lines = []
    for one in report["install"]:
        name, version = one["metadata"]["name"], one["metadata"]["version"]
        digest = one["download_info"]["archive_info"]["hashes"]["sha256"]
        lines.append(f"{name.lower()}=={version} --hash=sha256:{digest}\n")
    return sorted(lines)


def main() -> None:
    """Ask pip, which installs nothing, and write."""
    options = "--dry-run --ignore-installed --no-deps --quiet --report - -r constraints.txt".split()
    command = [sys.executable, "-m", "pip", "install", *options]
    found = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    (ROOT / "hashes.txt").write_text(HEAD + "".join(pinned(json.loads(found))), encoding="utf-8")


if __name__ == "__main__":
    main()
