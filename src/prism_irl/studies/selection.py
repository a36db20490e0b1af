"""How many intentions does the data identify? Likelihood says what predicts, agreement says what is there.

For every K: the predictive log-likelihood by cross-validation, and R independent sets of M starts on all data.
The winners of the sets are compared by the adjusted Rand index, which needs no matching because it ignores names: if
equally good fits of the same data cut it differently, their intentions are not in the data. Use it before any fit is
interpreted; with free rewards likelihood goes on rising long after the winners have ceased to agree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.labels import ari, segments
from prism_irl.mdp import MDP
from prism_irl.models import registry
from prism_irl.models.pair import PairModel
from prism_irl.rewards.tabular import Tabular
from prism_irl.studies.full_fits import fit_to_all

AGREEMENT = 0.8  # winners that agree less than this do not show the same intentions
MINIMUM_USE = 0.02  # share of the steps below which an intention is hardly used
MINIMUM_DWELL = 2.0  # steps: intentions that last less have become actions

Build = Callable[[int], PairModel]


class Winner(NamedTuple):
    """The best of one set of starts on all data.

    Attributes
    ----------
    n_intentions : int
        K.
    score : float
        Likelihood per step that the starts of the set were compared by.
    labels : (n,) int
        Intention of every step.
    model : PairModel, optional
        The fit itself.
    """

    n_intentions: int
    score: float
    labels: npt.NDArray[np.int64]
    model: PairModel | None = None


@dataclass(frozen=True)
class Candidate:
    """What is known about one number of intentions K.

    Parameters
    ----------
    n_intentions : int
    predictive_ll, standard_error : float
        Mean over folds of the predictive log-likelihood per step, and its standard error.
    agreement : float or None
        Mean adjusted Rand index over pairs of winners; None for K = 1 and for a single set.
    winner_spread : float
        Difference in likelihood per step between the best and the worst winner.
    minimum_use : float
        Share of the steps of the least used intention, in the best winner.
    mean_dwell, minimum_dwell : float
        Mean length of a segment in steps, over all intentions and for the most fleeting one; 0 for one never used.
    use, dwell : tuple of float
        Share of the steps and mean dwell of each intention in the best winner, the most used first.
    """

    n_intentions: int
    predictive_ll: float
    standard_error: float
    agreement: float | None
    winner_spread: float
    minimum_use: float
    mean_dwell: float
    minimum_dwell: float
    use: tuple[float, ...]
    dwell: tuple[float, ...]

    @property
    def identified(self) -> bool:
        """Winners agree, and every intention is used and lasts; one intention always is."""
        if self.n_intentions == 1:
            return True
        agrees = self.agreement is not None and self.agreement >= AGREEMENT
        return agrees and self.minimum_use >= MINIMUM_USE and self.minimum_dwell >= MINIMUM_DWELL

    def row(self) -> dict[str, Any]:
        """Every number, for a table."""
        return {**asdict(self), "identified": self.identified}


class Choice(NamedTuple):
    """The outcome.

    Attributes
    ----------
    best : int
        K with the highest predictive likelihood.
    by_likelihood : int
        Smallest K within one standard error of the best.
    recommended : int
        K is raised up to `by_likelihood` for as long as the data identifies it.
    words : str
        The recommendation in plain words.
    """

    best: int
    by_likelihood: int
    recommended: int
    words: str


# -- fits on all data --------------------------------------------------------------------------------------------------


def independent_winners(
    demos: Demonstrations,
    build: Build,
    intentions: Sequence[int],
    *,
    sets: int = 3,
    starts: int = 16,
    mdp: MDP | None = None,
    jobs: int = 1,
    folder: Path | None = None,
) -> list[Winner]:
    """Return the winner of every set of starts on all data.

    Parameters
    ----------
    build : K → an unfitted model, whose seed the sets count on from
    sets : independent sets R
    starts : starts per set M
    folder : remembers winners, by configuration and data
    """
    if sets < 1 or starts < 1:
        raise InputError(f"{sets} sets of {starts} starts were asked for; give at least 1 of each.")
    models = [
        independent_model(build(k), index, starts)
        for k in intentions
        for index in range(sets if k > 1 else 1)  # one intention is found from anywhere
    ]
    winners = []
    for _, model in fit_to_all(models, demos, mdp, jobs=jobs, folder=folder):
        score = max(float(start["score"]) for start in model.starts_)
        winners.append(Winner(model.n_intentions, score, np.asarray(model.predict(demos), dtype=np.int64), model))
    return winners


def independent_model(model: PairModel, index: int, starts: int) -> PairModel:
    """Return the model of one set, with a seed of its own, so that its starts share nothing with those of other sets.

    A network is started at random and stops on validation trajectories, which the seed of the set chooses. A constant
    kernel (HIQL, or PRISM with Markov switching) uses all data, and its starts are annealed. Plain starts end in optima
    within 1e-3 nats per step of the best one that cut the data differently, and their disagreement is that of the
    search, not of the data: on the labyrinth with K = 2, winners of 16 plain starts agree to 0.63, those of eight
    annealed ones to 0.99 (docs/labyrinth.md).
    """
    K = model.n_intentions
    seed = model.seed + 1000 * (index + 1)
    # Goals are searched for in their own way.
    if model.switching_options.constant and isinstance(model.reward_options, Tabular):
        kept = ("history", "smoothing", "backoff", "max_iterations", "patience", "discount")
        options = {name: getattr(model, name) for name in kept}
        options |= {"n_starts": starts if K > 1 else 1, "validation_fraction": 0.0, "seed": seed}
        return cast(PairModel, registry.method("prism-markov", K, **options).model)
    fresh: PairModel = clone(model)
    fresh.set_params(n_starts=starts if K > 1 else 1, starts="random", seed=seed)
    return fresh


# -- numbers per K -----------------------------------------------------------------------------------------------------


def candidate(
    n_intentions: int, likelihoods: Sequence[float], winners: Sequence[Winner], offsets: npt.NDArray[np.int64]
) -> Candidate:
    """Summarise one K.

    Parameters
    ----------
    likelihoods : predictive log-likelihood per step of every fold
    winners : of the independent sets for this K
    offsets : (N + 1,) where trajectories begin
    """
    if not likelihoods or not winners:
        raise InputError(f"K = {n_intentions} has no fold or no fit on all data; give at least one of each.")
    scores = np.asarray(likelihoods, dtype=np.float64)
    error = float(scores.std(ddof=1) / np.sqrt(len(scores))) if len(scores) > 1 else 0.0
    pairs = [ari(a.labels, b.labels) for a, b in combinations(winners, 2)]
    best = max(winners, key=lambda winner: winner.score)
    cut = segments(best.labels, offsets)
    use = np.bincount(best.labels, minlength=n_intentions) / len(best.labels)
    lengths = (cut.lengths[cut.labels == k] for k in range(n_intentions))
    dwell = np.array([own.mean() if len(own) else 0.0 for own in lengths])
    order = np.argsort(-use, kind="stable")
    return Candidate(
        n_intentions=n_intentions,
        predictive_ll=float(scores.mean()),
        standard_error=error,
        agreement=float(np.mean(pairs)) if pairs and n_intentions > 1 else None,
        winner_spread=best.score - min(winner.score for winner in winners),
        minimum_use=float(use.min()),
        mean_dwell=float(cut.lengths.mean()),
        minimum_dwell=float(dwell.min()),
        use=tuple(float(share) for share in use[order]),
        dwell=tuple(float(length) for length in dwell[order]),
    )


# -- the choice --------------------------------------------------------------------------------------------------------


def one_standard_error(candidates: Mapping[int, Candidate]) -> tuple[int, int]:
    """Return the K that predicts best, and the smallest K within the standard error of the best."""
    best = max(candidates.values(), key=lambda c: (c.predictive_ll, -c.n_intentions))
    near = (k for k, c in candidates.items() if c.predictive_ll >= best.predictive_ll - best.standard_error)
    return best.n_intentions, min(near)


def choose(candidates: Mapping[int, Candidate]) -> Choice:
    """Recommend the number of intentions that both predicts and is identified.

    K rises from the smallest candidate and stops before the first that is not identified: where K intentions cannot
    be told apart, K + 1 on which fits agree again are usually the old ones split by something else, such as what
    happened just before. The words mention such a K. The rule was settled on the frustration gridworld, whose two
    intentions are known: the largest K on which fits agree is four there.
    """
    if not candidates:
        raise InputError("There is no number of intentions to choose from; give at least one.")
    best, limit = one_standard_error(candidates)
    recommended = min(candidates)
    for k in sorted(candidates):
        if k > limit or not candidates[k].identified:
            break
        recommended = k
    return Choice(best, limit, recommended, _words(candidates, best, limit, recommended))


def _words(candidates: Mapping[int, Candidate], best: int, limit: int, k: int) -> str:
    chosen = candidates[k]
    sentences = [_finding(chosen)]
    further = sorted(other for other in candidates if k < other <= limit)
    if further:
        sentences.append(_why_not(candidates[further[0]], chosen))
        again = [other for other in further if candidates[other].identified]
        if again:
            sentences.append(
                f"At K={again[0]} independent fits agree again ({candidates[again[0]].agreement:.2f}): look whether "
                f"its intentions are those of K={k} split in parts."
            )
    if limit == k:
        more = "" if best == k else f" (K={best} predicts best, but within one standard error)"
        sentences.append(f"Cross-validated likelihood chooses K={k} as well{more}.")
    else:
        gain = candidates[limit].predictive_ll - chosen.predictive_ll
        sentences.append(
            f"By likelihood alone K={limit} would be chosen (one-standard-error rule; {gain:.4f} nats per step above "
            f"K={k}): for prediction take K={limit}, for interpretation K={k}."
        )
        if limit == max(candidates):
            sentences.append(f"Likelihood was still rising at the largest K that was tried, {limit}.")
    return " ".join(sentences)


def _finding(chosen: Candidate) -> str:
    k = chosen.n_intentions
    if k == 1:
        return "The data identifies one intention."
    if not chosen.identified:
        return f"The data identifies none of the numbers of intentions that were tried; K={k} is the smallest."
    shares = ", ".join(f"{100 * share:.0f}%" for share in chosen.use)
    return (
        f"The data identifies {k} intentions: winners of independent fits agree to {chosen.agreement:.2f} (1 is the "
        f"same segmentation, 0 is chance), the intentions take {shares} of the steps and last "
        f"{chosen.mean_dwell:.1f} steps on average."
    )


def _why_not(other: Candidate, chosen: Candidate) -> str:
    """Say what K = `other` buys, and why it is not recommended all the same."""
    faults = []
    if other.agreement is None:
        faults.append("there was no second set of starts to confirm it")
    elif other.agreement < AGREEMENT:
        faults.append(f"winners of independent fits agree only to {other.agreement:.2f}")
    if other.minimum_use < MINIMUM_USE:
        faults.append(f"one intention takes only {100 * other.minimum_use:.1f}% of the steps")
    if other.minimum_dwell < MINIMUM_DWELL:
        faults.append(f"one intention lasts only {other.minimum_dwell:.1f} steps")
    gain = other.predictive_ll - chosen.predictive_ll
    return f"K={other.n_intentions} predicts better by {gain:.4f} nats per step, but {' and '.join(faults)}."
