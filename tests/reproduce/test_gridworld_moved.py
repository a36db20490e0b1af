"""Worlds with other barriers: moved they are, connected they stay."""

import numpy as np
import pytest

from prism_irl.experiments.gridworld.moved import elsewhere, moved_worlds
from prism_irl.worlds.frustration import FrustrationWorld

WORLD = FrustrationWorld()


def test_barriers_have_moved_and_every_cell_can_be_reached():
    worlds = moved_worlds(WORLD, 12)
    assert len({world.barriers for world in worlds}) > 6
    for world in worlds:
        assert len(world.barriers) == len(WORLD.barriers)
        assert set(world.barriers).isdisjoint(WORLD.barriers)
        reached = np.zeros(world.n_states, bool)
        reached[0] = True
        for _ in range(world.n_states):  # breadth first, from the origin
            reached |= (world.transitions[reached] > 0).any(axis=(0, 1))
        assert reached[world.free].all()
        assert not reached[~world.free].any()
    assert moved_worlds(WORLD, 12) == worlds


def test_the_true_reward_earns_everything_and_nothing_earns_little():
    for world in elsewhere(WORLD, 3):
        for k in range(2):
            assert world.transfer(WORLD.rewards[k], k) == pytest.approx(1.0)
            assert world.transfer(np.zeros((25, 5)), k) < 0.2
            assert world.transfer(WORLD.rewards[1 - k], k) < 0.2
            assert world.carried(WORLD.policies[k], k) < 1.0
