"""Tables of the calibration of contrasts, intervals and predictions."""

from __future__ import annotations

from typing import Any

from blocks import block, need, number, table

MEASURES = {
    "contrast_usage": "difference of usage",
    "contrast_dwell": "difference of dwell",
    "contrast_switch_rate": "difference of switch rates",
    "fit_usage": "usage of a fit",
    "fit_dwell": "dwell of a fit",
    "fit_switch_rate": "switch rate of a fit",
    "covariate": "effect of a covariate",
}
WORLDS = {
    "barrier": "animals plan as the model says",
    "barrier-hard": "animals plan for a future without noise",
}


def _share(found: dict[str, Any]) -> list[str]:
    ends = f"{number(found['low'], 2)} to {number(found['high'], 2)}"
    return [number(found["share"]), ends, number(found["of"], 0)]


def _seeds(metrics: dict[str, Any]) -> str:
    """Which seeds these are."""
    first = metrics["first_seed"]
    return f"\nSeeds {first} to {first + metrics['simulations'] - 1}.\n"


@block("study")
def study_found(metrics: dict[str, Any]) -> str:
    """How often a contrast finds something."""
    names = {"none": "none: false positives", "usage": "usage", "switching": "switching", "rewards": "a goal"}
    rows = [[names[name], *_share(found)] for name, found in need(metrics, "found").items()]
    return table(["true difference", "found", "95% interval", "studies"], rows) + _seeds(metrics)


def _labelled(coverage: dict[str, Any], name: str, scenario: str) -> str:
    """The same share where the true intention of every step is known, as far as it was counted."""
    found = coverage.get(f"{name}_labelled", {}).get(scenario)
    return "–" if found is None else number(found["share"])


@block("study")
def study_coverage(metrics: dict[str, Any]) -> str:
    """How often intervals hold the truth."""
    coverage = need(metrics, "coverage")
    rows = [
        [MEASURES[name], scenario, *_share(found), _labelled(coverage, name, scenario)]
        for name, own in coverage.items()
        if name in MEASURES
        for scenario, found in own.items()
    ]
    gain = metrics["covariate"]
    titles = ["interval of", "true difference", "holds the truth", "95% interval", "studies", "labels known"]
    return table(titles, rows) + (
        f"\nThe covariate raised the likelihood of other animals in {number(gain['gains'], 2)} of its studies, by "
        f"{number(gain['mean_gain'], 4)} nats per step on average.\n"
    )


@block("study")
def study_what_if(metrics: dict[str, Any]) -> str:
    """Predictions after a barrier moved, beside the simulator."""
    keys = ("inside", "least_inside", "prediction", "unaware", "unchanged", "another_cohort")
    rows = [
        [WORLDS[name], *(number(found[key]) for key in keys), number(found["of"], 0)]
        for name, found in need(metrics, "what_if").items()
    ]
    titles = ["world", "cells inside", "worst study", "prediction", "unaware", "unchanged", "another cohort", "studies"]
    return table(titles, rows)
