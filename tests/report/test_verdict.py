"""The rules of the verdict, one by one."""

import json
from pathlib import Path

import pytest

from prism_irl.report.verdict import Finding, headline, overall, sentences, verdict

FIT = json.loads(Path(__file__).with_name("fit.json").read_text())
COMPARISON = json.loads(Path(__file__).with_name("comparison.json").read_text())
METHODS = COMPARISON["methods"]


def fit(**changes):
    return {**FIT, **changes}


def compare(*, quick=False, **changes):
    """The comparison with some methods changed (None removes one); underscores in the names stand for hyphens."""
    methods = dict(METHODS)
    for name, change in changes.items():
        key = name.replace("_", "-")
        if change is None:
            del methods[key]
        else:
            methods[key] = {**methods.get(key, {}), **change}
    return {**COMPARISON, "quick": quick, "methods": methods}


def found(metrics, words):
    """Return the level of the one finding that has these words, or None."""
    levels = [finding.level for finding in verdict(metrics) if words in finding.text]
    assert len(levels) <= 1
    return levels[0] if levels else None


# -- verdict of a fit --------------------------------------------------------------------------------------------------


def test_a_good_fit_has_only_good_findings():
    assert {finding.level for finding in verdict(FIT)} == {"good"}
    assert all(isinstance(finding, Finding) for finding in verdict(FIT))


def test_convergence():
    assert found(FIT, "converged after 80 iterations") == "good"
    for rise, words, level in ((None, "before it had converged", "warning"), (0.01, "before it had", "warning"),
                               (2e-5, "rose by less than 0.0001", "good")):  # fmt: skip
        assert found(fit(em={**FIT["em"], "converged": False, "rise": rise}), words) == level
    fixed = {**FIT["em"], "converged": False, "fixed": True}
    assert found(fit(em=fixed), "the number that was asked for") == "info"


@pytest.mark.parametrize("how", ["converged", "fixed"])
def test_a_fit_that_ends_where_it_began_is_no_success(how):
    em = {**FIT["em"], "converged": False, how: True}
    assert found(fit(em={**em, "iterations": 0}), "No iteration of EM predicted better") == "warning"
    assert found(fit(em={**em, "iterations": 10, "kept": 0}), "No iteration of EM predicted better") == "warning"
    assert found(fit(em={**em, "iterations": 1}), "No iteration of EM predicted better") is None
    alone = fit(n_intentions=1, em={**em, "iterations": 0})  # one intention is found by counting
    assert found(alone, "No iteration of EM predicted better") is None


@pytest.mark.parametrize(
    ("agreement", "words", "level"),
    [
        (0.49, "No second start finds these intentions again: do not interpret them", "bad"),
        (0.5, "with caution", "warning"),
        (0.79, "with caution", "warning"),
        (0.8, "find the same intentions", "good"),
        (-0.01, "do not interpret them", "bad"),
    ],
)
def test_agreement(agreement, words, level):
    assert found(fit(agreement=agreement), words) == level


def test_unknown_agreement_says_why():
    one = fit(agreement=None, em={**FIT["em"], "starts": 1})
    assert found(one, "Only one start") == "warning"
    several = fit(agreement=None)
    assert found(several, "No other of the 6 starts came within 0.002 nats") == "warning"
    assert found(several, "Only one start") is None


def test_usage():
    assert found(FIT, "Every intention is used") == "good"
    assert found(fit(usage=[0.981, 0.019]), "intention 1 (1.9% of the steps)") == "warning"
    assert found(fit(usage=[0.98, 0.02]), "Hardly used") is None


def test_dwell():
    assert found(fit(mean_dwell=1.99), "intentions have become actions") == "bad"
    assert found(fit(mean_dwell=2.0), "intentions have become actions") is None


def test_dwell_is_judged_per_intention():
    metrics = fit(mean_dwell=10.0, dwell_per_intention=[1.9, 20.0], names=["look around", "go home"])
    assert found(metrics, "look around (1.9 steps) at a time") == "bad"
    assert not any("go home (" in finding.text for finding in verdict(metrics))
    assert found(fit(dwell_per_intention=[2.0, 20.0]), "become an action") is None
    assert found(fit(dwell_per_intention=[2.5, 20.0]), "the shortest, intention 0, 2.5") == "good"
    assert found(fit(dwell_per_intention=[20.0, None]), "become an action") is None  # never used: see the shares
    assert found(fit(dwell_per_intention=None), "Intentions last: 6.5 steps") == "good"


def test_overfitting():
    assert found(fit(predictive_ll={"train": -1.0, "validation": -1.031}), "Overfitting") == "warning"
    assert found(fit(predictive_ll={"train": -1.0, "validation": -1.029}), "No sign of overfitting") == "good"
    assert found(fit(predictive_ll={"train": -1.0, "validation": None}), "no validation trajectories") == "warning"


def test_held_out_is_only_what_chose_nothing():
    assert not any("held-out" in finding.text for finding in verdict(FIT))
    usual = "on validation trajectories, which chose the start and stopping point."
    assert found(FIT, usual) == "good"
    chosen = fit(validation_chose=["memory", "start", "stopping point"])
    assert found(chosen, "on validation trajectories, which chose the memory, start and stopping point.") == "good"
    assert found(fit(validation_chose=[]), "on held-out trajectories, which chose nothing.") == "good"
    older = {key: value for key, value in FIT.items() if key != "validation_chose"}  # before it was written down
    assert found(older, usual) == "good"


def beside(**scores):
    """The fit with its references at other scores."""
    changed = {key: {"name": key, "predictive_ll": score} for key, score in scores.items()}
    return fit(references={**FIT["references"], **changed})


def test_worse_than_a_reference_is_a_problem_that_says_which_and_by_how_much():
    assert found(FIT, "better than uniform, one intention and habit, by 0.1000 nats") == "good"
    habit = beside(ngram={"train": -1.2, "validation": -1.05})
    assert found(habit, "It predicts worse than habit by 0.0500 nats per step, on validation") == "bad"
    two = beside(ngram={"train": -1.2, "validation": -1.05}, empirical={"train": -1.2, "validation": -1.09})
    assert found(two, "worse than one intention by 0.0100 and habit by 0.0500") == "bad"
    assert (
        found(habit | {"planned": True}, "policies that plan know the way, and not what is done by habit") == "warning"
    )
    assert overall(habit, verdict(habit)).startswith("Do not trust")
    level = beside(ngram={"train": -1.2, "validation": -1.1 + 5e-5})
    assert found(level, "predicts worse") is None


def test_references_are_compared_on_the_part_that_is_shown():
    metrics = beside(ngram={"train": -1.0, "validation": -1.2})  # it knows the training data by heart
    assert found(metrics, "predicts worse") is None
    metrics["predictive_ll"] = {"train": -1.09, "validation": None}
    assert found(metrics, "worse than habit by 0.0900 nats per step, on training trajectories") == "bad"
    better = beside() | {"predictive_ll": {"train": -1.0, "validation": None}}
    assert found(better, "they prefer whoever has more parameters") == "info"


def test_a_fit_without_references_is_warned_of():
    assert found(fit(references={}), "Nothing simpler was scored") == "warning"
    assert found({key: value for key, value in FIT.items() if key != "references"}, "Nothing simpler") == "warning"


# -- tested or not -----------------------------------------------------------------------------------------------------

UNTESTED = {key: value for key, value in FIT.items() if key != "evidence"}


def test_what_was_not_tested_says_so_and_nothing_is_good_to_trust():
    assert found(UNTESTED, "Not tested against a habit without intentions: run prism evidence DATA.") == "warning"
    trust = [finding for finding in verdict(UNTESTED) if finding.topic == "trust"]
    assert {finding.level for finding in trust} == {"warning", "info"}
    line = overall(UNTESTED, verdict(UNTESTED))
    assert line.startswith("Not yet known")
    assert "nothing else against it" in line
    worse = UNTESTED | {"usage": [0.99, 0.01]}
    assert "1 more thing to keep in mind" in overall(worse, verdict(worse))


def test_evidence_speaks_either_way():
    assert found(FIT, "does not explain this (p = 0.05, gain 0.0123 nats per step over the habit, 19 s") == "good"
    assert overall(FIT, verdict(FIT)) == "Nothing here speaks against this run."
    against = fit(evidence={"p_value": 0.4, "gain": -0.001, "surrogates": 19})
    assert found(against, "No evidence for intentions beyond habit (p = 0.4, gain −0.0010") == "bad"


def test_too_few_surrogates_are_neither_for_nor_against():
    few = fit(evidence={"p_value": 0.5, "gain": 0.05, "surrogates": 1})
    assert found(few, "Tested with too few surrogates to know (p = 0.5") == "warning"
    assert found(few, "No evidence") is None
    beaten = fit(evidence={"p_value": 1.0, "gain": -0.05, "surrogates": 1})
    assert found(beaten, "No evidence for intentions beyond habit") == "bad"  # whatever further ones would say


@pytest.mark.parametrize(("agreement", "level"), [(0.2, "bad"), (0.6, "warning"), (0.9, "good")])
def test_a_selection_speaks_of_halves_and_not_of_starts(agreement, level):
    assert found(fit(halves_agreement=agreement), "Another half of the data gives") == level
    assert found(fit(halves_agreement=agreement), "Equally likely starts") is None


def test_tokens_of_a_robot_never_pass_without_a_warning():
    assert found(fit(tokens=True), "rarely recover the phases of a robot") == "warning"
    assert found(FIT, "tokens") is None
    assert overall(fit(tokens=True), verdict(fit(tokens=True))).startswith("1 thing to keep in mind")


def test_one_intention_is_not_judged_on_switching():
    alone = UNTESTED | {"n_intentions": 1, "agreement": None, "usage": [1.0], "mean_dwell": 1.0}
    findings = verdict(alone)
    assert len(findings) == 3  # convergence, references, overfitting
    assert {finding.level for finding in findings} == {"good"}
    worse = alone | {"predictive_ll": {"train": -1.3, "validation": -1.3}}
    assert found(worse, "worse than habit by 0.1000") == "warning"  # which refutes nothing that it claims


def test_the_worst_finding_comes_first():
    levels = [finding.level for finding in verdict(fit(agreement=0.1, usage=[1.0, 0.0]))]
    assert levels == sorted(levels, key=["bad", "warning", "info", "good"].index)
    assert levels[0] == "bad"


# -- verdict of a comparison -------------------------------------------------------------------------------------------


def test_the_best_predictor_is_named_with_its_distance_from_the_truth():
    assert found(COMPARISON, "Recurrent switching predicts best: −1.101") == "good"
    assert found(COMPARISON, "0.013 short of the truth (−1.088)") == "good"
    far = compare(prism_recurrent={"predictive_ll": {"mean": -1.15, "std": 0.0}})
    assert found(far, "0.062 short of the truth") == "warning"


def test_the_paper_score_never_makes_a_method_the_best():
    best = verdict(compare(prism_paper={"paper_score": {"mean": -0.001, "std": 0.0}}))[0]
    assert best.text.startswith("Recurrent switching predicts best")


def test_without_an_oracle_there_is_no_distance_and_no_leak_above_it():
    metrics = compare(oracle=None)
    assert found(metrics, "predicts best") == "good"
    assert found(metrics, "the truth") is None
    assert found(metrics, "not a likelihood") is None


def test_better_than_the_truth_is_a_problem_and_not_a_success():
    metrics = compare(prism_recurrent={"predictive_ll": {"mean": -1.0, "std": 0.0}})
    assert found(metrics, "look for a leak") == "bad"
    level = compare(prism_recurrent={"predictive_ll": {"mean": -1.0875, "std": 0.0}})
    assert found(level, "level with the truth") == "good"


def test_methods_within_one_standard_deviation_are_named():
    assert found(COMPARISON, "Within one standard deviation") is None
    metrics = compare(bc={"name": "Cloning", "predictive_ll": {"mean": -1.103, "std": 0.001}})
    assert found(metrics, "Within one standard deviation of it: Cloning.") == "good"


def test_a_leaking_score_above_the_truth_is_explained():
    words = "the gate has seen the action that it is scored on"
    assert found(COMPARISON, words) == "warning"
    assert found(COMPARISON, "PRISM (paper gate) (−0.720) is above the truth") == "warning"
    assert found(COMPARISON, "can reach min(K, A)") == "warning"
    assert found(compare(prism_paper={"leaks": False}), words) is None
    assert found(compare(prism_paper={"paper_score": {"mean": -1.09, "std": 0}}), words) is None
    assert found(compare(prism_paper={"paper_score": None}), words) is None


def test_recovery_of_the_true_intentions_is_judged_without_the_oracle():
    assert found(COMPARISON, "Recurrent switching recovers the true intention at 97.5%") == "good"
    worse = compare(prism_recurrent={"label_accuracy": 0.6})
    assert found(worse, "PRISM (paper gate) recovers the true intention at 64.6%") == "warning"


def test_short_dwell_of_the_best_and_quick_runs_are_warned_of():
    assert found(compare(prism_recurrent={"mean_dwell": 1.5}), "have become actions") == "warning"
    assert found(COMPARISON, "have become actions") is None
    assert found(compare(quick=True), "quick run") == "warning"
    assert found(COMPARISON, "quick run") is None


def test_methods_with_intentions_are_held_against_the_references():
    habit = {"name": "Habit", "predictive_ll": {"mean": -1.05, "std": 0.0}}
    several = compare(prism_recurrent={"n_intentions": 2}, ngram=habit)
    assert found(several, "Recurrent switching (habit by 0.0510)") == "bad"
    assert overall(several, verdict(several)).startswith("Not every method here holds")
    assert found(compare(prism_recurrent={"n_intentions": 1}, ngram=habit), "Worse than a reference") is None
    low = {"name": "Habit", "predictive_ll": {"mean": -1.5, "std": 0.0}}
    assert found(compare(prism_recurrent={"n_intentions": 2}, ngram=low), "Worse than a reference") is None


def test_a_comparison_of_intentions_that_were_not_tested_says_so():
    several = compare(prism_recurrent={"n_intentions": 2})
    assert found(several, "Not tested against a habit without intentions") == "warning"
    assert found({**several, "evidence": EVIDENCE}, "Not tested") is None
    assert found(compare(prism_recurrent={"n_intentions": 1}), "Not tested") is None  # claims nothing


# -- verdict of a choice of K ------------------------------------------------------------------------------------------


def selection(agreement=0.93, by_likelihood=2, **changes):
    entries = {
        f"k{k}": {"name": f"K={k}", "predictive_ll": {"mean": -1.2 + 0.05 * k, "std": 0.01}, "agreement": None}
        for k in (1, 2, 3)
    }
    entries["k2"]["agreement"] = agreement
    base = {"recommended": 2, "by_likelihood": by_likelihood, "recommendation": "Two it is.", "methods": entries}
    return base | {"notes": ["Two it is.", "How it was done."]} | changes


EVIDENCE = {"found": True, "p_value": 0.05, "agreement_p_value": 0.05, "level": 0.05, "surrogates": 19}


def test_the_recommendation_is_the_verdict_of_a_selection():
    tested = selection(evidence=EVIDENCE)
    assert verdict(tested) == [Finding("good", "Two it is.")]
    assert overall(tested, verdict(tested)) == "Take 2 intentions."
    assert found(selection(agreement=0.5, evidence=EVIDENCE), "Two it is.") == "warning"
    assert found(selection(agreement=None, evidence=EVIDENCE), "Two it is.") == "warning"
    alone = selection(recommended=1, evidence=EVIDENCE | {"found": False})
    assert verdict(alone) == [Finding("good", "Two it is.")]  # one intention needs neither agreement nor evidence
    assert overall(alone, verdict(alone)) == "Take 1 intention."


def test_a_selection_that_was_not_tested_is_no_good_news():
    assert found(selection(), "Two it is.") == "warning"
    assert found(selection(), "Not tested against a habit without intentions: leave --surrogates as it is") == "warning"
    against = selection(evidence=EVIDENCE | {"found": False})
    assert found(against, "Two it is.") == "warning"
    assert found(against, "Not tested") is None


def test_a_selection_whose_steps_are_not_settled_says_so():
    sure = EVIDENCE | {"agreement": 0.9, "agreement_p_value": 0.05}
    open_steps = sure | {"agreement_p_value": 0.3}
    assert found(selection(evidence=open_steps), "do not interpret single steps") == "warning"
    assert found(selection(evidence=sure | {"agreement": 0.2}), "do not interpret single steps") == "warning"
    assert found(selection(evidence=sure), "do not interpret single steps") is None
    assert found(selection(recommended=1, evidence=open_steps), "do not interpret single steps") is None
    assert found(selection(evidence=open_steps | {"level": 0.5}), "do not interpret single steps") is None


def test_the_fit_that_is_shown_must_agree_too():
    shown = selection(evidence=EVIDENCE)
    shown["methods"]["k2"]["shown_agreement"] = 0.5
    assert found(shown, "Two it is.") == "warning"
    shown["methods"]["k2"]["shown_agreement"] = 0.8
    assert found(shown, "Two it is.") == "good"


def test_a_selection_that_ends_at_the_largest_number_says_so():
    assert found(selection(by_likelihood=3), "3 is the largest number that was tried") == "warning"
    assert found(selection(by_likelihood=2), "largest number") is None


# -- verdict of a test against a habit ---------------------------------------------------------------------------------


def test_evidence_is_good_news_and_none_is_a_problem():
    metrics = {"experiment": "evidence", "methods": {}, "evidence": EVIDENCE | {"found": True}}
    assert verdict(metrics)[0].level == "good"
    assert overall(metrics, verdict(metrics)) == "There are intentions beyond habit."
    none = metrics | {"evidence": EVIDENCE | {"found": False}}
    assert verdict(none)[0].level == "bad"
    assert overall(none, verdict(none)) == "No evidence for intentions beyond habit."
    open_ = metrics | {"evidence": EVIDENCE | {"found": False, "decided": False}}
    assert overall(open_, verdict(open_)) == "Not decided yet."


def test_an_experiment_may_judge_itself():
    own = [{"level": "good", "text": "Wrong in 2 of 40."}, {"level": "warning", "text": "Found in 9 of 20."}]
    metrics = {"methods": {}, "findings": own, "summary": "No more false positives.", "quick": True}
    assert verdict(metrics)[:2] == [Finding("good", "Wrong in 2 of 40."), Finding("warning", "Found in 9 of 20.")]
    assert found(metrics, "quick run") == "warning"
    assert overall(metrics, verdict(metrics)) == "No more false positives."


# -- questions ---------------------------------------------------------------------------------------------------------


def test_findings_of_a_fit_know_their_question():
    topics = {finding.topic for finding in verdict(FIT)}
    assert topics == {"converged", "number", "switches", "trust"}


def question(**changes):
    base = {"found": True, "effect": 0.02, "low": 0.01, "high": 0.03, "p_value": 0.025, "p_adjusted": 0.05}
    return base | {"floor": 0.001, "surrogates": 39} | changes


NO = {"found": False, "effect": -0.001, "low": -0.003, "high": 0.001, "p_value": 0.6, "p_adjusted": 1.0}


def evidence_of(**changes):
    base = {"found": True, "decided": True, "level": 0.05, "g1": question(), "g2": None, "memory": 3}
    return base | {"memoryless_gain": 0.05, "agreement": 0.8, "agreement_p_value": 0.05} | changes


def text(**changes):
    return " ".join(finding.text for finding in sentences(evidence_of(**changes)))


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
        ("where its rare contexts are worth 0.25 steps of shorter ones", {"hangs_on": [0.25]}, {"hangs_on": []}),
        ("The answer hangs on how lively", {"hangs_on": [32.0, 0.25]}, {"found": False, "hangs_on": [0.25]}),
        (
            "Phases that disjoint halves of the data find agree to 0.83",
            {"density": True, "g1": question(statistic=0.83)},
            {},
        ),
        (
            "position and last command tell them as well",
            {"density": True, "found": False, "g1": question(**NO, statistic=0.83)},
            {"density": True, "found": False, "g1": question(**NO, statistic=0.2)},
        ),
        (
            "Do not interpret single steps",
            {"density": True, "agreement": 0.3, "g1": question(statistic=0.3)},
            {"density": True, "g1": question(statistic=0.83)},
        ),
        ("do not interpret single steps", {"agreement": 0.39}, {}),
        ("do not interpret single steps", {"agreement_p_value": 0.2}, {}),
    ],
)
def test_a_sentence_stands_where_it_belongs(sentence, there, elsewhere):
    assert sentence in text(**there)
    assert sentence not in text(**elsewhere)


def test_levels_fit_the_numbers():
    assert [finding.level for finding in sentences(evidence_of())] == ["good", "good"]
    assert [finding.level for finding in sentences(evidence_of(agreement=0.39))] == ["good", "warning"]
    assert sentences(evidence_of(found=False))[0].level == "bad"
    assert [finding.level for finding in sentences(evidence_of(found=False, decided=False))][:2] == [
        "warning",
        "warning",
    ]
    assert headline(evidence_of()) == sentences(evidence_of())[0].text[: len(headline(evidence_of()))]
