"""What the test for intentions does to the data, and to every surrogate in the same way: G₁ and G₂ on test folds.

G₁ is what intentions predict beyond a habit. The habit is fitted first, with a memory of what was done, individuals,
and several habits of which every trajectory has one where validation trajectories prefer that. Chains of intentions
then say how the present differs from the mean,

    p(a | past) ∝ h(a | past) (c(a | past) / c̄(a | c_t))^β,

where c is the prediction of the chain, c̄ that of its one policy with the same contexts, and β ≥ 0 a number: with 0 the
habit stands alone, so that chains are never charged for what the habit has learned better, and a chain with the memory
of the habit stands alone with 1. Which chain, and β, are chosen on validation trajectories inside the training fold.

G₂ is what goals that end predict beyond the same habit. An intention that is a place to get to, and ends there,
predicts whole ways, and so does a habit with a long memory once the ways are practised. Goals c stand beside the habit,

    p(a | past) ∝ h(a | past)^γ c(a | past)^β,

and are compared with the habit beside c̄, the mean of their policies at each state: what plans say of states that were
seldom seen is no intention. A flexible model gains a little wherever behaviour has a memory. How much, surrogates of
the habit say: G₂ of the data is ranked among theirs, and what counts is the excess.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.optimize import minimize, minimize_scalar

from prism_irl import limits
from prism_irl.data.contexts import Contexts, levels_of
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.mdp import MDP
from prism_irl.models.base import validation_split
from prism_irl.models.references import NGram
from prism_irl.models.starts import first_responsibilities
from prism_irl.rewards.detours import Detours
from prism_irl.rewards.place_search import SETTINGS, Goals, GoalSearch, Steps, habit_of
from prism_irl.rewards.places import candidates_of, place_of
from prism_irl.studies.chains import SMOOTHING, Encoded, TableChain, fit_chain

CHOOSING = 5
"""Folds over which the habit chooses its memory, once for all folds and surrogates of the test."""
FEW_GROUPS = 4
"""Fewer animals than this are not divided into halves; their trajectories are."""


def independent(demos: Demonstrations) -> str:
    """What counts as one independent piece of the data: an animal where there are several, else a trajectory."""
    return "group" if demos.n_groups >= FEW_GROUPS else "trajectory"


@dataclass(frozen=True)
class Analysis:
    """What is done to the data, and to every surrogate in the same way.

    Parameters
    ----------
    intentions : numbers of intentions of the chains
    folds : parts of the cross-validation
    by : what a fold keeps together
    starts, max_iterations : of every chain
    seed : the one source of randomness
    goal_steps : steps of the trajectories that goals are fitted to at most; more of them are a sample
    """

    intentions: tuple[int, ...] = (2, 3)
    folds: int = 5
    by: str = "trajectory"
    starts: int = 2
    max_iterations: int = 40
    seed: int = 0
    goal_steps: int = 40_000

    def __post_init__(self) -> None:
        if not self.intentions or min(self.intentions) < 2:
            raise InputError("Evidence is about two intentions or more; write --intentions 2,3.")
        if self.folds < 2 or self.starts < 1 or self.max_iterations < 1:
            raise InputError("Evidence needs at least 2 folds, 1 start and 1 iteration.")
        for name in ("folds", "starts", "max_iterations", "seed"):
            limits.check_option(name, getattr(self, name))

    def individuals(self, demos: Demonstrations) -> bool:
        """Whether habits know the animals: there are several, and folds do not leave whole ones out."""
        return self.by == "trajectory" and demos.n_groups > 1

    def habit(self, demos: Demonstrations) -> NGram:
        """The unfitted habit."""
        options: dict[str, Any] = {"smoothing": SMOOTHING, "validation_fraction": VALIDATION, "folds": CHOOSING}
        return NGram(individuals=self.individuals(demos), seed=self.seed, **options)


# -- G₁ ----------------------------------------------------------------------------------------------------------------


FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
VALIDATION = 0.2
"""Share of the training trajectories that chooses among chains."""
LARGEST = 2.0
"""Largest β."""
BINS = 4
"""Quantiles of a covariate, each with a kernel of its own."""
MIXTURE = 3
SLOW = 4
"""Habits of halves of trajectories that surrogates mix."""
MIXTURE_GAIN = 1e-3
"""Nats per step on validation trajectories that several habits must gain over one."""


class Recipe(NamedTuple):
    """A chain that is tried: how many intentions, with the memory of the habit or without, and what switches follow.

    ``follows`` is "" for a Markov chain, "state", or the number of a covariate.
    """

    n_intentions: int
    remembers: bool = False
    follows: str = ""
    switches: bool = True
    stay: float = 1.0

    @property
    def name(self) -> str:
        """What tables call it."""
        told = {"": "", "state": " by state"}.get(self.follows, f" by covariate {self.follows}")
        return f"K={self.n_intentions}{told}{' with memory' if self.remembers else ''}"


def recipes(analysis: Analysis, habit: NGram, n_covariates: int = 0) -> list[Recipe]:
    """Chains that are tried beside this habit."""
    few, memories = min(analysis.intentions), [False] + [True] * (habit.length_ > 1)
    found = [Recipe(few, memory) for memory in memories]
    found += [Recipe(K) for K in analysis.intentions if few != K]
    found += [Recipe(few, False, "state")]
    return found + [Recipe(few, False, str(i)) for i in range(n_covariates)]


def habits(
    parts: Sequence[Demonstrations], mdp: MDP | None, analysis: Analysis, memory: Mapping[str, Any]
) -> list[NGram]:
    """A habit with this memory of every part of the data."""
    return [NGram(**{**analysis.habit(part).get_params(), **memory}).fit(part, mdp) for part in parts]


def fold_gains(
    train: Demonstrations, test: Demonstrations, mdp: MDP | None, analysis: Analysis, memory: Mapping[str, Any]
) -> tuple[dict[str, FloatArray], str, bool]:
    """Fit a habit with this memory and chains to the training trajectories; score all of them on the test ones.

    Returns
    -------
    log-likelihoods (N_test,) : "plain" and "habit", one habit and several; "intentions" beside it; "chain", alone,
        without memory; and "follows x" of a chain whose switches follow covariate x, or none ("")
    chosen : name of the chain with intentions
    several : whether several habits are better than one
    """
    fitted, held_out = validation_split(train, VALIDATION, analysis.seed)
    assert held_out is not None
    habit, again = habits((train, fitted), mdp, analysis, memory)
    with np.errstate(divide="ignore"):
        before, after = np.log(again.action_proba(held_out)), np.log(habit.action_proba(test))
    found = {"plain": likelihoods(after, test)}
    mixture = Recipe(MIXTURE, habit.length_ > 1, switches=False)
    ratios, _ = _search(mixture, habit, fitted, held_out, test, analysis)
    beta, gain = best_power(before, ratios[0], held_out)
    several = gain > MIXTURE_GAIN
    if several:
        before, after = (weighted(pair, (1.0, beta)) for pair in ((before, ratios[0]), (after, ratios[1])))
    found["habit"] = likelihoods(after, test)
    few, best, chosen = min(analysis.intentions), -1.0, ""
    n_covariates = 0 if train.observations is None else train.observations.shape[1]
    for recipe in recipes(analysis, habit, n_covariates):
        ratios, chain = _search(recipe, habit, fitted, held_out, test, analysis)
        beta, gain = best_power(before, ratios[0], held_out)
        score = likelihoods(weighted((after, ratios[1]), (1.0, beta)), test)
        if recipe == Recipe(few):
            alone = taken(ratios[1], test) + chain.mean_log_likelihood(test)
            found["chain"] = np.add.reduceat(alone, test.offsets[:-1])
        if n_covariates and recipe.n_intentions == few and recipe.follows != "state" and not recipe.remembers:
            found[f"follows {recipe.follows}"] = score
        if gain > best:
            best, chosen, found["intentions"] = gain, recipe.name, score
    return found, chosen, several


class Slow(NamedTuple):
    """How trajectories differ, and change from their first half to their second; what is slow is no intention.

    ``weights`` (N, 2, K) of several habits in the halves of every trajectory; ``ratios`` (S + 1, A, K) what each of
    them does more often than all of them do, by state, to the power that predicts best.
    """

    weights: FloatArray
    ratios: FloatArray

    def livelier(self, power: float) -> Slow:
        """The same, its effects to a power."""
        return self._replace(ratios=self.ratios**power)

    def factors(self, states: IntArray, trajectories: IntArray, along: FloatArray) -> FloatArray:
        """What the habit is multiplied by, (B, A), so far (B,) along these trajectories, from 0 to 1."""
        first, second = self.weights[trajectories].swapaxes(0, 1)
        own = first + np.clip(2 * along - 0.5, 0, 1)[:, None] * (second - first)
        return np.asarray(np.einsum("bk,bak->ba", own, self.ratios[states]))


def slow_gain(demos: Demonstrations, habit: NGram, analysis: Analysis) -> tuple[float, float]:
    """Nats per step that habits which follow one another about once per trajectory add to this one, and their power.

    On test folds. Whatever is found here is slower than an intention.
    """
    powers, gain, settings = [], 0.0, habit.get_params() | remembered(habit)
    for a, b in demos.fold_indices(min(3, analysis.folds), by=analysis.by, seed=analysis.seed):
        train, test = demos.subset(a), demos.subset(b)
        with np.errstate(divide="ignore"):
            before = np.log(NGram(**settings).fit(train).action_proba(test))
        power, own = best_power(before, _slow_chain(train, test, habit, analysis).ratio(_plain(test)), test)
        powers.append(power)
        gain += own * test.n_steps / demos.n_steps
    return gain, float(np.mean(powers))


def find_slow(demos: Demonstrations, habit: NGram, power: float, analysis: Analysis) -> Slow:
    """What such habits do, and how much of each there is in the halves of every trajectory."""
    train, rest = validation_split(demos, VALIDATION, analysis.seed)
    chain = _slow_chain(train, rest or train, habit, analysis)
    half = 2 * demos.trajectory_index + (2 * demos.step_index >= np.repeat(demos.lengths, demos.lengths))
    steps = np.bincount(half, minlength=2 * len(demos))
    known = chain.smoothed(_plain(demos)).T
    total: FloatArray = np.stack([np.bincount(half, own, len(steps)) for own in known], axis=1).astype(np.float64)
    total[1::2] = np.where(steps[1::2, None] > 0, total[1::2], total[::2])  # a single step has one half
    weights = total / total.sum(1, keepdims=True)
    ratios = np.divide(chain.table, chain.one, out=np.ones_like(chain.table), where=chain.one > 0)
    return Slow(weights.reshape(-1, 2, SLOW), ratios.reshape(-1, demos.n_actions, SLOW) ** power)


def _slow_chain(train: Demonstrations, held_out: Demonstrations, habit: NGram, analysis: Analysis) -> TableChain:
    recipe = Recipe(SLOW, switches=False, stay=1 - 1 / float(train.lengths.mean()))
    contexts = Contexts(train.n_states)
    return _best_start(recipe, contexts, train, _plain(train), _plain(held_out), 1, habit.backoff_, analysis)


def _plain(demos: Demonstrations) -> Encoded:
    return Encoded.of(demos, Contexts(demos.n_states))


def label(demos: Demonstrations, fitted: Demonstrations, held_out: Demonstrations, analysis: Analysis) -> IntArray:
    """Likeliest intention of every step by the smallest chain without memory, fitted to some trajectories."""
    contexts = Contexts.fit(fitted, 1)
    data, seen, all_of_it = (Encoded.of(them, contexts) for them in (fitted, held_out, demos))
    recipe = Recipe(min(analysis.intentions))
    chain = _best_start(recipe, contexts, fitted, data, seen, 1, 0.0, analysis)
    return np.asarray(chain.smoothed(all_of_it).argmax(1))


def remembered(habit: NGram) -> dict[str, Any]:
    """What a habit has chosen to remember, as options."""
    accents = habit.table_.accents
    return {
        "length": habit.length_,
        "backoff": habit.backoff_,
        "reads": habit.reads_,
        "kernels": habit.kernels_ is not None,
        "own_strength": None if accents is None else accents.strength,
    }


def _search(
    recipe: Recipe,
    habit: NGram,
    fitted: Demonstrations,
    held_out: Demonstrations,
    test: Demonstrations,
    analysis: Analysis,
) -> tuple[tuple[FloatArray, FloatArray], TableChain]:
    """What the best of some starts adds to its mean on validation and on test trajectories, and the chain."""
    length = levels_of(habit.length_, habit.reads_) if recipe.remembers else 1
    contexts = Contexts.fit(fitted, length, habit.reads_ if recipe.remembers else "states")
    groups, n_groups = grouping(recipe.follows, fitted)
    data, seen, rest = (Encoded.of(them, contexts, groups(them)) for them in (fitted, held_out, test))
    chain = _best_start(recipe, contexts, fitted, data, seen, n_groups, habit.backoff_, analysis)
    return (chain.ratio(seen), chain.ratio(rest)), chain


def _best_start(
    recipe: Recipe,
    contexts: Contexts,
    fitted: Demonstrations,
    data: Encoded,
    seen: Encoded,
    n_groups: int,
    backoff: float,
    analysis: Analysis,
) -> TableChain:
    """The chain that predicts validation trajectories best, of some starts."""
    best, chosen = -np.inf, None
    for start in range(analysis.starts):
        chain = TableChain(recipe.n_intentions, contexts, fitted, backoff, n_groups=n_groups, switches=recipe.switches)
        generator = np.random.default_rng([analysis.seed, start])
        if not recipe.switches:
            chain.kernels = np.full_like(chain.kernels, (1 - recipe.stay) / (recipe.n_intentions - 1))
            chain.kernels[:, range(recipe.n_intentions), range(recipe.n_intentions)] = recipe.stay
        kind: Any = ("windows", "random")[start % 2]
        first = first_responsibilities(kind, fitted, recipe.n_intentions, generator)
        score = fit_chain(chain, data, seen, first, analysis.max_iterations)
        if chosen is None or score > best:
            best, chosen = score, chain
    assert chosen is not None
    return chosen


def grouping(follows: str, fitted: Demonstrations) -> tuple[Any, int]:
    """Function of demonstrations → group of the kernel at every step, and how many groups there are."""
    if follows == "state":
        S = fitted.n_states

        def left(demos: Demonstrations) -> IntArray:
            before = np.concatenate([demos.states[:1], demos.states[:-1]]).astype(np.int64)
            return np.asarray(np.minimum(before, S))

        return left, S + 1
    if follows == "":
        return (lambda demos: None), 1
    column = int(follows)
    assert fitted.observations is not None
    edges = np.unique(np.quantile(fitted.observations[:, column], np.arange(1, BINS) / BINS))

    def quantile(demos: Demonstrations) -> IntArray:
        assert demos.observations is not None
        return np.searchsorted(edges, demos.observations[:, column], side="left").astype(np.int64)

    return quantile, len(edges) + 1


# -- predictions that are put together ---------------------------------------------------------------------------------


def weighted(logs: Sequence[FloatArray], powers: Sequence[float] | FloatArray) -> FloatArray:
    """Log of the product of predictions to their powers, normalised, (n, A)."""
    total: FloatArray = sum(power * log for power, log in zip(powers, logs, strict=True))
    top = total.max(1, keepdims=True)
    with np.errstate(divide="ignore"):
        return np.asarray(total - top - np.log(np.exp(total - top).sum(1, keepdims=True)))


def best_powers(logs: Sequence[FloatArray], demos: Demonstrations) -> tuple[FloatArray, float]:
    """Powers of a habit and another prediction that predict best, and their log-likelihood per step; or the habit."""

    def loss(powers: FloatArray) -> float:
        return -float(taken(weighted(logs, powers), demos).mean())

    options = {"xatol": 0.01, "fatol": 1e-5, "maxiter": 80}
    found = minimize(loss, [0.5, 0.5], method="Nelder-Mead", bounds=[(0.0, LARGEST)] * 2, options=options)
    alone = np.array([1.0, 0.0])
    return (found.x, -float(found.fun)) if found.fun < loss(alone) else (alone, -loss(alone))


def best_power(log_proba: FloatArray, ratio: FloatArray, demos: Demonstrations) -> tuple[float, float]:
    """β that predicts best, and what it gains over 0 in nats per step."""
    nothing = float(taken(log_proba, demos).mean())

    def loss(beta: float) -> float:
        return -float(taken(weighted((log_proba, ratio), (1.0, beta)), demos).mean())

    found = minimize_scalar(loss, bounds=(0.0, LARGEST), method="bounded", options={"xatol": 0.01})
    gain = -float(found.fun) - nothing
    return (float(found.x), gain) if gain > 0 else (0.0, 0.0)


def taken(log_proba: FloatArray, demos: Demonstrations) -> FloatArray:
    """Log-likelihood of every step, (n,)."""
    return np.asarray(log_proba[np.arange(demos.n_steps), demos.actions])


def likelihoods(log_proba: FloatArray, demos: Demonstrations) -> FloatArray:
    """Log-likelihood of every trajectory, (N,)."""
    return np.asarray(np.add.reduceat(taken(log_proba, demos), demos.offsets[:-1]))


# -- G₂ ----------------------------------------------------------------------------------------------------------------


PREDICTABLE = 0.5
"""Share of the uncertainty of the next state that the action must take away for states to be places."""
FEWEST = 5
"""Places below which nothing is a way."""
GOAL_FOLDS = 2
SETTING, NOISE, HEAVY, STRENGTH = SETTINGS[2], 0.02, 0.01, 30.0
"""Where the search begins, the share of the habit in every policy, the weight from which a place is a goal, and the
steps per state from which ways are practised."""
TINY = 1e-12


def are_places(demos: Demonstrations, mdp: MDP) -> bool:
    """Whether one gets from state to state by one's actions, as between places, and not by what is shown (trials).

    The action must take away half of the uncertainty H(s' | s) at least, with the frequencies of the data.
    """
    S, A = demos.n_states, demos.n_actions
    if len(np.unique(demos.states)) < FEWEST or A < 2:
        return False
    pairs = demos.states.astype(np.int64) * A + demos.actions
    weights = np.bincount(pairs, minlength=S * A) / demos.n_steps
    following = mdp.transitions.multiply(weights[:, None]).tocsr()
    given_both = _entropy(following.data) - _entropy(weights)
    by_state = sparse.kron(sparse.eye(S), np.ones((1, A)), "csr") @ following
    given_state = _entropy(by_state.data) - _entropy(weights.reshape(S, A).sum(1))
    return given_state > 1e-9 and 1 - given_both / given_state >= PREDICTABLE


def _entropy(p: FloatArray) -> float:
    return float(-(p * np.log(np.maximum(p, 1e-300))).sum())


def sample(demos: Demonstrations, analysis: Analysis) -> npt.NDArray[np.int64]:
    """Trajectories that goals are fitted to, in order: all of them, or as many as ``goal_steps`` steps."""
    order = np.random.default_rng([analysis.seed, 7]).permutation(len(demos))
    kept = order[np.cumsum(demos.lengths[order]) <= analysis.goal_steps]
    return np.sort(kept if len(kept) > GOAL_FOLDS else order[: GOAL_FOLDS + 1])


def goal_gains(
    demos: Demonstrations, detours: Detours, mdp: MDP | None, analysis: Analysis, memory: Mapping[str, Any]
) -> tuple[FloatArray, list[int]]:
    """Log-likelihood that goals add to the habit per trajectory, (N,), and the goals of all data.

    Each trajectory is predicted by fits to the other half of them.
    """
    gain, goals = np.zeros(len(demos)), set[int]()
    folds = min(GOAL_FOLDS, int(demos.units(analysis.by).max()) + 1)
    for train_index, test_index in demos.fold_indices(folds, by=analysis.by, seed=analysis.seed):
        train, test = demos.subset(train_index), demos.subset(test_index)
        fitted, held_out = validation_split(train, VALIDATION, analysis.seed)
        assert held_out is not None
        habit, again = habits((train, fitted), mdp, analysis, memory)
        search = GoalSearch(detours, habit_of(fitted, detours), NOISE)
        found = _look_for_goals(search, fitted)
        predictions = _goal_predictions(search, found, fitted, (held_out, test))
        before, after = (np.log(np.maximum(h.action_proba(one), TINY)) for h, one in ((again, held_out), (habit, test)))
        best, scores = -np.inf, list[FloatArray]()
        for log_before, log_after in zip(*predictions, strict=True):  # the mean of the goals, and the goals
            powers, score = best_powers([before, log_before], held_out)
            if score > best:
                best, kept = score, weighted([after, log_after], powers)
            scores.append(taken(kept, test))
        gain[test_index] = np.add.reduceat(scores[1] - scores[0], test.offsets[:-1])
        goals |= set(found.goals[found.chain.initial >= HEAVY].tolist()) - {detours.n_places}
    return gain, sorted(goals)


def _look_for_goals(search: GoalSearch, fitted: Demonstrations) -> Goals:
    """Goals with all that they may have: practised ways, an order, and an intention that goes nowhere."""
    place = search.detours.place
    steps = Steps(fitted, place)
    found, *_ = search.run(candidates_of(fitted, place), steps, SETTING, None)
    found = search.practise(found, steps, STRENGTH)
    if len(found.goals) == 1:
        return found
    return search.wander(search.order(found, steps, reminds=False), steps, instead=False)


def _goal_predictions(
    search: GoalSearch, found: Goals, fitted: Demonstrations, wanted: Sequence[Demonstrations]
) -> list[tuple[FloatArray, FloatArray]]:
    """Log-probabilities of every action (n, A) by the mean policy of goals at the state, and by goals; per data set."""
    S = len(search.habit)
    table = np.maximum(search.policies(found), TINY).transpose(1, 2, 0)
    own = search.believe(found, Steps(fitted, search.detours.place)).predicted
    weights = np.tile(own.mean(0), (S, 1))  # of one step, where nobody has been
    np.add.at(weights, fitted.states.astype(np.int64), own)
    mean = np.log(np.einsum("sk,sak->sa", weights / weights.sum(1, keepdims=True), table))
    result = []
    for demos in wanted:
        states = demos.states.astype(np.int64)
        now = search.believe(found, Steps(demos, search.detours.place)).predicted
        result.append((mean[states], np.log(np.einsum("nk,nak->na", now, table[states]))))
    return result


def find_detours(demos: Demonstrations, mdp: MDP) -> Detours | None:
    """Detours on the way to every place, where states are places."""
    return Detours(mdp, place_of(demos)) if are_places(demos, mdp) else None
