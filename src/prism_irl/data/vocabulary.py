"""Vocabularies: which id stands for which state, action or intention.

Integers are ids already; text, booleans, integers with wide gaps and the few levels of a number (a contrast of -0.5 and
0.5) are labels that get an id each. A vocabulary is saved with a model and reads new data the same way.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from prism_irl.errors import InputError

LEVELS = 50
"""A column of states or actions with at most so many different numbers holds levels, not measurements."""
LEVEL = re.compile(r"-?[0-9.]+(e[-+]?[0-9]+)?")

Array: TypeAlias = npt.NDArray[Any]
Where: TypeAlias = Callable[[int], str]
"""Says in words where a row or step is."""


@dataclass(frozen=True)
class Vocabulary:
    """The set of states, actions or intentions: integer ids as they are (``names=None``), or one name per id."""

    names: tuple[str, ...] | None
    size: int

    def __post_init__(self) -> None:
        n_names = self.size if self.names is None else len(self.names)
        if self.size < 1 or n_names != self.size:
            raise InputError(f"A vocabulary of {self.size} ids cannot have {n_names} names; give one name per id.")
        if self.names is not None and len(set(self.names)) < self.size:
            twice = pd.Series(self.names)[pd.Series(self.names).duplicated()].iloc[0]
            raise InputError(f"The name {twice!r} stands for two ids; make the names different.")

    @classmethod
    def learn(cls, values: Any, what: str = "id", where: Where = "row {}".format) -> Self:
        """Take integers as ids; text, booleans and integers with wide gaps as labels, sorted."""
        found = distinct(values, what, where).values
        if found.dtype == object:
            names: list[str] = sorted(set(found.tolist()))
            if all(LEVEL.fullmatch(name) for name in names) and not all(name.isdigit() for name in names):
                names.sort(key=float)
        elif int(found.max()) + 1 <= 2 * len(found) + 1000:
            return cls(None, int(found.max()) + 1)
        else:  # numbers of nodes on a map, say: a table over every integer would be nearly all empty
            names = [str(value) for value in np.sort(found).tolist()]
        return cls(tuple(names), len(names))

    def encode(
        self, values: Any, what: str = "id", where: Where = "row {}".format, unknown: str = "error"
    ) -> npt.NDArray[np.int64]:
        """Ids (n,) of values; one that is not known is an error, or gets the id ``size`` (``unknown="new"``)."""
        codes, found = distinct(values, what, where)
        if self.names is not None:
            ids = pd.Index(self.names, dtype=object).get_indexer(pd.Index([str(v) for v in found], dtype=object))
        else:
            numbers = pd.to_numeric(pd.Series(found), errors="coerce").to_numpy()  # a stray word makes a column text
            known = (numbers >= 0) & (numbers < self.size) & (np.floor(numbers) == numbers)
            ids = np.full(len(numbers), -1, dtype=np.int64)
            ids[known] = numbers[known].astype(np.int64)  # the others may be no integers of 64 bits
        ids = np.where(ids < 0, self.size, ids)
        if unknown == "error" and (ids == self.size).any():
            row = int(np.argmax(ids[codes] == self.size))
            there = f"ids 0 to {self.size - 1}" if self.names is None else ", ".join(self.names[:10])
            more = ", …" if self.names is not None and self.size > 10 else ""
            allow = ", or allow unknown states (unknown_state=True, --unknown-state)" if what == "state" else ""
            raise InputError(
                f"The {what} {found[codes[row]]} at {where(row)} is not one of the {self.size} known {what}s "
                f"({there}{more}); correct it{allow}{in_all(int((ids[codes] == self.size).sum()))}."
            )
        return np.asarray(ids[codes], dtype=np.int64)

    def to_json(self) -> dict[str, Any]:
        """Return what `from_json` reads."""
        return {"names": None if self.names is None else list(self.names), "size": self.size}

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Rebuild what `to_json` returned; anything else is an error."""
        match value:
            case {"names": None, "size": int(size)}:
                return cls(None, size)
            case {"names": [*names], "size": int(size)} if all(isinstance(name, str) for name in names):
                return cls(tuple(names), size)
        raise InputError("A vocabulary in the model file is damaged; restore the file or fit again.")

    def is_text(self) -> bool:
        """Whether CSV cells must stay text to match: 01 is not 1 when a name is '01'."""
        return self.names is not None and not all(re.fullmatch("0|[1-9][0-9]*|True|False", n) for n in self.names)


class Distinct(NamedTuple):
    """Which distinct value each row holds, (n,), and these values: whole numbers (uint64) or labels (str in object)."""

    codes: npt.NDArray[np.intp]
    values: Array


def distinct(values: Any, what: str, where: Where) -> Distinct:
    """Find the distinct values of a column; many fractions, one negative number and missing cells are errors."""
    if isinstance(values, Distinct):
        return values
    codes, found = factorize(pd.Series(values), what, where)
    if pd.api.types.is_float_dtype(found.dtype):
        numbers = found.to_numpy(dtype=np.float64)
    elif pd.api.types.is_integer_dtype(found.dtype):
        numbers = found.to_numpy(dtype=np.int64 if found.min() < 0 else np.uint64)
    else:
        return Distinct(codes, np.array([str(value) for value in found], dtype=object))
    if what in ("state", "action") and _are_levels(numbers):
        return Distinct(codes, np.array([f"{value + 0.0:.15g}" for value in numbers.tolist()], dtype=object))
    for fine, problem in (
        (
            (np.floor(numbers) == numbers) & (np.abs(numbers) < 2.0**64),
            f"is not a whole number; name continuous columns with --observe and --act, or discretise the {what}s first",
        ),
        (numbers >= 0, f"is negative; ids run from 0, so renumber the {what}s or use names"),
    ):
        if not fine.all():
            row = int(np.argmin(fine[codes]))
            count = in_all(int((~fine)[codes].sum()))
            raise InputError(f"The {what} {numbers[codes[row]]} at {where(row)} {problem}{count}.")
    return Distinct(codes, numbers.astype(np.uint64))


def _are_levels(numbers: Array) -> bool:
    """Whether numbers that are no ids are levels: a lone -1 or 2.5 among ids is a mistake, contrasts are not."""
    odd = int(((numbers < 0) | (np.floor(numbers) != numbers)).sum())
    low, high = float(numbers.min()), float(numbers.max())
    small = high <= 1 and low in (-high, 0)
    return len(numbers) <= LEVELS and bool(np.isfinite(numbers).all()) and (odd > 1 or (odd == 1 and small))


def factorize(values: pd.Series[Any], what: str, where: Where) -> tuple[npt.NDArray[np.intp], pd.Series[Any]]:
    """Which distinct value each row holds, (n,), and these values in order of appearance; none may be missing."""
    if isinstance(values.dtype, pd.CategoricalDtype):  # its values are what its categories are: numbers stay numbers
        values = values.astype(values.cat.categories.dtype) if not values.hasnans else values.astype(object)
    try:
        codes, found = pd.factorize(values.infer_objects())
    except TypeError:
        raise InputError(f"The {what} at {where(0)} is a list or another object; give numbers or text.") from None
    if (codes < 0).any():
        raise missing(what, where(int(np.argmin(codes))), int((codes < 0).sum()))
    return codes, pd.Series(found)


def whole_numbers(values: pd.Series[Any]) -> pd.Series[Any]:
    """Integers where floats are all whole, and fit: what they were before empty cells beside them made them floats."""
    if values.dtype.kind != "f" or not ((np.floor(values) == values) & (np.abs(values) < 2.0**63)).all():
        return values
    return values.astype(np.int64)


def missing(what: str, place: str, count: int = 1) -> InputError:
    """Return the error of the first of so many empty cells."""
    return InputError(f"The {what} at {place} is missing; fill it in or remove that row{in_all(count)}.")


def in_all(count: int) -> str:
    """How many rows have the same problem, for the end of a sentence about the first of them."""
    return "" if count == 1 else f" ({count:,} such rows in all)"
