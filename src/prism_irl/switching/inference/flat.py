"""Beliefs of a chain straight from and into the flat layout of the data, compiled; needs numba, and no torch.

A chain that only counts (`switching.markov`) is fitted, asked and simulated through this file alone: importing torch
takes longer than such a fit. None stands for "not here": there is no compiled path, or a step underflows, and
`switching.inference.dispatch` on padded batches, in log space where it must be, gives the answer.
"""

from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from prism_irl.core.stats import Stats
from prism_irl.data.batching import Prepared
from prism_irl.switching.base import Counted, Posterior

try:
    from prism_irl.switching.inference import compiled, counted, lanes
except ImportError:  # numba is an extra
    compiled = counted = lanes = None  # type: ignore[assignment]

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


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

    def posterior(self, transitions: FloatArray) -> Posterior:
        """As EM reads them."""
        pairs = self.pairwise if len(self.pairwise) else None
        return Posterior(self.smoothed, self.predicted, self.filtered, self.log_likelihood, transitions, pairwise=pairs)


def is_compiled() -> bool:
    """Whether compiled kernels are there, and nobody has asked for the reference (``PRISM_BACKEND=torch``)."""
    return compiled is not None and os.environ.get("PRISM_BACKEND") != "torch"


def infer_flat(
    log_initial: FloatArray,
    log_kernel: FloatArray,
    log_emission: FloatArray,
    offsets: IntArray,
    *,
    online: bool = True,
    longest_first: IntArray | None = None,
) -> Posterior | None:
    """Beliefs of a chain with one constant kernel; ``log_initial`` (K,) and ``log_kernel`` (K, K).

    ``log_emission`` (n, K); trajectory i is rows offsets[i] to offsets[i + 1], and ``longest_first`` their order by
    length where the caller knows it. Without ``online`` the predicted and filtered beliefs are empty, which saves half
    of the memory that is written and lets trajectories run side by side.
    """
    if not is_compiled():
        return None
    first, lengths = _rows(offsets)
    out = FlatBeliefs.room(*log_emission.shape, online=online)
    initial, kernel, transitions = np.exp(log_initial), np.exp(log_kernel), None
    if not online and len(first) >= lanes.LANES:  # fewer would leave lanes empty
        order = np.argsort(-lengths, kind="stable") if longest_first is None else longest_first
        transitions = _side_by_side(initial, kernel, log_emission, (first[order], lengths[order]), out)
    if transitions is None:
        kernels = (kernel[None], np.zeros_like(first), 0)
        transitions = passes(initial, kernels, log_emission, (first, lengths), out)
    return None if transitions is None else out.posterior(transitions)


def infer_steps(
    log_initial: FloatArray, kernel: FloatArray, log_emission: FloatArray, offsets: IntArray, *, online: bool = True
) -> Posterior | None:
    """The same for a chain with a kernel of its own at every step, probabilities (n, K, K), as the data lie.

    That of a first step is never read. Without ``online`` the pairwise posteriors (n, K, K) come instead of what
    filtering needs: M-steps read them.
    """
    if not is_compiled():
        return None
    first, lengths = _rows(offsets)
    out = FlatBeliefs.room(*log_emission.shape, online=online, pairwise=not online)
    transitions = passes(np.exp(log_initial), (kernel, first, 1), log_emission, (first, lengths), out)
    return None if transitions is None else out.posterior(transitions)


def _rows(offsets: IntArray) -> tuple[IntArray, IntArray]:
    """First step and length of every trajectory."""
    return np.asarray(offsets[:-1], dtype=np.int64), np.diff(offsets).astype(np.int64)


def passes(
    initial: FloatArray,
    kernels: tuple[FloatArray, IntArray, int],
    log_emission: FloatArray,
    rows: tuple[IntArray, IntArray],
    out: FlatBeliefs,
) -> FloatArray | None:
    """Run the compiled passes into ``out``; Σ pairwise posteriors (K, K), or None where a step underflows.

    ``kernels``: probabilities (m, K, K), the row of each trajectory's first step among them, and how many rows a step
    goes on by: 1, or 0 where one kernel is for all steps.
    """
    K = log_emission.shape[-1]
    transitions = np.zeros((len(rows[0]), K, K))
    begin, kernel = np.ascontiguousarray(initial.reshape(-1, K)), np.ascontiguousarray(kernels[0])

    def run(emission: FloatArray) -> bool:
        given = (begin, kernel, *kernels[1:], emission.reshape(-1), *rows)
        beliefs = (out.predicted, out.filtered, out.smoothed, out.log_likelihood, transitions, out.pairwise)
        return bool(compiled.forward_backward(tuple(range(K)), given, beliefs))

    log_emission = np.ascontiguousarray(log_emission, dtype=np.float64)
    if not run(log_emission):
        # An action that is impossible under every intention says nothing about the intention (`reference.possible`).
        impossible = np.asarray(np.isneginf(log_emission).all(-1))
        if not (impossible.any() and run(np.where(impossible[:, None], 0.0, log_emission))):
            return None
        out.log_likelihood[impossible] = -np.inf
    return np.asarray(transitions.sum(0))


def _side_by_side(
    initial: FloatArray,
    kernel: FloatArray,
    log_emission: FloatArray,
    rows: tuple[IntArray, IntArray],
    out: FlatBeliefs,
) -> FloatArray | None:
    """Run the passes of many trajectories at once into ``out``; Σ pairwise posteriors, or None on underflow."""
    import numba

    K = log_emission.shape[-1]
    transitions = np.empty((min(numba.get_num_threads(), -(-len(rows[0]) // lanes.LANES)), K, K))
    emission = np.ascontiguousarray(log_emission, dtype=np.float64).reshape(-1)
    given = (np.ascontiguousarray(initial), np.ascontiguousarray(kernel), emission)
    beliefs = (out.smoothed.reshape(-1), out.log_likelihood)
    fine = lanes.forward_backward(tuple(range(K)), given, rows, beliefs, transitions)
    return np.asarray(transitions.sum(0)) if fine else None


def expected_counts(initial: FloatArray, kernel: FloatArray, table: FloatArray, data: Prepared) -> Counted | None:
    """Expected counts of a chain with one constant kernel (K, K) over a table of policies (P, K).

    None also where there are too few trajectories to run side by side: then `infer_flat` of the emissions gives the
    answer.
    """
    demos = data.demos
    if not is_compiled() or demos.n_trajectories < lanes.LANES or data.last_pair >= len(table):
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
    return Counted(Stats(initial=begun, transitions=moves), choices, float(likelihood[0]))
