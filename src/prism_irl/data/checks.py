"""Checks of demonstrations, made once when they are built, so that no later stage has to.

Each refusal names the trajectory and step. Passes over the steps go chunk by chunk, because the arrays may be mapped
files that do not fit into memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from prism_irl.data.mapped import chunks
from prism_irl.errors import InputError

if TYPE_CHECKING:
    from prism_irl.data.demonstrations import Demonstrations


def checked_fields(demos: Demonstrations) -> dict[str, Any]:
    """Return the fields of the demonstrations in the types they are stored in, or say what is wrong with them."""
    offsets = np.asarray(demos.offsets, dtype=np.int64)
    _check_offsets(demos, offsets)
    n = int(offsets[-1])
    fields: dict[str, Any] = {"offsets": offsets}
    limits = {"states": demos.n_states, "actions": demos.n_actions, "labels": np.iinfo(np.int32).max}
    for name, limit in limits.items():
        if getattr(demos, name) is not None:
            fields[name] = _ids(demos, np.asarray(getattr(demos, name)), name[:-1], limit, n)
    if demos.known is not None:
        fields["known"] = _known(demos, np.asarray(demos.known), n)
    for name in ("observations", "times"):
        values = getattr(demos, name)
        if values is not None and len(values) != n:
            raise InputError(f"There are {len(values)} {name} for {n} steps; give one per step.")
    if demos.observations is not None:
        fields["observations"] = _observations(demos, n)
    if demos.valid_actions is not None:
        fields["valid_actions"] = _valid_actions(demos, fields["states"], fields["actions"])
    return fields if demos.motions is None else fields | _commands(demos, n)


def _check_offsets(demos: Demonstrations, offsets: npt.NDArray[np.int64]) -> None:
    if len(offsets) < 2:
        raise InputError("The demonstrations hold no trajectory; give at least one with at least one step.")
    if offsets[0] != 0:
        raise InputError(f"The offsets begin with {offsets[0]}; the first trajectory starts at step 0.")
    for name in ("groups", "trajectory_names"):
        values = getattr(demos, name)
        if values is not None and len(values) != len(offsets) - 1:
            raise InputError(f"There are {len(values)} {name} for {len(offsets) - 1} trajectories.")
    if (np.diff(offsets) < 1).any():
        i = int(np.argmax(np.diff(offsets) < 1))
        raise InputError(f"Trajectory {demos.name_of(i)} is empty; remove it or give it at least one step.")


def _ids(demos: Demonstrations, ids: npt.NDArray[Any], what: str, limit: int, n: int) -> npt.NDArray[Any]:
    """Ids (n,) from 0 to limit − 1, in the smallest type that fits."""
    if ids.shape != (n,):
        raise InputError(f"The {what}s have shape {ids.shape} for {n} steps; give one per step.")
    if ids.dtype.kind not in "iu":
        raise InputError(f"The {what}s are of type {ids.dtype}; give integer ids, or labels through a table.")
    for chunk in chunks(n):
        bad = (ids[chunk] < 0) | (ids[chunk] >= limit)
        if bad.any():
            step = chunk.start + int(np.argmax(bad))
            at = f"The {what} {ids[step]} at {demos.where(step)}"
            raise InputError(f"{at} is out of range; {what} ids run from 0 to {limit - 1}.")
    smallest = np.dtype(np.int32) if what == "label" else np.min_scalar_type(max(limit - 1, 0))
    # Nobody can change a mapped file or another read-only array under our feet, so that it needs no copy.
    return ids.astype(smallest, copy=ids.flags.writeable)


def _known(demos: Demonstrations, known: npt.NDArray[Any], n: int) -> npt.NDArray[np.int32]:
    """Intentions (n,) where somebody knows them, −1 elsewhere."""
    if known.shape != (n,) or known.dtype.kind not in "iu":
        raise InputError(
            f"The known intentions have shape {known.shape} and type {known.dtype}; give {n} whole numbers, −1 where "
            "nobody knows."
        )
    for chunk in chunks(n):
        bad = (known[chunk] < -1) | (known[chunk] > np.iinfo(np.int32).max)
        if bad.any():
            step = chunk.start + int(np.argmax(bad))
            raise InputError(
                f"The known intention {known[step]} at {demos.where(step)} is neither an intention nor −1 (nobody "
                "knows); correct it."
            )
    return known.astype(np.int32, copy=known.flags.writeable)


def _observations(demos: Demonstrations, n: int) -> npt.NDArray[np.float32]:
    observations = np.asarray(demos.observations, dtype=np.float32)
    if observations.ndim != 2:
        raise InputError(f"Observations have shape {observations.shape}; give one vector per step: (n, m).")
    for chunk in chunks(n):
        finite = np.isfinite(observations[chunk]).all(axis=1)
        if not finite.all():
            step = chunk.start + int(np.argmin(finite))
            raise InputError(f"The observation at {demos.where(step)} is not finite; remove or repair the step.")
    return observations


def _commands(demos: Demonstrations, n: int) -> dict[str, Any]:
    """Commands (n, m), noise blocks (m,) and the design (n, m, p) where there is one."""
    if demos.design is None and demos.observations is None:
        raise InputError("Commands depend on something; give observations or a design beside them.")
    motions = np.asarray(demos.motions)
    if motions.dtype != np.float32 or demos.design is not None:
        motions = motions.astype(np.float64, copy=False)
    rows, m = motions.shape if motions.ndim == 2 else (-1, -1)
    if rows != n or m < 1:
        raise InputError(f"The commands have shape {motions.shape} for {n} steps; give (n, m).")
    _check_finite(demos, "command", motions)
    blocks = tuple(range(m)) if demos.noise_blocks is None else tuple(int(block) for block in demos.noise_blocks)
    if len(blocks) != m or sorted(set(blocks)) != list(range(len(set(blocks)))):
        raise InputError(f"The noise blocks {blocks} must give each of {m} dimensions a number from 0 on, no gaps.")
    if demos.design is None:
        return {"motions": motions, "noise_blocks": blocks}
    design = np.asarray(demos.design, dtype=np.float64)
    if design.ndim != 3 or design.shape[:2] != (n, m) or design.shape[2] < 1:
        raise InputError(f"The design has shape {design.shape} for commands {motions.shape}; give (n, m, p).")
    _check_finite(demos, "design", design)
    return {"motions": motions, "noise_blocks": blocks, "design": design}


def _check_finite(demos: Demonstrations, name: str, values: npt.NDArray[Any]) -> None:
    for chunk in chunks(len(values), 2**16):
        finite = np.isfinite(values[chunk]).reshape(len(values[chunk]), -1).all(axis=1)
        if not finite.all():
            where = demos.where(chunk.start + int(np.argmin(finite)))
            raise InputError(f"The {name} at {where} is not finite; remove or repair that step.")


def _valid_actions(demos: Demonstrations, states: npt.NDArray[Any], actions: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return the mask (S, A), in which every state has an action and every action taken is one."""
    valid = np.asarray(demos.valid_actions, dtype=bool)
    if valid.shape != (demos.n_states, demos.n_actions):
        raise InputError(
            f"The valid-action mask has shape {valid.shape}; it must be (states, actions) = "
            f"({demos.n_states}, {demos.n_actions})."
        )
    if not valid.any(axis=1).all():
        raise InputError(f"State {int(np.argmin(valid.any(axis=1)))} has no valid action; allow at least one.")
    for chunk in chunks(len(states)):
        allowed = valid[states[chunk], actions[chunk]]
        if not allowed.all():
            step = chunk.start + int(np.argmin(allowed))
            raise InputError(
                f"Action {actions[step]} in state {states[step]} at {demos.where(step)} is marked as invalid; correct "
                "the data or the valid-action mask."
            )
    return valid
