"""A simulated mouse in the labyrinth: what `prism demo --world labyrinth` runs where the recordings are absent.

One split of a small simulation, four methods and the exact Bayes filter, with reward maps on the maze. The settings
of the networks are those of the gridworld. How many windows, starts and iterations it takes was raised once, after a
smaller run had put recurrent switching below HIQL (0.892 against 0.902 of the labels), so the demo shows what the
methods can do and is no independent evidence that one is ahead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from prism_irl import maze, storage
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.evaluation.facts import fit_facts, state_rewards
from prism_irl.evaluation.value_difference import Truth, recovered_order
from prism_irl.experiments.oracle import WorldOracle
from prism_irl.figures import maps, style, timelines
from prism_irl.figures import maze as drawing
from prism_irl.models.base import IntentionModel
from prism_irl.models.hiql import HIQL
from prism_irl.models.prism import PRISM
from prism_irl.models.single import IAVI
from prism_irl.report.explorer import write_explorer
from prism_irl.report.pictures import write_pictures
from prism_irl.studies.comparison import likelihood_figure
from prism_irl.studies.cross_validation import Fit, Method, cross_validate, table
from prism_irl.worlds.labyrinth import DRINK, INTENTIONS, LEAVE, LabyrinthWorld

FOLDS = 5
MAIN = "prism-recurrent"


@dataclass(frozen=True)
class LabyrinthDemo:
    """Settings.

    Parameters
    ----------
    n_trajectories : int
        Simulated windows, of which a fifth is kept for testing.
    starts, max_iterations : int
        Of the methods with a network.
    chain_starts : int
        Starts of the constant chain.
    simulation_seed, seed : int
        Of the data, and of the fits.
    world : LabyrinthWorld
    """

    n_trajectories: int = 200
    starts: int = 4
    max_iterations: int = 60
    chain_starts: int = 10
    simulation_seed: int = 1
    seed: int = 0
    world: LabyrinthWorld = field(default_factory=LabyrinthWorld)


class LabyrinthOracle(WorldOracle):
    """The exact Bayes filter and smoother of the simulated mouse."""

    n_intentions = len(INTENTIONS)

    def _default_world(self) -> LabyrinthWorld:
        return LabyrinthWorld()


def methods(settings: LabyrinthDemo) -> list[Method]:
    """The oracle, both kinds of recurrent switching, the constant chain and a single intention."""
    k, discount = len(INTENTIONS), settings.world.discount
    learned: dict[str, Any] = {
        "n_starts": settings.starts,
        "max_iterations": settings.max_iterations,
        "discount": discount,
        "learning_rate": 3e-3,
        "embedding": 32,
        "hidden": 32,
        "network": "gru",
        "seed": settings.seed,
    }
    return [
        Method("oracle", "Truth (Bayes filter)", LabyrinthOracle(settings.world)),
        Method(MAIN, "Recurrent switching", PRISM(k, **learned)),
        Method("prism", "PRISM, past gate", PRISM(k, switching="independent", **learned)),
        Method(
            "hiql",
            "HIQL (Markov chain)",
            HIQL(k, n_starts=settings.chain_starts, discount=discount, seed=settings.seed),
        ),
        Method("iavi", "IAVI (single intention)", IAVI(discount=discount)),
    ]


def run(
    settings: LabyrinthDemo,
    folder: Path,
    *,
    jobs: int = 1,
    on_fit: Callable[[Fit, int], None] | None = None,
    title: str = "Simulated labyrinth: a demonstration",
) -> dict[str, Any]:
    """Simulate, fit on four fifths, test on the rest, write metrics.json, folds.csv and figures; return the metrics."""
    world = settings.world
    simulation = world.simulate(settings.n_trajectories, seed=settings.simulation_seed)
    demos, compared = simulation.demonstrations, methods(settings)
    fits = []
    truth = Truth(world.mdp, world.rewards, world.policies, INTENTIONS, start=maze.HOME)
    for fit in cross_validate(
        demos,
        compared,
        folds=FOLDS,
        only_folds=(0,),
        mdp=world.mdp,
        jobs=jobs,
        extra=truth,
        keep=lambda fold, seed: True,
    ):
        fits.append(fit)
        if on_fit is not None:
            on_fit(fit, len(compared))
    rows = sorted((fit.row for fit in fits), key=lambda row: str(row["method"]))
    result = {
        "title": title,
        "experiment": "labyrinth-demo",
        "quick": True,
        "folds": 1,
        "seeds": 1,
        "n_trajectories": len(demos),
        "n_steps": demos.n_steps,
        "notes": [
            f"{len(demos)} simulated windows of {world.horizon} steps (seed {settings.simulation_seed}), one of "
            f"{FOLDS} folds. The mouse wants water, home or to explore; when it changes its mind depends on how long "
            "the port still rests and on how long it has been inside, which no present state shows. Starts and "
            "stopping points were chosen by likelihood on validation trajectories of the training part."
        ],
        "methods": table(compared, rows),
    }
    storage.write_json(folder / "metrics.json", result)
    storage.write_text(folder / "folds.csv", pd.DataFrame(rows).to_csv(index=False))
    test_rows = demos.fold_indices(FOLDS)[0][1]
    steps = np.concatenate([np.arange(demos.offsets[i], demos.offsets[i + 1]) for i in test_rows])
    models = {fit.method.id: fit.model for fit in fits if fit.model is not None}
    write_figures(
        folder / "figures", settings.world, result, models, demos.subset(test_rows), simulation.counters[steps]
    )
    return result


# -- figures -----------------------------------------------------------------------------------------------------------


def write_figures(
    folder: Path,
    world: LabyrinthWorld,
    result: dict[str, Any],
    models: Mapping[str, IntentionModel],
    test: Demonstrations,
    counters: npt.NDArray[np.int64],
) -> None:
    """Write every figure as SVG and PNG, with captions for the report."""
    folder.mkdir(parents=True, exist_ok=True)
    model: Any = models[MAIN]
    order = recovered_order(model, test, len(INTENTIONS))
    captions: dict[str, str] = {}
    with style.paper_style():
        captions["method_bars"] = likelihood_figure(folder / "method_bars", result)
        captions["rewards"] = rewards(folder / "rewards", world, model, order)
        captions["occupancy"] = occupancy(folder / "occupancy", model, order, test)
        captions["posterior"] = posterior(folder / "posterior", models, order, test, counters)
    captions |= write_pictures(folder, explore(folder.parent, model, order, test, counters), maps=False)
    storage.write_json(folder / "captions.json", captions)


def explore(
    run: Path, model: Any, order: list[int], test: Demonstrations, counters: npt.NDArray[np.int64]
) -> dict[str, Any]:
    """Write the interactive part of the report for the test windows, intentions in the order of the truth."""
    probabilities = model.predict_proba(test)[:, order]
    found = state_rewards(model)
    facts = fit_facts(model, probabilities.argmax(axis=1), test.offsets)
    return write_explorer(
        run,
        test,
        probabilities,
        rewards=None if found is None else found[order],
        names=INTENTIONS,
        actions=maze.ACTION_NAMES,
        counters={"port rests": counters},
        events={"at the water port": test.states == maze.WATER, "at the entrance": test.states == maze.HOME},
        fit={
            "name": "Recurrent switching",
            "how": "It was fitted to the other windows; those shown are test windows, which it has not seen.",
            **facts,
        },
    )


def rewards(path: Path, world: LabyrinthWorld, model: Any, order: list[int]) -> str:
    """Recovered rewards below the true values, with the flow of the policies."""
    figure, axes = style.new_figure(2, len(INTENTIONS), width=style.PAGE_WIDTH, height=4.7)
    greyed = model.unvisited_
    for column, (name, k) in enumerate(zip(INTENTIONS, order, strict=True)):
        above, below = axes[column], axes[column + len(INTENTIONS)]
        drawing.maze_map(above, world.q[column].max(axis=1), policy=world.policies[column], title=f"{name}: truth")
        policy = model.policies_[k, : world.n_states]
        expected = np.where(maze.valid_actions(), policy * model.rewards_[k], 0.0).sum(axis=1)
        grey = None if greyed is None else greyed[k]
        shown = expected if grey is None else expected[~grey]
        # A node that was left once in twenty visits can have a huge reward, which would drown all others.
        limits = (float(np.quantile(shown, 0.02)), float(np.quantile(shown, 0.98)))
        drawing.maze_map(below, expected, policy=policy, unvisited=grey, title=f"{name}: recovered", limits=limits)
        maps.add_colorbar(above, [above], label="value")
        maps.add_colorbar(below, [below], label="reward")
    style.save(figure, path)
    return (
        "Above: optimal value of each true drive, with the mouse's policy as arrows, the wider the surer. Below: the "
        "recovered reward (exact IAVI), expected under the intention's own policy, with that policy; colours end "
        "at the 2nd and 98th percentile. Star: water port; circle: entrance; grey: nodes never visited."
    )


def occupancy(path: Path, model: Any, order: list[int], test: Demonstrations) -> str:
    """Where the mouse is under each recovered intention."""
    responsibilities = model.predict_proba(test)
    figure, axes = style.new_figure(1, len(INTENTIONS), width=style.PAGE_WIDTH, height=2.4)
    for ax, name, k in zip(axes, INTENTIONS, order, strict=True):
        drawing.occupancy_map(ax, test.states, weights=np.round(responsibilities[:, k], 3), title=name)
        maps.add_colorbar(ax, [ax], label="share of steps")
    style.save(figure, path)
    return "Share of the test steps at each node, per recovered intention, on a logarithmic scale; grey: none."


def posterior(
    path: Path,
    models: Mapping[str, IntentionModel],
    order: list[int],
    test: Demonstrations,
    counters: npt.NDArray[np.int64],
) -> str:
    """Posterior over time above the refractory counter, for the first test window."""
    assert test.labels is not None
    steps = slice(int(test.offsets[0]), int(test.offsets[1]))
    shown = {"Recurrent switching": models[MAIN].predict_proba(test)[steps][:, order]}
    if "oracle" in models:
        shown["Truth (Bayes smoother)"] = models["oracle"].predict_proba(test)[steps]
    figure, axes = style.new_figure(
        len(shown) + 1, 1, width=style.PAGE_WIDTH, height=1.2 * (len(shown) + 1), sharex=True
    )
    for ax, (title, probabilities) in zip(axes, shown.items(), strict=False):
        timelines.posterior_timeline(ax, probabilities, names=INTENTIONS, true=test.labels[steps])
        ax.set_title(title, loc="right")
        ax.set_xlabel("")
    timelines.counter_timeline(axes[-1], counters[steps], label="port rests")
    colours = {maze.WATER: style.intention_color(DRINK), maze.HOME: style.intention_color(LEAVE)}
    for node, colour in colours.items():
        visits = np.flatnonzero(test.states[steps] == node)
        axes[-1].plot(visits, np.zeros(len(visits)), "|", color=colour, markersize=5, clip_on=False, zorder=4)
    style.save(figure, path)
    return (
        "Probability of each drive over time for one test window, above the number of steps for which the port still "
        "rests, which no method sees; the strip shows the true drive, the ticks visits to the port (blue) and to the "
        "first junction (orange)."
    )
