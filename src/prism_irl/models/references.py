"""References that are not inverse reinforcement learning: what any claim about intentions has to beat.

`Uniform` knows which actions exist, `Empirical` how often each was taken in each state (K = 1: exactly the likelihood
of IAVI), `NGram` what followed the last few states and actions. All three are the back-off policies of
`rewards.tabular` with one intention. Most of the predictability of an animal is short memory, so the n-gram belongs
beside every result: a fit gets the scores of all on the trajectories on which its own is shown (`reference_scores`), a
comparison gets them as methods (`with_references`).
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from prism_irl import checked, em, storage
from prism_irl.arrays import BoolArray, FloatArray, IntArray
from prism_irl.data.batching import Prepared
from prism_irl.data.contexts import READS, Contexts, Reads, levels_of, reveals_actions, with_memory
from prism_irl.data.demonstrations import Demonstrations, parts_of, some_trajectories
from prism_irl.errors import InputError
from prism_irl.evaluation.simulate import TableChooser
from prism_irl.halves import check_choice, check_numbers
from prism_irl.mdp import MDP
from prism_irl.models import registry
from prism_irl.models.base import IntentionModel, validation_split, with_valid_actions_of
from prism_irl.models.choices import choose_history
from prism_irl.models.intentions import Intentions
from prism_irl.models.registry import Method
from prism_irl.report.verdict import REFERENCES
from prism_irl.rewards.accents import find_accents, leave_one_out, load_accents
from prism_irl.rewards.choice_kernels import RATES, ChoiceKernels, fit_kernels
from prism_irl.rewards.tabular import TabularPolicies, normalise

BACKOFFS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
"""Strengths that "auto" tries; the likelihood is flat around its best one, so that a coarse grid is enough."""
LENGTH_GAIN = 1e-4
"""Nats per step that a longer history must gain on validation data: less is noise, and short memories explain more."""
OWN_STRENGTHS = (64.0, 16.0, 256.0)
"""Strengths of the shrinkage of individuals that folds choose among."""
KERNEL_GAIN = 3e-4
"""Nats per step that slow choice kernels must gain on validation data over contexts alone."""
ONE_POLICY = "single+features"
"""Identifier of the one policy without intentions that stands beside densities."""
Split = tuple[Demonstrations, Demonstrations]
"""Training and validation trajectories."""
MEMORY = 3
"""Steps that the habit of continuous commands remembers."""


class Memory(NamedTuple):
    """What a habit remembers: how many steps, of what, shrunk how strongly, and whether choices leave slow traces.

    ``own`` is how strongly individuals are shrunk; None leaves it to the fit.
    """

    length: int
    reads: Reads
    backoff: float
    kernels: bool = False
    own: float | None = None


class TabularReference(IntentionModel):
    """Shared part of the references: one table p(a | context), and nothing else."""

    contexts_: Contexts
    table_: TabularPolicies
    kernels_: ChoiceKernels | None = None

    def action_proba(self, demos: Demonstrations) -> FloatArray:
        """p(a | last states and actions) of every step, (n, A)."""
        demos = self._check_new(demos)
        found = self.table_.policies_along(Prepared.of(demos, self.contexts_), np.arange(demos.n_steps))[:, 0]
        if self.kernels_ is None:
            return found
        return normalise(found * self.kernels_.along(demos), found)

    def chooser(self, demos: Demonstrations, trajectories: IntArray) -> TableChooser:
        """Chooses by the table."""
        accents = self.table_.accents
        who = None if accents is None else accents.who(demos)[trajectories]
        return TableChooser(self.policies_[0], self.contexts_, len(trajectories), accents, who, self.kernels_)

    @property
    def policies_(self) -> FloatArray:
        """π(a | context), (1, C, A)."""
        self._check_fitted()
        return self.table_.policies

    def _set_table(self, demos: Demonstrations, contexts: Contexts, **settings: float) -> None:
        self.n_states_, self.n_actions_ = demos.n_states, demos.n_actions
        self.contexts_ = contexts
        self.table_ = TabularPolicies(1, demos.n_actions, contexts, demos.valid_actions, **settings)

    def _state(self) -> dict[str, Any]:
        """Contexts and table."""
        contexts = storage.prefixed("contexts", self.contexts_.state())
        accents = {} if self.table_.accents is None else storage.prefixed("accents", self.table_.accents.state())
        kernels = {} if self.kernels_ is None else storage.prefixed("kernels", vars(self.kernels_))
        return {**contexts, **accents, **kernels, **storage.prefixed("table", self.table_.state())}

    def _info(self) -> dict[str, Any]:
        """Sizes and the length of the history."""
        accents = {} if self.table_.accents is None else self.table_.accents.info()
        return {**self._sizes(), "length": self.contexts_.length, **accents}

    def _load_state(self, tensors: dict[str, Any], info: dict[str, Any]) -> None:
        """Rebuild the contexts, then fill the table."""
        self.n_states_, self.n_actions_ = int(info["n_states"]), int(info["n_actions"])
        contexts = {name: value.numpy() for name, value in storage.part("contexts", tensors).items()}
        self.contexts_ = Contexts.from_state(self.n_states_, contexts)
        # Valid actions are part of the table already: an invalid one has probability zero in it.
        self.table_ = TabularPolicies(1, self.n_actions_, self.contexts_)
        self.table_.load_state({name: value.numpy() for name, value in storage.part("table", tensors).items()})
        self.table_.accents = load_accents(tensors, info, (self.contexts_.n_contexts, self.n_actions_))
        if "kernels.weights" in tensors:
            kernels = {name: value.numpy() for name, value in storage.part("kernels", tensors).items()}
            checked.shape("weights of the choice kernels", kernels["weights"], RATES.shape)
            checked.shape("levels of the choice kernels", kernels["levels"], (self.n_states_, self.n_actions_))
            self.kernels_ = ChoiceKernels(**kernels)


class Uniform(TabularReference):
    """Every valid action equally likely: the floor of every comparison.

    Valid actions are those of the demonstrations, else those of the MDP, else all of them.
    """

    def fit(self, demos: Demonstrations, mdp: MDP | None = None) -> Self:
        """Read sizes and valid actions."""
        demos = with_valid_actions_of(mdp, demos)
        self._set_table(demos, Contexts(demos.n_states))
        return self

    @property
    def n_parameters_(self) -> int:
        """Nothing is estimated."""
        return 0


@dataclass(eq=False, repr=False)
class Empirical(TabularReference):
    """Frequency of each action in each state (with a pseudo-count of each valid one): one intention without memory."""

    smoothing: float = 0.01

    def fit(self, demos: Demonstrations, mdp: MDP | None = None) -> Self:
        """Count."""
        check_numbers(self, {"smoothing": 0})
        demos = with_valid_actions_of(mdp, demos)
        self._set_table(demos, Contexts(demos.n_states), smoothing=self.smoothing)
        self.table_.m_step(Prepared.of(demos, self.contexts_), np.ones((demos.n_steps, 1)))
        return self


@dataclass(eq=False, repr=False)
class NGram(TabularReference):
    """Habit: a back-off policy over the last steps, with slow choice kernels where they predict; no intention.

    Each context shrinks towards the same context without its oldest symbol (`rewards.tabular`). What is "auto" is
    chosen by likelihood on validation trajectories, and the policy is then counted on all data.

    Parameters
    ----------
    max_length : int
        Longest history that "auto" tries.
    length : int or "auto"
        Number L of steps that the policy sees, the present one included.
    backoff, smoothing : float
        Strength of the shrinkage, in steps, and pseudo-count of every valid action in every state.
    individuals : bool
        Every animal (group of trajectories) may do some things more often than the others do (`rewards.accents`).
    validation_fraction, seed : float, int
        Share of the trajectories that the choices are made on (`validation_split`), and which these are.
    reads : {"auto", "states", "actions", "both"}
        What contexts are made of; "auto" leaves "both" out where states reveal actions, with one fold "actions" too.
    kernels : bool or "auto"
        Whether past choices leave slow traces (`rewards.choice_kernels`).
    folds : int
        With more than one, every trajectory is a validation trajectory once, and the choices are made on all of them.
    own_strength : float, optional
        Strength of the shrinkage of individuals, in steps; chosen on validation trajectories when absent.

    Attributes
    ----------
    length_, backoff_, reads_, kernels_ : what was chosen
    validation_ : list of dict with reads, length, backoff and validation log-likelihood per step of everything tried
    """

    max_length: int = 6
    length: int | Literal["auto"] = "auto"
    backoff: float | Literal["auto"] = "auto"
    individuals: bool = False
    smoothing: float = 0.01
    validation_fraction: float = 0.1
    seed: int = 0
    reads: Reads | Literal["auto"] = "auto"
    kernels: bool | Literal["auto"] = "auto"
    folds: int = 1
    own_strength: float | None = None

    def fit(self, demos: Demonstrations, mdp: MDP | None = None) -> Self:
        """Choose the memory on validation trajectories, then count everything."""
        self._check_parameters()
        demos = with_valid_actions_of(mdp, demos)
        parts = validation_split(demos, self.validation_fraction, self.seed)
        splits = [] if parts[1] is None else [(parts[0], parts[1])]
        if splits and min(self.folds, len(demos)) > 1:
            indices = demos.fold_indices(min(self.folds, len(demos)), seed=self.seed)
            splits = [(demos.subset(kept), demos.subset(held_out)) for kept, held_out in indices]
        memories = self._screen(demos, splits)
        if splits and self.individuals and self.length == "auto":
            memories = [self._beside_individuals(memory, splits) for memory in memories]
        if len(splits) > 1 and self.individuals and self.own_strength is None:
            best = self._best_of(memories, splits)
            own = self._best_of([best._replace(own=strength) for strength in OWN_STRENGTHS], splits).own
            memories = [memory._replace(own=own) for memory in memories]
        if splits and self.kernels == "auto":
            alone = [memories[0]._replace(length=1, reads="states")] if self.length == "auto" else []
            memories += [memory._replace(kernels=True) for memory in dict.fromkeys([*alone, *memories])]
        return self._count_with(demos, parts, self._best_of(memories, splits))

    def _beside_individuals(self, memory: Memory, splits: Sequence[Split]) -> Memory:
        """No more memory than helps beside the individuals: one that only tells whose trajectory it is, is none."""
        shorter = (memory._replace(length=length) for length in range(2, memory.length + 1))
        return self._best_of([memory._replace(length=1, reads="states"), *shorter], splits)

    def _best_of(self, memories: Sequence[Memory], splits: Sequence[Split]) -> Memory:
        """The memory that predicts validation trajectories best; each of them must gain something over those before."""
        best, chosen = -np.inf, memories[0]
        for memory in memories if len(memories) > 1 else ():
            models = ((self._count_with(train, (train, None), memory), held_out) for train, held_out in splits)
            score = float(np.concatenate([model.log_likelihood(held_out) for model, held_out in models]).mean())
            if score > best + (KERNEL_GAIN if memory.kernels else LENGTH_GAIN):
                best, chosen = score, memory
        return chosen

    def _count_with(
        self, demos: Demonstrations, parts: tuple[Demonstrations, Demonstrations | None], memory: Memory
    ) -> Self:
        """Contexts, counts, individuals and traces of these trajectories, with this memory."""
        self.length_, self.reads_, self.backoff_, kernels, own = memory
        contexts = Contexts.fit(demos, levels_of(self.length_, self.reads_), self.reads_)
        settings = {"smoothing": self.smoothing, "backoff": self.backoff_}
        self._set_table(demos, contexts, **settings)
        self.kernels_, data = None, Prepared.of(demos, contexts)
        if self.individuals:
            strength = self.own_strength if own is None else own
            self.table_.accents = find_accents(demos, parts, contexts, **settings, strength=strength)
        self.table_.m_step(data, np.ones((demos.n_steps, 1)))
        if kernels:
            base = leave_one_out(self.table_, data)
            accents = self.table_.accents
            self.kernels_ = fit_kernels(demos, base if accents is None else base * accents.along(data))
        return self

    def livelier(self, backoff: float, power: float = 1.0) -> Self:
        """The same habit, its rare contexts and, by a power of their effects, its individuals shrunk less."""
        found = copy(self)
        found.table_ = copy(self.table_)
        if (accents := self.table_.accents) is not None:
            found.table_.accents = replace(accents, factors=accents.factors**power)
        found.table_.backoff, found.backoff_ = backoff, backoff
        found.table_.policies = found.table_._shrink(found.table_.counts)
        return found

    def _check_parameters(self) -> None:
        check_numbers(self, dict.fromkeys(["max_length", *["length"] * (self.length != "auto")], 1), integer=True)
        check_numbers(self, dict.fromkeys(["smoothing", *["backoff"] * (self.backoff != "auto")], 0))
        check_numbers(self, {"validation_fraction": 0}, below=1)
        check_numbers(self, {"folds": 1}, integer=True)
        check_numbers(self, {"own_strength": 0} if self.own_strength is not None else {})
        check_choice(self, reads=("auto", *READS))
        if self.kernels not in ("auto", True, False):
            raise InputError(f"kernels is {self.kernels!r}; give auto, True or False.")

    def _screen(self, demos: Demonstrations, splits: Sequence[Split]) -> list[Memory]:
        """Length and strength that predict best with each kind of contexts, without individuals and kernels."""
        lengths = range(1, self.max_length + 1) if self.length == "auto" else [self.length]
        backoffs = BACKOFFS if self.backoff == "auto" else (self.backoff,)
        known: tuple[Reads, ...] = READS if self.reads == "auto" else (self.reads,)
        if self.reads == "auto" and max(lengths) == 1:
            known = ("states",)
        elif self.reads == "auto" and reveals_actions(demos):  # actions alone may still make the shorter memory
            known = ("states", "actions") if len(splits) > 1 else ("states",)
        self.validation_: list[dict[str, Any]] = []
        # without anything to choose on, no memory rather than an unfounded one
        unfounded = Memory(int(lengths[0]), known[0], float(backoffs[len(backoffs) // 2]), self.kernels is True)
        if len(lengths) == len(backoffs) == len(known) == 1 or not splits:
            return [unfounded]
        weights = np.array([rest.n_steps for _, rest in splits]) / sum(rest.n_steps for _, rest in splits)
        options: dict[str, Any] = {"lengths": list(lengths), "backoffs": backoffs, "smoothing": self.smoothing}
        found = []
        for reads in known:
            best, memory = -np.inf, unfounded._replace(reads=reads)
            tried = [choose_history(*split, 1, reads=reads, **options).tried for split in splits]
            for rows in zip(*tried, strict=True):
                score = float(sum(weight * row["log_likelihood"] for weight, row in zip(weights, rows, strict=True)))
                length, backoff = int(rows[0]["length"]), float(rows[0]["backoff"])
                self.validation_.append({"reads": reads, "length": length, "backoff": backoff, "log_likelihood": score})
                if score > best + (LENGTH_GAIN if length > memory.length else 0.0):
                    best, memory = score, Memory(length, reads, backoff, self.kernels is True)
            found.append(memory)
        return found

    def _info(self) -> dict[str, Any]:
        """Sizes, and what was chosen on what evidence."""
        own = {"length": self.length_, "reads": self.reads_, "backoff": self.backoff_, "validation": self.validation_}
        return super()._info() | own

    def _load_state(self, tensors: dict[str, Any], info: dict[str, Any]) -> None:
        """As for every reference, with the choices."""
        super()._load_state(tensors, info)
        self.length_, self.backoff_ = int(info["length"]), float(info["backoff"])
        self.reads_ = self.contexts_.reads
        self.validation_ = info["validation"]


class WorldOracle(IntentionModel):
    """The exact Bayes filter and smoother of the generating process: nothing to fit, nothing can beat it."""

    def __init__(self, world: Any) -> None:
        self.world = world
        self.n_intentions = len(world.policies)

    def fit(self, demos: Demonstrations, mdp: MDP | None = None) -> Self:
        """Remember the sizes."""
        self.n_states_, self.n_actions_ = demos.n_states, demos.n_actions
        return self

    def action_proba(self, demos: Demonstrations) -> FloatArray:
        """p(a | past) under the true process."""
        return np.asarray(self.world.oracle(demos).action_proba)

    def predict_proba(self, demos: Demonstrations) -> FloatArray:
        """P(z_t | everything) under the true process."""
        return np.asarray(self.world.oracle(demos).smoothed)

    @property
    def policies_(self) -> FloatArray:
        """The agent's policies."""
        return np.asarray(self.world.policies)


def one_policy() -> Intentions:
    """One Gaussian policy for all steps, linear in what is observed: one regression, and nothing to iterate."""
    options: Any = {"switching": "single", "rewards": "features", "n_starts": 1, "validation_fraction": 0.0}
    return Intentions(1, **options, n_candidates=1, warm_up=0, max_iterations=1, device="cpu")


def with_references(methods: Sequence[Method], demos: Demonstrations | None = None) -> list[Method]:
    """The methods asked for, and behind them the references that are not among them.

    Beside densities of continuous data stands one policy without intentions: a probability of tokens is in other units.
    """
    there = {method.id for method in methods}
    known = (ONE_POLICY,) if demos is not None and demos.state_space.continuous else REFERENCES
    return [*methods, *(registry.method(name, None) for name in known if name not in there)]


def check_comparable(methods: Sequence[Method], demos: Demonstrations) -> None:
    """Refuse methods that choose tokens where the data are continuous: their likelihood is no density of commands."""
    if not demos.state_space.continuous:
        return
    for method in methods:
        if not (isinstance(method.model, Intentions) and method.model.reward_options.of_commands):
            raise InputError(
                f"{method.id} gives probabilities of tokens, which cannot be compared with densities of continuous "
                "commands; name pairs with features, landmarks or windows, such as markov+features."
            )


def reference_scores(demos: Demonstrations, validation: BoolArray) -> dict[str, dict[str, Any]]:
    """Mean predictive log-likelihood per step of each reference, fitted to the training trajectories alone.

    ``validation`` (N,) are the trajectories that the fit beside it did not train on; their scores are None where there
    are none.
    """
    if demos.state_space.continuous:
        return continuous_scores(demos, validation)
    train = demos.subset(np.flatnonzero(~validation))
    rest = demos.subset(np.flatnonzero(validation)) if validation.any() else None
    scores = {}
    for method in with_references([]):
        model = method.model.fit(train)
        found = {"train": model.score(train), "validation": None if rest is None else model.score(rest)}
        scores[method.id] = {"name": method.name, "predictive_ll": found}
    return scores


def continuous_scores(demos: Demonstrations, validation: BoolArray) -> dict[str, dict[str, Any]]:
    """The same for continuous commands: log densities of one Gaussian, of one policy, and of one that remembers.

    Of large data they are fitted to `em.SOME` steps, and scored in parts on all that validation has.
    """
    most = em.SOME if demos.n_steps > em.LARGE else demos.n_steps
    taught, held_out = some_trajectories(demos, most, 0, np.flatnonzero(~validation)), np.flatnonzero(validation)
    scores = {}
    for key, name, seen in (
        ("gaussian", "the same at all times", lambda part: replace(part, observations=np.zeros((part.n_steps, 1)))),
        ("linear", "linear in what is observed", lambda part: part),
        ("memory", f"linear in what is observed and in the last {MEMORY} steps", partial(with_memory, steps=MEMORY)),
    ):
        train = seen(demos.subset(taught))
        model = _Predictor(**one_policy().get_params()).fit(train)
        rest = [model.log_likelihood(seen(part)) for _, part in parts_of(demos, most, held_out)]
        score = float(np.concatenate(rest).mean()) if rest else None
        scores[key] = {"name": name, "predictive_ll": {"train": model.score(train), "validation": score}}
    return scores


class _Predictor(Intentions):
    """Predicts and wants nothing: the reward of a reference, which takes longer than its fit, is nobody's question."""

    def _learn_rewards(self, demos: Demonstrations) -> None:
        """Nothing to learn."""
