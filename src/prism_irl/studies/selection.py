"""How many intentions does the data identify? A habit says whether any, likelihood what predicts, halves what is there.

For every K: the predictive log-likelihood by cross-validation, a fit to all data, and fits to disjoint halves of it (of
the animals, where there are several), whose labellings of all data are compared by the adjusted Rand index; it needs no
matching because it ignores names. Fits to the *same* data agree wherever the search is good, whether or not there is
anything to find: on data simulated from a habit without intentions they agree perfectly. Halves share what is in the
data and nothing else.

All fits of one K are the same search, that of `prism fit`, with other data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from sklearn.base import clone

from prism_irl import limits
from prism_irl.arrays import FloatArray, IntArray
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.figures import charts as drawing
from prism_irl.figures import style
from prism_irl.labels import ari, segments
from prism_irl.mdp import MDP
from prism_irl.models import registry
from prism_irl.models.intentions import Intentions
from prism_irl.models.registry import Method
from prism_irl.report.verdict import sentences
from prism_irl.studies import evidence, null, results
from prism_irl.studies.cross_validation import Evaluation, Extra, OnFit, cross_validate, fit_to_all
from prism_irl.studies.gains import Analysis, independent
from prism_irl.studies.intervals import scoring, write_score_intervals
from prism_irl.studies.null import MOST, OnWork

AGREEMENT = 0.8  # halves that agree less than this do not settle which step belongs to which intention
MINIMUM_USE = 0.02  # share of the steps below which an intention is hardly used
MINIMUM_DWELL = 2.0  # steps: intentions that last less have become actions
BAD_OPTIMUM = 0.002  # nats per step by which a search may stay behind what others found on the same data
MORE_STARTS = (3, 9)  # times as many, where a search has stayed behind, and where it still does

Build = Callable[[int], Intentions]


class Halves(NamedTuple):
    """What was found for one K: the model fitted to all data, and its labels (n,).

    ``agreements`` are adjusted Rand indices between labellings of all data from the two halves, for every way to divide
    the data, and ``with_all`` those between each half and the fit to all data; ``repeated``, the searches that had
    stayed behind and were made again with more starts.
    """

    n_intentions: int
    model: Intentions
    labels: IntArray
    agreements: tuple[float, ...] = ()
    with_all: tuple[float, ...] = ()
    repeated: int = 0


@dataclass(frozen=True)
class Candidate:
    """What is known about one number of intentions K.

    Parameters
    ----------
    predictive_ll, standard_error : mean over folds of the predictive log-likelihood per step, and its standard error
    agreement, shown_agreement : median of the agreements of `Halves`, and of those with the fit that is shown
    minimum_use : share of the steps of the least used intention
    mean_dwell, minimum_dwell : mean length of a segment in steps, over all intentions and for the most fleeting one
    use, dwell : share of the steps and mean dwell of each intention, the most used first
    gain, gain_error : mean over folds of the likelihood above that of the next smaller K, and its standard error
    """

    n_intentions: int
    predictive_ll: float
    standard_error: float
    agreement: float | None
    shown_agreement: float | None
    minimum_use: float
    mean_dwell: float
    minimum_dwell: float
    use: tuple[float, ...]
    dwell: tuple[float, ...]
    repeated: int = 0
    gain: float | None = None
    gain_error: float | None = None

    @property
    def lasts(self) -> bool:
        """Every intention is used and lasts."""
        return self.minimum_use >= MINIMUM_USE and self.minimum_dwell >= MINIMUM_DWELL

    @property
    def identified(self) -> bool:
        """Halves agree with each other and with what is shown, and every intention is used and lasts."""
        if self.n_intentions == 1:
            return True
        known = [value for value in (self.agreement, self.shown_agreement) if value is not None]
        return len(known) == 2 and min(known) >= AGREEMENT and self.lasts

    def row(self) -> dict[str, Any]:
        """Every number, for a table."""
        return {**asdict(self), "identified": self.identified}


class Choice(NamedTuple):
    """The K that predicts best, that where likelihood stops to rise by more than its error, and that of `choose`."""

    best: int
    by_likelihood: int
    recommended: int
    words: str


# -- fits --------------------------------------------------------------------------------------------------------------


def fit_halves(
    demos: Demonstrations,
    build: Build,
    intentions: Sequence[int],
    *,
    splits: int = 3,
    mdp: MDP | None = None,
    jobs: int = 1,
    folder: Path | None = None,
) -> dict[int, Halves]:
    """Fit every K to all data and to the two parts of every division of it; ``folder`` remembers the fits."""
    if splits < 1:
        raise InputError("Give at least 1 way to divide the data into halves (--splits).")
    parts: list[Demonstrations] = [demos]
    for seed in range(splits if len(demos) > 1 else 0):
        parts.extend(demos.split(0.5, by=independent(demos), seed=seed))
    fits: dict[int, list[Intentions]] = {K: [] for K in intentions}
    repeated = dict.fromkeys(intentions, 0)
    for part in parts:
        wanted = [K for K in intentions if K > 1 or part is demos]
        models = [build(K) for K in wanted]
        for K, (_, model) in zip(wanted, fit_to_all(models, part, mdp, jobs=jobs, folder=folder), strict=True):
            fits[K].append(model)
    for K in intentions:
        for times in MORE_STARTS:
            behind = [i for i in range(len(fits[K])) if stayed_behind(i, fits[K], parts)]
            for i in behind:
                again = fit_to_all([more_starts(build(K), times)], parts[i], mdp, folder=folder)[0][1]
                if again.score(parts[i]) > fits[K][i].score(parts[i]):
                    fits[K][i] = again
            repeated[K] += len(behind)
    found = {}
    for K in intentions:
        labels = [np.asarray(model.predict(demos), dtype=np.int64) for model in fits[K]]
        agreements = tuple(ari(labels[i], labels[i + 1]) for i in range(1, len(labels) - 1, 2))
        with_all = tuple(ari(labels[0], half) for half in labels[1:])
        found[K] = Halves(K, fits[K][0], labels[0], agreements, with_all, repeated[K])
    return found


def stayed_behind(index: int, fits: Sequence[Intentions], parts: Sequence[Demonstrations]) -> bool:
    """Whether another fit explains the data of this one better than itself does: its search ended in a bad optimum."""
    own = fits[index].score(parts[index])
    return any(other.score(parts[index]) > own + BAD_OPTIMUM for i, other in enumerate(fits) if i != index)


def more_starts(model: Intentions, times: int) -> Intentions:
    """The same unfitted model with so many times as many starts, none of which it has had."""
    fresh: Intentions = clone(model)
    fresh.set_params(n_starts=times * fresh.n_starts, seed=fresh.seed + 1000 * times)
    return fresh


# -- numbers per K -----------------------------------------------------------------------------------------------------


def candidate(
    likelihoods: Sequence[float], found: Halves, offsets: IntArray, below: Sequence[float] | None = None
) -> Candidate:
    """Summarise one K from the likelihood per step of every fold, and those of the next smaller K (``below``)."""
    K = found.n_intentions
    if not likelihoods:
        raise InputError(f"K = {K} has no fold; give at least one.")
    scores = np.asarray(likelihoods, dtype=np.float64)
    cut = segments(found.labels, offsets)
    use = np.bincount(found.labels, minlength=K) / len(found.labels)
    lengths = (cut.lengths[cut.labels == k] for k in range(K))
    dwell = np.array([own.mean() if len(own) else 0.0 for own in lengths])
    order = np.argsort(-use, kind="stable")
    gains = None if below is None else scores - np.asarray(below)
    return Candidate(
        n_intentions=K,
        predictive_ll=float(scores.mean()),
        standard_error=_error(scores),
        agreement=float(np.median(found.agreements)) if found.agreements else None,
        shown_agreement=float(np.median(found.with_all)) if found.with_all else None,
        minimum_use=float(use.min()),
        mean_dwell=float(cut.lengths.mean()),
        minimum_dwell=float(dwell.min()),
        use=tuple(float(share) for share in use[order]),
        dwell=tuple(float(length) for length in dwell[order]),
        repeated=found.repeated,
        gain=None if gains is None else float(gains.mean()),
        gain_error=None if gains is None else _error(gains),
    )


def _error(values: FloatArray) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


# -- the choice --------------------------------------------------------------------------------------------------------


def likelihood_limit(candidates: Mapping[int, Candidate]) -> tuple[int, int]:
    """Return the K that predicts best, and the K before the first that gains no more than its standard error.

    Folds differ among each other far more than K does on the same fold: what counts is the error of the difference.
    """
    best = max(candidates.values(), key=lambda c: (c.predictive_ll, -c.n_intentions)).n_intentions
    limit = min(candidates)
    for k in sorted(candidates)[1:]:
        gain, error = candidates[k].gain, candidates[k].gain_error or 0.0
        if gain is None or gain <= error:
            break
        limit = k
    return best, limit


def choose(candidates: Mapping[int, Candidate], evidence: Mapping[str, Any] | None = None) -> Choice:
    """Recommend a number of intentions, as far as the evidence goes.

    Without evidence for intentions beyond habit it is 1. Else it is the K on which labellings from disjoint halves
    agree best, among those up to which likelihood rises, whose intentions are used and last, and on which they agree to
    `AGREEMENT` at least; where they do so on none, the largest K up to which likelihood rises. ``evidence`` is
    `studies.evidence.summary`, or None where nothing was tested against a habit.
    """
    if not candidates:
        raise InputError("There is no number of intentions to choose from; give at least one.")
    best, limit = likelihood_limit(candidates)
    if evidence is not None and not evidence["found"]:
        recommended = min(candidates)
    else:
        pool = [c for k, c in candidates.items() if 1 < k <= limit and c.lasts and c.agreement is not None]
        # where halves settle nothing, likelihood has the last word, and the words say that it is not settled
        best_last = max((c.n_intentions for c in pool), default=min(candidates))
        settled = [c for c in pool if c.identified]
        top = max(settled, key=lambda c: (c.agreement or 0.0, -c.n_intentions), default=None)
        recommended = best_last if top is None else top.n_intentions
    return Choice(best, limit, recommended, _choice_words(candidates, evidence, limit, recommended))


def _choice_words(candidates: Mapping[int, Candidate], evidence: Mapping[str, Any] | None, limit: int, k: int) -> str:
    chosen = candidates[k]
    said = [_finding(chosen, evidence)]
    no = evidence is not None and not evidence["found"]  # tested against a habit, in vain
    if k > 1 and evidence is None:
        said.append("This was not tested against a habit without intentions (--surrogates 199).")
    others = sorted(other for other in candidates if 1 < other <= limit and other != k)
    if others and not no and k > 1:
        listed = ", ".join(f"{_number(candidates[other].agreement)} at K={other}" for other in others)
        said.append(f"Halves agree to {listed}.")
    if limit != k and not no:  # without evidence a habit is what predicts
        gain = candidates[limit].predictive_ll - chosen.predictive_ll
        said.append(
            f"Likelihood goes on rising up to K={limit} ({gain:+.4f} nats per step against K={k}): for prediction take "
            f"K={limit}, for interpretation K={k}."
        )
        if limit == max(candidates):
            said.append(f"It was still rising at the largest K that was tried, {limit}.")
    return " ".join(said)


def _finding(chosen: Candidate, evidence: Mapping[str, Any] | None) -> str:
    k = chosen.n_intentions
    if evidence is not None and not evidence["found"]:
        return " ".join(finding.text for finding in sentences(evidence)[: 1 if evidence.get("decided", True) else 2])
    if k == 1:
        return "The data identifies one intention: no larger number predicts better and lasts."
    tested = "" if evidence is None else f" {sentences(evidence)[0].text}"
    shares = ", ".join(f"{100 * share:.0f}%" for share in chosen.use)
    facts = (
        f"labellings from disjoint halves of the data agree to {_number(chosen.agreement)} (1 is the same cut, "
        f"0 is chance), the intentions take {shares} of the steps and last {chosen.mean_dwell:.1f} steps on average."
    )
    if chosen.identified:
        return f"The data identifies {k} intentions: {facts}{tested}"
    return (
        f"{k} intentions are the best choice, but the data does not settle which step belongs to which: {facts}{tested}"
    )


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


# -- the command -------------------------------------------------------------------------------------------------------


METHODS = {"markov": "hiql", "state": "state+tabular", "independent": "prism-past", "recurrent": "prism-recurrent"}


@dataclass(frozen=True)
class Select:
    """Settings of a selection: what is tried, on how many folds (kept together ``by``) and ``splits`` into halves.

    ``starts`` and ``max_iterations`` are those of every fit, None the model's own; ``surrogates`` simulations of a
    habit at most test the intentions, and 0 leaves the test out.
    """

    intentions: tuple[int, ...] = (1, 2, 3, 4, 5, 6)
    switching: str = "markov"
    history: int = 1
    folds: int = 5
    by: str = "trajectory"
    splits: int = 3
    starts: int | None = None
    surrogates: int = MOST
    max_iterations: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("folds", "splits", "starts", "surrogates", "max_iterations", "seed"):
            limits.check_option(name, getattr(self, name))

    def model(self, n_intentions: int) -> Intentions:
        """Return the unfitted model with K intentions."""
        given = {"n_starts": self.starts, "max_iterations": self.max_iterations}
        options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        options |= {"history": self.history, "seed": self.seed}
        identifier = METHODS.get(self.switching, self.switching)  # the registry says what there is
        return cast(Intentions, registry.method(identifier, n_intentions, **options).model)


def parse_intentions(text: str) -> tuple[int, ...]:
    """Read "1..6", "2,3,5" or "4"; numbers come back in increasing order."""
    found: set[int] = set()
    try:
        for part in text.split(","):
            first, _, last = part.partition("..")
            limits.check_option("n_intentions", int(last or first))
            found.update(range(int(first), int(last or first) + 1))
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        found = set()
    if not found or min(found) < 1:
        raise InputError(f"The numbers of intentions {text!r} cannot be read; write 1..6 or 2,3,4, from 1 upwards.")
    return tuple(sorted(found))


def select(
    demos: Demonstrations,
    settings: Select,
    folder: Path,
    *,
    mdp: MDP | None = None,
    jobs: int = 1,
    title: str = "How many intentions?",
    on_fit: OnFit | None = None,
    on_part: OnWork | None = None,
    events: Mapping[str, Any] | None = None,
    layout: Mapping[str, Any] | None = None,
    simulations: int = 0,
    intervals: int = 0,
) -> dict[str, Any]:
    """Fit every K, write metrics.json, table.csv, folds.csv, explorer.json and figures; return the metrics.

    The fit with the recommended K can be explored, and is simulated so many times beside the data (``simulations``).
    """
    extra = scoring(demos, intervals)
    cache = folder / "cache"
    cache.mkdir(exist_ok=True)
    pairs = len(np.unique(demos.states.astype(np.int64) * demos.n_actions + demos.actions))
    possible = tuple(k for k in settings.intentions if k <= pairs)
    settings = replace(settings, intentions=possible or settings.intentions)
    done, found, candidates = try_numbers(demos, settings, mdp=mdp, jobs=jobs, cache=cache, on_fit=on_fit, extra=extra)
    tested = None
    if settings.surrogates:
        (cache / "null").mkdir(exist_ok=True)
        analysis = Analysis(folds=settings.folds, by=settings.by, seed=settings.seed)
        work: dict[str, Any] = {"mdp": mdp, "jobs": jobs, "cache": cache / "null", "on_part": on_part}
        tested = null.run(demos, analysis, surrogates=settings.surrogates, **work)
    summary = None if tested is None else evidence.summary(tested)
    choice = choose(candidates, summary)
    result = _metrics(settings, done, candidates, choice, title)
    write_score_intervals(folder, result, done, intervals)
    if tested is not None:
        result["evidence"] = summary
        result["budget"] = [row._asdict() for row in evidence.budget(tested)]
        result["notes"].append(evidence.words(result["evidence"]))
    results.write_results(folder, result, done.rows)
    numbers = [found.row() for found in candidates.values()]
    cells = [
        {key: " ".join(f"{share:.4f}" for share in v) if isinstance(v, tuple) else v for key, v in row.items()}
        for row in numbers
    ]
    results.write_rows(folder / "table.csv", cells)
    figures: dict[str, Any] = {"selection": partial(_draw, numbers=numbers, choice=choice)}
    if tested is not None:
        figures |= evidence.figures(tested)
    results.write_figures(folder / "figures", figures)
    K = choice.recommended
    results.write_exemplar(
        folder,
        demos,
        found[K].model,
        name=f"the fit with K={K}",
        how="It was fitted to all trajectories; the likelihoods in the table come from held-out folds.",
        facts={"halves_agreement": candidates[K].agreement} if K > 1 else None,
        events=events,
        layout=layout,
        simulations=simulations,
    )
    return result


def try_numbers(
    demos: Demonstrations,
    settings: Select,
    *,
    mdp: MDP | None = None,
    jobs: int = 1,
    cache: Path | None = None,
    on_fit: OnFit | None = None,
    extra: Extra | None = None,
) -> tuple[Evaluation, dict[int, Halves], dict[int, Candidate]]:
    """Fit every number of intentions to folds, halves and all data: the fits, and what is known about every K."""
    methods = [Method(f"k{k}", f"K={k}", settings.model(k)) for k in settings.intentions]
    for method in methods:
        if isinstance(method.model, Intentions):
            method.model._check_parameters(demos)
    cut: dict[str, Any] = {"folds": settings.folds, "by": settings.by}
    done = cross_validate(demos, methods, **cut, mdp=mdp, jobs=jobs, cache=cache, on_fit=on_fit, extra=extra)
    folder = None if cache is None else cache / "models"
    found = fit_halves(
        demos, settings.model, settings.intentions, splits=settings.splits, mdp=mdp, jobs=jobs, folder=folder
    )
    scores = {k: [row["predictive_ll"] for row in done.rows if row["method"] == f"k{k}"] for k in settings.intentions}
    below = dict(zip(settings.intentions[1:], settings.intentions, strict=False))
    candidates = {
        k: candidate(scores[k], found[k], demos.offsets, scores[below[k]] if k in below else None)
        for k in settings.intentions
    }
    return done, found, candidates


def _metrics(
    settings: Select, done: Evaluation, candidates: dict[int, Candidate], choice: Choice, title: str
) -> dict[str, Any]:
    entries = done.table()
    for k, found in candidates.items():
        # Numbers of the fits on all data, in place of those of the folds.
        kept = ("n_intentions", "predictive_ll", "identified")
        entries[f"k{k}"] |= {name: value for name, value in found.row().items() if name not in kept}
    return {
        **results.heading(title, done.demos, folds=settings.folds, experiment="selection"),
        "switching": settings.switching,
        "history": settings.history,
        "splits": settings.splits,
        "best": choice.best,
        "by_likelihood": choice.by_likelihood,
        "recommended": choice.recommended,
        "recommendation": choice.words,
        "notes": [
            choice.words,
            f"Predictive likelihood by {settings.folds} folds over the {settings.by}; agreement is the median adjusted "
            f"Rand index between labellings of all data by fits to disjoint halves, divided in {settings.splits} ways "
            f"({settings.switching} switching, history {settings.history}). Intentions count as identified if halves "
            f"agree to {AGREEMENT} or more, and each takes {100 * MINIMUM_USE:.0f}% of the steps "
            f"and lasts {MINIMUM_DWELL:.0f} steps or more. A search that another fit outdid on its own data "
            "was made again with more starts.",
        ],
        "methods": entries,
    }


def _draw(path: Path, numbers: list[dict[str, Any]], choice: Choice) -> str:
    figure, (top, bottom) = style.new_figure(2, 1, height=3.4, sharex=True)
    drawing.likelihood_by_intentions(top, numbers, choice.by_likelihood)
    drawing.agreement_by_intentions(bottom, numbers, choice.recommended, threshold=AGREEMENT)
    style.save(figure, path)
    return (
        "Above: predictive log-likelihood against the number of intentions, with one standard error over folds; the "
        "ring marks the number up to which it rises by more than the error of the difference. Below: agreement between "
        "labellings from disjoint halves; the ring marks the recommended number."
    )
