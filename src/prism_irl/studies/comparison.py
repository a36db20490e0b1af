"""`prism compare`: any methods on any data, by the same cross-validation and the same proper likelihood."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from prism_irl import halves
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.mdp import MDP
from prism_irl.models.references import check_comparable, with_references
from prism_irl.models.registry import Method
from prism_irl.report.checks import without_checks
from prism_irl.report.explorer import FILE
from prism_irl.studies import evidence, results
from prism_irl.studies.cross_validation import Extra, OnFit, compare_best_two, cross_validate, fit_to_all
from prism_irl.studies.intervals import scoring, write_score_intervals

SPLIT_SEED = 0


def compare(
    demos: Demonstrations,
    methods: Sequence[Method],
    folder: Path,
    *,
    folds: int = 5,
    seeds: int = 1,
    by: str = "trajectory",
    jobs: int = 1,
    mdp: MDP | None = None,
    extra: Extra | None = None,
    title: str = "Comparison of methods",
    on_fit: OnFit | None = None,
    events: Mapping[str, Any] | None = None,
    layout: Mapping[str, Any] | None = None,
    tokens: bool = False,
    simulations: int = 0,
    intervals: int = 0,
) -> dict[str, Any]:
    """Cross-validate, write metrics.json, folds.csv, table.csv and figures; return the metrics.

    Uniform, one intention and a habit stand beside whatever was asked for. ``tokens`` says that the data is a robot's,
    made by `prism tokenize`, which the verdict has to know; ``intervals`` asks for so many resamples of the animals.
    The best predictor with several intentions is fitted once more, to all data, for the interactive part of the
    report; ``events`` ({name: (n,) bool}) are marked there, ``layout`` says where states lie, and it is simulated so
    many times beside the data (``simulations``). Finished fits are remembered in ``folder/cache``, so that an
    interrupted comparison goes on where it stopped.
    """
    _check(methods, seeds, jobs)
    methods = with_references(methods, demos)
    check_comparable(methods, demos)
    demos.fold_indices(folds, by=by)  # refuses impossible folds before anything is written
    extra, cache = scoring(demos, intervals, extra), folder / "cache"
    cache.mkdir(exist_ok=True)
    split: dict[str, Any] = {"folds": folds, "seeds": range(seeds), "by": by, "split_seed": SPLIT_SEED}
    done = cross_validate(demos, methods, **split, mdp=mdp, jobs=jobs, extra=extra, cache=cache, on_fit=on_fit)
    result: dict[str, Any] = {
        **results.heading(title, demos, folds=folds, seeds=seeds),
        "notes": [],
        **({"tokens": True} if tokens else {}),
        **({"density": True} if demos.state_space.continuous else {}),
        "methods": done.table(),
        "best_two": compare_best_two(methods, done.rows, folds),
    }
    result["notes"] = [
        f"{folds} folds by {by}, {seeds} seed{'' if seeds == 1 else 's'}; mean and standard deviation over fits. "
        "Choices inside a method were made on validation trajectories of its training fold.",
        *density_note(result),
        *best_two_note(result),
    ]
    write_score_intervals(folder, result, done, intervals)
    best = results.choose_exemplar(methods, result["methods"])
    rows = evidence.fold_budget(done.rows, None if best is None else best.id)
    result["budget"] = [row._asdict() for row in rows]
    results.write_results(folder, result, done.rows)
    results.write_methods(folder / "table.csv", result["methods"])
    drawings = {"method_bars": partial(results.likelihood_figure, result=result)}
    results.write_figures(folder / "figures", drawings | {"budget": partial(evidence.draw_budget, rows=rows)})
    if best is None:
        (folder / FILE).unlink(missing_ok=True)  # a page of an earlier comparison must not show its old one
        without_checks(folder)
        return result
    ((_, model),) = fit_to_all([best.model], demos, mdp, folder=cache / "exemplars")
    name = f"{best.name}, the best predictor here with several intentions"
    shown: dict[str, Any] = {"events": events, "layout": layout, "simulations": simulations}
    results.write_exemplar(folder, demos, model, name=name, how=results.ALL_DATA, **shown)
    return result


def config(demos: Demonstrations, methods: Sequence[Method], *, folds: int, seeds: int, by: str) -> dict[str, Any]:
    """What the numbers of a comparison depend on, for config.json."""
    all_methods = with_references(methods, demos)
    return {
        "data": {"sha256": demos.checksum()},
        "folds": folds,
        "by": by,
        "split_seed": SPLIT_SEED,
        "seeds": list(range(seeds)),  # added to the seed of each method
        "methods": {m.id: {"class": type(m.model).__name__, **halves.parameters_json(m.model)} for m in all_methods},
    }


def _check(methods: Sequence[Method], seeds: int, jobs: int) -> None:
    names = [method.id for method in methods]
    if not names:
        raise InputError("There is no method to compare; name at least one.")
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"The method {name!r} appears twice; name each once.")
    if seeds < 1:
        raise InputError(f"The number of seeds is {seeds}; give at least 1.")
    if jobs == 0:
        raise InputError("The number of jobs is 0; give at least 1, or -1 for every core.")


def density_note(result: dict[str, Any]) -> list[str]:
    """Say what the numbers of continuous data are."""
    said = "Scores are log densities of the commands in their own units: compare them with densities alone."
    return [said] if result.get("density") else []


def best_two_note(result: dict[str, Any]) -> list[str]:
    """Say in one sentence whether the best two methods differ."""
    pair = result["best_two"]
    if pair is None:
        return []
    names = [result["methods"][pair[place]]["name"] for place in ("best", "second")]
    if pair["p_value"] is None:
        certainty = ", on one fold, which tells nothing about chance"
    else:
        chance = ", which may be chance" if pair["p_value"] >= evidence.LEVEL else ""
        certainty = f"{chance} (p = {pair['p_value']:.3g}, {pair['test']})"
    return [f"{names[0]} predicts better than {names[1]} by {pair['difference']:.4f} nats per step{certainty}."]
