"""`make golden BASE=REV`: does this tree compute what another commit computes? Both run on this machine, one by one.

Closed forms must agree to 1e-9, networks to 1e-5; a case that the base refuses may begin to work, and one that it fits
must go on. What differs is printed, and the exit code is 1.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parents[2]
NETWORKS = ("recurrent", "independent", "method bc", "method dirl")


def recorded(source: Path, target: Path) -> dict[str, Any]:
    """Numbers of the package under ``source``."""
    environment = os.environ | {"PYTHONPATH": str(source / "src"), "OMP_NUM_THREADS": "1", "PYTHONSAFEPATH": "1"}
    command = [sys.executable, str(HERE / "tests/golden/record.py"), str(target)]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    found: dict[str, Any] = json.loads(target.read_text(encoding="utf-8"))
    return found


def differences(case: str, old: dict[str, Any], new: dict[str, Any] | None) -> list[str]:
    """What changed in a case, in words."""
    if new is None:
        return ["is gone"]
    if old["code"]:
        return []
    if new["code"]:
        return [f"ends with exit code {new['code']}"]
    found = [f"lacks {name}" for name in sorted(set(old["files"]) - set(new["files"]))]
    found += [f"metrics.json lacks {name}" for name in sorted(set(old["numbers"]) - set(new["numbers"]))[:5]]
    allowed = 1e-5 if case.startswith(NETWORKS) else 1e-9
    shared = sorted(set(old["numbers"]) & set(new["numbers"]))
    pairs = {f"metrics.json {name}": (old["numbers"][name], new["numbers"][name]) for name in shared}
    pairs |= {name: (old[name], new.get(name, [])) for name in ("beliefs", "rewards") if name in old}
    for name, (before, after) in pairs.items():
        left, right = np.atleast_1d(before), np.atleast_1d(after)
        if left.shape != right.shape:
            found.append(f"{name} has {right.size} numbers instead of {left.size}")
        elif not np.allclose(left, right, rtol=allowed, atol=allowed):
            found.append(f"{name} differs by {np.abs(left - right).max():.2g}")
    return found


def main(base: str) -> int:
    """Record both, compare, and print."""
    with tempfile.TemporaryDirectory() as name:
        other = Path(name) / "base"
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", str(other), base], cwd=HERE, check=True)
        try:
            old = recorded(other, Path(name) / "old.json")
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(other)], cwd=HERE, check=True)
        new = recorded(HERE, Path(name) / "new.json")
    wrong = {case: found for case in old if (found := differences(case, old[case], new.get(case)))}
    for case, found in wrong.items():
        print(f"{case}: {'; '.join(found[:4])}")
    fitted = sum(not one["code"] for one in old.values())
    print(f"{len(old)} cases, {fitted} of them fitted by {base}, {len(wrong)} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
