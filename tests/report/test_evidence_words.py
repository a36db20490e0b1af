"""Every sentence of the verdict of `prism evidence` appears where its numbers say so, and disappears elsewhere."""

import pytest

from prism_irl.report.evidence_words import headline, sentences


def question(**changes):
    base = {"found": True, "effect": 0.02, "low": 0.01, "high": 0.03, "p_value": 0.025, "p_adjusted": 0.05}
    return base | {"floor": 0.001, "surrogates": 39} | changes


NO = {"found": False, "effect": -0.001, "low": -0.003, "high": 0.001, "p_value": 0.6, "p_adjusted": 1.0}


def found(**changes):
    base = {"found": True, "decided": True, "level": 0.05, "g1": question(), "g2": None, "memory": 3}
    return base | {"memoryless_gain": 0.05, "agreement": 0.8, "agreement_p_value": 0.05} | changes


def text(**changes):
    return " ".join(finding.text for finding in sentences(found(**changes)))


@pytest.mark.parametrize(
    ("sentence", "there", "elsewhere"),
    [
        ("There are intentions beyond habit.", {}, {"found": False}),
        ("No evidence for intentions beyond habit.", {"found": False}, {"found": False, "decided": False}),
        ("Not decided yet.", {"found": False, "decided": False}, {}),
        ("Intentions gain +0.0200 nats per step", {}, {"g1": question(effect=0.01)}),
        ("p = 0.025 from 39 simulations", {}, {"g1": question(p_value=0.5)}),
        ("remembers 2 steps (", {}, {"memory": 1}),
        ("remembers no step (", {"memory": 1}, {}),
        ("what was chosen of late", {"slow_choices": True}, {}),
        ("knows the individuals", {"individuals": True}, {}),
        ("different among trajectories", {"several_habits": True}, {}),
        ("Ways that end at places gain +0.0200", {"g2": question()}, {}),
        ("an interval that holds zero", {"g1": question(**NO)}, {}),
        ("too small to matter", {"g1": question(found=False, effect=5e-4, low=1e-4)}, {}),
        ("no more than chance among those", {"g1": question(found=False, p_adjusted=0.4)}, {}),
        ("whether they plan cannot be told", {"found": False, "g1": question(**NO)}, {}),
        (
            "whether they plan cannot be told",
            {"found": False, "g1": question(**NO), "g2": question(**NO)},
            {"g1": question(**NO), "g2": question()},
        ),
        ("whether they plan", {"found": False, "g1": question(**NO)}, {"g1": question(**NO), "memoryless_gain": 0.0}),
        ("the ways are practised", {"g1": question(**NO), "g2": question()}, {"g2": question()}),
        (
            "--surrogates 999 settles it, which take about 2.0 hours",
            {"found": False, "decided": False, "seconds_for_999": 7200.0},
            {"found": False},
        ),
        (
            "19 simulations of the habit cannot answer yes, 39 can: --surrogates 39.",
            {"found": False, "decided": False, "surrogates": 19, "least_surrogates": 39},
            {"found": False, "decided": False, "surrogates": 39, "least_surrogates": 39},
        ),
        ("do not interpret single steps", {"agreement": 0.39}, {}),
        ("do not interpret single steps", {"agreement_p_value": 0.2}, {}),
    ],
)
def test_a_sentence_stands_where_it_belongs(sentence, there, elsewhere):
    assert sentence in text(**there)
    assert sentence not in text(**elsewhere)


def test_levels_fit_the_numbers():
    assert [finding.level for finding in sentences(found())] == ["good", "good"]
    assert [finding.level for finding in sentences(found(agreement=0.39))] == ["good", "warning"]
    assert sentences(found(found=False))[0].level == "bad"
    assert [finding.level for finding in sentences(found(found=False, decided=False))][:2] == ["warning", "warning"]
    assert headline(found()) == sentences(found())[0].text[: len(headline(found()))]
