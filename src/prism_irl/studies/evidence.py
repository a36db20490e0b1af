"""`prism evidence`: are there intentions at all? The test against a habit, and the budget of predictability.

The budget says where the predictability of the behaviour comes from: uniform → state → memory → individuals →
intentions → behaviour cloning, each row the cross-validated log-likelihood per step of a model that has all that stands
above it (behaviour cloning has no intentions: it is what a network can predict). What intentions add stands at its
place in that row, with its interval, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import stats

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.figures import evidence as drawing
from prism_irl.figures import style
from prism_irl.mdp import MDP
from prism_irl.models.reference_scores import ONE_POLICY
from prism_irl.models.registry import Method, method
from prism_irl.studies import null, results
from prism_irl.studies.analysis import Analysis, independent
from prism_irl.studies.cross_validation import cross_validate
from prism_irl.studies.null import OnPart
from prism_irl.studies.tested import HALVES, Tested, units

LEVEL = 0.05
RESAMPLES = 2000
NAMES = {
    "uniform": "uniform over valid actions",
    "state": "+ state",
    "memory": "+ memory",
    "individuals": "+ individuals",
    "habit": "+ several habits",
    "intentions": "+ intentions",
    "cloning": "behaviour cloning (LSTM)",
}
FloatArray = npt.NDArray[np.float64]


class Step(NamedTuple):
    """One row of the budget.

    ``predictive_ll`` per step with its interval over units; ``gain`` over the row above, with its interval.
    """

    id: str
    name: str
    predictive_ll: float
    low: float
    high: float
    gain: float | None = None
    gain_low: float | None = None
    gain_high: float | None = None


def evidence(
    demos: Demonstrations,
    analysis: Analysis,
    folder: Path,
    *,
    surrogates: int = 19,
    cloning: bool = False,
    mdp: MDP | None = None,
    jobs: int = 1,
    events: null.Events | None = None,
    title: str = "Are there intentions?",
    on_part: OnPart | None = None,
) -> dict[str, Any]:
    """Test, write metrics.json, table.csv and figures, and return the metrics."""
    cache = folder / "cache"
    cache.mkdir(exist_ok=True)
    tested = null.run(
        demos, analysis, surrogates=surrogates, mdp=mdp, jobs=jobs, cache=cache, events=events, on_part=on_part
    )
    cloned = _cloning(demos, analysis, mdp, jobs, cache) if cloning else None
    rows = budget(tested, cloned)
    result = {
        **results.heading(title, demos, folds=analysis.folds, experiment="evidence"),
        "evidence": summary(tested),
        "budget": [row._asdict() for row in rows],
        "notes": notes(tested),
        "methods": {row.id: {name: value for name, value in row._asdict().items() if name != "id"} for row in rows},
    }
    results.write_results(folder, result, _flat(tested))
    results.write_rows(folder / "table.csv", [row._asdict() for row in rows])
    results.write_figures(folder / "figures", figures(tested, rows))
    return result


def figures(tested: Tested, rows: list[Step] | None = None) -> dict[str, results.Draw]:
    """The data among its surrogates, and the budget."""
    return {
        "evidence": partial(_draw_test, tested=tested),
        "budget": partial(draw_budget, rows=budget(tested) if rows is None else rows),
    }


def summary(tested: Tested) -> dict[str, Any]:
    """What other pages quote: gain, p and agreement, with what the surrogates gave."""
    gains, agreements = ([statistic(b) for b in tested.surrogates] for statistic in (tested.gain, tested.agreement))
    low, high = gain_interval(tested)
    return {
        "p_value": tested.p_value(tested.gain),
        "gain": tested.gain(0),
        "gain_low": low,
        "gain_high": high,
        "surrogate_gains": gains,
        "agreement": tested.agreement(0),
        "agreement_p_value": tested.p_value(tested.agreement),
        "surrogate_agreements": agreements,
        "alignments": {event: _alignment(tested, event) for event in tested.events},
        "surrogates": len(gains),
        "chain": tested.favourite(0),
        "memory": tested.memory,
        "several_habits": tested.several,
        "individuals": tested.analysis.individuals(tested.demos),
        "level": LEVEL,
        "found": is_evidence(tested),
        "decided": is_decided(tested),
    }


def _alignment(tested: Tested, event: str) -> dict[str, Any]:
    statistic = partial(tested.alignment, event)
    return {
        "information": statistic(0),
        "p_value": tested.p_value(statistic),
        "surrogates": [statistic(b) for b in tested.surrogates],
    }


def is_evidence(tested: Tested) -> bool:
    """Whether intentions predict better than they would if there were only the habit."""
    return tested.p_value(tested.gain) <= LEVEL


def is_decided(tested: Tested) -> bool:
    """Whether more surrogates could not change the answer at the level that 19 of them allow for."""
    return is_evidence(tested) or tested.p_value(tested.gain) > 1 / (1 + len(tested.surrogates))


def words(found: dict[str, Any]) -> str:
    """The outcome in a sentence or two, from `summary`."""
    top = max(found["surrogate_gains"])
    numbers = (
        f"intentions gain {found['gain']:+.4f} nats per step over a habit with memory {found['memory']}"
        f"{', different among trajectories,' if found['several_habits'] else ''}"
        f"{' and individuals' if found['individuals'] else ''} (95% interval {found['gain_low']:+.4f} to "
        f"{found['gain_high']:+.4f}); the most that any of {found['surrogates']} surrogates without intentions gains "
        f"is {top:+.4f} (p = {found['p_value']:.3g})"
    )
    if not found["decided"]:
        return f"Not decided, for want of surrogates (--surrogates 19 or more): {numbers}."
    if not found["found"]:
        return f"No evidence for intentions beyond habit: {numbers}."
    sentence = f"Evidence for intentions beyond habit: {numbers}."
    if found["gain"] <= 0:
        sentence += (
            " The habit predicts as well all the same: it remembers what the intentions explain. A chain that knows "
            "more about switches (state, recurrent) may gain more."
        )
    if found["agreement_p_value"] > LEVEL:
        sentence += (
            f" Which steps belong to which intention is not settled: labellings from disjoint halves agree to "
            f"{found['agreement']:.2f}, no better than on surrogates (p = {found['agreement_p_value']:.2f})."
        )
    return sentence


def notes(tested: Tested) -> list[str]:
    """The outcome, and how it came about."""
    found, analysis = summary(tested), tested.analysis
    unit = "animals" if independent(tested.demos) == "group" else "trajectories"
    tried = ", ".join(str(k) for k in analysis.intentions)
    aligned = [
        f"The intention of a step says {own['information']:.4f} nats about {event!r}; on surrogates, whose events "
        f"depend on state and action alone, {np.mean(own['surrogates']):.4f} on average: the alignment is "
        f"{'more than' if own['p_value'] <= LEVEL else 'no more than'} a habit gives (p = {own['p_value']:.3g})."
        for event, own in found["alignments"].items()
    ]
    return [
        words(found),
        f"Labellings of all data by chains fitted to disjoint halves of the {unit} agree to {found['agreement']:.2f} "
        f"(adjusted Rand index); on surrogates to {np.mean(found['surrogate_agreements']):.2f} on average "
        f"(p = {found['agreement_p_value']:.3g}).",
        *aligned,
        f"{analysis.folds} folds over the {analysis.by}. Chains of {tried} intentions, without memory and with the "
        f"habit's, {analysis.starts} starts each; validation trajectories inside every training fold choose among "
        f"them. Surrogates are simulated from the habit, with the same starts, lengths and dynamics, and analysed in "
        f"the same way. Intervals are bootstraps over {unit}.",
    ]


# -- the budget --------------------------------------------------------------------------------------------------------


def budget(tested: Tested, cloned: FloatArray | None = None) -> list[Step]:
    """Rows of the budget, each with its interval and its gain over the row above."""
    left_out = {"plain"} if tested.several else {"plain", "habit"}
    found = [row for row in units(tested) if row[0] not in left_out]
    if cloned is not None:
        found.append(("cloning", cloned, found[0][2]))
    draws = np.random.default_rng(0).integers(len(found[0][1]), size=(RESAMPLES, len(found[0][1])))
    rows, before = [], None
    for name, total, steps in found:
        low, high = _interval(total, steps, draws)
        gain: tuple[float | None, ...] = (None, None, None)
        if before is not None:
            gain = (float((total - before).sum() / steps.sum()), *_interval(total - before, steps, draws))
        rows.append(Step(name, NAMES[name], float(total.sum() / steps.sum()), low, high, *gain))
        before = before if name == "cloning" else total
    return rows


def fold_budget(rows: Sequence[Mapping[str, Any]], best: str | None) -> list[Step]:
    """The budget of a comparison, from the rows of its fits: intervals are over folds and seeds.

    Parameters
    ----------
    rows : ``method``, ``fold``, ``seed`` and ``predictive_ll`` of every fit
    best : identifier of the method with intentions that takes their place in the budget
    """
    order = {"uniform": "uniform", "empirical": "state", "ngram": "memory", "ngram-ind": "individuals"}
    if not any(row["method"] in order for row in rows):  # densities of continuous data
        order = {ONE_POLICY: "state"}
    order |= {} if best is None else {best: "intentions"}
    scores: dict[str, dict[int, list[float]]] = {}
    for row in rows:
        scores.setdefault(row["method"], {}).setdefault(row["fold"], []).append(float(row["predictive_ll"]))
    known = {name: np.array([np.mean(own[fold]) for fold in sorted(own)]) for name, own in scores.items()}
    steps, before = [], None
    for method_id, name in [*order.items(), ("bc", "cloning")]:
        if method_id not in known or not np.isfinite(known[method_id]).all():
            continue
        found = known[method_id]
        gain: tuple[float | None, ...] = (None, None, None)
        if before is not None and len(before) == len(found):
            gain = (float((found - before).mean()), *_over_folds(found - before))
        steps.append(Step(name, NAMES[name], float(found.mean()), *_over_folds(found), *gain))
        before = found
    return steps


def _over_folds(values: FloatArray) -> tuple[float, float]:
    """95% interval of a mean over folds (Student's t)."""
    n = len(values)
    half = float(stats.t.ppf(0.975, n - 1) * values.std(ddof=1) / np.sqrt(n)) if n > 1 else 0.0
    return float(values.mean()) - half, float(values.mean()) + half


def gain_interval(tested: Tested) -> tuple[float, float]:
    """95% bootstrap interval of the gain, over animals where there are several, else over trajectories."""
    found = {name: (total, steps) for name, total, steps in units(tested)}
    total, steps = found["intentions"]
    gains = total - found[tested.reference(0)][0]
    draws = np.random.default_rng(0).integers(len(gains), size=(RESAMPLES, len(gains)))
    return _interval(gains, steps, draws)


def _interval(total: FloatArray, steps: FloatArray, draws: npt.NDArray[np.int64]) -> tuple[float, float]:
    low, high = np.quantile(total[draws].sum(1) / steps[draws].sum(1), [0.025, 0.975])
    return float(low), float(high)


def _cloning(demos: Demonstrations, analysis: Analysis, mdp: MDP | None, jobs: int, cache: Path) -> FloatArray:
    """Log-likelihood of behaviour cloning per unit, on the same folds."""
    found = method("bc")
    done = cross_validate(
        demos,
        [Method("bc", found.name, found.model)],
        folds=analysis.folds,
        by=analysis.by,
        mdp=mdp,
        jobs=jobs,
        cache=cache,
        extra=_per_trajectory,
    )
    order = [test for _, test in demos.fold_indices(analysis.folds, by=analysis.by)]
    rows = {row["fold"]: row["per_trajectory"] for row in done.rows}
    flat = np.zeros(len(demos))
    for fold, test in enumerate(order):
        flat[test] = rows[fold]
    if independent(demos) == "group":
        return np.bincount(demos.units("group"), flat).astype(np.float64)
    return np.asarray(flat[np.concatenate(order)])


def _per_trajectory(model: Any, test: Demonstrations) -> dict[str, Any]:
    return {"per_trajectory": null.trajectory_likelihoods(model, test)}


# -- files -------------------------------------------------------------------------------------------------------------


def _flat(tested: Tested) -> list[dict[str, Any]]:
    """One row per data set and fold."""
    kept = ("n_steps", "plain", "habit", "intentions", "chosen", "memory", "backoff")
    return [
        {"data": task.data, "fold": task.part, **{name: row[name] for name in kept}}
        for task, row in sorted(tested.rows.items())
        if task.part != HALVES
    ]


def _draw_test(path: Path, tested: Tested) -> str:
    found = summary(tested)
    aligned = found["alignments"]
    rows = 1 + -(-len(aligned) // 2)  # two panels in each
    figure, (left, right, *others) = style.new_figure(rows, 2, height=2.0 * rows, width=6.0)
    drawing.data_among_surrogates(left, found["gain"], found["surrogate_gains"], "gain over the habit (nats per step)")
    drawing.data_among_surrogates(right, found["agreement"], found["surrogate_agreements"], "agreement of halves (ARI)")
    for ax, (event, own) in zip(others, aligned.items(), strict=False):
        drawing.data_among_surrogates(ax, own["information"], own["surrogates"], f"known of {event} (nats per step)")
    for ax in others[len(aligned) :]:
        ax.set_visible(False)
    style.save(figure, path)
    caption = (
        f"The data (line) among {found['surrogates']} surrogates that have its habit and no intentions (dots). From "
        f"the left: what intentions predict beyond a habit, p = {found['p_value']:.3g}; agreement between labellings "
        f"from disjoint halves, p = {found['agreement_p_value']:.3g}"
    )
    for event, own in aligned.items():
        caption += f"; what the intention says about {event}, p = {own['p_value']:.3g}"
    return f"{caption}."


def draw_budget(path: Path, rows: list[Step]) -> str:
    """Draw the budget at a path without suffix; return its caption."""
    figure, (ax,) = style.new_figure(width=5.2, height=0.5 + 0.34 * len(rows))
    drawing.budget(ax, [row._asdict() for row in rows])
    style.save(figure, path)
    return (
        "The budget of predictability: cross-validated log-likelihood per step of models that know more and more, with "
        "95% intervals, and what each gains over the one above."
    )
