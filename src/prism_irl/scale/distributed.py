"""Data-parallel EM under torchrun: every rank holds some trajectories, sums go over all of them.

EM sees data through sums: weighted counts (K, C, A), transitions (K, K), first steps (K,), log-likelihoods, and the
gradient of a minibatch. Each is the sum of what the ranks find on their own trajectories (`Shard`), so that one
sum over ranks makes the fit that one process would have made, up to rounding. Minibatches are those of one
process: the same order over all trajectories, of which each rank computes its own. Use it when a fit is too slow or
its responsibilities are too large for one machine; many small fits are better spread by `scale.fanout`.

    torchrun --nproc-per-node 2 -m prism_irl fit table.csv --intentions 3 --out runs/mouse
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from prism_irl.data.batching import Batch, Prepared, compact_index, minibatches, pad_batch
from prism_irl.data.contexts import Contexts
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.devices import limit_threads
from prism_irl.errors import InputError

Array = npt.NDArray[Any]
KEPT_BYTES = 2**22
"""Messages larger than this are rare; no memory is kept for the next one."""


class World:
    """The processes of one fit; this one is alone."""

    rank = 0
    size = 1

    @property
    def writes(self) -> bool:
        """Whether this rank is the one that writes files and talks to people."""
        return self.rank == 0

    def total(self, values: Array) -> Array:
        """Sum over ranks."""
        return values

    def prepare(
        self,
        demos: Demonstrations,
        trajectories: npt.NDArray[np.int64] | None,
        contexts: Contexts,
        device: torch.device | str,
    ) -> Prepared:
        """Some trajectories (None for all) as EM reads them; of several ranks each gets its part."""
        return Prepared.of(demos if trajectories is None else demos.subset(trajectories), contexts, device)

    @contextmanager
    def fetched(self, path: Path | None) -> Iterator[Path | None]:
        """A file that the writing rank may have, as a file that every rank can read; None where there is none."""
        yield path if path is not None and path.exists() else None


class _Mailbox:
    """Memory for messages of one size from the neighbours in the tree, asked for before they are sent.

    A message that nobody has asked for begins with a question whether it may come, and the helper thread that would
    answer has to wait for a core while its rank computes. EM sums the same few sizes again and again, so each rank asks
    for the next message of a size as soon as it has read the last: a gradient of 150 kB then takes 0.8 ms instead of 2.
    """

    def __init__(self, messages: dict[int, Tensor], tag: int) -> None:
        self.messages, self.tag = messages, tag
        self.ask()

    def ask(self) -> None:
        """Ask every neighbour for its next message."""
        self.requests = {
            rank: torch.distributed.irecv(message, rank, tag=self.tag) for rank, message in self.messages.items()
        }

    def received(self, rank: int) -> Tensor:
        """Wait for the message of a neighbour."""
        request = self.requests[rank]
        assert request is not None
        request.wait()
        return self.messages[rank]


class Group(World):
    """All ranks of the default process group of torch.distributed."""

    def __init__(self) -> None:
        self.rank, self.size = torch.distributed.get_rank(), torch.distributed.get_world_size()
        self._mailboxes: dict[tuple[int, torch.dtype], _Mailbox] = {}
        self._n_sizes = 0

    @property
    def parent(self) -> int:
        """Whom this rank sends its sum to in a binomial tree with rank 0 at its root."""
        return self.rank & (self.rank - 1)

    @property
    def children(self) -> list[int]:
        """Ranks whose sums this one adds to its own, nearest first."""
        reach = self.rank & -self.rank or self.size
        steps = [1 << i for i in range(reach.bit_length()) if 1 << i < reach]
        return [self.rank + step for step in steps if self.rank + step < self.size]

    def total_(self, tensor: Tensor) -> None:
        """Sum over ranks, in place; every rank gets the same bits."""
        with _lost_rank():
            if tensor.device.type == "cpu":
                self._tree_(tensor.view(-1))  # sums of other shapes and the same size share a mailbox
            else:
                torch.distributed.all_reduce(tensor)

    def _tree_(self, tensor: Tensor) -> None:
        """Sums up a binomial tree to rank 0, the total down the same tree.

        gloo works with helper threads. With as many busy ranks as cores these get a core at the next tick of the
        scheduler only, which is 4 ms and longer than many a minibatch. So nothing is sent in both directions at once,
        as its own all-reduce does, and every message finds its receiver asking already (`_Mailbox`).
        """
        key = (tensor.numel(), tensor.dtype)
        box = self._mailboxes.pop(key, None)
        if box is None:  # ranks meet the same sizes in the same order, so that they number them alike
            self._n_sizes += 1
            neighbours = self.children + ([self.parent] if self.rank else [])
            box = _Mailbox({rank: torch.empty_like(tensor) for rank in neighbours}, self._n_sizes)
        for child in self.children:
            tensor += box.received(child)
        if self.rank:
            torch.distributed.send(tensor, self.parent, tag=box.tag)
            tensor.copy_(box.received(self.parent))
        for child in reversed(self.children):
            torch.distributed.send(tensor, child, tag=box.tag)
        if tensor.nbytes <= KEPT_BYTES:
            box.ask()
            self._mailboxes[key] = box

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

    def prepare(
        self,
        demos: Demonstrations,
        trajectories: npt.NDArray[np.int64] | None,
        contexts: Contexts,
        device: torch.device | str,
    ) -> Prepared:
        """The trajectories of this rank; all of them where they are fewer than the ranks."""
        chosen = np.arange(len(demos)) if trajectories is None else trajectories
        if len(chosen) < self.size:  # the same numbers on every rank need no sum
            return super().prepare(demos, trajectories, contexts, device)
        return Shard.of_trajectories(self, demos, chosen, contexts, device)

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


@dataclass(frozen=True)
class _Lengths:
    """What `minibatches` reads of demonstrations."""

    lengths: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.lengths)


@dataclass(frozen=True, eq=False, kw_only=True)
class Shard(Prepared):
    """The trajectories of one rank, and how to come from sums over them to sums over all.

    Parameters
    ----------
    world : Group
    mine : (N_rank,) int64
        Which of all trajectories are here, in increasing order.
    lengths : (N,) int64
        Steps of all trajectories.
    source, trajectories : Demonstrations, (N,) int64
        Where all trajectories come from, and which of its own they are.
    contexts : Contexts
    """

    world: Group
    mine: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    source: Demonstrations
    trajectories: npt.NDArray[np.int64]
    contexts: Contexts

    @classmethod
    def of_trajectories(
        cls,
        world: Group,
        demos: Demonstrations,
        trajectories: npt.NDArray[np.int64],
        contexts: Contexts,
        device: torch.device | str = "cpu",
    ) -> Shard:
        """Shard the trajectories by length, so that all ranks get about as many steps."""
        order = np.argsort(-demos.lengths[trajectories], kind="stable")
        return cls._holding(np.sort(order[world.rank :: world.size]), world, demos, trajectories, contexts, device)

    @classmethod
    def _holding(
        cls,
        mine: npt.NDArray[np.int64],
        world: Group,
        source: Demonstrations,
        trajectories: npt.NDArray[np.int64],
        contexts: Contexts,
        device: torch.device | str,
    ) -> Shard:
        here = source.subset(trajectories[mine])
        return cls(
            here,
            compact_index(contexts.encode(here), contexts.n_contexts),
            device,
            world=world,
            mine=mine,
            lengths=source.lengths[trajectories],
            source=source,
            trajectories=trajectories,
            contexts=contexts,
        )

    def reshard(self, batch_size: int, generator: np.random.Generator) -> Shard:
        """The same data, sharded anew: of every minibatch of the coming epoch each rank gets an equal share.

        Ranks wait for each other in every minibatch; with shares left to chance, the larger one decides.
        """
        parts = minibatches(_Lengths(self.lengths), batch_size, generator)  # type: ignore[arg-type]
        mine = np.sort(np.concatenate([part[self.world.rank :: self.world.size] for part in parts]))
        return self._holding(mine, self.world, self.source, self.trajectories, self.contexts, self.device)

    @property
    def n_steps(self) -> int:
        """Number of steps of all ranks together."""
        return int(self.lengths.sum())

    @property
    def whole(self) -> Demonstrations:
        """Demonstrations of all ranks together."""
        return self.source.subset(self.trajectories)

    def _steps(self) -> npt.NDArray[np.int64]:
        """Position among all steps of every step here."""
        first = np.cumsum(self.lengths) - self.lengths
        return np.arange(self.demos.n_steps) + np.repeat(first[self.mine] - self.demos.offsets[:-1], self.demos.lengths)

    def share(self, flat: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Rows of the steps here; all ranks take those that the writing one has computed."""
        return self.world.broadcast(flat)[self._steps()]

    def collect(self, flat: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Values of all steps."""
        values = np.zeros((self.n_steps, *flat.shape[1:]), dtype=flat.dtype)
        values[self._steps()] = flat
        return self.world.total(values)

    def total(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Sum over ranks."""
        return self.world.total(values)

    def mean(self, values: npt.NDArray[np.float64]) -> float:
        """Mean over the steps of all ranks."""
        return float(self.world.total(np.array([values.sum()]))[0] / self.n_steps)

    def shuffled(self, batch_size: int, generator: np.random.Generator) -> Iterable[Batch | None]:
        """The part that this rank has of every minibatch that one process would make."""
        local = np.full(len(self.lengths), -1)
        local[self.mine] = np.arange(len(self.mine))
        parts = minibatches(_Lengths(self.lengths), batch_size, generator)  # type: ignore[arg-type]
        own = (local[part][local[part] >= 0] for part in parts)
        return (pad_batch(self.demos, part, self.device) if len(part) else None for part in own)

    def combine(self, parameters: Iterable[Tensor], size: int) -> None:
        """Gradients weighted by the items they are a mean over, summed over ranks, divided by all items."""
        owned = [parameter for parameter in parameters if parameter.requires_grad]
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in owned]
        flat = torch.cat([*(g.reshape(-1) for g in gradients), gradients[0].new_ones(1)]).mul_(size)
        self.world.total_(flat)
        flat /= flat[-1].clone()
        for parameter, gradient in zip(owned, flat[:-1].split([p.numel() for p in owned]), strict=True):
            parameter.grad = gradient.view(parameter.shape)


SOLO = World()
_current: ContextVar[World] = ContextVar("world", default=SOLO)


def current() -> World:
    """The world that fits are to be spread over: this process alone, unless it has joined others."""
    return _current.get()


@contextmanager
def join() -> Iterator[World]:
    """Join the other processes that torchrun started; alone where it did not.

    Gradients on GPUs go through NCCL when every rank of a machine has its own GPU, everything else through gloo.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) < 2 or "MASTER_ADDR" not in os.environ:
        yield SOLO
        return
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
    token = _current.set(Group())
    try:
        yield current()
    finally:
        _current.reset(token)
    # Not after an error: the other ranks may be gone, and the process is about to end.
    torch.distributed.destroy_process_group()


def restarted() -> bool:
    """Whether torchrun has started the ranks again after one was lost (``--max-restarts``)."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


@contextmanager
def _lost_rank() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(
            f"Another rank was lost ({reason}); repeat the command with --resume to go on from the last checkpoint."
        ) from None
