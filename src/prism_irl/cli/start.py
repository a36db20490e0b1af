"""`prism demo`, `sample` and `methods`: a first look; `prism data`: public data sets, and large data as mapped."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, Literal

from cyclopts import App

from prism_irl.cli.options import EXPERIMENTS, ColumnOptions, CommonOptions, FitsOptions, Seed
from prism_irl.cli.runs import RunFolder
from prism_irl.errors import InputError


def demo(
    *, out: Path = Path("runs/demo"), jobs: int = 2, overwrite: bool = True, common: CommonOptions = CommonOptions()
) -> None:
    """Simulate an agent with hidden intentions and recover them, in a minute or two.

    The agent of the gridworld wants a goal, and gives up in front of barriers.

    Example: prism demo

    Parameters
    ----------
    out
        Folder of the results.
    jobs
        Fits that run at the same time.
    overwrite
        Replace the results of an earlier demo.
    """
    from prism_irl.cli.printing import print_experiment
    from prism_irl.cli.progress import fits_progress

    FitsOptions(jobs)  # refuses what is no number of processes
    folder = RunFolder(out, overwrite=overwrite, common=common)
    folder.make(partial(run_gridworld, jobs=jobs), print_experiment, progress=fits_progress, config={})


FOLDS = 5


def run_gridworld(folder: Path, on_fit: Any = None, *, jobs: int = 1, n: int = 512, **limits: Any) -> dict[str, Any]:
    """Return the metrics of methods on the frustration gridworld, and write the run: one fold of ``n`` trajectories.

    The truth is scored beside the methods, and the best of them is shown. ``limits`` are options of the learned
    methods (``n_starts``, ``max_iterations``).
    """
    import numpy as np

    from prism_irl.evaluation.truth import Truth, recovered_order
    from prism_irl.mdp import MDP
    from prism_irl.models import registry
    from prism_irl.models.references import WorldOracle
    from prism_irl.report.places import grid
    from prism_irl.studies import results
    from prism_irl.studies.cross_validation import cross_validate
    from prism_irl.worlds.frustration import ACTIONS, INTENTIONS, FrustrationWorld

    world, K = FrustrationWorld(), len(INTENTIONS)
    network = {"network": "gru", "embedding": 32, "hidden": 32, "learning_rate": 3e-3}
    learned = {"n_starts": 2, "max_iterations": 60, "batch_size": 64, **network, **limits}
    options: dict[str, dict[str, Any]] = {
        "prism-recurrent": learned,
        "prism-past": learned,
        "prism-paper": {"max_iterations": learned["max_iterations"]},
        "hiql": {},
        "iavi": {},
    }
    methods = [
        registry.Method("oracle", "Truth (Bayes filter)", WorldOracle(world)),
        *(registry.method(name, K, discount=world.discount, **own) for name, own in options.items()),
    ]
    demos, counters = world.simulate(n, seed=1)
    mdp = MDP.from_dense(world.transitions, discount=world.discount)
    truth = Truth(mdp, world.rewards, world.policies, INTENTIONS, 0)
    options_of: dict[str, Any] = {"folds": FOLDS, "only_folds": (0,), "jobs": jobs, "keep_models": True}
    done = cross_validate(demos, methods, extra=truth, on_fit=on_fit, **options_of)
    notes = [
        f"{n} simulated trajectories, one of {FOLDS} folds. The expert wants the goal, and gives up after running into "
        "barriers too often: a counter that no method sees, but the exact Bayes filter knows of.",
        "Starts and stopping points were chosen by likelihood inside the training part.",
    ]
    result = {
        **results.heading("Frustration gridworld: a demonstration", demos, folds=1, experiment="demo", quick=True),
        "notes": notes,
        "methods": done.table(),
    }
    results.write_results(folder, result, done.rows)
    results.write_figures(folder / "figures", {"method_bars": partial(results.likelihood_figure, result=result)})
    best = results.choose_exemplar(methods, result["methods"])
    assert best is not None
    model, test = done.models()[best.id], demos.subset(done.test)
    results.write_exemplar(
        folder,
        test,
        model,
        name=f"{best.name}, the best predictor here with several intentions",
        how="It was fitted to the other trajectories; those shown are test trajectories, which it has not seen.",
        order=recovered_order(model, test, K),
        layout=grid(world.size, world.size, world.barriers),
        names=INTENTIONS,
        actions=ACTIONS,
        counters={"frustration": counters[np.isin(demos.trajectory_index, done.test)]},
        events={"barrier met": world.blocked[test.states, test.actions].astype(bool)},
    )
    return result


def sample(
    name: Literal["mouse", "two-goals", "choices", "arm"],
    *,
    out: Path | None = None,
    truth: bool = False,
    seed: Seed = 0,
) -> None:
    """Write a small simulated table, to standard output or a file.

    Example: prism sample mouse --out mouse.csv

    Parameters
    ----------
    name
        mouse: cells of a grid, water and home; two-goals: a walker whose velocity is measured; choices: left or right,
        trial by trial; arm: pick and place, in demonstrations.
    out
        File to write [default: standard output].
    truth
        Add the column intention: what the agent was after at every step, for evaluation.
    """
    from prism_irl.worlds import samples

    rows = samples.sample(name, seed, truth=truth)
    if out is not None and out.exists():
        raise InputError(f"There is a file {out} already; choose another --out.")
    try:
        target = nullcontext(sys.stdout) if out is None else out.open("w", newline="", encoding="utf-8")
        with target as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise InputError(f"Cannot write {out} ({error.strerror}); choose another --out.") from None


KEYS = ("id", "name", "switching", "rewards", "leaks", "takes_intentions", "when")


def methods(*, common: CommonOptions = CommonOptions()) -> None:
    """List the methods that fit and compare know: what each is made of, and when to choose it.

    Example: prism methods --json
    """
    from prism_irl.models import registry

    entries = [{key: getattr(entry, key) for key in KEYS} for entry in registry.entries()]
    if common.json:
        from prism_irl.cli.printing import print_json

        print_json(entries)
        return
    named, pairs = ([entry for entry in entries if ("+" in entry["id"]) is pair] for pair in (False, True))
    made_of = [" + ".join(half for half in (entry["switching"], entry["rewards"]) if half) or "–" for entry in named]
    first, second = (max(map(len, column), default=0) for column in ([entry["id"] for entry in named], made_of))
    for entry, halves in zip(named, made_of, strict=True):
        print(f"{entry['id']:<{first}}  {halves:<{second}}  {entry['when']}")
    if pairs:
        print("\nAny pair can be typed, too (when it switches + what it wants):")
    width = max((len(entry["id"]) for entry in pairs), default=0)
    for entry in pairs:
        print(f"{entry['id']:<{width}}  {entry['when']}")


# -- which public data sets there are, the one command that gets them, and large data as mapped files ------------------

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
        LeRobot or RLDS folder, that fit into memory.
    out
        The new folder.
    """
    from prism_irl.cli.printing import print_json
    from prism_irl.cli.progress import counting
    from prism_irl.cli.sources import read_rows
    from prism_irl.data.demonstrations import Demonstrations
    from prism_irl.data.files import FILE, matching
    from prism_irl.data.mapped import open_folder, write_folder

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
