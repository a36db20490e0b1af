"""Figures (a), (b) and (c) of the paper's gridworld section, and its appendix, from the fits of one fold.

(a) test likelihood per method; (b) state values of the recovered policies beside the truth, and the recovered
rewards with greedy actions; (c) the posterior over time above the hidden frustration counter.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.evaluation.facts import state_rewards
from prism_irl.evaluation.value_difference import recovered_order, recovered_policies
from prism_irl.experiments.harness import Simulated, posterior_above_counter
from prism_irl.figures import maps, style
from prism_irl.mdp import MDP
from prism_irl.models.base import IntentionModel
from prism_irl.report.state_places import grid
from prism_irl.studies import results
from prism_irl.studies.exemplar import choose_exemplar, write_exemplar
from prism_irl.worlds.frustration import ACTIONS, INTENTIONS, FrustrationWorld

Models = Mapping[str, IntentionModel]


def write_all(folder: Path, world: FrustrationWorld, result: dict[str, Any], done: Simulated) -> None:
    """Write every figure as SVG and PNG, with captions for the report."""
    names = {name: entry["name"] for name, entry in result["methods"].items()}
    # The best predictor whose intentions switch and whose gate has not seen the action; without one, any method.
    best = choose_exemplar(done.evaluation.methods, result["methods"])
    main = next((id for id in done.models if id != "oracle"), None) if best is None else best.id
    drawings: dict[str, results.Draw] = {"method_bars": partial(results.likelihood_figure, result=result)}
    if main is not None:
        model, name = done.models[main], names[main]
        drawings["c_posterior"] = lambda path: posterior(path, done, main, name)
        drawings["b_values"] = lambda path: values(path, world, {main: model}, names, done.test)
        if hasattr(model, "rewards_"):
            drawings["b_rewards"] = lambda path: rewards(path, world, {main: model}, names, done.test)
    drawings["values_all"] = lambda path: values(path, world, done.models, names, done.test)
    drawings["rewards_all"] = lambda path: rewards(path, world, done.models, names, done.test)
    results.write_figures(folder, drawings)
    if main is not None and model.n_intentions == len(INTENTIONS):
        write_exemplar(
            folder.parent,
            done.test,
            model,
            name=f"{name}, the best predictor here with several intentions",
            how="It was fitted to the other folds; the trajectories shown are those of the first fold, which it "
            "has not seen.",
            order=recovered_order(model, done.test, len(INTENTIONS)),  # of the truth
            maps=False,
            layout=grid(world.size, world.size, world.barriers),
            names=INTENTIONS,
            actions=ACTIONS,
            counters={"frustration": done.counters},
            events=_events(world, done.test),
        )


def _events(world: FrustrationWorld, test: Demonstrations) -> dict[str, npt.NDArray[np.bool_]]:
    """Steps in which the expert runs into a barrier or wall, and those in which it arrives at one of its targets."""
    first, before = test.first_steps, np.roll(test.states, 1)
    met = np.asarray(world.blocked[test.states, test.actions], bool)
    arrives = {
        f"{intention} reached": (test.states == world.state(cell)) & (first | (before != test.states))
        for intention, cell in zip(INTENTIONS, (world.goal, world.abandon), strict=True)
    }
    return {"barrier met": met, **arrives}


def _world_map(ax: Axes, world: FrustrationWorld, values: Any, greedy: Any, **look: Any) -> None:
    look |= {"greedy": greedy, "barriers": world.barriers}
    maps.grid_heatmap(ax, values, width=world.size, height=world.size, **look)


def values(path: Path, world: FrustrationWorld, models: Models, names: dict[str, str], test: Demonstrations) -> str:
    """(b): values, under the true reward, of the expert's and of the recovered policies."""
    mdp = MDP.from_dense(world.transitions, discount=world.discount)
    columns = {"Truth": world.policies}
    for name in names:  # in the order of the table, whatever order the fits finished in
        found = None if name == "oracle" or name not in models else recovered_policies(models[name], test, 2)
        if found is not None:
            columns[names[name]] = found
    figure, pairs = _bands(list(columns))
    goals = (world.goal, world.abandon)
    limits = (0.0, float(mdp.policy_evaluation(world.policies, world.rewards).max()))
    for (name, policies), pair in zip(columns.items(), pairs, strict=True):
        for row, ax in enumerate(pair):
            value, greedy = mdp.policy_evaluation(policies[row], world.rewards[row]), policies[row].argmax(-1)
            title = textwrap.fill(name, 15) if row == 0 else None
            _world_map(ax, world, value, greedy, mark=(goals[row],), title=title, limits=limits)
    maps.add_colorbar(pairs[0][0], [ax for pair in pairs for ax in pair], label="value")
    style.save(figure, path)
    return (
        "State values under the true reward of each intention, for the expert's policy and for the recovered ones "
        "(arrows: most probable action; dark: barriers; star: target)."
    )


def _bands(names: Sequence[str], most: int = 6) -> tuple[Figure, list[tuple[Axes, Axes]]]:
    """Two axes per name, goal above abandon, side by side; names that do not fit into a row follow in the next band."""
    across = min(most, len(names))
    bands = -(-len(names) // across)
    figure, axes = style.new_figure(2 * bands, across, width=1.45 * across + 1.0, height=3.5 * bands)
    pairs = []
    for index in range(bands * across):
        band, column = divmod(index, across)
        pair = axes[2 * band * across + column], axes[(2 * band + 1) * across + column]
        if index < len(names):
            pairs.append(pair)
            if column == 0:
                for ax, intention in zip(pair, INTENTIONS, strict=True):
                    ax.set_ylabel(intention)
        else:
            for ax in pair:
                ax.set_axis_off()
    return figure, pairs


def rewards(path: Path, world: FrustrationWorld, models: Models, names: dict[str, str], test: Demonstrations) -> str:
    """Reward of each recovered intention, averaged over the policy, with the actions that are best under it."""
    columns = {"Truth": (world.rewards[:, :, 0], world.q.argmax(-1))}
    for name in names:
        found = None if name == "oracle" or name not in models else _reward_map(models[name], test)
        if found is not None:
            columns[names[name]] = found
    figure, pairs = _bands(list(columns))
    for (name, (own, greedy)), pair in zip(columns.items(), pairs, strict=True):
        for row, ax in enumerate(pair):
            title = textwrap.fill(name, 15) if row == 0 else None
            _world_map(ax, world, own[row], greedy[row], title=title)
    style.save(figure, path)
    return (
        "Recovered rewards of each intention, expected under its own policy, with greedy actions; every map has its "
        "own colours, because a reward has no unit. Grey: states that the intention never visits, where a reward would "
        "be an echo of its neighbours. A single intention stands in both rows; that of DIRL is the mean over time."
    )


def _reward_map(model: Any, test: Demonstrations) -> tuple[Any, Any] | None:
    """(2, S) rewards and (2, S) greedy actions of the intentions that match the true ones; None without rewards."""
    if (drifting := getattr(model, "time_varying_rewards_", None)) is not None:
        own = np.repeat(drifting.mean(axis=0)[None], 2, axis=0)
        return own, np.repeat(model.policies_.mean(axis=0)[None], 2, axis=0).argmax(-1)
    found = state_rewards(model, own=True)
    if found is None or not hasattr(model, "q_"):
        return None
    order = recovered_order(model, test, 2)
    return found[order], np.asarray(model.q_)[order].argmax(-1)


def posterior(path: Path, done: Simulated, main: str, name: str) -> str:
    """(c): posterior over time above the hidden counter, for a trajectory with more switches than most (3 of 4)."""
    labels, offsets = done.test.labels, done.test.offsets
    assert labels is not None
    switched = np.diff(labels, prepend=labels[0]) != 0
    switches = np.add.reduceat((switched & ~done.test.first_steps).astype(np.int64), offsets[:-1])
    chosen = int(np.argsort(switches, kind="stable")[len(switches) * 3 // 4])
    order = recovered_order(done.models[main], done.test, 2)
    figure, _ = posterior_above_counter(
        done, main, order, chosen, title=name, intentions=INTENTIONS, label="frustration", width=5.0
    )
    style.save(figure, path)
    return (
        "Probability of each intention over time for one test trajectory, above the hidden frustration counter that "
        "drives the switches and that no method sees; the strip shows the true intention."
    )
