"""Individuals: what an animal does more or less often than all animals do, whatever it wants at the moment.

An individual effect is a factor per animal g, short context c (the last two states) and action,

    π_k(a | c, g) ∝ π_k(a | c) ρ_g(a | c),    ρ_g(a | c) = (N_g(c, a) + m q_g(a|c) b_g(a)) / (E_g(c, a) + m q_g(a|c)),

where N counts what the animal did, E what a habit of all animals expected of it at the same steps, q = E / ΣE, and b is
ρ of all contexts together, shrunk towards 1: an animal that turns left more often does so where it is new, too. Each
expectation leaves its own step out of the habit's counts; else the habit, which has seen the step, would expect too
much of it. All intentions of an animal share its effect: few numbers, so that little data identifies them. A new animal
has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prism_irl import checked, storage
from prism_irl.arrays import FloatArray, IntArray
from prism_irl.data.batching import Prepared
from prism_irl.data.contexts import Contexts
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.rewards.tabular import TabularPolicies, normalise

DEPTH = 2
"""States of the contexts in which animals may differ: with longer ones few steps are left per animal."""
STRENGTHS = (4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0)
"""Strengths m that validation trajectories choose among."""
DEFAULT_STRENGTH = 64.0


class Met(NamedTuple):
    """What occurs in some data: U different places (context, individual), and P different choices at them.

    ``rows`` (U,) and ``factors`` (U, A) of the places; ``pairs`` (P,) context row * A + action, ``place`` (P,) and
    ``taken`` (P,), the factor of the action, of the choices; ``steps`` (n,) the choice of every step.
    """

    rows: IntArray
    factors: FloatArray
    pairs: IntArray
    place: IntArray
    taken: FloatArray
    steps: IntArray


@dataclass(frozen=True, eq=False)
class Accents:
    """Individual effects of a fit.

    Parameters
    ----------
    names : individuals, sorted
    cells : (C + 1,), short context of every context row; the number of them for a state that the fit never named
    factors : (G, cells, A), ρ; 1 where an individual was never seen
    strength : m
    """

    names: tuple[str, ...]
    cells: IntArray
    factors: FloatArray
    strength: float

    def who(self, demos: Demonstrations) -> IntArray:
        """Individual of each trajectory, (N,), an index of `names`; -1 for one that the fit has not met."""
        if demos.groups is None:
            return np.full(demos.n_trajectories, -1)
        names, wanted = np.array(self.names), demos.groups.astype(str)
        at = np.minimum(np.searchsorted(names, wanted), len(names) - 1)
        return np.where(names[at] == wanted, at, -1)

    def at(self, rows: npt.NDArray[np.integer[Any]], who: IntArray) -> FloatArray:
        """ρ of context rows (n,) and individuals (n,), (n, A)."""
        G, n_cells, A = self.factors.shape
        table = np.concatenate([self.factors.reshape(-1, A), np.ones((1, A))])
        cell = self.cells[rows]
        known = (who >= 0) & (cell < n_cells)
        return np.asarray(table[np.where(known, who * n_cells + cell, G * n_cells)])

    def along(self, data: Prepared) -> FloatArray:
        """ρ of every step, (n, A)."""
        return self.at(data.rows, np.repeat(self.who(data.demos), data.demos.lengths))

    def met(self, data: Prepared) -> Met:
        """The different places and choices of the data; found once, because EM asks in every iteration."""
        kept: tuple[Accents, Met] | None = data.__dict__.get("met")
        if kept is None or kept[0] is not self:
            G, A = len(self.names) + 1, data.demos.n_actions
            who = np.repeat(self.who(data.demos), data.demos.lengths)
            places, at = np.unique(data.rows.astype(np.int64) * G + who + 1, return_inverse=True)
            choices, steps = np.unique(at * A + data.demos.actions, return_inverse=True)
            rows, place, action = places // G, choices // A, choices % A
            factors = self.at(rows, places % G - 1)
            kept = self, Met(rows, factors, rows[place] * A + action, place, factors[place, action], steps)
            data.__dict__["met"] = kept
        return kept[1]

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Arrays that, with the names and the strength, determine the effects."""
        return {"cells": self.cells, "factors": self.factors}

    def info(self) -> dict[str, Any]:
        """Names and strength."""
        return {"individuals": list(self.names), "own_strength": self.strength}


def load_accents(tensors: Mapping[str, Any], info: Mapping[str, Any], size: tuple[int, int]) -> Accents | None:
    """The individual effects of a saved model with (contexts, actions), if it has any."""
    if "individuals" not in info:
        return None
    arrays = {name: value.numpy() for name, value in storage.part("accents", tensors).items()}
    names, (n_contexts, n_actions) = tuple(map(str, info["individuals"])), size
    accents = Accents(names, arrays["cells"], arrays["factors"], float(info["own_strength"]))
    checked.shape("places of the accents", accents.cells, (n_contexts + 1,))
    n_cells = accents.factors.shape[1] if accents.factors.ndim == 3 else 0
    checked.shape("accents", accents.factors, (len(accents.names), n_cells, n_actions))
    checked.ids("places of the accents", accents.cells, n_cells + 1)
    if not (accents.factors >= 0).all():
        raise InputError("The saved individual effects are negative; restore the file or fit again.")
    return accents


def find_accents(
    demos: Demonstrations,
    parts: tuple[Demonstrations, Demonstrations | None],
    contexts: Contexts,
    *,
    smoothing: float,
    backoff: float,
    strength: float | None = None,
    all_data: bool = True,
) -> Accents:
    """Individual effects of the groups of all training data, with the strength that predicts validation data best.

    ``parts`` are training and validation trajectories of it (or None); the second ones choose the ``strength``, unless
    it was chosen already. ``smoothing`` and ``backoff`` are those of the habit that effects are deviations from. With
    ``all_data`` all are counted in the end; where validation trajectories have more to decide they must not be, since a
    model whose effects know them predicts them too well, and what they choose is worth nothing.
    """
    if demos.groups is None:
        raise InputError("Individuals need groups; name the column that tells the animal (--group).")
    train, validation = parts
    grouped = train.groups is not None  # a single trajectory is cut, and has no groups then
    if strength is None and validation is not None and grouped:
        first = _Counted(train, contexts, smoothing, backoff)
        data = Prepared.of(validation, contexts)
        habit = first.table.policies_at(data.rows)[:, 0]
        taken = np.arange(validation.n_steps), validation.actions

        def score(candidate: float) -> float:
            weights = habit * first.accents(candidate).along(data)
            with np.errstate(divide="ignore"):
                return float(np.log(weights[taken] / weights.sum(1)).mean())

        strength = max(STRENGTHS, key=score)
    counted = _Counted(demos if all_data or not grouped else train, contexts, smoothing, backoff)
    return counted.accents(DEFAULT_STRENGTH if strength is None else strength)


class _Counted:
    """What every individual did, and what a habit of all of them expected."""

    def __init__(self, demos: Demonstrations, contexts: Contexts, smoothing: float, backoff: float) -> None:
        settings = {"smoothing": smoothing, "backoff": backoff}
        self.table = TabularPolicies(1, demos.n_actions, contexts, demos.valid_actions, **settings)
        data = Prepared.of(demos, contexts)
        self.table.m_step(data, np.ones((demos.n_steps, 1)))
        self.cells, n_cells = short_contexts(contexts)
        assert demos.groups is not None
        names, who = np.unique(demos.groups.astype(str), return_inverse=True)
        self.names = tuple(str(name) for name in names)
        A = demos.n_actions
        place = np.repeat(who, demos.lengths) * n_cells + self.cells[data.rows]
        shape = len(names), n_cells, A
        self.seen = np.bincount(place * A + demos.actions, minlength=int(np.prod(shape))).reshape(shape)
        expected = leave_one_out(self.table, data)
        columns = [np.bincount(place, expected[:, a], minlength=shape[0] * n_cells) for a in range(A)]
        self.expected = np.stack(columns, axis=1).reshape(shape)

    def accents(self, strength: float) -> Accents:
        """ρ for one strength m."""
        total = self.expected.sum(-1, keepdims=True)
        prior = strength * self.expected / np.where(total > 0, total, 1.0)
        of_animal = self.expected.sum(1, keepdims=True)
        few = strength * of_animal / np.maximum(of_animal.sum(-1, keepdims=True), 1e-300)
        bias = (self.seen.sum(1, keepdims=True) + few) / np.maximum(of_animal + few, 1e-300)
        bias = np.where(of_animal > 0, bias, 1.0)
        below = self.expected + prior
        everywhere = np.broadcast_to(bias, below.shape).copy()
        factors = np.divide(self.seen + prior * bias, below, out=everywhere, where=below > 0)
        return Accents(self.names, self.cells, factors, strength)


def short_contexts(contexts: Contexts) -> tuple[IntArray, int]:
    """Row of every context cut to `DEPTH` states, (C + 1,), and how many such rows there are."""
    starts = contexts.starts
    n_cells = starts[min(DEPTH, contexts.length)]
    cells = np.arange(contexts.n_contexts + 1)
    for level in range(DEPTH, contexts.length):
        cells[starts[level] : starts[level + 1]] = cells[contexts.parents[level - 1]]
    cells[-1] = n_cells
    return cells, n_cells


def leave_one_out(table: TabularPolicies, data: Prepared) -> FloatArray:
    """p(a | c_t) of a table of one intention when step t itself is not counted, (n, A)."""
    contexts, A = table.contexts, table.n_actions
    own = np.zeros((data.demos.n_steps, A))
    own[np.arange(len(own)), data.demos.actions] = 1.0
    counts, starts = table.counts[0], contexts.starts
    chain = [data.rows.astype(np.int64)]  # rows of the context of each step, from the longest to the state alone
    for level in range(contexts.length - 1, 0, -1):
        rows = chain[-1].copy()
        deep = rows >= starts[level]
        rows[deep] = contexts.parents[level - 1][rows[deep] - starts[level]]
        chain.append(rows)
    states = chain[-1]
    uniform = table.uniform[states]
    found = normalise(counts[states] - own + table.smoothing * table.valid[states], uniform)
    for level in range(1, contexts.length):
        rows = chain[contexts.length - 1 - level]
        deep = rows >= starts[level]  # a step with a shorter past has no row here
        left = counts[rows[deep]] - own[deep]
        found[deep] = normalise(left + table.backoff * found[deep], found[deep])
    return found
