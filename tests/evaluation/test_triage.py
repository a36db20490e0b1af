"""Episodes that were spoilt on purpose are found, each for its reason."""

from dataclasses import replace

import numpy as np
import pytest

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.evaluation.metrics import infer_once
from prism_irl.evaluation.triage import robust_z, triage
from prism_irl.models.phases import Phases
from worlds.scripted import episodes

NAMES = [f"p{k}" for k in range(6)]
RESTS, LACKS, SLOW, SHUFFLED = 3, 7, 11, 15
"""Numbers of the spoilt episodes."""


def demonstrations(found):
    return Demonstrations.continuous([one.states for one in found], [one.actions for one in found])


def with_steps(episode, steps):
    return replace(episode, states=episode.states[steps], actions=episode.actions[steps], phases=None, timestamps=None)


@pytest.fixture(scope="module")
def clean():
    return list(episodes("joint-targets", 20, seed=5))


@pytest.fixture(scope="module")
def model(clean):
    return Phases(n_intentions=6).fit(demonstrations(clean))


def spoilt(clean):
    rng, found = np.random.default_rng(0), list(clean)
    steps = np.arange(len(clean[RESTS]))
    found[RESTS] = with_steps(clean[RESTS], np.concatenate([steps, np.repeat(steps[-1:], len(steps) // 2)]))
    found[LACKS] = with_steps(clean[LACKS], np.arange(len(clean[LACKS]) // 2))
    carried = clean[SLOW].phases == clean[SLOW].phases[len(clean[SLOW]) // 2]
    found[SLOW] = with_steps(clean[SLOW], np.repeat(np.arange(len(carried)), np.where(carried, 4, 1)))
    moved = replace(clean[SHUFFLED], actions=rng.permutation(clean[SHUFFLED].actions))
    found[SHUFFLED] = moved
    return found


def test_spoilt_episodes_are_found_with_their_reasons(clean, model):
    demos = demonstrations(spoilt(clean))
    reasons = {}
    for one in triage(infer_once(model, demos), demos, NAMES):
        reasons.setdefault(int(one.episode), []).append(one.reason)
    assert "idle at the end" in reasons[RESTS]
    assert any(reason.startswith("missing phase p") for reason in reasons[LACKS])
    assert any(reason.startswith("over-long phase p") for reason in reasons[SLOW])
    assert "unlikely" in reasons[SHUFFLED]
    assert len(set(reasons) - {RESTS, LACKS, SLOW, SHUFFLED}) <= 1
    counts = [len(own) for own in reasons.values()]
    assert counts == sorted(counts, reverse=True)


def test_few_episodes_of_a_clean_set_are_called_unusual(clean, model):
    assert (
        len({one.episode for one in triage(infer_once(model, demonstrations(clean)), demonstrations(clean), NAMES)})
        <= 2
    )


class Spoken:
    """A model that says what it is told: labels (n,), every step equally likely."""

    leaks = looks_ahead = False

    def __init__(self, labels):
        self.labels = labels

    def predict_proba(self, demos):
        return np.eye(2)[self.labels]

    def labels_of(self, probabilities, demos):
        return probabilities.argmax(axis=1)

    def log_likelihood(self, demos):
        return np.full(demos.n_steps, -1.0)


def test_a_phase_that_comes_again_is_repeated():
    labels = np.tile([0, 0, 0, 0, 1, 1, 1, 1], (8, 1))
    labels[2] = [0, 1, 0, 1, 0, 1, 0, 1]
    demos = Demonstrations.from_arrays([np.zeros(8, dtype=int)] * 8, [np.zeros(8, dtype=int)] * 8)
    found = triage(infer_once(Spoken(labels.ravel()), demos), demos, ["reach", "lift"])
    assert {(one.episode, one.reason, one.value, one.usual) for one in found} == {
        ("2", "repeated phase reach", 4.0, 1.0),
        ("2", "repeated phase lift", 4.0, 1.0),
    }


def test_four_episodes_do_not_say_what_is_usual(clean, model):
    with pytest.raises(InputError, match="There are 4 episodes; from 5 on"):
        triage(infer_once(model, demonstrations(clean[:4])), demonstrations(clean[:4]), NAMES)


def test_numbers_without_spread_are_all_usual():
    np.testing.assert_array_equal(robust_z(np.ones(6)), 0.0)
    assert robust_z(np.array([1.0, 2, 3, 4, 100]))[-1] > 3.5
