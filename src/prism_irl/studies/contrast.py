"""Groups of animals: whether they differ in what they want, how often, or when they change their mind.

The fit knows nothing of the conditions, so that animals can be exchanged between them: p is exact (or from random
permutations) whatever the fit is worth. Differences and their intervals are then estimated with policies of each
condition (`models.subject_models`): a group that wants something else would otherwise seem to switch more often. What
is compared: usage, dwell, switch rate and kernel (`evaluation.units`); occupancy, by the total variation
½ Σ_s |p_B(s) − p_A(s)|; and the reward of each intention, by the likelihood ratio of the choices that it follows from,
with the root mean square of r_B − r_A over the intention's steps as its size. Of three groups or more the spread
between them is ranked, and every pair is compared by itself, its p times the number of pairs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from prism_irl import storage
from prism_irl.arrays import FloatArray, IntArray
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.evaluation import units
from prism_irl.evaluation.units import Assignments, Cells, Counts, Measure, ratio
from prism_irl.figures import charts as drawing
from prism_irl.figures import style
from prism_irl.labels import match
from prism_irl.models.intentions import Intentions
from prism_irl.models.subject_models import ConditionModels, OwnModels, has_own_chains, refit
from prism_irl.report.contrast import FOLDER, file_stem, model_digest
from prism_irl.report.verdict import listed
from prism_irl.rewards.iavi import IAVI
from prism_irl.scale import fanout
from prism_irl.studies import results
from prism_irl.studies.intervals import OnPart
from prism_irl.switching.base import Posterior

LEVEL = 0.05
SHRINKAGE = 5.0
"""Steps in a state and intention that the choices of all animals are worth beside those of a group."""
SMOOTHING = 0.1
BOOTSTRAP = 2_000
BATCH = 256  # permutations that are counted at once


class Design(NamedTuple):
    """Which cell each trajectory belongs to, (N,), -1 for none; the cells, and the name of the unit of each."""

    cell: IntArray
    cells: Cells
    names: list[str]
    left_out: list[str]


def design(unit: npt.NDArray[Any], condition: npt.NDArray[Any], levels: Sequence[str]) -> Design:
    """Cells of units (N,) and conditions (N,) of every trajectory; paired where units have all conditions.

    Units without one of the conditions are left out of a paired design, and named.
    """
    who, what = unit.astype(str), condition.astype(str)
    seen = {level: set(who[what == level]) for level in levels}
    both, either = set.intersection(*seen.values()), set.union(*seen.values())
    if not both and sum(map(len, seen.values())) > len(either):
        raise InputError("Units have several of the conditions and none has all; name two of them with --levels.")
    used = sorted(both or either)
    keys = [(name, level) for name in used for level in levels if name in seen[level]]
    number = {key: i for i, key in enumerate(keys)}
    cell = np.array([number.get(key, -1) for key in zip(who.tolist(), what.tolist(), strict=True)])
    index = {name: i for i, name in enumerate(used)}
    number_of = {level: g for g, level in enumerate(levels)}
    level = np.array([number_of[level] for _, level in keys], np.int64)
    cells = Cells(np.array([index[name] for name, _ in keys]), level, bool(both))
    return Design(cell, cells, [name for name, _ in keys], sorted(either - both) if both else [])


def contrast(
    model: Any,
    demos: Demonstrations,
    unit: npt.NDArray[Any],
    condition: npt.NDArray[Any],
    *,
    levels: Sequence[str],
    by: str = "condition",
    unit_name: str = "animal",
    seed: int = 0,
) -> dict[str, Any]:
    """Compare two conditions (``levels``) or more; a difference is second minus first, or the largest of any two.

    ``unit`` and ``condition`` (N,) are those of every trajectory; trajectories of other conditions are left out. The
    answer holds ``tests``, one entry per question, and what they rest on (`docs/guide/conditions.md`); of three
    conditions or more, ``pairs`` holds the tests of any two.
    """
    plan = design(unit, condition, levels)
    sizes = np.bincount(plan.cells.level, minlength=len(levels))
    for level, size in zip(levels, sizes, strict=True):
        if not size:
            raise InputError(f"No {unit_name} has {by} = {level!r}; name values of the column with --levels.")
    chosen = plan.cell >= 0
    used, cell = demos.subset(chosen), plan.cell[chosen]
    own = OwnModels(model, used, cell) if has_own_chains(model) else None
    counts = estimated = units.count_units(model, used, cell, own)
    by_condition = own is not None and own.counts is not None
    if by_condition:
        estimated = units.count_units(model, used, cell, ConditionModels(model, used, cell, plan.cells.level))
    tried = units.assignments(plan.cells, seed)
    enough = tried.smallest_p <= LEVEL
    tests = _tests(model, counts, estimated, plan.cells, tried, seed)
    if not enough:  # a p that cannot become small says nothing, and a list of them invites to pick
        tests = [test | {"p": None, "p_adjusted": None} for test in tests]
    with np.errstate(invalid="ignore", divide="ignore"):
        values = estimated.over / estimated.under
    rows = [
        {"unit_of": name, "level": level, **_entry(measure), "value": float(x) if np.isfinite(x) else None}
        for name, level, own_values in zip(plan.names, plan.cells.level.tolist(), values, strict=True)
        for measure, x in zip(estimated.measures, own_values, strict=True)
    ]
    result: dict[str, Any] = {
        "by": by,
        "unit": unit_name,
        "levels": list(levels),
        "n_units": plan.cells.n_units,
        "n_per_level": sizes.tolist(),
        "paired": plan.cells.paired,
        "left_out": plan.left_out,
        "assignments": len(tried.level),
        "exact": tried.exact,
        "smallest_p": tried.smallest_p,
        "enough_units": enough,
        "n_intentions": model.n_intentions,
        "by_condition": by_condition,
        "tests": [test | {"groups": list(levels)} for test in tests],
        "state_names": demos.state_names,
        "occupancy": _shares(counts, plan.cells),
        "per_unit": rows,
    }
    if len(levels) > 2:  # p adjusted for the questions of a pair, times the number of pairs
        pairs = list(combinations(levels, 2))
        result["pairs"] = [{"levels": list(pair)} for pair in pairs]
        for pair, found in zip(pairs, result["pairs"], strict=True):
            found["tests"] = contrast(model, demos, unit, condition, levels=pair, seed=seed)["tests"]
            for test in found["tests"]:
                test["p_adjusted"] = None if test["p"] is None else min(1.0, len(pairs) * test["p_adjusted"])
    plain: dict[str, Any] = storage.read_plain(result)
    return plain


def _tests(
    model: Any, counts: Counts, estimated: Counts, cells: Cells, tried: Assignments, seed: int
) -> list[dict[str, Any]]:
    """Every question: both p from ``counts``, blind to conditions; difference, interval and size from ``estimated``."""
    groups = [(tried.level == g).astype(float) for g in range(len(cells.sizes))]
    true = np.stack([weights[0] for weights in groups])
    each = np.stack([ratio(weights, counts) for weights in groups])
    time = [(w / w.sum(axis=1, keepdims=True)) @ counts.occupancy for w in groups]  # largest total variation, (P,)
    occupancy = np.max([0.5 * np.abs(one - two).sum(axis=1) for one, two in combinations(time, 2)], axis=0)
    reward = _reward_distances(model, true, counts)
    statistics = [_spread(each, cells.sizes), occupancy[:, None]]
    statistics += [] if reward is None else [_choice_ratios(groups, counts)]
    everything = np.concatenate(statistics, axis=1)
    p, adjusted = units.p_values(everything), units.adjusted(everything)
    values = ratio(true, estimated)
    # A distance has no sign and no interval around 0: its p is what can be said of it.
    nothing: dict[str, Any] = {"values": None, "interval": None, "effect": None}
    found: list[dict[str, Any]] = []
    for m, measure in enumerate(counts.measures):
        largest = np.fmax.reduce(values[:, m]) - np.fmin.reduce(values[:, m])
        found.append(_entry(measure) | nothing | {"values": values[:, m], "difference": largest})
    if len(groups) == 2:
        weights = units.bootstrap_weights(cells, BOOTSTRAP, seed)
        draws = ratio(weights * cells.second, estimated) - ratio(weights * ~cells.second, estimated)
        ends = units.interval(draws, cells.n_smaller, 1 if cells.paired else 2)
        effect = _effects(estimated, cells)
        for m, test in enumerate(found):
            difference = values[1, m] - values[0, m]
            test |= {"difference": difference, "interval": ends[:, m], "effect": effect[m]}
    shares = _shares(counts, cells)
    most = int(np.ptp(shares, axis=0).argmax())
    state = {"state": most, "values": shares[:, most]}
    found.append(_entry(Measure("occupancy", unit="distance")) | nothing | {"difference": occupancy[0], "state": state})
    for k, distance in enumerate([] if reward is None else reward):
        found.append(_entry(Measure("reward", k, unit="distance")) | nothing | {"difference": distance})
    return [test | {"p": p[m], "p_adjusted": adjusted[m]} for m, test in enumerate(found)]


def _spread(values: FloatArray, sizes: IntArray) -> FloatArray:
    """Standard deviation between groups (G, P, M) of these sizes, (P, M): of two, in proportion to their difference."""
    share = np.where(np.isfinite(values), sizes[:, None, None], 0.0)
    share = share / np.maximum(share.sum(axis=0), 1.0)
    known = np.nan_to_num(values)
    return np.asarray(np.sqrt((share * (known - (share * known).sum(axis=0)) ** 2).sum(axis=0)))


def _entry(measure: Measure) -> dict[str, Any]:
    to = {} if measure.to is None else {"to": measure.to}
    return {"measure": measure.name, "intention": measure.intention, **to, "unit": measure.unit}


def _shares(counts: Counts, cells: Cells) -> FloatArray:
    """Mean share of time in every state under each of G conditions, (G, S)."""
    return np.stack([counts.occupancy[cells.level == g].mean(axis=0) for g in range(len(cells.sizes))])


def _steps(counts: Counts) -> FloatArray:
    """Expected choices (C, K · S · A) in steps, as if all units had been recorded for as long: they weigh the same."""
    return counts.choices.reshape(len(counts.choices), -1) * counts.steps


def _choice_ratios(groups: Sequence[FloatArray], counts: Counts) -> FloatArray:
    """Log-likelihood ratio of a policy for each group to one for all, (P, K).

    With the same dynamics two rewards differ exactly where their policies do (softmax(Q) = π), and this ratio, unlike a
    distance between rewards, hardly depends on how often a group has an intention: another usage is no other reward.
    """
    steps, (_, K, S, A) = _steps(counts), counts.choices.shape
    found = np.empty((len(groups[0]), K))
    both = _log_likelihood(steps.sum(axis=0).reshape(1, K, S, A))
    for begin in range(0, len(found), BATCH):
        part = slice(begin, begin + BATCH)
        found[part] = sum(_log_likelihood((w[part] @ steps).reshape(-1, K, S, A)) for w in groups) - both
    return found


def _log_likelihood(choices: FloatArray) -> FloatArray:
    """Σ_s,a n(s, a) log(n(s, a) / n(s)), (…) of counts (…, S, A)."""
    totals = choices.sum(axis=-1)
    return np.asarray((special.xlogy(choices, choices).sum(-1) - special.xlogy(totals, totals)).sum(-1))


def _reward_distances(model: Any, groups: FloatArray, counts: Counts) -> FloatArray | None:
    """Largest root mean square of r_B − r_A over the steps of each intention, (K,); None where there are no rewards.

    ``groups`` (G, C) weigh the units of each. IAVI of each group's choices, shrunk to those of all.
    """
    mdp = model.mdp_
    if mdp is None or mdp.n_states != counts.choices.shape[2] or model.is_density:
        return None
    valid, steps = np.asarray(mdp.valid_actions), _steps(counts)
    pooled = steps.sum(axis=0).reshape(counts.choices.shape[1:])
    shared = np.where(valid, pooled + SMOOTHING, 0.0)
    prior = SHRINKAGE * shared / shared.sum(-1, keepdims=True)
    own = np.stack([(w @ steps).reshape(pooled.shape) + prior for w in groups])
    with np.errstate(divide="ignore"):
        rewards = IAVI(mdp).solve(np.log(own / own.sum(-1, keepdims=True))).rewards
    squares = np.stack([((one - two) ** 2).sum(-1) / valid.sum(-1) for one, two in combinations(rewards, 2)])
    visits = pooled.sum(-1)
    return np.asarray(np.sqrt((squares * visits).sum(-1).max(axis=0) / np.maximum(visits.sum(-1), 1e-12)))


def _effects(counts: Counts, cells: Cells) -> FloatArray:
    """Standardised difference of the units: Hedges' g, or for pairs mean over standard deviation of the differences."""
    with np.errstate(invalid="ignore", divide="ignore"):
        own = counts.over / counts.under
        if cells.paired:
            order = np.argsort(cells.units, kind="stable")
            pairs = own[order].reshape(-1, 2, own.shape[1])
            flip = np.where(cells.second[order].reshape(-1, 2)[:, 1], 1.0, -1.0)
            differences = (pairs[:, 1] - pairs[:, 0]) * flip[:, None]
            return np.asarray(np.nanmean(differences, axis=0) / np.nanstd(differences, axis=0, ddof=1))
        one, two = own[~cells.second], own[cells.second]
        n, m = len(one), len(two)
        if n + m < 4:
            return np.full(own.shape[1], np.nan)
        spread = np.sqrt(((n - 1) * np.nanvar(one, 0, ddof=1) + (m - 1) * np.nanvar(two, 0, ddof=1)) / (n + m - 2))
        return np.asarray((np.nanmean(two, 0) - np.nanmean(one, 0)) / spread * (1 - 3 / (4 * (n + m) - 9)))


class Renamed:
    """A fitted model whose intentions come in another order."""

    def __init__(self, model: Intentions, order: IntArray) -> None:
        self.model, self.order, self.n_intentions = model, order, model.n_intentions

    def posterior(self, demos: Demonstrations) -> Posterior:
        """Beliefs, in that order."""
        found = self.model.posterior(demos)
        pairs = found.transitions
        if pairs is not None:
            pairs = pairs[np.ix_(self.order, self.order)]
        return found._replace(responsibilities=found.responsibilities[:, self.order], transitions=pairs)


def refitted(
    found: dict[str, Any],
    model: Intentions,
    demos: Demonstrations,
    unit: npt.NDArray[Any],
    condition: npt.NDArray[Any],
    n: int,
    *,
    seed: int = 0,
    jobs: int = 1,
    on_part: OnPart | None = None,
) -> dict[str, Any]:
    """The same contrast, its intervals from ``n`` resamples of the animals that the model was fitted to again."""
    levels = found["levels"][0], found["levels"][1]
    plan = design(unit, condition, levels)
    weights = units.bootstrap_weights(plan.cells, n, seed)
    labels = model.predict(demos)
    shared = (plan, model, demos, labels)
    made = fanout.in_chunks(_difference, list(weights), shared, jobs=jobs, on_part=on_part)
    ends = units.interval(np.stack(made), plan.cells.n_smaller, 1 if plan.cells.paired else 2)
    tests = [dict(test) for test in found["tests"]]
    signed = (test for test in tests if test["interval"] is not None)
    for test, low, high in zip(signed, *ends, strict=True):
        test["interval"] = [float(low), float(high)]
    return found | {"tests": tests, "refitted": n}


def _difference(
    weights: FloatArray, plan: Design, model: Intentions, demos: Demonstrations, labels: IntArray
) -> FloatArray:
    """Difference of every measure in one resample, (M,)."""
    chosen = plan.cell >= 0
    times = np.where(chosen, weights[np.maximum(plan.cell, 0)], 0).astype(np.int64)
    again = refit(model, demos, times)
    own, K = again.predict(demos), model.n_intentions
    order = np.argsort(match(labels, own, K, K).mapping)

    used, cell = demos.subset(chosen), plan.cell[chosen]
    owner = ConditionModels(again, used, cell, plan.cells.second, times[chosen])

    def renamed(u: int, part: Demonstrations) -> Renamed:
        return Renamed(owner(u, part), order)

    counts = units.count_units(Renamed(again, order), used, cell, renamed)
    groups = np.stack([weights * ~plan.cells.second, weights * plan.cells.second])
    first, second = units.ratio(groups, counts)
    return np.asarray(second - first)


Rows = Sequence[Mapping[str, Any]]


def contrast_path(folder: Path, by: str) -> Path:
    """Where the numbers of a contrast lie."""
    return folder / FOLDER / f"{file_stem(by)}.json"


def write_contrast(folder: Path, result: dict[str, Any], names: Sequence[str]) -> None:
    """Write numbers, tables and figures; the report finds them."""
    stem = file_stem(result["by"])
    (folder / FOLDER).mkdir(exist_ok=True)
    results.write_rows(folder / FOLDER / f"{stem}.csv", result["tests"])
    results.write_rows(folder / FOLDER / f"{stem}_units.csv", result["per_unit"])
    figures = folder / "figures"
    for old in figures.glob(f"contrast-{stem}-*.*"):
        old.unlink()
    captions = _draw(figures, stem, result, names)
    results.add_captions(figures, captions)
    found = result | {"model": model_digest(folder)}
    storage.write_json(contrast_path(folder, result["by"]), found)  # last: what is there is whole


def _draw(folder: Path, stem: str, value: Mapping[str, Any], names: Sequence[str]) -> dict[str, str]:
    levels, captions = value["levels"], dict[str, str]()
    under, asked = listed(levels), defaultdict[str, list[Mapping[str, Any]]](list)
    for test in value["tests"]:
        asked[test["measure"]].append(test)
    titles = {"usage": "share of steps", "dwell": "mean dwell in steps", "switch_rate": "switches per step"}
    with style.paper_style():
        for measure in (name for name in titles if name in asked):
            label, tests = titles[measure], asked[measure]
            figure, axes = style.new_figure(1, len(tests), width=1.0 + 1.5 * len(tests), height=2.3)
            for ax, test in zip(axes, tests, strict=True):
                k = test["intention"]
                own = [row for row in value["per_unit"] if (row["measure"], row["intention"]) == (measure, k)]
                units_of = [
                    {row["unit_of"]: row["value"] for row in own if row["level"] == side and row["value"] is not None}
                    for side in range(len(levels))
                ]
                groups = [float("nan") if v is None else v for v in test["values"]]
                color = style.PALETTE[0] if k is None else style.intention_color(k)
                drawing.unit_dots(ax, units_of, groups, levels, color=color)
                if k is not None:
                    ax.set_title(style.short(names[k]))
                if len(levels) > 2:
                    ax.tick_params(axis="x", rotation=30)
            axes[0].set_ylabel(label)
            name = f"contrast-{stem}-{measure}"
            style.save(figure, folder / name)
            captions[name] = (
                f"{label.capitalize()} under {under}: a dot per {value['unit']}, all of a condition as a bar."
            )
        tests = [test for test in asked["kernel"] if test["interval"] is not None]
        if tests:
            labels = [f"{style.short(names[t['intention']])} → {style.short(names[t['to']])}" for t in tests]
            figure, (ax,) = style.new_figure(width=4.4, height=0.9 + 0.25 * len(tests))
            drawing.difference_forest(ax, tests, labels)
            ax.set_xlabel(f"switches per step, {levels[1]} minus {levels[0]}")
            style.save(figure, folder / f"contrast-{stem}-kernel")
            captions[f"contrast-{stem}-kernel"] = (
                f"Which switches are more frequent under {levels[1]} than under {levels[0]}, with 95% intervals; "
                "filled: clear after correction for all questions."
            )
        if value.get("occupancy") and len(levels) == 2:
            figure, (ax,) = style.new_figure(height=2.6)
            first, second = value["occupancy"]
            drawing.state_shares(ax, first, second, value["levels"])
            style.save(figure, folder / f"contrast-{stem}-occupancy")
            captions[f"contrast-{stem}-occupancy"] = f"Where time is spent under {under}: a dot per state."
    return captions
