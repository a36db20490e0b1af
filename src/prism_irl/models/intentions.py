"""The estimator: any switching with any rewards (Sheng, Zhu & Boedecker, and beyond).

``Intentions()`` chooses the pair by the data (`models.default`). `PRISM` is the paper's own model; `models.registry`
has the pairs that somebody published.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self

from prism_irl import halves
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.models.default import default_pair
from prism_irl.models.pair import PairModel
from prism_irl.models.settings import Settings
from prism_irl.switching import NETWORKS


@dataclass(eq=False, repr=False, kw_only=True)
class Intentions(PairModel):  # noqa: D101
    __doc__ = Settings.__doc__  # the parameters, said once

    def _check_parameters(self, demos: Demonstrations) -> None:
        self._default_pair = default_pair(demos)
        super()._check_parameters(demos)
        # also what the components chosen do not read: a wrong number is a mistake all the same
        halves.check_numbers(self, dict.fromkeys(("l1", "kl", "switch_penalty", "smoothing", "learning_rate"), 0))
        halves.check_choice(self, network=NETWORKS, observe=("past", "current"))

    @classmethod
    def annealed(cls, n_intentions: int = 3, history: int | Literal["auto"] = 1, **memory: Any) -> Self:
        """Return HIQL's chain, looked for harder: annealed starts.

        Without memory there is little to overfit, and starts are compared on all trajectories: good optima differ by
        less than a tenth of the data can tell. Memory needs validation trajectories, to choose its length and to stop.
        """
        settings: dict[str, Any] = {"starts": "annealed", "n_starts": 8, "n_candidates": 1, "device": "cpu"}
        if history == 1:
            settings["validation_fraction"] = 0.0
        return cls(n_intentions, switching="markov", history=history, **{**settings, **memory})
