"""The answer in one sentence, and the five questions that everybody asks of a fit, each answered in plain words.

Did it converge, how many intentions are there, what does each want, when does the agent switch, and can I trust it?
Findings of the verdict are sorted under their question; `story.describe` answers the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from prism_irl import storage
from prism_irl.figures.palette import intention_color
from prism_irl.report.names import default_names, names_in
from prism_irl.report.screen import APART, HEADS_FOR, differences, name_of
from prism_irl.report.story import NEAR
from prism_irl.report.verdict import (
    Finding,
    cautious,
    evidence_finding,
    in_seconds,
    is_comparison,
    is_selection,
    listed,
    mapping,
    number,
    part_name,
    say,
    scored_part,
    verdict,
)

BETWEEN = 0.4  # share of the long run in three places
CLEAR = 1.5  # ratio from which one rate is called higher than another
MANY = 4  # quantities of a place that a sentence names
HARDLY = 0.005  # share of the time that would be rounded to nothing
ENOUGH = 50  # steps behind a rate before it is spoken of
NUMBERS = ("No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight")
NAMED = 4  # intentions of which the sentence says what they are after


# -- the answer --------------------------------------------------------------------------------------------------------


class Aim(NamedTuple):
    """One intention and what it is after, in its colour; without a name where there is only one."""

    k: int
    name: str
    color: str
    text: str


class Answer(NamedTuple):
    """The sentence: what stands before the intentions, these, and what stands behind them."""

    before: str
    aims: list[Aim]
    after: str

    def __str__(self) -> str:
        aims = [f"{aim.name} {aim.text}".strip() for aim in self.aims]
        together = ", ".join(aims) if self.after != "." else listed(aims)
        return self.before + together + self.after


def answer(metrics: Mapping[str, Any], explorer: Mapping[str, Any], names: Sequence[str]) -> Answer:
    """Are there intentions, how many, what are they after, and how sure is that: one sentence."""
    wants = explorer["story"]["wants"]
    used = [k for k, one in enumerate(wants) if one["leads_to"]]
    p = number(mapping(metrics.get("evidence")).get("p_value"))
    if len(wants) == 1:
        none = "" if evidence_finding(metrics).level != "bad" or p is None else f"Nothing beyond habit (p = {p:.2g}): "
        one = "one policy for all steps; it " if none else "One policy for all steps: it "
        return Answer(none + one, [Aim(0, "", "", _aim(0, explorer))], ".")
    count = NUMBERS[len(used)] if len(used) < len(NUMBERS) else str(len(used))
    plural, after = "" if len(used) == 1 else "s", f", and {len(used) - NAMED} more." if len(used) > NAMED else "."
    if moves := mapping(explorer.get("movement")):  # phases, in the order in which they come
        first = (str(moves["does"][k]).partition(",")[0] for k in used[:NAMED])
        phases = [Aim(k, names[k], intention_color(k), f"({one})") for k, one in zip(used, first, strict=False)]
        about = f"About {count.lower()}" if metrics.get("intentions_found") else count  # a rough number
        return Answer(f"{about} phase{plural}: ", phases, after)
    sure = {
        "good": "beyond habit" + ("" if p is None else f" (p = {p:.2g})"),
        "bad": "in this fit" + ("" if p is None else f", but no evidence for them beyond habit (p = {p:.2g})"),
    }.get(evidence_finding(metrics).level, "in this fit, not tested against a habit yet")
    if metrics.get("density"):  # of continuous data, whose test does not exist yet
        sure = "in this fit; their number was not tested"
    goals = {k: text.removesuffix(". It ") for k, text in goals_in_words(metrics, explorer).items()}
    most = sorted(used, key=lambda k: -float(wants[k]["share"]))[:NAMED]
    aims = [Aim(k, names[k], intention_color(k), goals.get(k) or _aim(k, explorer)) for k in sorted(most)]
    return Answer(f"{count} intention{plural} {sure}: ", aims, after)


def answer_of_run(folder: Path, evidence: Mapping[str, Any] | None = None) -> str:
    """The answer of a run folder as text; ``evidence`` is that of a test in a folder of its own."""
    metrics = storage.read_object(folder / "metrics.json")
    explorer = storage.read_object(folder / "explorer.json")
    K = int(metrics["n_intentions"])
    names = names_in(folder, K) or explorer.get("names") or default_names(K)
    return str(answer(metrics if evidence is None else metrics | {"evidence": evidence}, explorer, names))


def _aim(k: int, explorer: Mapping[str, Any]) -> str:
    """What an intention is after, in a few words: a place where there is a map, else what sets it apart."""
    one = explorer["story"]["wants"][k]
    if not one["leads_to"]:
        return "is never used"
    apart = [
        f"{'is in' if what == 'state' else 'does'} {name_of(explorer, what, int(i))} {100 * own:.0f}%"
        for what, i, own, _ in one.get("more", [])
    ]
    layout, first = explorer.get("layout"), name_of(explorer, "state", int(one["leads_to"][0][0]))
    if layout is None:
        acts = [f"{name_of(explorer, 'action', int(a))} {share:.0%}" for a, share in one["acts"][:2]]
        chosen = [f"does {choice}" for choice in _choices_of(k, explorer, 1, beside=False)]
        return chosen[0] if chosen else f"{apart[-1] if apart else f'does {listed(acts)}'} of the time"
    if layout["kind"] == "cells":  # places have no names but what was measured there
        return "is mostly around " + first.partition("(")[2].rstrip(")")
    if one["leads_to"][0][1] >= HEADS_FOR:
        return f"heads for {first}"
    if sum(share for _, share in one["leads_to"]) >= BETWEEN:
        return "moves between " + listed([name_of(explorer, "state", int(s)) for s, _ in one["leads_to"]])
    return f"roams, and {apart[0]} of the time" if apart else "roams"


def _choices_of(k: int, explorer: Mapping[str, Any], most: int, *, beside: bool = True) -> list[str]:
    """The choices that set an intention apart from the others most, where something does, and what those do."""
    if explorer.get("choices") is None or explorer["n_intentions"] == 1:
        return []
    shares, apart = differences(np.array(explorer["choices"], float))
    found = []
    for i in np.argsort(-apart[k].ravel(), kind="stable")[:most]:
        s, a = np.unravel_index(int(i), apart[k].shape)
        if apart[k, s, a] < APART:
            break
        act, state = name_of(explorer, "action", int(a)), name_of(explorer, "state", int(s))
        own, others = shares[k, s, a], shares[k, s, a] - apart[k, s, a]
        found.append(f"{act} in “{state}” ({own:.0%}{f', others {others:.0%}' if beside else ''})")
    return found


def methods_text(metrics: Mapping[str, Any], config: Mapping[str, Any]) -> str:
    """A paragraph for the methods of a paper, with the numbers of this fit; empty where they are not known."""
    if any(number(metrics.get(f"n_{what}")) is None for what in ("intentions", "steps", "trajectories")):
        return ""
    part, habit = scored_part(metrics), mapping(mapping(metrics.get("references")).get("ngram"))
    score, beside = (number(mapping(of.get("predictive_ll")).get(part)) for of in (metrics, habit))
    return say(
        "methods",
        metrics=metrics,
        settings=mapping(config.get("parameters")),
        release=mapping(config.get("versions")).get("prism-irl"),
        pair=str(metrics.get("pair") or ""),
        em=mapping(metrics.get("em")),
        part=part_name(metrics),
        score=score,
        habit=beside,
        tested=mapping(metrics.get("evidence")),
        lasts=in_seconds(number(metrics.get("mean_dwell")) or 0.0, number(metrics.get("step_seconds"))),
    )


# -- five questions ----------------------------------------------------------------------------------------------------


class Question(NamedTuple):
    """A question, the findings that answer it, and where it asks for one a sentence per intention.

    Each of ``wants`` has the number ``k``, ``name``, ``color`` and ``text``; names may be changed in the page.
    """

    title: str
    findings: list[Finding]
    wants: Sequence[Aim] = ()


def questions(metrics: Mapping[str, Any], explorer: Mapping[str, Any], names: Sequence[str]) -> list[Question]:
    """Return the five questions with their answers, by metrics.json and explorer.json.

    Of a table of methods, the ``fit`` of explorer.json is evaluated in its place; ``names`` are those of K intentions.
    """
    comparison = is_comparison(metrics)
    facts = mapping(explorer.get("fit")) if comparison else metrics
    if comparison and facts:  # what was found of the data, or of the run as a whole, holds for the fit that is shown
        facts = {key: metrics[key] for key in ("evidence", "tokens") if key in metrics} | dict(facts)
    findings = verdict({"n_intentions": explorer["n_intentions"], **facts, "names": list(names)}) if facts else []
    by_topic = {
        topic: [f for f in findings if f.topic == topic] for topic in ("converged", "number", "switches", "trust")
    }
    if comparison and facts and "em" not in facts:
        by_topic["converged"] = [Finding("info", "It is not fitted by EM and does not say whether it converged.")]
    if is_selection(metrics):
        by_topic["number"] = verdict(metrics) + by_topic["number"]
    elif comparison:
        of_all = verdict(metrics)  # what it has said, the fit that is shown need not say again
        said = {finding.text for finding in of_all}
        by_topic["trust"] = cautious(of_all + [one for one in by_topic["trust"] if one.text not in said])
    elif (accuracy := number(metrics.get("label_accuracy"))) is not None:
        beside = {k: number(mapping(one).get("label_accuracy")) for k, one in mapping(metrics.get("baselines")).items()}
        simple = [(name, value) for name, value in beside.items() if value is not None]
        text = say("accuracy", share=accuracy, known=number(metrics.get("known_steps")), simple=simple)
        by_topic["trust"].append(Finding("good" if accuracy >= 0.9 else "warning", text))
    if not is_selection(metrics):  # whose own verdict says it
        K, found = int(explorer["n_intentions"]), bool(metrics.get("intentions_found"))
        pair = "" if comparison or found else str(metrics.get("pair") or "markov+features")
        text = say("how_many", K=K, found=found, pair=pair, density=metrics.get("density"))
        by_topic["number"].insert(0, Finding("info", text))
    step, goals = number(metrics.get("step_seconds")), goals_in_words(metrics, explorer)
    wants = [
        Aim(k, names[k], intention_color(k), goals.get(k, "") + _want(k, explorer, step, aim=k in goals))
        for k in range(len(explorer["story"]["wants"]))
    ]
    about = []  # of several models, which one the answers are about and what it was fitted to
    if comparison and facts.get("name"):
        how = f" {facts['how']}" if facts.get("how") else ""
        about = [Finding("info", f"The answers here are about {facts['name']}.{how}")]
    return [
        Question("Did it converge?", about + by_topic["converged"]),
        Question("How many intentions are there?", by_topic["number"]),
        Question("What does each intention want?", [], wants),
        Question("When does the agent switch?", [*by_topic["switches"], Finding("info", _switches(explorer, names))]),
        Question("Can I trust it?", by_topic["trust"]),
    ]


def goals_in_words(metrics: Mapping[str, Any], explorer: Mapping[str, Any]) -> dict[int, str]:
    """The place that each intention goes to, the beginning of a sentence each, where intentions are places."""
    goals = mapping(metrics.get("goals"))
    names, places = goals.get("names"), goals.get("places")
    if isinstance(names, list) and isinstance(places, list):
        return {k: f"goes to {place_in_words(names, place)}. It " for k, place in enumerate(places)}
    found = {}
    for k, one in enumerate(explorer["story"]["wants"]):
        if one["leads_to"] and one.get("goal") is not None:
            found[k] = f"heads for {name_of(explorer, 'state', one['goal'])}. It "
        elif one.get("explores"):
            found[k] = f"explores {one['explores']} places. It "
    return found


def place_in_words(names: Sequence[str], place: Sequence[Any]) -> str:
    """The first quantities of a place, each with its name."""
    numbers = [
        f"{name} {value:.3g}" for name, value in zip(names, map(number, place), strict=False) if value is not None
    ]
    return ", ".join(numbers[:MANY]) + (", …" if len(numbers) > MANY else "")


def _want(k: int, explorer: Mapping[str, Any], step: float | None, *, aim: bool) -> str:
    """What an intention does, how often and for how long; ``aim`` says that its goal has a sentence already."""
    state, action = (partial(name_of, explorer, what) for what in ("state", "action"))
    used = [one for one in explorer["story"]["wants"] if one["leads_to"]]
    one = dict(explorer["story"]["wants"][k])
    leads, more = one["leads_to"], one.get("more", []) if len(used) > 1 else []
    does, choices = mapping(explorer.get("movement")).get("does"), []
    if explorer.get("layout") is None and leads and not does:
        choices = _choices_of(k, explorer, 3)  # states are no places
    sharp = "roams"
    if leads and leads[0][1] >= HEADS_FOR:
        sharp = "heads"
    elif sum(share for _, share in leads) >= BETWEEN:
        sharp = "between"
    kind = "never" if not leads else "phase" if does else "choices" if choices else sharp
    further = [(state(int(s)), share) for s, share in leads[1:] if share >= 0.1]
    told = {"heads": 1 + len(further), "between": len(leads)}.get(kind, 1)
    known = {int(i) for what, i, *_ in more if what == "action"} if kind == sharp else set()
    acts = [(action(int(a)), share) for a, share in one["acts"][:2] if share >= HARDLY and int(a) not in known]
    lasts = "" if not leads else in_seconds(one["dwell"], step)
    return say(
        "want",
        one=one | {"mostly": not known},
        kind=kind,
        does=does[k] if does else "",
        choices=choices,
        # All of several intentions may lead to the same place, which then says nothing about any of them.
        alike=len(used) > 1 and len({want["leads_to"][0][0] for want in used}) == 1,
        further=further,
        acts=acts,
        rest=_apart(more, explorer, {int(s) for s, _ in leads[:told]}, len(used)),
        at_a_time=f"{one['dwell']:.1f} at a time{f' ({lasts})' if lasts else ''}" if leads else "",
        state=state,
        aim=aim,
    )


def _apart(more: Sequence[Any], explorer: Mapping[str, Any], named: set[int], n_used: int) -> str:
    """What sets an intention apart from every other one; another sentence has its share of ``named`` states."""
    if n_used < 2:
        return ""
    there = {int(i): most for what, i, _, most in more if what == "state" and int(i) in named}
    words = [
        ("is in" if what == "state" else "does", name_of(explorer, what, int(i)), own, most)
        for what, i, own, most in more
        if what != "state" or int(i) not in named
    ]
    where = "there" if set(there) == named else f"in {listed([name_of(explorer, 'state', i) for i in there])}"
    return say("apart", two=n_used == 2, hardly=HARDLY, there=list(there.values()), where=where, words=words)


def _switches(explorer: Mapping[str, Any], names: Sequence[str]) -> str:
    """How often the agent switches, and what goes with it."""
    found = explorer["story"]["switches"]
    if not found["n"]:
        return "It never switches within a trajectory."
    stuck, moved, ratio = found["stuck"], found["moved"], None
    if min(stuck["steps"], moved["steps"]) >= ENOUGH and stuck["rate"] and moved["rate"]:
        ratio = stuck["rate"] / moved["rate"]
    events = mapping(found.get("near"))
    near = [(name, rates["events"], list(_near(rates, names))) for name, rates in events.items()]
    rare = [f"“{name}”" for name, rates in events.items() if rates["near"]["steps"] < ENOUGH]
    state = partial(name_of, explorer, "state")
    numbers: dict[str, Any] = {"ratio": ratio, "clear": CLEAR, "steps": NEAR, "n_events": len(events)}
    return say("switches", found=found, near=near, rare=rare, state=state, **numbers)


def _near(rates: Mapping[str, Any], names: Sequence[str]) -> Iterator[tuple[float, float, float, float, str]]:
    """Rates of leaving each intention that are clearly higher, or lower, near an event, beyond their interval."""
    if rates["near"]["steps"] < ENOUGH:
        return
    for name, own in zip(names, rates["leaving"], strict=False):
        near, otherwise = own["near"], own["otherwise"]
        if min(near["steps"], otherwise["steps"]) < ENOUGH:
            continue
        if near["low"] > CLEAR * otherwise["rate"] or CLEAR * near["high"] < otherwise["rate"]:
            yield near["rate"], near["low"], near["high"], otherwise["rate"], name
