"""The choice of K weighs what predicts against what independent fits agree on."""

from dataclasses import replace

import numpy as np
import pytest

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.models.hiql import HIQL
from prism_irl.models.prism import PRISM
from prism_irl.studies import selection
from prism_irl.studies.selection import Candidate, Winner, candidate, choose, one_standard_error


def made(k, likelihood, agreement=None, **changes):
    base = Candidate(k, likelihood, 0.01, agreement, 0.0, 1 / k, 10.0, 8.0, (1 / k,) * k, (10.0,) * k)
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


def test_one_standard_error_takes_the_smallest_that_is_near():
    candidates = table(made(1, -1.0), made(2, -0.505, 1.0), made(3, -0.5, 1.0), made(4, -0.52, 1.0))
    assert one_standard_error(candidates) == (3, 2)


def test_agreement_stops_what_likelihood_would_go_on_with():
    candidates = table(made(1, -0.87), made(2, -0.76, 0.84), made(3, -0.74, 0.32), made(4, -0.72, 0.30))
    choice = choose(candidates)
    assert (choice.best, choice.by_likelihood, choice.recommended) == (4, 4, 2)
    assert "identifies 2 intentions" in choice.words
    assert "K=3 predicts better by 0.0200 nats per step" in choice.words
    assert "agree only to 0.32" in choice.words
    assert "By likelihood alone K=4" in choice.words


def test_likelihood_stops_what_agrees():
    choice = choose(table(made(1, -0.9), made(2, -0.5, 0.99), made(3, -0.5, 0.99)))
    assert choice.recommended == choice.by_likelihood == 2
    assert "as well" in choice.words


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ({"minimum_use": 0.001}, "0.1% of the steps"),
        ({"minimum_dwell": 1.4}, "lasts only 1.4 steps"),
        ({"agreement": None}, "no second set"),
    ],
)
def test_unused_fleeting_and_unconfirmed_intentions_do_not_count(fault, words):
    choice = choose(table(made(1, -0.9), replace(made(2, -0.5, 0.99), **fault)))
    assert choice.recommended == 1
    assert words in choice.words


def test_a_later_agreement_is_mentioned_and_not_taken():
    choice = choose(table(made(1, -1.4), made(2, -1.2, 1.0), made(3, -1.15, 0.6), made(4, -1.1, 0.98)))
    assert choice.recommended == 2
    assert "At K=4 independent fits agree again (0.98)" in choice.words


def test_nothing_tried_is_identified():
    choice = choose(table(made(3, -0.7, 0.3), made(4, -0.6, 0.2)))
    assert choice.recommended == 3
    assert "identifies none" in choice.words


def test_candidate_counts_use_dwell_and_agreement():
    offsets = np.array([0, 4, 8])
    a = np.array([0, 0, 1, 1, 0, 0, 0, 1])
    found = candidate(3, [-0.5, -0.7], [Winner(3, -0.4, a), Winner(3, -0.45, 1 - a)], offsets)
    assert found.predictive_ll == pytest.approx(-0.6)
    assert found.standard_error == pytest.approx(0.1)  # std 0.1414 over √2
    assert found.agreement == pytest.approx(1.0)  # names do not matter
    assert found.winner_spread == pytest.approx(0.05)
    assert found.use == (5 / 8, 3 / 8, 0.0)
    assert found.dwell == (2.5, 1.5, 0.0)
    assert found.minimum_use == found.minimum_dwell == 0
    assert found.mean_dwell == 2.0
    with pytest.raises(InputError, match="no fold"):
        candidate(2, [], [Winner(2, 0.0, a)], offsets)


def test_sets_are_independent():
    models = [selection.independent_model(HIQL(2, seed=5, n_starts=3), i, starts=7) for i in range(2)]
    assert models[0].seed != models[1].seed
    assert all((m.n_starts, m.starts, m.validation_fraction) == (7, "annealed", 0.0) for m in models)
    assert selection.independent_model(HIQL(1), 0, starts=7).n_starts == 1
    # The same chain under its other name, and a network, which has no candidates to screen.
    again = selection.independent_model(PRISM(2, switching="markov", seed=5), 0, starts=7)
    assert again.get_params() == {**models[0].get_params(), "max_iterations": again.max_iterations}
    network = selection.independent_model(PRISM(2, seed=5), 0, starts=7)
    assert (network.switching, network.n_starts, network.starts) == ("recurrent", 7, "random")


def test_winners_of_clear_data_agree():
    demos = two_policies()

    def build(k):
        return HIQL(k, max_iterations=40)

    winners = list(selection.independent_winners(demos, build, (1, 2), sets=2, starts=3))
    assert sorted(w.n_intentions for w in winners) == [1, 2, 2]
    pair = [w for w in winners if w.n_intentions == 2]
    found = candidate(2, [-0.4], pair, demos.offsets)
    assert found.agreement > 0.95
    assert found.identified
    with pytest.raises(InputError, match="at least 1"):
        list(selection.independent_winners(demos, build, (2,), sets=0))
