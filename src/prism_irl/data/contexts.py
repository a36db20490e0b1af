"""Contexts: the last few states as one index, so that a policy can remember a little.

A context of length l at step t is (s_{t-l+1}, …, s_t). Only contexts that occur in the data they were fitted on get
a row; a step whose context is unknown falls back to its longest known suffix. Contexts form a tree: dropping the
oldest state of a context gives its parent, which is what back-off policies shrink towards.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError


@dataclass(frozen=True, eq=False)
class Contexts:
    """Tree of the state histories of length 1..L that occur.

    Rows are ordered by length: rows 0..S-1 are the states themselves (all of them, seen or not), then the contexts
    of length 2, and so on. With ``length=1`` a context is a state and nothing changes.

    Parameters
    ----------
    n_states : int
    parents : tuple of (C_l,) int64
        For l = 2..L: the row of the parent (length l - 1) of each context of length l.
    oldest : tuple of (C_l,) int64
        For l = 2..L: the oldest state of each context of length l.
    """

    n_states: int
    parents: tuple[npt.NDArray[np.int64], ...] = ()
    oldest: tuple[npt.NDArray[np.int64], ...] = ()

    @property
    def length(self) -> int:
        """Longest history L."""
        return len(self.parents) + 1

    @property
    def starts(self) -> tuple[int, ...]:
        """First row of each length 1..L, and the number of rows at the end."""
        return tuple(np.cumsum([0, self.n_states, *(len(p) for p in self.parents)]).tolist())

    @property
    def n_contexts(self) -> int:
        """Number of rows C of all lengths together."""
        return self.starts[-1]

    @property
    def unknown(self) -> int:
        """The id of a step in a state that was never named: one past the last row."""
        return self.n_contexts

    @property
    def current_state(self) -> npt.NDArray[np.int64]:
        """The newest state of every context, (C,)."""
        state = np.arange(self.n_contexts)
        for level, parents in enumerate(self.parents, start=1):
            state[self.starts[level] : self.starts[level + 1]] = state[parents]
        return state

    @classmethod
    def fit(cls, demos: Demonstrations, length: int) -> Contexts:
        """Collect the contexts of length 1..``length`` that occur in ``demos``."""
        if length < 1:
            raise InputError(f"The history length must be at least 1 (the current state alone), not {length}.")
        contexts = cls(demos.n_states)
        if length == 1:
            return contexts
        windows = _windows(demos, length)
        for level in range(2, length + 1):
            rows = contexts.lookup(windows)
            complete = (windows[:, level - 1] >= 0) & (rows < contexts.n_contexts)
            keys = np.unique(rows[complete] * demos.n_states + windows[complete, level - 1])
            contexts = cls(
                demos.n_states,
                (*contexts.parents, keys // demos.n_states),
                (*contexts.oldest, keys % demos.n_states),
            )
        return contexts

    def state(self) -> dict[str, npt.NDArray[np.int64]]:
        """Arrays that, with the number of states, determine the tree."""
        parents = {f"parents_{level}": rows for level, rows in enumerate(self.parents)}
        return {**parents, **{f"oldest_{level}": rows for level, rows in enumerate(self.oldest)}}

    @classmethod
    def from_state(cls, n_states: int, state: Mapping[str, npt.NDArray[np.int64]]) -> Contexts:
        """Undo `state`; a tree with rows that are not there, or not in order, is refused."""
        levels = range(len(state) // 2)
        parents = tuple(state[f"parents_{level}"] for level in levels)
        contexts = cls(n_states, parents, tuple(state[f"oldest_{level}"] for level in levels))
        for level, (rows, oldest) in enumerate(zip(contexts.parents, contexts.oldest, strict=True)):
            first, last = contexts.starts[level : level + 2]
            whole = rows.ndim == 1 and rows.shape == oldest.shape and rows.dtype == oldest.dtype == np.int64
            if not whole or (
                rows.size
                and not (
                    (first <= rows.min() and rows.max() < last)
                    and (oldest.min() >= 0 and oldest.max() < n_states)
                    and (np.diff(rows * n_states + oldest) > 0).all()
                )
            ):
                raise InputError(f"The saved histories of {level + 2} states are damaged; restore the file.")
        return contexts

    def encode(self, demos: Demonstrations) -> npt.NDArray[np.int64]:
        """Row of the longest known context at every step, (n,); `unknown` for states outside 0..S-1."""
        if self.length == 1:  # large data is read once, without windows
            rows = demos.states.astype(np.int64)
            rows[rows >= self.n_states] = self.unknown
            return rows
        return self.lookup(_windows(demos, self.length))

    def lookup(self, windows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Row of the longest known context of each window of recent states.

        Parameters
        ----------
        windows : (n, l) int64
            Recent states, newest first; -1 where the trajectory had not begun.
        """
        rows = np.where((windows[:, 0] >= 0) & (windows[:, 0] < self.n_states), windows[:, 0], self.unknown)
        extended = rows < self.n_states  # an unknown context has no known extension
        for level in range(2, min(self.length, windows.shape[1]) + 1):
            known = self.parents[level - 2] * self.n_states + self.oldest[level - 2]
            steps = np.flatnonzero(extended & (windows[:, level - 1] >= 0) & (windows[:, level - 1] < self.n_states))
            if not len(known):
                break
            keys = rows[steps] * self.n_states + windows[steps, level - 1]
            at = np.minimum(np.searchsorted(known, keys), len(known) - 1)
            found = known[at] == keys
            rows[steps[found]] = self.starts[level - 1] + at[found]
            extended = np.zeros_like(extended)
            extended[steps[found]] = True
        return rows


def _windows(demos: Demonstrations, length: int) -> npt.NDArray[np.int64]:
    """The last ``length`` states of every step, newest first, -1 before the first one, (n, length)."""
    windows = np.full((demos.n_steps, length), -1, dtype=np.int64)
    position = demos.step_index
    for age in range(length):
        there = np.flatnonzero(position >= age)
        windows[there, age] = demos.states[there - age]
    return windows
