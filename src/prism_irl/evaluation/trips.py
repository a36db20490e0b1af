"""Trips: the stretches of a trajectory from one goal to the next, where intentions are places."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from prism_irl.data.demonstrations import Demonstrations

COLUMNS = (*("trajectory", "intention", "from", "to", "first", "last", "length", "shortest", "arrived", "probability"),)


def trips(
    demos: Demonstrations, probabilities: npt.NDArray[np.float64], distances: npt.NDArray[np.float64]
) -> pd.DataFrame:
    """One row per trip: consecutive steps of a trajectory with the same likeliest intention.

    Parameters
    ----------
    demos : Demonstrations
    probabilities : (n, K)
        P(z_t=k | everything), as `predict_proba` gives it.
    distances : (K, S)
        Expected steps from every state to the place of each intention by the shortest way, 0 at the place
        (`RewardModel.distances`).

    Returns
    -------
    DataFrame with the columns

    - ``trajectory``: its name, or its number where it has none
    - ``intention``: number of the intention
    - ``from``, ``to``: place of the first step, and the place of the intention, by their names, else as numbers
    - ``first``, ``last``: steps within the trajectory, from 0, both included
    - ``length``: steps from the first one until the place is reached, or until the trip ends
    - ``shortest``: expected steps of the shortest way from there, so that shortest / length says how direct the way is
    - ``arrived``: whether the place is reached on the trip, or by its last step
    - ``probability``: mean probability of the intention during the trip
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
    length = np.where(on_the_way, first_arrival, np.where(arrived, after, ends + 1)) - begins
    sums = np.concatenate([[0.0], np.cumsum(probabilities[np.arange(n), labels])])
    place = _names(demos)
    target = distances.argmin(axis=1)
    rows: dict[str, Any] = {
        "trajectory": [demos.name_of(i) for i in which],
        "intention": goal,
        "from": place[states[begins]],
        "to": place[target[goal]],
        "first": begins - demos.offsets[which],
        "last": ends - demos.offsets[which],
        "length": length,
        "shortest": distances[goal, states[begins]],
        "arrived": arrived,
        "probability": (sums[ends + 1] - sums[begins]) / (ends + 1 - begins),
    }
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _names(demos: Demonstrations) -> npt.NDArray[Any]:
    """What the place of every state is called, (S,)."""
    if demos.places is not None and demos.place_names is not None:
        return np.array(demos.place_names, dtype=object)[demos.places]
    if demos.places is not None:
        return demos.places
    return np.arange(demos.n_states) if demos.state_names is None else np.array(demos.state_names, dtype=object)
