"""Intentions that are told apart by what happens around a step: seconds of movement instead of single commands.

    u_t ~ N(μ_k, Σ_k)            u_t the leading components of the window around step t (`data.windows.described`)
    y_t ~ N(W_k (1, x_t), S_k)   the command, given the observation (`rewards.linear`)

The same gesture looks alike over two seconds where single commands do not. EM sees the windows alone. They look ahead
and overlap, so that their density predicts nothing; what is scored as a prediction, and what a stream filters by, are
the commands, whose policies are fitted to the steps of each intention.

Neighbouring windows are made of the same steps, so that a chain which takes each for new evidence is far too sure. With
a power p below one, EM climbs

    Σ log Σ_z P(z) Π_t N(u_t; μ_{z_t}, Σ_{z_t})^p

instead: every window counts as p of an independent one, in beliefs and in the M-step alike, so that EM never falls.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, Self
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from prism_irl.arrays import FloatArray
from prism_irl.data.batching import Prepared, Stats
from prism_irl.data.continuous import DESCRIBED, described, in_steps
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.labels import segments
from prism_irl.rewards.linear import ROWS, Basis, CommandPolicies, LinearPolicies, measured
from prism_irl.rewards.options import Windows

MOST_COMPONENTS = 300
"""Of windows whose covariance is shrunk: those of thirty numbers, all of them."""
REACHES, SHRINKAGES, POWERS = (1.0, 0.5, 0.25, 2.0), (0.3, 0.1, 0.6), (0.1, 0.3, 0.03, 1.0)
"""What known labels choose from, the usual first: windows in median lengths of a labelled stretch, shares, powers."""
USUAL: dict[str, Any] = {"components": 12, "covariance": "full", "power": 1.0, "shrinkage": 0.0}
"""Where nobody knows a label."""


class View(NamedTuple):
    """Windows of some steps each way, and the directions (D, c) of their leading components around a centre (D,)."""

    steps: int
    centre: FloatArray
    directions: FloatArray

    @classmethod
    def fit(cls, demos: Demonstrations, steps: int, components: int) -> Self:
        """Leading components of the windows of all trajectories."""
        width = DESCRIBED * sum(part.shape[1] for part in measured(demos))
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


def _parts(demos: Demonstrations) -> list[slice]:
    """Trajectories in groups of some thousand steps."""
    group = np.asarray(demos.offsets[:-1] // ROWS)
    cuts = [0, *(np.flatnonzero(np.diff(group)) + 1).tolist(), demos.n_trajectories]
    return [slice(a, b) for a, b in pairwise(cuts)]


def _windows(demos: Demonstrations, trajectories: slice, steps: int) -> FloatArray:
    offsets = demos.offsets[trajectories.start : trajectories.stop + 1]
    rows = slice(int(offsets[0]), int(offsets[-1]))
    values = np.concatenate([np.asarray(part[rows], dtype=np.float64) for part in measured(demos)], axis=1)
    return described(values, offsets - offsets[0], steps)


class WindowPolicies(CommandPolicies):
    """Windows and commands of K intentions; of the ``options`` nothing is "auto" any more."""

    closed_form: ClassVar[bool] = True
    looks_ahead: ClassVar[bool] = True
    of_all_steps: ClassVar[tuple[str, ...]] = ("steps",)

    def __init__(
        self, n_intentions: int, n_observations: int, n_commands: int, n_actions: int, options: Windows
    ) -> None:
        self.n_intentions, self.n_actions, self.options = n_intentions, n_actions, options
        self.n_observations, self.n_commands = n_observations, n_commands
        width = DESCRIBED * (n_observations + n_commands)
        kept = min(int(options.components), width)
        self.power, self.shrinkage = float(options.power), float(options.shrinkage)
        self.centre: FloatArray = np.zeros(width)
        self.directions: FloatArray = np.zeros((width, kept))
        self.reach: FloatArray = np.zeros(1)  # 0: no data was seen yet
        prior: Any = {"ridge": options.ridge, "noise": options.noise, "noise_strength": options.noise_strength}
        kind = {"full": options.covariance != "diagonal", "shared": options.covariance == "shared"}
        self.seen = LinearPolicies(n_intentions, kept, Basis(0), n_actions, **kind, **prior)
        self.done = LinearPolicies(n_intentions, n_commands, Basis(n_observations), n_actions, **prior)
        self._views: WeakKeyDictionary[Demonstrations, FloatArray] = WeakKeyDictionary()

    def __getstate__(self) -> dict[str, Any]:
        """Without the windows of data that are here."""
        return {**vars(self), "_views": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Undo `__getstate__`."""
        vars(self).update(state, _views=WeakKeyDictionary())

    def windows(self, demos: Demonstrations) -> FloatArray:
        """Components (n, c) of every step; kept as long as the data are."""
        if demos not in self._views:
            self._views[demos] = View(int(self.reach[0]), self.centre, self.directions)(demos)
        return self._views[demos]

    def statistics(self, data: Prepared, weights: FloatArray) -> Stats:
        """Weighted products of windows and of commands; the first data fix what windows are, for good."""
        if not self.reach[0]:
            steps = in_steps(self.options.window, data.demos)
            (_, self.centre, self.directions), whole = leading(data.demos, steps, self.directions.shape[1])
            self.reach = np.array([float(steps)])
            self._views[data.demos] = whole
        windows = self.windows(data.demos)
        nothing = np.zeros((len(windows), 0), np.float32)
        seen, done = self.seen.products(nothing, windows, self.power * weights), self.done.statistics(data, weights)
        return Stats(windows=seen, commands=done["products"], steps=np.array(float(data.n_steps)))

    def update(self, stats: Stats) -> None:
        """Means and covariances of the windows; policies of the commands from the same responsibilities.

        A share α of a shrunk covariance is that of white noise: a prior that is worth ν = n α / (1 − α) of n windows.
        """
        if self.shrinkage:
            n = self.power * float(stats["steps"]) / (1 if self.seen.shared else self.n_intentions)
            self.seen.noise, self.seen.noise_strength = 1.0, n * self.shrinkage / (1.0 - self.shrinkage)
        self.seen.update(Stats(products=stats["windows"]))
        self.done.update(Stats(products=stats["commands"]))

    def log_prior(self) -> float:
        """Of the windows, which EM climbs."""
        return self.seen.log_prior()

    def log_likelihood(self, data: Prepared) -> FloatArray:
        """Log density of the window around every step under every intention, to its power, (n, K): no prediction."""
        windows = self.windows(data.demos)
        return self.power * self.seen.log_density(np.zeros((len(windows), 0)), windows)

    def predictive_log_likelihood(self, data: Prepared) -> FloatArray:
        """Log density of every command under every intention, (n, K), in the units of the data."""
        return self.done.log_likelihood(data)

    def log_density(self, observations: npt.NDArray[Any], commands: FloatArray, *design: FloatArray) -> FloatArray:
        """Of commands (n, m) given observations (n, d), (n, K)."""
        return self.done.log_density(observations, commands)

    def state(self) -> dict[str, FloatArray]:
        """What windows are, how they look, and what is done."""
        own = {"reach": self.reach, "centre": self.centre, "directions": self.directions}
        seen = {"window_means": self.seen.weights, "window_covariances": self.seen.covariances}
        return {**own, **seen, **self.done.state()}

    def load_state(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Undo `state`."""
        self._set_arrays(state, "reach", "centre", "directions")
        self.seen.load_state({"weights": state["window_means"], "covariances": state["window_covariances"]})
        self.done.load_state(state)
        self._views.clear()


def reaches(demos: Demonstrations) -> list[int]:
    """Windows to try, in steps: around the median length of a stretch with one known label."""
    assert demos.partial_labels is not None
    found = segments(demos.partial_labels.astype(np.int64) + 1, demos.offsets)
    typical = float(np.median(found.lengths[found.labels > 0]))
    longest = int(demos.lengths.max())
    return list(dict.fromkeys(int(np.clip(round(share * typical), 1, longest)) for share in REACHES))
