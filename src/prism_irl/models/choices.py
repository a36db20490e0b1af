"""What validation trajectories decide about policies of continuous worlds, before EM.

How strongly weights are held back (ridge), whether policies bend, and over which distance. One short Markov chain finds
responsibilities; from there every candidate gets a few EM iterations of its own, and the likelihood of the validation
trajectories chooses. The chain stands in for every kind of switching, as for memories (`models.histories`).
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np

from prism_irl import em
from prism_irl.data.batching import Prepared
from prism_irl.data.demonstrations import Demonstrations, some_trajectories
from prism_irl.models.label_choices import chosen_by_labels
from prism_irl.switching.markov import MarkovChain

FIRST_ITERATIONS, OWN_ITERATIONS = 20, 5
"""Of the chain that all candidates begin with, and of each candidate from there."""
TRIAL_STEPS = 50_000
"""Of the training trajectories, and as many of validation: larger data are represented by some trajectories."""


def chosen_options(model: Any, demos: Demonstrations) -> tuple[dict[str, Any], list[dict[str, float]]]:
    """Options that were left to "auto", and all that were tried with the likelihood per validation step.

    Some options are chosen by known labels instead, and have their accuracy. The first candidate is taken where there
    are no validation trajectories to choose by.
    """
    options = model.reward_options
    candidates = options.candidates(demos)
    if options.labels_choose:
        return chosen_by_labels(model, demos, candidates)
    if len(candidates) < 2 or model.validation_fraction <= 0 or len(demos) < 2:
        return (dict(candidates[0]) if candidates else {}), []
    held_out, kept = demos.split_indices(model.validation_fraction, seed=model.seed)
    some = (some_trajectories(demos, TRIAL_STEPS, model.seed, among) for among in (kept, held_out))
    train, validation = (Prepared.of(demos.subset(part), model.contexts_) for part in some)
    chain, tried = MarkovChain(model.n_intentions), []
    rewards = replace(options, **candidates[0]).build(model._problem(train.demos))
    generator = np.random.default_rng([model.seed, len(candidates)])
    rewards.m_step(train, model._first_responsibilities("windows", train, generator))
    em.short_run(chain, rewards, train, FIRST_ITERATIONS)
    responsibilities = em.expectation(chain, rewards, train).responsibilities
    for candidate in candidates:
        own, rewards = copy.deepcopy(chain), replace(options, **candidate).build(model._problem(train.demos))
        rewards.m_step(train, responsibilities)
        em.short_run(own, rewards, train, OWN_ITERATIONS)
        tried.append({**candidate, "log_likelihood": em.likelihood(own, rewards, validation)})
    best = max(range(len(tried)), key=lambda i: tried[i]["log_likelihood"])
    return dict(candidates[best]), tried
