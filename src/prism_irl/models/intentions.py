"""The estimator: any switching with any rewards (Sheng, Zhu & Boedecker, and beyond).

``Intentions()`` chooses by the data (`models.default`): a pair, or phases for robots. `PRISM` is the paper's own
model; `models.registry` has the pairs that somebody published.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np

from prism_irl import halves
from prism_irl.data.batching import Prepared
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.mdp import MDP
from prism_irl.models.base import FloatArray, IntentionModel
from prism_irl.models.default import (
    ALTERNATIVES,
    CLEARLY,
    ERRORS,
    LEAST_HELD_OUT,
    default_pair,
    suits_phases,
    usual_pair,
)
from prism_irl.models.pair import PairModel
from prism_irl.models.settings import Settings
from prism_irl.switching import NETWORKS


@dataclass(eq=False, repr=False, kw_only=True)
class Intentions(PairModel):  # noqa: D101
    __doc__ = Settings.__doc__  # the parameters, said once

    def fit(self, demos: Demonstrations, mdp: MDP | None = None, **watch: Any) -> Self:
        """Fit by EM (`PairModel.fit`); where nobody named a pair, the one that suits the data (`models.default`).

        Demonstrations of robots make it a fitted `Phases`.

        With goals found, other kinds of switching are tried on them, and one is taken where it clearly predicts
        trajectories better that were left out; ``default_`` says what was taken, and why.
        """
        vars(self).pop("_trial", None)
        if (phases := self.suited(demos)) is not self:
            found = vars(phases.fit(demos, mdp))
            vars(self).clear()
            vars(self).update(found)
            self.__class__ = type(phases)  # type: ignore[assignment]
            return self
        super().fit(demos, mdp, **watch)
        if not self.chooses_pair:
            self.default_ = None
            return self
        switching, rewards, why = self._default_pair
        held_out = demos.subset(demos.split_indices(self.validation_fraction or 0.1, seed=self.seed)[0])
        tried = {switching: self._per_trajectory(held_out)}
        others = ALTERNATIVES.get((switching, rewards), ())
        if len(held_out) < LEAST_HELD_OUT or not self.validation_fraction or self.n_intentions < 2:
            others = ()
        best: Intentions = self
        for name in others:
            other = copy(self)
            vars(other)["_trial"] = name, rewards, why
            PairModel.fit(other, demos, mdp)
            tried[name] = other._per_trajectory(held_out)
            gain, steps = tried[name] - tried[best.pair.split("+")[0]], held_out.lengths
            error = float(np.sqrt(len(gain)) * gain.std(ddof=1)) / steps.sum()
            if gain.sum() / steps.sum() > max(CLEARLY, ERRORS * error):
                best = other
        scores = {name: float(found.sum() / held_out.n_steps) for name, found in tried.items()}
        taken = best.pair
        vars(self).update(vars(best))
        vars(self).pop("_trial", None)
        if best is not self:
            why += f" Switching by {taken.split('+')[0]} predicts left-out trajectories clearly better than arrival."
        self.default_ = {"pair": taken, "why": why, "held_out": scores}
        return self

    def suited(self, demos: Demonstrations) -> IntentionModel:
        """Return `Phases` where the data suit them and nobody asked for what they do not have; else this model."""
        from prism_irl.models.phases import Phases

        usual = self._defaults()
        given = {name: value for name, value in self.get_params(deep=False).items() if value not in (None, usual[name])}
        if not self.chooses_pair or not set(given) <= set(Phases._defaults()) or not suits_phases(demos):
            return self
        return Phases(**given)

    @property
    def chooses_pair(self) -> bool:
        """Whether nobody named a component."""
        own = type(self).switching is None and type(self).rewards is None  # a named method has a pair of its own
        return own and vars(self).get("switching") is None and vars(self).get("rewards") is None

    def _per_trajectory(self, demos: Demonstrations) -> FloatArray:
        """Predictive log-likelihood of every trajectory, (N,)."""
        return np.asarray(np.add.reduceat(self.log_likelihood(demos), demos.offsets[:-1]))

    def _discover(self, train: Prepared) -> None:
        """Goals that were found already stay."""
        if "_trial" not in vars(self):
            super()._discover(train)
            return
        self._discovered = {"n_intentions": self.found_.n_intentions} if self.intentions_found_ else {}
        self._check_parameters(train.demos)

    def _check_parameters(self, demos: Demonstrations) -> None:
        self._usual_pair = usual_pair(continuous=demos.state_space.continuous)
        self._default_pair = vars(self).get("_trial") or default_pair(demos)
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
