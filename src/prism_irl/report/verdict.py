"""What a run's numbers say, in plain words, before anybody reads a table.

A pure function from metrics.json to findings: a fit is judged by `fit_verdict`; a table of methods on who predicts
best, how far from the truth, who is worse than a reference without intentions, and on scores that are no likelihoods.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prism_irl.report.evidence_words import headline, sentences
from prism_irl.report.findings import REFERENCES, WORSE, Finding, Level, mapping, number, signed, spread
from prism_irl.report.fit_verdict import (
    AGREEMENT_GOOD,
    SHORT_DWELL,
    UNTESTED,
    evidence_finding,
    is_untested,
    judge_fit,
)

NEAR_ORACLE = 0.03
POWER = 0.9  # share of data sets with intentions in which a good test finds them
NOISE = 0.002  # nats per step by which a method may pass the oracle through chance in the folds


def verdict(metrics: Mapping[str, Any]) -> list[Finding]:
    """Judge a run by its metrics.json: a choice of K, a table of ``methods``, or else a fit."""
    if is_selection(metrics):
        return _judge_selection(metrics)
    if is_evidence(metrics):
        return _judge_evidence(metrics)
    if is_calibration(metrics):
        return _judge_calibration(metrics)
    return _judge_methods(metrics) if is_comparison(metrics) else judge_fit(metrics)


def is_comparison(metrics: Mapping[str, Any]) -> bool:
    """Tell a table of methods from a single fit."""
    return isinstance(metrics.get("methods"), Mapping)


def is_selection(metrics: Mapping[str, Any]) -> bool:
    """Tell the choice of the number of intentions, a table with one row per K and a recommendation."""
    return is_comparison(metrics) and number(metrics.get("recommended")) is not None


def is_evidence(metrics: Mapping[str, Any]) -> bool:
    """Tell a test of intentions against a habit, whose table is the budget of predictability."""
    return is_comparison(metrics) and metrics.get("experiment") == "evidence"


def is_calibration(metrics: Mapping[str, Any]) -> bool:
    """Tell the calibration of that test, whose table has one row per kind of data and no likelihoods."""
    return is_comparison(metrics) and metrics.get("experiment") == "calibration"


def overall(metrics: Mapping[str, Any], findings: list[Finding]) -> str:
    """One line above all findings; it rather warns than pleases, and what was not tested is not yet known."""
    if is_selection(metrics):
        K = int(metrics["recommended"])
        return f"Take {K} intention{'' if K == 1 else 's'}."
    if is_evidence(metrics):
        return headline(mapping(metrics.get("evidence")))
    if is_calibration(metrics):
        wrong = any(finding.level == "bad" for finding in findings)
        return f"{'More' if wrong else 'No more'} false positives than the level of the test allows for."
    bad, warnings = (sum(finding.level == level for finding in findings) for level in ("bad", "warning"))
    if bad and is_comparison(metrics):
        return "Not every method here holds: read the problems before you trust a number."
    if bad:
        return "Do not trust this run before reading its problems."
    untested = sum(is_untested(finding) for finding in findings)
    more = warnings - untested
    if untested:
        rest = f"{more} more thing{'' if more == 1 else 's'} to keep in mind" if more else "nothing else against it"
        return f"Not yet known: this has not been tested against a habit without intentions; {rest}."
    if warnings:
        return f"{warnings} thing{'' if warnings == 1 else 's'} to keep in mind when you read the numbers."
    return "Nothing here speaks against this run."


# -- the number of intentions ------------------------------------------------------------------------------------------


def _judge_selection(metrics: Mapping[str, Any]) -> list[Finding]:
    """The recommendation first; then what speaks for another number."""
    methods = {str(key): mapping(value) for key, value in metrics["methods"].items()}
    K = int(number(metrics["recommended"]) or 0)
    chosen = methods.get(f"k{K}", {})
    known = [number(chosen.get(name)) for name in ("agreement", "shown_agreement") if name in chosen]
    agrees = bool(known) and all(value is not None and value >= AGREEMENT_GOOD for value in known)
    found = mapping(metrics.get("evidence"))
    sure = agrees and bool(found.get("found")) if K > 1 else True
    words = metrics.get("recommendation") or f"{K} intentions are recommended."
    findings = [Finding("good" if sure else "warning", str(words))]
    if not found:
        findings.append(Finding("warning", f"{UNTESTED}: leave --surrogates as it is, or run prism evidence DATA."))
    else:
        findings += sentences(found)[1:] if K > 1 else []
    limit = number(metrics.get("by_likelihood"))
    tried = [int(key[1:]) for key in methods if key[:1] == "k" and key[1:].isdigit()]
    if limit is not None and len(tried) > 1 and limit == max(tried):
        findings.append(
            Finding("warning", f"{limit:.0f} is the largest number that was tried; try larger ones before you settle.")
        )
    return findings


# -- evidence ----------------------------------------------------------------------------------------------------------


def _judge_evidence(metrics: Mapping[str, Any]) -> list[Finding]:
    """What the test said, and whether halves agree."""
    return sentences(mapping(metrics.get("evidence")))


def _judge_calibration(metrics: Mapping[str, Any]) -> list[Finding]:
    """Whether false positives are within the error of the level, and whether what is there is found."""
    found, notes = mapping(metrics.get("calibration")), [str(note) for note in metrics.get("notes") or []]
    low = number(mapping(found.get("false_positives")).get("low"))
    power = number(mapping(found.get("power_at_largest")).get("share"))
    level = 1 / (1 + (number(metrics.get("surrogates")) or 0))
    findings = [Finding("good" if low is not None and low <= level else "bad", note) for note in notes[:1]]
    findings += [Finding("good" if power is not None and power >= POWER else "warning", note) for note in notes[1:2]]
    return findings + _quick(metrics)


# -- a table of methods ------------------------------------------------------------------------------------------------


def _judge_methods(metrics: Mapping[str, Any]) -> list[Finding]:
    methods = {str(key): mapping(value) for key, value in metrics["methods"].items()}
    oracle = number(methods.get("oracle", {}).get("predictive_ll"))
    candidates = {key: method for key, method in methods.items() if key != "oracle"}
    findings = _best_predictor(candidates, oracle) + _worse_than_references(candidates)
    findings += _best_segmentation(candidates) + _leaks(candidates, oracle)
    return findings + _untested(metrics, candidates) + _quick(metrics)


def _untested(metrics: Mapping[str, Any], methods: Mapping[str, Mapping[str, Any]]) -> list[Finding]:
    """Say that methods with several intentions, whatever they predict, were not held against surrogates of a habit."""
    several = any((number(method.get("n_intentions")) or 1) > 1 for method in methods.values())
    return [evidence_finding(metrics)] if several else []


def _quick(metrics: Mapping[str, Any]) -> list[Finding]:
    text = "A quick run: fewer folds, seeds or iterations than the full one. Read it as a preview."
    return [Finding("warning", text)] if metrics.get("quick") else []


def method_name(key: str, method: Mapping[str, Any]) -> str:
    """Return the human name of a method, or its ID without one."""
    return str(method.get("name") or key)


def _best_predictor(methods: Mapping[str, Mapping[str, Any]], oracle: float | None) -> list[Finding]:
    scores = {key: score for key, m in methods.items() if (score := number(m.get("predictive_ll"))) is not None}
    if not scores:
        return [Finding("warning", "No method has a predictive log-likelihood, so none can be called the best.")]
    best = max(scores, key=lambda key: scores[key])
    name, score = method_name(best, methods[best]), scores[best]
    text = f"{name} predicts best: {signed(score)} nats per step on held-out trajectories"
    level: Level = "good"
    if oracle is None:
        text += "."
    elif score > oracle + NOISE:
        level = "bad"
        text += (
            f", which is {signed(score - oracle)} better than the process that generated the data ({signed(oracle)}). "
            "That is impossible beyond chance: look for a leak."
        )
    elif score >= oracle:
        text += f", level with the truth ({signed(oracle)}); nothing can do better."
    else:
        level = "good" if oracle - score <= NEAR_ORACLE else "warning"
        text += f", {signed(oracle - score)} short of the truth ({signed(oracle)}), which nothing can pass."
    margin = spread(methods[best].get("predictive_ll")) or 0.0
    close = [method_name(key, methods[key]) for key in scores if key != best and score - scores[key] < margin]
    if close:
        text += f" Within one standard deviation of it: {', '.join(close)}."
    findings = [Finding(level, text)]
    dwell = number(methods[best].get("mean_dwell"))
    if dwell is not None and dwell < SHORT_DWELL:
        findings.append(
            Finding("warning", f"In {name} the intentions have become actions: they last {dwell:.1f} steps on average.")
        )
    return findings


def _worse_than_references(methods: Mapping[str, Mapping[str, Any]]) -> list[Finding]:
    """Methods with several intentions that predict worse than uniform, one intention or a habit."""
    scores = {key: score for key, m in methods.items() if (score := number(m.get("predictive_ll"))) is not None}
    there = {key: scores[key] for key in REFERENCES if key in scores}
    worse = []
    for key, score in scores.items():
        if key in REFERENCES or number(methods[key].get("n_intentions")) in (None, 1):
            continue  # what has one intention claims nothing that a habit could refute
        beaten = [f"{REFERENCES[name]} by {signed(s - score, 4)}" for name, s in there.items() if s > score + WORSE]
        if beaten:
            worse.append(f"{method_name(key, methods[key])} ({', '.join(beaten)})")
    if not worse:
        return []
    return [Finding("bad", f"Worse than a reference without intentions, in nats per step: {'; '.join(worse)}.")]


def _best_segmentation(methods: Mapping[str, Mapping[str, Any]]) -> list[Finding]:
    scores = {key: score for key, m in methods.items() if (score := number(m.get("label_accuracy"))) is not None}
    if not scores:
        return []
    best = max(scores, key=lambda key: scores[key])
    share = f"{100 * scores[best]:.1f}%"
    level: Level = "good" if scores[best] >= 0.9 else "warning"
    return [Finding(level, f"{method_name(best, methods[best])} recovers the true intention at {share} of the steps.")]


def _leaks(methods: Mapping[str, Mapping[str, Any]], oracle: float | None) -> list[Finding]:
    """Explain scores above the truth, which only something that is not a likelihood can have."""
    if oracle is None:
        return []
    above = [
        f"{method_name(key, method)} ({signed(score)})"
        for key, method in methods.items()
        if method.get("leaks") and (score := number(method.get("paper_score"))) is not None and score > oracle
    ]
    if not above:
        return []
    return [
        Finding(
            "warning",
            f"The paper score of {', '.join(above)} is above the truth ({signed(oracle)}). That is possible because "
            "the gate has seen the action that it is scored on: summed over A actions it can reach min(K, A), not 1, "
            "so it is not a likelihood and must not be compared with the predictive column.",
        )
    ]
