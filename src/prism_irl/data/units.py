"""Units of continuous data: what standardises observations and commands, and coarse cells that stand in for tokens.

Fitted on training trajectories and saved with the model, so that new data is read in the units of the fit:

    x ← (x − mean) / sd      for every observation and every command, with a spread of one where nothing changes
    cell(x)                  the nearest of a few k-means centres: what kernels and networks over states read

Policies on features read the standardised numbers; a density is given in the units of the data by the log volume
Σ_j log sd_j of a unit of the commands. Choose nothing here: it is made when a pair is fitted to
commands without a design.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from prism_irl.data.demonstrations import Demonstrations, steps_of
from prism_irl.data.mapped import chunks, empty_like
from prism_irl.errors import InputError

FloatArray = npt.NDArray[np.float64]
CELLS, COMMANDS = 64, 16
"""Cells of observations and of commands, where the data has so many distinct ones."""
SAMPLE = 20_000
"""Steps that k-means looks at: cells are coarse, and more steps hardly move them."""
FLAT = 1e-9


@dataclass(frozen=True, eq=False)
class Units:
    """Mean and spread of observations (d,) and commands (m,), and centres of their cells, (S, d) and (A, m)."""

    observation_mean: FloatArray
    observation_spread: FloatArray
    command_mean: FloatArray
    command_spread: FloatArray
    cells: FloatArray
    commands: FloatArray

    @classmethod
    def fit(
        cls,
        demos: Demonstrations,
        trajectories: npt.NDArray[np.int64] | None = None,
        *,
        n_cells: int = CELLS,
        n_commands: int = COMMANDS,
        seed: int = 0,
    ) -> Self:
        """Units of some trajectories (all by default): those that a fit trains on."""
        x, y = _observations(demos), _commands(demos)
        # Mapped data are read in their order and not copied.
        steps = np.arange(len(x)) if trajectories is None else steps_of(demos.offsets, trajectories)
        units = [*_moments(x, steps), *_moments(y, steps)]
        if len(steps) > SAMPLE:
            steps = steps[np.sort(np.random.default_rng(seed).choice(len(steps), SAMPLE, replace=False))]
        scaled = (np.asarray(x[steps]) - units[0]) / units[1], (np.asarray(y[steps]) - units[2]) / units[3]
        centres = [_centres(values, n, seed) for values, n in zip(scaled, (n_cells, n_commands), strict=True)]
        return cls(*units, *centres)

    @property
    def log_volume(self) -> float:
        """Log of the volume of a unit of the commands: what a density in their own units is lower by."""
        return float(np.log(self.command_spread).sum())

    def apply(self, demos: Demonstrations) -> Demonstrations:
        """The same steps in these units, with cells in the place of tokens; raises where columns are missing."""
        if demos.motions is None:
            raise InputError("The model was fitted to observations and commands; name them with --observe and --act.")
        x, y = _observations(demos), _commands(demos)
        for what, values, own in (("observations", x, self.observation_mean), ("commands", y, self.command_mean)):
            if values.shape[1] != len(own):
                raise InputError(f"The data has {values.shape[1]} {what} per step, those of the fit had {len(own)}.")
        observations, motions = empty_like(x, x.shape, np.float32), empty_like(y, y.shape, np.float64)
        states, actions = (empty_like(x, (len(x),), np.int64) for _ in range(2))
        for chunk in chunks(len(x), 2**16):
            observations[chunk] = (x[chunk] - self.observation_mean) / self.observation_spread
            motions[chunk] = (y[chunk] - self.command_mean) / self.command_spread
            states[chunk], actions[chunk] = (
                _nearest(observations[chunk], self.cells),
                _nearest(motions[chunk], self.commands),
            )
        return replace(
            demos,
            states=states,
            actions=actions,
            n_states=len(self.cells),
            n_actions=len(self.commands),
            observations=observations,
            motions=motions,
            state_names=None,
            action_names=None,
            log_volume=self.log_volume,
        )

    def step(self, observation: npt.ArrayLike, command: npt.ArrayLike) -> tuple[int, int, FloatArray, FloatArray]:
        """Cells of one step, and its observation (d,) and command (m,) in these units."""
        given = np.asarray(observation, np.float64), np.asarray(command, np.float64)
        if given[0].shape != self.observation_mean.shape or given[1].shape != self.command_mean.shape:
            raise InputError(
                f"The step has {given[0].size} observations and {given[1].size} commands, those of the fit had "
                f"{self.observation_mean.size} and {self.command_mean.size}."
            )
        x = (given[0] - self.observation_mean) / self.observation_spread
        y = (given[1] - self.command_mean) / self.command_spread
        return int(_nearest(x[None], self.cells)[0]), int(_nearest(y[None], self.commands)[0]), x, y

    def places(self) -> FloatArray:
        """Centres of the cells in the units of the data, (S, d)."""
        return np.asarray(self.cells * self.observation_spread + self.observation_mean)

    def state(self) -> dict[str, FloatArray]:
        """Arrays that determine the units."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self | None:
        """Undo `state`; None where nothing was kept."""
        if not state:
            return None
        return cls(**{name: np.asarray(state[name], dtype=np.float64) for name in cls.__dataclass_fields__})


def _observations(demos: Demonstrations) -> npt.NDArray[Any]:
    if demos.observations is None:
        raise InputError("Commands without a design depend on observations; name some with --observe.")
    return demos.observations


def _commands(demos: Demonstrations) -> npt.NDArray[Any]:
    assert demos.motions is not None
    return demos.motions


def _moments(values: npt.NDArray[Any], steps: npt.NDArray[np.int64]) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation of the columns at some steps, chunk by chunk."""
    total, squares, n = np.zeros(values.shape[1]), np.zeros(values.shape[1]), len(steps)
    for chunk in chunks(n, 2**16):
        total += values[steps[chunk]].sum(axis=0, dtype=np.float64)
    mean = total / n
    for chunk in chunks(n, 2**16):
        squares += ((values[steps[chunk]] - mean) ** 2).sum(axis=0)
    spread = np.sqrt(squares / n)
    return mean, np.where(spread > FLAT * np.maximum(np.abs(mean), 1.0), spread, 1.0)


def _centres(values: npt.NDArray[Any], most: int, seed: int) -> FloatArray:
    from sklearn.cluster import KMeans

    distinct = len(np.unique(values, axis=0))
    found = KMeans(min(most, distinct), n_init=1, random_state=seed).fit(values.astype(np.float64))
    return np.asarray(found.cluster_centers_, dtype=np.float64)


def _nearest(values: npt.NDArray[Any], centres: FloatArray) -> npt.NDArray[np.int64]:
    """Number of the nearest centre, (n,)."""
    distance = -2.0 * values @ centres.T + (centres**2).sum(axis=1)
    return np.asarray(distance.argmin(axis=1), dtype=np.int64)


def linear_design(features: npt.ArrayLike, n_dimensions: int) -> FloatArray:
    """Design of an ordinary linear policy, y = W x + b, (n, m, m·(d + 1)).

    Parameters
    ----------
    features : (n, d)
        Standardised here, so that one ridge fits all; a feature that never changes is left at zero.
    n_dimensions : int
        Dimensions m of the command.
    """
    x = np.asarray(features, dtype=np.float64)
    if x.ndim != 2:
        raise InputError(f"The features have shape {x.shape}; give one row per step.")
    spread = x.std(axis=0)
    x = (x - x.mean(axis=0)) / np.where(spread > 1e-9, spread, 1.0)
    x = np.concatenate([np.ones((len(x), 1)), x], axis=1)
    design = np.einsum("ij,nd->nijd", np.eye(n_dimensions), x)
    return np.asarray(design.reshape(len(x), n_dimensions, -1))
