"""Run every test marked with `cuda_support.cuda`, without pytest: python tests/run_cuda.py [part of a name].

One line per check, and at the end how many passed and how many failed; the exit code says whether all did.
"""

from __future__ import annotations

import importlib.util
import itertools
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parent
sys.path[:0] = [str(TESTS.parent / "src"), str(TESTS)]

import torch  # noqa: E402

from cuda_support import DEVICE, missing  # noqa: E402


def marked() -> Iterator[tuple[str, Any]]:
    """Name and function of every marked test."""
    for path in sorted(TESTS.rglob("test_*cuda.py")):
        name = str(path.relative_to(TESTS))
        spec = importlib.util.spec_from_file_location(name.replace("/", "_").removesuffix(".py"), path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield from (
            (f"{name}::{key}", value) for key, value in list(vars(module).items()) if hasattr(value, "cuda_choices")
        )


def main(wanted: str = "") -> int:
    """Run the tests whose name contains ``wanted``; 0 when all that ran passed."""
    where = torch.cuda.get_device_name() if DEVICE.type == "cuda" and torch.cuda.is_available() else DEVICE
    print(f"{where}, torch {torch.__version__}", flush=True)
    passed, failed, left_out = 0, 0, 0
    for name, test in marked():
        choices, triton = test.cuda_choices
        for values in itertools.product(*choices.values()):
            label = name + (f"[{'-'.join(map(str, values))}]" if values else "")
            if wanted not in label:
                continue
            if missing(triton):
                left_out += 1
                print(f"left out  {label}: {missing(triton)}")
                continue
            clock = time.perf_counter()
            try:
                test(**dict(zip(choices, values, strict=True)))
            except Exception:
                failed += 1
                print(f"FAILED    {label}\n{traceback.format_exc()}", flush=True)
            else:
                passed += 1
                print(f"passed    {label} ({time.perf_counter() - clock:.1f} s)", flush=True)
    print(f"{passed} passed, {failed} failed" + (f", {left_out} left out" if left_out else ""))
    return int(failed > 0 or passed == 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
