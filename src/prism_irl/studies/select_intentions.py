"""`prism select`: how many intentions, from the predictive likelihood and the agreement of independent fits.

Fits every number of intentions, applies the rule of `studies.selection`, and writes what was found; the winner with
the recommended number can be explored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.figures import selection as drawing
from prism_irl.figures import style
from prism_irl.mdp import MDP
from prism_irl.models import registry
from prism_irl.models.pair import PairModel
from prism_irl.models.registry import Method
from prism_irl.studies import exemplar, results, selection
from prism_irl.studies.cross_validation import Evaluation, OnFit, cross_validate
from prism_irl.studies.selection import Candidate, Choice

METHODS = {"markov": "hiql", "independent": "prism", "recurrent": "prism-recurrent"}
STARTS = {"markov": 8}  # a network takes minutes where a constant kernel takes a second
STARTS_OF_NETWORKS = 4


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
    sets, starts : independent sets of starts on all data; starts None is 8 for a constant kernel and 4 for a
        network
    cv_starts : starts of every fit of the cross-validation, None is the model's default
    max_iterations : EM iterations at most, None is the model's default
    seed : the one source of randomness
    """

    intentions: tuple[int, ...] = (1, 2, 3, 4, 5, 6)
    switching: str = "markov"
    history: int = 1
    folds: int = 5
    by: str = "trajectory"
    sets: int = 3
    starts: int | None = None
    cv_starts: int | None = None
    max_iterations: int | None = None
    seed: int = 0

    @property
    def starts_per_set(self) -> int:
        """Starts of each independent set."""
        return STARTS.get(self.switching, STARTS_OF_NETWORKS) if self.starts is None else self.starts

    def model(self, n_intentions: int) -> PairModel:
        """Return the unfitted model with K intentions."""
        given = {"n_starts": self.cv_starts, "max_iterations": self.max_iterations}
        options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        options |= {"history": self.history, "seed": self.seed}
        identifier = METHODS.get(self.switching, self.switching)  # the registry says what there is
        return cast(PairModel, registry.method(identifier, n_intentions, **options).model)


def parse_intentions(text: str) -> tuple[int, ...]:
    """Read "1..6", "2,3,5" or "4"; numbers come back in increasing order."""
    found: set[int] = set()
    try:
        for part in text.split(","):
            first, _, last = part.partition("..")
            found.update(range(int(first), int(last or first) + 1))
    except ValueError:
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
    events: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Fit every K, write metrics.json, table.csv, folds.csv, explorer.json and figures; return the metrics."""
    methods = [Method(f"k{k}", f"K={k}", settings.model(k)) for k in settings.intentions]
    for method in methods:
        method.model._check_parameters(demos)
    cache = folder / "cache"
    cache.mkdir(exist_ok=True)
    done = cross_validate(
        demos, methods, folds=settings.folds, by=settings.by, mdp=mdp, jobs=jobs, cache=cache, on_fit=on_fit
    )
    sets: dict[str, Any] = {"sets": settings.sets, "starts": settings.starts_per_set, "jobs": jobs}
    winners = selection.independent_winners(
        demos, settings.model, settings.intentions, mdp=mdp, folder=cache / "models", **sets
    )
    candidates = {
        k: selection.candidate(
            k,
            [row["predictive_ll"] for row in done.rows if row["method"] == f"k{k}"],
            [winner for winner in winners if winner.n_intentions == k],
            demos.offsets,
        )
        for k in settings.intentions
    }
    choice = selection.choose(candidates)
    result = _metrics(settings, done, candidates, choice, title)
    results.write_results(folder, result, done.rows)
    numbers = [found.row() for found in candidates.values()]
    results.write_rows(folder / "table.csv", [{name: _cell(value) for name, value in row.items()} for row in numbers])
    results.write_figures(folder / "figures", {"selection": partial(_draw, numbers=numbers, choice=choice)})
    K = choice.recommended
    best = max((winner for winner in winners if winner.n_intentions == K), key=lambda winner: winner.score)
    assert best.model is not None
    exemplar.write_exemplar(
        folder,
        demos,
        best.model,
        name=f"the winner of the independent fits with K={K}",
        how="It was fitted to all trajectories; the likelihoods in the table come from held-out folds.",
        facts={"agreement": candidates[K].agreement} if K > 1 else None,
        events=events,
    )
    return result


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
        "sets": settings.sets,
        "starts": settings.starts_per_set,
        "best": choice.best,
        "by_likelihood": choice.by_likelihood,
        "recommended": choice.recommended,
        "recommendation": choice.words,
        "notes": [
            choice.words,
            f"Predictive likelihood by {settings.folds} folds over the {settings.by}; agreement is the mean adjusted "
            f"Rand index between the winners of {settings.sets} independent sets of {settings.starts_per_set} "
            f"starts on all data ({settings.switching} switching, history {settings.history}). An intention counts if "
            f"winners agree to {selection.AGREEMENT} or more, and each takes {100 * selection.MINIMUM_USE:.0f}% of the "
            f"steps and lasts {selection.MINIMUM_DWELL:.0f} steps or more.",
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
        "ring marks the smallest number within one standard error of the best. Below: agreement between the winners "
        "of independent fits; the ring marks the recommended number."
    )
