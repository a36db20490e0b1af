"""Which steps some trajectories have, and some trajectories in the place of many.

What needs no more than a good sample (where a start begins, what an intention wants, the pictures of a page) reads so
many steps of large data and no more: its time and memory do not grow with the data.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from prism_irl.data.demonstrations import Demonstrations

IntArray = npt.NDArray[np.int64]


def steps_of(offsets: IntArray, trajectories: IntArray) -> IntArray:
    """Flat steps of some trajectories, one after the other, where trajectory i is ``offsets[i]:offsets[i + 1]``."""
    lengths = offsets[trajectories + 1] - offsets[trajectories]
    begins = np.cumsum(lengths) - lengths
    steps = np.repeat(offsets[trajectories] - begins, lengths)
    steps += np.arange(len(steps))
    return steps


def parts_of(demos: Demonstrations, most: int, among: IntArray | None = None) -> Iterator[tuple[slice, Any]]:
    """Demonstrations of the trajectories in their order, at most so many steps at a time (or one trajectory).

    With each part comes where its steps lie among those of all trajectories, or of those in ``among`` (m,).
    """
    index = np.arange(len(demos)) if among is None else among
    offsets = np.concatenate([[0], np.cumsum(demos.lengths[index])])
    for first, last in cuts(offsets, most):
        part = between(demos, first, last) if among is None else demos.subset(index[first:last])
        yield slice(int(offsets[first]), int(offsets[last])), part


def between(demos: Demonstrations, first: int, last: int) -> Any:
    """Trajectories ``first`` to ``last − 1``: what lies together is neither copied nor checked again."""
    part, begin, end = copy(demos), int(demos.offsets[first]), int(demos.offsets[last])
    rows = dict.fromkeys(demos.per_step, slice(begin, end)) | dict.fromkeys(demos.per_trajectory, slice(first, last))
    views = {name: getattr(demos, name)[own] for name, own in rows.items() if getattr(demos, name) is not None}
    for name, values in {**views, "offsets": demos.offsets[first : last + 1] - begin}.items():
        object.__setattr__(part, name, values)
    return part


def cuts(offsets: IntArray, most: int) -> Iterator[tuple[int, int]]:
    """First and one past the last trajectory of parts of at most so many steps (or of one trajectory)."""
    first = 0
    while first < len(offsets) - 1:
        fits = int(np.searchsorted(offsets, offsets[first] + most, side="right")) - 1
        first, begun = max(fits, first + 1), first
        yield begun, first


def some_trajectories(demos: Demonstrations, most: int, seed: int, among: IntArray | None = None) -> IntArray:
    """Trajectories of about ``most`` steps, at least one, drawn at random and in their order; all where they are few.

    Those in which somebody knows an intention come first: a sample without them would know nothing.

    Parameters
    ----------
    among : (m,) int64, optional
        Draw among these trajectories.
    """
    index = np.arange(len(demos)) if among is None else among
    lengths = demos.lengths[index]
    if int(lengths.sum()) <= most:
        return index
    order = np.random.default_rng(seed).permutation(len(index))
    if demos.partial_labels is not None:
        told = np.maximum.reduceat(demos.partial_labels, demos.offsets[:-1])[index] >= 0
        order = order[np.argsort(~told[order], kind="stable")]
    enough = int(np.searchsorted(np.cumsum(lengths[order]), most)) + 1
    return index[np.sort(order[:enough])]
