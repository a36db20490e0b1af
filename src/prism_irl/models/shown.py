"""What a page shows of large continuous data: some of its trajectories.

Maps, stories and pictures are averages that a million steps settle as well as a hundred, and are made of arrays that
are several times as long as what they show. Scores, usage, dwell and segments are always those of all steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy.typing as npt

from prism_irl import expectation
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.sampling import some_trajectories, steps_of
from prism_irl.evaluation.likelihood import Inference


class Shown(NamedTuple):
    """Demonstrations, what was inferred about them and marked in them, and a sentence where they are not all."""

    demos: Demonstrations
    found: Inference
    marks: dict[str, npt.NDArray[Any]]
    notes: list[str]


def shown_part(demos: Demonstrations, found: Inference, marks: Mapping[str, npt.NDArray[Any]], seed: int = 0) -> Shown:
    """All data, or of large continuous ones some trajectories of `expectation.LARGE` steps together."""
    if not demos.state_space.continuous or demos.n_steps <= expectation.LARGE:
        return Shown(demos, found, dict(marks), [])
    chosen = some_trajectories(demos, expectation.LARGE, seed)
    steps = steps_of(demos.offsets, chosen)
    note = (
        f"Maps, stories and pictures are those of {len(chosen):,} of {len(demos):,} trajectories ({len(steps):,} of "
        f"{demos.n_steps:,} steps), drawn at random; scores, usage, dwell and segments.parquet are of all of them. "
        f"Starts were looked for, and rewards and references fitted, in about {expectation.SOME:,} steps."
    )
    own = Inference(found.labels[steps], found.probabilities[steps], found.log_likelihood[steps], found.paper[steps])
    return Shown(demos.subset(chosen), own, {name: at[steps] for name, at in marks.items()}, [note])
