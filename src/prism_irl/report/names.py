"""Names that people give to intentions: saved by the report's page, put beside a run by `prism names`.

The file is ``{"names": ["seek water", "go home"]}``, one name per intention in the order of their numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

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


class Remembered(NamedTuple):
    """What a run did, step by step: states and actions, probabilities (n, K); names of its intentions.

    Tokens are text, (n,); what was measured and commanded are numbers, (n, d).
    """

    states: npt.NDArray[Any]
    actions: npt.NDArray[Any]
    probabilities: npt.NDArray[np.float64]
    names: list[str]


def remember(run: Path) -> Remembered:
    """Read a run folder with its names."""
    if not (run / SEGMENTS).is_file():
        raise InputError(f"{run} has no {SEGMENTS}; give the folder of a fit.")
    try:
        from prism_irl.data.files import read_table_file  # here, because pages and figures need no tables

        frame = read_table_file(run / SEGMENTS)
        data = storage.read_object(run / "config.json").get("data", {})
        n = int(storage.read_object(run / "metrics.json")["n_intentions"])
        found = remembered(frame, data, default_names(n))
    except (*BROKEN, StopIteration) as error:
        raise InputError(
            f"{run} holds no segmentation that can be compared ({brief(error)}); give the folder of a fit."
        ) from None
    return found._replace(names=names_in(run, n) or found.names)


def remembered(frame: pd.DataFrame, data: Mapping[str, Any], names: list[str]) -> Remembered:
    """The same of the rows of segments.parquet, and of what config.json says of the ``data``; ``names`` (K,)."""
    if (vectors := data.get("names")) is not None and set(vectors["observations"] or [""]) <= set(frame.columns):
        state, action = (frame[list(vectors[kind])].to_numpy(np.float64) for kind in ("observations", "commands"))
    else:
        columns = data.get("columns", {})
        state, action = (frame[columns.get(role, role)].astype(str).to_numpy() for role in ("state", "action"))
    # A table that had such columns before keeps them, and those of the fit are called predicted_….
    probabilities = [
        next(frame[name] for name in (f"predicted_p_{k}", f"p_{k}") if name in frame.columns) for k in range(len(names))
    ]
    together = np.stack(probabilities, axis=1).astype(np.float64)
    if not np.isfinite(together).all():
        raise ValueError("probabilities that are no numbers")
    return Remembered(state, action, together, names)


def similarity(one: Remembered, other: Remembered) -> npt.NDArray[np.float64]:
    """(K, K') how alike the intentions of two runs are, from 0 to 1."""
    p, q = one.probabilities, other.probabilities
    if np.array_equal(one.states, other.states) and np.array_equal(one.actions, other.actions):
        return np.asarray(2 * (p.T @ q) / np.maximum(p.sum(axis=0)[:, None] + q.sum(axis=0), 1e-12))
    if one.states.ndim != 1 or other.states.ndim != 1:  # numbers do not come back, so that nothing can be compared
        return np.zeros((p.shape[1], q.shape[1]))
    import pandas as pd

    pairs = [pd.Series(run.states) + "\0" + pd.Series(run.actions) for run in (one, other)]
    codes, _ = pd.factorize(pd.concat(pairs))
    shares = []
    for run, code in ((one, codes[: len(p)]), (other, codes[len(p) :])):
        counts = np.stack([np.bincount(code, weights=w, minlength=codes.max() + 1) for w in run.probabilities.T])
        shares.append(np.sqrt(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1e-12)))
    return np.asarray(shares[0] @ shares[1].T)


def carry_names(old: Remembered, new: Remembered) -> tuple[list[str], list[str]]:
    """Names of the new intentions, each from the old one that it resembles most, and a note for each that is lost."""
    alike = similarity(old, new)
    names = default_names(alike.shape[1])
    before = default_names(len(old.names))
    notes = []
    from scipy.optimize import linear_sum_assignment  # here, because few runs replace one with names

    for j, k in zip(*linear_sum_assignment(-alike), strict=True):
        if old.names[j] == before[j]:
            continue  # nobody had named it
        if alike[j, k] >= ALIKE:
            names[k] = old.names[j]
        else:
            notes.append(f"Nothing resembles “{old.names[j]}” any more ({alike[j, k]:.2f} of 1); name it anew.")
    return names, notes
