"""The answer in one sentence, and the five questions that everybody asks of a fit, each answered in plain words.

Did it converge, how many intentions are there, what does each want, when does the agent switch, and can I trust it?
Findings of the verdict are sorted under their question; `story.describe` answers the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from prism_irl import storage
from prism_irl.figures.palette import intention_color
from prism_irl.report.names import default_names, names_in
from prism_irl.report.screen import APART, HEADS_FOR, differences, in_seconds, name_of
from prism_irl.report.story import NEAR
from prism_irl.report.verdict import (
    Finding,
    cautious,
    evidence_finding,
    is_comparison,
    is_selection,
    listed,
    mapping,
    number,
    part_name,
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
    """One intention in the sentence, in its colour; without a name where there is only one."""

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
        return Answer(f"{count} phase{plural}: ", phases, after)
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
    K, pair, em = int(metrics["n_intentions"]), str(metrics.get("pair") or ""), mapping(metrics.get("em"))
    settings, release = mapping(config.get("parameters")), mapping(config.get("versions")).get("prism-irl")
    what = f"{K} intention{'s' if K > 1 else ''}"
    what += " (their number found by the fit)" if metrics.get("intentions_found") and K > 1 else ""
    model = "phases of the demonstrations" if not pair else f"{pair.partition('+')[0]} switching and rewards of kind "
    model += pair.partition("+")[2]
    text = (
        f"We analysed {metrics['n_steps']:,} steps in {metrics['n_trajectories']:,} trajectories with prism-irl"
        f"{f' {release}' if release else ''} ({model}; {what})."
    )
    if em.get("iterations"):
        converged = "converged" if em.get("converged") else "was stopped"
        text += f" Parameters were estimated by expectation-maximisation ({em['starts']} start"
        text += f"{'s' if em['starts'] != 1 else ''}; the best one {converged} after {em['iterations']} iterations"
        text += f"; seed {settings['seed']})." if "seed" in settings else ")."
    part = scored_part(metrics)
    score = number(mapping(metrics.get("predictive_ll")).get(part))
    habit = mapping(mapping(metrics.get("references")).get("ngram")).get("predictive_ll")
    beside = number(mapping(habit).get(part))
    if score is not None:
        text += f" The predictive log-likelihood was {score:.3f} nats per step on {part_name(metrics)} trajectories"
        text += "." if beside is None else f" ({beside:.3f} of a habit without intentions)."
    tested = mapping(metrics.get("evidence"))
    if (p := number(tested.get("p_value"))) is not None:
        one, n = mapping(tested.get("g1")), tested.get("surrogates")
        text += f" Intentions were tested against {n} simulations of a habit that has a memory and no intentions"
        if (gain := number(one.get("effect"))) is not None:
            low, high = number(one.get("low")) or 0.0, number(one.get("high")) or 0.0
            text += f" (gain in cross-validated log-likelihood {gain:+.4f} nats per step, 95% interval {low:+.4f} to "
            text += f"{high:+.4f})"
        text += f": p = {p:.2g}, corrected for both questions asked (Holm)." if tested.get("g2") else f": p = {p:.2g}."
    if K > 1 and (dwell := number(metrics.get("mean_dwell"))) is not None:
        lasts = in_seconds(dwell, number(metrics.get("step_seconds")))
        text += f" Intentions lasted {dwell:.1f} steps{f' ({lasts})' if lasts else ''} on average."
    return text


# -- five questions ----------------------------------------------------------------------------------------------------


class Want(NamedTuple):
    """One intention in a sentence: its name may be changed in the page, the rest may not."""

    k: int
    name: str
    color: str
    text: str


class Question(NamedTuple):
    """A question, the findings that answer it, and a sentence per intention where it asks for one."""

    title: str
    findings: list[Finding]
    wants: list[Want]


def questions(metrics: Mapping[str, Any], explorer: Mapping[str, Any], names: Sequence[str]) -> list[Question]:
    """Return the five questions with their answers.

    Parameters
    ----------
    metrics : dict
        metrics.json, of a fit or of a table of methods.
    explorer : dict
        explorer.json, whose ``fit`` is evaluated in place of a table of methods.
    names : K strings
        Names of the intentions.
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
        told = number(metrics.get("known_steps"))
        saw = f"which has read partial labels of {told:,.0f} of the steps" if told else "which never saw them"
        text = f"True intentions are known here: the fit, {saw}, finds {100 * accuracy:.1f}% of the steps."
        beside = mapping(metrics.get("baselines"))
        simple = {name: number(mapping(one).get("label_accuracy")) for name, one in beside.items()}
        if known := [f"{name} {100 * value:.1f}%" for name, value in simple.items() if value is not None]:
            text += f" Without intentions: {' and '.join(known)}."
        by_topic["trust"].append(Finding("good" if accuracy >= 0.9 else "warning", text))
    step = number(metrics.get("step_seconds"))
    stories = enumerate(explorer["story"]["wants"])
    goals = goals_in_words(metrics, explorer)
    wants = [
        Want(k, names[k], intention_color(k), goals.get(k, "") + _want(k, one, explorer, step)) for k, one in stories
    ]
    about = []  # of several models, which one the answers are about and what it was fitted to
    if comparison and facts.get("name"):
        how = f" {facts['how']}" if facts.get("how") else ""
        about = [Finding("info", f"The answers here are about {facts['name']}.{how}")]
    return [
        Question("Did it converge?", about + by_topic["converged"], []),
        Question("How many intentions are there?", _how_many(explorer, metrics) + by_topic["number"], []),
        Question("What does each intention want?", [], wants),
        Question("When does the agent switch?", by_topic["switches"] + _switches(explorer, names), []),
        Question("Can I trust it?", by_topic["trust"], []),
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


def _how_many(explorer: Mapping[str, Any], metrics: Mapping[str, Any]) -> list[Finding]:
    if is_selection(metrics):
        return []  # its own verdict says it
    K = int(explorer["n_intentions"])
    number_is = "found by the fit" if metrics.get("intentions_found") else "that was asked for"
    text = f"{K} intention{'' if K == 1 else 's'}: the number {number_is}."
    if not is_comparison(metrics) and not metrics.get("intentions_found"):
        pair = str(metrics.get("pair") or "markov+features")
        numbers = f"prism compare --methods {','.join(f'{pair}-k{k}' for k in range(max(K - 1, 1), K + 2))}"
        text += f" To ask the data for the number, run {numbers if metrics.get('density') else 'prism select'}."
    return [Finding("info", text)]


def _want(k: int, one: Mapping[str, Any], explorer: Mapping[str, Any], step: float | None) -> str:
    places = [(name_of(explorer, "state", int(s)), float(share)) for s, share in one["leads_to"]]
    if not places:
        return "is never used."
    lasts = in_seconds(one["dwell"], step)
    at_a_time = f"{one['dwell']:.1f} at a time{f' ({lasts})' if lasts else ''}"
    if does := mapping(explorer.get("movement")).get("does"):
        return f"{does[k]}. {one['share']:.0%} of the steps, {at_a_time}."
    acts = [(int(a), share) for a, share in one["acts"][:2] if share >= HARDLY]
    done = ", ".join(f"{name_of(explorer, 'action', a)} {share:.0%}" for a, share in acts)
    if explorer.get("layout") is None and (choices := _choices_of(k, explorer, 3)):  # states are no places
        return f"does {listed(choices)}. In all {done}. {one['share']:.0%} of the steps, {at_a_time}."
    # All of several intentions may lead to the same place, which then says nothing about any of them.
    first = [wants["leads_to"][0][0] for wants in explorer["story"]["wants"] if wants["leads_to"]]
    alike, told = len(first) > 1 and len(set(first)) == 1, 1
    if places[0][1] >= HEADS_FOR:
        text = f"{'like all others ' if alike else ''}heads for {places[0][0]}, where it would spend "
        text += f"{places[0][1]:.0%} of its time if it never switched"
        further = [f"{name} ({share:.0%})" for name, share in places[1:] if share >= 0.1]
        text += f"; then {' and '.join(further)}" if further else ""
        told += len(further)
    elif sum(share for _, share in places) >= BETWEEN:
        text = "moves between " + ", ".join(f"{name} ({share:.0%})" for name, share in places)
        told = len(places)
    else:
        text = f"roams over about {one['spread']:.0f} states; the most frequent, {places[0][0]}, takes "
        text += f"{places[0][1]:.0%} of its time"
    named = {int(s) for s, _ in one["leads_to"][:told]}
    told_acts = {int(i) for what, i, *_ in one.get("more", []) if what == "action"} if _several(explorer) else set()
    acts = [(a, share) for a, share in acts if a not in told_acts]
    text = f"{text}.{_more(one, explorer, named)}"
    if acts:
        text += " Mostly does " if not told_acts else " Also does "
        text += ", ".join(f"{name_of(explorer, 'action', a)} {share:.0%}" for a, share in acts) + "."
    return f"{text} {one['share']:.0%} of the steps, {at_a_time}."


def _several(explorer: Mapping[str, Any]) -> bool:
    """Whether more than one intention is used, so that there is something to compare."""
    return sum(bool(one["leads_to"]) for one in explorer["story"]["wants"]) > 1


def _more(one: Mapping[str, Any], explorer: Mapping[str, Any], named: set[int]) -> str:
    """What sets an intention apart from every other one, in a sentence; ``named`` states stand before it."""
    if not _several(explorer):
        return ""
    two = sum(bool(wants["leads_to"]) for wants in explorer["story"]["wants"]) == 2
    words, there = [], []
    for what, i, own, most in one.get("more", []):
        if what == "state" and int(i) in named:  # its share has been told
            there.append((int(i), most))
            continue
        verb = "is in" if what == "state" else "does"
        beside = f"the other {most:.0%}" if two else f"another at most {most:.0%}"
        if most < HARDLY:
            beside = f"the other{'' if two else 's'} hardly ever"
        words.append(f"{verb} {name_of(explorer, what, int(i))} ({own:.0%}, {beside})")
    alone = ""
    if there:
        where = (
            "there"
            if {i for i, _ in there} == named
            else f"in {listed([name_of(explorer, 'state', i) for i, _ in there])}"
        )
        most = max(most for _, most in there)
        who, share = "The other" if two else "Others", f"{most:.0%}"
        at_most = "" if two and len(there) == 1 else "at most "
        alone = f" {who} would be {where} {at_most}{share} of {'its' if two else 'their'} time."
        if most < HARDLY:
            alone = f" {who} would hardly ever be {where}."
    if not words and not there:
        return " Neither where it leads nor how often it does what sets it apart."
    return alone + (f" More than the other{'' if two else 's'}, it {listed(words)}." if words else "")


def _switches(explorer: Mapping[str, Any], names: Sequence[str]) -> list[Finding]:
    switches = explorer["story"]["switches"]
    if not switches["n"]:
        return [Finding("info", "It never switches within a trajectory.")]
    found = [f"{switches['n']:,} switches, one in {1 / switches['rate']:.1f} steps."]
    stuck, moved = switches["stuck"], switches["moved"]
    if min(stuck["steps"], moved["steps"]) >= ENOUGH and stuck["rate"] and moved["rate"]:
        ratio = stuck["rate"] / moved["rate"]
        if ratio >= CLEAR:
            found.append(f"{ratio:.1f} times as often after a step that left the state as it was as after a move.")
        elif ratio <= 1 / CLEAR:
            found.append(f"{1 / ratio:.1f} times as often after a move as after a step that left the state as it was.")
    events = mapping(switches.get("near"))
    about = {name: _near(name, rates, names) for name, rates in events.items()}
    found += [text for own in about.values() for text in own]
    rare = [name for name, rates in events.items() if rates["near"]["steps"] < ENOUGH]
    if rare:
        found.append(f"Too rare to tell: {listed([f'“{name}”' for name in rare])}.")
    elif events and not any(about.values()):
        what = f"“{next(iter(events))}”" if len(events) == 1 else f"any of the {len(events)} events"
        found.append(f"Switches are not tied to {what}: nothing that was marked in the data explains them.")
    if switches["places"]:
        places = [(name_of(explorer, "state", p["state"]), p["lift"], p["n"]) for p in switches["places"]]
        usual = ", ".join(f"{name} ({lift:.1f}×, {n:,} switches)" for name, lift, n in places)
        found.append(f"More often than usual after {usual}.")
    elif len(found) == 1:
        found.append("No place and no standstill explains them, and no events were given (--events).")
    return [Finding("info", " ".join(found))]


def _near(name: str, rates: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """A sentence per intention that is left clearly more, or less, often near an event, beyond its interval."""
    if rates["near"]["steps"] < ENOUGH:
        return []
    told = []
    for k, own in enumerate(rates["leaving"]):
        near, otherwise = own["near"], own["otherwise"]
        if min(near["steps"], otherwise["steps"]) < ENOUGH:
            continue
        if near["low"] > CLEAR * otherwise["rate"] or CLEAR * near["high"] < otherwise["rate"]:
            interval = f"{near['low']:.0%} to {near['high']:.0%}"
            told.append(
                f"{near['rate']:.0%} of the steps of {names[k]} ({interval}), {otherwise['rate']:.0%} otherwise"
            )
    if not told:
        return []
    times = f"{rates['events']:,} time{'' if rates['events'] == 1 else 's'} in the data"
    return [f"Within {NEAR} steps of “{name}” ({times}) it switches at {'; '.join(told)}."]
