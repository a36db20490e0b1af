"""The pair that is fitted where nobody names one: the only place that chooses it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prism_irl.data.demonstrations import Demonstrations

USUAL_PAIR = "recurrent", "tabular"
"""Switching and rewards where no data are known yet."""


def default_pair(demos: Demonstrations) -> tuple[str, str, str]:
    """Switching and rewards for demonstrations, and why these, in one sentence."""
    if demos.state_space.continuous:
        return "markov", "features", "States and actions are numbers: policies on features with a Markov chain."
    return *USUAL_PAIR, "Free policies predict best, and what triggers a switch may lie anywhere in the past."
