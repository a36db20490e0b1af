"""The frustration gridworld (paper §5.1, appendix B): every method against the truth.

Simulates the world, cross-validates the methods, and compares them with the exact Bayes filter that knows the
generating process: the real ceiling. The paper score of a gate that reads the action can exceed that ceiling; no
likelihood can. Network and starts were chosen by likelihood on other simulations, which share no trajectory with the
one reported here; label accuracy on those was seen during development.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from prism_irl import storage
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.evaluation.value_difference import Truth
from prism_irl.experiments.oracle import WorldOracle
from prism_irl.mdp import MDP
from prism_irl.models.cloning import BehaviourCloning
from prism_irl.models.hiql import HIQL
from prism_irl.models.prism import PRISM
from prism_irl.models.single import IAVI, MaxCausalEnt, MaxEnt
from prism_irl.models.swirl import SWIRL
from prism_irl.studies.cross_validation import Fit, Method, cross_validate, table
from prism_irl.worlds.frustration import INTENTIONS, FrustrationWorld

PAPER_EVD = {
    "prism-paper": (2.40, 5.60, -1.74, -6.02),
    "hiql": (2.51, 6.12, -1.95, -6.80),
    "iavi": (2.06, 6.74, -1.41, -9.20),
    "maxcausalent": (5.32, 6.67, -3.32, -9.12),
    "maxent": (6.61, 6.76, -4.16, -9.10),
}
"""Table evd of the paper: EVD (MAE) goal, abandon, EVD (s0) goal, abandon."""

EVD_COLUMNS = ("evd_goal", "evd_abandon", "evd_s0_goal", "evd_s0_abandon")


@dataclass(frozen=True)
class Gridworld:
    """Settings of the experiment.

    Parameters
    ----------
    n_trajectories, folds : the paper's 1024 and 5
    only_folds : run these folds only
    seeds : seeds of the fits
    simulation_seed : seed of the data
    starts : starts of each learned method
    paper_iterations : EM iterations of the paper's gate
    chosen : identifiers of the methods to run, all when None
    """

    n_trajectories: int = 1024
    folds: int = 5
    only_folds: tuple[int, ...] | None = None
    seeds: tuple[int, ...] = (0,)
    simulation_seed: int = 1
    starts: int = 4
    max_iterations: int = 180
    paper_iterations: int = 180
    quick: bool = False
    chosen: tuple[str, ...] | None = None
    world: FrustrationWorld = field(default_factory=FrustrationWorld)

    @classmethod
    def small(cls) -> Gridworld:
        """A smaller honest run, for `--quick`."""
        return cls(n_trajectories=640, only_folds=(0, 1), starts=2, paper_iterations=60, quick=True)

    @classmethod
    def demo(cls) -> Gridworld:
        """One split of a small simulation, for `prism demo`."""
        return cls(
            n_trajectories=512,
            only_folds=(0,),
            starts=2,
            max_iterations=60,
            paper_iterations=60,
            quick=True,
            chosen=DEMO_METHODS,
        )


class BayesOracle(WorldOracle):
    """The exact Bayes filter and smoother of the frustration gridworld."""

    n_intentions = 2

    def _default_world(self) -> FrustrationWorld:
        return FrustrationWorld()


def methods(settings: Gridworld) -> list[Method]:
    """Every method of the comparison."""
    discount = settings.world.discount
    learned: dict[str, Any] = {
        "n_starts": settings.starts,
        "max_iterations": settings.max_iterations,
        "discount": discount,
        "learning_rate": 3e-3,
        "embedding": 32,
        "hidden": 32,
        "batch_size": 64,
        "network": "gru",
    }
    paper = PRISM.paper("gridworld", max_iterations=settings.paper_iterations)
    return [
        Method("oracle", "Truth (Bayes filter)", BayesOracle(settings.world)),
        Method("prism-recurrent", "Recurrent switching", PRISM(2, **learned)),
        Method("prism", "PRISM, past gate", PRISM(2, switching="independent", **learned)),
        Method("prism-paper", "PRISM, paper gate", paper, leaks=True),
        Method("hiql", "HIQL (Markov chain)", HIQL(2, discount=discount)),
        Method("swirl-1", "SWIRL S-1", SWIRL(2, order=1, kernel="table", n_starts=settings.starts)),
        Method("iavi", "IAVI (single intention)", IAVI(discount=discount)),
        Method("maxcausalent", "MaxCausalEnt", MaxCausalEnt(discount=discount)),
        Method("maxent", "MaxEnt", MaxEnt()),
        Method("bc", "Behaviour cloning", BehaviourCloning()),
    ]


DEMO_METHODS = ("oracle", "prism-recurrent", "prism", "prism-paper", "hiql", "iavi")


def truth(world: FrustrationWorld) -> Truth:
    """The expert's policies and rewards, with s0 = the origin as in the paper's Table evd."""
    mdp = MDP.from_dense(world.transitions, discount=world.discount)
    return Truth(mdp, world.rewards, world.policies, tuple(INTENTIONS), start=0)


def run(
    settings: Gridworld,
    folder: Path,
    *,
    jobs: int = 1,
    on_fit: Callable[[Fit, int], None] | None = None,
    title: str = "Frustration gridworld",
) -> dict[str, Any]:
    """Simulate, cross-validate, write metrics.json, CSV tables and figures; return the metrics."""
    from prism_irl.experiments.gridworld import figures as gridworld_figures

    simulation = settings.world.simulate(settings.n_trajectories, seed=settings.simulation_seed)
    demos = simulation.demonstrations
    compared = [method for method in methods(settings) if settings.chosen is None or method.id in settings.chosen]
    folds = range(settings.folds) if settings.only_folds is None else settings.only_folds
    total = len(compared) * len(folds) * len(settings.seeds)
    fits = []
    for fit in cross_validate(
        demos,
        compared,
        folds=settings.folds,
        seeds=settings.seeds,
        only_folds=settings.only_folds,
        jobs=jobs,
        extra=truth(settings.world),
        keep=lambda fold, seed: fold == folds[0] and seed == settings.seeds[0],
    ):
        fits.append(fit)
        if on_fit is not None:
            on_fit(fit, total)
    rows = sorted((fit.row for fit in fits), key=lambda row: (row["method"], row["seed"], row["fold"]))
    found = table(compared, rows)
    for name, reported in PAPER_EVD.items():
        if name in found:
            found[name]["paper_evd"] = dict(zip(EVD_COLUMNS, reported, strict=True))
    known = known_intentions(settings.world, demos)
    result = {
        "title": title,
        "experiment": "gridworld",
        "quick": settings.quick,
        "folds": len(folds),
        "seeds": len(settings.seeds),
        "n_trajectories": len(demos),
        "n_steps": demos.n_steps,
        "ll_with_true_intentions_known": known,
        "notes": _notes(settings, known),
        "methods": found,
    }
    storage.write_json(folder / "metrics.json", result)
    storage.write_text(folder / "folds.csv", pd.DataFrame(rows).to_csv(index=False))
    kept = {fit.method.id: fit.model for fit in fits if fit.model is not None}
    models = {method.id: kept[method.id] for method in compared}  # fits finish in any order
    test = demos.subset(demos.fold_indices(settings.folds)[folds[0]][1])
    counters = _subset_steps(simulation.counters, demos, demos.fold_indices(settings.folds)[folds[0]][1])
    gridworld_figures.write_all(folder / "figures", settings.world, result, models, test, counters)
    return result


def known_intentions(world: FrustrationWorld, demos: Demonstrations) -> float:
    """LL per step of the expert's policies when the true intention of each step is told."""
    assert demos.labels is not None
    return float(np.log(world.policies[demos.labels, demos.states, demos.actions]).mean())


def _subset_steps(values: Any, demos: Demonstrations, trajectories: Any) -> Any:
    """Per-step values of some trajectories, flat."""
    return np.concatenate([values[demos.offsets[i] : demos.offsets[i + 1]] for i in trajectories])


def _notes(settings: Gridworld, known: float) -> list[str]:
    folds = settings.folds if settings.only_folds is None else len(settings.only_folds)
    notes = [
        f"{settings.n_trajectories} simulated trajectories of {settings.world.horizon} steps (seed "
        f"{settings.simulation_seed}); {folds} of {settings.folds} folds, {len(settings.seeds)} seed(s). Starts and "
        "stopping points were chosen by likelihood on validation trajectories inside each training fold.",
        f"The expert's policies with the true intention of every step known score {known:.3f}: no fair score on "
        "unlabelled data reaches that.",
        "The paper's gate reads the action that it is scored on. Its score, Σ_k f(s, a)_k π_k(a|s), sums to more than "
        "one over actions, so it can exceed the oracle; normalised over actions it is the predictive LL beside it.",
    ]
    if settings.quick:
        notes.insert(0, "A quick run: fewer trajectories, folds, starts and iterations than the paper's protocol.")
    return notes
