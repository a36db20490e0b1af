"""Contexts: the last few states as one index, or as observations, so that a policy can remember a little.

A context of length l at step t is (s_{t-l+1}, …, s_t). Only contexts that occur in the data they were fitted on get
a row; a step whose context is unknown falls back to its longest known suffix. Contexts form a tree: dropping the
oldest state of a context gives its parent, which is what back-off policies shrink towards. Continuous data are given
their last steps as observations (`with_memory`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError

Reads = Literal["states", "actions", "both"]
READS: tuple[Reads, ...] = ("states", "actions", "both")


def levels_of(length: int, reads: Reads) -> int:
    """Length of the contexts that see the last ``length`` steps, the present one included."""
    return 2 * length - 1 if reads == "both" else length


def reveals_actions(demos: Demonstrations) -> bool:
    """Whether any two states in a row occur with one action between them, so that a memory of states knows it."""
    before = np.flatnonzero(~demos.first_steps) - 1
    s, a = demos.states.astype(np.int64), demos.actions.astype(np.int64)
    pairs = s[before] * demos.n_states + s[before + 1]
    return len(np.unique(pairs * demos.n_actions + a[before])) == len(np.unique(pairs))


@dataclass(frozen=True, eq=False)
class Contexts:
    """Tree of the histories of length 1..L that occur.

    Rows are ordered by length: rows 0..S-1 are the states themselves (all of them, seen or not), then the contexts
    of length 2, and so on.

    Parameters
    ----------
    parents, oldest : tuples of (C_l,) int64
        For l = 2..L: the row of the parent (length l - 1) and the oldest symbol of each context of length l.
    n_actions : int
        Needed where contexts hold actions.
    reads : {"states", "actions", "both"}
        What a context is made of besides the present state.
    """

    n_states: int
    parents: tuple[npt.NDArray[np.int64], ...] = ()
    oldest: tuple[npt.NDArray[np.int64], ...] = ()
    n_actions: int = 0
    reads: Reads = "states"

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

    @property
    def _width(self) -> int:
        """Size of the larger alphabet."""
        return max(self.n_states, self.n_actions)

    def _is_action(self, level: int) -> bool:
        """Whether symbol ``level`` ≥ 2 of a context is an action."""
        return self.reads == "actions" or (self.reads == "both" and level % 2 == 0)

    def cut(self, length: int) -> Contexts:
        """The same tree up to contexts of this length."""
        return replace(self, parents=self.parents[: length - 1], oldest=self.oldest[: length - 1])

    @classmethod
    def fit(cls, demos: Demonstrations, length: int, reads: Reads = "states") -> Contexts:
        """Collect the contexts of length 1..``length`` that occur in ``demos``."""
        if length < 1:
            raise InputError(f"The history length must be at least 1 (the current state alone), not {length}.")
        contexts = cls(demos.n_states) if reads == "states" else cls(demos.n_states, (), (), demos.n_actions, reads)
        if length == 1:
            return contexts
        windows, width = contexts.windows(demos, length), contexts._width
        for level in range(2, length + 1):
            rows = contexts.lookup(windows)
            complete = (windows[:, level - 1] >= 0) & (rows >= contexts.starts[-2]) & (rows < contexts.n_contexts)
            parents, oldest = np.divmod(np.unique(rows[complete] * width + windows[complete, level - 1]), width)
            contexts = replace(contexts, parents=(*contexts.parents, parents), oldest=(*contexts.oldest, oldest))
        return contexts

    def state(self) -> dict[str, npt.NDArray[np.int64]]:
        """Arrays that, with the number of states, determine the tree."""
        parents = {f"parents_{level}": rows for level, rows in enumerate(self.parents)}
        symbols = {} if self.reads == "states" else {"symbols": np.array([READS.index(self.reads), self.n_actions])}
        return parents | {f"oldest_{level}": rows for level, rows in enumerate(self.oldest)} | symbols

    @classmethod
    def from_state(cls, n_states: int, state: Mapping[str, npt.NDArray[np.int64]]) -> Contexts:
        """Undo `state`; a tree with rows that are not there, or not in order, is refused."""
        levels = range(len(state) // 2)
        parents = tuple(state[f"parents_{level}"] for level in levels)
        reads, n_actions = (int(number) for number in state.get("symbols", (0, 0)))
        if not (0 <= reads < len(READS) and n_actions >= 0):
            raise InputError("The saved histories are damaged; restore the file.")
        symbols = tuple(state[f"oldest_{level}"] for level in levels)
        contexts = cls(n_states, parents, symbols, n_actions, READS[reads])
        for level, (rows, oldest) in enumerate(zip(contexts.parents, contexts.oldest, strict=True)):
            first, last = contexts.starts[level : level + 2]
            whole = rows.ndim == 1 and rows.shape == oldest.shape and rows.dtype == oldest.dtype == np.int64
            if not whole or (
                rows.size
                and not (
                    (first <= rows.min() and rows.max() < last)
                    and (oldest.min() >= 0 and oldest.max() < contexts._alphabet(level + 2))
                    and (np.diff(rows * contexts._width + oldest) > 0).all()
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
        return self.lookup(self.windows(demos, self.length))

    def _alphabet(self, level: int) -> int:
        """Number of different symbols at one level."""
        return self.n_actions if self._is_action(level) else self.n_states

    def windows(self, demos: Demonstrations, length: int) -> npt.NDArray[np.int64]:
        """The ``length`` newest symbols of every step, newest first, -1 before the first one, (n, length)."""
        windows = np.full((demos.n_steps, length), -1, dtype=np.int64)
        position = demos.step_index
        for column in range(length):
            age = -(-column // 2) if self.reads == "both" else column
            there = np.flatnonzero(position >= age)
            symbols = demos.actions if column and self._is_action(column + 1) else demos.states
            windows[there, column] = symbols[there - age]
        return windows

    def push(self, recent: npt.NDArray[np.int64], states: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Windows (B, L) after entering ``states`` (B,): whatever was newest is followed by `took` before that."""
        if self.reads == "states":
            return np.concatenate([states[:, None], recent[:, :-1]], axis=1)
        return np.concatenate([states[:, None], recent[:, 1:]], axis=1)

    def took(self, recent: npt.NDArray[np.int64], actions: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Windows (B, L) after choosing ``actions`` (B,), before the next state is entered."""
        if self.reads == "states":
            return recent
        older = recent if self.reads == "both" else recent[:, 1:]  # both: a place for the state that is entered next
        return np.concatenate([recent[:, :1], actions[:, None], older], axis=1)[:, : recent.shape[1]]

    def lookup(self, windows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Row of the longest known context of each window (n, l) of symbols, newest first, -1 before the first step."""
        rows = np.where((windows[:, 0] >= 0) & (windows[:, 0] < self.n_states), windows[:, 0], self.unknown)
        extended = rows < self.n_states  # an unknown context has no known extension
        for level in range(2, min(self.length, windows.shape[1]) + 1):
            known = self.parents[level - 2] * self._width + self.oldest[level - 2]
            symbols = windows[:, level - 1]
            steps = np.flatnonzero(extended & (symbols >= 0) & (symbols < self._alphabet(level)))
            if not len(known):
                break
            keys = rows[steps] * self._width + symbols[steps]
            at = np.minimum(np.searchsorted(known, keys), len(known) - 1)
            found = known[at] == keys
            rows[steps[found]] = self.starts[level - 1] + at[found]
            extended = np.zeros_like(extended)
            extended[steps[found]] = True
        return rows


# -- continuous data ---------------------------------------------------------------------------------------------------


def with_memory(demos: Demonstrations, steps: int) -> Demonstrations:
    """The same commands, with what was observed and done in the last steps among the observations."""
    assert demos.observations is not None
    assert demos.motions is not None
    x, since = demos.observations, demos.step_index
    past = np.concatenate([x, demos.motions, np.ones((len(x), 1), np.float32)], axis=1).astype(np.float32)
    parts = [x]
    for lag in range(1, steps + 1):
        before = past[np.maximum(np.arange(len(x)) - lag, 0)]
        parts.append(np.where((since >= lag)[:, None], before, np.float32(0.0)))
    return replace(demos, observations=np.concatenate(parts, axis=1), observation_names=None)
