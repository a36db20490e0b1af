"""Pictures of simulated pick-and-place, drawn with NumPy: a camera in front of the table, an arm, a gripper and a cube.

MuJoCo renders the same scene (`manipulation.PickAndPlace.episodes(frames=True)`), which takes tens of milliseconds per
step without a GPU. These pictures show what that camera shows, and no more: the target of the cube is nowhere in them.
Shapes are balls and rods of a given radius, seen by a pinhole camera; a pixel is covered as far as it lies inside.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from worlds.manipulation import STATE_NAMES

FloatArray = npt.NDArray[np.float64]
Canvas = npt.NDArray[np.float32]
Picture = npt.NDArray[np.uint8]
SIZE = 64
EYE, CENTRE, FOCUS = np.array([1.15, 0.0, 0.62]), np.array([0.33, 0.0, 0.08]), 1.25
"""Where the camera stands, what it looks at, and its focal length in heights of a picture."""
SHOULDER = np.array([0.0, 0.0, 0.42])
ARM, HAND, FINGER, CUBE = (150, 170, 200), (70, 70, 75), (20, 20, 22), (225, 70, 90)
FLOOR, WALL = (38, 42, 58), (24, 26, 36)
SPREAD, TRAVEL, REACH = 0.05, 0.6, 0.12
"""Metres between open fingers, the number of a closed gripper, and metres from the fingers to the wrist."""


def pictures(states: npt.ArrayLike, size: int = SIZE) -> Picture:
    """Frames (n, size, size, 3) of simulated states (n, 31), columns as in `STATE_NAMES`."""
    s = np.asarray(states, dtype=np.float64)
    column = {name: s[:, i] for i, name in enumerate(STATE_NAMES)}
    hand, cube = (np.stack([column[f"{thing}_{axis}"] for axis in "xyz"], axis=1) for thing in ("effector", "block"))
    across = np.stack([-column["effector_sin_yaw"], column["effector_cos_yaw"], np.zeros(len(s))], axis=1)
    gap = 0.5 * SPREAD * (1.0 - np.clip(column["gripper_opening"] / TRAVEL, 0.0, 1.0))[:, None]
    wrist = hand + np.array([0.0, 0.0, REACH])
    found: Canvas = np.empty((len(s), size, size, 3), np.float32)
    half = size // 3
    found[:, :half], found[:, half:] = WALL, FLOOR
    _rod(found, np.broadcast_to(SHOULDER, wrist.shape), wrist, 0.035, ARM)
    _rod(found, wrist, hand + np.array([0.0, 0.0, 0.05]), 0.028, HAND)
    _rod(found, cube, cube, 0.024, CUBE)
    for side in (-1.0, 1.0):
        tip = hand + side * (gap + 0.01) * across
        _rod(found, tip + np.array([0.0, 0.0, 0.06]), tip, 0.009, FINGER)
    return found.round().astype(np.uint8)


def _seen(points: FloatArray, size: int) -> tuple[FloatArray, FloatArray]:
    """Pixels (n, 2), row and column, of points (n, 3), and pixels per metre there, (n,)."""
    forward = (CENTRE - EYE) / np.linalg.norm(CENTRE - EYE)
    right = np.cross(forward, [0.0, 0.0, 1.0])
    right /= np.linalg.norm(right)
    down = np.cross(forward, right)
    away = points - EYE
    scale = FOCUS * size / np.maximum(away @ forward, 0.05)
    return np.stack([away @ down * scale, away @ right * scale], axis=1) + 0.5 * (size - 1), scale


def _rod(found: Canvas, a: FloatArray, b: FloatArray, radius: float, colour: Any) -> None:
    """Draw rods from a to b (n, 3) over pictures (n, size, size, 3)."""
    size = found.shape[1]
    (start, near), (end, _) = _seen(a, size), _seen(b, size)
    low = np.minimum(start, end).min(axis=0) - radius * near.max() - 1.0  # only where some picture has the rod
    high = np.maximum(start, end).max(axis=0) + radius * near.max() + 2.0
    (top, left), (bottom, right) = (np.clip(np.floor(edge), 0, size).astype(int) for edge in (low, high))
    rows = np.arange(top, bottom, dtype=np.float32)[None, :, None] - start[:, 0, None, None].astype(np.float32)
    columns = np.arange(left, right, dtype=np.float32)[None, None, :] - start[:, 1, None, None].astype(np.float32)
    down, across = ((end - start)[:, i, None, None].astype(np.float32) for i in (0, 1))
    share = np.clip((rows * down + columns * across) / np.maximum(down**2 + across**2, 1e-9), 0.0, 1.0)
    away = np.sqrt((rows - share * down) ** 2 + (columns - share * across) ** 2)
    covered = np.clip(0.5 + (radius * near).astype(np.float32)[:, None, None] - away, 0.0, 1.0)
    part = found[:, top:bottom, left:right]
    for i, level in enumerate(colour):
        part[..., i] += covered * (np.float32(level) - part[..., i])
