"""The sticky hidden Markov model of the zoo: beliefs as by enumeration, and a chain that is found again."""

import itertools

import numpy as np
import pytest

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.labels import label_accuracy
from zoo.sticky_hmm import StickyHMM


def chain(n, length, seed=0):
    rng = np.random.default_rng(seed)
    labels = (rng.random((n, length)) < 0.05).cumsum(axis=1) % 2
    states = rng.integers(3, size=(n, length))
    actions = np.where(rng.random((n, length)) < 0.9, (labels + states) % 2, rng.integers(2, size=(n, length)))
    return Demonstrations.from_arrays(states, actions, labels=labels, n_states=3, n_actions=2)


def test_a_chain_is_found_again():
    model = StickyHMM(2).fit(chain(30, 50))
    new = chain(20, 50, seed=1)
    assert label_accuracy(new.labels, model.predict_proba(new).argmax(axis=1)) > 0.95


def test_beliefs_are_those_of_all_sequences():
    model = StickyHMM(2, n_starts=1, max_iterations=3).fit(chain(5, 20))
    demos, mode = chain(1, 4, seed=2), model._mode
    total, moves = np.zeros((4, 2)), np.zeros((2, 2))
    for path in itertools.product(range(2), repeat=4):
        p = mode.initial[path[0]] * np.prod([mode.transitions[z, after] for z, after in itertools.pairwise(path)])
        p *= np.prod([mode.policy[z, s, a] for z, s, a in zip(path, demos.states, demos.actions, strict=True)])
        total[np.arange(4), path] += p
        for pair in itertools.pairwise(path):
            moves[pair] += p
    np.testing.assert_allclose(model.predict_proba(demos), total / total.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(model._infer(mode, demos)[2], moves / total[0].sum())
    assert model.log_likelihood(demos).sum() == pytest.approx(np.log(total[0].sum()))
