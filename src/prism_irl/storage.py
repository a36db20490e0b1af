"""Every write, and the model files and checkpoints: safetensors with a JSON header; nothing is ever unpickled.

A file is written beside its target, under a name that nobody can guess, and renamed, so that a kill at any moment
leaves the old file or the new one, and a link that lies in wait is replaced instead of followed. A file of tensors
carries the checksum of all that is in it: a truncated, foreign or altered one is an `InputError`, never a wrong answer.
"""

from __future__ import annotations

import glob
import hashlib
import json
import math
import os
import platform
import re
import secrets
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from prism_irl import __version__
from prism_irl.errors import InputError, brief

if TYPE_CHECKING:  # reading and writing JSON needs neither
    import numpy as np
    from pandas import DataFrame
    from torch import Tensor

_NUMBER = re.compile(r"[+-]?[\d.]+(e[+-]?\d+)?", re.IGNORECASE)
_AS_THEY_ARE, _NUMBERS = {int, str, bool, type(None)}, {int, bool, float}
FORMAT = "prism-irl"
TEMPORARY = f".prism-{platform.node()[:32]}-"
"""How the names of unfinished files of this machine begin; the process that writes them follows."""
VERSION = 2
"""Of tensor files. 1 had no checksum and is still read, checked as far as its numbers allow; newer is refused."""


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a name beside ``path`` for a file or folder that takes its place when the block ends without an error."""
    temporary = path.with_name(f"{TEMPORARY}{os.getpid()}-{secrets.token_hex(4)}.tmp")  # names may not be long
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        discard(temporary)


def discard(path: Path) -> None:
    """Remove a file or a folder, if it is there; of a link, the link."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def sweep(folder: Path, below: bool = False) -> None:
    """Remove what writers of this machine that were killed have left in a folder, or in those below it, too."""
    for left in folder.glob(f"{'**/' * below}{glob.escape(TEMPORARY)}*.tmp"):
        try:
            os.kill(int(left.name.removeprefix(TEMPORARY).partition("-")[0]), 0)
        except ProcessLookupError:
            discard(left)
        except (ValueError, OSError):
            continue  # not ours, or still at work


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what the disk, or a library that writes on it, has to say about ``path`` into one sentence."""
    try:
        yield
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        reason = error.strerror if isinstance(error, OSError) and error.strerror else brief(error)
        raise InputError(f"Cannot write {path} ({reason}); what was there before is still there.") from None


def write_file(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Write a file atomically; where that fails, say why in one sentence."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary, temporary.open("xb") as file:
            write(file)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    write_file(path, lambda file: file.write(text.encode("utf-8", "surrogatepass")))


def write_json(path: Path, value: Any) -> None:
    """Write JSON atomically; NaN becomes null, because NaN is not JSON."""
    write_text(path, json.dumps(_plain(value), indent=2, allow_nan=False) + "\n")


def inert(text: str) -> str:
    """Text that no spreadsheet takes for a formula: an apostrophe before =, +, - or @, unless it is a number."""
    if not text.startswith(("=", "+", "-", "@", "\t", "\r")) or _NUMBER.fullmatch(text):
        return text
    return f"'{text}"


def write_rows(path: Path, table: DataFrame) -> None:
    """Write a table of results as CSV, atomically; no name in it is a formula, whatever the data called its states."""

    def safe(value: Any) -> Any:
        return inert(value) if isinstance(value, str) else value

    text = {name: column.map(safe) for name, column in table.items() if column.dtype.kind not in "biufcmM"}
    write_text(path, table.assign(**{str(name): column for name, column in text.items()}).to_csv(index=False))


def read_json(path: Path) -> Any:
    """Read JSON; a missing or broken file is an `InputError`."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"There is no {path.name} in {path.parent}; is that the folder of a fitted model?") from None
    except RecursionError:  # brackets within brackets, thousands deep: nobody's results
        raise InputError(f"{path} is not readable as JSON (nested too deep); restore it or fit again.") from None
    except (ValueError, OSError) as error:
        raise InputError(f"{path} is not readable as JSON ({brief(error)}); restore it or fit again.") from None


def read_object(path: Path) -> dict[str, Any]:
    """Read JSON that must be an object, as all files of a run are."""
    value = read_json(path)
    if not isinstance(value, dict):
        raise InputError(f"{path} holds no JSON object; restore it or fit again.")
    return value


def inside(path: Path, folder: Path) -> bool:
    """Whether a file lies in the folder once links are followed."""
    return path.resolve().is_relative_to(folder.resolve())


def read_part(
    folder: Path, name: str, most_bytes: float, is_whole: Callable[[dict[str, Any]], bool], part: str
) -> dict[str, Any] | None:
    """Return what a JSON file of the folder holds, None where there is none; a large or damaged one is an error.

    ``part`` of the page is what one goes without when the file is deleted.
    """
    path = folder / name
    if not path.is_file() or not inside(path, folder):
        return None
    if path.stat().st_size > most_bytes:
        limit = f"{most_bytes / 1_000_000:.1f} MB"
        raise InputError(f"{path} is larger than {limit}; run again, or delete it to do without {part}.")
    value = read_json(path)
    try:
        whole = is_whole(value)
    except (KeyError, TypeError, ValueError, AttributeError):
        whole = False
    if not whole:
        raise InputError(f"{path} is damaged; run again, or delete it to do without {part}.")
    found: dict[str, Any] = value
    return found


def write_sealed(path: Path, value: Mapping[str, Any]) -> None:
    """Write a JSON object with the checksum of its content, to be read again later, when nobody looks at it."""
    plain = read_plain(value)
    write_json(path, plain | {"sha256": checksum(plain)})


def read_sealed(path: Path) -> dict[str, Any]:
    """Read what `write_sealed` wrote; anything else is an `InputError`."""
    value = read_object(path)
    if value.pop("sha256", None) != checksum(value):
        raise InputError(f"{path} is damaged: it is not what its checksum says; remove it, and it is made again.")
    return value


def read_plain(value: Any) -> Any:
    """Return a value as it would come back from JSON."""
    return json.loads(json.dumps(_plain(value)))


def checksum(value: Any) -> str:
    """SHA-256 of a value as JSON, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(_plain(value), sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def save_tensors(path: Path, tensors: Mapping[str, Tensor | np.ndarray[Any, Any]], header: Mapping[str, Any]) -> None:
    """Write tensors, a JSON header and the checksum of both, atomically."""
    with writing(path), replacing(path) as temporary:
        _save_tensors(temporary, tensors, header)


def save_described(
    described: Path, value: Any, path: Path, tensors: Mapping[str, Any], header: Mapping[str, Any]
) -> None:
    """Write a JSON file and the file of tensors that it describes, tied together by a checksum.

    Both are ready before the first of them takes its place. Should only one of them get there, `load_described` knows.
    """
    value = read_plain(value)
    with writing(path), replacing(described) as first, replacing(path) as second:
        _save_tensors(second, tensors, {**header, "described_by": checksum(value)})
        first.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def load_described(described: Path, path: Path) -> tuple[dict[str, Any], dict[str, Tensor], dict[str, Any]]:
    """Read what `save_described` wrote: the JSON, tensors and header; files that do not belong together are refused."""
    value = read_object(described)
    tensors, header = load_tensors(path)
    expected, newer = header.pop("described_by", None), "format_version" in value
    if newer and value["format_version"] != VERSION:
        raise InputError(_other_version(described, value["format_version"]))
    if (expected is None and newer) or (expected is not None and checksum(value) != expected):
        raise InputError(
            f"{described.name} and {path.name} in {path.parent} were not written together, or one of them was changed; "
            "restore both or fit again."
        )
    return value, tensors, header


def _save_tensors(path: Path, tensors: Mapping[str, Any], header: Mapping[str, Any]) -> None:
    import numpy as np
    from safetensors import SafetensorError
    from safetensors.numpy import save_file  # here, so that a fit that writes nothing needs no safetensors

    from prism_irl.devices import as_array

    plain = {name: as_array(value) if hasattr(value, "detach") else value for name, value in tensors.items()}
    flat = {name: np.array(value, order="C") for name, value in plain.items()}
    text = json.dumps(_plain(dict(header)))
    metadata = {"format": FORMAT, "version": str(VERSION), "header": text, "sha256": _sum_of(flat, text)}
    try:
        save_file(flat, path, metadata)
    except SafetensorError as error:  # which is no OSError, whatever the disk said
        raise OSError(str(error).rpartition(": ")[2]) from None
    mask = os.umask(0)
    os.umask(mask)
    path.chmod(0o666 & ~mask)  # the library leaves it to the owner alone


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `save_tensors` wrote, to the last bit, or raise an `InputError`."""
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise InputError(f"There is no model file {path}; is that the folder of a fitted model?")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != FORMAT:
                raise InputError(f"{path} was not written by prism; give the folder of a model that prism fitted.")
            # A copy, because safetensors maps the file and a checkpoint is replaced while it is in use.
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
        text = metadata["header"]
        if set(metadata) != {"format", "header"}:  # a file of version 1 has no checksum
            version = metadata.get("version") or ""
            if version.isdecimal() and int(version) > VERSION:
                raise InputError(_other_version(path, version))
            if version != str(VERSION) or metadata.get("sha256") != _sum_of(tensors, metadata["header"]):
                raise InputError(f"{path} is damaged: it is not what its checksum says; restore it or fit again.")
        header = json.loads(text)
        if not isinstance(header, dict):
            raise ValueError("its header is no JSON object")
        return tensors, header
    except (SafetensorError, OSError, KeyError, ValueError, RuntimeError, OverflowError) as error:
        if isinstance(error, InputError):
            raise
        reason = brief(error)
        raise InputError(f"{path} is truncated or not a model file ({reason}); restore it or fit again.") from None


def _other_version(path: Path, version: Any) -> str:
    return f"{path} is of format {version!r:.20} and this program reads up to {VERSION}; use the version that wrote it."


def _sum_of(tensors: Mapping[str, Any], header: str) -> str:
    """SHA-256 of a header and of the names, types, shapes and bytes of tensors or arrays, which have the same sum."""
    import numpy as np

    total = hashlib.sha256(header.encode())
    for name in sorted(tensors):
        value = np.asarray(tensors[name])
        total.update(json.dumps([name, f"torch.{value.dtype}", list(value.shape)]).encode())
        total.update(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)
    return total.hexdigest()


def prefixed(prefix: str, tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Put the tensors of one part of a model under a common prefix."""
    return {f"{prefix}.{name}": value for name, value in tensors.items()}


def part(prefix: str, tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Undo `prefixed`."""
    start = prefix + "."
    return {name[len(start) :]: value for name, value in tensors.items() if name.startswith(start)}


def versions() -> dict[str, str]:
    """Versions that results depend on; in a checkout its commit, too."""
    names = ("torch", "numpy", "scipy", "scikit-learn")
    found = {"prism-irl": __version__, **{name: version(name) for name in names}, "python": platform.python_version()}
    return found if (commit := source_commit()) is None else {**found, "commit": commit}


@cache
def source_commit() -> str | None:
    """Commit of the checkout that this package is imported from, "with changes" where there are some; else None."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    call = ["git", "-C", str(root), "describe", "--always", "--abbrev=10", "--exclude=*", "--dirty= with changes"]
    try:
        done = subprocess.run(call, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):  # no git here, or not ours to read
        return None
    return done.stdout.strip() or None


def _plain(value: Any) -> Any:
    """JSON types only."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        kinds = set(map(type, value))
        if kinds <= _AS_THEY_ARE or (kinds <= _NUMBERS and all(map(math.isfinite, value))):
            return list(value)  # the most of what there is: no need to ask every item again
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):  # arrays and their scalars
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Path):
        return str(value)
    return value
