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
from prism_irl.experiments.gridworld.settings import EVD_COLUMNS, METHODS, PAPER_EVD, Gridworld
from prism_irl.mdp import MDP
from prism_irl.models.registry import Method
from prism_irl.studies.cross_validation import OnFit
from prism_irl.worlds.frustration import INTENTIONS, FrustrationWorld


def methods(settings: Gridworld) -> list[Method]:
    """Every method of the comparison, after the truth."""
    known = harness.simulated_methods(settings.world, METHODS, settings.options())
    known = [replace(method, name="Behaviour cloning") if method.id == "bc" else method for method in known]
    return [method for method in known if settings.chosen is None or method.id in settings.chosen]


def truth(world: FrustrationWorld) -> Truth:
    """The expert's policies and rewards, with s0 = the origin as in the paper's Table evd."""
    mdp = MDP.from_dense(world.transitions, discount=world.discount)
    return Truth(mdp, world.rewards, world.policies, tuple(INTENTIONS), start=0)


def run(
    settings: Gridworld,
    folder: Path,
    *,
    jobs: int = 1,
    on_fit: OnFit | None = None,
    title: str = "Frustration gridworld",
) -> dict[str, Any]:
    """Simulate, cross-validate, write metrics.json, CSV tables and figures; return the metrics."""
    from prism_irl.experiments.gridworld import figures as gridworld_figures

    simulation = settings.world.simulate(settings.n_trajectories, seed=settings.simulation_seed)
    folds: dict[str, Any] = {"folds": settings.folds, "only_folds": settings.only_folds, "seeds": settings.seeds}
    done = harness.run_simulated(
        simulation, methods(settings), extra=truth(settings.world), jobs=jobs, on_fit=on_fit, **folds
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
        "The paper's gate reads the action that it is scored on. Its score, Σ_k f(s, a)_k π_k(a|s), sums to more than "
        "one over actions, so it can exceed the oracle; normalised over actions it is the predictive LL beside it.",
    ]
    if settings.quick:
        notes.insert(0, "A quick run: fewer trajectories, folds, starts and iterations than the paper's protocol.")
    return notes
