"""The ranks of one fit under torchrun: how they sum, and how they send each other files.

`scale.distributed` finds out whether there are any; without them nothing here, torch included, is imported.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from prism_irl.data import sharing
from prism_irl.devices import limit_threads
from prism_irl.errors import InputError
from prism_irl.scale.tree_sum import Mailboxes, tree_sum_

Array = npt.NDArray[Any]


class Group(sharing.World):
    """All ranks of the default process group of torch.distributed."""

    def __init__(self) -> None:
        self.rank, self.size = torch.distributed.get_rank(), torch.distributed.get_world_size()
        self.mailboxes = Mailboxes(self.rank, self.size)

    def total_(self, tensor: Tensor) -> None:
        """Sum over ranks, in place; every rank gets the same bits."""
        with _lost_rank():
            if tensor.device.type == "cpu":
                tree_sum_(tensor.view(-1), self.mailboxes)  # sums of other shapes and the same size share a mailbox
            else:
                torch.distributed.all_reduce(tensor)

    def total(self, values: Array) -> Array:
        """Sum over ranks; gloo sums what is in main memory."""
        tensor = torch.from_numpy(np.array(values, order="C"))
        self.total_(tensor)
        return np.asarray(tensor.numpy())

    def broadcast(self, values: Array) -> Array:
        """Values of the writing rank, for all; the others give an array of the same shape and type."""
        tensor = torch.from_numpy(np.array(values))
        with _lost_rank():
            torch.distributed.broadcast(tensor, src=0)
        return np.asarray(tensor.numpy())

    @contextmanager
    def fetched(self, path: Path | None) -> Iterator[Path | None]:
        """Send the file to the other ranks, which need not share a disk with the writing one."""
        content = path.read_bytes() if self.writes and path is not None and path.exists() else b""
        size = int(self.broadcast(np.array([len(content)], dtype=np.int64))[0])
        if not size:
            yield None
            return
        sent = self.broadcast(np.frombuffer(content or bytes(size), dtype=np.uint8))
        if self.writes:
            yield path
            return
        with tempfile.TemporaryDirectory(prefix="prism-") as folder:
            copy = Path(folder) / "checkpoint.safetensors"
            copy.write_bytes(sent.tobytes())
            yield copy


def connect() -> None:
    """Find the other ranks.

    Gradients on GPUs go through NCCL when every rank of a machine has its own GPU, everything else through gloo.
    """
    local_rank, n_local = (int(os.environ.get(name, "0")) for name in ("LOCAL_RANK", "LOCAL_WORLD_SIZE"))
    own_gpu = 0 < n_local <= torch.cuda.device_count()
    if torch.cuda.is_available():
        torch.cuda.set_device(local_rank % torch.cuda.device_count())
    limit_threads(max(joblib.cpu_count() // max(n_local, 1), 1))  # of the cores that this process may use
    try:
        store, rank, size = next(torch.distributed.rendezvous("env://"))
        # After a lost rank the store still holds the addresses of the ranks that were; names of their own keep apart.
        store = torch.distributed.PrefixStore(f"prism {os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)}", store)
        backend = "cpu:gloo,cuda:nccl" if own_gpu else "gloo"
        torch.distributed.init_process_group(backend, store=store, rank=rank, world_size=size)
    except (RuntimeError, ValueError) as error:
        raise InputError(
            f"The ranks did not find each other ({error}); check the addresses given to torchrun."
        ) from None


def leave() -> None:
    """Say goodbye to the other ranks."""
    torch.distributed.destroy_process_group()


@contextmanager
def _lost_rank() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(
            f"Another rank was lost ({reason}); repeat the command with --resume to go on from the last checkpoint."
        ) from None
