"""`prism score`: a fitted model on new data."""

from __future__ import annotations

from pathlib import Path

from prism_irl.cli.open_run import FittedOptions
from prism_irl.cli.options import CommonOptions


def score(
    run: Path, table: Path, *, fitted: FittedOptions = FittedOptions(), common: CommonOptions = CommonOptions()
) -> None:
    """Score a fitted model on a table: predictive log-likelihood and, kept apart, the paper's score.

    Example: prism score runs/mouse new.csv --json

    Parameters
    ----------
    run
        Folder of a fitted model.
    table
        A .csv, .parquet or .npz file with the columns that the model was fitted on.
    """
    from prism_irl.cli.printing import print_json, print_scores
    from prism_irl.evaluation.metrics import evaluate

    model, data = fitted.open(run, table)
    found = evaluate(model, data.demonstrations)
    if common.json:
        print_json({**found, "density": True} if model.is_density else found)
    else:
        print_scores(found, leaks=model.leaks, density=model.is_density)
