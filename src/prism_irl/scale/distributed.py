"""Data-parallel EM under torchrun: every rank holds some trajectories, sums go over all of them.

What is shared and summed is said in `data.sharing`; here is whether there are others, and `scale.group` is how they
talk. Minibatches are those of one process: the same order over all trajectories, of which each rank computes its own.
Use it when a fit is too slow or its responsibilities are too large for one machine; many small fits are better spread
by `scale.fanout`.

    torchrun --nproc-per-node 2 -m prism_irl fit table.csv --intentions 3 --out runs/mouse
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from prism_irl.data import sharing


@contextmanager
def join() -> Iterator[sharing.World]:
    """Join the other processes that torchrun started; alone where it did not."""
    if int(os.environ.get("WORLD_SIZE", "1")) < 2 or "MASTER_ADDR" not in os.environ:
        yield sharing.SOLO
        return
    from prism_irl.scale.group import Group, connect, leave

    connect()
    with sharing.spread_over(Group()) as world:
        yield world
    leave()  # not after an error: the other ranks may be gone, and the process is about to end


def restarted() -> bool:
    """Whether torchrun has started the ranks again after one was lost (``--max-restarts``)."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0
