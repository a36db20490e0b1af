"""Simulated demonstrations that stand beside the data: same starts, same lengths, same dynamics, other choices.

What differs from the data is only who chooses the actions: a fitted model (`simulate`), or a habit without any
intention (`simulate_habit`), whose simulations are the null that intentions are tested against. Actions are drawn from
p(a_t | s_≤t, a_<t), which is the law of the actions under the generative model with its intentions summed out, and
needs nothing from a method but its prediction. Trajectories advance together, so that the loop is over time only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from prism_irl.arrays import FloatArray, IntArray
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.devices import one_thread
from prism_irl.errors import InputError
from prism_irl.mdp import MDP

if TYPE_CHECKING:
    from prism_irl.data.contexts import Contexts
    from prism_irl.models.base import IntentionModel
    from prism_irl.models.references import TabularReference
    from prism_irl.rewards.accents import Accents
    from prism_irl.rewards.choice_kernels import ChoiceKernels


class Chooser(Protocol):
    """Somebody who chooses actions along B trajectories, one step of all of them at a time."""

    def weights(self, states: IntArray) -> FloatArray:
        """p(a_t | s_≤t, a_<t), (B, A), for the states (B,) that were entered."""

    def take(self, actions: IntArray) -> None:
        """Remember the actions (B,) that were drawn."""


def simulate(model: IntentionModel, demos: Demonstrations, mdp: MDP | None = None, seed: int = 0) -> Demonstrations:
    """Let a fitted model act where the data were taken; its labels are what `predict` says of several intentions.

    Actions lead where ``mdp`` says, by default as in the fit, else as counted from ``demos``.
    """
    world = mdp or model.mdp_ or MDP.from_demonstrations(demos)
    with one_thread():
        simulated = walk(demos, world, np.random.default_rng(seed), lambda them: model.chooser(demos, them))
    return simulated if model.n_intentions == 1 else replace(simulated, labels=model.predict(simulated))


def simulate_habit(
    habit: TabularReference, demos: Demonstrations, mdp: MDP, generator: np.random.Generator
) -> Demonstrations:
    """Let a habit without intentions (`NGram`, `Empirical`, `Uniform`) act where the data were taken."""
    return walk(demos, mdp, generator, lambda trajectories: habit.chooser(demos, trajectories))


def walk(
    demos: Demonstrations, mdp: MDP, generator: np.random.Generator, begin: Callable[[IntArray], Chooser]
) -> Demonstrations:
    """Trajectories with the starts, lengths, groups and names of ``demos``, whose actions somebody else chooses.

    ``begin`` gives a new `Chooser` for trajectories (B,). In dynamics that were counted, a pair that nobody saw leads
    back to its own state.
    """
    if (mdp.n_states, mdp.n_actions) != (demos.n_states, demos.n_actions):
        raise InputError(
            f"The dynamics have {mdp.n_states} states and {mdp.n_actions} actions, the demonstrations {demos.n_states} "
            f"and {demos.n_actions}; simulate on the dynamics of the fit."
        )
    states, actions = np.empty(demos.n_steps, np.int64), np.empty(demos.n_steps, np.int64)
    allowed = mdp.valid_actions if demos.valid_actions is None else mdp.valid_actions & demos.valid_actions
    successors = Successors(mdp)
    size = np.frexp(demos.lengths)[1]
    for trajectories in (np.flatnonzero(size == s) for s in np.unique(size)):
        first, lengths = demos.offsets[trajectories], demos.lengths[trajectories]
        chooser = begin(trajectories)
        now = demos.states[first].astype(np.int64)
        for t in range(int(lengths.max())):
            possible: FloatArray = np.where(allowed[now], chooser.weights(now), 0.0)
            stuck = ~(possible.sum(axis=1) > 0)
            if stuck.any():
                raise InputError(
                    f"The model gives no probability to any valid action of state {now[np.argmax(stuck)]}; fit it with "
                    "the same valid actions."
                )
            chosen = draw(possible, generator)
            chooser.take(chosen)
            lasts = lengths > t  # the others walk on unseen until the longest of them ends
            states[first[lasts] + t], actions[first[lasts] + t] = now[lasts], chosen[lasts]
            now = successors.draw(now * mdp.n_actions + chosen, generator)
    kept = ("groups", "valid_actions", "state_names", "action_names", "trajectory_names")
    names: dict[str, Any] = {name: getattr(demos, name) for name in kept}
    return Demonstrations(states, actions, demos.offsets, demos.n_states, demos.n_actions, **names)


class TableChooser:
    """Chooses by one table of policies (C, A), at the longest known context.

    The effects of individuals say how they differ, ``who`` (B,) which of them walks each trajectory, and ``kernels``
    what slow traces of past choices do.
    """

    def __init__(
        self,
        policies: FloatArray,
        contexts: Contexts,
        n_trajectories: int,
        accents: Accents | None = None,
        who: IntArray | None = None,
        kernels: ChoiceKernels | None = None,
    ) -> None:
        self.policies, self.contexts, self.accents, self.who = policies, contexts, accents, who
        self.kernels, self.traces = kernels, None if kernels is None else kernels.begin(n_trajectories)
        self.recent = np.full((n_trajectories, contexts.length), -1, dtype=np.int64)

    def weights(self, states: IntArray) -> FloatArray:
        """Row of the table."""
        self.recent = self.contexts.push(self.recent, states)
        rows = self.contexts.lookup(self.recent)
        chosen: FloatArray = self.policies[rows]
        if self.accents is not None and self.who is not None:
            chosen = chosen * self.accents.at(rows, self.who)
        if self.kernels is not None and self.traces is not None:
            chosen = chosen * self.kernels.factors(self.traces, states)
        return chosen

    def take(self, actions: IntArray) -> None:
        """Remember what was chosen, where contexts or kernels read it."""
        self.recent = self.contexts.took(self.recent, actions)
        if self.kernels is not None and self.traces is not None:
            self.traces = self.kernels.after(self.traces, actions)


class Successors:
    """Draws s' from P(·|s, a) of many pairs at once, from the sparse rows as they are.

    The rows' probabilities are summed up in one long line; a draw is a place on the stretch of its row.
    """

    def __init__(self, mdp: MDP) -> None:
        P = mdp.transitions
        self.states = P.indices.astype(np.int64)
        self.first, self.end = P.indptr[:-1].astype(np.int64), P.indptr[1:].astype(np.int64)
        self.line = np.concatenate([[0.0], np.cumsum(P.data)])

    def draw(self, pairs: IntArray, generator: np.random.Generator) -> IntArray:
        """One successor (B,) of each pair s·A + a, (B,)."""
        first, end = self.first[pairs], self.end[pairs]
        low, high = self.line[first], self.line[end]
        at = np.searchsorted(self.line, low + generator.random(len(pairs)) * (high - low), side="right") - 1
        return np.asarray(self.states[np.clip(at, first, end - 1)], dtype=np.int64)


def draw(weights: FloatArray, generator: np.random.Generator) -> IntArray:
    """One index per row of weights (B, A)."""
    cumulative = weights.cumsum(axis=1)
    u = generator.random((len(weights), 1)) * cumulative[:, -1:]
    return np.asarray(np.minimum((cumulative <= u).sum(axis=1), weights.shape[1] - 1), dtype=np.int64)


def push(recent: IntArray, states: IntArray) -> IntArray:
    """Recent states (B, L), newest first, after entering ``states`` (B,)."""
    return np.concatenate([states[:, None], recent[:, :-1]], axis=1)
