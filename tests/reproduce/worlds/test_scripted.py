"""Scripted tasks: the same episode for the same seed, and phases that their names describe."""

import numpy as np
import pytest

from prism_irl.errors import InputError
from worlds.scripted import TASKS, episodes


@pytest.mark.parametrize("task", list(TASKS))
def test_an_episode_depends_on_its_number_and_the_seed(task):
    many, few = list(episodes(task, 3, seed=1)), list(episodes(task, 2, seed=1))
    for one, two in zip(few, many, strict=False):
        np.testing.assert_array_equal(one.states, two.states)
        np.testing.assert_array_equal(one.phases, two.phases)
    assert set(np.concatenate([one.phases for one in many])) == set(range(len(many[0].phase_names)))


def test_unknown_tasks_are_refused():
    with pytest.raises(InputError, match="choose pick-place"):
        next(episodes("juggle", 1))
