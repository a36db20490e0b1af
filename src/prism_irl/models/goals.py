"""Goals and a habit: intentions that plan, on top of what the agent does anyway (`rewards.goals`).

The result is one proper model, π_k(a|c) ∝ exp(h(c, a) + A_k(s, a)), with one proper likelihood. This is the pair as it
was first published: a Markov chain that finds the goals, and a habit counted at the steps that want nothing.
`PRISM(switching="state", rewards="goals")` lets a goal end where it is reached, and fits the habit to all steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from prism_irl.models.pair import PairModel
from prism_irl.switching import NetworkName


@dataclass(eq=False, repr=False, kw_only=True)
class GoalPRISM(PairModel):
    """Intentions as planned goals on a shared habit.

    Parameters
    ----------
    n_intentions : int
        K − 1 goals, and one intention that wants nothing in particular and follows the habit.
    switching : {"markov", "recurrent", "independent", "state", "per-trajectory"}
        A Markov chain suffices to find goals; recurrent switching learns what triggers them.
    history : int or "auto"
        States that the habit remembers; chosen on validation trajectories when "auto".
    backoff : float or "auto"
        Strength of the shrinkage of longer histories towards shorter ones.
    habit : bool, "all" or "idle"
        False gives pure goals (h = 0); true or "idle" counts the habit at the steps that want nothing, "all" fits it
        to all steps.
    goal_discount : float
        How much the next step counts beside this one in planning. A goal is a place to reach within some ten steps.
    sparsity : float
        Nats that a unit of reward must earn over the training data.
    network, switch_penalty, embedding, hidden, learning_rate, batch_size, max_iterations, n_starts,
    validation_fraction, stop_by, patience, discount, smoothing, device, seed : as in `PRISM`. Each start looks for
        goals on its own random half of the trajectories, so that their agreement says whether other data would show the
        same goals.
    """

    switching: str = "markov"
    network: NetworkName = "rnn"
    history: int | Literal["auto"] = "auto"
    backoff: float | Literal["auto"] = "auto"
    habit: bool | str = True
    goal_discount: float = 0.9
    sparsity: float = 50.0
    smoothing: float = 0.01
    switch_penalty: float = 0.05
    embedding: int = 128
    hidden: int = 128
    learning_rate: float = 1e-3
    batch_size: int = 32
    max_iterations: int = 15
    n_starts: int = 3
    patience: int | None = None

    def _halves(self) -> tuple[Any, Any]:
        return self.switching, "goals"
