"""`prism score`: a fitted model on new data."""

from __future__ import annotations

from pathlib import Path

from prism_irl.cli.options import COMMON, CommonOptions


def score(
    run: Path,
    table: Path,
    *,
    method: str | None = None,
    unknown_state: bool = False,
    common: CommonOptions = COMMON,
) -> None:
    """Score a fitted model on a table: predictive log-likelihood and, kept apart, the paper's score.

    Example: prism score runs/mouse new.csv --json

    Parameters
    ----------
    run
        Folder of a fitted model.
    table
        A .csv, .parquet or .npz file with the columns that the model was fitted on.
    method
        MODULE:CLASS of the model, where it is not one of this package.
    unknown_state
        Accept states that the fit never saw; there all intentions act uniformly.
    """
    from prism_irl.cli.open_run import open_run
    from prism_irl.cli.printing import print_json, print_scores
    from prism_irl.evaluation.likelihood import evaluate

    model, data = open_run(run, table, unknown_state=unknown_state, method=method)
    found = evaluate(model, data.demonstrations)
    if common.json:
        print_json(found)
    else:
        print_scores(found, leaks=model.leaks)
