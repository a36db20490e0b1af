"""Demonstrations: what the agent saw and did, as ragged trajectories stored flat.

Trajectory i is the slice ``offsets[i]:offsets[i + 1]`` of flat arrays of n steps, with which everything per step in
this package is aligned; padding appears only inside a batch (`prism_irl.data.batching`).

States and actions are ids, or vectors: a command y_t in R^m that depends on the observation x_t in R^d of the same
step, in the units of the data (a fit has its own, `data.continuous`), or on p vectors φ_tj in R^m that are known before
it, the design: the direction to the block, to the target, a constant for the gripper. An intention is then a weight per
vector, E[y_t] = Σ_j θ_kj φ_tj (`rewards.linear`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from prism_irl import limits
from prism_irl.data import mapped
from prism_irl.data.mapped import chunks, native
from prism_irl.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from prism_irl.data.contexts import Contexts

IntArray = npt.NDArray[np.integer[Any]]
Ids = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.floating[Any]]
PLAIN = ("labels", "partial_labels", "times", "groups", "valid_actions", "n_states", "n_actions")
"""What trajectories of ids and of vectors have in common."""


@dataclass(frozen=True)
class Space:
    """What a state or an action is: one of ``size`` ids, or where ``continuous``, a vector of ``size`` numbers."""

    size: int
    continuous: bool = False

    def __str__(self) -> str:
        return f"R^{self.size}" if self.continuous else f"{self.size} ids"


@dataclass(frozen=True, eq=False)
class Demonstrations:
    """Ragged trajectories of states and actions.

    Parameters
    ----------
    states, actions : (n,) integer arrays
        Ids from 0, stored in the smallest unsigned type that fits.
    offsets : (N + 1,) int64
    n_states, n_actions : int
    observations : (n, m) float32, optional
        Vectors that the switching network may read in addition to the state.
    labels : (n,) integers, optional
        True intentions: for evaluation only, never read by a fit.
    partial_labels : (n,) integers, optional
        Intention of a step where somebody knows it, −1 elsewhere (`prism_irl.data.labels`).
    times : (n,), optional
    groups : (N,) array, optional
        Animal or operator of each trajectory, for splits and individuals.
    valid_actions : (S, A) bool, optional
        Which actions exist in which state; all of them when absent.
    places : (S,) integers from 0, optional
        The place that a state belongs to, where several states are one place (a junction, whatever the heading).
    state_names, action_names, label_names, partial_label_names, place_names : tuple of str, optional
        Names behind the ids.
    trajectory_names : (N,) array, optional
    unknown_state : bool
        The last state id stands for any state that the vocabulary of a fitted model does not name.
    motions : (n, m) floats, optional
        Commands y_t: continuous actions, beside which the ids are coarse cells or tokens.
    design : (n, m, p) float64, optional
        The vectors φ_tj; column j is what one unit of weight j adds to the mean command. Without, commands depend on
        the observations, which then are the state.
    noise_blocks : tuple of m ints, optional
        Dimensions with the same number share one variance (the three axes of a translation, say); all apart if absent.
    motion_names, design_names, observation_names : tuple of str, optional
    log_volume : float
        Log of the volume of a unit of the commands, in those that the data came in; densities are lower by it.
    """

    states: IntArray
    actions: IntArray
    offsets: npt.NDArray[np.int64]
    n_states: int
    n_actions: int
    observations: npt.NDArray[np.float32] | None = None
    labels: IntArray | None = None
    partial_labels: IntArray | None = None
    times: npt.NDArray[Any] | None = None
    groups: npt.NDArray[Any] | None = None
    valid_actions: npt.NDArray[np.bool_] | None = None
    state_names: tuple[str, ...] | None = None
    action_names: tuple[str, ...] | None = None
    label_names: tuple[str, ...] | None = None
    partial_label_names: tuple[str, ...] | None = None
    trajectory_names: npt.NDArray[Any] | None = None
    unknown_state: bool = False
    motions: npt.NDArray[np.float64] | None = None
    design: npt.NDArray[np.float64] | None = None
    noise_blocks: tuple[int, ...] | None = None
    motion_names: tuple[str, ...] | None = None
    design_names: tuple[str, ...] | None = None
    observation_names: tuple[str, ...] | None = None
    log_volume: float = 0.0
    places: IntArray | None = None
    place_names: tuple[str, ...] | None = None

    per_step: ClassVar[tuple[str, ...]] = (
        *("states", "actions", "observations", "labels", "partial_labels", "times", "motions", "design"),
    )
    per_trajectory: ClassVar[tuple[str, ...]] = ("groups", "trajectory_names")

    def __post_init__(self) -> None:
        for name, values in checked_fields(self).items():
            object.__setattr__(self, name, values)

    def name_of(self, trajectory: int) -> str:
        """Name of a trajectory, its number where it has none."""
        return str(trajectory if self.trajectory_names is None else self.trajectory_names[trajectory])

    def where(self, step: int) -> str:
        """Trajectory and position of a flat step, in words, for error messages."""
        i = int(np.searchsorted(self.offsets, step, side="right") - 1)
        return f"trajectory {self.name_of(i)}, step {step - int(self.offsets[i])}"

    # -- spaces and sizes ------------------------------------------------------------------------------------------

    @property
    def state_space(self) -> Space:
        """Ids, or vectors of d numbers where commands depend on observations as they were measured."""
        if self.motions is None or self.design is not None or self.observations is None:
            return Space(self.n_states)
        return Space(self.observations.shape[1], continuous=True)

    @property
    def action_space(self) -> Space:
        """Ids, or commands of m numbers where there are some."""
        return Space(self.n_actions) if self.motions is None else Space(self.motions.shape[1], continuous=True)

    @property
    def n_steps(self) -> int:
        """Number of steps n of all trajectories together."""
        return int(self.offsets[-1])

    @property
    def n_trajectories(self) -> int:
        """Number of trajectories N."""
        return len(self.offsets) - 1

    def __len__(self) -> int:
        return self.n_trajectories

    def __getitem__(self, index: Any) -> Demonstrations:
        """One trajectory by its number, or some by a slice, numbers or a mask, as splits of scikit-learn ask for it."""
        chosen = np.arange(self.n_trajectories)[index]  # which knows negative numbers, and raises IndexError
        return self.subset(np.atleast_1d(chosen))

    @property
    def shape(self) -> tuple[int]:
        """(N,), the trajectories, which is what scikit-learn's splits and searches divide."""
        return (self.n_trajectories,)

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Steps per trajectory, (N,)."""
        return np.diff(self.offsets)

    @property
    def trajectory_index(self) -> npt.NDArray[np.int64]:
        """Trajectory of every step, (n,)."""
        return np.repeat(np.arange(self.n_trajectories), self.lengths)

    @property
    def step_index(self) -> npt.NDArray[np.int64]:
        """Position of every step within its trajectory, (n,)."""
        return np.arange(self.n_steps) - np.repeat(self.offsets[:-1], self.lengths)

    @property
    def first_steps(self) -> npt.NDArray[np.bool_]:
        """True at the first step of each trajectory, (n,)."""
        first = np.zeros(self.n_steps, dtype=bool)
        first[self.offsets[:-1]] = True
        return first

    def __repr__(self) -> str:
        shortest, longest = self.lengths.min(), self.lengths.max()
        steps = f"{shortest} steps each" if shortest == longest else f"{shortest}–{longest} steps"
        x, y = self.state_space, self.action_space
        said = [f"{x} as states" if x.continuous else f"{x.size} states"]
        said += [f"{y} as actions" if y.continuous else f"{y.size} actions"]
        extras = {"observations": None if x.continuous else self.observations, "true labels": self.labels}
        extras |= {"partial labels": self.partial_labels, f"{self.n_groups} groups": self.groups}
        said += [name for name, there in {**extras, "valid actions": self.valid_actions}.items() if there is not None]
        return f"Demonstrations({self.n_trajectories} trajectories, {steps}, {self.n_steps} in all; {', '.join(said)})"

    # -- in and out ------------------------------------------------------------------------------------------------

    @classmethod
    def from_arrays(
        cls,
        states: npt.ArrayLike | Sequence[npt.ArrayLike],
        actions: npt.ArrayLike | Sequence[npt.ArrayLike],
        *,
        labels: npt.ArrayLike | Sequence[npt.ArrayLike] | None = None,
        partial_labels: npt.ArrayLike | Sequence[npt.ArrayLike] | None = None,
        observations: Any = None,
        times: Any = None,
        groups: npt.ArrayLike | None = None,
        valid_actions: npt.ArrayLike | None = None,
        places: npt.ArrayLike | None = None,
        n_states: int | None = None,
        n_actions: int | None = None,
    ) -> Demonstrations:
        """Build from lists of 1-D arrays (ragged) or from 2-D arrays (equal lengths).

        ``n_states`` and ``n_actions`` default to the largest id plus one.
        """
        flat_states, offsets = _flatten(states, "states")
        fields: dict[str, Any] = {"valid_actions": valid_actions, "groups": groups, "places": places}
        fields = {name: None if given is None else np.asarray(given) for name, given in fields.items()}
        per_step = {"actions": actions, "labels": labels, "partial_labels": partial_labels}
        per_step |= {"observations": observations, "times": times}
        for name, ragged in per_step.items():
            if ragged is None:
                continue
            fields[name], other = _flatten(ragged, name)
            if not np.array_equal(offsets, other):
                same = len(other) == len(offsets)
                i = int(np.argmax(np.diff(offsets) != np.diff(other))) if same else min(len(offsets), len(other)) - 1
                raise InputError(f"The {name} of trajectory {i} do not match its states in length.")
        for name, ids, size in (("states", flat_states, n_states), ("actions", fields["actions"], n_actions)):
            if len(ids) and np.asarray(ids).dtype.kind not in "iu":
                raise InputError(f"The {name} are of type {np.asarray(ids).dtype}; give integer ids from 0.")
            fields[f"n_{name}"] = int(ids.max(initial=0)) + 1 if size is None else int(size)
        return cls(states=flat_states, offsets=offsets, **fields)

    @classmethod
    def continuous(
        cls,
        observations: Sequence[npt.ArrayLike] | npt.NDArray[Any],
        commands: Sequence[npt.ArrayLike] | npt.NDArray[Any],
        **options: Any,
    ) -> Demonstrations:
        """Trajectories of observations (T, d) and commands (T, m), each a list of arrays or one array (N, T, …).

        ``options`` are those of `from_arrays` (labels, partial_labels, groups) and names.
        """
        rows = [np.asarray(part) for part in observations]
        moves = [np.asarray(part, dtype=np.float64) for part in commands]
        if not rows or any(len(x) != len(y) for x, y in zip(rows, moves, strict=True)):
            raise InputError("Observations and commands must come from the same steps of the same trajectories.")
        tokens = [np.zeros(len(part), dtype=np.int64) for part in rows]
        plain = {name: options.pop(name) for name in PLAIN if name in options}
        demos = cls.from_arrays(tokens, tokens, observations=rows, **plain)
        return demos.with_commands(np.concatenate(moves), **options)

    def with_commands(
        self, motions: npt.ArrayLike, design: npt.ArrayLike | None = None, **options: Any
    ) -> Demonstrations:
        """The same steps with continuous commands (n, m), and with what these depend on beside the observations."""
        vectors = None if design is None else np.asarray(design)
        names = dict.fromkeys(("noise_blocks", "motion_names", "design_names", "observation_names"))
        fields = {**names, "log_volume": 0.0, **options}
        return replace(self, motions=np.asarray(motions), design=vectors, **fields)

    @classmethod
    def from_table(cls, source: str | Path | pd.DataFrame, **columns: Any) -> Demonstrations:
        """Build from a CSV, Parquet or npz file or a pandas table; options as in `prism_irl.data.read.read_data`."""
        from prism_irl.data.read import read_data

        return read_data(source, **columns).demonstrations

    def to_pandas(self) -> pd.DataFrame:
        """One row per step: trajectory, state, action and, where present, time, group, intention."""
        from prism_irl.data.read import to_pandas

        return to_pandas(self)

    def save(self, path: str | Path) -> None:
        """Write an npz file, or a folder of npy files for `open` if the name has no ending; no pickle in either."""
        from prism_irl.data.mapped import write_folder
        from prism_irl.data.read import write_npz

        if Path(path).suffix:
            write_npz(self, path)
        else:
            write_folder(path, [self])

    @classmethod
    def open(cls, path: str | Path, *, verify: bool = True) -> Demonstrations:
        """Read what `save` wrote; a folder (`prism_irl.data.mapped.write_folder`) is mapped and may exceed memory."""
        from prism_irl.data.mapped import open_folder

        if Path(path).suffix.lower() == ".npz" and not Path(path).is_dir():
            return cls.from_table(path)
        return open_folder(path, verify=verify)

    def resized(self, n_states: int | None = None, n_actions: int | None = None) -> Demonstrations:
        """Return the same steps over larger sets of states or actions."""
        return replace(
            self,
            n_states=self.n_states if n_states is None else n_states,
            n_actions=self.n_actions if n_actions is None else n_actions,
            valid_actions=None,
            places=self.places if n_states in (None, self.n_states) else None,
        )

    def with_valid_actions(self, valid_actions: npt.ArrayLike | None) -> Demonstrations:
        """Return the same steps with another valid-action mask."""
        return replace(self, valid_actions=None if valid_actions is None else np.asarray(valid_actions, dtype=bool))

    # -- taking apart ----------------------------------------------------------------------------------------------

    def subset(self, trajectories: npt.ArrayLike) -> Demonstrations:
        """Trajectories by index or boolean mask, in the order given."""
        index = np.asarray(trajectories)
        index = np.flatnonzero(index) if index.dtype == bool else index.astype(np.int64)
        lengths = self.lengths[index]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        steps = steps_of(self.offsets, index)

        taken = {name: (getattr(self, name), steps) for name in self.per_step}
        taken |= {name: (getattr(self, name), index) for name in self.per_trajectory}
        chosen: dict[str, Any] = {
            name: mapped.taken(values, by) for name, (values, by) in taken.items() if values is not None
        }
        return replace(self, offsets=offsets, **chosen)

    def in_pieces(self, least: int, shortest: int = 20) -> Demonstrations:
        """Return the same steps in ``least`` trajectories or more: long ones are cut where there are too few."""
        each = -(-least // max(len(self), 1))
        if len(self) >= least:
            return self
        cuts = [
            np.linspace(first, last, max(min(each, (last - first) // shortest), 1), endpoint=False).astype(np.int64)
            for first, last in zip(self.offsets[:-1].tolist(), self.offsets[1:].tolist(), strict=True)
        ]
        offsets = np.append(np.concatenate(cuts), self.n_steps)
        return replace(self, offsets=offsets, groups=None, trajectory_names=None)

    @property
    def n_groups(self) -> int:
        """Number of different groups (animals), 0 where none are known."""
        return 0 if self.groups is None else len(np.unique(self.groups.astype(str)))

    def units(self, by: str) -> npt.NDArray[np.int64]:
        """What a split keeps together: the index of each trajectory's unit, (N,)."""
        if by == "trajectory":
            return np.arange(self.n_trajectories)
        if by != "group":
            raise InputError(f"Cannot split by {by!r}; choose 'trajectory' or 'group'.")
        if self.groups is None:
            raise InputError("Cannot split by group: the demonstrations have no groups; name the group column.")
        return np.unique(self.groups.astype(str), return_inverse=True)[1].astype(np.int64)

    def split(self, fraction: float, by: str = "trajectory", seed: int = 0) -> tuple[Demonstrations, Demonstrations]:
        """Two disjoint parts, the first with about ``fraction`` of the trajectories (or groups)."""
        first, second = self.split_indices(fraction, by=by, seed=seed)
        return self.subset(first), self.subset(second)

    def split_indices(
        self, fraction: float, by: str = "trajectory", seed: int = 0
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Trajectory indices of `split`, each part in the original order."""
        units = self.units(by)
        n_units = int(units.max()) + 1
        if not 0 < fraction < 1:
            raise InputError(f"The split fraction must lie between 0 and 1, not {fraction}.")
        if n_units < 2:
            advice = "more data" if by == "trajectory" else "more data or split by trajectory"
            raise InputError(f"Cannot split one {by} into two parts; give {advice}.")
        n_first = min(max(round(fraction * n_units), 1), n_units - 1)
        chosen = np.zeros(n_units, dtype=bool)
        chosen[np.random.default_rng(seed).permutation(n_units)[:n_first]] = True
        in_first = chosen[units]
        return np.flatnonzero(in_first), np.flatnonzero(~in_first)

    def folds(
        self, k: int = 5, by: str = "trajectory", seed: int = 0
    ) -> Iterator[tuple[Demonstrations, Demonstrations]]:
        """Yield k (train, test) pairs; every trajectory is in exactly one test part, a group never in both."""
        for train, test in self.fold_indices(k, by=by, seed=seed):
            yield self.subset(train), self.subset(test)

    def fold_indices(
        self, k: int = 5, by: str = "trajectory", seed: int = 0
    ) -> list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
        """Trajectory indices of `folds`."""
        units = self.units(by)
        n_units = int(units.max()) + 1
        if not 2 <= k <= n_units:
            units_are = "trajectories" if by == "trajectory" else "groups"
            choose = f"choose between 2 and {n_units}" if n_units > 1 else "give more data"
            raise InputError(f"Cannot make {k} folds of {n_units} {units_are}; {choose}.")
        fold_of = np.empty(n_units, dtype=np.int64)
        fold_of[np.random.default_rng(seed).permutation(n_units)] = np.arange(n_units) % k
        return [(np.flatnonzero(fold_of[units] != i), np.flatnonzero(fold_of[units] == i)) for i in range(k)]

    # -- views that models use -------------------------------------------------------------------------------------

    def with_history(self, length: int) -> Contexts:
        """Contexts of the last ``length`` states that occur here; see `prism_irl.data.contexts.Contexts`."""
        from prism_irl.data.contexts import Contexts

        return Contexts.fit(self, length)

    def checksum(self) -> str:
        """Return the sha256 of everything a fit reads (not of labels, times or names)."""
        digest = hashlib.sha256(f"{self.n_states} {self.n_actions}".encode())
        if self.groups is not None:  # individuals may have policies of their own
            digest.update("\n".join(self.groups.astype(str)).encode())
        told = () if self.partial_labels is None else (self.partial_labels,)  # older archives have checksums without it
        for part in (self.states, self.actions, self.offsets, self.observations, self.valid_actions, *told):
            _add_to(digest, part)
        if self.motions is None:
            return digest.hexdigest()
        digest = hashlib.sha256(digest.hexdigest().encode())
        for part in (self.motions, *(() if self.design is None else (self.design,))):
            _add_to(digest, part)
        digest.update(repr(self.noise_blocks).encode())
        return digest.hexdigest()


def _add_to(digest: Any, values: npt.NDArray[Any] | None) -> None:
    """Add the bytes of an array, chunk by chunk; ids count by their values, whatever type holds them."""
    if values is None:
        digest.update(b"-")
        return
    for chunk in chunks(len(values), 2**16):
        piece = np.ascontiguousarray(values[chunk])
        digest.update((piece.astype(np.int64) if piece.dtype.kind in "iu" else piece).tobytes())


def _flatten(ragged: Any, what: str) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """Concatenate a list of arrays, or the rows of a 2-D (3-D for vectors) array; return it with offsets."""
    vectors = what == "observations"
    if isinstance(ragged, np.ndarray) and ragged.dtype != object:
        if ragged.ndim == 1 + vectors:
            ragged = ragged[None]
        if ragged.ndim != 2 + vectors:
            raise InputError(f"The {what} have {ragged.ndim} dimensions; give a list of trajectories or a 2-D array.")
        offsets = np.arange(len(ragged) + 1, dtype=np.int64) * ragged.shape[1]
        return ragged.reshape(-1, *ragged.shape[2:]), offsets
    parts = [np.asarray(part) for part in ragged]
    if not parts:
        raise InputError("The demonstrations hold no trajectory; give at least one with at least one step.")
    for i, part in enumerate(parts):
        if part.ndim != 1 + vectors:
            raise InputError(f"The {what} of trajectory {i} have {part.ndim} dimensions instead of {1 + vectors}.")
        if len(part) == 0:
            raise InputError(f"Trajectory {i} is empty; remove it or give it at least one step.")
    offsets = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
    return np.concatenate(parts), offsets


def expect_demonstrations(given: Any) -> None:
    """Refuse a file name, a table or arrays where demonstrations are asked for, and say how to read them."""
    if not hasattr(given, "n_steps"):
        raise InputError(
            f"Demonstrations are asked for, not a {type(given).__name__}; read a file or a pandas table with "
            "Demonstrations.from_table(…), and arrays with Demonstrations.from_arrays(…)."
        )


# -- checks, made once when demonstrations are built; passes go chunk by chunk, because arrays may be mapped -----------


def checked_fields(demos: Demonstrations) -> dict[str, Any]:
    """Return the fields of the demonstrations in the types they are stored in, or say what is wrong with them."""
    offsets = np.asarray(demos.offsets, dtype=np.int64)
    _check_offsets(demos, offsets)
    n = int(offsets[-1])
    limits.check_sizes(demos.n_states, demos.n_actions)
    fields: dict[str, Any] = {"offsets": offsets}
    ends = {"states": demos.n_states, "actions": demos.n_actions}
    for name, limit in (ends | dict.fromkeys(("labels", "partial_labels"), np.iinfo(np.int32).max)).items():
        if getattr(demos, name) is not None:
            fields[name] = _ids(demos, np.asarray(getattr(demos, name)), name[:-1], limit, n)
    for name in ("observations", "times"):
        values = getattr(demos, name)
        if values is not None and len(values) != n:
            raise InputError(f"There are {len(values)} {name} for {n} steps; give one per step.")
    if demos.times is not None:
        fields["times"] = native("times", np.asarray(demos.times))
    if demos.observations is not None:
        fields["observations"] = _observations(demos, n)
    if demos.valid_actions is not None:
        fields["valid_actions"] = _valid_actions(demos, fields["states"], fields["actions"])
    if demos.places is not None:
        fields["places"] = _places(demos)
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
    """Ids (n,) from 0 to limit − 1, in the smallest type that fits; partial labels may be −1, where nobody knows."""
    partial = what == "partial_label"
    words, first = ("known intention", -1) if partial else (what, 0)
    if ids.shape != (n,):
        raise InputError(f"The {words}s have shape {ids.shape} for {n} steps; give one per step.")
    if ids.dtype.kind not in "iu":
        raise InputError(f"The {words}s are of type {ids.dtype}; give integer ids, or labels through a table.")
    for chunk in chunks(n):
        bad = (ids[chunk] < first) | (ids[chunk] >= limit)
        if bad.any():
            step = chunk.start + int(np.argmax(bad))
            at = f"The {words} {ids[step]} at {demos.where(step)}"
            if partial:
                raise InputError(f"{at} is neither an intention nor −1 (nobody knows); correct it.")
            raise InputError(f"{at} is out of range; {what} ids run from 0 to {limit - 1}.")
    smallest = np.dtype(np.int32) if what.endswith("label") else np.min_scalar_type(max(limit - 1, 0))
    # Nobody can change a mapped file or another read-only array under our feet, so that it needs no copy.
    return ids.astype(smallest, copy=ids.flags.writeable)


def _observations(demos: Demonstrations, n: int) -> npt.NDArray[np.float32]:
    observations = np.asarray(demos.observations, dtype=np.float32)
    if observations.ndim != 2:
        raise InputError(f"Observations have shape {observations.shape}; give one vector per step: (n, m).")
    _check_finite(demos, "observation", observations)
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
            raise InputError(f"The {name} at {where} is not finite; remove or repair the step.")


def _places(demos: Demonstrations) -> npt.NDArray[np.int64]:
    """Place of every state, (S,)."""
    places = np.asarray(demos.places)
    if places.shape != (demos.n_states,) or places.dtype.kind not in "iu" or places.min() < 0:
        raise InputError(
            f"The places have shape {places.shape} and type {places.dtype}; give {demos.n_states} whole numbers from "
            "0, the place that each state belongs to."
        )
    return places.astype(np.int64)


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


# -- which steps some trajectories have, and some trajectories in the place of many: what needs no more than a good
# sample (where a start begins, the pictures of a page) reads so many steps of large data, and its time does not grow


def steps_of(offsets: Ids, trajectories: Ids) -> Ids:
    """Flat steps of some trajectories, one after the other, where trajectory i is ``offsets[i]:offsets[i + 1]``."""
    lengths = offsets[trajectories + 1] - offsets[trajectories]
    begins = np.cumsum(lengths) - lengths
    steps = np.repeat(offsets[trajectories] - begins, lengths)
    steps += np.arange(len(steps))
    return steps


def parts_of(demos: Demonstrations, most: int, among: Ids | None = None) -> Iterator[tuple[slice, Any]]:
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


def cuts(offsets: Ids, most: int) -> Iterator[tuple[int, int]]:
    """First and one past the last trajectory of parts of at most so many steps (or of one trajectory)."""
    first = 0
    while first < len(offsets) - 1:
        fits = int(np.searchsorted(offsets, offsets[first] + most, side="right")) - 1
        first, begun = max(fits, first + 1), first
        yield begun, first


def some_trajectories(demos: Demonstrations, most: int, seed: int, among: Ids | None = None) -> Ids:
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
