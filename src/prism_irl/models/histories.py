"""How much a policy should remember: history length and back-off strength, chosen on validation trajectories.

Longer histories predict better until their contexts become rare, and stronger back-off postpones that, so the two are
chosen together. First a screen: with a single intention every (length, strength) is one table of counts, hence all of
them are tried. Then short Markov chains with the K intentions wanted, which divide the same data among K policies,
decide between the lengths and strengths that the screen leaves. The chains stand in for every switching family:
they cost seconds where a recurrent network costs minutes, and the policies are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from prism_irl import em
from prism_irl.data.batching import Prepared
from prism_irl.data.contexts import Contexts, Reads, levels_of
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.models.splits import validation_split
from prism_irl.models.starts import StartKind, first_responsibilities
from prism_irl.rewards.accents import Accents, find_accents
from prism_irl.rewards.options import RewardOptions
from prism_irl.rewards.tabular import TabularPolicies
from prism_irl.switching.markov import MarkovChain

LENGTHS = (1, 2, 3, 4, 5, 6)
"""Histories that "auto" tries."""
BACKOFFS = (2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
"""Strengths that "auto" tries; the likelihood is flat around the best one, so that a coarse grid is enough."""
SCREEN_MARGIN = 0.02
"""Nats per step that a length may lie behind the best one in the screen and still be tried with K intentions."""
SCREEN_GAIN = 5e-4
"""Nats per step that a longer history must gain in the screen, whose counts are exact."""
CHAIN_GAIN = 1e-3
"""The same for chains, which end a little higher or lower from different starts; short memories explain more.

It is also what another strength must gain over that of the screen, whose choice does not depend on starts."""
CHAIN_STARTS: tuple[StartKind, ...] = ("windows", "random", "windows", "random")
CHAIN_ITERATIONS = 32


DEFAULT_BACKOFF = 5.0
"""Strength where there is nothing to choose it on, or for."""


@dataclass(frozen=True)
class HistoryChoice:
    """What was chosen, and everything that was tried."""

    length: int
    backoff: float
    tried: list[dict[str, float]] = field(default_factory=list)
    """Rows of intentions, length, backoff and log_likelihood per validation step."""


def chosen_history(model: Any, demos: Demonstrations) -> tuple[int, float, list[dict[str, float]]]:
    """Length and back-off strength that a pair's policies remember with, and what was tried to choose them.

    What is "auto" is chosen on the validation trajectories of the model, a shared habit as a single intention.
    """
    options = model.reward_options
    if options.memory == "none":
        return 1, 0.0, []
    length, backoff = model.history, model.backoff
    fallback = DEFAULT_BACKOFF if backoff == "auto" else float(backoff)
    if length != "auto" and (backoff != "auto" or length == 1):
        return length, fallback, []
    train, validation = validation_split(demos, model.validation_fraction, model.seed)
    if validation is None:  # a single step
        return 1, fallback, []
    choice = choose_history(
        train,
        validation,
        1 if options.memory == "habit" else model.n_intentions,
        lengths=LENGTHS if length == "auto" else (length,),
        backoffs=BACKOFFS if backoff == "auto" else (float(backoff),),
        smoothing=options.pseudo_count,
        seed=model.seed,
    )
    return choice.length, choice.backoff, choice.tried


def chosen_accents(model: Any, demos: Demonstrations) -> Accents | None:
    """How individuals differ, where a pair asks for it; its contexts and back-off have been chosen."""
    if not getattr(model, "individuals", False):
        return None
    parts = validation_split(demos, model.validation_fraction, model.seed)
    smoothing = model.reward_options.pseudo_count
    return find_accents(demos, parts, model.contexts_, smoothing=smoothing, backoff=model.backoff_, all_data=False)


def check_individuals(rewards: RewardOptions, demos: Demonstrations) -> None:
    """Raise an error where individuals cannot be told apart."""
    if rewards.memory == "none":
        raise InputError(f"{type(rewards).__name__} rewards are the same for all individuals; leave individuals out.")
    if demos.groups is None:
        raise InputError("Individuals need groups; name the column that tells the animal (--group).")


def choose_history(
    train: Demonstrations,
    validation: Demonstrations,
    n_intentions: int,
    *,
    lengths: Sequence[int] = LENGTHS,
    backoffs: Sequence[float] = BACKOFFS,
    smoothing: float = 0.01,
    seed: int = 0,
    gain: float = SCREEN_GAIN,
    reads: Reads = "states",
) -> HistoryChoice:
    """Choose the history length and the back-off strength by likelihood on validation trajectories.

    Parameters
    ----------
    train, validation : Demonstrations
        Both parts of the training data; nothing else is looked at.
    n_intentions : int
        K of the model that will be fitted.
    lengths, backoffs : sequences
        What to choose among, in increasing order; a single entry is a decision already made.
    smoothing : float
        Pseudo-count of every valid action in every state.
    seed : int
        Of the starts, the same for every candidate, so that candidates differ in what is compared alone.
    gain : float
        Nats per step that a longer history must gain with one intention.
    reads : {"states", "actions", "both"}
        What the histories are made of.
    """
    search = _Search(train, validation, smoothing, seed, reads)
    length, backoff = search.screen(lengths, backoffs, gain)
    if n_intentions == 1:
        return HistoryChoice(length, backoff, search.tried)
    # One axis after the other: the best strength hardly depends on the length once there is memory at all.
    best, score = length, -np.inf
    for candidate in search.near(lengths):
        found = search.chain(n_intentions, candidate, backoff)
        if found > score + (CHAIN_GAIN if candidate > best else 0.0):
            best, score = candidate, found
    strength, reference = backoff, score
    for candidate_strength in backoffs if best > 1 else ():
        if candidate_strength == backoff or not backoff / 4 <= candidate_strength <= 2 * backoff:
            continue
        found = search.chain(n_intentions, best, candidate_strength)
        if found > max(score, reference + CHAIN_GAIN):
            strength, score = candidate_strength, found
    return HistoryChoice(best, strength, search.tried)


class _Search:
    """Validation likelihoods of tables and of short chains, remembered in ``tried``."""

    def __init__(
        self, train: Demonstrations, validation: Demonstrations, smoothing: float, seed: int, reads: Reads = "states"
    ) -> None:
        self.train, self.validation, self.smoothing, self.seed, self.reads = train, validation, smoothing, seed, reads
        self.tried: list[dict[str, float]] = []
        self._longest = Contexts(train.n_states)

    def screen(self, lengths: Sequence[int], backoffs: Sequence[float], gain: float) -> tuple[int, float]:
        """Try every combination with one intention; return the best."""
        best, length, backoff = -np.inf, int(lengths[0]), float(backoffs[0])
        for candidate in lengths:
            data, held_out, contexts = self._data(candidate)
            # The strength makes no difference to the state alone, whose policy is the shared one.
            for strength in backoffs if candidate > 1 else backoffs[-1:]:
                table = self._table(1, contexts, strength)
                table.m_step(data, np.ones((data.demos.n_steps, 1)))
                score = float(table.log_likelihood(held_out).mean())
                self._remember(1, candidate, strength, score)
                if score > best + (gain if candidate > length else 0.0):
                    best, length, backoff = score, int(candidate), float(strength)
        return length, backoff

    def near(self, lengths: Sequence[int]) -> list[int]:
        """Lengths that the screen leaves: those whose best strength comes near the best of all."""
        tops = {
            length: max(row["log_likelihood"] for row in self.tried if row["length"] == length) for length in lengths
        }
        return [int(length) for length in lengths if tops[length] >= max(tops.values()) - SCREEN_MARGIN]

    def chain(self, n_intentions: int, length: int, backoff: float) -> float:
        """Highest validation likelihood on the way of a short Baum–Welch run, averaged over starts.

        The average, since the luckiest of a few starts says more about luck than about the history.
        """
        data, held_out, contexts = self._data(length)
        tops = np.full(len(CHAIN_STARTS), -np.inf)
        for index, kind in enumerate(CHAIN_STARTS):
            generator = np.random.default_rng([self.seed, index])
            policies, chain = self._table(n_intentions, contexts, backoff), MarkovChain(n_intentions)
            policies.m_step(data, first_responsibilities(kind, self.train, n_intentions, generator))

            def look(iteration: int, index: int = index, chain: Any = chain, policies: Any = policies) -> None:
                if iteration % 4 == 3:  # the curve is smooth: looking at every point would cost and find nothing
                    likelihood = chain.expectation(held_out, policies.log_likelihood(held_out))
                    tops[index] = max(tops[index], float(likelihood.log_likelihood.mean()))

            em.short_run(chain, policies, data, CHAIN_ITERATIONS, after=look)
        self._remember(n_intentions, length, backoff, float(tops.mean()))
        return float(tops.mean())

    def _data(self, length: int) -> tuple[Prepared, Prepared, Contexts]:
        levels = levels_of(length, self.reads)
        if self._longest.length < levels:
            self._longest = Contexts.fit(self.train, levels, self.reads)
        contexts = self._longest.cut(levels)
        return Prepared.of(self.train, contexts), Prepared.of(self.validation, contexts), contexts

    def _table(self, n_intentions: int, contexts: Contexts, backoff: float) -> TabularPolicies:
        settings: dict[str, Any] = {"smoothing": self.smoothing, "backoff": backoff}
        return TabularPolicies(n_intentions, self.train.n_actions, contexts, self.train.valid_actions, **settings)

    def _remember(self, intentions: int, length: int, backoff: float, score: float) -> None:
        row = {"intentions": intentions, "length": length, "backoff": backoff, "log_likelihood": score}
        self.tried.append(row)
