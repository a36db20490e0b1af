"""The choice of K: evidence first, then what predicts and what disjoint halves of the data agree on."""

from dataclasses import replace

import numpy as np
import pytest

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.models.intentions import Intentions
from prism_irl.models.presets import HIQL
from prism_irl.studies import selection
from prism_irl.studies.selection import Candidate, Halves, Select, candidate, choose, likelihood_limit, parse_intentions

FOUND = {"found": True, "gain": 0.01, "p_value": 0.05}
NOTHING = {"found": False, "gain": -0.001, "p_value": 0.4}


def made(k, likelihood, agreement=None, gain=0.1, **changes):
    use, dwell = (1 / k,) * k, (10.0,) * k
    gain = None if k == 1 else gain
    base = Candidate(k, likelihood, 0.01, agreement, agreement, 1 / k, 10.0, 8.0, use, dwell, 0, gain, 0.01)
    return replace(base, **changes)


def table(*candidates):
    return {c.n_intentions: c for c in candidates}


def two_policies(n_trajectories=24, length=60, seed=0):
    """Two intentions that choose opposite actions and last about 15 steps."""
    rng = np.random.default_rng(seed)
    shape = (n_trajectories, length)
    states, intention = rng.integers(4, size=shape), rng.integers(2, size=n_trajectories)
    labels = np.zeros(shape, np.int64)
    for t in range(length):
        intention = np.where(rng.random(n_trajectories) < 1 / 15, 1 - intention, intention)
        labels[:, t] = intention
    actions = np.where(rng.random(shape) < 0.9, labels, rng.integers(2, size=shape))
    return Demonstrations.from_arrays(states, actions, labels=labels, n_states=4, n_actions=2)


def build(K):
    return HIQL(K, n_starts=2, max_iterations=30, seed=1)


def test_likelihood_stops_at_the_first_number_that_gains_no_more_than_its_error():
    candidates = table(made(1, -1.0), made(2, -0.5), made(3, -0.495, gain=0.005), made(4, -0.4))
    assert likelihood_limit(candidates) == (4, 2)


def test_halves_choose_among_what_predicts():
    candidates = table(made(1, -0.87), made(2, -0.76, 0.84), made(3, -0.74, 0.32), made(4, -0.72, 0.30))
    choice = choose(candidates, FOUND)
    assert (choice.best, choice.by_likelihood, choice.recommended) == (4, 4, 2)
    assert "identifies 2 intentions" in choice.words
    assert "0.32 at K=3" in choice.words
    assert "for prediction take K=4, for interpretation K=2" in choice.words
    assert "still rising at the largest K" in choice.words


def test_what_does_not_predict_is_not_taken_however_well_halves_agree():
    choice = choose(table(made(1, -0.9), made(2, -0.5, 0.9), made(3, -0.5, 0.99, gain=0.0)), FOUND)
    assert choice.recommended == choice.by_likelihood == 2


def test_a_larger_number_is_taken_where_halves_agree_better_on_it():
    choice = choose(table(made(1, -0.9), made(2, -0.6, 0.66), made(3, -0.5, 0.9)), FOUND)
    assert choice.recommended == 3


def test_where_halves_settle_nothing_likelihood_decides():
    choice = choose(table(made(1, -0.9), made(2, -0.6, 0.66), made(3, -0.5, 0.5)), FOUND)
    assert choice.recommended == 3
    assert "does not settle" in choice.words


def test_without_evidence_there_is_one():
    choice = choose(table(made(1, -0.9), made(2, -0.5, 1.0)), NOTHING)
    assert choice.recommended == 1
    assert choice.words.startswith("No evidence for intentions beyond habit")
    assert choose(table(made(2, -0.5, 1.0), made(3, -0.4, 1.0)), NOTHING).recommended == 2


def test_what_was_not_tested_says_so():
    choice = choose(table(made(1, -0.9), made(2, -0.5, 1.0)))
    assert choice.recommended == 2
    assert "not tested against a habit" in choice.words


@pytest.mark.parametrize("fault", [{"minimum_use": 0.01}, {"minimum_dwell": 1.2}])
def test_intentions_that_are_not_used_or_do_not_last_are_not_taken(fault):
    choice = choose(table(made(1, -0.9), made(2, -0.5, 1.0, **fault)), FOUND)
    assert choice.recommended == 1


def test_halves_that_disagree_are_not_called_identified():
    choice = choose(table(made(1, -0.9), made(2, -0.5, 0.4)), FOUND)
    assert choice.recommended == 2
    assert "does not settle" in choice.words
    assert not made(2, -0.5, 0.9, shown_agreement=0.3).identified


def test_no_candidates():
    with pytest.raises(InputError, match="no number of intentions"):
        choose({})


def test_numbers_of_a_candidate():
    labels = np.array([0, 0, 0, 1, 1, 1, 1, 1, 0, 0])
    halves = Halves(2, HIQL(2), labels, (0.9, 0.5, 0.7), (0.8, 0.6), 1)
    found = candidate([-1.0, -2.0], halves, np.array([0, 5, 10]), [-1.5, -2.1])
    assert found.agreement == 0.7
    assert found.shown_agreement == pytest.approx(0.7)
    assert found.predictive_ll == -1.5
    assert found.standard_error == pytest.approx(0.5)
    assert found.gain == pytest.approx(0.3)
    assert found.gain_error == pytest.approx(0.2)
    assert found.use == (0.5, 0.5)
    assert found.dwell == (2.5, 2.5)  # segments end with their trajectory
    assert found.repeated == 1
    with pytest.raises(InputError, match="no fold"):
        candidate([], halves, np.array([0, 5, 10]))


def test_halves_agree_where_there_is_something_to_find():
    found = selection.fit_halves(two_policies(), build, (1, 2), splits=2)
    assert found[1].agreements == ()
    assert len(found[2].agreements) == 2
    assert len(found[2].with_all) == 4
    assert min(found[2].agreements) > 0.7
    with pytest.raises(InputError, match="at least 1 way"):
        selection.fit_halves(two_policies(), build, (2,), splits=0)


def test_animals_are_kept_together(monkeypatch):
    demos = replace(two_policies(8, 20), groups=np.repeat(["a", "b", "c", "d"], 2))
    parts = []
    fit = selection.fit_to_all

    def watched(models, part, *rest, **options):
        parts.append(set(part.groups))
        return fit(models, part, *rest, **options)

    monkeypatch.setattr(selection, "fit_to_all", watched)
    selection.fit_halves(demos, build, (2,), splits=1)
    assert parts[0] == {"a", "b", "c", "d"}
    assert not parts[1] & parts[2]


def test_a_search_that_stayed_behind_is_noticed_and_repeated():
    demos = two_policies()
    good, bad = build(2).fit(demos), HIQL(2, n_starts=1, max_iterations=0).fit(demos)
    assert selection.stayed_behind(1, [good, bad], [demos, demos])
    assert not selection.stayed_behind(0, [good, bad], [demos, demos])
    more = selection.more_starts(build(2), 3)
    assert (more.n_starts, more.seed) == (6, 3001)


def test_select_and_fit_are_the_same_search():
    from prism_irl.models import registry
    from prism_irl.studies.selection import Select

    for switching, method in (("markov", "hiql"), ("state", "state+tabular"), ("recurrent", "prism-recurrent")):
        own = Select(switching=switching).model(2)
        same = registry.method(method, 2).model
        mine, theirs = own.get_params(deep=False), same.get_params(deep=False)
        assert mine.pop("history") == 1  # as of every pair where it is not given
        assert theirs.pop("history") in (None, 1)
        assert mine == theirs


def test_without_a_decision_one_intention_is_recommended_and_the_way_on_is_named():
    few = {**NOTHING, "decided": False, "seconds_for_999": 600.0}
    choice = choose(table(made(1, -0.9), made(2, -0.5, 1.0)), few)
    assert choice.recommended == 1
    assert "--surrogates 999 settles it, which take about 10 minutes" in choice.words


def test_without_evidence_nobody_is_sent_to_more_intentions():
    choice = choose(table(made(1, -0.9), made(2, -0.5, 1.0), made(3, -0.4, 1.0)), NOTHING)
    assert "for prediction" not in choice.words


def test_intentions_are_read_as_people_write_them():
    assert parse_intentions("1..4") == (1, 2, 3, 4)
    assert parse_intentions("5,2") == (2, 5)
    assert parse_intentions("1..2,4") == (1, 2, 4)
    for wrong in ("", "0..3", "3..1", "two", "1..x"):
        with pytest.raises(InputError, match="cannot be read"):
            parse_intentions(wrong)


def test_switching_chooses_the_model():
    assert isinstance(Select().model(3), HIQL)
    network = Select(switching="recurrent", history=2, starts=1)
    model = network.model(2)
    assert isinstance(model, Intentions)
    assert (model.switching, model.history, model.n_starts) == ("recurrent", 2, 1)
    with pytest.raises(InputError, match="no method 'hidden'"):
        Select(switching="hidden").model(2)
