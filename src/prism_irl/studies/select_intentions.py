"""`prism select`: how many intentions, from evidence against a habit, likelihood, and the agreement of halves.

Fits every number of intentions, tests them against a habit without any, applies the rule of `studies.selection`, and
writes what was found; the fit with the recommended number can be explored, and `prism fit` makes the same one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from prism_irl import limits
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.figures import charts as drawing
from prism_irl.figures import style
from prism_irl.mdp import MDP
from prism_irl.models import registry
from prism_irl.models.intentions import Intentions
from prism_irl.models.registry import Method
from prism_irl.studies import evidence, exemplar, null, results, selection
from prism_irl.studies.analysis import Analysis
from prism_irl.studies.cross_validation import Evaluation, Extra, OnFit, cross_validate
from prism_irl.studies.null import MOST, EvidenceResult, OnPart
from prism_irl.studies.score_intervals import scoring, write_score_intervals
from prism_irl.studies.selection import Candidate, Choice, Halves

METHODS = {"markov": "hiql", "state": "state+tabular", "independent": "prism-past", "recurrent": "prism-recurrent"}


@dataclass(frozen=True)
class Select:
    """Settings of a selection.

    Parameters
    ----------
    intentions : numbers of intentions to try
    switching : how intentions switch; "markov" is HIQL, compiled and quick
    history : policies depend on the last so many states
    folds : parts of the cross-validation
    by : what a fold keeps together
    splits : ways to divide the data into halves
    starts : starts of every fit, None is the model's default, which `prism fit` has
    surrogates : simulations of a habit that intentions are tested against, at most; 0 leaves the test out
    max_iterations : EM iterations at most, None is the model's default
    seed : the one source of randomness
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
    on_part: OnPart | None = None,
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
    settings = replace(settings, intentions=told_apart(demos, settings.intentions))
    done, found, candidates = try_numbers(demos, settings, mdp=mdp, jobs=jobs, cache=cache, on_fit=on_fit, extra=extra)
    tested = _tested(demos, settings, mdp, jobs, cache / "null", on_part) if settings.surrogates else None
    summary = None if tested is None else evidence.summary(tested)
    choice = selection.choose(candidates, summary)
    result = _metrics(settings, done, candidates, choice, title)
    write_score_intervals(folder, result, done, intervals)
    if tested is not None:
        result["evidence"] = summary
        result["budget"] = [row._asdict() for row in evidence.budget(tested)]
        result["notes"].append(evidence.words(result["evidence"]))
    results.write_results(folder, result, done.rows)
    numbers = [found.row() for found in candidates.values()]
    results.write_rows(folder / "table.csv", [{name: _cell(value) for name, value in row.items()} for row in numbers])
    figures: dict[str, Any] = {"selection": partial(_draw, numbers=numbers, choice=choice)}
    if tested is not None:
        figures |= evidence.figures(tested)
    results.write_figures(folder / "figures", figures)
    K = choice.recommended
    exemplar.write_exemplar(
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


def told_apart(demos: Demonstrations, intentions: tuple[int, ...]) -> tuple[int, ...]:
    """Numbers of intentions that so many different (state, action) pairs can tell apart; all, if that leaves none."""
    pairs = len(np.unique(demos.states.astype(np.int64) * demos.n_actions + demos.actions))
    return tuple(k for k in intentions if k <= pairs) or intentions


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
    found = selection.fit_halves(
        demos, settings.model, settings.intentions, splits=settings.splits, mdp=mdp, jobs=jobs, folder=folder
    )
    scores = {k: [row["predictive_ll"] for row in done.rows if row["method"] == f"k{k}"] for k in settings.intentions}
    below = dict(zip(settings.intentions[1:], settings.intentions, strict=False))
    candidates = {
        k: selection.candidate(scores[k], found[k], demos.offsets, scores[below[k]] if k in below else None)
        for k in settings.intentions
    }
    return done, found, candidates


def _tested(
    demos: Demonstrations, settings: Select, mdp: MDP | None, jobs: int, cache: Path, on_part: OnPart | None
) -> EvidenceResult:
    """The test against a habit, with the folds of the selection."""
    cache.mkdir(exist_ok=True)
    analysis = Analysis(folds=settings.folds, by=settings.by, seed=settings.seed)
    return null.run(demos, analysis, surrogates=settings.surrogates, mdp=mdp, jobs=jobs, cache=cache, on_part=on_part)


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
            f"agree to {selection.AGREEMENT} or more, and each takes {100 * selection.MINIMUM_USE:.0f}% of the steps "
            f"and lasts {selection.MINIMUM_DWELL:.0f} steps or more. A search that another fit outdid on its own data "
            "was made again with more starts.",
        ],
        "methods": entries,
    }


def _cell(value: Any) -> Any:
    """One number per intention becomes one cell."""
    return " ".join(f"{share:.4f}" for share in value) if isinstance(value, tuple) else value


def _draw(path: Path, numbers: list[dict[str, Any]], choice: Choice) -> str:
    figure, (top, bottom) = style.new_figure(2, 1, height=3.4, sharex=True)
    drawing.likelihood_by_intentions(top, numbers, choice.by_likelihood)
    drawing.agreement_by_intentions(bottom, numbers, choice.recommended, threshold=selection.AGREEMENT)
    style.save(figure, path)
    return (
        "Above: predictive log-likelihood against the number of intentions, with one standard error over folds; the "
        "ring marks the number up to which it rises by more than the error of the difference. Below: agreement between "
        "labellings from disjoint halves; the ring marks the recommended number."
    )
