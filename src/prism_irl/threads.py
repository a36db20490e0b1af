"""How many cores one process may use: fits that run side by side must not fight for the same ones."""

from __future__ import annotations

import torch


def limit_threads(n: int) -> None:
    """Use at most ``n`` threads in torch and in compiled kernels."""
    torch.set_num_threads(n)
    try:
        import numba
    except ImportError:  # numba is an extra
        return
    numba.set_num_threads(min(n, numba.get_num_threads()))
