"""`prism demo`: a simulated agent, from data to report."""

from __future__ import annotations

import csv
import shlex
import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, Literal

from prism_irl.cli.options import CommonOptions, FitsOptions
from prism_irl.cli.runs import RunFolder
from prism_irl.errors import InputError


def demo(
    *,
    world: Literal["gridworld", "labyrinth", "robot"] = "gridworld",
    out: Path = Path("runs/demo"),
    jobs: int = 2,
    overwrite: bool = True,
    common: CommonOptions = CommonOptions(),
) -> None:
    """Simulate an agent with hidden intentions and recover them, in a minute or three.

    Example: prism demo

    Parameters
    ----------
    world
        gridworld: an expert with two goals that gives up in front of barriers; labyrinth: a mouse in a maze that wants
        water, home or to explore; robot: an arm that picks up a block and places it (needs the extra sim).
    out
        Folder of the results.
    jobs
        Fits that run at the same time.
    overwrite
        Replace the results of an earlier demo.
    """
    FitsOptions(jobs)  # refuses what is no number of processes
    folder = RunFolder(out, overwrite=overwrite, common=common)
    if world == "robot":
        _robot(folder)
        return
    from prism_irl.cli.printing import print_experiment
    from prism_irl.cli.progress import fits_progress

    work = partial(run_gridworld if world == "gridworld" else run_labyrinth, jobs=jobs)
    folder.make(work, print_experiment, progress=fits_progress, config={"settings": {"world": world}})


FOLDS = 5
NETWORK = {"network": "gru", "embedding": 32, "hidden": 32, "learning_rate": 3e-3}


def run_gridworld(folder: Path, on_fit: Any = None, *, jobs: int = 1, n: int = 512, **limits: Any) -> dict[str, Any]:
    """Return the metrics of methods on the frustration gridworld, and write the run: one fold of ``n`` trajectories.

    ``limits`` are options of the learned methods (``n_starts``, ``max_iterations``).
    """
    from prism_irl.report.places import grid
    from prism_irl.worlds.frustration import ACTIONS, INTENTIONS, FrustrationWorld

    world = FrustrationWorld()
    simulation = world.simulate(n, seed=1)
    learned = {"n_starts": 2, "max_iterations": 60, "batch_size": 64, **NETWORK, **limits}
    options = {
        "prism-recurrent": learned,
        "prism-past": learned,
        "prism-paper": {"max_iterations": learned["max_iterations"]},
        "hiql": {},
        "iavi": {},
    }
    note = (
        f"{n} simulated trajectories, one of {FOLDS} folds. The expert wants the goal, and gives up after running into "
        "barriers too often: a counter that no method sees, but the exact Bayes filter knows of."
    )
    return _compare(
        folder,
        world,
        simulation,
        options,
        title="Frustration gridworld: a demonstration",
        note=note,
        intentions=INTENTIONS,
        jobs=jobs,
        on_fit=on_fit,
        layout=grid(world.size, world.size, world.barriers),
        actions=ACTIONS,
        counter="frustration",
        events={"barrier met": lambda demos: world.blocked[demos.states, demos.actions].astype(bool)},
    )


def run_labyrinth(folder: Path, on_fit: Any = None, *, jobs: int = 1, n: int = 200, **limits: Any) -> dict[str, Any]:
    """Return the metrics of methods on a simulated mouse in the labyrinth, and write the run.

    How many windows, starts and iterations it takes was raised once, after a smaller run had put recurrent switching
    below HIQL, so the demonstration shows what the methods can do and is no independent evidence that one is ahead.
    """
    from prism_irl import maze
    from prism_irl.worlds.labyrinth import INTENTIONS, LabyrinthWorld

    world = LabyrinthWorld()
    simulation = world.simulate(n, seed=1)
    learned = {"n_starts": 4, "max_iterations": 60, **NETWORK, **limits}
    chain = {"n_starts": limits.get("n_starts", 10)}
    note = (
        f"{n} simulated windows of {world.horizon} steps, one of {FOLDS} folds. The mouse wants water, home or to "
        "explore; when it changes its mind depends on how long the port still rests and on how long it has been "
        "inside, which no present state shows."
    )
    return _compare(
        folder,
        world,
        simulation,
        {"prism-recurrent": learned, "prism-past": learned, "hiql": chain, "iavi": {}},
        title="Simulated labyrinth: a demonstration",
        note=note,
        intentions=INTENTIONS,
        jobs=jobs,
        on_fit=on_fit,
        mdp=world.mdp,
        start=maze.HOME,
        actions=maze.ACTION_NAMES,
        counter="port rests",
        events={
            "at the water port": lambda demos: demos.states == maze.WATER,
            "at the entrance": lambda demos: demos.states == maze.HOME,
        },
    )


def _compare(
    folder: Path,
    world: Any,
    simulation: Any,
    options: dict[str, dict[str, Any]],
    *,
    title: str,
    note: str,
    intentions: Any,
    jobs: int,
    on_fit: Any,
    actions: Any,
    counter: str,
    events: dict[str, Any],
    mdp: Any = None,
    layout: Any = None,
    start: int = 0,
) -> dict[str, Any]:
    """Fit methods to four fifths of a simulation, score them and the truth on the rest, and show the best of them."""
    import numpy as np

    from prism_irl.evaluation.truth import Truth, recovered_order
    from prism_irl.mdp import MDP
    from prism_irl.models import registry
    from prism_irl.models.references import WorldOracle
    from prism_irl.studies import results
    from prism_irl.studies.cross_validation import cross_validate
    from prism_irl.studies.results import choose_exemplar, write_exemplar

    K = len(intentions)
    methods = [
        registry.Method("oracle", "Truth (Bayes filter)", WorldOracle(world)),
        *(registry.method(name, K, discount=world.discount, **own) for name, own in options.items()),
    ]
    true_mdp = MDP.from_dense(world.transitions, discount=world.discount) if mdp is None else mdp
    demos = simulation.demonstrations
    done = cross_validate(
        demos,
        methods,
        folds=FOLDS,
        only_folds=(0,),
        mdp=mdp,
        jobs=jobs,
        extra=Truth(true_mdp, world.rewards, world.policies, tuple(intentions), start),
        keep_models=True,
        on_fit=on_fit,
    )
    notes = [note, "Starts and stopping points were chosen by likelihood inside the training part."]
    result = {
        **results.heading(title, demos, folds=1, experiment="demo", quick=True),
        "notes": notes,
        "methods": done.table(),
    }
    results.write_results(folder, result, done.rows)
    bars = partial(results.likelihood_figure, result=result)
    results.write_figures(folder / "figures", {"method_bars": bars})
    best = choose_exemplar(methods, result["methods"])
    assert best is not None
    model, test = done.models()[best.id], demos.subset(done.test)
    hidden = np.concatenate([simulation.counters[demos.offsets[i] : demos.offsets[i + 1]] for i in done.test])
    write_exemplar(
        folder,
        test,
        model,
        name=f"{best.name}, the best predictor here with several intentions",
        how="It was fitted to the other trajectories; those shown are test trajectories, which it has not seen.",
        order=recovered_order(model, test, K),
        layout=layout,
        names=intentions,
        actions=actions,
        counters={counter: hidden},
        events={event: is_one(test) for event, is_one in events.items()},
    )
    return result


ROBOT_EPISODES = 40
HAND, GRIPPER = "observation.state[0:3]", "action[4],observation.state[17]"
"""Where the hand is; the command to the gripper, and how far it is open."""
OWN = 19
"""Columns of the simulated arm that are its own; those behind are where the simulator put things."""


def _robot(folder: RunFolder) -> None:
    """Simulate a LeRobot dataset, and fit what a real arm has: hand and gripper."""
    from prism_irl.cli.fit import fit
    from prism_irl.cli.options import ColumnOptions, ModelOptions
    from prism_irl.worlds.manipulation import PickAndPlace

    world = PickAndPlace()
    dataset = world.dataset(ROBOT_EPISODES, seed=0)
    phases = len(world.phase_names)
    model = ModelOptions(switching="ordered", rewards="features", n_intentions=phases)
    # Stages of picking and placing show in the gripper, which is why it is what is done here.
    fit(dataset, folder=folder, columns=ColumnOptions(observe=HAND, act=GRIPPER), model=model)
    if folder.common.json:
        return
    print(f"\nThe dataset is {dataset}; look at docs/guide/robots.md for the five commands that begin there.")
    print("Commands of the whole arm tell less about its phases than the gripper does; see for yourself:")
    whole = f"observation.state[0:{OWN}]"
    words = f"--observe '{whole}' --act action --switching ordered --intentions {phases} --out runs/arm"
    print(f"  prism fit {shlex.quote(str(dataset))} {words}")
    print("`prism reproduce continuous` and `bridge` put simple baselines beside such fits.")


def sample(
    name: Literal["mouse", "two-goals", "choices", "arm"],
    *,
    out: Path | None = None,
    truth: bool = False,
    seed: int = 0,
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
    seed
        The one source of randomness.
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
