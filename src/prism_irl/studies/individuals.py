"""Every animal for itself: how often it has each intention and how soon it leaves it, shrunk towards all animals.

    usage_gk = (n_gk + m usage_k) / (n_g + m),      leaving_gk = (exits_gk + m leaving_k) / (n_gk + m)

with the expected counts of the posterior. The strength m is the one that predicts a trajectory best from the other
trajectories of its animal (leave one out); infinite where knowing the animal does not help. An animal is named where
its usage differs from that of the others more than it would if trajectories were dealt to animals at random, corrected
for all animals and intentions. A new animal has the shared numbers.

Policies are shrunk in the same way,

    π_gk(a | s) = (N_gk(s, a) + m π_k(a | s)) / (N_gk(s) + m),

so that a state in which an animal hardly was is that of all animals; the reward of an animal is the one that its policy
is optimal for (`rewards.iavi`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from prism_irl import storage
from prism_irl.arrays import BoolArray, FloatArray, IntArray
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.evaluation import units
from prism_irl.evaluation.truth import reward_distance
from prism_irl.mdp import MDP
from prism_irl.rewards.iavi import solve_iavi
from prism_irl.rewards.tabular import normalise

STRENGTHS = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, np.inf)
PERMUTATIONS = 1999
LEVEL = 0.05


def individuals(
    model: Any, demos: Demonstrations, unit: npt.NDArray[Any], *, unit_name: str = "animal", seed: int = 0
) -> dict[str, Any]:
    """Numbers of every animal, and which animals differ; ``unit`` (N,) names the animal of each trajectory."""
    names, who = np.unique(unit.astype(str), return_inverse=True)
    if len(names) < 2:
        raise InputError(f"There is one {unit_name}, {names[0]}; individuals need two or more.")
    if model.n_intentions < 2:
        raise InputError("There is one intention, and every animal has it all the time; fit two or more.")
    counts = units.count_units(model, demos, np.arange(len(demos)))
    used, left, visits = _per_trajectory(counts, model.n_intentions, demos)
    own = _choices(counts, model, demos, who, seed)
    usage_m, usage = shrunk(used, used.sum(axis=1, keepdims=True), who)
    leaving_m, leaving = shrunk(left, visits, who)
    shared = used.sum(axis=0)

    def deviation(dealt: IntArray) -> FloatArray:
        steps = _summed(used, dealt, len(names))
        return np.asarray(np.abs(steps / np.maximum(steps.sum(axis=1, keepdims=True), 1e-12) - shared / used.sum()))

    p = _dealt_at_random(deviation, who, PERMUTATIONS, [seed, 3])
    raw = _summed(used, who, len(names))
    values = {"usage_alone": raw / raw.sum(axis=1, keepdims=True), "usage": usage, "leaving": leaving, "p_adjusted": p}
    values |= {} if own is None else {"choices_p_adjusted": own.p_adjusted}
    values |= {} if own is None or own.distance is None else {"reward_distance": own.distance}
    rows = [
        {"unit_of": str(name), "intention": k, "n_trajectories": int((who == g).sum())}
        | {key: value[g, k] for key, value in values.items()}
        for g, name in enumerate(names)
        for k in range(model.n_intentions)
    ]
    found: dict[str, Any] = storage.read_plain(
        {
            "unit": unit_name,
            "n_units": len(names),
            "n_intentions": model.n_intentions,
            "strength": {"usage": usage_m, "leaving": leaving_m, "choices": None if own is None else own.strength},
            "shared": {"usage": shared / shared.sum(), "leaving": left.sum(axis=0) / visits.sum(axis=0)},
            "rows": rows,
            "differ": names[(p <= LEVEL).any(axis=1)].tolist(),
            "differ_in_choices": [] if own is None else names[(own.p_adjusted <= LEVEL).any(axis=1)].tolist(),
        }
    )
    table = []
    if own is not None:
        states, actions = demos.state_names or range(demos.n_states), demos.action_names or range(demos.n_actions)
        table = rows_of(own, names, states, actions)
    return found | {"in_words": in_words(found, compared=own is not None), "choices": storage.read_plain(table)}


def _choices(counts: units.Counts, model: Any, demos: Demonstrations, who: IntArray, seed: int) -> Choices | None:
    """Policies and rewards of every animal; None where states and actions are too many to count them by trajectory."""
    if counts.choices.size > LARGEST:
        return None
    mdp = model.mdp_
    valid = demos.valid_actions if mdp is None else mdp.valid_actions
    valid = np.ones(counts.choices.shape[2:], bool) if valid is None else np.asarray(valid)
    steps = demos.lengths[:, None, None, None].astype(float)
    return own_choices(counts.choices * steps, who, valid, mdp, seed)


def _per_trajectory(counts: units.Counts, K: int, demos: Demonstrations) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Expected steps of each intention, exits from it, and steps from which it could be left, (N, K) each."""
    steps = demos.lengths[:, None].astype(float)
    own = [[m for m, one in enumerate(counts.measures) if (one.name, one.intention) == ("kernel", k)] for k in range(K)]
    exits = np.stack([counts.over[:, columns].sum(axis=1) for columns in own], axis=1)
    leaves = np.stack([counts.under[:, columns[0]] for columns in own], axis=1)
    return counts.over[:, :K] * steps, exits * steps, leaves * steps


def _summed(counts: FloatArray, who: IntArray, n: int) -> FloatArray:
    """Counts of every animal, (n, …), from those of its trajectories, (N, …)."""
    flat = np.eye(n)[who].T @ counts.reshape(len(counts), -1)
    return np.asarray(flat.reshape(n, *counts.shape[1:]))


def shrunk(over: FloatArray, under: FloatArray, who: IntArray) -> tuple[float, FloatArray]:
    """Strength that predicts best, and the shrunk ratios over / under of every animal, (G, K).

    ``over`` (N, K) are successes of each trajectory, ``under`` (N, K) or (N, 1) trials.
    """
    n = int(who.max()) + 1
    under = np.broadcast_to(under, over.shape)
    shared = over.sum(axis=0) / np.maximum(under.sum(axis=0), 1e-12)
    a, b = _summed(over, who, n), _summed(under, who, n)
    rest_a, rest_b = a[who] - over, b[who] - under  # of the same animal without the trajectory
    # Shared numbers without the trajectory, too: else no strength at all would look best by having seen it.
    others = (over.sum(axis=0) - over) / np.maximum(under.sum(axis=0) - under, 1e-12)

    def score(m: float) -> float:
        rate = others if np.isinf(m) else (rest_a + m * others) / (rest_b + m)
        rate = np.clip(rate, 1e-6, 1 - 1e-6)
        return float((special.xlogy(over, rate) + special.xlogy(under - over, 1 - rate)).sum())

    best = max(STRENGTHS, key=score)
    final = np.broadcast_to(shared, a.shape) if np.isinf(best) else (a + best * shared) / (b + best)
    return float(best), np.asarray(final, dtype=np.float64)


def _dealt_at_random(
    statistic: Callable[[IntArray], FloatArray], who: IntArray, permutations: int, seed: Sequence[int]
) -> FloatArray:
    """Adjusted p of a statistic of every animal and intention, (G, K): trajectories dealt to animals at random."""
    rng = np.random.default_rng(seed)
    own = statistic(who)
    others = [statistic(rng.permutation(who)).ravel() for _ in range(permutations)]
    return units.adjusted(np.array([own.ravel(), *others])).reshape(own.shape)


def in_words(found: dict[str, Any], *, compared: bool = True) -> str:
    """What the numbers say, in a few sentences; ``compared`` says that choices were, too."""
    differ, m, leaving = found["differ"], found["strength"]["usage"], found["strength"]["leaving"]
    nor = "nor does it help" if m is None else "knowing the animal does not help"
    helps = "Usage: knowing the animal does not help to predict how often a trajectory has an intention, and all are "
    helps += "given the shared usage."
    if m is not None:
        helps = f"Usage: what an animal did counts beside {m:.0f} steps of what all did."
    if leaving is None:
        helps += f" Leaving: {nor} to predict how soon an intention is left."
    else:
        helps += f" Leaving: what an animal did counts beside {leaving:.0f} steps of what all did."
    who = (
        f"No {found['unit']} differs clearly from the others in usage"
        if not differ
        else f"Clearly different from the others in usage: {', '.join(differ)}"
    )
    dealt = "(trajectories dealt to animals at random, corrected for all animals and intentions)"
    if not compared:
        return f"{helps} {who} {dealt}."
    others = found["differ_in_choices"]
    does = (
        (", nor" if not differ else "; none") + " in what it does under an intention"
        if not others
        else f"; clearly different in what it does under an intention: {', '.join(others)}"
    )
    known = (
        "Choices: policies and rewards of its own would not predict an animal better, and all are given the shared ones"
        if found["strength"]["choices"] is None
        else f"Choices: those of an animal count beside {found['strength']['choices']:.0f} shared steps per state"
    )
    return f"{helps} {known}. {who}{does} {dealt}."


CHOICE_STRENGTHS = (3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, np.inf)
CHOICE_PERMUTATIONS = 499
SMOOTHING = 0.01
"""Pseudo-count of every action in the shared policy."""
TESTED = 100.0
"""Strength that animals are told apart with where knowing them does not help."""
LARGEST = 2e7
"""Expected counts of all trajectories, beyond which there are too many to keep."""


class Choices(NamedTuple):
    """``strength`` m; ``policies`` and ``steps`` (G, K, S, A); ``shared`` (K, S, A); ``p_adjusted`` (G, K).

    ``rewards`` (G, K, S, A), ``shared_rewards`` (K, S, A) and ``distance`` (G, K) where dynamics are known.
    """

    strength: float
    policies: FloatArray
    shared: FloatArray
    p_adjusted: FloatArray
    steps: FloatArray
    rewards: FloatArray | None = None
    shared_rewards: FloatArray | None = None
    distance: FloatArray | None = None


def own_choices(counts: FloatArray, who: IntArray, valid: BoolArray, mdp: MDP | None, seed: int) -> Choices:
    """Policies and rewards of every animal from the expected counts (N, K, S, A) of its trajectories."""
    G = int(who.max()) + 1
    total = counts.sum(axis=0)
    shared = normalise(total + SMOOTHING * valid, total)
    steps = _summed(counts, who, G)
    others = normalise(np.maximum(total - counts, 0.0) + SMOOTHING * valid, counts)  # without the trajectory
    rest = np.maximum(steps[who] - counts, 0.0)
    m = max(CHOICE_STRENGTHS, key=lambda m: special.xlogy(counts, _shrunk_choices(rest, others, m)).sum())
    policies = _shrunk_choices(steps, shared, m)

    def gain(dealt: IntArray) -> FloatArray:
        own = _summed(counts, dealt, G)
        found = special.xlogy(own, _shrunk_choices(own, shared, TESTED if np.isinf(m) else m))
        return np.asarray((found - special.xlogy(own, shared)).sum(axis=(2, 3)))

    p = _dealt_at_random(gain, who, CHOICE_PERMUTATIONS, [seed, 4])
    found = Choices(m, policies, shared, p, steps)
    if mdp is None:
        return found
    rewards = np.stack([solve_iavi(mdp, own).rewards for own in policies])
    common = solve_iavi(mdp, shared).rewards
    distance = [[reward_distance(mdp, one, other) for one, other in zip(own, common, strict=True)] for own in rewards]
    return found._replace(rewards=rewards, shared_rewards=common, distance=np.array(distance))


def _shrunk_choices(steps: FloatArray, shared: FloatArray, m: float) -> FloatArray:
    if np.isinf(m):
        return np.broadcast_to(shared, steps.shape).copy()
    return np.asarray((steps + m * shared) / (steps.sum(axis=-1, keepdims=True) + m))


def rows_of(found: Choices, units: Any, states: Any, actions: Any) -> list[dict[str, Any]]:
    """A row per animal, intention, state that it visited and action."""
    rows = []
    for g, k, s in np.argwhere(found.steps.sum(axis=-1) > 0.5):
        for a in np.flatnonzero(found.shared[k, s] > 0):
            row = {"unit_of": str(units[g]), "intention": int(k), "state": states[s], "action": actions[a]}
            row |= {"steps": found.steps[g, k, s, a], "policy": found.policies[g, k, s, a]}
            row["shared_policy"] = found.shared[k, s, a]
            if found.rewards is not None and found.shared_rewards is not None:
                row |= {"reward": found.rewards[g, k, s, a], "shared_reward": found.shared_rewards[k, s, a]}
            rows.append(row)
    return rows
