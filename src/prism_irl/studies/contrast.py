"""Two groups of animals: whether they differ in what they want, how often, or when they change their mind.

The fit knows nothing of the conditions, so that animals can be exchanged between them: p is exact (or from random
permutations) whatever the fit is worth. Differences and their intervals are then estimated with policies of each
condition (`models.subject_models`): a group that wants something else would otherwise seem to switch more often. What
is compared: usage, dwell, switch rate and kernel (`evaluation.units`); occupancy, by the total variation
½ Σ_s |p_B(s) − p_A(s)|; and the reward of each intention, by the likelihood ratio of the choices that it follows from,
with the root mean square of r_B − r_A over the intention's steps as its size.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from prism_irl import storage
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.evaluation import resampling, units
from prism_irl.evaluation.resampling import Assignments, Cells
from prism_irl.evaluation.units import Counts, Measure, ratio
from prism_irl.models.subject_models import ConditionModels, OwnModels, has_own_chains
from prism_irl.rewards.iavi import IAVI

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

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


def design(unit: npt.NDArray[Any], condition: npt.NDArray[Any], levels: tuple[str, str]) -> Design:
    """Cells of units (N,) and conditions (N,) of every trajectory; paired where units have both conditions.

    Units with one condition are left out of a paired design, and named.
    """
    who, what = unit.astype(str), condition.astype(str)
    seen = {level: set(who[what == level]) for level in levels}
    both, either = seen[levels[0]] & seen[levels[1]], seen[levels[0]] | seen[levels[1]]
    used = sorted(both or either)
    keys = [(name, level) for name in used for level in levels if name in seen[level]]
    number = {key: i for i, key in enumerate(keys)}
    cell = np.array([number.get(key, -1) for key in zip(who.tolist(), what.tolist(), strict=True)])
    index = {name: i for i, name in enumerate(used)}
    second = np.array([level == levels[1] for _, level in keys])
    cells = Cells(np.array([index[name] for name, _ in keys]), second, bool(both))
    return Design(cell, cells, [name for name, _ in keys], sorted(either - both) if both else [])


def contrast(
    model: Any,
    demos: Demonstrations,
    unit: npt.NDArray[Any],
    condition: npt.NDArray[Any],
    *,
    levels: tuple[str, str],
    by: str = "condition",
    unit_name: str = "animal",
    seed: int = 0,
) -> dict[str, Any]:
    """Compare two conditions.

    Parameters
    ----------
    model : a fitted model of ``demos``
    unit, condition : (N,)
        Animal and condition of every trajectory; trajectories of other conditions are left out.
    levels : (str, str)
        The two conditions; differences are second minus first.

    Returns
    -------
    dict
        ``tests``, one entry per question, and what they rest on; see `docs/guide/conditions.md`.
    """
    plan = design(unit, condition, levels)
    for level, there in zip(levels, (~plan.cells.second, plan.cells.second), strict=True):
        if not there.any():
            raise InputError(f"No {unit_name} has {by} = {level!r}; name two values of the column with --levels.")
    chosen = plan.cell >= 0
    used, cell = demos.subset(chosen), plan.cell[chosen]
    own = OwnModels(model, used, cell) if has_own_chains(model) else None
    counts = estimated = units.count_units(model, used, cell, own)
    by_condition = own is not None and own.counts is not None
    if by_condition:
        estimated = units.count_units(model, used, cell, ConditionModels(model, used, cell, plan.cells.second))
    tried = resampling.assignments(plan.cells, seed)
    enough = tried.smallest_p <= LEVEL
    tests = _tests(model, counts, estimated, plan.cells, tried, seed)
    if not enough:  # a p that cannot become small says nothing, and a list of them invites to pick
        tests = [test | {"p": None, "p_adjusted": None} for test in tests]
    result: dict[str, Any] = {
        "by": by,
        "unit": unit_name,
        "levels": list(levels),
        "n_units": plan.cells.n_units,
        "n_per_level": [int((~plan.cells.second).sum()), int(plan.cells.second.sum())],
        "paired": plan.cells.paired,
        "left_out": plan.left_out,
        "assignments": len(tried.second),
        "exact": tried.exact,
        "smallest_p": tried.smallest_p,
        "enough_units": enough,
        "n_intentions": model.n_intentions,
        "by_condition": by_condition,
        "tests": [test | {"groups": list(levels)} for test in tests],
        "state_names": demos.state_names,
        "occupancy": _shares(counts, plan.cells),
        "per_unit": _per_unit(estimated, plan),
    }
    plain: dict[str, Any] = storage.read_plain(result)
    return plain


def _tests(
    model: Any, counts: Counts, estimated: Counts, cells: Cells, tried: Assignments, seed: int
) -> list[dict[str, Any]]:
    """Every question: both p from ``counts``, blind to conditions; difference, interval and size from ``estimated``."""
    a, b = (~tried.second).astype(float), tried.second.astype(float)
    values = ratio(b, counts) - ratio(a, counts)
    occupancy, reward = _occupancy(a, b, counts), _reward_distances(model, a[0], b[0], counts)
    statistics = [np.nan_to_num(np.abs(values)), occupancy[:, None]]
    statistics += [] if reward is None else [_choice_ratios(a, b, counts)]
    everything = np.concatenate(statistics, axis=1)
    p, adjusted = resampling.p_values(everything), resampling.adjusted(everything)
    weights = resampling.bootstrap_weights(cells, BOOTSTRAP, seed)
    draws = ratio(weights * cells.second, estimated) - ratio(weights * ~cells.second, estimated)
    ends = resampling.interval(draws, cells.n_smaller, 1 if cells.paired else 2)
    groups = ratio(np.stack([a[0], b[0]]), estimated)
    effect = _effects(estimated, cells)
    found: list[dict[str, Any]] = []
    for m, measure in enumerate(counts.measures):
        found.append(
            _entry(measure)
            | {
                "values": groups[:, m],
                "difference": groups[1, m] - groups[0, m],
                "interval": ends[:, m],
                "effect": effect[m],
            }
        )
    # A distance has no sign and no interval around 0: its p is what can be said of it.
    nothing = {"values": None, "interval": None, "effect": None}
    state = _largest(counts, cells)
    found.append(_entry(Measure("occupancy", unit="distance")) | nothing | {"difference": occupancy[0], "state": state})
    for k, distance in enumerate([] if reward is None else reward):
        found.append(_entry(Measure("reward", k, unit="distance")) | nothing | {"difference": distance})
    return [test | {"p": p[m], "p_adjusted": adjusted[m]} for m, test in enumerate(found)]


def _entry(measure: Measure) -> dict[str, Any]:
    to = {} if measure.to is None else {"to": measure.to}
    return {"measure": measure.name, "intention": measure.intention, **to, "unit": measure.unit}


def _occupancy(a: FloatArray, b: FloatArray, counts: Counts) -> FloatArray:
    """Total variation between the mean shares of time of the two groups, (P,)."""
    shares = [(w / w.sum(axis=1, keepdims=True)) @ counts.occupancy for w in (a, b)]
    return np.asarray(0.5 * np.abs(shares[1] - shares[0]).sum(axis=1))


def _shares(counts: Counts, cells: Cells) -> FloatArray:
    """Mean share of time in every state under the two conditions, (2, S)."""
    return np.stack([counts.occupancy[~cells.second].mean(axis=0), counts.occupancy[cells.second].mean(axis=0)])


def _largest(counts: Counts, cells: Cells) -> dict[str, Any]:
    """The state whose share of time differs most, and both shares."""
    shares = _shares(counts, cells)
    most = int(np.abs(shares[1] - shares[0]).argmax())
    return {"state": most, "values": shares[:, most]}


def _steps(counts: Counts) -> FloatArray:
    """Expected choices (C, K · S · A) in steps, as if all units had been recorded for as long: they weigh the same."""
    return counts.choices.reshape(len(counts.choices), -1) * counts.steps


def _choice_ratios(a: FloatArray, b: FloatArray, counts: Counts) -> FloatArray:
    """Log-likelihood ratio of a policy for each group to one for both, (P, K).

    With the same dynamics two rewards differ exactly where their policies do (softmax(Q) = π), and this ratio, unlike a
    distance between rewards, hardly depends on how often a group has an intention: another usage is no other reward.
    """
    steps, (_, K, S, A) = _steps(counts), counts.choices.shape
    found = np.empty((len(a), K))
    both = _log_likelihood(steps.sum(axis=0).reshape(1, K, S, A))
    for begin in range(0, len(a), BATCH):
        part = slice(begin, begin + BATCH)
        groups = ((w[part] @ steps).reshape(-1, K, S, A) for w in (a, b))
        found[part] = sum(_log_likelihood(own) for own in groups) - both
    return found


def _log_likelihood(choices: FloatArray) -> FloatArray:
    """Σ_s,a n(s, a) log(n(s, a) / n(s)), (…) of counts (…, S, A)."""
    totals = choices.sum(axis=-1)
    return np.asarray((special.xlogy(choices, choices).sum(-1) - special.xlogy(totals, totals)).sum(-1))


def _reward_distances(model: Any, a: FloatArray, b: FloatArray, counts: Counts) -> FloatArray | None:
    """Root mean square of r_B − r_A over the steps of each intention, (K,); None where there are no rewards.

    ``a`` and ``b`` (C,) weigh the units of the two groups. IAVI of each group's choices, shrunk to those of all.
    """
    mdp = getattr(model, "mdp_", None)
    if mdp is None or mdp.n_states != counts.choices.shape[2] or getattr(model, "is_density", False):
        return None
    valid, steps = np.asarray(mdp.valid_actions), _steps(counts)
    pooled = steps.sum(axis=0).reshape(counts.choices.shape[1:])
    shared = np.where(valid, pooled + SMOOTHING, 0.0)
    prior = SHRINKAGE * shared / shared.sum(-1, keepdims=True)
    own = np.stack([(w @ steps).reshape(pooled.shape) + prior for w in (a, b)])
    with np.errstate(divide="ignore"):
        rewards = IAVI(mdp).solve(np.log(own / own.sum(-1, keepdims=True))).rewards
    squares = ((rewards[1] - rewards[0]) ** 2).sum(-1) / valid.sum(-1)
    visits = pooled.sum(-1)
    return np.asarray(np.sqrt((squares * visits).sum(-1) / np.maximum(visits.sum(-1), 1e-12)))


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


def _per_unit(counts: Counts, plan: Design) -> list[dict[str, Any]]:
    """Values of every unit under its condition, for the figures and tables."""
    with np.errstate(invalid="ignore", divide="ignore"):
        own = counts.over / counts.under
    rows = []
    for c, (name, second) in enumerate(zip(plan.names, plan.cells.second, strict=True)):
        for m, measure in enumerate(counts.measures):
            value = float(own[c, m]) if np.isfinite(own[c, m]) else None
            rows.append({"unit_of": name, "level": int(second), **_entry(measure), "value": value})
    return rows
