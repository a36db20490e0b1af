"""Where a fit runs: CPU or GPU, chosen once by the estimator, and how many cores one process may use."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from prism_irl.errors import InputError


def resolve_device(name: str) -> torch.device:
    """Turn "auto" into a CUDA device where there is one, else the CPU."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name not in ("cpu", "cuda") and not str(name).startswith("cuda:"):
        raise InputError(f"Unknown device {name!r}; choose auto, cpu or cuda.")
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise InputError("There is no CUDA device on this machine; use --device cpu or auto.")
    return torch.device(name)


def available_device(name: str) -> torch.device:
    """As `resolve_device`, but a model that was fitted on a GPU may be read where there is none."""
    return torch.device("cpu") if name.startswith("cuda") and not torch.cuda.is_available() else resolve_device(name)


def limit_threads(n: int) -> None:
    """Use at most ``n`` threads in torch and in compiled kernels: fits side by side must not fight for cores."""
    torch.set_num_threads(n)
    try:
        import numba
    except ImportError:  # numba is an extra
        return
    numba.set_num_threads(min(n, numba.get_num_threads()))


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread of torch for work on small tensors: waiting for a second one takes longer than the work."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def machine() -> str:
    """Processor, cores that this process may use, and GPU: what the seconds of a result were measured on."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    parts = [names[0] if names else platform.processor() or platform.machine(), f"{cores} cores"]
    if torch.cuda.is_available():
        parts.append(torch.cuda.get_device_name())
    return ", ".join(parts)
