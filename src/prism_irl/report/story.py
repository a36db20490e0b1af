"""What each intention is after and when the agent switches, as numbers that the report turns into sentences.

Everything follows from states, actions and the posterior, so that any model can be described. Where an intention
leads is the long run of the steps that belong to it: with responsibilities γ_t(k), the chain

    T_k(s, s') ∝ Σ_t γ_t(k) [s_t = s] [s_{t+1} = s']

is followed from where the intention begins, and restarted there with a small probability or where it knows no next
step. A place that only catches the agent's eye on the way is rare in the long run, a goal is frequent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, diags_array

from prism_irl.data.continuous import column_names, motions_in_words, short_names, signals
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.evaluation.triage import Finding
from prism_irl.labels import segments

Floats = npt.NDArray[np.float64]

RESTART = 0.03  # one in about thirty steps begins again: the discount of the package's default, 0.97
LONG_RUN = 400  # steps of power iteration; what is left after them is 0.97^400 < 10⁻⁵
TRACE = 1e-12  # expected visits below which an intention was not there: one over them would be no number
AROUND = 6  # steps on either side of a switch
MIN_SWITCHES = 5  # at a place, before the place is named
MIN_LIFT = 1.5
APART = 0.05  # share of time by which one intention is ahead of every other, before that is called a difference
NEAR = 2  # steps on either side of an event within which a switch counts as its own
RESAMPLES = 400


def describe(
    demos: Demonstrations, probabilities: npt.ArrayLike, events: Mapping[str, npt.NDArray[np.bool_]] | None = None
) -> dict[str, Any]:
    """Return the story of a segmentation, of posteriors (n, K) and of steps (n,) at which something happened.

    ``wants``: for each intention its ``share`` of the steps, mean ``dwell``, where it ``leads_to`` (state, share of the
    long run), over how many states it ``spread``s (the exponential of the entropy), how it ``acts``, and in which
    states and actions (``more``) it is ahead of every other one: (what, index, share, largest share of another).
    ``switches``: their number ``n``, the ``pairs`` (from, to, number), ``places`` where the agent switches more often
    than usual, how often after a step that left the state as it was (``stuck``) and otherwise (``moved``), how often
    ``near`` each kind of event and ``otherwise``, in all and out of each intention, with 95% intervals over
    trajectories, and the mean posterior ``around`` switches into each intention.
    """
    p = np.asarray(probabilities, np.float64)
    return {"wants": _wants(demos, p), "switches": _switches(demos, p, events or {})}


def successor_counts(demos: Demonstrations, weights: npt.ArrayLike) -> csr_array:
    """(S, S) weighted number of times that one state followed another within a trajectory; weight of step t is (n,)."""
    here = np.flatnonzero(~demos.first_steps) - 1
    w = np.asarray(weights, np.float64)[here]
    pairs = (demos.states[here].astype(np.int64), demos.states[here + 1].astype(np.int64))
    return csr_array((w, pairs), shape=(demos.n_states, demos.n_states))


def long_run(counts: csr_array, begin: Floats) -> Floats:
    """(S,) share of time in each state when the chain of ``counts`` is followed from ``begin``, (S,), summing to 1."""
    total = counts.sum(axis=1)
    known = total > TRACE
    chain = (diags_array(np.where(known, 1 / np.where(known, total, 1), 0)) @ counts).T.tocsr()
    now = begin
    for _ in range(LONG_RUN):
        moved = (1 - RESTART) * (chain @ now)
        now = moved + (1 - moved.sum()) * begin
    return np.asarray(now, np.float64)


def long_runs(demos: Demonstrations, p: Floats) -> Floats:
    """(K, S) where each intention leads: its share of time in every state if it never ended; zeros where unused."""
    cut = segments(p.argmax(axis=1), demos.offsets)
    found = np.zeros((p.shape[1], demos.n_states))
    for k in np.unique(cut.labels):
        begin = np.bincount(demos.states[cut.starts[cut.labels == k]], minlength=demos.n_states).astype(np.float64)
        found[k] = long_run(successor_counts(demos, p[:, k]), begin / begin.sum())
    return found


def ahead(shares: Floats, k: int, used: npt.NDArray[np.bool_], n: int = 2) -> list[list[float]]:
    """Entries of row k of (K, m) shares that are clearly above those of every other used row: (index, own, largest)."""
    others = used & (np.arange(len(shares)) != k)
    if not others.any():
        return []
    most = shares[others].max(axis=0)
    lead = shares[k] - most
    order = np.argsort(-lead, kind="stable")[:n]
    clear = (i for i in order if lead[i] >= APART and shares[k, i] >= MIN_LIFT * most[i])
    return [[int(i), float(shares[k, i]), float(most[i])] for i in clear]


def _wants(demos: Demonstrations, p: Floats) -> list[dict[str, Any]]:
    labels = p.argmax(axis=1)
    cut = segments(labels, demos.offsets)
    times = long_runs(demos, p)
    used = times.sum(axis=1) > 0
    done = np.stack([np.bincount(demos.actions, weights=w, minlength=demos.n_actions) for w in p.T])
    done = done / np.maximum(done.sum(axis=1, keepdims=True), 1e-12)
    wants: list[dict[str, Any]] = []
    for k in range(p.shape[1]):
        mine = cut.labels == k
        if not mine.any():
            wants.append({"share": 0.0, "dwell": None, "leads_to": [], "spread": None, "acts": [], "more": []})
            continue
        time = times[k]
        seen = time[time > 0]
        more = [["state", *one] for one in ahead(times, k, used)] + [["action", *one] for one in ahead(done, k, used)]
        wants.append(
            {
                "share": float((labels == k).mean()),
                "dwell": float(cut.lengths[mine].mean()),
                "leads_to": _top(time),
                "spread": float(np.exp(-(seen * np.log(seen)).sum())),
                "acts": _top(done[k]),
                "more": more,
            }
        )
    return wants


def _top(shares: Floats) -> list[list[float]]:
    """The three largest entries as (index, share), ties by index."""
    order = np.argsort(-shares, kind="stable")[:3]
    return [[int(i), float(shares[i])] for i in order if shares[i] > 0]


def _switches(demos: Demonstrations, p: Floats, events: Mapping[str, npt.NDArray[np.bool_]]) -> dict[str, Any]:
    labels = p.argmax(axis=1)
    later = np.flatnonzero(~demos.first_steps)  # steps with a step before them
    switched = labels[later] != labels[later - 1]
    at = later[switched]
    pairs, numbers = np.unique(np.stack([labels[at - 1], labels[at]], axis=1), axis=0, return_counts=True)
    before = demos.states[later - 1].astype(np.int64)
    stuck = demos.states[later] == before
    rate = float(switched.mean()) if len(later) else 0.0
    rates = [
        {"steps": len(at), "rate": float(at.mean()) if len(at) else None} for at in (switched[stuck], switched[~stuck])
    ]
    return {
        "n": len(at),
        "rate": rate,
        "pairs": [[int(i), int(j), int(m)] for (i, j), m in zip(pairs, numbers, strict=True)],
        "places": _places(before, switched, rate, demos.n_states),
        "stuck": rates[0],
        "moved": rates[1],
        "near": {name: _near(happened, demos, labels, p.shape[1]) for name, happened in events.items()},
        "around": [_around(p, demos.offsets, at[labels[at] == k]) for k in range(p.shape[1])],
    }


def _near(happened: npt.NDArray[np.bool_], demos: Demonstrations, labels: npt.NDArray[Any], K: int) -> dict[str, Any]:
    """Share of steps at which the agent switches within `NEAR` steps of an event, and elsewhere, by where it leaves."""
    trajectory = demos.trajectory_index
    near = happened.copy()
    for ahead in range(1, NEAR + 1):
        same = trajectory[ahead:] == trajectory[:-ahead]
        near[ahead:] |= happened[:-ahead] & same
        near[:-ahead] |= happened[ahead:] & same
    later = np.flatnonzero(~demos.first_steps)
    left, switched = labels[later - 1], labels[later] != labels[later - 1]

    def rate(chosen: npt.NDArray[np.bool_]) -> dict[str, Any]:
        counts = [np.bincount(trajectory[later[which]], minlength=len(demos)) for which in (chosen, chosen & switched)]
        return _rate_with_interval(counts[0], counts[1])

    pairs = [
        {"near": rate(near[later] & own), "otherwise": rate(~near[later] & own)}
        for own in (np.ones(len(later), bool), *(left == k for k in range(K)))
    ]
    return {"events": int(happened.sum()), **pairs[0], "leaving": pairs[1:]}


def _rate_with_interval(steps: npt.NDArray[np.int64], switches: npt.NDArray[np.int64]) -> dict[str, Any]:
    """Switches per step with a 95% interval, of a bootstrap over trajectories or Wilson's where that is wider."""
    total = int(steps.sum())
    if not total:
        return {"steps": 0, "rate": None, "low": None, "high": None}
    draws = np.random.default_rng(0).multinomial(len(steps), np.full(len(steps), 1 / len(steps)), size=RESAMPLES)
    rates = (draws @ switches) / np.maximum(draws @ steps, 1)
    from scipy import stats  # here, because few data have events

    plain = stats.binomtest(int(switches.sum()), total).proportion_ci(method="wilson")
    low, high = np.quantile(rates, [0.025, 0.975])
    ends = {"low": float(min(low, plain.low)), "high": float(max(high, plain.high))}
    return {"steps": total, "rate": float(switches.sum() / total), **ends}


def _places(
    before: npt.NDArray[np.int64], switched: npt.NDArray[np.bool_], rate: float, n_states: int
) -> list[dict[str, Any]]:
    """States after which the agent switches more often than usual, those with the most surplus first."""
    visits = np.bincount(before, minlength=n_states)
    numbers = np.bincount(before[switched], minlength=n_states)
    lift = numbers / np.maximum(visits * rate, 1e-12)
    surplus = numbers - visits * rate
    order = [s for s in np.argsort(-surplus, kind="stable") if numbers[s] >= MIN_SWITCHES and lift[s] >= MIN_LIFT]
    return [{"state": int(s), "n": int(numbers[s]), "lift": float(lift[s])} for s in order[:3]]


def _around(p: Floats, offsets: npt.NDArray[np.int64], at: npt.NDArray[np.int64]) -> list[list[float]] | None:
    """(2·AROUND + 1, K) mean posterior at the steps around some switches, within their trajectories."""
    if not len(at):
        return None
    trajectory = np.searchsorted(offsets, at, side="right") - 1
    steps = at[:, None] + np.arange(-AROUND, AROUND + 1)
    inside = (steps >= offsets[trajectory][:, None]) & (steps < offsets[trajectory + 1][:, None])
    values = np.where(inside[..., None], p[np.clip(steps, 0, len(p) - 1)], 0.0).sum(axis=0)
    means = values / np.maximum(inside.sum(axis=0), 1)[:, None]
    return [[round(float(x), 4) for x in row] for row in means]


# -- demonstrations: what a robot does in every phase, for how long, and in which episodes something differs -----------

EPISODES, COLUMNS, POINTS = 4, 4, 160
"""Episodes, columns and points per curve that are drawn."""
FEWEST = 3
"""Observed numbers from which on they are no place on a map."""


def is_movement(demos: Demonstrations) -> bool:
    """Whether these are demonstrations of something that has more numbers than a place on a map."""
    if demos.motions is None or demos.observations is None or demos.design is not None:
        return False
    return int(demos.observations.shape[1]) >= FEWEST


def movement_of(
    demos: Demonstrations, labels: npt.NDArray[np.int64], n_phases: int, unusual: Sequence[Finding]
) -> dict[str, Any]:
    """What each phase does in words, quartiles of its lengths in steps, curves of some episodes, unusual episodes."""
    cut = segments(labels, demos.offsets)
    own = [cut.lengths[cut.labels == k] for k in range(n_phases)]
    values, names = signals(demos)[0], short_names(column_names(demos))
    apart = _between(values, labels, n_phases)
    n_observed = 0 if demos.observations is None else demos.observations.shape[1]
    columns = np.sort(np.argsort(-apart[:n_observed], kind="stable")[:COLUMNS])
    low, high = np.quantile(values[:, columns], (0.005, 0.995), axis=0)
    episodes = []
    for i in np.unique(np.linspace(0, len(demos) - 1, min(len(demos), EPISODES)).round().astype(int)):
        a, b = int(demos.offsets[i]), int(demos.offsets[i + 1])
        at = np.unique(np.linspace(a, b - 1, min(POINTS, b - a)).round().astype(int))
        shown = np.clip((values[at][:, columns] - low) / np.maximum(high - low, 1e-12), 0, 1)
        cuts = [0, *(np.flatnonzero(np.diff(labels[a:b])) + 1).tolist(), b - a]
        bands = [[int(labels[a + s]), s, e] for s, e in pairwise(cuts)]
        curves = np.rint(1000 * shown.T).astype(int).tolist()
        one = {"name": demos.name_of(int(i)), "length": b - a, "at": (at - a).tolist()}
        episodes.append(one | {"curves": curves, "phases": bands})
    return {
        "does": motions_in_words(demos, labels, n_phases),
        "lengths": [None if not len(one) else np.quantile(one, (0.25, 0.5, 0.75)).tolist() for one in own],
        "columns": [names[j] for j in columns],
        "episodes": episodes,
        "unusual": [one._asdict() for one in unusual],
    }


def _between(values: npt.NDArray[np.float64], labels: npt.NDArray[np.int64], n_phases: int) -> npt.NDArray[np.float64]:
    """Share of the variance of each column that lies between phases, (d,)."""
    counts = np.bincount(labels, minlength=n_phases)
    sums = np.stack([np.bincount(labels, weights=column, minlength=n_phases) for column in values.T], axis=1)
    means = sums / np.maximum(counts, 1)[:, None]
    between = (counts[:, None] * (means - values.mean(0)) ** 2).sum(0) / len(values)
    variance = values.var(0)
    return np.where(variance > 1e-12, between / np.maximum(variance, 1e-12), 0.0)
