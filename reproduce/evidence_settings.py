"""Data sets of the calibration: behaviour without intentions of every kind we could think of, and with them.

Without: habits of memory 1 to 5 in the maze and on a grid, with and without individual differences, habits that drift
from the first trajectory to the last, and a trained network that remembers six steps. With: the frustration gridworld,
the simulated mice, and errands, whose switches depend on the state alone.

Even seeds settled the rule (which chains are tried, how many folds, starts and iterations); odd seeds report it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.mdp import MDP
from prism_irl.studies.analysis import Analysis

DRIFT = 0.5
"""Way to another habit that is gone from the first trajectory to the last. A habit that is replaced altogether (1) is
beyond slow, and on even seeds the test did find it."""
SIZES = (50, 100, 200)
MOUSE_STEPS = 100
"""Steps of a window of the simulated mice here: shorter than in their own experiment, for the sake of time."""


@dataclass(frozen=True)
class DataSet:
    """One simulated data set.

    Parameters
    ----------
    world : str
        "habit", "drift", "cloned", "frustration", "mice" or "errands".
    truth : int
        Number of intentions, 1 for none.
    n : int
        Trajectories.
    seed : int
    memory, place, individuals : of habits
    """

    world: str
    truth: int
    n: int
    seed: int
    memory: int = 0
    place: str = ""
    individuals: bool = False

    @property
    def id(self) -> str:
        """Name in tables."""
        kind = f"-{self.place}-m{self.memory}{'-individuals' if self.individuals else ''}" if self.place else ""
        return f"{self.world}{kind}-n{self.n}-s{self.seed}"

    @property
    def half(self) -> str:
        """Whether it settled the rule or reports it."""
        return "report" if self.seed % 2 else "settle"

    def make(self) -> tuple[Demonstrations, MDP | None]:
        """Simulate it."""
        if self.place:
            from prism_irl.worlds.habits import HabitWorld

            options: dict[str, Any] = {"memory": self.memory, "place": self.place, "individuals": self.individuals}
            drift = DRIFT if self.world == "drift" else 0.0
            world = HabitWorld(**options, drift=drift, habit=self.seed)
            return world.simulate(self.n, seed=self.seed), world.mdp
        return _SIMULATED[self.world](self.n, self.seed)


def _cloned(n: int, seed: int) -> tuple[Demonstrations, MDP | None]:
    from prism_irl.models.cloning import BehaviourCloning
    from prism_irl.worlds.cloned import ClonedWorld
    from prism_irl.worlds.labyrinth import LabyrinthWorld

    mouse = LabyrinthWorld(horizon=MOUSE_STEPS)
    seen = mouse.simulate(100, seed=10_000 + seed).demonstrations
    network = BehaviourCloning(hidden=32, seed=seed).fit(seen)
    world = ClonedWorld(network, seen, horizon=MOUSE_STEPS)
    return world.simulate(n, seed=seed), world.dynamics


def _frustration(n: int, seed: int) -> tuple[Demonstrations, MDP | None]:
    from prism_irl.worlds.frustration import FrustrationWorld

    return FrustrationWorld().simulate(n, seed=seed).demonstrations, None


def _mice(n: int, seed: int) -> tuple[Demonstrations, MDP | None]:
    from prism_irl.maze import maze_mdp
    from prism_irl.worlds.labyrinth import LabyrinthWorld

    return LabyrinthWorld(horizon=MOUSE_STEPS).simulate(n, seed=seed).demonstrations, maze_mdp()


def _errands(n: int, seed: int) -> tuple[Demonstrations, MDP | None]:
    from prism_irl.worlds.errands import ErrandsWorld

    return ErrandsWorld().simulate(n, seed=seed).demonstrations, None


_SIMULATED = {"cloned": _cloned, "frustration": _frustration, "mice": _mice, "errands": _errands}
TRUTHS = {"frustration": 2, "mice": 3, "errands": 2}


@dataclass(frozen=True)
class Calibration:
    """Settings of the calibration.

    Parameters
    ----------
    analysis : what is done to every data set
    surrogates : B
    habits : seeds of every kind of habit
    further : seeds of drift and of cloned behaviour
    power : seeds of every world with intentions at the largest size
    counted : seeds of the same whose number of intentions `prism select` is asked for
    tried : numbers of intentions that it is asked to choose among
    smaller : seeds of the same at smaller sizes
    """

    analysis: Analysis = field(default_factory=lambda: Analysis(folds=3))
    surrogates: int = 19
    habits: tuple[int, ...] = (1, 3)
    further: tuple[int, ...] = (1, 3, 5)
    power: tuple[int, ...] = (1, 3, 5, 7, 9, 11, 13, 15, 17, 19)
    counted: tuple[int, ...] = (1, 3, 5, 7, 9, 11, 13, 15, 17, 19)
    tried: tuple[int, ...] = (1, 2, 3, 4)
    smaller: tuple[int, ...] = (1, 3)
    quick: bool = False

    @classmethod
    def small(cls) -> Calibration:
        """A few data sets of every kind."""
        return cls(habits=(1,), further=(1,), power=(1,), tried=(1, 2, 3), smaller=(), quick=True)

    def data_sets(self) -> Iterator[DataSet]:
        """All of them: without intentions first."""
        number = 0
        for seed in self.habits:
            for place in ("maze", "grid"):
                for memory in range(1, 6):
                    for individuals in (False, True):
                        if self.quick and memory not in (2, 4):
                            continue
                        size = SIZES[number % len(SIZES)] if not self.quick else SIZES[0]
                        number += 1
                        yield DataSet("habit", 1, size, seed, memory, place, individuals)
        for seed in self.further:
            for place in ("maze", "grid"):
                yield DataSet("drift", 1, SIZES[0] if self.quick else SIZES[1], seed, 2, place)
            yield DataSet("cloned", 1, SIZES[0] if self.quick else SIZES[1], seed)
        for world, truth in TRUTHS.items():
            for size in SIZES:
                for seed in self.power if size == SIZES[-1] else self.smaller:
                    yield DataSet(world, truth, size, seed)
