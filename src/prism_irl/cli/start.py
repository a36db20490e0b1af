"""`prism demo`: a simulated agent, from data to report."""

from __future__ import annotations

import csv
import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, Literal

from prism_irl.cli.options import CommonOptions, FitsOptions
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
    done = cross_validate(
        demos,
        methods,
        folds=FOLDS,
        only_folds=(0,),
        jobs=jobs,
        extra=Truth(mdp, world.rewards, world.policies, INTENTIONS, 0),
        keep_models=True,
        on_fit=on_fit,
    )
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
