"""The frustration gridworld (paper §5.1, appendix B): every method against the truth.

Simulates the world, cross-validates the methods, and compares them with the exact Bayes filter that knows the
generating process: the real ceiling. The paper score of a gate that reads the action can exceed that ceiling; no
likelihood can. Network and starts were chosen by likelihood on other simulations, which share no trajectory with the
one reported here; label accuracy on those was seen during development.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from prism_irl.evaluation.value_difference import Truth
from prism_irl.experiments import harness
from prism_irl.experiments.gridworld.moved import elsewhere
from prism_irl.experiments.gridworld.settings import EVD_COLUMNS, METHODS, NAMES, PAPER_EVD, Gridworld
from prism_irl.mdp import MDP
from prism_irl.models.registry import Method
from prism_irl.studies.cross_validation import OnFit
from prism_irl.worlds.frustration import INTENTIONS, FrustrationWorld

OUR_STARTS = "prism-paper-starts"
"""The paper's gate with the starts that every other family gets, beside the paper's own protocol."""


def methods(settings: Gridworld) -> list[Method]:
    """Every method of the comparison, after the truth."""
    options = settings.options()
    known = harness.simulated_methods(settings.world, [name for name in METHODS if name != OUR_STARTS], options)
    gate = harness.build_method("prism-paper", len(INTENTIONS), {"": options[OUR_STARTS]})
    known.insert([method.id for method in known].index("prism-paper") + 1, replace(gate, id=OUR_STARTS))
    known = [replace(method, name=NAMES.get(method.id, method.name)) for method in known]
    return [method for method in known if settings.chosen is None or method.id in settings.chosen]


def truth(world: FrustrationWorld, moved: int = 0) -> Truth:
    """The expert's policies and rewards, with s0 = the origin, and so many worlds with other barriers."""
    mdp = MDP.from_dense(world.transitions, discount=world.discount)
    names = tuple(INTENTIONS)
    return Truth(mdp, world.rewards, world.policies, names, 0, world.free, elsewhere(world, moved))


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
    from prism_irl.experiments.gridworld import figures as gridworld_figures

    cache = folder / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    simulation = settings.world.simulate(settings.n_trajectories, seed=settings.simulation_seed)
    folds: dict[str, Any] = {"folds": settings.folds, "only_folds": settings.only_folds, "seeds": settings.seeds}
    done = harness.run_simulated(
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
    gridworld_figures.write_all(folder / "figures", settings.world, result, done)
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
