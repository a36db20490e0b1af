"""Gridworlds whose barriers have moved, in which recovered rewards are planned with."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from prism_irl.evaluation.reward_transfer import Elsewhere
from prism_irl.mdp import MDP
from prism_irl.worlds.frustration import FrustrationWorld


def moved_worlds(world: FrustrationWorld, n: int, seed: int = 0) -> list[FrustrationWorld]:
    """Draw worlds with as many barriers, all in cells that were free, in which every free cell can be reached."""
    rng = np.random.default_rng(seed)
    targets = {world.state(world.goal), world.state(world.abandon)}
    candidates = [int(s) for s in np.flatnonzero(world.free) if int(s) not in targets]
    found: list[FrustrationWorld] = []
    while len(found) < n:
        drawn = sorted(rng.choice(candidates, len(world.barriers), replace=False))
        moved = replace(world, barriers=tuple((int(s) % world.size, int(s) // world.size) for s in drawn))
        if _connected(moved):
            found.append(moved)
    return found


def _connected(world: FrustrationWorld) -> bool:
    """Whether every free cell can be reached from every other."""
    steps = (world.transitions.max(axis=1) > 0)[np.ix_(world.free, world.free)]
    reached = np.linalg.matrix_power(steps.astype(np.float64), len(steps)) > 0  # staying is a step, too
    return bool(reached.all())


def elsewhere(world: FrustrationWorld, n: int) -> tuple[Elsewhere, ...]:
    """The moved worlds as places to plan in, entered anywhere."""
    return tuple(
        Elsewhere(MDP.from_dense(moved.transitions, discount=world.discount), moved.rewards, moved.start)
        for moved in moved_worlds(world, n)
    )
