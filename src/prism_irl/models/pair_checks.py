"""What a pair refuses before it is fitted: parameters that make no sense, and data that lack what a half reads."""

from __future__ import annotations

from typing import Any

import numpy as np

from prism_irl import halves, limits
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.labels import check_known
from prism_irl.errors import InputError
from prism_irl.models.histories import check_individuals
from prism_irl.rewards.options import RewardOptions
from prism_irl.switching.options import SwitchingOptions


def check_parameters(model: Any, demos: Demonstrations) -> None:
    """Parameters of a pair and of its halves, and whether the data has what they need."""
    whole = {"max_iterations": 0, "n_starts": 1, "seed": 0, "warm_up": 0, "n_candidates": 1}
    if model.n_intentions is not None:
        whole["n_intentions"] = 1
    if model.patience is not None:
        whole["patience"] = 1
    halves.check_numbers(model, whole, integer=True)
    halves.check_numbers(model, {"validation_fraction": 0, "discount": 0}, below=1)
    halves.check_choice(model, stop_by=("auto", "validation", "training"))
    switching, rewards = model.switching_options, model.reward_options
    name = model._halves()[0]
    if isinstance(name, str) and name in rewards.unsuited:
        raise InputError(rewards.unsuited[name])
    if model.n_intentions is not None:
        switching.check(model.n_intentions)
    rewards.check(demos, model.n_intentions)
    _check_memory(model, rewards, demos)
    _check_starts(model, switching, rewards)
    if model.n_intentions is not None:
        check_known(demos, model.n_intentions)
    if demos.state_space.continuous:
        return  # their cells are not known yet
    limits.check_pairs(demos.n_states, demos.n_actions, demos.n_steps)
    pairs = len(np.unique(demos.states.astype(np.int64) * demos.n_actions + demos.actions))
    if model.n_intentions is not None and model.n_intentions > pairs:
        raise InputError(
            f"{model.n_intentions} intentions cannot be told apart: only {pairs} different (state, action) pairs "
            "occur; ask for fewer intentions or give more data."
        )


def _check_memory(model: Any, rewards: RewardOptions, demos: Demonstrations) -> None:
    memory = {"history": model.history, "backoff": model.backoff}
    given = {name: low for name, low in {"history": 1, "backoff": 0}.items() if memory.get(name, "auto") != "auto"}
    halves.check_numbers(model, {n: low for n, low in given.items() if n == "history"}, integer=True)
    halves.check_numbers(model, {n: low for n, low in given.items() if n == "backoff"})
    if "auto" in memory.values() and rewards.memory != "none" and not model.validation_fraction:
        raise InputError(
            'history="auto" and backoff="auto" are chosen on validation trajectories; set validation_fraction '
            "above 0, or give numbers."
        )
    if model.individuals:
        check_individuals(rewards, demos)
    if memory.get("history", 1) not in (1, "auto") and rewards.memory == "none":
        raise InputError(f"{type(rewards).__name__} rewards see the current state alone; leave history at 1.")
    if rewards.pseudo_count == 0 and model.validation_fraction:
        raise InputError(
            "With smoothing=0 an action that was never seen has probability 0, and no validation trajectory can be "
            "scored; set a small smoothing such as 0.01, or validation_fraction=0."
        )


def _check_starts(model: Any, switching: SwitchingOptions, rewards: RewardOptions) -> None:
    halves.check_choice(model, starts=("mixed", "windows", "random", "annealed"))
    if model.starts == "annealed" and not switching.is_chain:
        raise InputError('starts="annealed" belongs to chains; give switching="markov" or "recurrent".')
