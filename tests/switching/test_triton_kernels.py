"""Inference on a GPU against `switching.forward_backward` on the CPU."""

from __future__ import annotations

from contextlib import nullcontext

import torch

from cuda_support import CPU, DEVICE, close, cuda, without_triton
from prism_irl.switching.forward_backward import forward_backward, viterbi
from prism_irl.switching.inference import infer, responsibilities

TOLERANCE = 1e-10  # double precision, in probabilities instead of logarithms


def chains(K: int, lengths: list[list[int]], seed: int = 0):
    """Log initial (F, K), log kernel (F, B, T, K, K), log emission (F, B, T, K) and lengths (F, B), on the CPU."""
    generator = torch.Generator().manual_seed(seed)
    length = torch.tensor(lengths, dtype=torch.int32)
    (F, B), T = length.shape, int(length.max())

    def logs(*shape: int) -> torch.Tensor:
        return torch.log_softmax(2 * torch.randn(*shape, generator=generator, dtype=torch.float64), -1)

    return logs(F, K), logs(F, B, T, K, K), 3 * torch.randn(F, B, T, K, generator=generator).double() - 2, length


def mask_of(length: torch.Tensor, T: int) -> torch.Tensor:
    return torch.arange(T) < length.unsqueeze(-1)


@cuda(triton=True, K=[1, 2, 3, 5, 8])
def test_the_kernel_equals_the_reference_for_each_fit(K: int) -> None:
    from prism_irl.switching import triton_kernels

    initial, kernel, emission, length = chains(K, [[17, 1, 9, 0, 4], [2, 17, 17, 5, 1], [0, 0, 3, 0, 0]])
    on = [x.to(DEVICE) for x in (initial.exp(), kernel.exp(), emission, length)]
    found = triton_kernels.forward_backward(*on)
    for f in range(len(length)):
        mask = mask_of(length[f], emission.shape[2])
        wanted = forward_backward(initial[f], kernel[f], emission[f], mask)
        real = mask.unsqueeze(-1)
        close(found.log_likelihood[f], wanted.log_likelihood, TOLERANCE, "log-likelihood")
        close(found.pairwise[f], wanted.pairwise, TOLERANCE, "pairwise")
        for name in ("predicted", "filtered", "smoothed"):  # zero at padding
            close(getattr(found, name)[f], getattr(wanted, name).exp() * real, TOLERANCE, name)


def compare(initial, kernel, emission, mask, *, pairwise: bool = True) -> None:
    """`infer` on the device against both passes in log space on the CPU, at real steps."""
    found = infer(*(x.to(DEVICE) for x in (initial, kernel, emission, mask)), pairwise=pairwise)
    wanted = forward_backward(initial, kernel, emission, mask)
    assert found.responsibilities.device.type == DEVICE.type
    for name, wanted_name in (("predicted",) * 2, ("filtered",) * 2, ("responsibilities", "smoothed")):
        close(getattr(found, name).to(CPU)[mask], getattr(wanted, wanted_name).exp()[mask], TOLERANCE, name)
    likelihood = found.log_likelihood.to(CPU)
    assert torch.equal(torch.isneginf(likelihood), torch.isneginf(wanted.log_likelihood))
    close(likelihood.nan_to_num(), wanted.log_likelihood.nan_to_num(), TOLERANCE, "log-likelihood")
    close(found.transitions, wanted.pairwise.sum((0, 1)), TOLERANCE, "transitions")
    if pairwise:
        close(found.pairwise, wanted.pairwise, TOLERANCE, "pairwise")
    else:
        assert found.pairwise is None


@cuda(K=[1, 2, 3, 5], constant=[False, True])
def test_infer(K: int, constant: bool) -> None:
    initial, kernel, emission, length = chains(K, [[12, 7, 1, 12, 3]])
    kernel = kernel[0, :1, :1].expand_as(kernel[0]) if constant else kernel[0]
    compare(initial[0], kernel, emission[0], mask_of(length[0], 12), pairwise=not constant)


@cuda(ruled_out=["by one intention", "by all"], triton_on=[True, False])
def test_infer_with_impossible_actions(ruled_out: str, triton_on: bool) -> None:
    initial, kernel, emission, length = chains(3, [[9, 6, 4]])
    emission[0, 0, 3, 1] = -torch.inf
    if ruled_out == "by all":  # says nothing about the intention
        emission[0, 1, 2] = -torch.inf
    with nullcontext() if triton_on else without_triton():
        compare(initial[0], kernel[0], emission[0], mask_of(length[0], 9))


@cuda()
def test_infer_over_long_trajectories_of_densities() -> None:
    """Log-densities far from zero: neither their products nor a single exponential may under- or overflow."""
    initial, kernel, emission, length = chains(2, [[600, 450]], seed=3)
    shift = torch.linspace(-900.0, 900.0, 600, dtype=torch.float64).view(1, -1, 1)
    compare(initial[0], kernel[0], emission[0] + shift, mask_of(length[0], 600))


@cuda()
def test_the_most_probable_path() -> None:
    initial, kernel, emission, length = chains(3, [[14, 9, 2, 1]])
    arguments = (initial[0], kernel[0], emission[0], mask_of(length[0], 14))
    found = viterbi(*(x.to(DEVICE) for x in arguments)).to(CPU)
    assert torch.equal(found[arguments[-1]], viterbi(*arguments)[arguments[-1]])


@cuda()
def test_responsibilities_of_a_gate() -> None:
    _, _, emission, _ = chains(3, [[8, 8]])
    emission[0, 0, 2] = -torch.inf
    logits = torch.randn(emission.shape, generator=torch.Generator().manual_seed(1))
    found = responsibilities(logits.to(DEVICE), emission.to(DEVICE))
    joint = torch.log_softmax(logits.double(), -1) + emission.masked_fill(torch.isneginf(emission), 0.0)
    close(found[0], torch.softmax(joint, -1), TOLERANCE)
    wanted = torch.logsumexp(joint, -1)
    assert found[1][0, 0, 2] == -torch.inf
    found[1][0, 0, 2] = wanted[0, 0, 2]
    close(found[1], wanted, TOLERANCE)
