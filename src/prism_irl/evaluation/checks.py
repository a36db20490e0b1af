"""Posterior predictive checks: whether what a fitted model simulates looks like the data.

The model acts from the same starts, for the same lengths, on the same dynamics (`evaluation.simulate`), a number of
times, and the same statistics are taken of the data and of every simulation. Labels of both come from the same
inference, so that like is compared with like. A model that predicts the next step well can still be unlike the animal
over many steps: it stays too long, visits other places, or comes back too soon.

A number x of the data is held against the simulations' x_1 … x_R by the interval mean ± t · sd · √(1 + 1/R), in which a
further simulation would lie in 95 of 100 cases, and by its rank, p = (1 + #{x_r ≥ x}) / (1 + R). A distribution (where
the agent is, which states follow one another) becomes a number by its total-variation distance from the mean of the
simulations; that of a simulation is taken from the mean of the others, and only a large one speaks against the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from prism_irl import limits
from prism_irl.arrays import FloatArray, IntArray
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.evaluation.simulate import simulate
from prism_irl.labels import Segments, boundaries, segments

if TYPE_CHECKING:
    from prism_irl.models.base import IntentionModel


SIMULATIONS = 20
MOST_STEPS = 25_000
"""Steps of one simulation at most: of more data some trajectories are taken, evenly."""
LONGEST = 1_000
"""Steps of one trajectory at most, its first ones: trajectories advance together, so that the longest sets the time."""
PLACES = 3
MOST_STATES = 400
POINTS = 40


@dataclass(frozen=True)
class Statistic:
    """One number of the data beside the simulations; what it is, `About` says.

    ``low`` to ``high`` is the interval that a further simulation lies in, 95 of 100 times; ``p`` the rank among the
    simulations, two-sided, and one-sided for distances; ``spread`` the standard deviation of the simulations.
    """

    name: str
    unit: str
    intention: int | None
    state: int | None
    data: float
    mean: float
    low: float
    high: float
    p: float
    outside: bool
    spread: float


@dataclass(frozen=True)
class Curve:
    """A function of the data beside the simulations': mean, and 2.5th and 97.5th percentile at every x.

    ``kind`` is "dwell" (share of the segments that last x steps and more), "return" (share of the times between two
    visits of ``state`` of x steps and more) or "switch" (share of the steps in ``state``, x steps after a switch).
    """

    kind: str
    x: list[int]
    data: list[float]
    mean: list[float]
    low: list[float]
    high: list[float]
    intention: int | None = None
    state: int | None = None


@dataclass(frozen=True)
class Checks:
    """Everything that was compared; ``note`` says why nothing was.

    ``occupancy`` holds the most visited ``states`` and their shares of the steps, ``data`` and ``simulated``.
    """

    simulations: int
    n_trajectories: int
    n_steps: int
    of_trajectories: int
    of_steps: int
    statistics: list[Statistic]
    curves: list[Curve]
    occupancy: dict[str, list[float]]
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """What checks.json holds."""
        return {"version": 1, **asdict(self)}


def check_simulations(simulations: int) -> None:
    """Refuse a number of simulations that nothing can be compared with; 0 leaves the comparison out."""
    if simulations < 0 or simulations == 1:
        raise InputError(f"--simulations is {simulations}; give 2 or more, or 0 to leave the comparison out.")
    limits.check_option("simulations", simulations)


def check(
    model: IntentionModel,
    demos: Demonstrations,
    labels: npt.ArrayLike,
    *,
    simulations: int = SIMULATIONS,
    most_steps: int = MOST_STEPS,
    seed: int = 0,
) -> Checks:
    """Simulate a fitted model beside the data, which it labels (n,), and compare the two.

    The rank of the data among R simulations is at best 1 / (1 + R). Of more than ``most_steps`` steps some trajectories
    are taken, evenly.
    """
    if simulations < 2:
        raise InputError(
            f"There are {simulations} simulations to compare with; make at least 2, or leave the check out."
        )
    part, steps = _excerpt(demos, most_steps)
    sizes = (part.n_trajectories, part.n_steps, demos.n_trajectories, demos.n_steps)
    try:  # all simulations together: the loop over time is walked once
        many = part.subset(np.tile(np.arange(part.n_trajectories), simulations))
        simulated = simulate(model, many, seed=seed)
    except InputError as error:
        return Checks(0, *sizes, [], [], {}, note=str(error))
    z = np.zeros(many.n_steps, np.int64) if simulated.labels is None else simulated.labels.astype(np.int64)
    s = simulated.states.astype(np.int64).reshape(simulations, -1)
    own = Behaviour(part.states.astype(np.int64), np.asarray(labels, np.int64)[steps], part.offsets)
    others = [Behaviour(*pair, part.offsets) for pair in zip(s, z.reshape(simulations, -1), strict=True)]
    return compare(own, others, demos.n_states, model.n_intentions, sizes)


def compare(
    data: Behaviour, simulated: Sequence[Behaviour], n_states: int, n_intentions: int, sizes: tuple[int, int, int, int]
) -> Checks:
    """Compare one behaviour with several simulated ones of the same lengths; ``sizes`` as in `Checks`."""
    everybody = [data, *simulated]
    time = np.stack([np.bincount(one.states, minlength=n_states) / len(one.states) for one in everybody])
    places = [int(s) for s in np.argsort(-time.mean(axis=0), kind="stable")[:PLACES] if time[:, s].min() > 0]
    own = [numbers(one, places, n_intentions) for one in everybody]
    found = [_statistic(about, np.array([one[about] for one in own])) for about in own[0]]
    distances: list[tuple[str, int | None, FloatArray]] = [
        ("where it is", None, time),
        ("pairs of states", None, ngrams(everybody, 2, n_states)),
        ("triples of states", None, ngrams(everybody, 3, n_states)),
    ]
    if n_intentions > 1:
        for k in range(n_intentions):
            lengths = [dwells(one, k) for one in everybody]
            if len(lengths[0]):
                distances.append(("distribution of the dwell", k, shares_of_lengths(lengths)))
        switches = [np.bincount(one.states[boundaries(one.intentions)], minlength=n_states) for one in everybody]
        shares = np.stack([counts / max(counts.sum(), 1) for counts in switches])
        distances.append(("where it switches", None, shares))
    far = [_distance(About(name, "distance", intention=k), shares) for name, k, shares in distances]
    most = np.sort(np.argsort(-time.mean(axis=0), kind="stable")[:MOST_STATES])
    return Checks(
        len(simulated),
        *sizes,
        [one for one in found if one is not None] + far,
        _curves(everybody, places, time, n_intentions),
        {"states": most.tolist(), "data": time[0, most].tolist(), "simulated": time[1:, most].mean(axis=0).tolist()},
    )


def _statistic(about: About, values: FloatArray) -> Statistic | None:
    """A number of the data, first, and of the simulations; None where one of them has none too often."""
    data, others = values[0], values[1:][np.isfinite(values[1:])]
    if not np.isfinite(data) or len(others) <= len(values) // 2:
        return None
    mean, spread, reach = _interval(others, 0.975)
    below, above = (others <= data).sum(), (others >= data).sum()
    p = min(1.0, 2 * (1 + min(below, above)) / (1 + len(others)))
    outside = bool(abs(data - mean) > reach + 1e-9 * abs(mean))
    return Statistic(*about, float(data), mean, mean - reach, mean + reach, float(p), outside, spread)


def _distance(about: About, shares: FloatArray) -> Statistic:
    """Shares (1 + R, M) of the data, first, and of the simulations: each one's distance from the simulations' mean."""
    R = len(shares) - 1
    total = shares[1:].sum(axis=0)
    data = 0.5 * np.abs(shares[0] - total / R).sum()
    others = 0.5 * np.abs(shares[1:] - (total - shares[1:]) / (R - 1)).sum(axis=1)
    mean, spread, reach = _interval(others, 0.95)
    p = (1 + (others >= data).sum()) / (1 + R)
    outside = bool(data > mean + reach + 1e-9)
    return Statistic(*about, float(data), mean, 0.0, mean + reach, float(p), outside, spread)


def _interval(others: FloatArray, quantile: float) -> tuple[float, float, float]:
    """Mean and standard deviation, and how far from the mean one more simulation may lie."""
    R = len(others)
    spread = float(others.std(ddof=1))
    return float(others.mean()), spread, float(stdtrit(R - 1, quantile) * spread * np.sqrt(1 + 1 / R))


def _curves(everybody: Sequence[Behaviour], places: Sequence[int], time: FloatArray, n_intentions: int) -> list[Curve]:
    found = []
    intentions = range(n_intentions if n_intentions > 1 else 0)
    kinds: list[tuple[dict[str, Any], list[IntArray]]] = [
        *(({"kind": "dwell", "intention": k}, [dwells(one, k) for one in everybody]) for k in intentions),
        *(({"kind": "return", "state": s}, [return_times(one, s) for one in everybody]) for s in places),
    ]
    for about, lengths in kinds:
        if not len(lengths[0]):
            continue
        x = np.unique(np.geomspace(1, max(int(np.quantile(lengths[0], 0.99)), 2), POINTS).round().astype(np.int64))
        # share of the lengths that are x and more; where there are none, 0
        values = [(len(own) - np.searchsorted(np.sort(own), x)) / max(len(own), 1) for own in lengths]
        found.append(_curve(x, np.stack(values), **about))
    at = [boundaries(one.intentions) for one in everybody] if intentions else []
    for k in intentions:
        into = [steps[one.labels[steps] == k] for one, steps in zip(everybody, at, strict=True)]
        if not len(into[0]):
            continue
        entered = np.concatenate([one.states[steps] for one, steps in zip(everybody, into, strict=True)])
        surplus = np.bincount(entered, minlength=time.shape[1]) / len(entered) - time.mean(axis=0)
        state = int(surplus.argmax())
        values = [around_switches(one, steps, state) for one, steps in zip(everybody, into, strict=True)]
        found.append(_curve(np.arange(-AROUND, AROUND + 1), np.stack(values), kind="switch", intention=k, state=state))
    return found


def _curve(x: IntArray, values: FloatArray, **about: Any) -> Curve:
    """Values (1 + R, len(x)) of the data, first, and of the simulations; what is not known counts as zero."""
    known = np.nan_to_num(values)
    rows = [known[0], known[1:].mean(axis=0), *np.quantile(known[1:], (0.025, 0.975), axis=0)]
    data, mean, low, high = ([round(float(value), 5) for value in row] for row in rows)
    return Curve(x=x.tolist(), data=data, mean=mean, low=low, high=high, **about)


def _excerpt(demos: Demonstrations, most_steps: int) -> tuple[Demonstrations, IntArray]:
    """The first steps of some trajectories, evenly over the data, and which steps (m,) those are."""
    lengths = np.minimum(demos.lengths, LONGEST)
    n = min(len(lengths), max(1, int(len(lengths) * most_steps / lengths.sum())))
    chosen = np.unique(np.linspace(0, len(lengths) - 1, n).round().astype(np.int64))
    lengths = lengths[chosen]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    steps = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths) + np.repeat(demos.offsets[chosen], lengths)
    rows: dict[str, Any] = dict.fromkeys(demos.per_step, steps) | dict.fromkeys(demos.per_trajectory, chosen)
    fields = {name: getattr(demos, name)[own] for name, own in rows.items() if getattr(demos, name) is not None}
    return replace(demos, offsets=offsets, **fields), steps


AROUND = 10
FREQUENT = 100
"""Pairs and triples of states that are counted each for itself; all others count as one."""
BINS = 12


@dataclass(frozen=True)
class Behaviour:
    """States (n,) and intentions (n,) of every step, cut into trajectories by offsets (N + 1,)."""

    states: IntArray
    labels: IntArray
    offsets: IntArray

    @cached_property
    def intentions(self) -> Segments:
        """Runs of one intention."""
        return segments(self.labels, self.offsets)

    @cached_property
    def visits(self) -> Segments:
        """Runs of one state."""
        return segments(self.states, self.offsets)


class About(NamedTuple):
    """What a number is called, its unit, and whose it is.

    The unit is "steps", "share", "states", or "distance": how far a distribution lies from that of the simulations.
    """

    name: str
    unit: str
    intention: int | None = None
    state: int | None = None


def dwells(one: Behaviour, intention: int) -> IntArray:
    """Lengths of the segments of an intention, in steps."""
    return np.asarray(one.intentions.lengths[one.intentions.labels == intention], dtype=np.int64)


def return_times(one: Behaviour, state: int) -> IntArray:
    """Steps from entering a state to entering it the next time within the same trajectory, having left it."""
    visits = one.visits.labels == state
    starts, trajectories = one.visits.starts[visits], one.visits.trajectories[visits]
    same = np.diff(trajectories) == 0
    return np.asarray(np.diff(starts)[same], dtype=np.int64)


def around_switches(one: Behaviour, at: IntArray, state: int) -> FloatArray:
    """Share of the steps in ``state`` at −10 … 10 steps from the switches ``at``, within their trajectories."""
    trajectory = np.searchsorted(one.offsets, at, side="right") - 1
    steps = at[:, None] + np.arange(-AROUND, AROUND + 1)
    inside = (steps >= one.offsets[trajectory][:, None]) & (steps < one.offsets[trajectory + 1][:, None])
    there = (one.states[np.clip(steps, 0, len(one.states) - 1)] == state) & inside
    counts = inside.sum(axis=0)
    return np.asarray(np.where(counts > 0, there.sum(axis=0) / np.maximum(counts, 1), np.nan))


def numbers(one: Behaviour, places: Sequence[int], n_intentions: int) -> dict[About, float]:
    """Every number of one behaviour; NaN where it has none."""
    s, first = one.states, np.zeros(len(one.states), bool)
    first[one.offsets[:-1]] = True
    stays = ~first[1:] & (s[1:] == s[:-1])
    back = ~first[1:-1] & ~first[2:] & (s[2:] == s[:-2]) & (s[2:] != s[1:-1])
    lengths, overall = np.diff(one.offsets), np.bincount(s) / len(s)
    own, counts = np.unique(np.repeat(np.arange(len(lengths)), lengths) * len(overall) + s, return_counts=True)
    # total variation Σ_s max(q_s − p_s, 0), to which only the states contribute that a trajectory has seen
    surplus = np.maximum(counts / lengths[own // len(overall)] - overall[own % len(overall)], 0.0)
    found = {
        About("stays where it is", "share"): stays.sum() / max((~first).sum(), 1),
        About("goes straight back", "share"): back.sum() / max((~first[1:-1] & ~first[2:]).sum(), 1),
        About("different states in a trajectory", "states"): len(own) / len(lengths),
        About("difference between trajectories", "share"): float(surplus.sum() / len(lengths)),
    }
    for k in range(n_intentions if n_intentions > 1 else 0):
        stay = dwells(one, k)
        found[About("share of the steps", "share", intention=k)] = (one.labels == k).mean()
        found[About("dwell", "steps", intention=k)] = stay.mean() if len(stay) else np.nan
    for place in places:
        times = return_times(one, place)
        found[About("time between visits", "steps", state=place)] = times.mean() if len(times) else np.nan
    return {about: float(value) for about, value in found.items()}


def ngrams(everybody: Sequence[Behaviour], n: int, n_states: int) -> FloatArray:
    """Shares of the most frequent runs of n states, and of all others together, (1 + R, M + 1)."""
    keys = []
    for one in everybody:
        key = one.states[: len(one.states) - n + 1].copy()
        for ahead in range(1, n):
            key = key * n_states + one.states[ahead : len(one.states) - n + 1 + ahead]
        inside = np.ones(len(key), bool)
        for age in range(1, n):  # a run ends where its trajectory does
            ends = one.offsets[1:-1] - age
            inside[ends[(ends >= 0) & (ends < len(key))]] = False
        keys.append(key[inside])
    kinds, index = np.unique(np.concatenate(keys), return_inverse=True)
    who = np.repeat(np.arange(len(keys)), [len(key) for key in keys])
    counts = np.bincount(who * len(kinds) + index, minlength=len(keys) * len(kinds)).reshape(len(keys), -1)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    order = np.argsort(-shares.mean(axis=0), kind="stable")
    rest = shares[:, order[FREQUENT:]].sum(axis=1, keepdims=True)
    return np.concatenate([shares[:, order[:FREQUENT]], rest], axis=1)


def shares_of_lengths(lengths: Sequence[IntArray]) -> FloatArray:
    """Shares of each one's lengths (in steps) in bins that hold about as many of all of them, (number, bins)."""
    everything = np.concatenate(lengths)
    edges = np.unique(np.quantile(everything, np.linspace(0, 1, BINS + 1)[1:-1], method="nearest"))
    counts = np.stack([np.bincount(np.searchsorted(edges, own), minlength=len(edges) + 1) for own in lengths])
    return np.asarray(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1), dtype=np.float64)
