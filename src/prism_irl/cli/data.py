"""`prism data`: which public data sets there are, and the one command that gets them."""

from __future__ import annotations

from typing import Any

from cyclopts import App

from prism_irl.cli.groups import EXPERIMENTS
from prism_irl.cli.options import CommonOptions
from prism_irl.errors import InputError

app = App(
    name="data",
    help="List public data sets, and download them.\n\nExample: prism data fetch labyrinth",
    group=EXPERIMENTS,
    group_commands="Commands",
)


@app.command(name="list")
def list_(*, common: CommonOptions = CommonOptions()) -> None:
    """Say which data sets are known, and which are here.

    Example: prism data list
    """
    from prism_irl.cli.printing import print_json
    from prism_irl.datasets import PUBLIC, store

    found: dict[str, Any] = {}
    for name, data in PUBLIC.items():
        files = store.states(data)
        found[name] = {
            "about": data.about,
            "licence": data.licence,
            "folder": data.folder,
            "files": files,
            "ready": set(files.values()) == {"ready"},
        }
    if common.json:
        print_json(found)
        return
    for name, entry in found.items():
        print(f"{name}: {entry['about']}")
        for file, state in entry["files"].items():
            print(f"  {state:<8} {entry['folder'] / file}")
        if not entry["ready"]:
            print(f"  get it: prism data fetch {name}")


@app.command
def fetch(name: str, *, address: str | None = None, common: CommonOptions = CommonOptions()) -> None:
    """Download a data set into the folder named by PRISM_DATA, or into the user's cache folder.

    Example: prism data fetch labyrinth

    Parameters
    ----------
    name
        A name that prism data list shows.
    address
        A mirror in place of the public address; the files must have the same checksums.
    """
    from prism_irl.cli.printing import print_json
    from prism_irl.datasets import PUBLIC, store

    if name not in PUBLIC:
        raise InputError(f"There is no data set {name!r}; choose among {', '.join(PUBLIC)}.")
    data = PUBLIC[name]
    done = store.fetch(data, address)
    if common.json:
        print_json({"folder": data.folder, "files": done})
        return
    for file, what in done.items():
        print(f"{what:<13} {data.folder / file}")
