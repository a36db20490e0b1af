"""Model files and checkpoints: safetensors with a JSON header, written atomically; nothing is ever unpickled.

A file is written beside its target and renamed, so that a kill at any moment leaves the old file or the new one. A
truncated or foreign file is an `InputError`, never a wrong answer.
"""

from __future__ import annotations

import json
import math
import os
import platform
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from prism_irl.errors import InputError, brief

if TYPE_CHECKING:  # reading and writing JSON needs neither
    import numpy as np
    from torch import Tensor

FORMAT = "prism-irl"


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a name beside ``path`` for a file or folder that takes its place when the block ends without an error."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        if temporary.is_dir():
            shutil.rmtree(temporary, ignore_errors=True)
        else:
            temporary.unlink(missing_ok=True)


def write_file(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Write a file of somebody's data atomically; where that fails, say why in one sentence."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary, temporary.open("wb") as file:
            write(file)
    except (OSError, ValueError) as error:
        raise InputError(f"Cannot write {path} ({brief(error)}).") from None


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Write JSON atomically; NaN becomes null, because NaN is not JSON."""
    write_text(path, json.dumps(_plain(value), indent=2, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    """Read JSON; a missing or broken file is an `InputError`."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"There is no {path.name} in {path.parent}; is that the folder of a fitted model?") from None
    except (ValueError, OSError) as error:
        raise InputError(f"{path} is not readable as JSON ({error}); restore it or fit again.") from None


def read_plain(value: Any) -> Any:
    """Return a value as it would come back from JSON."""
    return json.loads(json.dumps(_plain(value)))


def save_tensors(path: Path, tensors: Mapping[str, Tensor | np.ndarray[Any, Any]], header: Mapping[str, Any]) -> None:
    """Write tensors and a JSON header atomically."""
    import numpy as np
    import torch
    from safetensors.torch import save_file  # here, so that a fit that writes nothing needs no safetensors

    copies = {  # torch warns about read-only arrays
        name: value.detach() if isinstance(value, torch.Tensor) else torch.from_numpy(np.array(value))
        for name, value in tensors.items()
    }
    flat = {name: value.cpu().contiguous().clone() for name, value in copies.items()}
    with replacing(path) as temporary:
        save_file(flat, temporary, {"format": FORMAT, "header": json.dumps(_plain(dict(header)))})


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `save_tensors` wrote."""
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
        return tensors, json.loads(metadata["header"])
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} is truncated or not a model file ({error}); restore it or fit again.") from None


def prefixed(prefix: str, tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Put the tensors of one part of a model under a common prefix."""
    return {f"{prefix}.{name}": value for name, value in tensors.items()}


def part(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Undo `prefixed`."""
    start = prefix + "."
    return {name[len(start) :]: value for name, value in tensors.items() if name.startswith(start)}


def versions() -> dict[str, str]:
    """Versions that results depend on."""
    names = ("prism-irl", "torch", "numpy", "scipy", "scikit-learn")
    return {**{name: version(name) for name in names}, "python": platform.python_version()}


def _plain(value: Any) -> Any:
    """JSON types only."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):  # arrays and their scalars
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Path):
        return str(value)
    return value
