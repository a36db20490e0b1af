"""Goals and a habit: intentions that plan, on top of what the agent does anyway (`rewards.goals`).

The result is one proper model, π_k(a|c) ∝ exp(h(c, a) + A_k(s, a)), with one proper likelihood. This is the pair as it
was first published: a Markov chain that finds the goals, and a habit counted at the steps that want nothing.
`Intentions(switching="state", rewards="goals")` lets a goal end where it is reached, and fits the habit to all
steps.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from prism_irl.models.intentions import Intentions
from prism_irl.switching import NetworkName


@dataclass(eq=False, repr=False, kw_only=True)
class GoalPRISM(Intentions):
    """Intentions as planned goals on a shared habit.

    Parameters
    ----------
    n_intentions : int
        K − 1 goals, and one intention that wants nothing in particular and follows the habit.
    switching : {"markov", "recurrent", "independent", "state", "per-trajectory"}
        A Markov chain suffices to find goals; recurrent switching learns what triggers them.
    habit, goal_discount, sparsity : see `rewards.options.Goals`
        The habit is counted at the steps that want nothing (true, "idle") unless it is fitted to all steps ("all").
    history, backoff, network, n_starts, seed, … : see `Intentions`
        Each start looks for goals on its own random half of the trajectories, so that their agreement says whether
        other data would show the same goals.
    """

    n_intentions: int = field(default=3, kw_only=False)
    switching: str = "markov"
    rewards: str = field(default="goals", init=False)
    network: NetworkName = "rnn"
    history: int | Literal["auto"] = "auto"
    backoff: float | Literal["auto"] = "auto"
    habit: bool | str = True
    goal_discount: float = 0.9
    sparsity: float = 50.0
    embedding: int = 128
    hidden: int = 128
    learning_rate: float = 1e-3
    max_iterations: int = 15
    n_starts: int = 3
    patience: int | None = None
