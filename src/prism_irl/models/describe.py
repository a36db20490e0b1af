"""`describe(model, table)`: everything that a fit found, as a `FitResult`; the only place that asks a fitted model.

Any method can be described: those that are no pair of switching and rewards have no starts, no history and no
agreement, which are None. References and simulations are fitted and drawn here, and nothing after it computes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from prism_irl import em
from prism_irl.arrays import BoolArray, FloatArray
from prism_irl.data.continuous import seconds_between
from prism_irl.data.demonstrations import Demonstrations, some_trajectories, steps_of
from prism_irl.data.read import Table
from prism_irl.data.rows import Vocabulary
from prism_irl.evaluation import tables, triage
from prism_irl.evaluation.checks import check
from prism_irl.evaluation.metrics import Inference, infer_once, label_metrics
from prism_irl.evaluation.result import Dwell, FitResult, Shown
from prism_irl.evaluation.tables import dwell_per_intention, on_map, place_table, trips
from prism_irl.labels import mean_dwell, segments
from prism_irl.models.base import IntentionModel
from prism_irl.models.references import reference_scores
from prism_irl.report.places import cells_of
from prism_irl.report.story import is_movement, movement_of


def describe(
    model: IntentionModel,
    data: Table | Demonstrations,
    *,
    events: Mapping[str, npt.ArrayLike] | None = None,
    layout: Mapping[str, Any] | None = None,
    simulations: int = 0,
    references: bool = True,
    known_dynamics: bool = False,
    hz: float | None = None,
    **further: Any,
) -> FitResult:
    """Return what a fitted model found in the data of its fit.

    Parameters
    ----------
    events : {name: (n,) bool}, steps at which something happened, to be marked
    layout : where states lie (`report.places`); by default found from their names and moves
    simulations : how often the model is simulated beside the data; 0 leaves that out
    references : whether what has no intentions is fitted beside it
    known_dynamics : dynamics were given and not counted
    hz : steps per second, where the data have no times that say it
    further : ``intervals``, ``effects``, ``evidence`` and ``tokens`` of `FitResult`
    """
    if isinstance(data, Table):
        table = data
    else:  # demonstrations without rows
        states, actions = Vocabulary(data.state_names, data.n_states), Vocabulary(data.action_names, data.n_actions)
        table = Table(data, None, np.arange(data.n_steps), states, actions, None)
    demos, K = table.demonstrations, model.n_intentions
    found = infer_once(model, demos)
    asked = model.get_params()
    fraction, seed = asked.get("validation_fraction", 0.0), asked.get("seed", 0)
    validation = np.zeros(demos.n_trajectories, bool)  # trajectories that EM did not train on
    if model.starts_ is not None and fraction > 0 and len(demos) > 1:
        validation[demos.split_indices(fraction, seed=seed)[0]] = True
    shown = _shown(model, demos, found, {n: np.asarray(at) for n, at in (events or {}).items()}, layout)
    rewards, values = on_map(model, shown.demos, shown.probabilities)
    continuous = demos.action_space.continuous
    cut = segments(found.labels, demos.offsets)
    goals = tables.goal_table(model, demos) if demos.state_space.continuous else None
    rows = tables.cell_table if continuous else tables.intention_table
    ends = None if model.rewards_model_ is None else model.rewards_model_.ends
    distances = None if ends is None else ends.distances
    notes = shown.notes if continuous else [] if known_dynamics else [tables.seen_in_words(demos)]
    wanted = None if model.rewards_model_ is None else model.rewards_model_.state_rewards
    notes = [*notes, *([] if wanted is None else _without_goals(wanted))]
    simple: dict[str, Any] = {}
    labellings = None
    if demos.state_space.continuous and K > 1:
        from prism_irl.models.phase_baselines import phase_baselines  # here, because it imports torch

        simple, labellings = phase_baselines(demos, K, found.labels)
    stable = model.stability(demos)
    later = np.flatnonzero(~demos.first_steps)
    pairs = found.labels[later - 1] * K + found.labels[later]
    return FitResult(
        method=type(model).__name__,
        pair=model.pair,
        n_intentions=K,
        table=table,
        posterior=found,
        scores=_scores(model, found, np.repeat(validation, demos.lengths)),
        references=reference_scores(demos, validation) if references else {},
        leaks=model.leaks,
        density=model.is_density,
        looks_ahead=model.looks_ahead,
        usage=np.bincount(found.labels, minlength=K) / len(found.labels),
        dwell=Dwell(
            mean_dwell(found.labels, demos.offsets),
            dwell_per_intention(found.labels, demos.offsets, K),
            None if model.switching_ is None or K == 1 else model.switching_.dwell_proba(int(cut.lengths.max())),
        ),
        transitions=np.bincount(pairs, minlength=K**2).reshape(K, K),
        rewards=rewards,
        values=values,
        goals=goals,
        em=em_course(model),
        monitor=None if model.starts_ is None else model.monitor_,
        agreement=model.agreement_,
        n_equal_starts=model.n_equal_starts_,
        choices={
            "validation_chose": list(model.validation_chose_),
            **{
                name: getattr(model, f"{name}_")
                for name in ("intentions_found", "history_length", "backoff", "default")
            },
            "planned": wanted is not None,
            "chosen": {"options": model.chosen_, "tried": model.choice_},
        },
        labelled={
            "known_steps": 0 if demos.partial_labels is None else int((demos.partial_labels >= 0).sum()),
            **label_metrics(found.labels, demos),
            **({"baselines": simple} if simple else {}),
            **(stable or {}),
        },
        tables={
            "baselines.csv": labellings,
            "rewards.csv": rows(model, demos, found.probabilities),
            "goals.csv": place_table(demos, distances, ends.facts) if ends and distances is not None else goals,
            "trips.csv": None if distances is None else trips(demos, found.probabilities, distances),
            "dynamics.csv": None if continuous or known_dynamics else tables.move_table(demos),
        },
        shown=shown,
        movement=_movement(demos, found, K, stable) if K > 1 and is_movement(demos) else None,
        checks=check(model, demos, found.labels, simulations=simulations, seed=seed)
        if simulations and not continuous
        else None,
        notes=tuple(notes),
        data_notes=None if data is not table else table.notes,
        places=None if distances is None else _places(demos, distances),
        step_seconds=step_seconds(demos) if hz is None else 1 / hz,
        **further,
    )


def _movement(
    demos: Demonstrations, found: Inference, n_intentions: int, stable: Mapping[str, Any] | None
) -> dict[str, Any]:
    """What the page says of demonstrations; of large data, of some episodes."""
    chosen = some_trajectories(demos, em.SOME, 0)
    steps = steps_of(demos.offsets, chosen)
    if len(chosen) < len(demos):
        demos, found = (
            demos.subset(chosen),
            Inference(found.labels[steps], found.probabilities[steps], found.log_likelihood[steps], found.paper[steps]),
        )
    names = [f"{{{k}}}" for k in range(n_intentions)]  # filled in where the names of phases are known
    unusual = triage.triage(found, demos, names) if len(demos) >= triage.FEWEST else []
    return movement_of(demos, found.labels, n_intentions, unusual) | {"stable": stable and stable["halves_by_phase"]}


def _places(demos: Demonstrations, distances: FloatArray) -> list[list[int]]:
    """A state of every place of each intention, from expected steps to them (K, S)."""
    place = np.arange(demos.n_states) if demos.places is None else demos.places
    at = [np.flatnonzero(own == 0) for own in distances]
    return [own[np.unique(place[own], return_index=True)[1]].tolist() for own in at]


def step_seconds(demos: Demonstrations) -> float | None:
    """How long a step takes by the times of the data, in seconds; None without a clock, or where steps differ."""
    if demos.times is None or demos.times.dtype.kind not in "fmM":  # whole numbers count frames, or steps
        return None
    seconds = seconds_between(demos.times, demos)
    if not len(seconds) or not (usual := float(np.median(seconds))) > 0:
        return None
    low, high = np.quantile(seconds, (0.05, 0.95))
    return float(f"{usual:.6g}") if low > 0.75 * usual and high < 1.25 * usual else None


def _shown(
    model: IntentionModel,
    demos: Demonstrations,
    found: Inference,
    marks: dict[str, BoolArray],
    layout: Mapping[str, Any] | None,
) -> Shown:
    """What a page shows: all data, or of large continuous ones some trajectories; continuous data by their cells.

    Maps and stories are averages that a million steps settle as well as a hundred, and are made of arrays that are
    several times as long as what they show.
    """
    probabilities, notes = found.probabilities, []
    if demos.state_space.continuous and demos.n_steps > em.LARGE:
        chosen = some_trajectories(demos, em.LARGE, 0)
        steps = steps_of(demos.offsets, chosen)
        notes = [
            f"Maps, stories and pictures are those of {len(chosen):,} of {len(demos):,} trajectories "
            f"({len(steps):,} of {demos.n_steps:,} steps), drawn at random; scores, usage, dwell and segments.parquet "
            "are of all of them. Starts were looked for, and rewards and references fitted, in about "
            f"{em.SOME:,} steps."
        ]
        demos, probabilities = demos.subset(chosen), probabilities[steps]
        marks = {name: at[steps] for name, at in marks.items()}
    if model.units_ is not None:
        demos, layout = cells_of(demos, model.units_)
    return Shown(demos, probabilities, marks, layout, notes)


def em_course(model: IntentionModel) -> dict[str, Any] | None:
    """How EM went: iterations, convergence, seconds and starts; None of a method that is not fitted by it."""
    if model.starts_ is None:
        return None
    best = next((index for index, start in enumerate(model.starts_) if start["best"]), 0)
    seen = [row["monitored"] for row in model.monitor_ if row["start"] == best]
    return {
        "iterations": model.n_iterations_,
        "converged": model.converged_,
        "rise": seen[-1] - seen[-2] if len(seen) > 1 else None,  # in the last iteration, nats per step
        "fixed": model.get_params().get("patience", 0) is None,  # so many iterations were asked for, not convergence
        "seconds": sum(start["seconds"] for start in model.starts_),
        "starts": len(model.starts_),
    }


def _without_goals(state_rewards: FloatArray) -> list[str]:
    """One sentence where some intentions want nothing and others have goals, of rewards (K, S) on states."""
    idle = [str(k) for k in np.flatnonzero(~(state_rewards > 0).any(axis=1))]
    K, n = len(state_rewards), len(state_rewards) - len(idle)
    said = f"Intention {' and '.join(idle)} wants nothing in particular and follows the habit: of the {K} intentions, "
    return [f"{said}{n} {'has a goal' if n == 1 else 'have goals'}."] if 0 < n < K else []


def _scores(model: IntentionModel, found: Inference, validation: BoolArray) -> dict[str, dict[str, float | None]]:
    """Both scores on training and on validation steps, each the mean over its steps; ``validation`` (n,)."""
    scores: dict[str, dict[str, float | None]] = {
        name: {
            "train": float(values[~validation].mean()),
            "validation": float(values[validation].mean()) if validation.any() else None,
        }
        for name, values in (("predictive_ll", found.log_likelihood), ("paper_score", found.paper))
    }
    if validation.any() and model.get_params().get("recount", False):
        # The policies have counted the validation trajectories since; this is what they scored before.
        best = next(index for index, start in enumerate(model.starts_ or ()) if start["best"])
        rows = (row for row in model.monitor_ if row["start"] == best and row["iteration"] == model.n_iterations_)
        before = float(next(rows)["validation"])
        scores["predictive_ll"]["validation"] = None if model.leaks else before
        scores["paper_score"]["validation"] = before
    if model.validation_counted_:  # by a habit, whose memory came last
        scores["predictive_ll"]["validation"] = scores["paper_score"]["validation"] = None
    return scores
