"""The protocol of a reward model: policies per intention, and how to improve them from responsibilities.

A reward model answers *what*: it scores every step under every intention, log π_k(a_t | context), and is refitted
with each step weighted by its responsibility, Eq. (reward_opt). It never knows how intentions switch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from prism_irl import checked
from prism_irl.arrays import FloatArray
from prism_irl.data.batching import Prepared, Stats
from prism_irl.data.contexts import Contexts
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.labels import alignment
from prism_irl.errors import InputError
from prism_irl.mdp import MDP
from prism_irl.rewards.iavi import InverseSolution

if TYPE_CHECKING:
    from prism_irl.rewards.accents import Accents
    from prism_irl.switching.base import Switching

IntArray = npt.NDArray[np.integer[Any]]
ROUNDING = 1e-9
"""Nats per step by which a candidate must be likelier: two that end in the same optimum differ by rounding alone, and
the order of the intentions would depend on the machine."""


class ActionTable(NamedTuple):
    """Policies as a table over pairs of context and action, and what counting in it gives."""

    policies: FloatArray
    """π_k(a | context), (P, K)."""
    statistics: Callable[[FloatArray], Stats]
    """`RewardModel.statistics` from the expected counts (P, K) of the pairs."""


class Ends(NamedTuple):
    """Where intentions are reached, G of them, and what the search for these places has found beside.

    ``at`` (G, d) is a place in the units of the fit, or has ones at the states (G, S) where it is reached. Where trips
    of an intention go to one of several places, ``owner`` (G,) is the intention that each belongs to, and ``tilt``
    (G, S, A) the policy on the way there over that of the intention. ``reminders`` (G, K) are probabilities that each
    place brings each intention about, ``distances`` (K, S) expected steps to where an intention ends, on a map, and
    ``facts`` (K,) what else is known of its place.
    """

    at: FloatArray
    owner: npt.NDArray[np.int64] | None = None
    tilt: FloatArray | None = None
    reminders: FloatArray | None = None
    distances: FloatArray | None = None
    facts: Mapping[str, FloatArray] = {}


class RewardModel(ABC):
    """Policies of K intentions.

    Attributes
    ----------
    exact : `update` maximises likelihood plus `log_prior`, so that EM with an exact chain never falls
    is_density : `log_likelihood` is a density of commands and no probability of actions
    sparse : rewards are a few places, one explanation among its shapings chosen on purpose
    looks_ahead : `log_likelihood` has seen what comes after a step; what predicts is `predictive_log_likelihood`
    distributions : names in `state` of what must sum to one over its last axis
    learned : attributes that determine the model, arrays
    of_all_steps : statistics that say how much data there is, the same where some are left out
    adds_up : statistics are a few sums, however many steps and contexts: large data are then read in parts
    accents : how individuals differ, where they do
    """

    n_intentions: int
    n_actions: int
    is_density: ClassVar[bool] = False
    sparse: ClassVar[bool] = False
    looks_ahead: ClassVar[bool] = False
    distributions: ClassVar[tuple[str, ...]] = ("policies",)
    learned: ClassVar[tuple[str, ...]] = ()
    of_all_steps: ClassVar[tuple[str, ...]] = ()
    adds_up: ClassVar[bool] = False
    closed_form: ClassVar[bool] = False
    accents: Accents | None = None

    @property
    def exact(self) -> bool:
        """See above."""
        return self.closed_form

    @abstractmethod
    def log_likelihood(self, data: Prepared) -> FloatArray:
        """Log π_k(a_t | context_t) of every step, (n, K)."""

    def predictive_log_likelihood(self, data: Prepared) -> FloatArray:
        """The same from what is known before a_t alone, (n, K), where `log_likelihood` looks ahead."""
        return self.log_likelihood(data)

    def log_density(self, observations: npt.NDArray[Any], commands: FloatArray, *design: FloatArray) -> FloatArray:
        """Log density of commands (n, m) given observations (n, d), (n, K), where policies are over commands.

        ``design`` (n, m, p) holds the vectors that explain a command, where the fit had some.
        """
        raise InputError(f"{type(self).__name__} choose tokens and have no density of commands.")

    @abstractmethod
    def statistics(self, data: Prepared, weights: FloatArray) -> Stats:
        """What `update` needs of these steps, weighted by responsibilities (n, K); added up over parts of the data."""

    @abstractmethod
    def update(self, stats: Stats) -> None:
        """Eq. (reward_opt): refit each intention to the statistics of all data."""

    def m_step(self, data: Prepared, weights: FloatArray) -> None:
        """`update` from the statistics of these steps, weighted by responsibilities (n, K)."""
        self.update(self.statistics(data, weights))

    def action_table(self, most: int | None = None) -> ActionTable | None:
        """Policies of every pair that `Prepared.pairs` numbers, of models that fit by counts alone.

        None where steps differ by more than their pair, or where there are more than ``most`` pairs: with a long memory
        most of them occur once, and the table is larger than the data.
        """
        return None

    def log_prior(self) -> float:
        """Log density of the prior that `update` takes into account, up to a constant."""
        return 0.0

    @abstractmethod
    def policies_at(self, rows: IntArray) -> FloatArray:
        """π_k(a | context) at context rows (n,), (n, K, A)."""

    def policies_along(self, data: Prepared, steps: IntArray) -> FloatArray:
        """π_k(a | everything that policies read) at flat steps (m,) of the data, (m, K, A)."""
        return self.policies_at(data.rows[steps])

    def policies_for(self, rows: IntArray, who: npt.NDArray[np.int64] | None) -> FloatArray:
        """π_k(a | context, individual) at context rows (n,), for individuals (n,), (n, K, A)."""
        return self.policies_at(rows)

    def policies_given(self, rows: IntArray, states: IntArray, observations: FloatArray | None) -> FloatArray:
        """The same for steps of a stream, from context rows, states (n,) and observations (n, d)."""
        return self.policies_at(rows)

    @property
    def ends(self) -> Ends | None:
        """Where each intention is reached; None where rewards are no places."""
        return None

    def first_guess(self, fit: Fit) -> None:
        """Begin a start: from first responsibilities, and with what short runs of a constant chain make of them.

        The likeliest of the candidates is kept, and its chain left in ``fit.chain`` for the switching model.
        """
        if fit.switching.constant() is None or not len(fit.powers):
            self.m_step(fit.train, fit.first_responsibilities())
            return
        best: tuple[float, Any, dict[str, FloatArray]] | None = None
        for _ in range(fit.candidates):
            self.m_step(fit.train, fit.first_responsibilities())
            likelihood, chain = fit.warm_up(self)
            if best is None or likelihood > best[0] + ROUNDING:
                best = likelihood, chain, {name: value.copy() for name, value in self.state().items()}
        assert best is not None
        fit.chain = best[1]
        self.load_state(best[2])

    def finish(self, fit: Fit) -> None:  # noqa: B027
        """What only has to be done once, of the best start, when EM has ended."""

    def state(self) -> dict[str, FloatArray]:
        """Arrays that determine the model."""
        return {name: getattr(self, name) for name in self.learned}

    def load_state(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Undo `state`."""
        self._set_arrays(state, *self.state())

    def _set_arrays(self, state: Mapping[str, npt.NDArray[Any]], *names: str) -> None:
        for name in names:
            checked.shape(name, state[name], getattr(self, name).shape)
            if name in self.distributions:
                checked.distributions(name, state[name])
            setattr(self, name, state[name].copy())

    def solution(self, mdp: MDP) -> InverseSolution | None:
        """r, Q and V per state where the model plans; None where they follow from the policies (`rewards.iavi`)."""
        return None

    @property
    def state_rewards(self) -> FloatArray | None:
        """r_k(s), (K, S), of a model whose rewards are on states; else None."""
        return None

    def moved(self, mdp: MDP) -> RewardModel:
        """The same intentions planning in other dynamics; an `InputError` where their rewards say nothing there."""
        raise InputError(
            f"{type(self).__name__} are policies of this world, and rewards of single actions are read off them: what "
            "would be done in another one does not follow. Fit soft-1 or goals, or ask for agents that do not know of "
            "the change (--unaware)."
        )

    def check(self, demos: Demonstrations) -> None:  # noqa: B027
        """Raise an `InputError` where demonstrations lack what the policies read."""


class PolicyTable(RewardModel):
    """Policies that are a table over contexts: what all of them share.

    Attributes
    ----------
    policies : (K, C, A)
    """

    policies: FloatArray

    def statistics(self, data: Prepared, weights: FloatArray) -> Stats:
        """Weighted counts of actions in contexts, (K, C, A)."""
        return Stats(counts=self.weighted_counts(data, weights))

    def log_likelihood(self, data: Prepared) -> FloatArray:
        """Log π_k(a_t | c_t), (n, K); a state that the fit never named counts as uniform."""
        if self.accents is not None:
            return self._accented(data)
        known = self.policies.reshape(self.n_intentions, -1)
        padded = known if data.last_pair < known.shape[1] else self._padded()
        with np.errstate(divide="ignore"):
            if padded.shape[1] > len(data.pairs):  # of a long memory most pairs occur once
                return np.ascontiguousarray(np.log(padded[:, data.pairs]).T)
            return np.take(np.ascontiguousarray(np.log(padded).T), data.pairs, axis=0)

    def _padded(self) -> FloatArray:
        """Policies of all pairs, (K, P): those of the contexts, then uniform ones of a state without a name."""
        flat = self.policies.reshape(self.n_intentions, -1)
        return np.concatenate([flat, np.full((self.n_intentions, self.n_actions), 1.0 / self.n_actions)], axis=1)

    def policies_at(self, rows: IntArray) -> FloatArray:
        """π_k(a | c) at context rows, (n, K, A)."""
        last = self.policies.shape[1] - 1
        # a table of long histories is not copied
        found: FloatArray = np.take(self.policies, np.minimum(rows, last), axis=1)
        found[:, rows > last] = 1.0 / self.n_actions
        return found.transpose(1, 0, 2)

    def policies_along(self, data: Prepared, steps: IntArray) -> FloatArray:
        """π_k(a | context, individual) at flat steps (m,) of the data, (m, K, A)."""
        who = None if self.accents is None else self.accents.who(data.demos)[data.demos.trajectory_index[steps]]
        return self.policies_for(data.rows[steps], who)

    def policies_for(self, rows: IntArray, who: npt.NDArray[np.int64] | None) -> FloatArray:
        """The same at context rows (n,) of individuals (n,), an index each; -1 for a new one."""
        policies = self.policies_at(rows)
        if self.accents is None or who is None:
            return policies
        weights = policies * self.accents.at(rows, who)[:, None]
        return np.asarray(weights / weights.sum(-1, keepdims=True))

    def _accented(self, data: Prepared) -> FloatArray:
        """Log π_k(a_t | c_t) ρ_g(a_t | c_t) / Σ_a π_k ρ_g, (n, K): for every choice that occurs, then for its steps."""
        assert self.accents is not None
        met = self.accents.met(data)
        found = np.empty((len(met.pairs), self.n_intentions))  # choices first: steps then copy whole rows
        unknown = np.full((1, self.n_actions), 1.0 / self.n_actions)
        for k, policies in enumerate(self.policies):
            table = np.concatenate([policies, unknown])
            total = np.einsum("ua,ua->u", np.take(table, met.rows, axis=0), met.factors)
            found[:, k] = np.take(table, met.pairs) * met.taken / np.take(total, met.place)
        with np.errstate(divide="ignore"):
            return np.take(np.log(found), met.steps, axis=0)

    def weighted_counts(self, data: Prepared, responsibilities: FloatArray) -> FloatArray:
        """Σ_t w_tk 1[c_t = c, a_t = a], (K, C, A)."""
        C, A = self.policies.shape[1:]
        counts: FloatArray = np.empty((self.n_intentions, C, A))
        for k, weights in enumerate(responsibilities.T):
            counts[k] = np.bincount(data.pairs, weights=weights, minlength=(C + 1) * A)[: C * A].reshape(C, A)
        return counts


class Problem(NamedTuple):
    """What reward models are built for: sizes and masks of the data, contexts, back-off strength and dynamics.

    ``found`` is what `RewardOptions.discover` has found in the data before EM, if it looks for something.
    """

    n_intentions: int
    demos: Demonstrations
    contexts: Contexts
    backoff: float
    mdp: MDP | None
    found: Any = None


class Fit(ABC):
    """What the hooks of components see of a fit: one start that begins (`first_guess`), or the best that has ended.

    Attributes
    ----------
    switching, rewards : the components of the start
    train, validation : what is trained on, and held out; for a first guess some of it, where it is large
    index, generator : number of the start, and its randomness
    chain : the Markov chain that a first guess has found, for the switching model to begin with
    candidates, powers : first points to try, and the powers of the emissions in the iterations that each of them gets
    data, mdp : when EM has ended, all trajectories, and the dynamics that rewards are solved on
    counted_validation : set where validation trajectories have taught something after all
    """

    switching: Switching
    rewards: RewardModel
    train: Prepared
    validation: Prepared | None = None
    index: int = 0
    generator: np.random.Generator
    chain: Any = None
    candidates: int = 1
    powers: FloatArray
    data: Prepared
    mdp: MDP
    counted_validation: bool = False

    @abstractmethod
    def first_responsibilities(self) -> FloatArray:
        """First responsibilities (n, K) of the training data, drawn anew."""

    @abstractmethod
    def warm_up(self, rewards: RewardModel) -> tuple[float, Any]:
        """Likelihood per step of a short run of a constant chain with these rewards, and the chain."""

    @abstractmethod
    def run_fixed(
        self, data: Prepared, emission: FloatArray, iterations: int, *, places: FloatArray | None = None
    ) -> tuple[float, Any]:
        """Likelihood per step of a Markov chain over fixed emissions (n, K) after some iterations, and the chain.

        With ``places`` (K, d) intentions end there.
        """

    @abstractmethod
    def responsibilities(self, data: Prepared, *, partial_labels: bool = True) -> FloatArray:
        """Responsibilities (n, K) under the components as they are, certain where labels say so, if they are read."""

    @abstractmethod
    def go_on(self) -> None:
        """More EM iterations of the switching model alone, the rewards as they are."""


def match_partial_labels(
    fit: Fit, rewards: RewardModel, reorder: Callable[[IntArray], None], *, keep_last: bool = False
) -> None:
    """Put the intentions that a search has found, and its chain, into the order of the partial labels, if any."""
    chain, train = fit.chain, fit.train
    if train.demos.partial_labels is None or chain is None:
        return
    found = chain.expectation(train, chain.reads(rewards.log_likelihood(train))).responsibilities
    order = alignment(found, train.demos, keep_last=keep_last)
    chain.initial.copy_(chain.initial[order])
    chain.kernel.copy_(chain.kernel[order][:, order])
    reorder(order)
