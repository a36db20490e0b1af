"""Where a fit runs: CPU or GPU, chosen once by the estimator, and how many cores one process may use."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from prism_irl.errors import InputError

DRIVERS = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/nvhost-ctrl", "/dev/nvmap", "/dev/dxg", "/dev/kfd")
"""Files of which Linux has at least one where torch could find a GPU: of NVIDIA's drivers, of WSL and of AMD's."""


def has_gpu() -> bool:
    """Whether torch finds a GPU; without a driver there is none, and torch, slow to import, need not be asked."""
    if "torch" not in sys.modules and sys.platform == "linux" and not any(map(os.path.exists, DRIVERS)):
        return False
    import torch

    return torch.cuda.is_available()


def resolve_device(name: str) -> str:
    """Turn "auto" into a CUDA device where there is one, else the CPU."""
    if name == "auto":
        return "cuda" if has_gpu() else "cpu"
    if name not in ("cpu", "cuda") and not str(name).startswith("cuda:"):
        raise InputError(f"Unknown device {name!r}; choose auto, cpu or cuda.")
    if name.startswith("cuda") and not has_gpu():
        raise InputError("There is no CUDA device on this machine; use --device cpu or auto.")
    return name


def available_device(name: str) -> str:
    """As `resolve_device`, but a model that was fitted on a GPU may be read where there is none."""
    return "cpu" if name.startswith("cuda") and not has_gpu() else resolve_device(name)


def as_array(values: Any) -> npt.NDArray[Any]:
    """An array as it is, or the numbers of a tensor of any device."""
    return values if isinstance(values, np.ndarray) else np.asarray(values.detach().cpu().numpy())


@contextmanager
def seeded(seed: int, *, needed: bool = True) -> Iterator[None]:
    """Seed torch for a while; where it is not ``needed`` and nobody has imported it, it is left alone."""
    if not needed and "torch" not in sys.modules:
        yield
        return
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def limit_threads(n: int) -> None:
    """Use at most ``n`` threads in torch and in compiled kernels: fits side by side must not fight for cores."""
    import numba
    import torch

    torch.set_num_threads(n)
    numba.set_num_threads(min(n, numba.get_num_threads()))


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread of torch for work on small tensors: waiting for a second one takes longer than the work."""
    if "torch" not in sys.modules:
        yield
        return
    import torch

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
    if has_gpu():
        import torch

        parts.append(torch.cuda.get_device_name())
    return ", ".join(parts)
