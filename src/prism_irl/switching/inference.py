"""Beliefs and statistics of a chain over intentions, by the fastest exact path at hand.

On a CPU the two passes run compiled, in scaled probability space (`kernel`): straight from and into the flat
layout of the data (`infer_flat`, `expected_counts`, where None stands for "not here"), or over padded
batches (`infer`). On a GPU with Triton it is one program per trajectory. Everywhere else, and where scaling would
underflow, `forward_backward` does the same in log space with torch. All give the same numbers (tested).
`PRISM_BACKEND=torch` forces the reference.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

import numba
import numpy as np

from prism_irl.arrays import FloatArray, IntArray
from prism_irl.data.batching import Prepared, Stats
from prism_irl.switching import inference_kernel as compiled
from prism_irl.switching.base import BatchPosterior, Counted, Posterior

if TYPE_CHECKING:  # a chain that only counts is fitted, asked and simulated without torch, whose import takes longer
    import torch
    from torch import Tensor


class FlatBeliefs(NamedTuple):
    """Where the passes write: (n, K), (n, K), (n, K), (n,) and (n, K, K), of which what nobody asked for is empty."""

    predicted: FloatArray
    filtered: FloatArray
    smoothed: FloatArray
    log_likelihood: FloatArray
    pairwise: FloatArray

    @classmethod
    def room(cls, n: int, K: int, *, online: bool, pairwise: bool = False) -> FlatBeliefs:
        """Room for n steps."""
        asked = n if online else 0
        pairs = np.zeros((n if pairwise else 0, K, K))  # first steps are never written
        return cls(np.empty((asked, K)), np.empty((asked, K)), np.empty((n, K)), np.empty(n), pairs)


def is_compiled() -> bool:
    """Whether nobody has asked for the reference (``PRISM_BACKEND=torch``)."""
    return os.environ.get("PRISM_BACKEND") != "torch"


def infer_flat(
    log_initial: FloatArray, log_kernel: FloatArray, log_emission: FloatArray, offsets: IntArray, *, online: bool = True
) -> Posterior | None:
    """Beliefs of a chain, from ``log_initial`` (K,) and one kernel (K, K), or one for every step (n, K, K).

    ``log_emission`` (n, K); trajectory i is rows offsets[i] to offsets[i + 1]; the kernel of a first step is never
    read. Without ``online`` the predicted and filtered beliefs are empty, which saves half of the memory that is
    written, and where the kernel varies the pairwise posteriors (n, K, K), which M-steps read, come instead.
    """
    if not is_compiled():
        return None
    first, lengths = np.asarray(offsets[:-1], dtype=np.int64), np.diff(offsets).astype(np.int64)
    varies, kernel = log_kernel.ndim == 3, np.exp(log_kernel)
    out = FlatBeliefs.room(*log_emission.shape, online=online, pairwise=varies and not online)
    kernels = (kernel, first, 1) if varies else (kernel[None], np.zeros_like(first), 0)
    transitions = passes(np.exp(log_initial), kernels, log_emission, (first, lengths), out)
    if transitions is None:
        return None
    pairs = out.pairwise if len(out.pairwise) else None
    return Posterior(out.smoothed, out.predicted, out.filtered, out.log_likelihood, transitions, pairwise=pairs)


def passes(
    initial: FloatArray,
    kernels: tuple[FloatArray, IntArray, int],
    log_emission: FloatArray,
    rows: tuple[IntArray, IntArray],
    out: FlatBeliefs,
) -> FloatArray | None:
    """Run the compiled passes into ``out``; Σ pairwise posteriors (K, K), or None where a step underflows.

    Emissions are made where smoothed probabilities will be, also in rows of no trajectory: each is read before it is
    written, and one array less is fresh.
    ``kernels``: probabilities (m, K, K), the row of each trajectory's first step among them, and how many rows a step
    goes on by: 1, or 0 where one kernel is for all steps.
    """
    K = log_emission.shape[-1]
    transitions = np.zeros((len(rows[0]), K, K))
    begin, kernel = np.ascontiguousarray(initial.reshape(-1, K)), np.ascontiguousarray(kernels[0])

    def run(logs: FloatArray) -> bool:
        with np.errstate(over="ignore"):  # of a density in many dimensions; what is not finite is refused below
            emissions = np.exp(logs, out=out.smoothed, dtype=np.float64)
        given = (begin, kernel, *kernels[1:], emissions, *rows)
        beliefs = (out.predicted, out.filtered, out.smoothed, out.log_likelihood, transitions, out.pairwise)
        return bool(compiled.forward_backward(tuple(range(K)), given, beliefs))

    impossible = None
    if not run(log_emission):
        # An action that is impossible under every intention says nothing about the intention (`reference.possible`).
        impossible = np.asarray(np.isneginf(log_emission).all(-1))
        if not (impossible.any() and run(np.where(impossible[:, None], 0.0, log_emission))):
            return None
    np.log(out.log_likelihood, out=out.log_likelihood)
    if impossible is not None:
        out.log_likelihood[impossible] = -np.inf
    return np.asarray(transitions.sum(0))


def expected_counts(initial: FloatArray, kernel: FloatArray, table: FloatArray, data: Prepared) -> Counted | None:
    """Expected counts of a chain with one constant kernel (K, K) over a table of policies (P, K).

    None also where there are too few trajectories to run side by side: then `infer_flat` has the answer.
    """
    demos = data.demos
    if not is_compiled() or demos.n_trajectories < compiled.LANES or data.last_pair >= len(table):
        return None
    K, order = len(initial), data.longest_first
    groups = -(-demos.n_trajectories // compiled.LANES)
    # Every part has counts of its own, which together may take as much memory as the steps themselves.
    parts = max(1, min(compiled.PARTS, groups, demos.n_steps // len(table)))
    sums = (np.zeros((parts, K)), np.zeros((parts, K, K)), np.zeros((parts, *table.shape)), np.zeros((parts, 1)))
    rows = (demos.offsets[:-1][order].astype(np.int64), demos.lengths[order].astype(np.int64))
    given = (initial, kernel, table, data.pairs)
    if not compiled.expected_counts(tuple(range(K)), given, rows, sums, numba.get_num_threads()):
        return None
    begun, moves, choices, likelihood = (values.sum(0) for values in sums)
    return Counted(Stats(initial=begun, transitions=moves), choices, float(likelihood[0]))


def use_compiled(device: torch.device) -> bool:
    """Whether compiled kernels are to be used."""
    return device.type == "cpu" and is_compiled()


def infer(
    log_initial: Tensor, log_kernel: Tensor, log_emission: Tensor, mask: Tensor, *, pairwise: bool = False
) -> BatchPosterior:
    """Both passes; shapes as in `forward_backward`, ``pairwise`` asks for the posteriors of all pairs."""
    import torch

    from prism_irl.switching.forward_backward import forward_backward

    log_initial, log_kernel, log_emission = (one.detach() for one in (log_initial, log_kernel, log_emission))
    if use_compiled(mask.device):
        found = _compiled(log_initial, log_kernel, log_emission, mask, pairwise)
        if found is not None:
            return found
    if use_triton(mask.device) and not torch.isneginf(log_emission).all(-1).any():
        found = _on_gpu(log_initial, log_kernel, log_emission, mask, pairwise)
        if torch.isfinite(found.log_likelihood).all():
            return found
    result = forward_backward(log_initial.double(), log_kernel.double(), log_emission.double(), mask)
    predicted, filtered, smoothed, likelihood, pairs = result
    beliefs = smoothed.exp(), predicted.exp(), filtered.exp(), likelihood, pairs.sum((0, 1))
    return BatchPosterior(*beliefs, pairs if pairwise else None)


def use_triton(device: torch.device) -> bool:
    """Whether Triton's kernels are to be used."""
    import torch

    there = device.type == "cuda" and torch.version.hip is None and find_spec("triton") is not None
    return there and is_compiled()


def _on_gpu(
    log_initial: Tensor, log_kernel: Tensor, log_emission: Tensor, mask: Tensor, pairwise: bool
) -> BatchPosterior:
    """One program per trajectory (`triton_kernels`), instead of a launch per step."""
    import torch

    from prism_irl.switching import triton_kernels

    K = log_emission.shape[-1]
    if log_initial.dim() > 1:  # the same for all trajectories in every chain there is
        log_initial = log_initial[0]
    initial = log_initial.double().exp().reshape(1, K)
    beliefs = triton_kernels.forward_backward(
        initial, log_kernel.double().exp()[None], log_emission.double()[None], mask.sum(1, dtype=torch.int32)[None]
    )
    predicted, filtered, smoothed, likelihood, pairs = (values[0] for values in beliefs)
    return BatchPosterior(smoothed, predicted, filtered, likelihood, pairs.sum((0, 1)), pairs if pairwise else None)


def _compiled(
    log_initial: Tensor, log_kernel: Tensor, log_emission: Tensor, mask: Tensor, pairwise: bool
) -> BatchPosterior | None:
    """Compiled passes over a padded batch; None where a step's probability underflows."""
    import torch

    B, T, K = log_emission.shape
    rows = np.arange(B) * T
    constant = log_kernel.stride(0) == 0 and log_kernel.stride(1) == 0 and not pairwise  # comes as an expanded view
    kernel = (log_kernel[:1, :1] if constant else log_kernel).double().exp().reshape(-1, K, K).numpy()
    out = FlatBeliefs.room(B * T, K, online=True, pairwise=pairwise)
    for values in (out.predicted, out.filtered):
        values.fill(0.0)
    out.log_likelihood.fill(1.0)
    transitions = passes(
        log_initial.double().exp().numpy(),
        (kernel, np.zeros_like(rows), 0) if constant else (kernel, rows, 1),
        log_emission.double().reshape(-1, K).numpy(),
        (rows, mask.sum(1).numpy()),
        out,
    )
    if transitions is None:
        return None
    predicted, filtered, smoothed, likelihood = (
        torch.from_numpy(values).view(B, T, *values.shape[1:]) for values in out[:4]
    )
    likelihood.masked_fill_(~mask, 0.0)
    smoothed.masked_fill_(~mask.unsqueeze(-1), 0.0)
    pairs = torch.from_numpy(out.pairwise).view(B, T, K, K) if pairwise else None
    return BatchPosterior(smoothed, predicted, filtered, likelihood, torch.from_numpy(transitions), pairs)


def responsibilities(logits: Tensor, log_emission: Tensor) -> tuple[Tensor, Tensor]:
    """Eq. (posterior) of a gate: w ∝ softmax(logits) · exp(log_emission), (…, K), and the log-likelihood, (…).

    Both in double precision. An action that is impossible under every intention says nothing about the intention.
    """
    import torch

    from prism_irl.switching.forward_backward import possible

    logits, log_emission = logits.detach(), log_emission.detach()
    evidence, impossible = possible(log_emission)
    joint = torch.log_softmax(logits.double(), dim=-1) + evidence
    likelihood = torch.logsumexp(joint, dim=-1)
    weights = (joint - likelihood.unsqueeze(-1)).exp()
    return weights, likelihood.masked_fill_(impossible, -torch.inf)
