"""What a fit found, for tables and maps alike: rewards and where they are identified, observed moves, goals and trips.

All rewards r(s, a) that explain a policy are shapings of one another, and exactly one of them averages to 0 over the
valid actions of every state (`MDP.level`). That one is shown, whatever representative a method worked with: a method
that puts its reward on states must book the worth of entering a dead end in the dead end, where nothing is chosen; here
it stands where the choice is made. A state where an intention hardly ever chose has no reward to speak of. Tables are
tidy and have names: nobody has to know which id stands for which state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from prism_irl.arrays import BoolArray, FloatArray
from prism_irl.data.demonstrations import Demonstrations, parts_of
from prism_irl.data.geography import pair_counts
from prism_irl.labels import segments

NAMED = 4
"""Places of one intention at most that are called by their names."""
RARE = 5.0
"""Choices of an intention in a state, from which on its reward there is called identified."""


class Explanation(NamedTuple):
    """``rewards`` and ``q`` (K, S, A) and ``values`` (K, S) of K intentions; None of what a model does not have."""

    rewards: FloatArray
    q: FloatArray | None
    values: FloatArray | None


def explanation(model: Any) -> Explanation | None:
    """The level reward of a fitted model with its values; its own where it has no other, None without rewards."""
    level = getattr(model, "canonical_", None)
    own = level[:3] if level is not None else [getattr(model, f"{n}_", None) for n in ("rewards", "q", "values")]
    K, S, A = model.n_intentions, getattr(model, "n_states_", -1), getattr(model, "n_actions_", -1)
    rewards = np.asarray(np.zeros(0) if own[0] is None else own[0], np.float64)
    if rewards.ndim == 2:
        rewards = np.repeat(rewards[..., None], A, axis=2) if A > 0 else rewards
    if rewards.shape != (K, S, A):  # rewards that change with time, say
        return None
    q, values = (None if one is None else np.asarray(one, np.float64) for one in own[1:])
    return Explanation(
        rewards,
        q if q is not None and q.shape == rewards.shape else None,
        values if values is not None and values.shape == rewards.shape[:2] else None,
    )


def choice_counts(demos: Demonstrations, probabilities: npt.ArrayLike) -> FloatArray:
    """How often each intention took each action in each state, Σ_t γ_t(k) [s_t = s, a_t = a], (K, S, A)."""
    S, A = demos.n_states, demos.n_actions
    pair = demos.states.astype(np.int64) * A + demos.actions
    weights = np.asarray(probabilities, np.float64).T
    counts = [np.bincount(pair, weights=w, minlength=S * A) for w in weights]
    return np.stack(counts).astype(np.float64).reshape(-1, S, A)


def leaves_choice(demos: Demonstrations) -> BoolArray:
    """States with at least two valid actions, (S,)."""
    if demos.valid_actions is None:
        return np.full(demos.n_states, demos.n_actions > 1)
    return np.asarray(demos.valid_actions.sum(axis=1) > 1)


MAX_STATES = 400
"""A map with more places is a fog."""


def dwell_per_intention(labels: npt.ArrayLike, offsets: npt.ArrayLike, n_intentions: int) -> list[float | None]:
    """Mean length of the segments of each intention, None of one that is never used."""
    cut = segments(np.asarray(labels), np.asarray(offsets))
    lengths = (cut.lengths[cut.labels == k] for k in range(n_intentions))
    return [float(own.mean()) if len(own) else None for own in lengths]


def state_rewards(model: Any, *, own: bool = False) -> FloatArray | None:
    """(K, S) reward of each state, expected under the intention's own policy; NaN where the intention never is.

    The reward is the level one (`explanation`), which is 0 where there is no choice; with ``own`` the
    representative that the method worked with, as papers show it. None where a model has no rewards over states, no
    policy of each intention to expect them under, or so many states that nobody would see them on a map.
    """
    if getattr(model, "n_states_", MAX_STATES + 1) > MAX_STATES:
        return None
    if not (hasattr(model, "rewards_") and hasattr(model, "policies_")):
        return None
    level = None if own else explanation(model)
    rewards = np.asarray(model.rewards_, np.float64) if level is None else level.rewards
    policies, unvisited = np.asarray(model.policies_), getattr(model, "unvisited_", None)
    if not len(rewards) == len(policies) == model.n_intentions:  # policies that change with time, say
        return None
    if rewards.ndim == 3:
        # Rows of single states come first in a table of histories; what is never done has no reward to count.
        policies = policies[:, : model.n_states_]
        rewards = (policies * np.where(policies > 0, rewards, 0.0)).sum(-1)
    return rewards if unvisited is None else np.where(unvisited, np.nan, rewards)


def on_map(
    model: Any, demos: Demonstrations, probabilities: npt.ArrayLike
) -> tuple[FloatArray | None, FloatArray | None]:
    """`state_rewards` and their values (K, S) as a page shows them: NaN where an intention hardly ever chose, too."""
    often = choice_counts(demos, probabilities).sum(axis=-1) >= RARE
    rewards, found = state_rewards(model), None
    if rewards is not None:
        rewards = np.where(often | ~leaves_choice(demos), rewards, np.nan)
    if getattr(model, "n_states_", MAX_STATES + 1) <= MAX_STATES:
        found = explanation(model)
    if found is None or found.values is None:
        return rewards, None
    unvisited = getattr(model, "unvisited_", None)
    return rewards, np.where(often if unvisited is None else often & ~unvisited, found.values, np.nan)


MAX_ROWS = 2_000_000
STEPS = 2**18
"""Steps that are brought into cells at a time."""


def intention_table(model: Any, demos: Demonstrations, probabilities: npt.ArrayLike) -> pd.DataFrame | None:
    """One row per intention, state and valid action; None where a model has no policy per intention and state.

    ``steps`` is how often the intention took the action there (Σ_t γ_t(k)), ``policy`` π_k(a|s), ``advantage`` its
    logarithm, which is Q − V of any soft-optimal reward and the same for all of them. ``reward``, ``q`` and ``value``
    are those of the one reward without shaping (`explanation`): 0 where there is one action only, empty where the
    intention made fewer than `RARE` choices. ``identified`` is true where neither is the case.
    """
    policies = np.asarray(getattr(model, "policies_", np.zeros(0)), np.float64)
    K, S, A = model.n_intentions, demos.n_states, demos.n_actions
    if policies.ndim != 3 or policies.shape[0] != K or policies.shape[1] < S or policies.shape[2] != A:
        return None
    valid = np.ones((S, A), bool) if demos.valid_actions is None else demos.valid_actions
    if K * valid.sum() > MAX_ROWS:
        return None
    steps = choice_counts(demos, probabilities)
    with np.errstate(divide="ignore"):
        advantage = np.log(policies[:, :S])
    found: dict[str, npt.NDArray[Any]] = {"steps": steps, "policy": policies[:, :S], "advantage": advantage}
    if (why := explanation(model)) is not None:
        often, no_choice = steps.sum(axis=-1, keepdims=True) >= RARE, ~leaves_choice(demos)[:, None]
        # A reward that is not level (goals, places on purpose) is decided in a dead end by the choices that lead there.
        decided = often & (~no_choice | (np.abs(why.rewards).max(axis=-1, keepdims=True) > 0))
        found["identified"] = np.broadcast_to(decided, (K, S, A))
        found["reward"] = np.where(often | no_choice, why.rewards, np.nan)
        if why.q is not None:
            found["q"] = np.where(often, why.q, np.nan)
        if why.values is not None:
            found["value"] = np.broadcast_to(np.where(often, why.values[..., None], np.nan), (K, S, A))
    k, s, a = np.nonzero(np.broadcast_to(valid, (K, S, A)))
    columns: dict[str, Any] = {
        "intention": k,
        "state": _named(s, demos.state_names),
        "action": _named(a, demos.action_names),
    }
    return pd.DataFrame(columns | {name: values[k, s, a] for name, values in found.items()})


def cell_table(model: Any, demos: Demonstrations, probabilities: npt.ArrayLike) -> pd.DataFrame | None:
    """One row per intention and cell of a continuous world; None where a model has no reward on observations.

    Cells stand at their centre, in the units of the data. ``steps`` is how often the intention was there (Σ_t γ_t(k));
    ``reward`` and ``value`` are those of `reward_at` and its value, centred, and empty where that was fewer than
    `RARE` times.
    """
    units = model.units_
    if units is None or model.state_reward_ is None:
        return None
    p, K, S = np.asarray(probabilities, np.float64), model.n_intentions, len(units.cells)
    steps = np.zeros((K, S))
    for rows, part in parts_of(demos, STEPS):
        cells = units.apply(part).states
        steps += np.stack([np.bincount(cells, weights=w, minlength=S) for w in p[rows].T])
    columns: dict[str, Any] = {"intention": np.repeat(np.arange(K), S), "cell": np.tile(np.arange(S), K)}
    own = {"steps": steps, "reward": model.rewards_[:, :, 0], "value": model.values_}
    places = {name: np.tile(values, K) for name, values in _at(demos, units.places(), (*columns, *own)).items()}
    often = steps >= RARE
    found = {name: (values if name == "steps" else np.where(often, values, np.nan)) for name, values in own.items()}
    return pd.DataFrame(columns | places | {name: values.ravel() for name, values in found.items()})


def goal_table(model: Any, demos: Demonstrations) -> pd.DataFrame | None:
    """One row per intention: the place that it goes to, in the units of the observations; None where there is none."""
    places = getattr(model, "places_", None)
    if places is None:
        return None
    return pd.DataFrame({"intention": np.arange(len(places)), **_at(demos, places, ("intention",))})


def _at(demos: Demonstrations, places: FloatArray, taken: Sequence[str]) -> dict[str, FloatArray]:
    """Columns of places (n, d) under the names of the observations, changed where a name is ``taken``."""
    given = getattr(demos, "observation_names", None) or [f"observation {i}" for i in range(places.shape[1])]
    return {(f"observation {name}" if name in taken else name): places[:, i] for i, name in enumerate(given)}


def move_table(demos: Demonstrations) -> pd.DataFrame:
    """Dynamics as they were counted: one row per state, action and next state, with how often each was seen.

    Pairs that were never seen with a successor have ``seen`` 0 and no next state: a model takes them to stay in place.
    """
    S, A = demos.n_states, demos.n_actions
    valid = np.ones((S, A), bool) if demos.valid_actions is None else demos.valid_actions
    now = np.flatnonzero(~demos.first_steps[1:])
    pair = demos.states[now].astype(np.int64) * A + demos.actions[now]
    moves, counts = np.unique(np.stack([pair, demos.states[now + 1].astype(np.int64)]), axis=1, return_counts=True)
    seen = np.bincount(pair, minlength=S * A)
    never = np.flatnonzero((seen == 0) & valid.ravel())
    rows = np.append(moves[0], never)
    to = pd.Series(_named(moves[1], demos.state_names), dtype=object if demos.state_names else "Int64")
    table = pd.DataFrame(
        {
            "state": _named(rows // A, demos.state_names),
            "action": _named(rows % A, demos.action_names),
            "next_state": to.reindex(range(len(rows))),
            "seen": np.append(counts, np.zeros(len(never), np.int64)),
            "probability": np.append(counts / seen[moves[0]], np.full(len(never), np.nan)),
        }
    )
    return table.iloc[np.argsort(rows, kind="stable")].reset_index(drop=True)


def seen_in_words(demos: Demonstrations) -> str:
    """How often the pairs behind estimated dynamics were seen, in a sentence."""
    counts = pair_counts(demos)
    exists = counts if demos.valid_actions is None else counts[demos.valid_actions]
    there = exists[exists > 0]
    return (
        f"Dynamics are counted from the data: {len(there):,} of {exists.size:,} pairs of state and action were seen, "
        f"{int((there < RARE).sum()):,} of them fewer than {RARE:.0f} times (dynamics.csv)."
    )


def _named(ids: npt.NDArray[Any], names: Sequence[str] | None) -> npt.NDArray[Any]:
    return ids if names is None else np.array(names, dtype=object)[ids]


def trips(demos: Demonstrations, probabilities: FloatArray, distances: FloatArray) -> pd.DataFrame:
    """One row per trip: consecutive steps of a trajectory with the same likeliest intention.

    ``probabilities`` (n, K) are those of `predict_proba`, ``distances`` (K, S) expected steps from every state to the
    place of each intention by the shortest way, 0 at the place (`Ends.distances`). ``first`` and ``last`` are
    steps within the trajectory, from 0, both included; ``length`` those until the place is reached, or until the trip
    ends; ``shortest`` those of the shortest way, empty where the intention has no place; ``arrived``, whether the place
    is reached on the trip, or by its last step; ``probability``, the mean of the intention's.
    """
    labels = probabilities.argmax(axis=1)
    n = demos.n_steps
    begins = np.flatnonzero(demos.first_steps | np.append(True, labels[1:] != labels[:-1])[:n])
    ends = np.append(begins[1:], n) - 1
    which = np.searchsorted(demos.offsets, begins, side="right") - 1
    goal = labels[begins]
    states = np.minimum(demos.states.astype(np.int64), distances.shape[1] - 1)
    # where the agent is after its last step, as long as the trajectory goes on
    after = np.where(ends + 1 < demos.offsets[which + 1], ends + 1, ends)
    reached = distances[labels, states] == 0
    arrivals = np.append(np.flatnonzero(reached), n)
    first_arrival = arrivals[np.searchsorted(arrivals, begins)]
    on_the_way = first_arrival <= ends
    arrived = on_the_way | (distances[goal, states[after]] == 0)
    ends_there = np.where(on_the_way, first_arrival, np.where(arrived, after, ends))
    length = np.where(arrived, ends_there, ends + 1) - begins
    sums = np.concatenate([[0.0], np.cumsum(probabilities[np.arange(n), labels])])
    place = _names(demos)
    rows: dict[str, Any] = {
        "trajectory": [demos.name_of(i) for i in which],
        "intention": goal,
        "from": place[states[begins]],
        "to": np.where(arrived, place[states[ends_there]], _targets(demos, distances)[goal]),
        "first": begins - demos.offsets[which],
        "last": ends - demos.offsets[which],
        "length": length,
        "shortest": np.where(distances.min(axis=1)[goal] > 0, np.nan, distances[goal, states[begins]]),
        "arrived": arrived,
        "probability": (sums[ends + 1] - sums[begins]) / (ends + 1 - begins),
    }
    return pd.DataFrame(rows)


def place_table(demos: Demonstrations, distances: FloatArray, facts: Mapping[str, FloatArray]) -> pd.DataFrame:
    """One row per intention: the place that it goes to, by ``distances`` (K, S), and ``facts`` (K,) about it."""
    return pd.DataFrame({"intention": np.arange(len(distances)), "place": _targets(demos, distances), **facts})


def _targets(demos: Demonstrations, distances: FloatArray) -> npt.NDArray[Any]:
    """What the place of each intention is called, (K,), or how many it has; empty where it goes nowhere."""
    names = [np.unique(_names(demos)[own == 0]) for own in distances]
    several = [" or ".join(map(str, own)) if len(own) <= NAMED else f"{len(own)} places" for own in names]
    found = [own[0] if len(own) == 1 else words for own, words in zip(names, several, strict=True)]
    return np.array(found, dtype=object if any(len(own) != 1 for own in names) else None)


def _names(demos: Demonstrations) -> npt.NDArray[Any]:
    """What the place of every state is called, (S,)."""
    if demos.places is not None and demos.place_names is not None:
        return np.array(demos.place_names, dtype=object)[demos.places]
    if demos.places is not None:
        return demos.places
    return np.arange(demos.n_states) if demos.state_names is None else np.array(demos.state_names, dtype=object)
