"""A sum over ranks along a tree of messages, for gloo on machines whose cores are all busy.

gloo works with helper threads. With as many busy ranks as cores these get a core at the next tick of the scheduler
only, which is 4 ms and longer than many a minibatch. So nothing is sent in both directions at once, as its own
all-reduce does: sums go up a binomial tree to rank 0, the total comes down the same tree, and every message finds its
receiver asking already. A message that nobody has asked for begins with a question whether it may come, and the helper
thread that would answer has to wait for a core while its rank computes. EM sums the same few sizes again and again, so
each rank asks for the next message of a size as soon as it has read the last: a gradient of 150 kB then takes 0.8 ms
instead of 2.
"""

from __future__ import annotations

import torch
from torch import Tensor

KEPT_BYTES = 2**22
"""Messages larger than this are rare; no memory is kept for the next one."""


class Mailboxes:
    """What one rank remembers between sums: its place in the tree, and a mailbox for every size that it has met."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank = rank
        self.parent = rank & (rank - 1)  # whom this rank sends its sum to; rank 0 is the root
        reach = rank & -rank or size
        steps = [1 << i for i in range(reach.bit_length()) if 1 << i < reach]
        self.children = [rank + step for step in steps if rank + step < size]  # nearest first
        self.n_sizes = 0
        self.kept: dict[tuple[int, torch.dtype], _Mailbox] = {}

    def take(self, tensor: Tensor) -> _Mailbox:
        """The mailbox for sums of the size of this one; ranks meet the same sizes in the same order."""
        box = self.kept.pop((tensor.numel(), tensor.dtype), None)
        if box is None:
            self.n_sizes += 1  # so that all ranks number them alike
            neighbours = self.children + ([self.parent] if self.rank else [])
            box = _Mailbox({rank: torch.empty_like(tensor) for rank in neighbours}, self.n_sizes)
        return box


class _Mailbox:
    """Memory for messages of one size from the neighbours in the tree, asked for before they are sent."""

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


def tree_sum_(tensor: Tensor, mailboxes: Mailboxes) -> None:
    """Sum a flat tensor over all ranks, in place; every rank gets the same bits."""
    box = mailboxes.take(tensor)
    for child in mailboxes.children:
        tensor += box.received(child)
    if mailboxes.rank:
        torch.distributed.send(tensor, mailboxes.parent, tag=box.tag)
        tensor.copy_(box.received(mailboxes.parent))
    for child in reversed(mailboxes.children):
        torch.distributed.send(tensor, child, tag=box.tag)
    if tensor.nbytes <= KEPT_BYTES:
        box.ask()
        mailboxes.kept[tensor.numel(), tensor.dtype] = box
