"""What a run's numbers say, in plain words, before anybody reads a table: metrics.json → findings.

A fit is judged by `FIT_RULES`: of every group of rules the first whose condition holds says its sentence. Rather a
warning too many: agreement between starts measures the search and not the data, validation trajectories that chose a
start are no test of it, and a habit without intentions can look exactly like intentions, so nothing is called
trustworthy before `prism evidence` has compared it with surrogates that have no intentions. A table of methods is
judged on who predicts best, how far from the truth, who is worse than a reference without intentions, and on scores
that are no likelihoods.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from functools import cache
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined, TemplateError
from markupsafe import Markup, escape

from prism_irl import limits
from prism_irl.report.names import default_names

Level = Literal["good", "warning", "bad", "info"]
Topic = Literal["", "converged", "number", "switches", "trust"]

REFERENCES = {"uniform": "uniform", "empirical": "one intention", "ngram": "habit"}
"""Identifiers of the methods that any claim about intentions has to beat, and what they are called beside a fit."""
OF_COMMANDS = {"gaussian": "one Gaussian", "linear": "one intention", "memory": "habit"}
"""The same for continuous commands, whose scores are densities."""
WORSE = 1e-4
"""Nats per step from which a fit is worse than a reference: less is rounding, and one intention equals its own."""
AGREEMENT_MARGIN = 0.002  # nats per step within which another start counts as equally good
AGREEMENT_BAD, AGREEMENT_GOOD = 0.5, 0.8
POOR_AGREEMENT = 0.4  # of halves, below which it is never good, whatever its p-value
RARE_SHARE = 0.02
SHORT_DWELL = 2.0
OVERFITTING_GAP = 0.03
SIGNIFICANT = 0.05  # share of surrogates without intentions that may gain as much
NEAR_ORACLE = 0.03
NOISE = 0.002  # nats per step by which a method may pass the oracle through chance in the folds
CHOSEN = ("start", "stopping point")
"""What validation trajectories choose, where metrics.json does not say it."""
UNTESTED = "Not tested against a habit without intentions"
"""How the finding begins that withholds the good word."""
SENTENCES = "sentences.j2"
_OPTION = re.compile(r"(?<![\w-])--[a-z]+(-[a-z]+)*")


class Finding(NamedTuple):
    """One sentence or two about a run, how serious it is, and which question it answers."""

    level: Level
    text: str
    topic: Topic = ""


# -- numbers and words -------------------------------------------------------------------------------------------------


def reference_name(key: str) -> str:
    """What a reference is called beside a fit."""
    return {**REFERENCES, **OF_COMMANDS}.get(key, key)


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


def listed(words: list[str]) -> str:
    """Words as a list in a sentence: "a", "a and b", "a, b and c"."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


@cache
def templates() -> Environment:
    """The templates of pages and of sentences, compiled once; only pages are HTML."""
    found = Environment(
        loader=PackageLoader("prism_irl.report"),
        autoescape=lambda name: str(name).endswith(".html.j2"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {
        "fmt": format,
        "signed": signed,
        "number": number,
        "mapping": mapping,
        "listed": listed,
        "seconds": in_seconds,
    }
    found.filters["options"] = marked_options
    return found


def marked_options(text: str) -> Markup:
    """A sentence whose options (--n-starts) are code, which no end of a line cuts at its hyphens."""
    return Markup(_OPTION.sub(r"<code>\g<0></code>", str(escape(text))))


def say(sentence: str, **facts: Any) -> str:
    """A macro of `SENTENCES` as text, white space as one blank."""
    try:
        return " ".join(getattr(templates().get_template(SENTENCES).module, sentence)(**facts).split())
    except TemplateError as error:  # a number that metrics.json or explorer.json lacks
        raise ValueError(str(error)) from None


def in_seconds(steps: float, step: float | None) -> str:
    """A duration in seconds, minutes or hours; nothing where nobody knows how long a step takes."""
    if step is None:
        return ""
    seconds = steps * step
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s" if seconds >= 0.1 or seconds == 0 else f"{1000 * seconds:.3g} ms"


def is_comparison(metrics: Mapping[str, Any]) -> bool:
    """Tell a table of methods from a single fit."""
    return isinstance(metrics.get("methods"), Mapping)


def is_selection(metrics: Mapping[str, Any]) -> bool:
    """Tell the choice of the number of intentions, a table with one row per K and a recommendation."""
    return is_comparison(metrics) and number(metrics.get("recommended")) is not None


def is_evidence(metrics: Mapping[str, Any]) -> bool:
    """Tell a test of intentions against a habit, whose table is the budget of predictability."""
    return is_comparison(metrics) and metrics.get("experiment") == "evidence"


def method_name(key: str, method: Mapping[str, Any]) -> str:
    """Return the human name of a method, or its ID without one."""
    return str(method.get("name") or key)


# -- the verdict -------------------------------------------------------------------------------------------------------


def verdict(metrics: Mapping[str, Any]) -> list[Finding]:
    """Judge a run by its metrics.json: a choice of K, a table of ``methods``, or else a fit."""
    if is_selection(metrics):
        return _judge_selection(metrics)
    if is_evidence(metrics):
        return sentences(mapping(metrics.get("evidence")))
    if isinstance(own := metrics.get("findings"), list):  # of an experiment that judges itself
        return [Finding(one["level"], str(one["text"])) for one in own] + _quick(metrics)
    return _judge_methods(metrics) if is_comparison(metrics) else judge_fit(metrics)


def overall(metrics: Mapping[str, Any], findings: list[Finding]) -> str:
    """One line above all findings; it rather warns than pleases, and what was not tested is not yet known."""
    if is_selection(metrics):
        K = int(metrics["recommended"])
        return f"Take {K} intention{'' if K == 1 else 's'}."
    if is_evidence(metrics):
        return headline(mapping(metrics.get("evidence")))
    if metrics.get("summary"):
        return str(metrics["summary"])
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


def is_untested(finding: Finding) -> bool:
    """Whether this is the finding that intentions have not been compared with a habit without any."""
    return finding.text.startswith(UNTESTED)


def cautious(trust: list[Finding]) -> list[Finding]:
    """Findings about trust, the worst first: "can I trust it?" is answered with "good" only if nothing says otherwise.

    One good number beside a bad one is information. What was not tested is such an objection, too.
    """
    if any(finding.level in ("bad", "warning") for finding in trust):
        trust = [finding._replace(level="info") if finding.level == "good" else finding for finding in trust]
    return _worst_first(trust)


def _worst_first(findings: list[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda finding: ("bad", "warning", "info", "good").index(finding.level))


# -- one fit -----------------------------------------------------------------------------------------------------------


class Rule(NamedTuple):
    """A sentence over the fields of `_facts`, and the condition under which it is said."""

    level: Level
    when: Callable[[SimpleNamespace], bool]
    text: str


class Group(NamedTuple):
    """Rules of which the first that holds speaks, the question that they answer, and when they are asked at all."""

    topic: Topic
    asked: Callable[[SimpleNamespace], bool]
    rules: tuple[Rule, ...]


def _always(_: SimpleNamespace) -> bool:
    return True


SLIGHT = 1e-4
"""Nats per step by which one more iteration of EM raises the likelihood, and nobody would see it in the labels."""
ADVICE = "Raise the switch penalty or lengthen the history."
FIT_RULES = (
    Group("converged", lambda f: f.iterated, (
        Rule("warning", lambda f: f.several and f.kept == 0 and (f.converged or f.fixed),
             "No iteration of EM predicted better than the first guess that it began with, which was kept: what you "
             "see was found by that guess alone. Look at the curve of EM, and run more starts (--n-starts)."),
        Rule("good", lambda f: f.converged, "EM converged{after}."),
        Rule("info", lambda f: f.fixed,
             "EM stopped{after}, the number that was asked for, and kept the best of them."),
        Rule("good", lambda f: f.rise is not None and f.rise < SLIGHT,
             "EM stopped{after}, when the likelihood rose by less than 0.0001 nats per step an iteration."),
        Rule("warning", _always, "EM stopped{after} before it had converged; allow more iterations."),
    )),
    Group("trust", lambda f: f.own is not None, (
        Rule("warning", lambda f: not f.references,
             "Nothing simpler was scored beside this fit, so its score says little; fit again."),
        Rule("warning", lambda f: f.worse and f.several and f.planned,
             "It predicts worse than {worse} nats per step, on {where} trajectories{chose}: policies that plan know "
             "the way, and not what is done by habit. Likelihood alone does not judge their labels and rewards; "
             "prism evidence does."),
        # one intention claims nothing that a habit could refute, nor does a labelling that looks ahead
        Rule("bad", lambda f: f.worse and f.several and not f.looks_ahead,
             "It predicts worse than {worse} nats per step, on {where} trajectories{chose}."),
        Rule("info", lambda f: f.worse and f.demonstrated,
             "Its policies predict commands worse than {worse} nats per step, on {where} trajectories{chose}; they are "
             "there for streams, and labels do not come from them."),
        Rule("warning", lambda f: f.worse,
             "It predicts worse than {worse} nats per step, on {where} trajectories{chose}."),
        Rule("info", lambda f: f.part == "train",
             "It predicts better than {references}, by {margin} nats per step at least, but on {where} "
             "trajectories{chose}: they prefer whoever has more parameters."),
        Rule("good", _always,
             "It predicts better than {references}, by {margin} nats per step at least, on {where} "
             "trajectories{chose}."),
    )),
    Group("trust", lambda f: f.tokens, (
        Rule("warning", _always,
             "States and actions are tokens of prism tokenize: policies on tokens rarely recover the phases of a "
             "robot, however well they predict and agree (see the guide on robots). Compare with policies on "
             "features, prism reproduce bridge DATASET."),
    )),
    Group("trust", lambda f: f.several and (f.iterated or f.demonstrated), (
        Rule("bad", lambda f: f.halves is not None and f.halves < AGREEMENT_BAD,
             "Another half of the data gives other intentions, do not interpret them: {apart}."),
        Rule("warning", lambda f: f.halves is not None and f.halves < AGREEMENT_GOOD,
             "Another half of the data gives these intentions only in part: {apart}."),
        Rule("good", lambda f: f.halves is not None,
             "Another half of the data gives the same intentions: {apart}."),
        Rule("warning", lambda f: f.agreement is None and f.starts > 1,
             "No other of the {starts:.0f} starts came within {nearly} nats per step of the best one, so nothing "
             "confirms these intentions; run more starts."),
        Rule("warning", lambda f: f.agreement is None,
             "Only one start was run, so nothing confirms these intentions; run several to see if they agree."),
        Rule("bad", lambda f: f.agreement < AGREEMENT_BAD,
             "No second start finds these intentions again: do not interpret them. Equally likely starts agree only "
             "to {agree} (1 is the same segmentation, 0 is chance)."),
        Rule("warning", lambda f: f.agreement < AGREEMENT_GOOD,
             "Equally likely starts agree only in part ({agree} of 1): interpret with caution what they share, not "
             "the borders between intentions."),
        Rule("good", _always,
             "Equally likely starts find the same intentions (agreement {agree} of 1): the search is stable, which "
             "says nothing about other data."),
    )),
    Group("number", lambda f: f.several and f.least is not None, (
        Rule("warning", lambda f: f.rare, "Hardly used: {rare}. Fewer intentions may do."),
        Rule("good", _always, "Every intention is used; the rarest, {least}."),
    )),
    # Each intention by its own dwell: long ones must not hide one that has become an action.
    Group("switches", lambda f: f.several and not f.demonstrated and (f.dwell is not None or bool(f.short)), (
        Rule("bad", lambda f: f.dwell is not None and f.dwell < SHORT_DWELL,
             "The intentions have become actions: they last {dwell:.1f} steps on average. " + ADVICE),
        Rule("bad", lambda f: len(f.short) == 1,
             "An intention has become an action: {all_short} at a time. " + ADVICE),
        Rule("bad", lambda f: f.short,
             "Some intentions have become an action: {all_short} at a time. " + ADVICE),
        Rule("good", _always, "Intentions last: {dwell:.1f} steps on average{shortest}."),
    )),
    Group("trust", lambda f: f.demonstrated and f.alike is not None, (
        Rule("info", _always, "Of simple labellings {alike} is most like these phases; look where they differ."),
    )),
    Group("trust", lambda f: f.scored and not f.demonstrated, (
        Rule("warning", lambda f: f.gap is None,
             "There are no validation trajectories, so overfitting cannot be judged."),
        Rule("warning", lambda f: f.gap > OVERFITTING_GAP,
             "Overfitting: {where} trajectories are predicted {lost} nats per step worse than training ones."),
        Rule("good", _always, "No sign of overfitting (training minus {where}: {lost} nats per step)."),
    )),
)  # fmt: skip
"""All that is said of a fit but what `choices`, notes on the data and the test against a habit say."""


def judge_fit(metrics: Mapping[str, Any]) -> list[Finding]:
    """Findings about a fit, the worst first; ``metrics`` is its metrics.json or a part of it."""
    facts = _facts(metrics)
    said = [
        Finding(rule.level, rule.text.format(**vars(facts)), group.topic)
        for group in FIT_RULES
        if group.asked(facts)
        for rule in [next(rule for rule in group.rules if rule.when(facts))]
    ]
    notes = metrics.get("data_notes")  # what looked wrong about the table, which no fit can repair
    trust = [Finding("info", text) for text in choices(metrics)]
    trust += [Finding("warning", str(note)) for note in (notes if isinstance(notes, list) else [])]
    trust += [finding for finding in said if finding.topic == "trust"]
    trust += [evidence_finding(metrics)] if facts.several and not facts.demonstrated else []
    others = [finding for finding in said if finding.topic != "trust"]
    return _worst_first(others + [finding._replace(topic="trust") for finding in cautious(trust)])


def _facts(metrics: Mapping[str, Any]) -> SimpleNamespace:
    """What the rules read of metrics.json; None, or nothing, where it is not known."""
    em, scores = mapping(metrics.get("em")), mapping(metrics.get("predictive_ll"))
    part = scored_part(metrics)
    own, train, validation = (number(scores.get(name)) for name in (part, "train", "validation"))
    entries = {
        str(key): mapping(mapping(one).get("predictive_ll")) for key, one in mapping(metrics.get("references")).items()
    }
    known = {reference_name(key): score for key, one in entries.items() if (score := number(one.get(part))) is not None}
    worse = [
        f"{name} by {signed(score - own, 4)}"
        for name, score in known.items()
        if own is not None and score > own + WORSE
    ]
    agreement, halves = number(metrics.get("agreement")), number(metrics.get("halves_agreement"))
    simple = {name: number(mapping(one).get("agreement")) for name, one in mapping(metrics.get("baselines")).items()}
    alike = max(((value, name) for name, value in simple.items() if value is not None), default=None)
    starts = em.get("starts")
    usage, dwells = _per_intention(metrics, "usage"), _per_intention(metrics, "dwell_per_intention")
    least = min(usage, key=lambda item: item[1], default=None)
    short = [f"{name} ({length:.1f} steps)" for name, length in dwells if length < SHORT_DWELL]
    iterations, gap = number(em.get("iterations")), None if train is None or validation is None else train - validation
    shortest = min(dwells, key=lambda item: item[1], default=None)
    return SimpleNamespace(
        several=number(metrics.get("n_intentions")) != 1,
        iterated=metrics.get("em", {}) is not None,  # null: a method without EM has nothing to converge and no starts
        converged=bool(em.get("converged")), fixed=bool(em.get("fixed")), rise=number(em.get("rise")),
        kept=number(em.get("kept", em.get("iterations"))),
        after="" if iterations is None else f" after {iterations:.0f} iteration{'' if iterations == 1 else 's'}",
        starts=len(starts) if isinstance(starts, list) else number(starts) or 0,
        part=part, where=part_name(metrics), chose=part_remark(metrics), scored="predictive_ll" in metrics,
        own=own, references=listed(list(known)), worse=listed(worse),
        margin="" if own is None or not known else signed(own - max(known.values()), 4),
        looks_ahead=metrics.get("looks_ahead") is True, planned=metrics.get("planned") is True,
        tokens=bool(metrics.get("tokens")),
        agreement=agreement, agree="" if agreement is None else signed(agreement, 2), nearly=AGREEMENT_MARGIN,
        halves=halves,
        # phases of demonstrations: replication and simple labellings say what evidence and likelihood say elsewhere
        demonstrated=metrics.get("looks_ahead") is True and halves is not None,
        alike=None if alike is None else f"{alike[1]} (ARI {alike[0]:.2f})",
        apart="labellings by fits to disjoint halves of the data agree to "
        f"{'' if halves is None else signed(halves, 2)} (1 is the same cut)",
        least=None if least is None else f"{least[0]}, in {100 * least[1]:.0f}% of steps",
        rare=", ".join(f"{name} ({100 * share:.1f}% of the steps)" for name, share in usage if share < RARE_SHARE),
        dwell=number(metrics.get("mean_dwell")), short=short, all_short=", ".join(short),
        shortest="" if shortest is None else f"; the shortest, {shortest[0]}, {shortest[1]:.1f}",
        gap=gap, lost="" if gap is None else signed(gap),
    )  # fmt: skip


def _per_intention(metrics: Mapping[str, Any], key: str) -> list[tuple[str, float]]:
    """Name and number of every intention that has one."""
    entries, given = metrics.get(key), metrics.get("names")
    values = [number(value) for value in entries] if isinstance(entries, list) else []
    known = isinstance(given, list) and len(given) == len(values)
    names = [str(name) for name in given] if known and given else default_names(len(values))
    return [(name, value) for name, value in zip(names, values, strict=True) if value is not None]


def scored_part(metrics: Mapping[str, Any]) -> str:
    """The trajectories whose score is shown: "validation" where there is one, else "train"."""
    return "train" if number(mapping(metrics.get("predictive_ll")).get("validation")) is None else "validation"


def part_name(metrics: Mapping[str, Any]) -> str:
    """What these trajectories are, in a word: held out is only what chose nothing."""
    if scored_part(metrics) == "train":
        return "training"
    return "validation" if metrics.get("validation_chose", CHOSEN) else "held-out"


def part_remark(metrics: Mapping[str, Any]) -> str:
    """What they were used for, as the end of a sentence about them: ", which chose the start"; nothing of training."""
    if scored_part(metrics) == "train":
        return ""
    chosen = [str(what) for what in metrics.get("validation_chose", CHOSEN)]
    return f", which chose the {listed(chosen)}" if chosen else ", which chose nothing"


def choices(metrics: Mapping[str, Any]) -> list[str]:
    """What validation trajectories chose about policies, and what these know and see, a sentence each."""
    said = []
    if isinstance(why := mapping(metrics.get("default")).get("why"), str):
        said.append(why)
    chosen = mapping(metrics.get("chosen"))
    options, rows = mapping(chosen.get("options")), chosen.get("tried")
    tried = [mapping(row) for row in rows] if isinstance(rows, list) else []
    window, power, share, ridge, fourier, scale = (
        number(options.get(name)) for name in ("window", "power", "shrinkage", "ridge", "fourier", "length_scale")
    )
    shares = [value for row in tried if (value := number(row.get("label_accuracy"))) is not None]
    if tried and ridge is not None:
        said.append(say("policies", tried=len(tried), ridge=ridge, fourier=fourier, scale=scale))
    if isinstance(name := options.get("learner"), str):
        learned: dict[str, Any] = {"name": name, "window": window, "movement": options.get("columns") == "movement"}
        said.append(say("learner", **learned, right=number(options.get("label_accuracy")), tried=len(tried)))
    elif shares:
        of: dict[str, Any] = {"window": window, "power": power, "share": share}
        said.append(say("windows", **of, right=max(shares), tried=len(tried)))
    if known := number(metrics.get("known_steps")):
        said.append(
            f"The fit read partial labels of {known:,.0f} steps, at which label accuracy flatters; keep some "
            "labels back to test it."
        )
    if metrics.get("looks_ahead") is True:
        said.append(
            "Labels look at what happens before and after a step; scores do not, they are those of the commands. The "
            "curve of EM is that of what is labelled, and is no prediction."
        )
    return said


# -- the test against a habit ------------------------------------------------------------------------------------------


def headline(found: Mapping[str, Any]) -> str:
    """One line: yes, no, or not decided."""
    if found.get("found"):
        return "There are intentions beyond habit."
    return "No evidence for intentions beyond habit." if found.get("decided", True) else "Not decided yet."


def sentences(found: Mapping[str, Any]) -> list[Finding]:
    """The outcome of the test: what it says first, then each question, then how sure the labels are."""
    level: Level = "good" if found.get("found") else "bad" if found.get("decided", True) else "warning"
    findings = [Finding(level, say("evidence", found=found, headline=headline(found), poor=POOR_AGREEMENT))]
    if not found.get("decided", True):
        least, made = number(found.get("least_surrogates")) or 0, number(found.get("surrogates")) or 0
        seconds = number(found.get("seconds_for_999"))
        wait = "" if seconds is None else f", which take about {limits.duration(seconds)}"
        text = f"The answer is near the border: --surrogates 999 settles it{wait}."
        if made < least:
            text = f"{made:.0f} simulation{'' if made == 1 else 's'} of the habit cannot answer yes, {least:.0f} can: "
            text += f"--surrogates {least:.0f}."
        findings.append(Finding("warning", text))
    strengths = [f"{strength:g}" for strength in found.get("hangs_on") or []]
    if strengths and found.get("found"):  # a yes that is none where rare contexts lean more, or less, on shorter ones
        text = "The answer hangs on how lively the habit is: simulations reach the data where its rare contexts are "
        findings.append(Finding("warning", f"{text}worth {listed(strengths)} steps of shorter ones."))
    value, p = number(found.get("agreement")), number(found.get("agreement_p_value"))
    if value is None or p is None:
        return findings
    good = value >= POOR_AGREEMENT and p <= (number(found.get("level")) or 0.05)
    if found.get("density"):  # the question itself
        return findings + (
            [Finding("warning", "Do not interpret single steps.")] if found.get("found") and not good else []
        )
    text = say("halves", found=found, value=value, p=p, good=good)
    return [*findings, Finding("good" if good and found.get("found") else "warning", text)]


def evidence_finding(metrics: Mapping[str, Any]) -> Finding:
    """What `prism evidence` found, or that nobody has asked it; for every page and line that speaks of intentions."""
    evidence = mapping(metrics.get("evidence"))
    p, gain, surrogates = (number(evidence.get(key)) for key in ("p_value", "gain", "surrogates"))
    if p is None and metrics.get("density"):
        return Finding(
            "warning",
            f"{UNTESTED}: prism evidence DATA with the same --observe and --act compares phases of disjoint halves "
            "with those of a habit's recordings; hold simple baselines beside the phases, too (guide on robots).",
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


# -- the number of intentions, and a table of methods ------------------------------------------------------------------


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


def _judge_methods(metrics: Mapping[str, Any]) -> list[Finding]:
    methods = {str(key): mapping(value) for key, value in metrics["methods"].items()}
    oracle = number(methods.pop("oracle", {}).get("predictive_ll"))
    scores, shares = _scores(methods, "predictive_ll"), _scores(methods, "label_accuracy")
    findings = _best_predictor(methods, scores, oracle)
    there = {key: scores[key] for key in REFERENCES if key in scores}
    worse = []
    for key, score in scores.items():
        if key in REFERENCES or number(methods[key].get("n_intentions")) in (None, 1):
            continue  # what has one intention claims nothing that a habit could refute
        beaten = [f"{REFERENCES[name]} by {signed(s - score, 4)}" for name, s in there.items() if s > score + WORSE]
        worse += [f"{method_name(key, methods[key])} ({', '.join(beaten)})"] if beaten else []
    if worse:
        text = f"Worse than a reference without intentions, in nats per step: {'; '.join(worse)}."
        findings.append(Finding("bad", text))
    if shares:
        best = max(shares, key=lambda key: shares[key])
        text = (
            f"{method_name(best, methods[best])} recovers the true intention at {100 * shares[best]:.1f}% of the steps."
        )
        findings.append(Finding("good" if shares[best] >= 0.9 else "warning", text))
    leaking = _scores({key: method for key, method in methods.items() if method.get("leaks")}, "paper_score")
    if above := {key: score for key, score in leaking.items() if oracle is not None and score > oracle}:
        named = [(method_name(key, methods[key]), score) for key, score in above.items()]
        findings.append(Finding("warning", say("above_the_truth", methods=named, oracle=oracle)))
    several = any((number(method.get("n_intentions")) or 1) > 1 for method in methods.values())
    return findings + ([evidence_finding(metrics)] if several else []) + _quick(metrics)


def _scores(methods: Mapping[str, Mapping[str, Any]], key: str) -> dict[str, float]:
    """One number of every method that has it."""
    return {name: score for name, method in methods.items() if (score := number(method.get(key))) is not None}


def _quick(metrics: Mapping[str, Any]) -> list[Finding]:
    text = "A quick run: fewer folds, seeds or iterations than the full one. Read it as a preview."
    return [Finding("warning", text)] if metrics.get("quick") else []


def _best_predictor(
    methods: Mapping[str, Mapping[str, Any]], scores: Mapping[str, float], oracle: float | None
) -> list[Finding]:
    if not scores:
        return [Finding("warning", "No method has a predictive log-likelihood, so none can be called the best.")]
    best = max(scores, key=lambda key: scores[key])
    name, score = method_name(best, methods[best]), scores[best]
    level: Level = "good" if oracle is None or oracle - score <= NEAR_ORACLE else "warning"
    level = "bad" if oracle is not None and score > oracle + NOISE else level
    margin = spread(methods[best].get("predictive_ll")) or 0.0
    close = [method_name(key, methods[key]) for key in scores if key != best and score - scores[key] < margin]
    facts: dict[str, Any] = {"name": name, "score": score, "oracle": oracle, "noise": NOISE, "close": close}
    findings = [Finding(level, say("best_method", **facts))]
    dwell = number(methods[best].get("mean_dwell"))
    if dwell is not None and dwell < SHORT_DWELL:
        text = f"In {name} the intentions have become actions: they last {dwell:.1f} steps on average."
        findings.append(Finding("warning", text))
    return findings
