"""Demonstrations of robots: tokens as everywhere, and beside them continuous commands with what they may depend on.

A command y_t in R^m is explained by p vectors φ_tj in R^m that are known before it: the direction to the block, to the
target, a constant for the gripper. An intention is a weight per vector, E[y_t] = Σ_j θ_kj φ_tj, so that a handful of
numbers says what it is after, in every state (`rewards.features`). `linear_design` is the ordinary case, one weight
per pair of feature and dimension. Without a design, commands depend on the observations as they were measured: tables
of continuous states and actions, which a fit brings into its own units (`data.units`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from prism_irl.data.checks import chunks
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class MotionDemonstrations(Demonstrations):
    """Demonstrations with continuous commands.

    Parameters
    ----------
    motions : (n, m) float64
        Commands y_t, in units in which a size of one is large.
    design : (n, m, p) float64, optional
        The vectors φ_tj; column j is what one unit of weight j adds to the mean command. Without, commands depend on
        the observations.
    noise_blocks : tuple of m ints
        Dimensions with the same number share one variance (the three axes of a translation, say); all apart if absent.
    motion_names, design_names, observation_names : tuple of str, optional
        Names of the m dimensions, of the p vectors and of the observations.
    log_volume : float
        Log of the volume of a unit of the commands, in those that the data came in; densities are lower by it.
    """

    motions: FloatArray | None = None
    design: FloatArray | None = None
    noise_blocks: tuple[int, ...] | None = None
    motion_names: tuple[str, ...] | None = None
    design_names: tuple[str, ...] | None = None
    observation_names: tuple[str, ...] | None = None
    log_volume: float = 0.0

    per_step: ClassVar[tuple[str, ...]] = (*Demonstrations.per_step, "motions", "design")

    def __post_init__(self) -> None:
        """Check what is new here, after the tokens."""
        super().__post_init__()
        if self.motions is None or (self.design is None and self.observations is None):
            raise InputError(
                "Motion demonstrations need commands, and observations or a design that they depend on; use "
                "Demonstrations for tokens alone."
            )
        motions = np.asarray(self.motions)
        if motions.dtype != np.float32 or self.design is not None:
            motions = motions.astype(np.float64, copy=False)
        n, m = motions.shape if motions.ndim == 2 else (-1, -1)
        if n != self.n_steps or m < 1:
            raise InputError(f"The commands have shape {motions.shape} for {self.n_steps} steps; give (n, m).")
        self._check_finite("command", motions)
        object.__setattr__(self, "motions", motions)
        object.__setattr__(self, "noise_blocks", self._checked_blocks(m))
        if self.design is None:
            return
        design = np.asarray(self.design, dtype=np.float64)
        if design.ndim != 3 or design.shape[:2] != (n, m) or design.shape[2] < 1:
            raise InputError(f"The design has shape {design.shape} for commands {motions.shape}; give (n, m, p).")
        self._check_finite("design", design)
        object.__setattr__(self, "design", design)

    def _check_finite(self, name: str, values: npt.NDArray[Any]) -> None:
        for chunk in chunks(len(values), 2**16):
            finite = np.isfinite(values[chunk]).reshape(len(values[chunk]), -1).all(axis=1)
            if not finite.all():
                where = self.where(chunk.start + int(np.argmin(finite)))
                raise InputError(f"The {name} at {where} is not finite; remove or repair that step.")

    def _checked_blocks(self, m: int) -> tuple[int, ...]:
        blocks = tuple(range(m)) if self.noise_blocks is None else tuple(int(block) for block in self.noise_blocks)
        if len(blocks) != m or sorted(set(blocks)) != list(range(len(set(blocks)))):
            raise InputError(f"The noise blocks {blocks} must give each of {m} dimensions a number from 0 on, no gaps.")
        return blocks

    @classmethod
    def of(
        cls, demos: Demonstrations, motions: npt.ArrayLike, design: npt.ArrayLike | None = None, **options: Any
    ) -> Self:
        """Add commands to demonstrations of tokens."""
        plain = {field.name: getattr(demos, field.name) for field in fields(Demonstrations)}
        vectors = None if design is None else np.asarray(design)
        return cls(**{**plain, "motions": np.asarray(motions), "design": vectors, **options})

    @classmethod
    def continuous(
        cls,
        observations: Sequence[npt.ArrayLike] | npt.NDArray[Any],
        commands: Sequence[npt.ArrayLike] | npt.NDArray[Any],
        **options: Any,
    ) -> Self:
        """Trajectories of observations (T, d) and commands (T, m), each a list of arrays or one array (N, T, …).

        ``options`` are those of `Demonstrations.from_arrays` (labels, known, groups) and names.
        """
        rows = [np.asarray(part) for part in observations]
        moves = [np.asarray(part, dtype=np.float64) for part in commands]
        if not rows or any(len(x) != len(y) for x, y in zip(rows, moves, strict=True)):
            raise InputError("Observations and commands must come from the same steps of the same trajectories.")
        tokens = [np.zeros(len(part), dtype=np.int64) for part in rows]
        own = {field.name for field in fields(cls)} - {field.name for field in fields(Demonstrations)}
        own |= {"trajectory_names", "label_names", "known_names"}
        plain = {name: value for name, value in options.items() if name not in own}
        demos = Demonstrations.from_arrays(tokens, tokens, observations=rows, **plain)
        return cls.of(demos, np.concatenate(moves), **{k: v for k, v in options.items() if k in own})

    def checksum(self) -> str:
        """Return the sha256 of everything a fit reads."""
        digest = hashlib.sha256(super().checksum().encode())
        for part in (self.motions, self.design):
            if part is not None:
                for chunk in chunks(len(part), 2**16):
                    digest.update(np.ascontiguousarray(part[chunk]).tobytes())
        digest.update(repr(self.noise_blocks).encode())
        return digest.hexdigest()


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
