"""What a run's numbers say, in plain words, before anybody reads a table.

A pure function from metrics.json to findings: a fit is judged on convergence, agreement between starts, use of every
intention, dwell and overfitting; a table of methods on who predicts best, how far from the truth, and on scores that
are not likelihoods.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from prism_irl.report.names import default_names

Level = Literal["good", "warning", "bad", "info"]
Topic = Literal["", "converged", "number", "switches", "trust"]

AGREEMENT_MARGIN = 0.002  # nats per step within which another start counts as equally good
AGREEMENT_BAD, AGREEMENT_GOOD = 0.5, 0.8
RARE_SHARE = 0.01
SHORT_DWELL = 2.0
OVERFITTING_GAP = 0.03
NEAR_ORACLE = 0.03
NOISE = 0.002  # nats per step by which a method may pass the oracle through chance in the folds


class Finding(NamedTuple):
    """One sentence or two about a run, how serious it is, and which question it answers."""

    level: Level
    text: str
    topic: Topic = ""


def verdict(metrics: Mapping[str, Any]) -> list[Finding]:
    """Judge a run by its metrics.json: a choice of K, a table of ``methods``, or else a fit."""
    if is_selection(metrics):
        return _judge_selection(metrics)
    return _judge_methods(metrics) if is_comparison(metrics) else _judge_fit(metrics)


def is_comparison(metrics: Mapping[str, Any]) -> bool:
    """Tell a table of methods from a single fit."""
    return isinstance(metrics.get("methods"), Mapping)


def is_selection(metrics: Mapping[str, Any]) -> bool:
    """Tell the choice of the number of intentions, a table with one row per K and a recommendation."""
    return is_comparison(metrics) and number(metrics.get("recommended")) is not None


def number(value: Any) -> float | None:
    """Return a finite number, the ``mean`` of a mapping, or None for anything else."""
    if isinstance(value, Mapping):
        value = value.get("mean")
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def spread(value: Any) -> float | None:
    """Return the ``std`` of a mapping, or None."""
    return number(value.get("std")) if isinstance(value, Mapping) else None


def signed(value: float, digits: int = 3) -> str:
    """Return a number with a real minus sign, and none in front of a rounded zero."""
    return f"{round(value, digits) + 0.0:.{digits}f}".replace("-", "−")


def mapping(value: Any) -> Mapping[str, Any]:
    """Return the mapping, or an empty one in place of anything else."""
    return value if isinstance(value, Mapping) else {}


# -- one fit -----------------------------------------------------------------------------------------------------------


def _judge_fit(metrics: Mapping[str, Any]) -> list[Finding]:
    several = number(metrics.get("n_intentions")) != 1
    iterated = metrics.get("em", {}) is not None  # null: a method without EM has nothing to converge and no starts
    findings = [_convergence(mapping(metrics.get("em")))._replace(topic="converged")] if iterated else []
    if several:
        findings += [_agreement(metrics)._replace(topic="trust")] if iterated else []
        findings += [finding._replace(topic="number") for finding in _usage(metrics)]
        findings += [finding._replace(topic="switches") for finding in _dwell(metrics)]
    if "predictive_ll" in metrics:
        findings.append(_overfitting(mapping(metrics["predictive_ll"]))._replace(topic="trust"))
    return sorted(findings, key=lambda finding: ("bad", "warning", "info", "good").index(finding.level))


def _convergence(em: Mapping[str, Any]) -> Finding:
    iterations = number(em.get("iterations"))
    after = "" if iterations is None else f" after {iterations:.0f} iteration{'' if iterations == 1 else 's'}"
    if em.get("converged"):
        return Finding("good", f"EM converged{after}.")
    if em.get("fixed"):
        return Finding("info", f"EM stopped{after}, the number that was asked for, and kept the best of them.")
    return Finding("warning", f"EM stopped{after} before it had converged; allow more iterations.")


def _agreement(metrics: Mapping[str, Any]) -> Finding:
    agreement = number(metrics.get("agreement"))
    starts = mapping(metrics.get("em")).get("starts")
    n_starts = len(starts) if isinstance(starts, list) else number(starts)
    if agreement is None:
        if n_starts is not None and n_starts > 1:
            return Finding(
                "warning",
                f"No other of the {n_starts:.0f} starts came within {AGREEMENT_MARGIN} nats per step of the best one, "
                "so nothing confirms these intentions; run more starts.",
            )
        return Finding(
            "warning", "Only one start was run, so nothing confirms these intentions; run several to see if they agree."
        )
    value = signed(agreement, 2)
    if agreement < AGREEMENT_BAD:
        return Finding(
            "bad",
            f"No second start finds these intentions again: do not interpret them. Equally likely starts agree only to "
            f"{value} (1 is the same segmentation, 0 is chance).",
        )
    if agreement < AGREEMENT_GOOD:
        return Finding(
            "warning",
            f"Equally likely starts agree only in part ({value} of 1): interpret with caution what they share, not the "
            "borders between intentions.",
        )
    return Finding("good", f"Equally likely starts find the same intentions (agreement {value} of 1).")


def _usage(metrics: Mapping[str, Any]) -> list[Finding]:
    usage = metrics.get("usage")
    shares = [number(share) for share in usage] if isinstance(usage, list) else []
    known = [(k, share) for k, share in enumerate(shares) if share is not None]
    if not known:
        return []
    given = metrics.get("names")
    names = given if isinstance(given, list) and len(given) == len(shares) else default_names(len(shares))
    rare = [f"{names[k]} ({100 * share:.1f}% of the steps)" for k, share in known if share < RARE_SHARE]
    if rare:
        return [Finding("warning", f"Hardly used: {', '.join(rare)}. Fewer intentions may do.")]
    least, share = min(known, key=lambda item: item[1])
    return [Finding("good", f"Every intention is used; the rarest, {names[least]}, in {100 * share:.0f}% of steps.")]


def _dwell(metrics: Mapping[str, Any]) -> list[Finding]:
    dwell = number(metrics.get("mean_dwell"))
    if dwell is None:
        return []
    if dwell < SHORT_DWELL:
        return [
            Finding(
                "bad",
                f"The intentions have become actions: they last {dwell:.1f} steps on average. Raise the switch penalty "
                "or lengthen the history.",
            )
        ]
    return [Finding("good", f"Intentions last: {dwell:.1f} steps on average.")]


def _overfitting(likelihood: Mapping[str, Any]) -> Finding:
    train, validation = number(likelihood.get("train")), number(likelihood.get("validation"))
    if train is None or validation is None:
        return Finding("warning", "No trajectories were held out, so overfitting cannot be judged.")
    gap = train - validation
    if gap > OVERFITTING_GAP:
        return Finding(
            "warning",
            f"Overfitting: held-out trajectories are predicted {signed(gap)} nats per step worse than training ones.",
        )
    return Finding("good", f"No sign of overfitting (training minus held-out: {signed(gap)} nats per step).")


# -- the number of intentions ------------------------------------------------------------------------------------------


def _judge_selection(metrics: Mapping[str, Any]) -> list[Finding]:
    """The recommendation first; then what speaks for another number."""
    methods = {str(key): mapping(value) for key, value in metrics["methods"].items()}
    K = int(number(metrics["recommended"]) or 0)
    chosen = methods.get(f"k{K}", {})
    agreement = number(chosen.get("agreement"))
    sure = K == 1 or (agreement is not None and agreement >= AGREEMENT_GOOD)
    words = metrics.get("recommendation") or f"{K} intentions are recommended."
    findings = [Finding("good" if sure else "warning", str(words))]
    limit = number(metrics.get("by_likelihood"))
    tried = [int(key[1:]) for key in methods if key[:1] == "k" and key[1:].isdigit()]
    if limit is not None and len(tried) > 1 and limit == max(tried):
        findings.append(
            Finding("warning", f"{limit:.0f} is the largest number that was tried; try larger ones before you settle.")
        )
    return findings


# -- a table of methods ------------------------------------------------------------------------------------------------


def _judge_methods(metrics: Mapping[str, Any]) -> list[Finding]:
    methods = {str(key): mapping(value) for key, value in metrics["methods"].items()}
    oracle = number(methods.get("oracle", {}).get("predictive_ll"))
    candidates = {key: method for key, method in methods.items() if key != "oracle"}
    findings = _best_predictor(candidates, oracle) + _best_segmentation(candidates) + _leaks(candidates, oracle)
    if metrics.get("quick"):
        findings.append(
            Finding("warning", "A quick run: fewer folds, seeds or iterations than the full one. Read it as a preview.")
        )
    return findings


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
            "the gate has seen the action that it is scored on: summed over actions the score can reach K, not 1, "
            "so it is not a likelihood and must not be compared with the predictive column.",
        )
    ]
