"""Read pickled arrays and containers without running anything that the file asks for.

BridgeData V2 stores its raw recordings as pickles, which may name any function to be called. Here every name in the
file is looked up in a short list of stand-ins that only remember what they were given; arrays are built afterwards by
this module, from bytes whose number must match the shape. Anything else is refused by its name.
"""

from __future__ import annotations

import pickle
import re
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from prism_irl.errors import InputError, brief

MAX_BYTES = 1 << 30
MAX_ITEMS = 1 << 28
_PLAIN = re.compile(r"[<>=|]?([biufcSU]\d+|\?)")


class RefusedPickleError(InputError):
    """The file asks for something other than arrays, numbers, text and containers."""


def load_arrays(path: Path) -> Any:
    """Return what a pickle of arrays, numbers, text, lists, tuples and dictionaries holds.

    Raises
    ------
    RefusedPickleError
        The file names a function or class that is not part of an array; nothing of it has been run.
    InputError
        The file is missing, too large or damaged.
    """
    if not path.is_file():
        raise InputError(f"{path} is missing.")
    if path.stat().st_size > MAX_BYTES:
        raise InputError(f"{path} has {path.stat().st_size} bytes, far more than a recording's arrays; it is not read.")
    try:
        with path.open("rb") as file:
            made = _real(_Unpickler(file, path).load(), {})
        _size(made, {})
        return made
    except InputError:
        raise
    except Exception as error:  # foreign bytes can fail in any way
        raise InputError(f"{path} is damaged or holds more than plain arrays ({brief(error)}).") from None


class _Name:
    """Stands for a name in the file: it can be called, but a file cannot change it."""

    __slots__ = ("_make",)
    _make: Callable[..., Any]

    def __init__(self, make: Callable[..., Any]) -> None:
        object.__setattr__(self, "_make", make)

    def __call__(self, *arguments: Any) -> Any:
        return self._make(*arguments)

    def __setattr__(self, name: str, value: Any) -> None:
        raise ValueError(f"a change of {name}")


class _Dtype:
    """Stands for a `numpy.dtype`: only its code and byte order are believed."""

    def __init__(self, code: Any, *_: Any) -> None:
        if code != "O8" and not (isinstance(code, str) and _PLAIN.fullmatch(code)):
            raise ValueError(f"array type {code!r}")
        self.code, self.order = code, ""

    def __setstate__(self, state: Any) -> None:
        order = state[1]
        if order not in ("<", ">", "|", "="):
            raise ValueError(f"byte order {order!r}")
        self.order = "" if order == "|" else order

    def real(self) -> np.dtype[Any]:
        """The dtype itself."""
        return np.dtype(object) if self.code == "O8" else np.dtype(self.order + self.code.lstrip("<>=|"))


class _Array:
    """Stands for an array until its bytes are known."""

    def __init__(self, *_: Any) -> None:
        self.shape: tuple[int, ...] = (0,)
        self.dtype: Any = _Dtype("u1")
        self.fortran: Any = False
        self.content: Any = b""

    def __setstate__(self, state: Any) -> None:
        _, self.shape, self.dtype, self.fortran, self.content = state

    def real(self, seen: dict[int, Any]) -> npt.NDArray[Any]:
        """The array itself; its content must have the size that its shape says."""
        if not isinstance(self.dtype, _Dtype) or not all(isinstance(n, int) and n >= 0 for n in self.shape):
            raise ValueError(f"array of shape {self.shape!r}")
        if isinstance(self.content, list):  # an array of objects
            values = np.empty(len(self.content), dtype=object)
            values[:] = [_real(item, seen) for item in self.content]
        else:
            if not isinstance(self.content, bytes | bytearray | str):  # of a number bytes() makes as many zeros
                raise ValueError(f"an array made of {type(self.content).__name__}")
            content = self.content.encode("latin1") if isinstance(self.content, str) else bytes(self.content)
            dtype = self.dtype.real()
            if dtype.hasobject:
                raise ValueError("an array of objects made of bytes")
            values = np.frombuffer(content, dtype=dtype)
        return values.reshape(self.shape, order="F" if self.fortran else "C").copy()


def _array_type(*_: Any) -> Any:
    """Stand-in for the class `numpy.ndarray`, which is named in pickles but never called."""
    raise ValueError("an array made without content")


def _scalar(dtype: Any, content: Any = b"") -> Any:
    """Stand-in for numpy's scalars."""
    content = content.encode("latin1") if isinstance(content, str) else content
    if not isinstance(dtype, _Dtype) or dtype.code == "O8" or len(content) != dtype.real().itemsize:
        raise ValueError("a scalar whose bytes do not fit its type")
    return np.frombuffer(content, dtype=dtype.real())[0]


def _from_buffer(content: Any, dtype: Any, shape: Any, order: Any) -> _Array:
    """Stand-in for how protocol 5 stores arrays."""
    array = _Array()
    array.__setstate__((1, shape, dtype, order == "F", content))
    return array


def _encode(text: Any, encoding: Any = "latin1") -> bytes:
    """Stand-in for how old protocols store bytes."""
    if encoding != "latin1" or not isinstance(text, str):
        raise ValueError(f"text in the encoding {encoding!r}")
    return text.encode("latin1")


_ALLOWED: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy", "ndarray"): _array_type,
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): _encode,
    ("collections", "OrderedDict"): OrderedDict,
}
for _core in ("numpy.core", "numpy._core"):
    _ALLOWED |= {
        (f"{_core}.multiarray", "_reconstruct"): _Array,
        (f"{_core}.multiarray", "scalar"): _scalar,
        (f"{_core}.numeric", "_frombuffer"): _from_buffer,
    }
for _module in ("builtins", "__builtin__"):
    _ALLOWED |= {(_module, made.__name__): made for made in (list, dict, tuple, set, frozenset)}


class _Unpickler(pickle.Unpickler):
    """Finds stand-ins and nothing else."""

    def __init__(self, file: Any, path: Path) -> None:
        super().__init__(file, encoding="latin1")
        self._path = path

    def find_class(self, module: str, name: str) -> Any:
        """Return the stand-in of a name, or refuse the file."""
        if (module, name) not in _ALLOWED:
            raise RefusedPickleError(
                f"{self._path} asks to load {module}.{name}, which is not part of an array; it was refused and nothing "
                "in it was run."
            )
        return _Name(_ALLOWED[module, name])


def _size(value: Any, seen: dict[int, int]) -> int:
    """Numbers in nested containers, each as often as it is referred to: a list of lists of lists may be endless."""
    if id(value) in seen:
        return seen[id(value)]
    size = 1
    if isinstance(value, np.ndarray):
        size = value.size if value.dtype != object else sum(_size(item, seen) for item in value.ravel().tolist())
    elif isinstance(value, dict):
        size += sum(_size(item, seen) for item in value.values())
    elif isinstance(value, list | tuple):
        size += sum(_size(item, seen) for item in value)
    if size > MAX_ITEMS:
        raise ValueError(f"more than {MAX_ITEMS} numbers in lists of lists")
    seen[id(value)] = size
    return size


def _real(value: Any, seen: dict[int, Any]) -> Any:
    """Replace stand-ins by arrays, once per object: references shared a million times stay shared."""
    if id(value) in seen:
        return seen[id(value)]
    made: Any = value
    if isinstance(value, _Array):
        made = value.real(seen)
    elif isinstance(value, dict):
        made = {key: _real(item, seen) for key, item in value.items()}
    elif isinstance(value, list | tuple):
        made = type(value)(_real(item, seen) for item in value)
    seen[id(value)] = made
    return made
