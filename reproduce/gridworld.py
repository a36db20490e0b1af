"""The frustration gridworld (paper §5.1, appendix B): every method against the truth.

Simulates the world, cross-validates the methods, and compares them with the exact Bayes filter that knows the
generating process: the real ceiling. The paper score of a gate that reads the action can exceed that ceiling; no
likelihood can. Network and starts were chosen by likelihood on other simulations, which share no trajectory with the
one reported here; label accuracy on those was seen during development.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

import harness
from elsewhere import Elsewhere, TruthElsewhere
from harness import NETWORK, Options, build_method, steps_of
from prism_irl.cli.options import FitsOptions
from prism_irl.cli.printing import print_experiment
from prism_irl.cli.progress import fits_progress
from prism_irl.cli.runs import RunFolder
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.evaluation.tables import state_rewards
from prism_irl.evaluation.truth import recovered_order, recovered_policies
from prism_irl.figures import charts, maps, style
from prism_irl.mdp import MDP
from prism_irl.models.base import IntentionModel
from prism_irl.models.references import WorldOracle
from prism_irl.models.registry import Method
from prism_irl.report.places import grid
from prism_irl.studies import results
from prism_irl.studies.cross_validation import Evaluation, OnFit, cross_validate
from prism_irl.studies.results import choose_exemplar, write_exemplar
from prism_irl.worlds.frustration import ACTIONS, INTENTIONS, FrustrationWorld

METHODS = (
    "prism-recurrent",
    "recurrent+soft-1",
    "prism-past",
    "prism-paper",
    "prism-paper-starts",
    "hiql",
    "swirl-1",
    "swirl-2",
    "mixture",
    "dirl",
    "iavi",
    "iql",
    "maxcausalent",
    "maxent",
    "ngram",
    "bc",
    "uniform",
)
NAMES = {
    "recurrent+soft-1": "Recurrent switching, planned rewards",
    "prism-paper": "PRISM, paper gate, one random start",
    "prism-paper-starts": "PRISM, paper gate, our starts",
    "bc": "Behaviour cloning",
}
"""What methods are called here where the registry has another name, or none."""

PAPER_EVD = {
    "prism-paper": (2.40, 5.60, -1.74, -6.02),
    "hiql": (2.51, 6.12, -1.95, -6.80),
    "iavi": (2.06, 6.74, -1.41, -9.20),
    "maxcausalent": (5.32, 6.67, -3.32, -9.12),
    "maxent": (6.61, 6.76, -4.16, -9.10),
}
"""Table evd of the paper: EVD (MAE) goal, abandon, EVD (s0) goal, abandon.

Of another world: the paper says neither where its barriers are nor what a step in the target is worth, how long
trajectories are or which state s0 is.
"""

EVD_COLUMNS = ("evd_goal", "evd_abandon", "evd_s0_goal", "evd_s0_abandon")


@dataclass(frozen=True)
class Gridworld:
    """Settings of the experiment.

    Parameters
    ----------
    n_trajectories, folds : the paper's 1024 and 5
    only_folds : run these folds only
    seeds : seeds of the fits; spread is over folds and seeds
    simulation_seed : seed of the data
    starts : starts of each learned method
    paper_iterations : EM iterations of the paper's gate
    moved : worlds with other barriers in which recovered rewards are planned with
    chosen : identifiers of the methods to run, all when None
    """

    n_trajectories: int = 1024
    folds: int = 5
    only_folds: tuple[int, ...] | None = None
    seeds: tuple[int, ...] = (0, 1, 2)
    simulation_seed: int = 1
    starts: int = 4
    max_iterations: int = 180
    paper_iterations: int = 180
    moved: int = 20
    quick: bool = False
    chosen: tuple[str, ...] | None = None
    world: FrustrationWorld = field(default_factory=FrustrationWorld)

    @classmethod
    def small(cls) -> Gridworld:
        """A smaller honest run, for `--quick`."""
        return cls(
            n_trajectories=400,
            only_folds=(0, 1),
            seeds=(0,),
            starts=2,
            max_iterations=80,
            paper_iterations=60,
            quick=True,
        )

    def options(self) -> dict[str, dict[str, Any]]:
        """Options of each method; a GRU of 32 units was chosen by likelihood on other simulations."""
        discount = {"discount": self.world.discount}
        learned = {
            "n_starts": self.starts,
            "max_iterations": self.max_iterations,
            **discount,
            **NETWORK,
            "batch_size": 64,
        }
        swirl = {"kernel": "table", "n_starts": self.starts}
        paper = {"max_iterations": self.paper_iterations}
        return {
            "": discount,
            "prism-recurrent": learned,
            "recurrent+soft-1": {"n_starts": min(self.starts, 2), **discount, **NETWORK},
            "prism-past": learned,
            "prism-paper": paper,
            "prism-paper-starts": {**paper, "starts": "mixed", "n_starts": self.starts},
            "swirl-1": swirl,
            "swirl-2": swirl,
            **{name: {} for name in ("bc", "dirl", "maxent")},  # as their authors have them
        }


def moved_worlds(world: FrustrationWorld, n: int, seed: int = 0) -> list[FrustrationWorld]:
    """Draw worlds with as many barriers, all in cells that were free, in which every free cell can be reached."""
    rng = np.random.default_rng(seed)
    targets = {world.state(world.goal), world.state(world.abandon)}
    candidates = [int(s) for s in np.flatnonzero(world.free) if int(s) not in targets]
    found: list[FrustrationWorld] = []
    while len(found) < n:
        drawn = sorted(rng.choice(candidates, len(world.barriers), replace=False))
        moved = replace(world, barriers=tuple((int(s) % world.size, int(s) // world.size) for s in drawn))
        if _connected(moved):
            found.append(moved)
    return found


def _connected(world: FrustrationWorld) -> bool:
    """Whether every free cell can be reached from every other."""
    steps = (world.transitions.max(axis=1) > 0)[np.ix_(world.free, world.free)]
    reached = np.linalg.matrix_power(steps.astype(np.float64), len(steps)) > 0  # staying is a step, too
    return bool(reached.all())


def elsewhere(world: FrustrationWorld, n: int) -> tuple[Elsewhere, ...]:
    """The moved worlds as places to plan in, entered anywhere."""
    return tuple(
        Elsewhere(MDP.from_dense(moved.transitions, discount=world.discount), moved.rewards, moved.start)
        for moved in moved_worlds(world, n)
    )


OUR_STARTS = "prism-paper-starts"
"""The paper's gate with the starts that every other family gets, beside the paper's own protocol."""


def simulated_methods(world: Any, identifiers: Sequence[str], options: Options) -> list[Method]:
    """The methods of an experiment on a simulated world, after the truth."""
    oracle = WorldOracle(world)
    known = [build_method(identifier, oracle.n_intentions, options) for identifier in identifiers]
    return [Method("oracle", "Truth (Bayes filter)", oracle), *known]


class Simulated(NamedTuple):
    """Fits to a simulated world, and the fold that figures show: its models, trajectories and hidden counters."""

    evaluation: Evaluation
    models: dict[str, Any]
    test: Demonstrations
    counters: npt.NDArray[np.int64]


def run_simulated(simulation: Any, methods: Sequence[Method], **options: Any) -> Simulated:
    """Cross-validate methods on a simulation (`cross_validate` takes the options), and keep the models of one fold."""
    demos: Demonstrations = simulation.demonstrations
    done = cross_validate(demos, methods, keep_models=True, **options)
    steps = steps_of(demos.offsets, done.test)
    return Simulated(done, done.models(), demos.subset(done.test), simulation.counters[steps])


def methods(settings: Gridworld) -> list[Method]:
    """Every method of the comparison, after the truth."""
    options = settings.options()
    known = simulated_methods(settings.world, [name for name in METHODS if name != OUR_STARTS], options)
    gate = harness.build_method("prism-paper", len(INTENTIONS), {"": options[OUR_STARTS]})
    known.insert([method.id for method in known].index("prism-paper") + 1, replace(gate, id=OUR_STARTS))
    known = [replace(method, name=NAMES.get(method.id, method.name)) for method in known]
    return [method for method in known if settings.chosen is None or method.id in settings.chosen]


def truth(world: FrustrationWorld, moved: int = 0) -> TruthElsewhere:
    """The expert's policies and rewards, with s0 = the origin, and so many worlds with other barriers."""
    mdp = MDP.from_dense(world.transitions, discount=world.discount)
    names = tuple(INTENTIONS)
    return TruthElsewhere(mdp, world.rewards, world.policies, names, 0, world.free, elsewhere(world, moved))


def run(
    settings: Gridworld,
    folder: Path,
    *,
    jobs: int = 1,
    on_fit: OnFit | None = None,
    title: str = "Frustration gridworld",
) -> dict[str, Any]:
    """Simulate, cross-validate, write metrics.json, CSV tables and figures; return the metrics.

    Finished fits are remembered in ``folder/cache``, so that an interrupted run goes on where it stopped.
    """
    cache = folder / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    simulation = settings.world.simulate(settings.n_trajectories, seed=settings.simulation_seed)
    folds: dict[str, Any] = {"folds": settings.folds, "only_folds": settings.only_folds, "seeds": settings.seeds}
    done = run_simulated(
        simulation,
        methods(settings),
        extra=truth(settings.world, settings.moved),
        cache=cache,
        jobs=jobs,
        on_fit=on_fit,
        **folds,
    )
    found = done.evaluation.table()
    for name, reported in PAPER_EVD.items():
        if name in found:
            found[name]["paper_evd"] = dict(zip(EVD_COLUMNS, reported, strict=True))
    demos = simulation.demonstrations
    # LL per step of the expert's policies when the true intention of each step is given.
    known = float(np.log(settings.world.policies[demos.labels, demos.states, demos.actions]).mean())
    result = harness.write(
        folder,
        done.evaluation,
        title,
        "gridworld",
        quick=settings.quick,
        ll_with_true_intentions_known=known,
        notes=_notes(settings, known),
        methods=found,
    )
    write_all(folder / "figures", settings.world, result, done)
    return result


def _notes(settings: Gridworld, known: float) -> list[str]:
    folds = settings.folds if settings.only_folds is None else len(settings.only_folds)
    notes = [
        f"{settings.n_trajectories} simulated trajectories of {settings.world.horizon} steps (seed "
        f"{settings.simulation_seed}); {folds} of {settings.folds} folds, {len(settings.seeds)} seed(s). Starts and "
        "stopping points were chosen by likelihood inside each training fold: on its validation trajectories, or on "
        "what exact EM was trained on.",
        f"The expert's policies with the true intention of every step known score {known:.3f}: no fair score on "
        "unlabelled data reaches that.",
        "Spread is over folds and seeds. Every row but the first of the paper's gate has several starts, chosen by "
        "likelihood; the paper describes one random start, whose labels depend on its seed.",
        "The paper's expected value differences are of another world: it says neither where its barriers are nor what "
        "a step in the target is worth, nor which state s0 is. EVD counts all cells as the paper does, and those "
        "that can be entered: policies in barrier cells are never seen, and differences there mean nothing.",
        f"Transfer is the return of planning with the recovered reward in {settings.moved} worlds whose three barriers "
        "have moved, divided by that of planning with the true reward; carried over is that of the recovered policy "
        "itself. Reward distance (STARC) ignores shaping and scale: 0 is the true reward, 0.5 one that wants nothing.",
        "The paper's gate reads the action that it is scored on. Its score, Σ_k f(s, a)_k π_k(a|s), sums to more than "
        "one over actions, so it can exceed the oracle; normalised over actions it is the predictive LL beside it.",
    ]
    if settings.quick:
        notes.insert(0, "A quick run: fewer trajectories, folds, starts and iterations than the paper's protocol.")
    return notes


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


DIRECTIONS = np.array([(0, 1), (0, -1), (-1, 0), (1, 0), (0, 0)])
"""(dx, dy) of up, down, left, right, stay: the order of `worlds.frustration.ACTIONS`."""


def _world_map(
    ax: Axes, world: FrustrationWorld, values: Any, greedy: Any, mark: tuple[int, int] | None = None, **look: Any
) -> None:
    """Numbers (S,) as colour, most probable actions (S,) as arrows, a star in the corner of a cell."""
    layout = grid(world.size, world.size, world.barriers)
    maps.layout_map(ax, layout, values, towards=np.array(layout["xy"]) + DIRECTIONS[greedy], **look)
    if mark is not None:
        edge: dict[str, Any] = {"color": style.INK, "markeredgecolor": "white", "markeredgewidth": 0.4}
        ax.plot(mark[0] + 0.31, mark[1] + 0.31, "*", markersize=6, zorder=4, **edge)


def counter_timeline(ax: Axes, counts: Any, *, label: str) -> None:
    """A hidden counter (T,), such as the frustration behind the switches, as a step line."""
    edges = np.arange(len(counts) + 1) - 0.5
    ax.stairs(counts, edges, color=style.INK, linewidth=1.0)
    ax.stairs(counts, edges, fill=True, color=style.INK, alpha=0.12)
    ax.set(xlim=(-0.5, len(counts) - 0.5), ylim=(0, max(1.0, counts.max()) * 1.1), xlabel="step", ylabel=label)
    ax.yaxis.set_major_locator(MaxNLocator(4, integer=True))


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
            _world_map(ax, world, value, greedy, mark=goals[row], title=title, limits=limits)
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


def posterior_above_counter(
    done: Simulated,
    main: str,
    order: Sequence[int],
    trajectory: int,
    *,
    title: str,
    intentions: Sequence[str],
    label: str,
    width: float,
) -> tuple[Figure, list[Axes]]:
    """Draw one test trajectory: the posterior of a model, that of the truth where it is there, and the counter below.

    Parameters
    ----------
    main, title : identifier of the model, and its name above the axes
    order : intentions of the model in the order of the true ones, ``intentions``
    label : name of the counter
    """
    assert done.test.labels is not None
    steps = slice(int(done.test.offsets[trajectory]), int(done.test.offsets[trajectory + 1]))
    found = [(title, main, list(order)), ("Truth (Bayes smoother)", "oracle", list(range(len(intentions))))]
    found = [row for row in found if row[1] in done.models]
    rows = len(found) + 1
    figure, axes = style.new_figure(rows, 1, width=width, height=1.2 * rows, sharex=True)
    for ax, (name, model, columns) in zip(axes, found, strict=False):
        probabilities = done.models[model].predict_proba(done.test)[steps][:, columns]
        charts.posterior_timeline(ax, probabilities, names=intentions, true=done.test.labels[steps])
        # Right of the legend, which stands above the axes on the left.
        ax.set_title(name, loc="right")
        ax.set_xlabel("")
    counter_timeline(axes[-1], done.counters[steps], label=label)
    return figure, axes


# -- the command -------------------------------------------------------------------------------------------------------


def command(folder: RunFolder, fits: FitsOptions, *, quick: bool) -> None:
    """`prism reproduce gridworld`."""
    settings = Gridworld.small() if quick else Gridworld()

    def work(path: Path, on_fit: Any) -> dict[str, Any]:
        return run(settings, path, jobs=fits.jobs, on_fit=on_fit, title="Frustration gridworld (paper §5.1)")

    folder.make(work, print_experiment, progress=fits_progress, config={"settings": asdict(settings)})
