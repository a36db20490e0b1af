"""Arrays that stay on disk, larger than memory: demonstrations as a folder of npy files, and what is made of them.

    states.npy actions.npy (n,)   offsets.npy (N + 1,)   and, where present, observations.npy (n, d), motions.npy
    (n, m), labels.npy, known.npy, times.npy (n,), groups.npy, trajectory_names.npy (N,), valid_actions.npy (S, A);
    meta.json: sizes, names, checksum

A folder is written part by part, so that neither side of the copy has to fit into memory, and checked chunk by chunk
when it is opened. What a fit makes of the data lies in files without a name in the folder for temporary files (TMPDIR),
which are gone with the arrays.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from prism_irl import checked, limits, storage
from prism_irl.checked import BROKEN
from prism_irl.errors import InputError, brief

if TYPE_CHECKING:
    from prism_irl.data.demonstrations import Demonstrations


PLAIN = "biufmMSU"
"""Kinds of arrays that are read: numbers, times and text."""
SMALL = 2**26
"""Bytes up to which an array is made in memory, wherever it comes from."""


def chunks(n: int, size: int = 2**20) -> Iterator[slice]:
    """Slices of 0..n-1, so that a pass over a mapped file holds a piece of it at a time."""
    return (slice(start, min(start + size, n)) for start in range(0, n, size))


def storable(values: Any) -> npt.NDArray[Any]:
    """Numbers and dates as they are, anything else as text: what an npz file holds without pickle."""
    array = np.asarray(values)
    if array.dtype.kind == "O" and array.ndim == 1:
        limits.check_text("names", len(array), max(map(len, map(str, array)), default=0))
    return array if array.dtype.kind in "biufmM" else array.astype(str)


def native(name: str, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Numbers in the byte order of this machine, of at most 64 bits, times with a unit: what libraries compute with."""
    dtype = values.dtype
    if dtype.kind in "mM" and np.datetime_data(dtype)[0] == "generic":
        raise InputError(f"The {name} are times without a unit; give them one, such as seconds (timedelta64[s]).")
    if dtype.kind == "f" and dtype.itemsize > 8:
        return values.astype(np.float64)
    return values if dtype.isnative else values.astype(dtype.newbyteorder("="))


def is_mapped(values: npt.NDArray[Any]) -> bool:
    """Whether an array is a view of a file."""
    base: Any = values
    while isinstance(base, np.ndarray) and not isinstance(base, np.memmap):
        base = base.base
    return isinstance(base, np.memmap)


def empty_like(source: npt.NDArray[Any], shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """An array to be filled: on disk where ``source`` is and the array is large, else in memory."""
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    if size <= SMALL or not is_mapped(source):
        return np.empty(shape, dtype)
    try:
        with tempfile.TemporaryFile(prefix="prism-") as file:
            if hasattr(os, "posix_fallocate"):  # a disk that fills up later would kill the process
                os.posix_fallocate(file.fileno(), 0, size)
            return np.asarray(np.memmap(file, dtype, "w+", shape=shape))
    except OSError as error:
        raise InputError(
            f"There is no room for {size / 1e9:.1f} GB in {tempfile.gettempdir()} ({brief(error)}); set TMPDIR to a "
            "folder on a larger disk."
        ) from None


def taken(values: npt.NDArray[Any], rows: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """Rows of an array, ``values[rows]``; of a mapped one piece by piece, into a file where they are many."""
    if not is_mapped(values):
        return np.asarray(values[rows])
    result = empty_like(values, (len(rows), *values.shape[1:]), values.dtype)
    for chunk in chunks(len(rows), 2**16):
        result[chunk] = values[rows[chunk]]
    return result


# -- a folder of demonstrations ----------------------------------------------------------------------------------------

FORMAT = "prism-demonstrations"
VERSION = 1
NAMES = ("state_names", "action_names", "label_names", "partial_label_names")
FORMER_NAMES = {"known": "partial_labels", "known_names": "partial_label_names"}
"""Names in older archives, and what they are now."""
MOTIONS = ("noise_blocks", "motion_names", "design_names", "observation_names", "log_volume")
SHARED = ("n_states", "n_actions", "unknown_state", *NAMES)
"""What all parts of one archive have in common, besides the valid actions; kept in meta.json."""


def write_folder(folder: str | Path, parts: Iterable[Demonstrations]) -> Path:
    """Write demonstrations, one part after the other, as one new folder; it appears whole or not at all.

    The parts have the same states and actions and the same arrays; a generator keeps one in memory at a time.
    """
    target = Path(folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputError(f"{target} exists already; choose another folder.")
    try:
        storage.sweep(target.parent)
        with storage.replacing(target) as temporary:
            temporary.mkdir(parents=True)
            meta = _write_arrays(temporary, parts)
            checksum = _load(temporary, meta).checksum()
            meta = storage.read_plain({**meta, "sha256": checksum})
            storage.write_json(temporary / "meta.json", {**meta, "described": _described(temporary, meta)})
    except OSError as error:
        raise InputError(f"Cannot write {target} ({brief(error)}).") from None
    return target


def _write_arrays(folder: Path, parts: Iterable[Demonstrations]) -> dict[str, Any]:
    from prism_irl.data.demonstrations import Demonstrations  # which reads mapped arrays

    first: Demonstrations | None = None
    growing: dict[str, _Growing] = {}
    whole: dict[str, list[npt.NDArray[Any]]] = {"lengths": [], **{name: [] for name in Demonstrations.per_trajectory}}
    with ExitStack() as files:
        for part in parts:
            if first is None:
                first = part
                for name in (name for name in Demonstrations.per_step if getattr(part, name) is not None):
                    growing[name] = _Growing(files.enter_context((folder / f"{name}.npy").open("wb")))
            _check_same(first, part)
            for name, file in growing.items():
                file.append(getattr(part, name))
            for name in (name for name in whole if getattr(part, name) is not None):
                whole[name].append(storable(getattr(part, name)))
        if first is None:
            raise InputError("There are no demonstrations to write; give at least one part.")
        for file in growing.values():
            file.finish()
    offsets = np.concatenate([[0], np.cumsum(np.concatenate(whole.pop("lengths")))])
    np.save(folder / "offsets.npy", offsets, allow_pickle=False)
    for name, pieces in whole.items():
        if pieces:
            np.save(folder / f"{name}.npy", np.concatenate(pieces), allow_pickle=False)
    if first.valid_actions is not None:
        np.save(folder / "valid_actions.npy", first.valid_actions, allow_pickle=False)
    arrays = sorted(path.stem for path in folder.glob("*.npy"))
    sizes = {"n_steps": int(offsets[-1]), "n_trajectories": len(offsets) - 1, "arrays": arrays}
    shared = (*SHARED, *(MOTIONS if first.action_space.continuous else ()))
    return {"format": FORMAT, "version": VERSION, **{key: getattr(first, key) for key in shared}, **sizes}


def _check_same(first: Demonstrations, part: Demonstrations) -> None:
    for name in (*SHARED, *MOTIONS, "valid_actions"):
        if not np.array_equal(getattr(part, name), getattr(first, name)):
            raise InputError(f"Two parts of the demonstrations differ in {name}; give parts of the same world.")
    for name in (*first.per_step, *first.per_trajectory):
        if (getattr(part, name) is None) != (getattr(first, name) is None):
            raise InputError(f"Some parts of the demonstrations have {name} and others do not; give all or none.")


class _Growing:
    """An npy file that grows along its first axis; numpy leaves room in the header for its final length."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.length, self.rest = file, 0, tuple[int, ...]()
        self.dtype: np.dtype[Any] | None = None

    def append(self, values: npt.NDArray[Any]) -> None:
        values = storable(values)
        if self.dtype is None:
            self.dtype, self.rest = values.dtype, values.shape[1:]
            self._header()
        if values.shape[1:] != self.rest or not np.can_cast(values.dtype, self.dtype, "same_kind"):
            raise InputError(
                f"An array of type {values.dtype} and shape {values.shape} cannot follow one of type {self.dtype} and "
                f"shape (…, {self.rest}); give all parts the same arrays."
            )
        np.ascontiguousarray(values, dtype=self.dtype).tofile(self.file)
        self.length += len(values)

    def _header(self) -> None:
        assert self.dtype is not None
        described = {"descr": np.lib.format.dtype_to_descr(self.dtype), "shape": (self.length, *self.rest)}
        np.lib.format.write_array_header_1_0(self.file, {**described, "fortran_order": False})

    def finish(self) -> None:
        end = self.file.tell()
        self.file.seek(0)
        self._header()
        self.file.seek(end)


def open_folder(folder: str | Path, *, verify: bool = True) -> Demonstrations:
    """Map a folder that `write_folder` made; lengths, types and the range of every id are checked.

    With ``verify`` everything that a fit reads is compared with the checksum of the folder, in one pass over the files.
    """
    folder = Path(folder)
    if not (folder / "meta.json").is_file():
        raise InputError(f"{folder} holds no demonstrations (there is no meta.json in it); check the path.")
    meta = storage.read_object(folder / "meta.json")
    demos = _load(folder, meta)
    other = "described" in meta and verify and meta["described"] != _described(folder, meta)  # older ones lack it
    if verify and (other or demos.checksum() != meta.get("sha256")):
        raise InputError(f"The files in {folder} are not those that were written there; restore or write it again.")
    return demos


def _described(folder: Path, meta: dict[str, Any]) -> str:
    """Checksum of what no fit reads, but everybody who looks at the result: names, labels and times."""
    files = {}
    for name in ("labels", "times", "trajectory_names"):
        if (folder / f"{name}.npy").is_file():
            with (folder / f"{name}.npy").open("rb") as file:
                files[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return storage.checksum({"files": files, "meta": {key: meta[key] for key in meta if key != "described"}})


def _load(folder: Path, meta: Any) -> Demonstrations:
    from prism_irl.data.demonstrations import Demonstrations

    if not isinstance(meta, dict) or meta.get("format") != FORMAT:
        raise InputError(f"{folder / 'meta.json'} does not describe demonstrations; was the folder written by prism?")
    if meta.get("version") != VERSION:
        raise InputError(f"{folder} is of version {meta.get('version')} and this program reads {VERSION}; update it.")
    allowed = {"offsets", "valid_actions", *Demonstrations.per_step, *Demonstrations.per_trajectory}
    meta = {FORMER_NAMES.get(key, key): value for key, value in meta.items()}
    try:
        files = {FORMER_NAMES.get(name, name): name for name in meta["arrays"]}
        listed = files.keys()
        if not {"states", "actions", "offsets"} <= listed <= allowed:
            raise ValueError(f"the arrays {', '.join(sorted(listed ^ allowed))} are missing or unknown")
        arrays = {name: _map(folder, files[name]) for name in sorted(listed)}
        sizes = {key: int(meta[key]) for key in ("n_states", "n_actions", "n_steps", "n_trajectories")}
        names = {key: None if meta.get(key) is None else tuple(map(str, meta[key])) for key in NAMES}
        unknown_state = bool(meta["unknown_state"])
    except (KeyError, ValueError, TypeError, OverflowError) as error:
        raise InputError(f"{folder / 'meta.json'} is damaged ({brief(error)}); restore or write it again.") from None
    offsets = arrays.pop("offsets")
    if offsets.shape != (sizes.pop("n_trajectories") + 1,) or offsets.dtype != np.int64:
        raise InputError(f"{folder / 'offsets.npy'} has shape {offsets.shape} and type {offsets.dtype}; it is damaged.")
    if int(offsets[-1]) != sizes.pop("n_steps"):
        raise InputError(f"The offsets in {folder} end at {offsets[-1]}, not at the number of steps; it is damaged.")
    fields: dict[str, Any] = {**arrays, **sizes, **names}
    if "motions" in fields:  # what belongs to commands beside their arrays; lists of JSON are tuples again
        found = {key: meta[key] for key in MOTIONS if meta.get(key) is not None}
        fields |= {key: tuple(value) if isinstance(value, list) else value for key, value in found.items()}
    try:
        return Demonstrations(offsets=offsets, unknown_state=unknown_state, **fields)
    except InputError as error:
        raise InputError(f"{folder} is damaged: {error}") from None


def _map(folder: Path, name: str) -> npt.NDArray[Any]:
    path = folder / f"{name}.npy"
    try:
        values = np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))  # a view: the file stays on disk
        if values.dtype.kind not in PLAIN:
            raise ValueError(f"it is of type {values.dtype} and holds neither numbers nor times nor text")
        if values.dtype.kind == "U":
            checked.text(name, values)
        return native(name, values)
    except FileNotFoundError:
        raise InputError(f"There is no {path.name} in {folder}; restore or write the folder again.") from None
    except BROKEN as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} is damaged or not an npy file ({brief(error)}).") from None
