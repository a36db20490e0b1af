"""The methods that the robot experiment compares, each a function from the data to an intention per step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from bridge import features as manipulation_features
from bridge.data import Bridge, Data, FloatArray, IntArray
from gaussian import chain_data, gaussian_chain, smoothed
from harness import build_method
from prism_irl.data.contexts import with_memory
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.models.base import IntentionModel
from prism_irl.models.phase_baselines import k_means
from prism_irl.models.presets import FeaturePRISM
from prism_irl.models.references import MEMORY, one_policy

SMOOTHING_WIDTH = 5
TOKENS, FEATURES, BASELINES, HABITS = "tokens", "features", "baselines", "habits"
ON_TOKENS = {
    "prism-paper": "PRISM, paper gate, tokens",
    "hiql": "HIQL, tokens",
    "prism-recurrent": "Recurrent switching, tokens",
}
"""Registered methods, and what the table calls them."""


class Outcome(NamedTuple):
    """What one method made of the data: intention of every step (none of a habit), scores, agreement of starts."""

    labels: IntArray | None
    scores: dict[str, float]
    agreement: float | None
    model: IntentionModel | None = None


Run = Callable[[IntArray, IntArray], Outcome]
"""From training and test trajectories to what a method made of all of them."""


@dataclass(frozen=True)
class Contestant:
    """A method of the table."""

    id: str
    name: str
    family: str
    run: Run
    leaks: bool = False


def contestants(settings: Bridge, data: Data) -> list[Contestant]:
    """Every method of the table; baselines and the order of stages only where there is a truth to judge them by."""
    K, starts = settings.n_intentions, settings.starts
    registered = [build_method(identifier, K, settings.options()) for identifier in ON_TOKENS]
    chain: dict[str, Any] = {"n_starts": starts}
    network: dict[str, Any] = {"switching": "recurrent", "n_starts": settings.network_starts}
    softmax: dict[str, Any] = {"policies": "softmax", "n_starts": min(starts, 3), "max_iterations": 40}
    on_features = {
        "features-softmax": ("Softmax features, Markov", softmax),
        "features-markov": ("Gaussian features, Markov", chain),
        "features-recurrent": ("Gaussian features, recurrent", network),
    }
    truth = data.tokens.labels is not None
    if truth:
        on_features["features-ordered"] = ("Gaussian features, ordered", {"ordered": True, **chain})
        recurrent = ("Gaussian features, ordered recurrent", {"ordered": True, **network})
        on_features["features-ordered-recurrent"] = recurrent
    return [
        *(
            Contestant(one.id, ON_TOKENS[one.id], TOKENS, _fitted(one.model, data.tokens), one.leaks)
            for one in registered
        ),
        *(
            Contestant(identifier, name, FEATURES, _fitted(FeaturePRISM(K, **options), data.motions))
            for identifier, (name, options) in on_features.items()
        ),
        *(baselines(settings, data) if truth else ()),
        *habits(data),
    ]


def habits(data: Data) -> list[Contestant]:
    """What predicts without intentions, in the units of each claim: tokens after tokens, commands after commands.

    A method with intentions whose likelihood or density does not exceed its habit's has not shown any.
    """
    ngram = build_method("ngram", 1, {})
    seen = with_memory(manipulation_features.policies_see(data.motions), MEMORY)
    commands = f"Habit on features, the last {MEMORY} steps, no intentions"
    return [
        Contestant("habit-tokens", "Habit on tokens (n-gram), no intentions", HABITS, _habit(ngram.model, data.tokens)),
        Contestant("habit-features", commands, HABITS, _habit(one_policy(), seen)),
    ]


def baselines(settings: Bridge, data: Data) -> list[Contestant]:
    """K-means and Gaussian chains, the latter also with the order of stages: the prior alone is worth much."""
    K, starts, offsets = settings.n_intentions, settings.starts, data.tokens.offsets
    found = [Contestant("kmeans-actions", "k-means on actions", BASELINES, _kmeans(K, data.actions, data.tokens))]
    if len(data.vectors) == data.tokens.n_steps:
        seen = _kmeans(K, data.vectors, data.tokens)
        found.insert(0, Contestant("kmeans-observations", "k-means on observations", BASELINES, seen))
    variants = {
        "actions": ("actions", data.actions),
        "smoothed": ("smoothed actions", smoothed(data.actions, offsets, SMOOTHING_WIDTH)),
    }
    if data.physical and data.states is not None:
        opening = manipulation_features.state_columns(data.states, "gripper_opening")
        variants["gripper"] = ("actions and gripper", np.concatenate([data.actions, opening], axis=1))
    for key, (name, vectors) in variants.items():
        for ordered in (False, True):
            model = gaussian_chain(K, n_starts=starts, ordered=ordered)
            title = f"Gaussian chain on {name}" + (", ordered" if ordered else "")
            identifier = f"gaussian-chain-{key}" + ("-ordered" if ordered else "")
            run = _fitted(model, chain_data(data.tokens, vectors), scored=False)
            found.append(Contestant(identifier, title, BASELINES, run))
    return found


def _fitted(model: IntentionModel, demos: Demonstrations, *, scored: bool = True) -> Run:
    """Fit to some trajectories, score on others, label all of them."""

    def run(train: IntArray, test: IntArray) -> Outcome:
        part, held_out = (demos.subset(own[own < len(demos)]) for own in (train, test))  # of a sample, still disjoint
        model.fit(part)
        scores = {}
        if scored and model.is_density:
            scores = {"log_density": model.score(held_out)}
        elif scored:
            scores = {"predictive_ll": model.score(held_out), "paper_score": model.paper_score(held_out)}
        return Outcome(model.predict(demos), scores, getattr(model, "agreement_", None), model)

    return run


def _habit(model: IntentionModel, demos: Demonstrations) -> Run:
    """The scores of a method without intentions, whose labels would all be the same."""
    fitted = _fitted(model, demos)

    def run(train: IntArray, test: IntArray) -> Outcome:
        return fitted(train, test)._replace(labels=None, agreement=None, model=None)

    return run


def _kmeans(n_phases: int, vectors: FloatArray, demos: Demonstrations) -> Run:
    def run(train: IntArray, test: IntArray) -> Outcome:
        steps = np.isin(demos.trajectory_index, train)
        return Outcome(k_means(n_phases).fit(vectors[steps]).predict(vectors), {}, None)

    return run
