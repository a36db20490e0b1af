"""Intentions that are told apart by what happens around a step: seconds of movement instead of single commands.

    u_t ~ N(μ_k, Σ_k)            u_t the leading components of the window around step t (`data.windows.described`)
    y_t ~ N(W_k (1, x_t), S_k)   the command, given the observation (`rewards.linear`)

The same gesture looks alike over two seconds where single commands do not: on recordings that are labelled as a whole,
windows find phases that policies on features cannot. EM sees the windows alone. They look ahead and overlap, so that
their density predicts nothing; what is scored as a prediction, and what a stream filters by, are the commands, whose
policies are fitted to the steps of each intention. The components are those of the training trajectories.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Literal, NamedTuple, Self
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from prism_irl.data.batching import Prepared
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.motions import MotionDemonstrations
from prism_irl.data.units import needs_units
from prism_irl.data.windows import DESCRIBED, described, in_steps
from prism_irl.errors import InputError
from prism_irl.halves import check_choice, check_numbers
from prism_irl.rewards.base import FloatArray, IntArray, Problem, RewardModel, RewardOptions
from prism_irl.rewards.linear import ROWS, Basis, LinearPolicies


class View(NamedTuple):
    """Windows of some steps each way, and the directions (D, c) of their leading components around a centre (D,)."""

    steps: int
    centre: FloatArray
    directions: FloatArray

    @classmethod
    def fit(cls, demos: Demonstrations, steps: int, components: int) -> Self:
        """Leading components of the windows of all trajectories."""
        width = DESCRIBED * sum(part.shape[1] for part in _measured(demos))
        sums, squares = np.zeros(width), np.zeros((width, width))
        for rows in _parts(demos):
            windows = _windows(demos, rows, steps)
            sums += windows.sum(axis=0)
            squares += windows.T @ windows
        centre = sums / demos.n_steps
        _, vectors = np.linalg.eigh(squares / demos.n_steps - np.outer(centre, centre))
        leading = vectors[:, ::-1][:, :components]
        # The sign of a component is free; the largest entry is made positive, so that machines agree.
        signs = np.sign(leading[np.abs(leading).argmax(axis=0), np.arange(leading.shape[1])])
        return cls(steps, centre, leading * signs)

    def __call__(self, demos: Demonstrations) -> FloatArray:
        """Components (n, c) of every step."""
        found = np.empty((demos.n_steps, self.directions.shape[1]))
        for rows in _parts(demos):
            steps = slice(int(demos.offsets[rows.start]), int(demos.offsets[rows.stop]))
            found[steps] = (_windows(demos, rows, self.steps) - self.centre) @ self.directions
        return found


_FOUND: WeakKeyDictionary[Demonstrations, dict[tuple[int, int], tuple[View, FloatArray]]] = WeakKeyDictionary()


def leading(demos: Demonstrations, steps: int, components: int) -> tuple[View, FloatArray]:
    """The view of some data and its components (n, c); found once, because all starts see the same windows."""
    known = _FOUND.setdefault(demos, {})
    if (steps, components) not in known:
        view = View.fit(demos, steps, components)
        known[steps, components] = view, view(demos)
    return known[steps, components]


def _measured(demos: Demonstrations) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    if not isinstance(demos, MotionDemonstrations) or demos.observations is None or demos.motions is None:
        raise InputError("Windows are of observations and commands; name the columns with --observe and --act.")
    return demos.observations, demos.motions


def _parts(demos: Demonstrations) -> list[slice]:
    """Trajectories in groups of some thousand steps."""
    group = np.asarray(demos.offsets[:-1] // ROWS)
    cuts = [0, *(np.flatnonzero(np.diff(group)) + 1).tolist(), demos.n_trajectories]
    return [slice(a, b) for a, b in pairwise(cuts)]


def _windows(demos: Demonstrations, trajectories: slice, steps: int) -> FloatArray:
    offsets = demos.offsets[trajectories.start : trajectories.stop + 1]
    rows = slice(int(offsets[0]), int(offsets[-1]))
    values = np.concatenate([np.asarray(part[rows], dtype=np.float64) for part in _measured(demos)], axis=1)
    return described(values, offsets - offsets[0], steps)


class WindowPolicies(RewardModel):
    """Windows and commands of K intentions.

    Parameters
    ----------
    n_intentions, n_actions : int
    n_observations, n_commands : int
    options : Windows
    """

    is_density: ClassVar[bool] = True
    looks_ahead: ClassVar[bool] = True

    def __init__(
        self, n_intentions: int, n_observations: int, n_commands: int, n_actions: int, options: Windows
    ) -> None:
        self.n_intentions, self.n_actions, self.options = n_intentions, n_actions, options
        width = DESCRIBED * (n_observations + n_commands)
        kept = min(options.components, width)
        self.centre: FloatArray = np.zeros(width)
        self.directions: FloatArray = np.zeros((width, kept))
        self.reach: FloatArray = np.zeros(1)  # 0: no data was seen yet
        prior: Any = {"ridge": options.ridge, "noise": options.noise, "noise_strength": options.noise_strength}
        kind = {"full": options.covariance != "diagonal", "shared": options.covariance == "shared"}
        self.seen = LinearPolicies(n_intentions, kept, Basis(0), n_actions, **kind, **prior)
        self.done = LinearPolicies(n_intentions, n_commands, Basis(n_observations), n_actions, **prior)
        self._views: WeakKeyDictionary[Demonstrations, FloatArray] = WeakKeyDictionary()

    @property
    def exact(self) -> bool:
        """The M-step is in closed form."""
        return True

    def windows(self, demos: Demonstrations) -> FloatArray:
        """Components (n, c) of every step; kept as long as the data are."""
        if demos not in self._views:
            self._views[demos] = View(int(self.reach[0]), self.centre, self.directions)(demos)
        return self._views[demos]

    def maximise(self, data: Prepared, responsibilities: FloatArray) -> None:
        """Means and covariances of the windows; policies of the commands from the same responsibilities."""
        if not self.reach[0]:  # the first call fixes what windows are, for good
            steps = in_steps(self.options.window, data.whole)
            (_, self.centre, self.directions), whole = leading(data.whole, steps, self.directions.shape[1])
            self.reach = np.array([float(steps)])
            self._views[data.whole] = whole
        windows = self.windows(data.demos)
        products = self.seen.products(np.zeros((len(windows), 0), np.float32), windows, responsibilities)
        self.seen.maximise_counts(data.total(products))
        self.done.maximise(data, responsibilities)

    def log_prior(self) -> float:
        """Of the windows, which EM climbs."""
        return self.seen.log_prior()

    def log_likelihood(self, data: Prepared) -> FloatArray:
        """Log density of the window around every step under every intention, (n, K): no prediction."""
        windows = self.windows(data.demos)
        return self.seen.log_density(np.zeros((len(windows), 0)), windows)

    def predictive_log_likelihood(self, data: Prepared) -> FloatArray:
        """Log density of every command under every intention, (n, K), in the units of the data."""
        return self.done.log_likelihood(data)

    def log_density(self, observations: npt.NDArray[Any], commands: FloatArray) -> FloatArray:
        """Of commands (n, m) given observations (n, d), (n, K)."""
        return self.done.log_density(observations, commands)

    def policies_at(self, rows: IntArray) -> FloatArray:
        """A density gives no probability to a cell of commands: uniform, (n, K, A)."""
        return self.done.policies_at(rows)

    def state(self) -> dict[str, FloatArray]:
        """What windows are, how they look, and what is done."""
        own = {"reach": self.reach, "centre": self.centre, "directions": self.directions}
        seen = {"window_means": self.seen.weights, "window_covariances": self.seen.covariances}
        return {**own, **seen, **self.done.state()}

    def load_state(self, state: dict[str, FloatArray]) -> None:
        """Undo `state`."""
        self._set_arrays(state, "reach", "centre", "directions")
        self.seen.load_state({"weights": state["window_means"], "covariances": state["window_covariances"]})
        self.done.load_state(state)
        self._views.clear()

    def check(self, demos: Demonstrations) -> None:
        """Observations and commands of the sizes that were fitted."""
        self.done.check(demos)


@dataclass(frozen=True)
class Windows(RewardOptions):
    """Options of windows.

    Parameters
    ----------
    window : int or str
        How far intentions look before and after a step: a number of steps (15), or a time (0.5s).
    components : int
        Leading components of the windows that are kept: few without labels, hundreds where many steps have one.
    covariance : {"diagonal", "full", "shared"}
        Of the components, given the intention: apart, correlated, or correlated in the same way in all of them.
    ridge : float
        Strength of the prior on the weights; one is far below what a few hundred steps say.
    noise, noise_strength : float
        Prior variance of a command, and how many commands it is worth.
    """

    of_commands: ClassVar[bool] = True
    start_kinds: ClassVar[tuple[Literal["windows"], ...]] = ("windows",)
    defaults: ClassVar[Mapping[str, Any]] = {"discount": 0.8, "n_starts": 8}
    window: int | str = 15
    components: int = 12
    covariance: str = "full"
    ridge: float = 1.0
    noise: float = 0.01
    noise_strength: float = 10.0

    def check(self, demos: Demonstrations, n_intentions: int) -> None:
        """Continuous data, and windows that are part of it."""
        check_choice(self, covariance=("diagonal", "full", "shared"))
        check_numbers(self, {"ridge": 0, "noise": 0, "noise_strength": 0})
        check_numbers(self, {"components": 1}, integer=True)
        if not needs_units(demos):
            raise InputError("Windows need continuous data; name columns with --observe and --act.")
        in_steps(self.window, demos)

    def build(self, problem: Problem) -> WindowPolicies:
        """Without windows yet."""
        seen, done = (part.shape[1] for part in _measured(problem.demos))
        return WindowPolicies(problem.n_intentions, seen, done, problem.demos.n_actions, self)

    def describe(self, demos: Demonstrations) -> FloatArray:
        """The windows themselves, by which first intentions are found."""
        width = DESCRIBED * sum(part.shape[1] for part in _measured(demos))
        return leading(demos, in_steps(self.window, demos), min(self.components, width))[1]
