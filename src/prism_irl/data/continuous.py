"""Continuous data as models see them: in units of their own, as movement, and by what happens around a step.

*Units* standardise observations and commands. They are fitted on training trajectories and saved with the model:

    x ← (x − mean) / sd      for every observation and every command, with a spread of one where nothing changes
    cell(x)                  the nearest of a few k-means centres: what kernels and networks over states read

A density is given in the units of the data by the log volume Σ_j log sd_j of a unit of the commands.

*Movement* says what moves, where it is, and whether the gripper is shut. `Movement.fit` finds out from the data which
column is which: *constant* (dropped, and said); *two-valued* (a gripper, a lamp: 0 or 1); *place*, any other
observation, relative to its mean over the episode; *target*, a command that is an observation some steps ahead, which
says nothing that places do not; *difference*, any other command: a movement, as the derivatives of smoothed places are.
Places and movements are standardised, and where there are many of them, rotated to whitened principal components.

*Windows* describe a step by values some steps before and after, and by how much they vary (`rewards.windows`). They
look ahead, so that a density of them is no prediction: never compare it with the likelihood of commands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple, Self

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
            states[chunk] = nearest(observations[chunk], self.cells)
            actions[chunk] = nearest(motions[chunk], self.commands)
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
        return int(nearest(x[None], self.cells)[0]), int(nearest(y[None], self.commands)[0]), x, y

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
    n = len(steps)
    mean = sum(values[steps[chunk]].sum(axis=0, dtype=np.float64) for chunk in chunks(n, 2**16)) / n
    spread = np.sqrt(sum(((values[steps[chunk]] - mean) ** 2).sum(axis=0) for chunk in chunks(n, 2**16)) / n)
    return mean, np.where(spread > FLAT * np.maximum(np.abs(mean), 1.0), spread, 1.0)


def _centres(values: npt.NDArray[Any], most: int, seed: int) -> FloatArray:
    from sklearn.cluster import KMeans

    distinct = len(np.unique(values, axis=0))
    found = KMeans(min(most, distinct), n_init=1, random_state=seed).fit(values.astype(np.float64))
    return np.asarray(found.cluster_centers_, dtype=np.float64)


def nearest(values: npt.NDArray[Any], centres: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Number of the nearest centre, (n,)."""
    found = np.empty(len(values), dtype=np.int64)
    for rows in chunks(len(values), 2**15):
        found[rows] = (-2.0 * values[rows] @ centres.T + (centres**2).sum(axis=1)).argmin(axis=1)
    return found


# -- movement ----------------------------------------------------------------------------------------------------------

KINDS = ("constant", "two-valued", "place", "target", "difference")
CONSTANT, TWO_VALUED, PLACE, TARGET, DIFFERENCE = range(len(KINDS))
STEADY = 1e-6
"""Spread of a column, as a share of its size, below which it is constant."""
BETWEEN = 0.12
"""Share of the steps that a two-valued column may spend between its values (0.2 to 0.8 of the way)."""
GRIPPER = re.compile(r"grip|jaw|claw", re.IGNORECASE)
"""Names of columns that open and close, which are two-valued however they move between. Values alone do not tell a
gripper that holds things of many sizes from a joint that rests in two poses."""
ABSOLUTE = 0.9
"""Correlation with an observation from which on a command is its target."""
SMOOTH, WIDEST = 0.01, 8.0
"""Width of the smoothing, as a share of the typical episode and in steps at most."""
MANY, VARIANCE = 8, 0.95
"""Dimensions from which on principal components stand for them, and the share of the variance that they keep."""
OUTLIER = 4.0


class Moved(NamedTuple):
    """Steps as `Movement` sees them: ``place`` (n, p), ``motion`` (n, v), ``switch`` (n, b) and ``slow`` (n,).

    ``slow`` is minus the log of the speed relative to that of the episode: high where the arm pauses.
    """

    place: FloatArray
    motion: FloatArray
    switch: FloatArray
    slow: FloatArray


@dataclass(frozen=True)
class Block:
    """Standardised numbers: (x − mean) / spread, clipped, times directions (d, r)."""

    mean: FloatArray
    spread: FloatArray
    directions: FloatArray

    @classmethod
    def fit(cls, values: FloatArray) -> Self:
        """Standardise, and rotate where there are many dimensions."""
        mean, spread = values.mean(0), values.std(0)
        spread = np.where(spread > 1e-12, spread, 1.0)
        directions = np.eye(values.shape[1])
        if values.shape[1] >= MANY:
            x = np.clip((values - mean) / spread, -OUTLIER, OUTLIER)
            variance, vectors = np.linalg.eigh(x.T @ x / len(x))
            variance, vectors = variance[::-1], vectors[:, ::-1]
            kept = int(np.searchsorted(np.cumsum(variance) / variance.sum(), VARIANCE)) + 1
            signs = np.sign(vectors[np.abs(vectors).argmax(0), np.arange(len(variance))])  # the same on every machine
            directions = (vectors * signs / np.sqrt(np.maximum(variance, 1e-12)))[:, :kept]
        return cls(mean, spread, directions)

    def __call__(self, values: FloatArray) -> FloatArray:
        """Standardised values, (n, r)."""
        return np.asarray(np.clip((values - self.mean) / self.spread, -OUTLIER, OUTLIER) @ self.directions)

    @property
    def size(self) -> int:
        """Number of dimensions r."""
        return int(self.directions.shape[1])


@dataclass(frozen=True)
class Movement:
    """How the columns of some demonstrations become movement.

    ``kinds`` (d + m,) say what each observation and each command is, ``low`` and ``high`` (d + m,) the two values of a
    column that has two; ``n_observed`` is d, ``width`` the standard deviation of the smoothing in steps.
    """

    kinds: npt.NDArray[np.int64]
    low: FloatArray
    high: FloatArray
    n_observed: int
    width: float
    place: Block
    motion: Block

    @classmethod
    def fit(cls, demos: Demonstrations, trajectories: npt.NDArray[np.int64] | None = None) -> Self:
        """Find out which column is what, from some of the trajectories."""
        values, offsets = signals(demos, trajectories)
        n_observed = 0 if demos.observations is None else demos.observations.shape[1]
        kinds, low, high = _kinds(values, n_observed, column_names(demos))
        width = float(np.clip(SMOOTH * np.median(np.diff(offsets)), 1.0, WIDEST))
        plain = Block(np.zeros(0), np.zeros(0), np.zeros((0, 0)))
        raw = cls(kinds, low, high, n_observed, width, plain, plain)
        place, motion = raw._raw(values, offsets)
        return cls(kinds, low, high, n_observed, width, Block.fit(place), Block.fit(motion))

    def __call__(self, demos: Demonstrations, trajectories: npt.NDArray[np.int64] | None = None) -> Moved:
        """The steps of some trajectories, one after the other."""
        values, offsets = signals(demos, trajectories)
        if values.shape[1] != len(self.kinds):
            raise InputError(
                f"The data have {values.shape[1]} observed and commanded numbers, those of the fit had "
                f"{len(self.kinds)}; name the same columns."
            )
        place, motion = self._raw(values, offsets)
        moving = self.motion(motion)
        return Moved(self.place(place), moving, self.switch(values), slowness(moving, offsets))

    def switch(self, values: FloatArray) -> FloatArray:
        """Two-valued columns as 0 or 1, (n, b)."""
        two = self.kinds == TWO_VALUED
        return np.asarray(values[:, two] > (self.low[two] + self.high[two]) / 2, dtype=np.float64)

    def _raw(self, values: FloatArray, offsets: npt.NDArray[np.int64]) -> tuple[FloatArray, FloatArray]:
        """Places relative to their episode's mean, and movements, before they are standardised."""
        from scipy.ndimage import gaussian_filter1d

        places, differences = values[:, self.kinds == PLACE], values[:, self.kinds == DIFFERENCE]
        here, moving = np.empty_like(places), np.empty((len(values), places.shape[1] + differences.shape[1]))
        for a, b in pairwise(offsets):
            if places.shape[1]:
                smooth = gaussian_filter1d(places[a:b], self.width, axis=0, mode="nearest")
                here[a:b] = smooth - smooth.mean(0)
                moving[a:b, : places.shape[1]] = np.gradient(smooth, axis=0) if b - a > 1 else 0.0
            if differences.shape[1]:
                moving[a:b, places.shape[1] :] = gaussian_filter1d(differences[a:b], self.width, axis=0, mode="nearest")
        return here, moving

    def named(self, kind: int, names: Sequence[str]) -> list[str]:
        """Names of the columns that are of a kind."""
        return [name for name, own in zip(names, self.kinds, strict=True) if own == kind]

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Arrays that determine the units."""
        blocks = {f"{name}_{part}": getattr(getattr(self, name), part) for name in BLOCKS for part in PARTS}
        sizes = np.array([self.n_observed, self.width])
        return {"kinds": self.kinds, "low": self.low, "high": self.high, "sizes": sizes, **blocks}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Undo `state`."""
        found = {name: np.asarray(value) for name, value in state.items()}
        blocks = [Block(*(found[f"{name}_{part}"] for part in PARTS)) for name in BLOCKS]
        n_observed, width = found["sizes"]
        return cls(found["kinds"].astype(np.int64), found["low"], found["high"], int(n_observed), float(width), *blocks)


BLOCKS, PARTS = ("place", "motion"), ("mean", "spread", "directions")


def signals(
    demos: Demonstrations, trajectories: npt.NDArray[np.int64] | None = None
) -> tuple[FloatArray, npt.NDArray[np.int64]]:
    """Observations and commands of some trajectories side by side, (n, d + m), and where each trajectory begins."""
    if demos.motions is None:
        raise InputError("Phases are of continuous commands; name the columns with --observe and --act.")
    if trajectories is not None:
        demos = demos.subset(trajectories)
    parts = [np.asarray(part, np.float64) for part in (demos.observations, demos.motions) if part is not None]
    return np.concatenate(parts, axis=1), demos.offsets


def slowness(motion: FloatArray, offsets: npt.NDArray[np.int64]) -> FloatArray:
    """Minus the log of the speed at every step relative to the mean of its episode, (n,)."""
    if motion.shape[1] == 0:
        return np.zeros(len(motion))
    speed = np.sqrt((motion**2).mean(1))
    for a, b in pairwise(offsets):
        typical = speed[a:b].mean() + 1e-12
        speed[a:b] = -np.log((speed[a:b] + 0.1 * typical) / (1.1 * typical))
    return np.asarray(speed)


def share_by_time(moved: Moved, offsets: npt.NDArray[np.int64]) -> float:
    """How much of a movement the relative time in an episode tells of other episodes, at most 1.

    The largest share of variance, over the directions of movement, that the means over stretches of the other episodes
    explain. High where demonstrations go through the same stages; near zero where gestures come in any order and
    number. The ends are left out: everybody begins at home.
    """
    values, n_bins, ends = moved.motion if moved.motion.shape[1] else moved.switch, 12, 2
    if len(offsets) < 3 or values.shape[1] == 0:
        return 0.0
    lengths = np.diff(offsets)
    time = np.concatenate([(np.arange(n) * n_bins) // n for n in lengths])
    episode = np.repeat(np.arange(len(lengths)), lengths)
    inner = (time >= ends) & (time < n_bins - ends)
    if not inner.any():
        return 0.0
    cell, size = episode * n_bins + time, len(lengths) * n_bins
    counts = np.bincount(cell, minlength=size).reshape(-1, n_bins)
    explained = []
    for column in values.T:
        sums = np.bincount(cell, weights=column, minlength=size).reshape(-1, n_bins)
        others = (sums.sum(0) - sums) / np.maximum(counts.sum(0) - counts, 1)
        error = ((column - others[episode, time])[inner] ** 2).mean()
        error *= 1.0 - 1.0 / len(lengths)  # the means of few other episodes are not exact
        explained.append(1.0 - error / max(float(column[inner].var()), 1e-9))
    return float(max(explained))


def column_names(demos: Demonstrations) -> list[str]:
    """Names of observations and of commands, numbers where they have none."""
    found: list[str] = []
    for values, names, usual in (
        (demos.observations, demos.observation_names, "observation"),
        (demos.motions, demos.motion_names, "command"),
    ):
        if values is not None:
            found += list(names or (f"{usual} {i}" for i in range(values.shape[1])))
    return found


def _two_groups(column: FloatArray) -> tuple[float, float]:
    """Means of the two groups that have the least variance within them (Otsu)."""
    x = np.sort(column[:: max(1, len(column) // 20_000)])
    n = np.arange(1, len(x))
    sums = x.cumsum()
    below, above = sums[:-1] / n, (sums[-1] - sums[:-1]) / (len(x) - n)
    between = n * (len(x) - n) * (above - below) ** 2 / len(x) ** 2
    best = int(between.argmax())
    return float(below[best]), float(above[best])


def _kinds(
    values: FloatArray, n_observed: int, names: Sequence[str]
) -> tuple[npt.NDArray[np.int64], FloatArray, FloatArray]:
    """What each column is, and its two values: where two means stand for them, a step belongs to the nearer one."""
    spread = values.std(0)
    low, high = np.percentile(values, [2, 98], axis=0)
    kinds = np.where(np.arange(values.shape[1]) < n_observed, PLACE, DIFFERENCE)
    standard = (values - values.mean(0)) / np.where(spread > 1e-12, spread, 1.0)
    unit = min(1.0, float(spread.max()))  # what is small beside every other column is noise
    for j in range(values.shape[1]):
        if spread[j] <= STEADY * max(unit, float(np.abs(values[:, j]).mean())):
            kinds[j] = CONSTANT
            continue
        if high[j] - low[j] <= 1e-12:  # all but a few steps are the same
            low[j], high[j] = values[:, j].min(), values[:, j].max()
        way = (values[:, j] - low[j]) / (high[j] - low[j])
        if ((way > 0.2) & (way < 0.8)).mean() < BETWEEN:
            kinds[j] = TWO_VALUED
        elif GRIPPER.search(names[j]):
            kinds[j] = TWO_VALUED
            low[j], high[j] = _two_groups(values[:, j])
        elif j >= n_observed and n_observed:
            related = np.abs(standard[:, j] @ standard[:, :n_observed] / len(values)).max()
            kinds[j] = TARGET if related > ABSOLUTE else DIFFERENCE
    if n_observed and not (kinds[:n_observed] != CONSTANT).any() and not (kinds == DIFFERENCE).any():
        raise InputError("No column to --observe or --act ever changes; name some that do.")
    return kinds.astype(np.int64), low, high


def short_names(names: Sequence[str]) -> list[str]:
    """Names of parts of a vector without that of the vector: ``gripper.pos`` of ``observation.state[gripper.pos]``."""
    return [re.sub(r"^(observation\.)?[\w.]*\[(\D.*)\]$", r"\2", name) for name in names]


def motions_in_words(demos: Demonstrations, labels: npt.NDArray[np.int64], n_phases: int) -> list[str]:
    """What the robot does in each phase, K sentences: which columns rise or fall most, and what two-valued ones do."""
    movement = Movement.fit(demos)
    values, offsets = signals(demos)
    names = short_names(column_names(demos))
    spread = np.maximum(values.std(0), 1e-12)
    two = movement.switch(values)
    columns = np.flatnonzero(movement.kinds == TWO_VALUED)
    cuts = [c for a, b in pairwise(offsets) for c in (a, *(a + 1 + np.flatnonzero(np.diff(labels[a:b]))))]
    runs = list(zip(cuts, [*cuts[1:], len(labels)], strict=True))
    found = []
    for k in range(n_phases):
        own = [(a, b) for a, b in runs if labels[a] == k]
        said: list[str] = []
        if own:
            for i, j in enumerate(columns):
                if names[j] in names[j + 1 :]:  # measured: its command comes first
                    continue
                before = np.mean([two[max(a - 1, 0), i] for a, _ in own])
                after = np.mean([two[b - 1, i] for _, b in own])
                if abs(after - before) > 0.5:
                    said.append(f"{names[j]} goes {'high' if after > before else 'low'}")
            change = np.mean([values[b - 1] - values[a] for a, b in own], axis=0) / spread
            moving = [j for j in np.argsort(-np.abs(change)) if movement.kinds[j] == PLACE and abs(change[j]) > 0.4]
            said += [f"{names[j]} {'rises' if change[j] > 0 else 'falls'}" for j in moving[:3]]
        found.append(", ".join(dict.fromkeys(said)) or "stays in place")
    return found


# -- windows -----------------------------------------------------------------------------------------------------------

LAGS = (0.0, -1.0, -0.5, -0.25, 0.25, 0.5, 1.0)
"""Where in a window values are read, as shares of what it reaches each way."""
SPREADS = (0.5, 1.0)
"""Widths over which their spread is taken, as shares of the same."""
SMOOTHED = 0.25
"""Width of the moving mean that is read, as a share of the same."""
DESCRIBED = len(LAGS) + len(SPREADS)
"""How many numbers a window makes of one."""


def in_steps(window: int | str, demos: Demonstrations, rate: float | None = None) -> int:
    """Steps that a window reaches each way, given as a number of steps or as a time such as ``0.5s``.

    ``rate`` is how many steps a second has; by default it is found from the times of the data, which are dates or
    seconds. Whole numbers may be frames, and are refused.
    """
    text = str(window).strip()
    seconds = _number(text[:-1]) if text.endswith("s") else None
    steps = _number(text)
    if isinstance(window, bool) or (seconds is None and (steps is None or steps != round(steps))):
        raise InputError(f"The window is {window!r}; give a number of steps such as 15, or a time such as 0.5s.")
    if seconds is not None:
        steps = max(round(seconds * (_rate(demos, text) if rate is None else rate)), 1) if seconds > 0 else 0
    assert steps is not None
    if not 1 <= steps <= int(demos.lengths.max()):
        raise InputError(
            f"A window of {steps:.0f} steps each way is no part of a trajectory; the longest has "
            f"{int(demos.lengths.max())}, so give no more than that, and 1 at least."
        )
    return int(steps)


def _number(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if np.isfinite(found) else None


def _rate(demos: Demonstrations, text: str) -> float:
    """Steps per second, by the median time between two steps of a trajectory."""
    if demos.times is None:
        raise InputError(
            f"A window of {text} needs the time of every step; name its column with --time, say --hz, or give steps."
        )
    if demos.times.dtype.kind not in "fmM":
        raise InputError(
            f"A window of {text} needs times in seconds or dates, and those of the data are whole numbers, which may "
            "be frames; say how many a second has with --hz, or give a number of steps."
        )
    between = seconds_between(demos.times, demos)
    typical = float(np.median(between)) if len(between) else 0.0
    if not typical > 0:
        raise InputError(f"A window of {text} needs steps at different times; give a number of steps.")
    return 1.0 / typical


def seconds_between(times: npt.NDArray[Any], demos: Demonstrations) -> FloatArray:
    """How long each step but the last of its trajectory takes, by times that are dates or seconds."""
    passed = np.diff(times)[~demos.first_steps[1:]]
    return np.asarray(passed / np.timedelta64(1, "s") if times.dtype.kind in "mM" else passed, np.float64)


def described(values: npt.NDArray[Any], offsets: npt.NDArray[Any], steps: int) -> FloatArray:
    """Every step by what happens within ``steps`` before and after it, (n, d · DESCRIBED).

    Values (n, d) are standardised within their trajectory; then come their moving mean at some lags, and their spread
    over shorter and longer windows.
    """
    own = standardised(values, offsets)
    mean = moving(own, offsets, _odd(SMOOTHED * steps))[0]
    lags = [round(share * steps) for share in LAGS]
    spreads = [moving(own, offsets, _odd(share * steps))[1] for share in SPREADS]
    return np.concatenate([around(mean, offsets, lags), *spreads], axis=1)


def _odd(width: float) -> int:
    return 2 * (int(width) // 2) + 1


def standardised(values: npt.NDArray[Any], offsets: npt.NDArray[Any]) -> FloatArray:
    """Mean zero and spread one within every trajectory, (n, d): where a recording was taken does not matter."""
    result = np.asarray(values, dtype=np.float64).copy()
    for part in _parts(result, offsets):
        spread = part.std(axis=0)
        part[:] = (part - part.mean(axis=0)) / np.where(spread > 1e-9, spread, 1.0)
    return result


def around(values: npt.NDArray[Any], offsets: npt.NDArray[Any], lags: Sequence[int]) -> FloatArray:
    """Values at every lag (negative: before), side by side, (n, d · lags); a trajectory's ends are repeated."""
    starts = np.repeat(offsets[:-1], np.diff(offsets))
    ends = np.repeat(offsets[1:], np.diff(offsets)) - 1
    steps = np.arange(len(values))
    return np.concatenate([np.asarray(values)[np.clip(steps + lag, starts, ends)] for lag in lags], axis=1)


def moving(values: npt.NDArray[Any], offsets: npt.NDArray[Any], width: int) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation over a centred window of an odd width, (n, d) each; ends are repeated."""
    from scipy.ndimage import uniform_filter1d

    mean, square = np.asarray(values, dtype=np.float64).copy(), np.asarray(values, dtype=np.float64) ** 2
    for filtered in (mean, square):
        for part in _parts(filtered, offsets):
            part[:] = uniform_filter1d(part, width, axis=0, mode="nearest")
    return mean, np.sqrt(np.maximum(square - mean**2, 0.0))


def _parts(values: FloatArray, offsets: npt.NDArray[Any]) -> Iterator[FloatArray]:
    for a, b in pairwise(offsets):
        yield values[a:b]
