"""Packages that an extra brings: imported where they are used, and asked for in one sentence where they are missing."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from prism_irl.errors import InputError


def need(module: str, extra: str) -> Any:
    """Import a module of an optional package, or say which extra brings it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise missing(error.name or module, extra) from None


def missing(package: str, extra: str) -> InputError:
    """Return the error for a package that is not there; the caller raises it."""
    return InputError(f'{package} is not installed; get it with: pip install "prism-irl[{extra}]".')
