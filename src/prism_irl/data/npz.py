"""Npz files without pickle: the arrays of `Demonstrations` under their own names.

States, actions and what else has one entry per step are (trajectories, steps), or flat with ``lengths``; sizes, names
and the valid-action mask are optional. `prism_irl.data.tables.read` turns what is found here into demonstrations.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from prism_irl import storage
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.mapped import storable
from prism_irl.data.table_files import read_arrays
from prism_irl.data.vocabulary import Array, Vocabulary
from prism_irl.errors import InputError

VECTORS = {"observations": 1, "motions": 1, "design": 2}
"""Arrays whose entries are not numbers, and how many axes an entry has."""


def load_npz(path: Path) -> dict[str, Array]:
    """Arrays of the file, flat where they have one entry per step, and always ``lengths``."""
    stored = read_arrays(path)
    if not {"states", "actions"} <= stored.keys():
        raise InputError(f"{path} needs the arrays states and actions; it holds {', '.join(stored) or 'nothing'}.")
    shape, lengths = stored["states"].shape, stored.get("lengths")
    if lengths is None and len(shape) == 2:
        lengths = np.full(shape[0], shape[1])
    elif lengths is None or lengths.dtype.kind not in "iu" or lengths.ndim != 1 or shape != (lengths.sum(),):
        raise InputError(
            f"The states in {path} have shape {shape}; give (trajectories, steps), or a flat array with 'lengths', the "
            "steps of each trajectory, which add up to its length."
        )
    if not lengths.size or lengths.min() < 1:
        raise InputError(f"{path} holds no trajectory or an empty one; give each at least one step.")
    per_step = {key: shape for key in Demonstrations.per_step if key in stored}
    fits = dict.fromkeys(("n_states", "n_actions", "unknown_state"), ()) | per_step
    fits |= dict.fromkeys(("groups", "trajectory_names"), lengths.shape)
    kinds = {**dict.fromkeys((*VECTORS, "valid_actions"), "biuf"), "n_states": "iu", "n_actions": "iu"}
    kinds["unknown_state"] = "b"
    for key, values in stored.items():
        found = values.shape[: values.ndim - VECTORS.get(key, 0)]
        if found != fits.get(key, found) or values.dtype.kind not in kinds.get(key, values.dtype.kind):
            raise InputError(
                f"The array {key!r} in {path} has shape {values.shape} and type {values.dtype}, which does not fit "
                f"{len(lengths)} trajectories with states of shape {shape}; correct it or leave it out."
            )
    flat = {key: stored[key].reshape(-1, *stored[key].shape[len(shape) :]) for key in per_step}
    return stored | flat | {"lengths": lengths.astype(np.int64)}


def with_motions(demos: Demonstrations, stored: Mapping[str, Array]) -> Demonstrations:
    """Add the commands that the file holds beside the tokens, and what belongs to them."""
    names = ("motion_names", "design_names", "observation_names")
    options: dict[str, Any] = {key: tuple(stored[key].astype(str)) for key in names if key in stored}
    if "noise_blocks" in stored:
        options["noise_blocks"] = tuple(int(block) for block in stored["noise_blocks"])
    if "log_volume" in stored:
        options["log_volume"] = float(stored["log_volume"])
    return demos.with_commands(stored["motions"], stored.get("design"), **options)


def own_vocabulary(stored: Mapping[str, Array], key: str) -> tuple[Array, Vocabulary | None]:
    """One array as a table would hold it, (n,), and the vocabulary that the file gives for it."""
    values, names = stored[key], stored.get(f"{key[:-1]}_names")
    size = int(stored[f"n_{key}"]) if f"n_{key}" in stored else None
    if names is not None:
        own = Vocabulary(tuple(names.astype(str).ravel().tolist()), names.size if size is None else size)
        ids = Vocabulary(None, own.size).encode(values, key[:-1], f"array {key!r}, step {{}}".format)
        return np.array(own.names, dtype=object)[ids], own
    if key == "labels" and values.dtype.kind in "iu":
        size = max(int(values.max()), 0) + 1  # kept as they are, even with wide gaps
    return values, None if size is None else Vocabulary(None, size)


def write_npz(demos: Demonstrations, path: str | Path, *, made_by: str | None = None) -> None:
    """Write an npz file without pickle that `read` turns back into the same demonstrations.

    ``made_by`` says what the demonstrations come from, where that matters to whoever judges a fit (`maker`).
    """
    if Path(path).suffix.lower() != ".npz":
        raise InputError(f"Cannot write {path}: the name must end in .npz.")
    left_out = ("offsets",) if demos.action_space.continuous else ("offsets", "log_volume")
    arrays: dict[str, Any] = {
        name: storable(value) for name, value in vars(demos).items() if value is not None and name not in left_out
    }
    if made_by is not None:
        arrays["made_by"] = np.array(made_by)
    storage.write_file(Path(path), lambda file: np.savez_compressed(file, lengths=demos.lengths, **arrays))


def maker(path: Path) -> str | None:
    """What wrote a file of demonstrations, where it says so."""
    try:
        found = read_arrays(path, only=("made_by",)).get("made_by")
    except InputError:
        return None
    return None if found is None else str(found)
