"""`prism compare`: any methods on any data, by the same cross-validation and the same proper likelihood."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from prism_irl import storage
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.figures import curves, style
from prism_irl.mdp import MDP
from prism_irl.studies.cross_validation import Extra, Fit, Method, compare_best_two, cross_validate, table

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
    fresh: bool = False,
    on_fit: Callable[[Fit, int], None] | None = None,
    events: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Cross-validate, write metrics.json, folds.csv, table.csv and figures; return the metrics.

    The best predictor with several intentions is fitted once more, to all data, for the interactive part of the
    report; ``events`` ({name: (n,) bool}) are marked there. Finished fits are remembered in ``folder/cache``, so that
    an interrupted comparison goes on where it stopped; ``fresh`` forgets them first.
    """
    _check(methods, seeds, jobs)
    demos.fold_indices(folds, by=by)  # refuses impossible folds before anything is written
    cache = folder / "cache"
    cache.mkdir(exist_ok=True)
    for remembered in cache.glob("?" * 32 + ".json") if fresh else ():
        remembered.unlink()
    if fresh:
        shutil.rmtree(cache / "shown", ignore_errors=True)
    rows: list[dict[str, Any]] = []
    total = len(methods) * folds * seeds
    for fit in cross_validate(
        demos,
        methods,
        folds=folds,
        seeds=range(seeds),
        by=by,
        split_seed=SPLIT_SEED,
        mdp=mdp,
        jobs=jobs,
        extra=extra,
        cache=cache,
    ):
        rows.append(fit.row)
        if on_fit is not None:
            on_fit(fit, total)
    rows.sort(key=lambda row: (row["method"], row["seed"], row["fold"]))
    result: dict[str, Any] = {
        "title": title,
        "quick": False,
        "folds": folds,
        "seeds": seeds,
        "n_trajectories": len(demos),
        "n_steps": demos.n_steps,
        "notes": [],
        "methods": table(methods, rows),
        "best_two": compare_best_two(methods, rows, folds),
    }
    result["notes"] = [
        f"{folds} folds by {by}, {seeds} seed(s); mean and standard deviation over fits. Choices inside a method were "
        "made on validation trajectories of its training fold.",
        *best_two_note(result),
    ]
    write(folder, result, rows)
    _explore(folder, demos, methods, result, mdp, events)
    return result


def _explore(
    folder: Path,
    demos: Demonstrations,
    methods: Sequence[Method],
    result: dict[str, Any],
    mdp: MDP | None,
    events: Mapping[str, Any] | None,
) -> None:
    """Show the best method with several intentions; a page of an earlier comparison must not show its old one."""
    from prism_irl.report.explorer import FILE
    from prism_irl.studies import shown

    best = shown.best_shown(methods, result["methods"])
    if best is None:
        (folder / FILE).unlink(missing_ok=True)
        return
    model = shown.fit_to_all(best, demos, mdp, folder / "cache" / "shown")
    name = f"{best.name}, the best predictor here with several intentions"
    shown.add_captions(folder, shown.write_shown(folder, demos, model, name=name, how=shown.ALL_DATA, events=events))


def config(demos: Demonstrations, methods: Sequence[Method], *, folds: int, seeds: int, by: str) -> dict[str, Any]:
    """What the numbers of a comparison depend on, for config.json."""
    return {
        "data": {"sha256": demos.checksum()},
        "folds": folds,
        "by": by,
        "split_seed": SPLIT_SEED,
        "seeds": list(range(seeds)),  # added to the seed of each method
        "methods": {m.id: {"class": type(m.model).__name__, **m.model.get_params(deep=False)} for m in methods},
    }


def _check(methods: Sequence[Method], seeds: int, jobs: int) -> None:
    names = [method.id for method in methods]
    if not names:
        raise InputError("There is no method to compare; name at least one.")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"The method {twice!r} appears twice; name each once.")
    if seeds < 1:
        raise InputError(f"The number of seeds is {seeds}; give at least 1.")
    if jobs == 0:
        raise InputError("The number of jobs is 0; give at least 1, or -1 for every core.")


def best_two_note(result: dict[str, Any]) -> list[str]:
    """Say in one sentence whether the best two methods differ."""
    pair = result["best_two"]
    if pair is None:
        return []
    names = [result["methods"][pair[place]]["name"] for place in ("best", "second")]
    certainty = "" if pair["p_value"] is None else f" (p = {pair['p_value']:.3g}, {pair['test']})"
    return [f"{names[0]} predicts better than {names[1]} by {pair['difference']:.4f} nats per step{certainty}."]


def write(folder: Path, result: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """Write metrics, tables and the figure of a comparison."""
    storage.write_json(folder / "metrics.json", result)
    storage.write_text(folder / "folds.csv", pd.DataFrame(rows).to_csv(index=False))
    flat = pd.json_normalize([{"method": name, **entry} for name, entry in result["methods"].items()])
    storage.write_text(folder / "table.csv", flat.to_csv(index=False))
    figures = folder / "figures"
    figures.mkdir(exist_ok=True)
    with style.paper_style():
        caption = likelihood_figure(figures / "method_bars", result)
    storage.write_json(figures / "captions.json", {"method_bars": caption})


def likelihood_figure(path: Path, result: dict[str, Any]) -> str:
    """Test score per method with fold spread; scores that are not likelihoods are hatched."""
    rows: list[dict[str, Any]] = []
    oracle = result["methods"].get("oracle")
    for entry in result["methods"].values():
        if entry is oracle:
            continue
        rows.append({"name": entry["name"], **entry["predictive_ll"], "is_likelihood": True})
        if entry["leaks"]:
            rows.append({"name": f"{entry['name']}: paper score", **entry["paper_score"], "is_likelihood": False})
    figure, (ax,) = style.new_figure(width=5.0, height=0.6 + 0.28 * len(rows))
    curves.method_bars(ax, rows, ceiling=None if oracle is None else oracle["predictive_ll"]["mean"])
    style.save(figure, path)
    line = "" if oracle is None else " The line is the exact Bayes filter, which no likelihood can exceed."
    leaks = not all(row["is_likelihood"] for row in rows)
    leak = " The hatched score is not a likelihood: its gate has seen the action." if leaks else ""
    return f"Test score per method, mean and spread over folds.{line}{leak}"
