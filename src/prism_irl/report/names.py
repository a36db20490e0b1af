"""Names that people give to intentions: saved by the report's page, put beside a run by `prism names`.

The file is ``{"names": ["seek water", "go home"]}``, one name per intention in the order of their numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from prism_irl import storage
from prism_irl.checked import BROKEN
from prism_irl.errors import InputError, brief

if TYPE_CHECKING:
    import pandas as pd

FILE = "names.json"
MAX_NAME = 80  # characters


def default_names(n_intentions: int) -> list[str]:
    """Return what intentions are called before anybody names them."""
    return [f"intention {k}" for k in range(n_intentions)]


def told_names(words: Sequence[str] | None, n_intentions: int) -> list[str] | None:
    """What K intentions are called by the partial labels of a fit, where there are any and they can be names."""
    if words is None or len(words) > n_intentions:
        return None
    try:
        return check_names([*words, *default_names(n_intentions)[len(words) :]], n_intentions, "--labels")
    except InputError:  # too long, or one of them is called as an intention that nobody has named
        return None


def place_name(state: int, states: Sequence[str] | None) -> str:
    """What a state is called."""
    return str(states[state]) if states and state < len(states) else f"state {state}"


def write_names(folder: Path, names: Sequence[str]) -> None:
    """Put names beside a run."""
    storage.write_json(folder / FILE, {"names": list(names)})


def read_names(path: Path, n_intentions: int) -> list[str]:
    """Return the names in a file; anything but K different names is an `InputError`."""
    if not path.is_file():
        raise InputError(f"There is no file {path}; export the names from the page report.html of the run.")
    match storage.read_json(path):
        case {"names": [*names]} if all(isinstance(name, str) for name in names):
            return check_names(names, n_intentions, str(path))
        case _:
            raise InputError(f'{path} does not hold names; it should look like {{"names": ["first", "second"]}}.')


def names_in(run: Path, n_intentions: int) -> list[str] | None:
    """Return the names that somebody gave the intentions of a run, where anybody has."""
    return read_names(run / FILE, n_intentions) if (run / FILE).is_file() else None


def check_names(names: Sequence[str], n_intentions: int, where: str) -> list[str]:
    """Return K different names without spaces around them; anything else is an `InputError` that says ``where``."""
    found = [str(name).strip() for name in names]
    if len(found) != n_intentions:
        raise InputError(f"{where} has {len(found)} names for {n_intentions} intentions; give one for each.")
    for k, name in enumerate(found):
        if not name or len(name) > MAX_NAME or not name.isprintable():
            raise InputError(f"The name of intention {k} in {where} is empty or longer than {MAX_NAME} characters.")
        if name in found[:k]:
            raise InputError(
                f"Intentions {found.index(name)} and {k} are both called {name!r} in {where}; tell them apart."
            )
    return found


SEGMENTS = "segments.parquet"
ALIKE = 0.5  # less than this, and a name does not follow


def segmentation(run: Path) -> tuple[pd.DataFrame, npt.NDArray[np.float64]]:
    """Rows of the data of a run without what the fit added, and the probabilities of its intentions, (n, K)."""
    if not (run / SEGMENTS).is_file():
        raise InputError(f"{run} has no {SEGMENTS}; give the folder of a fit.")
    try:
        from prism_irl.data.files import read_table_file  # here, because pages and figures need no tables

        n = int(storage.read_object(run / "metrics.json")["n_intentions"])
        return split(read_table_file(run / SEGMENTS), n)
    except BROKEN as error:
        raise InputError(
            f"{run} holds no segmentation that can be compared ({brief(error)}); give the folder of a fit."
        ) from None


def split(segments: pd.DataFrame, n_intentions: int) -> tuple[pd.DataFrame, npt.NDArray[np.float64]]:
    """The data of a segmented table, and its last columns, the probabilities of intentions, (n, K)."""
    found = segments.iloc[:, -n_intentions:].to_numpy(np.float64)
    if found.shape[1] != n_intentions or not np.isfinite(found).all():
        raise ValueError("its last columns are no probabilities")
    return segments.iloc[:, : -n_intentions - 1], found


def same_rows(one: pd.DataFrame, other: pd.DataFrame) -> bool:
    """Whether two tables have the same cells in all columns that both have."""

    def cells(column: pd.Series[Any]) -> list[str]:  # one that is empty is another value in each kind of file
        return list(np.where(column.isna(), "", column.astype(str)))

    both = [name for name in one if name in other]
    return len(one) == len(other) and len(both) > 0 and all(cells(one[name]) == cells(other[name]) for name in both)


def carry_names(old: Path, data: pd.DataFrame, posterior: npt.NDArray[np.float64]) -> tuple[list[str], list[str]]:
    """Names of the intentions of another fit, each from the intention of ``old`` that it overlaps most.

    ``data`` are the rows that were fitted, ``posterior`` (n, K) belongs to them; behind the names there is a note for
    each of the old ones that is lost, as all are where the data are others. Labels may have come or gone.
    """
    from scipy.optimize import linear_sum_assignment  # here, because few runs replace one with names

    (before_data, p), q = segmentation(old), posterior
    K, J = q.shape[1], p.shape[1]
    alike = np.zeros((J, K))
    if same_rows(before_data, data):
        alike = 2 * (p.T @ q) / np.maximum(p.sum(axis=0)[:, None] + q.sum(axis=0), 1e-12)
    names, notes, before = default_names(K), [], names_in(old, J) or default_names(J)
    for j, k in zip(*linear_sum_assignment(-alike), strict=True):
        if before[j] == f"intention {j}":
            continue  # nobody had named it
        if alike[j, k] >= ALIKE:
            names[k] = before[j]
        else:
            notes.append(f"Nothing resembles “{before[j]}” any more ({alike[j, k]:.2f} of 1); name it anew.")
    return names, notes
