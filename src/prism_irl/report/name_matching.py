"""Names follow their intentions when a model is fitted again, whose numbers may be others.

Two runs are compared by their segments.parquet. On the same rows two intentions are alike as far as they share steps,
2 Σ_t γ_t(j) γ'_t(k) / Σ_t (γ_t(j) + γ'_t(k)); on other rows as far as they do the same in the same places, Σ √(p q)
over their shares p, q of states and actions. Either is 1 for the same intention (one of sure steps, in the first case)
and 0 for two that have nothing in common. Numbers do not come back: continuous runs are compared on the same rows
only.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from prism_irl import storage
from prism_irl.checked import BROKEN
from prism_irl.data.read import read_table_file
from prism_irl.errors import InputError, brief
from prism_irl.report.names import FILE, default_names, read_names

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
        frame = read_table_file(run / SEGMENTS)
        data = storage.read_object(run / "config.json").get("data", {})
        n = int(storage.read_object(run / "metrics.json")["n_intentions"])
        found = remembered(frame, data, default_names(n))
    except (*BROKEN, StopIteration) as error:
        raise InputError(
            f"{run} holds no segmentation that can be compared ({brief(error)}); give the folder of a fit."
        ) from None
    return found._replace(names=read_names(run / FILE, n)) if (run / FILE).is_file() else found


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
