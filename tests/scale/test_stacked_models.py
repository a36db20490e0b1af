"""Recurrences on a GPU against plain torch in double precision on the CPU."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from cuda_support import CPU, DEVICE, close, cuda, exact_products, ragged, without_triton
from prism_irl.data.batching import pad_batch
from prism_irl.scale.stacked_models import Rows, recurrence
from prism_irl.switching.networks import HistoryNetwork

GATES = {"rnn": 1, "gru": 3, "lstm": 4}
SINGLE = 2e-5  # single precision over a few dozen steps, relative to the largest entry
NETWORK = 1e-4  # cuDNN and attention choose the order of their sums


def problem(name: str, H: int, n_right: int):
    """Ragged rows of three fits, one of them nearly empty, and random tables and weights, in double precision."""
    generator = torch.Generator().manual_seed(H)
    F, B, T, n, n_left = 3, 20, 23, 400, 11
    length = torch.randint(1, T + 1, (F, B), generator=generator, dtype=torch.int32)
    length[0, 0], length[1, 3:6], length[2, 1:] = T, 0, 0
    first = torch.randint(0, n - T, (F, B), generator=generator)
    index = tuple(torch.randint(0, m, (n,), generator=generator, dtype=torch.int32) for m in (n_left, n_right))
    width = GATES[name] * H

    def random(*shape: int, scale: float) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64) * scale

    tables = random(F, n_left, width, scale=0.7), random(F, n_right, width, scale=0.7)
    weight, bias = random(F, width, H, scale=H**-0.5), random(F, width, scale=0.3)
    target = random(F, B, T + 1, H, scale=1.0)
    return Rows(first, length, T), index, (*tables, weight, bias), target


def run(name: str, rows: Rows, index, values, target, device: torch.device, dtype: torch.dtype) -> list[Tensor]:
    """Hidden states at real steps, zero elsewhere, and the gradients of tables, weight and bias."""
    rows = Rows(rows.first.to(device), rows.length.to(device), rows.n_steps)
    leaves = [value.to(device, dtype).requires_grad_() for value in values]
    on_device = index[0].to(device), index[1].to(device)
    hidden = recurrence(name, rows, on_device, (leaves[0], leaves[1]), leaves[2], leaves[3])
    real = torch.nn.functional.pad(rows.mask, (1, 0)).unsqueeze(-1)
    gradients = torch.autograd.grad((hidden * target.to(device, dtype) * real).sum(), leaves)
    return [hidden.detach() * real, *gradients]


def compare(name: str, H: int, n_right: int) -> None:
    given = problem(name, H, n_right)
    torch.set_default_dtype(torch.float64)
    try:
        wanted = run(name, *given, CPU, torch.float64)
    finally:
        torch.set_default_dtype(torch.float32)
    found = run(name, *given, DEVICE, torch.float32)
    for what, one, other in zip(("hidden", "left", "right", "weight", "bias"), found, wanted, strict=True):
        close(one, other, SINGLE, what)


@cuda(triton=True, H=[16, 32, 64, 128], n_right=[5, 90])
def test_the_kernels_of_the_tanh_recurrence(H: int, n_right: int) -> None:
    """Forward and backward; a small right table gets its gradient by a product, a large one by additions."""
    compare("rnn", H, n_right)


@cuda(triton=True, H=[16, 32, 64], n_right=[5, 90])
def test_the_kernels_of_the_gated_recurrence(H: int, n_right: int) -> None:
    """As above, for the cell that recurrent switching has by default."""
    compare("gru", H, n_right)


@cuda(triton=True)
def test_the_kernels_leave_padding_at_zero() -> None:
    from prism_irl.switching import triton_kernels

    rows, index, (left, right, weight, _), _ = problem("rnn", 16, 5)
    on = [x.to(DEVICE).contiguous() for x in (rows.first, rows.length)]
    tables = left.float().to(DEVICE), right.float().to(DEVICE)
    given = (*on, tuple(i.to(DEVICE) for i in index), tables, weight.float().to(DEVICE))
    hidden = triton_kernels.rnn_forward(*given, rows.n_steps).to(CPU)
    padding = ~torch.nn.functional.pad(rows.mask, (1, 0))
    assert (hidden[padding] == 0).all()


@cuda(name=["rnn", "gru", "lstm"], H=[5, 32])
def test_the_loop_of_batched_products(name: str, H: int) -> None:
    with without_triton():
        compare(name, H, 90)


@cuda(name=["rnn", "gru", "lstm", "transformer"], interaction=[False, True])
def test_history_networks(name: str, interaction: bool) -> None:
    """Outputs and gradients of a network over a ragged batch."""
    demos = ragged(0)
    torch.manual_seed(0)
    options = {"n_states": 7, "n_actions": 3, "n_observations": 0, "n_outputs": 4, "embedding": 8, "hidden": 16}
    network = HistoryNetwork(name, observe="past", interaction=interaction, **options)
    target = torch.randn(len(demos), int(demos.lengths.max()), 4)
    results = []
    for device in (DEVICE, CPU):
        network.to(device).zero_grad(set_to_none=True)
        batch = pad_batch(demos, np.arange(len(demos)), device)
        with exact_products():
            outputs = network(batch) * batch.mask.unsqueeze(-1)
            (outputs * target.to(device)).sum().backward()
        gradients = {key: value.grad.to(CPU) for key, value in network.named_parameters() if value.grad is not None}
        results.append((outputs.detach().to(CPU), gradients))
    (found, gradients), (wanted, others) = results
    close(found, wanted, NETWORK)
    assert gradients.keys() == others.keys()
    for key, gradient in gradients.items():
        close(gradient, others[key], NETWORK, key)
