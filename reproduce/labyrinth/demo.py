"""A simulated mouse in the labyrinth: what `prism demo --world labyrinth` runs where the recordings are absent.

One split of a small simulation, four methods and the exact Bayes filter, with reward maps on the maze. The settings
of the networks are those of the gridworld. How many windows, starts and iterations it takes was raised once, after a
smaller run had put recurrent switching below HIQL (0.892 against 0.902 of the labels), so the demo shows what the
methods can do and is no independent evidence that one is ahead.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from prism_irl import maze
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.evaluation.facts import state_rewards
from prism_irl.evaluation.value_difference import Truth, recovered_order
from prism_irl.experiments import harness
from prism_irl.figures import maps, style
from prism_irl.figures import maze as drawing
from prism_irl.studies import results
from prism_irl.studies.cross_validation import OnFit
from prism_irl.studies.exemplar import write_exemplar
from prism_irl.worlds.labyrinth import DRINK, INTENTIONS, LEAVE, LabyrinthWorld

FOLDS = 5
MAIN = "prism-recurrent"
METHODS = (MAIN, "prism", "hiql", "iavi")


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

    def options(self) -> dict[str, dict[str, Any]]:
        """Options of each method."""
        shared = {"discount": self.world.discount, "seed": self.seed}
        learned = {"n_starts": self.starts, "max_iterations": self.max_iterations, **harness.NETWORK, **shared}
        return {MAIN: learned, "prism": learned, "hiql": {"n_starts": self.chain_starts, **shared}, "iavi": shared}


def run(
    settings: LabyrinthDemo,
    folder: Path,
    *,
    jobs: int = 1,
    on_fit: OnFit | None = None,
    title: str = "Simulated labyrinth: a demonstration",
) -> dict[str, Any]:
    """Simulate, fit on four fifths, test on the rest, write metrics.json, folds.csv and figures; return the metrics."""
    world = settings.world
    simulation = world.simulate(settings.n_trajectories, seed=settings.simulation_seed)
    truth = Truth(world.mdp, world.rewards, world.policies, INTENTIONS, start=maze.HOME)
    methods = harness.simulated_methods(world, METHODS, settings.options())
    how: dict[str, Any] = {"folds": FOLDS, "only_folds": (0,), "jobs": jobs, "on_fit": on_fit}
    done = harness.run_simulated(simulation, methods, mdp=world.mdp, extra=truth, **how)
    note = (
        f"{len(simulation.demonstrations)} simulated windows of {world.horizon} steps (seed "
        f"{settings.simulation_seed}), one of {FOLDS} folds. The mouse wants water, home or to explore; when it "
        "changes its mind depends on how long the port still rests and on how long it has been inside, which no "
        "present state shows. Starts and stopping points were chosen by likelihood inside the training part: on its "
        "validation trajectories, or on what exact EM was trained on."
    )
    found = done.evaluation.table()
    result = harness.write(folder, done.evaluation, title, "labyrinth-demo", quick=True, notes=[note], methods=found)
    write_figures(folder / "figures", world, result, done)
    return result


# -- figures -----------------------------------------------------------------------------------------------------------


def write_figures(folder: Path, world: LabyrinthWorld, result: dict[str, Any], done: harness.Simulated) -> None:
    """Write every figure as SVG and PNG, with captions for the report."""
    model, test = done.models[MAIN], done.test
    order = recovered_order(model, test, len(INTENTIONS))
    drawings: dict[str, results.Draw] = {
        "method_bars": partial(results.likelihood_figure, result=result),
        "rewards": lambda path: rewards(path, world, model, order),
        "occupancy": lambda path: occupancy(path, model, order, test),
        "posterior": lambda path: posterior(path, done, order),
    }
    results.write_figures(folder, drawings)
    write_exemplar(
        folder.parent,
        test,
        model,
        name="Recurrent switching",
        how="It was fitted to the other windows; those shown are test windows, which it has not seen.",
        order=order,
        maps=False,
        names=INTENTIONS,
        actions=maze.ACTION_NAMES,
        counters={"port rests": done.counters},
        events={"at the water port": test.states == maze.WATER, "at the entrance": test.states == maze.HOME},
    )


def rewards(path: Path, world: LabyrinthWorld, model: Any, order: list[int]) -> str:
    """Recovered rewards below the true values, with the flow of the policies."""
    figure, axes = style.new_figure(2, len(INTENTIONS), width=style.PAGE_WIDTH, height=4.7)
    found = state_rewards(model, own=True)
    assert found is not None
    for column, (name, k) in enumerate(zip(INTENTIONS, order, strict=True)):
        above, below = axes[column], axes[column + len(INTENTIONS)]
        drawing.maze_map(above, world.q[column].max(axis=1), policy=world.policies[column], title=f"{name}: truth")
        # A node that was left once in twenty visits can have a huge reward, which would drown all others.
        low, high = np.nanquantile(found[k], (0.02, 0.98))
        policy = model.policies_[k, : world.n_states]
        drawing.maze_map(below, found[k], policy=policy, title=f"{name}: recovered", limits=(low, high))
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


def posterior(path: Path, done: harness.Simulated, order: list[int]) -> str:
    """Posterior over time above the refractory counter, for the first test window."""
    title, width = "Recurrent switching", style.PAGE_WIDTH
    figure, axes = harness.posterior_above_counter(
        done, MAIN, order, 0, title=title, intentions=INTENTIONS, label="port rests", width=width
    )
    colours = {maze.WATER: style.intention_color(DRINK), maze.HOME: style.intention_color(LEAVE)}
    for node, colour in colours.items():
        visits = np.flatnonzero(done.test.states[: done.test.offsets[1]] == node)
        axes[-1].plot(visits, np.zeros(len(visits)), "|", color=colour, markersize=5, clip_on=False, zorder=4)
    style.save(figure, path)
    return (
        "Probability of each drive over time for one test window, above the number of steps for which the port still "
        "rests, which no method sees; the strip shows the true drive, the ticks visits to the port (blue) and to the "
        "first junction (orange)."
    )
