"""Evidence on continuous data: surrogates are recorded steps, and only what lasts longer is found."""

import numpy as np
import pytest

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.studies import continuous


def wanderer(seed=0, n=16, length=60):
    """A habit: a noisy pull towards the middle and some inertia."""
    rng = np.random.default_rng(seed)
    place, command = rng.uniform(-1, 1, (n, 2)), np.zeros((n, 2))
    seen, done = [], []
    for _ in range(length):
        command = 0.8 * command - 0.05 * place + 0.1 * rng.normal(size=(n, 2))
        seen.append(place)
        done.append(command)
        place = place + 0.3 * command
    return Demonstrations.continuous(np.stack(seen, 1), np.stack(done, 1))


def moods(seed=0, n=16, length=60):
    """Noisy commands that go right, or left, for about fifteen steps, wherever the agent is."""
    rng = np.random.default_rng(seed)
    way = 2 * ((rng.random((n, length)) < 1 / 15).cumsum(1) % 2) - 1.0
    commands = np.stack([way, np.zeros_like(way)], 2) + 0.7 * rng.normal(size=(n, length, 2))
    places = np.cumsum(commands, 1) - commands
    return Demonstrations.continuous(0.1 * places, commands)


def test_surrogates_are_recorded_steps_with_the_starts_of_the_data():
    demos = wanderer()
    made = continuous.spliced(demos, continuous.neighbours(demos), np.random.default_rng(0))
    first = demos.offsets[:-1]
    np.testing.assert_array_equal(made.observations[first], demos.observations[first])
    both = {(*map(float, o), *map(float, m)) for o, m in zip(demos.observations, demos.motions, strict=True)}
    assert all((*map(float, o), *map(float, m)) in both for o, m in zip(made.observations, made.motions, strict=True))
    assert (made.motions != demos.motions).any()


def test_neighbours_are_near_and_have_a_step_after_them():
    demos = wanderer()
    near = continuous.neighbours(demos)
    assert not np.isin(near, demos.offsets[1:] - 1).any()
    apart = np.linalg.norm(demos.observations[near] - demos.observations[:, None], axis=2).mean()
    assert apart < 0.5 * np.linalg.norm(demos.observations - np.roll(demos.observations, 333, 0), axis=1).mean()


@pytest.mark.parametrize(("make", "found"), [(wanderer, False), (moods, True)])
def test_what_lasts_is_found_and_habits_are_not(make, found, tmp_path):
    metrics = continuous.evidence(make(), tmp_path, intentions=(2,), surrogates=19)
    assert metrics["evidence"]["found"] == found
    again = continuous.evidence(make(), tmp_path, intentions=(2,), surrogates=19)
    assert again == metrics
