"""The verdict of one fit: whether it converged, lasts, agrees, predicts better than what is simpler, and was tested.

Rather a warning too many: agreement between starts measures the search and not the data, validation trajectories that
chose a start are no test of it, and a habit without intentions can look exactly like intentions. So nothing here is
called trustworthy before `prism evidence` has compared it with surrogates that have no intentions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prism_irl.report.evidence_words import sentences
from prism_irl.report.findings import WORSE, Finding, Level, listed, mapping, number, reference_name, signed
from prism_irl.report.names import default_names

AGREEMENT_MARGIN = 0.002  # nats per step within which another start counts as equally good
AGREEMENT_BAD, AGREEMENT_GOOD = 0.5, 0.8
RARE_SHARE = 0.02
SHORT_DWELL = 2.0
OVERFITTING_GAP = 0.03
SIGNIFICANT = 0.05  # share of surrogates without intentions that may gain as much
UNTESTED = "Not tested against a habit without intentions"
"""How the finding begins that withholds the good word."""


def judge_fit(metrics: Mapping[str, Any]) -> list[Finding]:
    """Findings about a fit, the worst first; ``metrics`` is its metrics.json or a part of it."""
    several = number(metrics.get("n_intentions")) != 1
    iterated = metrics.get("em", {}) is not None  # null: a method without EM has nothing to converge and no starts
    converged = [_convergence(mapping(metrics.get("em")), several)] if iterated else []
    findings = [finding._replace(topic="converged") for finding in converged]
    trust = [Finding("info", text) for text in choices(metrics)]
    trust += _data_notes(metrics) + _references(metrics, several) + _tokens(metrics)
    if several:
        trust += ([_agreement(metrics)] if iterated else []) + [evidence_finding(metrics)]
        findings += [finding._replace(topic="number") for finding in _usage(metrics)]
        findings += [finding._replace(topic="switches") for finding in _dwell(metrics)]
    if "predictive_ll" in metrics:
        trust.append(_overfitting(metrics))
    findings += [finding._replace(topic="trust") for finding in cautious(trust)]
    return _worst_first(findings)


def cautious(trust: list[Finding]) -> list[Finding]:
    """Findings about trust, the worst first: "can I trust it?" is answered with "good" only if nothing says otherwise.

    One good number beside a bad one is information. What was not tested is such an objection, too.
    """
    if any(finding.level in ("bad", "warning") for finding in trust):
        trust = [finding._replace(level="info") if finding.level == "good" else finding for finding in trust]
    return _worst_first(trust)


def _worst_first(findings: list[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda finding: ("bad", "warning", "info", "good").index(finding.level))


def is_untested(finding: Finding) -> bool:
    """Whether this is the finding that intentions have not been compared with a habit without any."""
    return finding.text.startswith(UNTESTED)


def scored_part(metrics: Mapping[str, Any]) -> str:
    """The trajectories whose score is shown: "validation" where there is one, else "train"."""
    return "train" if number(mapping(metrics.get("predictive_ll")).get("validation")) is None else "validation"


def part_name(metrics: Mapping[str, Any]) -> str:
    """What these trajectories are, in a word: held out is only what chose nothing."""
    if scored_part(metrics) == "train":
        return "training"
    return "validation" if _chosen(metrics) else "held-out"


def part_remark(metrics: Mapping[str, Any]) -> str:
    """What they were used for, as the end of a sentence about them: ", which chose the start"; nothing of training."""
    if scored_part(metrics) == "train":
        return ""
    chosen = _chosen(metrics)
    return f", which chose the {listed(chosen)}" if chosen else ", which chose nothing"


def _chosen(metrics: Mapping[str, Any]) -> list[str]:
    return [str(what) for what in metrics.get("validation_chose", ["start", "stopping point"])]


def choices(metrics: Mapping[str, Any]) -> list[str]:
    """What validation trajectories chose about policies, and what these were told and see, a sentence each."""
    said = []
    if isinstance(why := mapping(metrics.get("default")).get("why"), str):
        said.append(why)
    chosen = mapping(metrics.get("chosen"))
    options, tried = mapping(chosen.get("options")), chosen.get("tried")
    if isinstance(tried, list) and tried and (ridge := number(options.get("ridge"))) is not None:
        fourier, scale = number(options.get("fourier")), number(options.get("length_scale"))
        shape = "linear" if not fourier or scale is None else f"{fourier:.0f} bent features, length scale {scale:.2g}"
        said.append(
            f"Policies are {shape} with a ridge of {ridge:g}: of {len(tried)} choices the one that predicted "
            "validation trajectories best."
        )
    if isinstance(learner := options.get("learner"), str):
        said.append(_learner_in_words(learner, options, len(tried) if isinstance(tried, list) else 0))
    elif isinstance(tried, list) and (right := _best_accuracy(tried)) is not None:
        window, power, share = (number(options.get(name)) for name in ("window", "power", "shrinkage"))
        words = [] if window is None else [f"of {window:.0f} steps each way"]
        if power is not None:
            words.append(f"each worth {power:g} of an independent one")
        if share is not None:
            words.append(f"with a share of {share:g} white noise")
        said.append(
            f"Windows are {', '.join(words)}: of {len(tried)} choices the one that labelled most steps right where "
            f"labelled trajectories were left out in turn ({right:.2f}; being the best of many, that share flatters)."
        )
    if known := number(metrics.get("known_steps")):
        said.append(
            f"The fit read partial labels of {known:,.0f} steps, at which label accuracy flatters; keep some "
            "labels back to test it."
        )
    if metrics.get("looks_ahead") is True:
        said.append(
            "Labels look at what happens before and after a step; scores do not, they are those of the commands. The "
            "curve of EM is that of the windows, and is no prediction."
        )
    return said


def _learner_in_words(learner: str, options: Mapping[str, Any], n_tried: int) -> str:
    """What learned phases from labels, and how right it was about labelled episodes that were left out."""
    window, right = number(options.get("window")), number(options.get("label_accuracy"))
    words = learner
    if window is not None:
        seen = "movement" if options.get("columns") == "movement" else "the columns as they are"
        words = f"logistic regression on windows of {window:.0f} steps each way, of {seen}"
    if right is None:
        return f"Labels teach {words}; nothing was compared, because fewer than two episodes (or animals) have any."
    return (
        f"Labels teach {words}: of {n_tried} choices the one that labelled most steps right where labelled episodes "
        f"were left out in turn ({right:.3f}; being the best of {n_tried}, that share flatters a little)."
    )


def _best_accuracy(tried: list[Any]) -> float | None:
    """Of the options that known labels chose; None where something else chose."""
    found = [number(mapping(row).get("label_accuracy")) for row in tried]
    return max((value for value in found if value is not None), default=None)


def _data_notes(metrics: Mapping[str, Any]) -> list[Finding]:
    """What looked wrong about the table, which no fit can repair."""
    notes = metrics.get("data_notes")
    return [Finding("warning", str(note)) for note in notes] if isinstance(notes, list) else []


def _convergence(em: Mapping[str, Any], several: bool) -> Finding:
    iterations, kept = number(em.get("iterations")), number(em.get("kept", em.get("iterations")))
    after = "" if iterations is None else f" after {iterations:.0f} iteration{'' if iterations == 1 else 's'}"
    if several and kept == 0 and (em.get("converged") or em.get("fixed")):
        return Finding(
            "warning",
            "No iteration of EM predicted better than the first guess that it began with, which was kept: what you see "
            "was found by that guess alone. Look at the curve of EM, and run more starts (--n-starts).",
        )
    if em.get("converged"):
        return Finding("good", f"EM converged{after}.")
    if em.get("fixed"):
        return Finding("info", f"EM stopped{after}, the number that was asked for, and kept the best of them.")
    return Finding("warning", f"EM stopped{after} before it had converged; allow more iterations.")


def _halves(agreement: float) -> Finding:
    """What a selection knows beyond starts: whether another half of the data gives the same intentions."""
    value = f"labellings by fits to disjoint halves of the data agree to {signed(agreement, 2)} (1 is the same cut)"
    if agreement < AGREEMENT_BAD:
        return Finding("bad", f"Another half of the data gives other intentions, do not interpret them: {value}.")
    if agreement < AGREEMENT_GOOD:
        return Finding("warning", f"Another half of the data gives these intentions only in part: {value}.")
    return Finding("good", f"Another half of the data gives the same intentions: {value}.")


def _agreement(metrics: Mapping[str, Any]) -> Finding:
    if (halves := number(metrics.get("halves_agreement"))) is not None:
        return _halves(halves)
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
    return Finding(
        "good",
        f"Equally likely starts find the same intentions (agreement {value} of 1): the search is stable, which says "
        "nothing about other data.",
    )


def evidence_finding(metrics: Mapping[str, Any]) -> Finding:
    """What `prism evidence` found, or that nobody has asked it; for every page and line that speaks of intentions."""
    evidence = mapping(metrics.get("evidence"))
    p, gain, surrogates = (number(evidence.get(key)) for key in ("p_value", "gain", "surrogates"))
    if p is None and metrics.get("density"):
        return Finding(
            "warning",
            f"{UNTESTED}: prism evidence reads states and actions, not continuous commands. Fit two halves of the "
            "recordings apart, see whether they agree, and hold simple baselines beside the phases (guide on robots).",
        )
    if p is None:
        return Finding("warning", f"{UNTESTED}: run prism evidence DATA.")
    if "g1" in evidence:
        return sentences(evidence)[0]
    numbers = f"p = {p:.2g}" + ("" if gain is None else f", gain {signed(gain, 4)} nats per step over the habit")
    numbers += "" if surrogates is None else f", {surrogates:.0f} surrogates"
    if p > SIGNIFICANT and surrogates is not None and p * (1 + surrogates) <= 1 + 1e-9:  # the data beat them all
        return Finding(
            "warning", f"Tested with too few surrogates to know ({numbers}): give 19 or more (--surrogates)."
        )
    if p > SIGNIFICANT:
        return Finding(
            "bad", f"No evidence for intentions beyond habit ({numbers}): data without any intention looks the same."
        )
    return Finding("good", f"A habit without intentions does not explain this ({numbers}).")


def doubts(metrics: Mapping[str, Any]) -> list[Finding]:
    """What is said beside every answer that builds on the intentions of a fit, unless a test has found them."""
    finding = evidence_finding(metrics)
    return [] if finding.level == "good" else [finding]


def _references(metrics: Mapping[str, Any], several: bool) -> list[Finding]:
    """The fit beside uniform, one intention and habit, on the same trajectories."""
    part, mine = scored_part(metrics), mapping(metrics.get("predictive_ll"))
    own, known = number(mine.get(part)), mapping(metrics.get("references"))
    scores = {str(key): number(mapping(mapping(entry).get("predictive_ll")).get(part)) for key, entry in known.items()}
    there = {reference_name(key): score for key, score in scores.items() if score is not None}
    if own is None:
        return []
    if not there:
        return [Finding("warning", "Nothing simpler was scored beside this fit, so its score says little; fit again.")]
    where = f"on {part_name(metrics)} trajectories{part_remark(metrics)}"
    worse = [f"{name} by {signed(score - own, 4)}" for name, score in there.items() if score > own + WORSE]
    if worse:
        # one intention claims nothing that a habit could refute, nor does a labelling that looks ahead
        level: Level = "bad" if several and metrics.get("looks_ahead") is not True else "warning"
        return [Finding(level, f"It predicts worse than {listed(worse)} nats per step, {where}.")]
    best = max(there, key=lambda name: there[name])
    text = f"It predicts better than {listed(list(there))}, by {signed(own - there[best], 4)} nats per step at least"
    if part == "train":
        return [Finding("info", f"{text}, but {where}: they prefer whoever has more parameters.")]
    return [Finding("good", f"{text}, {where}.")]


def _tokens(metrics: Mapping[str, Any]) -> list[Finding]:
    if not metrics.get("tokens"):
        return []
    return [
        Finding(
            "warning",
            "States and actions are tokens of prism tokenize: policies on tokens rarely recover the phases of a robot, "
            "however well they predict and agree (see the guide on robots). Compare with policies on features, "
            "prism reproduce bridge DATASET.",
        )
    ]


def _names(metrics: Mapping[str, Any], n: int) -> list[str]:
    given = metrics.get("names")
    return [str(name) for name in given] if isinstance(given, list) and len(given) == n else default_names(n)


def _per_intention(metrics: Mapping[str, Any], key: str) -> list[tuple[str, float]]:
    """Name and number of every intention that has one."""
    entries = metrics.get(key)
    values = [number(value) for value in entries] if isinstance(entries, list) else []
    return [(name, v) for name, v in zip(_names(metrics, len(values)), values, strict=True) if v is not None]


def _usage(metrics: Mapping[str, Any]) -> list[Finding]:
    known = _per_intention(metrics, "usage")
    if not known:
        return []
    rare = [f"{name} ({100 * share:.1f}% of the steps)" for name, share in known if share < RARE_SHARE]
    if rare:
        return [Finding("warning", f"Hardly used: {', '.join(rare)}. Fewer intentions may do.")]
    least, share = min(known, key=lambda item: item[1])
    return [Finding("good", f"Every intention is used; the rarest, {least}, in {100 * share:.0f}% of steps.")]


def _dwell(metrics: Mapping[str, Any]) -> list[Finding]:
    """Each intention by its own dwell: long ones must not hide one that has become an action."""
    dwell = number(metrics.get("mean_dwell"))
    advice = "Raise the switch penalty or lengthen the history."
    if dwell is not None and dwell < SHORT_DWELL:
        text = f"The intentions have become actions: they last {dwell:.1f} steps on average. {advice}"
        return [Finding("bad", text)]
    own = _per_intention(metrics, "dwell_per_intention")
    short = [f"{name} ({length:.1f} steps)" for name, length in own if length < SHORT_DWELL]
    if short:
        which = "An intention has" if len(short) == 1 else "Some intentions have"
        return [Finding("bad", f"{which} become an action: {', '.join(short)} at a time. {advice}")]
    if dwell is None:
        return []
    shortest = f"; the shortest, {min(own, key=lambda one: one[1])[0]}, {min(v for _, v in own):.1f}" if own else ""
    return [Finding("good", f"Intentions last: {dwell:.1f} steps on average{shortest}.")]


def _overfitting(metrics: Mapping[str, Any]) -> Finding:
    likelihood = mapping(metrics["predictive_ll"])
    train, validation = number(likelihood.get("train")), number(likelihood.get("validation"))
    if train is None or validation is None:
        return Finding("warning", "There are no validation trajectories, so overfitting cannot be judged.")
    gap, where = train - validation, part_name(metrics)
    if gap > OVERFITTING_GAP:
        return Finding(
            "warning",
            f"Overfitting: {where} trajectories are predicted {signed(gap)} nats per step worse than training ones.",
        )
    return Finding("good", f"No sign of overfitting (training minus {where}: {signed(gap)} nats per step).")
