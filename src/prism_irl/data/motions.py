"""Demonstrations of robots: tokens as everywhere, and beside them continuous commands with what they may depend on.

A command y_t in R^m is explained by p vectors φ_tj in R^m that are known before it: the direction to the block, to the
target, a constant for the gripper. An intention is a weight per vector, E[y_t] = Σ_j θ_kj φ_tj, so that a handful of
numbers says what it is after, in every state (`rewards.features`). `linear_design` is the ordinary case, one weight
per pair of feature and dimension.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

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
    design : (n, m, p) float64
        The vectors φ_tj; column j is what one unit of weight j adds to the mean command.
    noise_blocks : tuple of m ints
        Dimensions with the same number share one variance (the three axes of a translation, say); all apart if absent.
    motion_names, design_names : tuple of str, optional
        Names of the m dimensions and of the p vectors.
    """

    motions: FloatArray | None = None
    design: FloatArray | None = None
    noise_blocks: tuple[int, ...] | None = None
    motion_names: tuple[str, ...] | None = None
    design_names: tuple[str, ...] | None = None

    per_step: ClassVar[tuple[str, ...]] = (*Demonstrations.per_step, "motions", "design")

    def __post_init__(self) -> None:
        """Check what is new here, after the tokens."""
        super().__post_init__()
        if self.motions is None or self.design is None:
            raise InputError("Motion demonstrations need commands and a design; use Demonstrations for tokens alone.")
        motions, design = (np.asarray(values, dtype=np.float64) for values in (self.motions, self.design))
        n, m = motions.shape if motions.ndim == 2 else (-1, -1)
        if n != self.n_steps or m < 1:
            raise InputError(f"The commands have shape {motions.shape} for {self.n_steps} steps; give (n, m).")
        if design.ndim != 3 or design.shape[:2] != (n, m) or design.shape[2] < 1:
            raise InputError(f"The design has shape {design.shape} for commands {motions.shape}; give (n, m, p).")
        for name, values in (("command", motions), ("design", design)):
            finite = np.isfinite(values).reshape(n, -1).all(axis=1)
            if not finite.all():
                where = self.where(int(np.argmin(finite)))
                raise InputError(f"The {name} at {where} is not finite; remove or repair that step.")
        blocks = tuple(range(m)) if self.noise_blocks is None else tuple(int(block) for block in self.noise_blocks)
        if len(blocks) != m or sorted(set(blocks)) != list(range(len(set(blocks)))):
            raise InputError(f"The noise blocks {blocks} must give each of {m} dimensions a number from 0 on, no gaps.")
        for name, value in (("motions", motions), ("design", design), ("noise_blocks", blocks)):
            object.__setattr__(self, name, value)

    @classmethod
    def of(cls, demos: Demonstrations, motions: npt.ArrayLike, design: npt.ArrayLike, **options: Any) -> Self:
        """Add commands to demonstrations of tokens."""
        plain = {field.name: getattr(demos, field.name) for field in fields(Demonstrations)}
        return cls(**plain, motions=np.asarray(motions), design=np.asarray(design), **options)

    def checksum(self) -> str:
        """Return the sha256 of everything a fit reads."""
        digest = hashlib.sha256(super().checksum().encode())
        for part in (self.motions, self.design):
            digest.update(np.ascontiguousarray(part).tobytes())
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
