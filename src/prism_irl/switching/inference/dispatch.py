"""Beliefs of a chain over intentions, by the fastest exact path at hand.

On a CPU with numba the two passes run compiled, in scaled probability space, one thread per trajectory, or per
sixteen trajectories side by side where the kernel is constant; on a GPU with Triton one program per trajectory.
Everywhere else, and where scaling would underflow, `forward_backward` does the same in log space with torch. All give
the same numbers (tested). `PRISM_BACKEND=torch` forces the reference.
"""

from __future__ import annotations

import os
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from prism_irl.data.batching import Batch, Prepared
from prism_irl.switching.base import Counts
from prism_irl.switching.inference.reference import forward_backward, possible

try:
    from prism_irl.switching.inference import compiled, counted, lanes
except ImportError:  # numba is an extra
    compiled = counted = lanes = None  # type: ignore[assignment]

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


class ChainBeliefs(NamedTuple):
    """Probabilities (not logs) of one padded batch; see `forward_backward.ChainPosterior`.

    ``predicted``, ``filtered``, ``smoothed`` (B, T, K); ``log_likelihood`` (B, T), zero at padding;
    ``transitions`` (K, K), the sum of the pairwise posteriors; ``pairwise`` (B, T, K, K) or None.
    """

    predicted: Tensor
    filtered: Tensor
    smoothed: Tensor
    log_likelihood: Tensor
    transitions: Tensor
    pairwise: Tensor | None


def use_compiled(device: torch.device) -> bool:
    """Whether compiled kernels are to be used."""
    return compiled is not None and device.type == "cpu" and os.environ.get("PRISM_BACKEND") != "torch"


@torch.no_grad()
def infer(
    log_initial: Tensor, log_kernel: Tensor, log_emission: Tensor, mask: Tensor, *, pairwise: bool = False
) -> ChainBeliefs:
    """Both passes; shapes as in `forward_backward`, ``pairwise`` asks for the posteriors of all pairs."""
    if use_compiled(mask.device):
        found = _compiled(log_initial, log_kernel, log_emission, mask, pairwise)
        if found is not None:
            return found
    if use_triton(mask.device) and not torch.isneginf(log_emission).all(-1).any():
        found = _on_gpu(log_initial, log_kernel, log_emission, mask, pairwise)
        if torch.isfinite(found.log_likelihood).all():
            return found
    result = forward_backward(log_initial.double(), log_kernel.double(), log_emission.double(), mask)
    return ChainBeliefs(
        result.predicted.exp(),
        result.filtered.exp(),
        result.smoothed.exp(),
        result.log_likelihood,
        result.pairwise.sum((0, 1)),
        result.pairwise if pairwise else None,
    )


@cache
def _has_triton() -> bool:
    try:
        import triton  # noqa: F401
    except ImportError:  # comes with torch for CUDA
        return False
    return torch.version.hip is None


def use_triton(device: torch.device) -> bool:
    """Whether Triton's kernels are to be used."""
    return device.type == "cuda" and _has_triton() and os.environ.get("PRISM_BACKEND") != "torch"


def _on_gpu(
    log_initial: Tensor, log_kernel: Tensor, log_emission: Tensor, mask: Tensor, pairwise: bool
) -> ChainBeliefs:
    """One program per trajectory (`triton_kernels`), instead of a launch per step."""
    from prism_irl.switching.inference import triton_kernels

    K = log_emission.shape[-1]
    if log_initial.dim() > 1:  # the same for all trajectories in every chain there is
        log_initial = log_initial[0]
    initial = log_initial.double().exp().reshape(1, K)
    beliefs = triton_kernels.forward_backward(
        initial, log_kernel.double().exp()[None], log_emission.double()[None], mask.sum(1, dtype=torch.int32)[None]
    )
    predicted, filtered, smoothed, likelihood, pairs = (values[0] for values in beliefs)
    return ChainBeliefs(predicted, filtered, smoothed, likelihood, pairs.sum((0, 1)), pairs if pairwise else None)


def _compiled(
    log_initial: Tensor, log_kernel: Tensor, log_emission: Tensor, mask: Tensor, pairwise: bool
) -> ChainBeliefs | None:
    """Compiled passes over a padded batch; None where a step's probability underflows."""
    B, T, K = log_emission.shape
    rows = np.arange(B) * T
    constant = log_kernel.stride(0) == 0 and log_kernel.stride(1) == 0 and not pairwise  # comes as an expanded view
    kernel = (log_kernel[:1, :1] if constant else log_kernel).double().exp().reshape(-1, K, K)
    out = [torch.zeros(B, T, K, dtype=torch.float64) for _ in range(3)]
    likelihood = torch.ones(B, T, dtype=torch.float64)
    pairs = torch.zeros((B, T, K, K) if pairwise else (0, 0, K, K), dtype=torch.float64)
    transitions = _passes(
        log_initial,
        kernel,
        (np.zeros_like(rows), 0) if constant else (rows, 1),
        log_emission.reshape(-1, K),
        (rows, mask.sum(1).numpy()),
        [*(o.view(-1, K) for o in out), likelihood.view(-1), pairs.view(-1, K, K)],
    )
    if transitions is None:
        return None
    likelihood.masked_fill_(~mask, 0.0)
    return ChainBeliefs(out[0], out[1], out[2], likelihood, transitions, pairs if pairwise else None)


def _passes(
    log_initial: Tensor,
    kernel: Tensor,
    kernel_rows: tuple[IntArray, int],
    log_emission: Tensor,
    rows: tuple[IntArray, IntArray],
    out: list[Tensor],
) -> Tensor | None:
    """Run the compiled passes into ``out``; Σ pairwise posteriors (K, K), or None where a step underflows."""
    K, B = log_emission.shape[-1], len(rows[0])
    *beliefs, pairwise = (o.numpy() for o in out)
    transitions = np.zeros((B, K, K))
    initial = log_initial.double().reshape(-1, K).exp().contiguous().numpy()

    def run(emission: Tensor) -> bool:
        given = (initial, kernel.contiguous().numpy(), *kernel_rows, emission.view(-1).numpy(), *rows)
        return bool(compiled.forward_backward(tuple(range(K)), given, (*beliefs, transitions, pairwise)))

    log_emission = log_emission.double().contiguous()
    if not run(log_emission):
        evidence, impossible = possible(log_emission)
        if not (impossible.any() and run(evidence)):
            return None
        out[3].masked_fill_(impossible, -torch.inf)
    return torch.from_numpy(transitions.sum(0))


@torch.no_grad()
def infer_flat(
    log_initial: Tensor,
    log_kernel: Tensor,
    log_emission: Tensor,
    offsets: IntArray,
    *,
    online: bool = True,
    longest_first: IntArray | None = None,
) -> ChainBeliefs | None:
    """Beliefs of a chain with one constant kernel (K, K), straight from and into the flat layout.

    ``log_emission`` (n, K); trajectory i is rows offsets[i] to offsets[i + 1], and ``longest_first`` their order by
    length where the caller knows it. Beliefs are (n, K) and (n,); without ``online`` the predicted and filtered ones
    are empty, which saves half of the memory that is written and lets trajectories run side by side. None where there
    is no compiled path or a step underflows: then `infer` on padded batches gives the answer.
    """
    if not use_compiled(log_emission.device):
        return None
    n, K = log_emission.shape
    first, lengths = np.asarray(offsets[:-1], dtype=np.int64), np.diff(offsets).astype(np.int64)
    sizes = (n if online else 0, n if online else 0, n)
    out = [torch.empty(size, K, dtype=torch.float64) for size in sizes] + [torch.empty(n, dtype=torch.float64)]
    kernel, transitions = log_kernel.double().exp(), None
    if not online and len(first) >= lanes.LANES:  # fewer would leave lanes empty
        order = np.argsort(-lengths, kind="stable") if longest_first is None else longest_first
        rows = (first[order], lengths[order])
        transitions = _side_by_side(log_initial, kernel, log_emission, rows, out[2:])
    if transitions is None:
        rows = (first, lengths)
        out.append(torch.empty(0, K, K, dtype=torch.float64))
        transitions = _passes(log_initial, kernel.unsqueeze(0), (np.zeros_like(first), 0), log_emission, rows, out)
    return None if transitions is None else ChainBeliefs(out[0], out[1], out[2], out[3], transitions, None)


@torch.no_grad()
def infer_steps(
    log_initial: Tensor, kernel: Tensor, log_emission: Tensor, offsets: IntArray, *, online: bool = True
) -> ChainBeliefs | None:
    """The same for a chain with a kernel of its own at every step, probabilities (n, K, K), as the data lie.

    That of a first step is never read. Without ``online`` the pairwise posteriors (n, K, K) take the place of what
    filtering needs: M-steps read them.
    """
    if not use_compiled(log_emission.device):
        return None
    n, K = log_emission.shape
    first, lengths = np.asarray(offsets[:-1], dtype=np.int64), np.diff(offsets).astype(np.int64)
    sizes = (n if online else 0, n if online else 0, n)
    out = [torch.empty(size, K, dtype=torch.float64) for size in sizes] + [torch.empty(n, dtype=torch.float64)]
    pairs = torch.zeros(0 if online else n, K, K, dtype=torch.float64)
    transitions = _passes(log_initial, kernel, (first, 1), log_emission, (first, lengths), [*out, pairs])
    if transitions is None:
        return None
    return ChainBeliefs(out[0], out[1], out[2], out[3], transitions, None if online else pairs)


def _side_by_side(
    log_initial: Tensor, kernel: Tensor, log_emission: Tensor, rows: tuple[IntArray, IntArray], out: list[Tensor]
) -> Tensor | None:
    """Run the passes of many trajectories at once into ``out``; Σ pairwise posteriors, or None on underflow."""
    import numba

    K = log_emission.shape[-1]
    transitions = np.empty((min(numba.get_num_threads(), -(-len(rows[0]) // lanes.LANES)), K, K))
    emission = log_emission.double().contiguous().view(-1)
    given = (log_initial.double().exp().numpy(), kernel.contiguous().numpy(), emission.numpy())
    beliefs = tuple(o.view(-1).numpy() for o in out)
    fine = lanes.forward_backward(tuple(range(K)), given, rows, beliefs, transitions)
    return torch.from_numpy(transitions.sum(0)) if fine else None


def expected_counts(initial: FloatArray, kernel: FloatArray, table: FloatArray, data: Prepared) -> Counts | None:
    """Expected counts of a chain with one constant kernel (K, K) over a table of policies (P, K).

    None where there is no compiled path, where there are too few trajectories to run side by side, or where a step
    underflows: then `infer_flat` of the emissions gives the answer.
    """
    demos = data.demos
    if not use_compiled(torch.device("cpu")) or demos.n_trajectories < lanes.LANES or data.last_pair >= len(table):
        return None
    K, order = len(initial), data.longest_first
    groups = -(-demos.n_trajectories // lanes.LANES)
    # Every part has counts of its own, which together may take as much memory as the steps themselves.
    parts = max(1, min(counted.PARTS, groups, demos.n_steps // len(table)))
    out = (np.zeros((parts, K)), np.zeros((parts, K, K)), np.zeros((parts, *table.shape)), np.zeros((parts, 1)))
    rows = (demos.offsets[:-1][order].astype(np.int64), demos.lengths[order].astype(np.int64))
    if not counted.expected_counts(tuple(range(K)), (initial, kernel, table, data.pairs), rows, out):
        return None
    begun, moves, choices, likelihood = (values.sum(0) for values in out)
    return Counts(begun, moves, choices, float(likelihood[0]) / demos.n_steps)


@torch.no_grad()
def responsibilities(logits: Tensor, log_emission: Tensor) -> tuple[Tensor, Tensor]:
    """Eq. (posterior) of a gate: w ∝ softmax(logits) · exp(log_emission), (…, K), and the log-likelihood, (…).

    Both in double precision. An action that is impossible under every intention says nothing about the intention.
    """
    evidence, impossible = possible(log_emission)
    if use_compiled(logits.device):
        K = logits.shape[-1]
        weights = torch.empty(logits.shape, dtype=torch.float64)
        likelihood = torch.empty(logits.shape[:-1], dtype=torch.float64)
        arrays = [values.reshape(-1, K).numpy() for values in (logits, evidence.double(), weights)]
        arrays.append(likelihood.view(-1).numpy())
        compiled.responsibilities(*arrays)
    else:
        joint = torch.log_softmax(logits.double(), dim=-1) + evidence
        likelihood = torch.logsumexp(joint, dim=-1)
        weights = (joint - likelihood.unsqueeze(-1)).exp()
    return weights, likelihood.masked_fill_(impossible, -torch.inf)


def gate_gradient(
    logits: Tensor,
    batch: Batch,
    log_emission: Tensor,
    weights: Tensor,
    likelihood: Tensor,
    l1: float,
    kl: float,
    fresh: bool,
) -> Tensor:
    """Eq. (posterior) of a minibatch and the gradient of Eq. (loss) with respect to its logits, in one compiled pass.

    Parameters
    ----------
    logits : (B, T, K), float32
    batch : Batch
    log_emission : (n, K) of all steps, float64
    weights, likelihood : (n, K) and (n,), float64; written at the steps of the batch when ``fresh``, else read
    l1, kl : penalties of `gate.gate_loss`

    Returns
    -------
    (B, T, K), float32, zero at padding
    """
    gradient = torch.zeros(logits.shape)
    padded = tuple(values.numpy() for values in (logits, batch.mask.sum(1), batch.steps))
    flat = tuple(values.numpy() for values in (log_emission, weights, likelihood))
    compiled.gate_gradient(padded, flat, gradient.numpy(), (l1, kl, fresh))
    return gradient
