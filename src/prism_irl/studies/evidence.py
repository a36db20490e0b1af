"""`prism evidence`: are there intentions at all? The test against a habit, and the budget of predictability.

The budget says where the predictability of the behaviour comes from: uniform → state → memory → individuals →
intentions → behaviour cloning, each row the cross-validated log-likelihood per step of a model that has all that stands
above it (behaviour cloning has no intentions: it is what a network can predict). What intentions add stands at its
place in that row, with its interval, and nowhere else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import stats

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.figures import charts as drawing
from prism_irl.figures import style
from prism_irl.mdp import MDP
from prism_irl.models.references import ONE_POLICY
from prism_irl.models.registry import Method, method
from prism_irl.report.verdict import sentences
from prism_irl.studies import null, results
from prism_irl.studies.cross_validation import cross_validate
from prism_irl.studies.gains import Analysis, independent
from prism_irl.studies.null import EXCEEDING, LEVEL, MOST, EvidenceResult, OnWork, Task

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
    surrogates: int = MOST,
    cloning: bool = False,
    quick: bool = False,
    mdp: MDP | None = None,
    jobs: int = 1,
    events: null.Events | None = None,
    covariates: Sequence[str] = (),
    title: str = "Are there intentions?",
    on_part: OnWork | None = None,
) -> dict[str, Any]:
    """Test, write metrics.json, table.csv and figures, and return the metrics.

    A ``quick`` test is made on simulations of one habit alone.
    """
    cache = folder / "cache"
    cache.mkdir(exist_ok=True)
    shared: dict[str, Any] = {"surrogates": surrogates, "mdp": mdp, "jobs": jobs, "cache": cache, "events": events}
    tested = null.run(demos, analysis, **shared, others=0 if quick else null.OTHERS, on_part=on_part)
    cloned = _cloning(demos, analysis, mdp, jobs, cache) if cloning else None
    rows = budget(tested, cloned)
    found, remarks = summary(tested), notes(tested)
    for row in found["covariates"]:
        row["name"] = covariates[row["covariate"]] if row["covariate"] < len(covariates) else str(row["covariate"])
    told = [
        f"Switches that follow {row['name']} gain {row['gain']:+.4f} nats per step over switches that do not (95% "
        f"interval {row['low']:+.4f} to {row['high']:+.4f})."
        for row in found["covariates"]
    ]
    result = {
        **results.heading(title, demos, folds=analysis.folds, quick=quick, experiment="evidence"),
        "evidence": found,
        "budget": [row._asdict() for row in rows],
        "notes": [*remarks[:-1], *told, remarks[-1]],
        "methods": {row.id: {name: value for name, value in row._asdict().items() if name != "id"} for row in rows},
    }
    results.write_results(folder, result, _flat(tested))
    results.write_rows(folder / "table.csv", [row._asdict() for row in rows])
    results.write_figures(folder / "figures", figures(tested, rows))
    return result


def figures(tested: EvidenceResult, rows: list[Step] | None = None) -> dict[str, results.Draw]:
    """The data among its surrogates, and the budget."""
    return {
        "evidence": partial(_draw_test, tested=tested),
        "budget": partial(draw_budget, rows=budget(tested) if rows is None else rows),
    }


def summary(tested: EvidenceResult) -> dict[str, Any]:
    """What other pages quote: both questions with their answers, and everything that the words need."""
    one, two = tested.g1, tested.g2
    asked = [question for question in (one, two) if question is not None]
    adjusted = holm([question.p_value for question in asked])
    found = [question.counts and p <= LEVEL for question, p in zip(asked, adjusted, strict=True)]
    row = tested.rows[Task(0, "gain")]
    blind = np.asarray(row["per_trajectory"]["chain"]) - np.asarray(row["per_trajectory"]["state"])
    decided = any(found) or not any(question.counts and question.reached < EXCEEDING for question in asked)
    least = math.ceil(len(asked) / LEVEL) - 1  # simulations with which the strictest question can be answered yes
    answer: dict[str, Any] = {
        "found": any(found),
        "decided": decided,
        "p_value": min(adjusted),
        "level": LEVEL,
        "g1": one.to_json(adjusted[0], found[0]),
        "g2": None if two is None else two.to_json(adjusted[1], found[1]),
        "gain": one.effect,
        "gain_low": one.low,
        "gain_high": one.high,
        "surrogate_gains": list(one.surrogates),
        "agreement": tested.rows[Task(0, "halves")]["agreement"],
        "agreement_p_value": tested.p_value("halves", "agreement"),
        "surrogate_agreements": list(tested.values("halves", "agreement")),
        "alignments": {
            event: {
                "information": tested.rows[Task(0, "halves")][event],
                "p_value": tested.p_value("halves", event),
                "surrogates": list(tested.values("halves", event)),
            }
            for event in _events(tested)
        },
        "surrogates": max(len(question.surrogates) for question in asked),
        "chain": row["chain"],
        "memory": tested.habit.length_,
        "reads": tested.habit.reads_,
        "slow_choices": tested.habit.kernels_ is not None,
        "several_habits": row["several"] > tested.analysis.folds / 2,
        "individuals": tested.analysis.individuals(tested.demos),
        "memoryless_gain": float(blind.sum() / tested.demos.n_steps),
        "goals": tested.rows[Task(0, "goals")]["goals"] if tested.places else None,
        "shrinkage": tested.matching | {"moves": tested.moves()},
        "least_surrogates": least,
        "covariates": covariates(tested),
        "seconds": sum(row["seconds"] for row in tested.rows.values()),
    }
    yes = [(part, question) for part, question in zip(("gain", "goals"), asked, strict=False) if question.counts]
    answer["hangs_on"] = [
        row["backoff"]
        for row in answer["shrinkage"]["moves"]
        if any(found) and not any(row[part]["most"] < question.statistic for part, question in yes)
    ]
    n = answer["surrogates"]
    return answer | {"seconds_for_999": None if decided else answer["seconds"] * 999 / n}


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values, in the order that they are given."""
    order, found, largest = np.argsort(p_values), [0.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * p_values[index]))
        found[index] = largest
    return found


def covariates(tested: EvidenceResult) -> list[dict[str, Any]]:
    """What a chain gains whose switches follow one covariate, over the same chain without, beside the habit."""
    known = tested.rows[Task(0, "gain")]["per_trajectory"]
    everyone = np.arange(len(tested.demos))
    found = []
    for name in known:
        if name.startswith("follows ") and name != "follows ":
            gain = np.asarray(known[name]) - np.asarray(known["follows "])
            low, high = tested.interval(gain, everyone)
            row = {"covariate": int(name.split()[1]), "gain": float(gain.sum() / tested.demos.n_steps)}
            found.append(row | {"low": low, "high": high})
    return found


def _events(tested: EvidenceResult) -> list[str]:
    return [name for name in tested.rows[Task(0, "halves")] if name not in ("agreement", "seconds")]


def words(found: dict[str, Any]) -> str:
    """The outcome in a few sentences, from `summary`."""
    return sentences(found)[0].text


def notes(tested: EvidenceResult) -> list[str]:
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
    shrinkage = found["shrinkage"]
    starts = "one start" if analysis.starts == 1 else f"{analysis.starts} starts"
    lively = (
        f"Surrogates are simulated from a habit whose rare contexts are worth {shrinkage['chosen']:g} steps of shorter "
        f"ones (the likeliest habit: {shrinkage['fitted']:g}), so that memory is worth as much in them as in the data."
    )
    if "slow" in shrinkage:
        lively += " Trajectories differ in them, and change from beginning to end, as they do in the data."
    if shrinkage["moves"]:
        lively += f" With other strengths, gains of simulations are on average: {_moves(found)}."
    looked_at = len(tested.rows[Task(0, "goals")]["trajectories"]) if tested.places else len(tested.demos)
    if looked_at < len(tested.demos):
        lively += f" Goals were looked for in {looked_at:,} of {len(tested.demos):,} trajectories."
    return [
        *(finding.text for finding in sentences(found)),
        *aligned,
        f"{analysis.folds} folds over the {analysis.by}. Chains of {tried} intentions, with and without memory, "
        f"{starts} each, stand beside the habit; validation trajectories inside every training fold "
        f"choose among them. {lively} Intervals are bootstraps over {unit}; the two questions share a level of "
        f"{LEVEL:g} (Holm).",
    ]


def _moves(found: Mapping[str, Any]) -> str:
    """What simulations gain by the strength of the shrinkage, and the data."""
    asked = [("gain", found["g1"], "intentions"), ("goals", found["g2"], "goals")]
    asked = [(part, question, name) for part, question, name in asked if question]
    told = [
        f"{row['backoff']:g} steps: " + ", ".join(f"{row[part]['mean']:+.4f} by {name}" for part, _, name in asked)
        for row in found["shrinkage"]["moves"]
    ]
    own = ", ".join(f"{question['statistic']:+.4f} by {name}" for _, question, name in asked)
    return "; ".join([*told, f"the data: {own}"])


# -- the budget --------------------------------------------------------------------------------------------------------


def budget(tested: EvidenceResult, cloned: FloatArray | None = None) -> list[Step]:
    """Rows of the budget, each with its interval and its gain over the row above."""
    known, demos = tested.rows[Task(0, "gain")]["per_trajectory"], tested.demos
    several = tested.rows[Task(0, "gain")]["several"] > tested.analysis.folds / 2
    order = {"uniform": "uniform", "state": "state", "memory": "memory"}
    order |= {"individuals": "plain"} if tested.analysis.individuals(demos) else {}
    order |= {"habit": "habit"} if several else {}
    found = [(name, np.asarray(known[key])) for name, key in order.items()] + [
        ("intentions", np.asarray(known["intentions"]))
    ]
    if cloned is not None:
        found.append(("cloning", cloned))
    everyone, rows, before = np.arange(len(demos)), list[Step](), None
    for name, total in found:
        gain: tuple[float | None, ...] = (None, None, None)
        if before is not None:
            gain = (float((total - before).sum() / demos.n_steps), *tested.interval(total - before, everyone))
        score = float(total.sum() / demos.n_steps)
        low, high = tested.interval(total, everyone)  # a resample of equal numbers differs from them by rounding
        rows.append(Step(name, NAMES[name], score, min(low, score), max(high, score), *gain))
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


def _cloning(demos: Demonstrations, analysis: Analysis, mdp: MDP | None, jobs: int, cache: Path) -> FloatArray:
    """Log-likelihood of behaviour cloning per trajectory, on the same folds."""
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
    rows = {row["fold"]: row["per_trajectory"] for row in done.rows}
    flat = np.zeros(len(demos))
    for fold, (_, test) in enumerate(demos.fold_indices(analysis.folds, by=analysis.by)):
        flat[test] = rows[fold]
    return flat


def _per_trajectory(model: Any, test: Demonstrations) -> dict[str, Any]:
    return {"per_trajectory": [float(x) for x in np.add.reduceat(model.log_likelihood(test), test.offsets[:-1])]}


# -- files -------------------------------------------------------------------------------------------------------------


def _flat(tested: EvidenceResult) -> list[dict[str, Any]]:
    """One row per data set and part."""
    kept = ("gain", "agreement", "chain", "several")
    return [{**task._asdict(), **{name: row.get(name) for name in kept}} for task, row in sorted(tested.rows.items())]


def _draw_test(path: Path, tested: EvidenceResult) -> str:
    found = summary(tested)
    aligned, two = found["alignments"], tested.g2
    panels = [(found["gain"], found["surrogate_gains"], "gain over the habit (nats per step)")]
    if two is not None:
        panels.append((two.statistic, two.surrogates, "gain of goals (nats per step)"))
    panels.append((found["agreement"], found["surrogate_agreements"], "agreement of halves (ARI)"))
    panels += [
        (own["information"], own["surrogates"], f"known of {name} (nats per step)") for name, own in aligned.items()
    ]
    rows = -(-len(panels) // 2)
    figure, axes = style.new_figure(rows, 2, height=2.0 * rows, width=6.0)
    for ax, (value, surrogates, label) in zip(axes, panels, strict=False):
        drawing.data_among_surrogates(ax, value, surrogates, label)
    for ax in axes[len(panels) :]:
        ax.set_visible(False)
    style.save(figure, path)
    caption = (
        f"The data (line) among simulations of its habit, which have no intentions (dots, {found['surrogates']} of "
        f"them at most): what intentions predict beyond a habit, p = {found['g1']['p_value']:.3g}"
    )
    if two is not None:
        caption += f"; what goals predict beyond the habit, p = {found['g2']['p_value']:.3g}"
    caption += f"; agreement of labellings from disjoint halves, p = {found['agreement_p_value']:.3g}"
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
