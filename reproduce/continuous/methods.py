"""The methods of the experiment: ours, what others offer, and simple baselines, each from data to labels.

Every choice inside a method (starts, stopping) is made by likelihood; nobody sees a label. Rows that are told
some are in `told`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

from consensus import consensus
from continuous.data import Data
from prism_irl.data.contexts import with_memory
from prism_irl.data.continuous import around, moving, standardised
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.labels import ari
from prism_irl.models.intentions import Intentions
from prism_irl.models.phase_baselines import k_means
from prism_irl.models.references import MEMORY, one_policy
from prism_irl.rewards.options import Features, Windows
from worlds.point_maze import PointMaze

FloatArray = npt.NDArray[np.float64]
WALKERS, STEPS, DISCOUNT = 64, 200, 0.97
"""Agents per goal, how long they walk, and how much the next step counts beside this one."""


def transfer(world: PointMaze, places: FloatArray, seed: int) -> float:
    """Return of planning with recovered goals (K, 2), relative to that of the true ones, after the walls have moved."""
    moved = world.moved_wall()
    apart = np.linalg.norm(places[:, None] - world.goals[None], axis=2)
    mine, true = linear_sum_assignment(apart)
    earned = [
        [walk(moved, place, int(goal), seed) for place in (places[k], world.goals[goal])]
        for k, goal in zip(mine, true, strict=True)
    ]
    got, possible = np.sum(earned, axis=0)
    return float(got / possible)


def walk(world: PointMaze, place: FloatArray, goal: int, seed: int) -> float:
    """Mean discounted return, paid when a goal is reached, of agents that head for a place."""
    generator = np.random.default_rng([seed, goal])
    x = world.start(WALKERS, generator)
    command, left, total = world.heading_for(place), np.ones(WALKERS, dtype=bool), 0.0
    for t in range(STEPS):
        there = left & (np.linalg.norm(x - world.goals[goal], axis=1) < world.radius)
        total += DISCOUNT**t * float(there.mean())
        left &= ~there
        near = np.linalg.norm(x - place, axis=1, keepdims=True)
        way = command(x) * np.minimum(1.0, near / world.step)  # whoever is there stays
        x = world.move(x, way + generator.normal(0.0, world.noise, x.shape))
    return total


IntArray = npt.NDArray[np.int64]
REACH = 20
"""Steps, two seconds, that windows of surgery reach each way. A step is part of as many windows before it and after it,
so that one of them is counted as so much less than an independent one."""
MEMBERS = 8
"""Fits that a consensus is made of."""
LINEAR = Features(ridge=1.0)  # one prior for all of a world's rows, so that they differ in switching alone
PAIRS: dict[str, tuple[str, dict[str, Any]]] = {
    "landmarks-recurrent": ("Goals on landmarks, recurrent", {"switching": "recurrent", "rewards": "landmarks"}),
    "landmarks-state": ("Goals on landmarks that end at places", {"switching": "state", "rewards": "landmarks"}),
    "landmarks": ("Goals on landmarks, Markov chain", {"switching": "markov", "rewards": "landmarks"}),
    "features": ("Linear-Gaussian policies, Markov chain", {"switching": "markov", "rewards": LINEAR}),
    "features-state": ("Linear-Gaussian policies that end at places", {"switching": "state", "rewards": LINEAR}),
    "features-recurrent": ("Linear-Gaussian policies, recurrent", {"switching": "recurrent", "rewards": LINEAR}),
    "features-ordered": ("Linear-Gaussian policies, ordered", {"switching": "ordered", "rewards": LINEAR}),
    "gripper-ordered": ("What the gripper does, stages in order", {"switching": "ordered", "rewards": LINEAR}),
    "gripper-pictures": (
        "What the gripper does given the pictures, stages in order",
        {"switching": "ordered", "rewards": LINEAR},
    ),
    "tokens": ("HIQL on k-means tokens", {"switching": "markov", "rewards": "tabular"}),
    "tokens-prism": ("PRISM's gate on k-means tokens", {"switching": "independent", "rewards": "tabular"}),
    "windows-semi": (
        "Gaussian policies on windows, with typical lengths",
        {"switching": "semi-markov", "rewards": Features(ridge=1.0, covariance="full")},
    ),
    "windows-power": (
        "Gaussian policies on windows, with typical lengths, every window worth a twentieth of one",
        {"switching": "semi-markov", "rewards": Windows(window=REACH, power=1.0 / REACH)},
    ),
    "windows-consensus": (
        "Gaussian policies on windows, with typical lengths, worth a twentieth, what eight such fits agree on",
        {"switching": "semi-markov", "rewards": Windows(window=REACH, power=1.0 / REACH)},
    ),
}
"""Identifier → name and pair."""
LIMITS: dict[str, dict[str, float]] = {
    "landmarks-recurrent": {"n_starts": 1, "max_iterations": 15},
    # Landmarks stop, and compare their starts, by what they were fitted to: nothing would read what is held out.
    "landmarks": {"n_starts": 2, "max_iterations": 25, "validation_fraction": 0.0},
    "landmarks-state": {"n_starts": 3, "max_iterations": 25, "validation_fraction": 0.0},
    "windows-semi": {"n_starts": 1, "max_iterations": 40},
    "windows-power": {"n_starts": 1, "max_iterations": 40},
    "tokens-prism": {"n_starts": 2, "max_iterations": 60},
    "features-recurrent": {"n_starts": 2, "max_iterations": 60},
}
"""Of methods whose fits take minutes, unless the settings say otherwise."""
HALVES = ("landmarks-state", "features", "features-state")
"""Methods that are fitted to disjoint halves of the trajectories, too."""
HELD_OUT = ("features-ordered", "features-state", "features", "gripper-ordered", "gripper-pictures", "habit")
"""Methods that are fitted to four fifths of a robot's recordings, too, and scored on the others."""
BASELINES = {
    "chain": "Gaussian HMM on commands",
    "chain-all": "Gaussian HMM on observations and commands",
    "chain-windows": "Gaussian HMM on windows",
    "kmeans-windows": "k-means on windows",
    "kmeans-commands": "k-means on commands",
    "kmeans-observations": "k-means on observations",
    "equal": "Equal parts of every trajectory",
    "largest": "One label for all steps",
}
OF_ARMS = {
    "chain-gripper": "Gaussian HMM on the gripper",
    "kmeans-gripper": "k-means on the gripper",
    "kmeans-pictures": "k-means on the pictures",
}
"""The same where there is a gripper and a camera."""
SMOOTHED, LAGS, SPREADS, COMPONENTS = 5, (0, -20, -10, -5, 5, 10, 20), (11, 21), 12
"""Windows at 10 Hz: steps of a moving mean, lags at which it is read, widths over which a spread is taken, and how many
principal components of them a chain emits where nobody names the gestures."""
NAMES = {
    "oracle": "Truth (exact filter)",
    **{key: name for key, (name, _) in PAIRS.items()},
    "habit": f"One habit that remembers {MEMORY} steps, no intentions",
    **BASELINES,
    **OF_ARMS,
}


class Outcome(NamedTuple):
    """Labels of every step; density per step, distance of the goals and what they are worth behind other walls."""

    labels: IntArray
    log_density: float | None = None
    goal_distance: float | None = None
    transfer: float | None = None


def run_method(method: str, data: Data, seed: int, options: dict[str, Any]) -> Outcome:
    """Fit and label."""
    demos, K = data.demos, data.n_intentions
    assert demos.observations is not None
    assert demos.motions is not None
    if method == "oracle":
        truth = data.world.truth(demos)
        return Outcome(
            truth.probabilities.argmax(axis=1), float(data.world.truth(_unseen(data, seed)).log_likelihood.mean())
        )
    if method == "habit":
        density = None if data.world is None else _habit_density(demos, _unseen(data, seed))
        return Outcome(np.zeros(demos.n_steps, np.int64), density)
    if method == "largest":
        return Outcome(np.zeros(demos.n_steps, np.int64))
    if method == "equal":
        share = demos.step_index / np.repeat(demos.lengths, demos.lengths)
        return Outcome((K * share).astype(np.int64))
    if method.startswith("kmeans"):
        vectors = _clustered(method, data)
        return Outcome(k_means(K, seed).fit(vectors).predict(vectors))
    if method.endswith("-consensus"):
        return Outcome(agreed(method, data, seed, {**LIMITS["windows-power"], **options}))
    demos, pair = shown(method, data), pair_of(method)
    fitted = fit(demos, K, pair, seed, {**LIMITS.get(method, {}), **options})
    density = None
    if fitted.is_density and data.world is not None:  # of walks that no fit has seen
        new = _unseen(data, seed)
        new = blind(new, everything=method == "chain-all") if method in ("chain", "chain-all") else new
        density = float(fitted.score(new))
    distance = worth = None
    if pair["rewards"] == "landmarks" and data.world is not None:
        apart = np.linalg.norm(fitted.places_[:, None] - data.world.goals[None], axis=2)
        distance = float(apart.min(axis=0).max())  # the goal that was missed by most
        worth = transfer(data.world, fitted.places_, seed) if isinstance(data.world, PointMaze) else None
    return Outcome(fitted.decode(demos), density, distance, worth)


def pair_of(method: str) -> dict[str, Any]:
    """Switching and rewards of a method; simple chains are Markov."""
    if method == "chain-windows":
        return {**PAIRS["windows-semi"][1], "switching": "markov"}
    return {"switching": "markov", "rewards": LINEAR} if method.startswith("chain") else PAIRS[method][1]


def shown(method: str, data: Data) -> Demonstrations:
    """The demonstrations as a method sees them."""
    if method in ("chain", "chain-all"):
        return blind(data.demos, everything=method == "chain-all")
    if method in ("chain-windows", "windows-semi"):
        return leading(windows(data.demos))
    if "gripper" in method:
        assert data.gripper is not None
        demos = replace(blind(data.demos), motions=data.gripper, noise_blocks=None)
        return replace(demos, observations=_pictures(data)) if method == "gripper-pictures" else demos
    return data.demos


def _pictures(data: Data) -> npt.NDArray[Any]:
    assert data.demos.observations is not None
    return data.demos.observations[:, -data.n_pictures :]


def _clustered(method: str, data: Data) -> npt.NDArray[Any]:
    """Vectors that k-means cuts into phases."""
    if method == "kmeans-pictures":
        return _pictures(data)
    emitted = shown(method.replace("kmeans", "chain"), data)
    found = data.demos.observations if method == "kmeans-observations" else emitted.motions
    assert found is not None
    return found


def _unseen(data: Data, seed: int) -> Demonstrations:
    """New trajectories of the same world, a third as many."""
    found: Demonstrations = data.world.simulate(max(4, len(data.demos) // 3), seed=seed + 10_000)
    return found


def agreed(method: str, data: Data, seed: int, options: dict[str, Any]) -> IntArray:
    """Labels of the average over fits from different starts, renamed to match, beginning with the most typical fit.

    On these recordings equally good optima cut the data differently, and the likeliest is no better than the others.
    """
    pair = PAIRS[method][1]
    fits = (fit(data.demos, data.n_intentions, pair, 1000 * seed + i, options) for i in range(MEMBERS))
    beliefs = [one.predict_proba(data.demos) for one in fits]
    labels = [belief.argmax(axis=1) for belief in beliefs]
    typical = [float(np.mean([ari(own, other) for other in labels])) for own in labels]
    return consensus(beliefs, typical, margin=2.0).labels  # two: all of them


def fit(demos: Demonstrations, K: int, pair: dict[str, Any], seed: int, options: dict[str, Any]) -> Intentions:
    """A fitted pair."""
    return Intentions(K, **pair, **options, device="cpu", seed=seed).fit(demos)


def _habit_density(demos: Demonstrations, new: Demonstrations) -> float:
    """Log density per step of new commands under one policy with memory."""
    return float(one_policy().fit(with_memory(demos, MEMORY)).score(with_memory(new, MEMORY)))


def held_out(method: str, data: Data, seed: int, options: dict[str, Any]) -> float:
    """Log density per step of a fifth of the recordings (of the people, where there are some), by a fit to the rest."""
    by: Any = "trajectory" if data.demos.groups is None else "group"
    parts: Any = shown(method, data).split(0.8, by=by, seed=seed)
    train, test = parts
    if method == "habit":
        return _habit_density(train, test)
    return float(
        fit(train, data.n_intentions, pair_of(method), seed, {**LIMITS.get(method, {}), **options}).score(test)
    )


def halves_agree(method: str, data: Data, seed: int, options: dict[str, Any]) -> float:
    """ARI of all labels by two fits to disjoint halves of the trajectories."""
    pair = PAIRS[method][1]
    parts: Any = data.demos.split(0.5, seed=seed)
    fits = (fit(part, data.n_intentions, pair, seed, {**LIMITS.get(method, {}), **options}) for part in parts)
    first, second = (fitted.decode(data.demos) for fitted in fits)
    return float(ari(first, second))


def blind(demos: Demonstrations, *, everything: bool = False) -> Demonstrations:
    """The same steps without anything to depend on; with ``everything`` the observations are emitted, too."""
    assert demos.observations is not None
    assert demos.motions is not None
    nothing = np.zeros((demos.n_steps, 1), np.float32)
    motions = np.concatenate([demos.observations, demos.motions], axis=1) if everything else demos.motions
    return replace(
        demos, observations=nothing, motions=motions, noise_blocks=None, motion_names=None, observation_names=None
    )


def windows(demos: Demonstrations) -> Demonstrations:
    """All numbers of a step and of those around it, two seconds each way, as if they were emitted.

    Standardised within every trial, so that it does not matter where the camera stood.
    """
    seen = blind(demos, everything=True)
    assert seen.motions is not None
    values = standardised(seen.motions, seen.offsets)
    parts = [around(moving(values, seen.offsets, SMOOTHED)[0], seen.offsets, LAGS)]
    parts += [moving(values, seen.offsets, width)[1] for width in SPREADS]
    return replace(seen, motions=np.concatenate(parts, axis=1), noise_blocks=None)


def leading(demos: Demonstrations) -> Demonstrations:
    """The same with the leading principal components of what is emitted, each in its own scale."""
    assert demos.motions is not None
    centred = demos.motions - demos.motions.mean(axis=0)
    _, vectors = np.linalg.eigh(centred.T @ centred)
    return replace(demos, motions=centred @ vectors[:, ::-1][:, :COMPONENTS], noise_blocks=None)
