"""`prism data`: which public data sets there are, the one command that gets them, and large data as mapped files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cyclopts import App

from prism_irl.cli.options import EXPERIMENTS, ColumnOptions, CommonOptions
from prism_irl.errors import InputError

app = App(
    name="data",
    help="List public data sets and download them; turn large data into mapped files.\n\n"
    "Example: prism data fetch labyrinth",
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


@app.command(name="map")
def map_(
    table: Path, *, out: Path, columns: ColumnOptions = ColumnOptions(), common: CommonOptions = CommonOptions()
) -> None:
    """Write continuous tables, one after the other, as a folder of mapped files: data larger than memory.

    prism fit, score and segment read the folder without naming columns.

    Example: prism data map "arm/*.parquet" --trajectory episode --observe x,y,z --act vx,vy,vz --out arm-mapped

    Parameters
    ----------
    table
        Several .csv, .tsv or .parquet files as one pattern in quotes, whole trajectories in each; or one file, or a
        LeRobot, RLDS or BridgeData folder, that fit into memory.
    out
        The new folder.
    """
    from prism_irl.cli.printing import print_json
    from prism_irl.cli.progress import counting
    from prism_irl.cli.sources import read_rows
    from prism_irl.data.demonstrations import Demonstrations
    from prism_irl.data.mapped import open_folder, write_folder
    from prism_irl.data.read import FILE, matching

    roles = columns.roles()
    if not (columns.observe and columns.act):
        raise InputError("Mapped files are made of continuous data; name the columns with --observe and --act.")
    if columns.events or any(columns.covariates()):
        raise InputError(
            "--events, --covariates and --time-since are columns of a table, which mapped files are not; leave them."
        )
    files = matching(table)
    key = str(roles.get("trajectory") or "trajectory")
    if len(files) > 1 and FILE not in (name.strip() for name in key.split(",")):
        roles["trajectory"] = f"{FILE},{key}"  # so that equal numbers in two files stay apart

    def parts() -> Iterator[Demonstrations]:
        with counting("files") as report:
            for done, file in enumerate(files, start=1):
                yield read_rows(file, **roles).demonstrations
                report("files", done, len(files), "")

    write_folder(out, parts())
    demos = open_folder(out, verify=False)
    if common.json:
        print_json({"folder": out, "trajectories": len(demos), "steps": demos.n_steps, "files": len(files)})
    else:
        print(f"{demos.n_steps:,} steps in {len(demos):,} trajectories of {len(files):,} files: {out}")
