"""Names that people give to intentions: saved by the report's page, put beside a run by `prism names`.

The file is ``{"names": ["seek water", "go home"]}``, one name per intention in the order of their numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from prism_irl import storage
from prism_irl.errors import InputError

FILE = "names.json"
MAX_NAME = 80  # characters


def default_names(n_intentions: int) -> list[str]:
    """Return what intentions are called before anybody names them."""
    return [f"intention {k}" for k in range(n_intentions)]


def told_names(words: Sequence[str] | None, n_intentions: int) -> list[str] | None:
    """What K intentions are called by the labels that a fit was told, where there are any and they can be names."""
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
