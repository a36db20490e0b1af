"""The windows of the mice with what is known about them from outside, and what a fit means in terms of that."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from harness import steps_of
from labyrinth.settings import Labyrinth
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.datasets.labyrinth import MODES, labyrinth_mdp, load_annotations, load_events, load_labyrinth
from prism_irl.errors import InputError
from prism_irl.evaluation.alignment import Events, alignment, greedy_arrival, name_intentions
from prism_irl.maze import HOME, WATER
from prism_irl.mdp import MDP
from prism_irl.models.base import IntentionModel
from prism_irl.rewards.augmented import augmented_mdp

TARGETS = {"water": WATER, "home": HOME}
"""States that intentions are named after."""


@dataclass(frozen=True, eq=False)
class Data:
    """Demonstrations with what is known about them from outside, and what a fit means in terms of that.

    Parameters
    ----------
    demos : Demonstrations
        ``trajectory_names`` are positions in ``events``.
    mdp : MDP
    events : Events of all steps; without annotations, visits and exits only
    animals : the demonstrations of one animal each, with groups; None without annotations
    """

    demos: Demonstrations
    mdp: MDP
    events: Events
    animals: Demonstrations | None = None

    def meaning(self, model: IntentionModel, test: Demonstrations) -> dict[str, Any]:
        """What a fit is asked beyond its likelihood, on held-out trajectories: for `cross_validate`.

        The alignment of labels with outside events, and the history that was chosen.
        """
        row: dict[str, Any] = {}
        if (length := getattr(model, "history_length_", 1)) > 1:
            row |= {"history_length": length, "backoff": getattr(model, "backoff_", None)}
        if model.n_intentions < 2:
            return row
        found = self.alignment(model, test, shuffles=0)
        row |= {f"{mode}_enrichment": value for mode, value in found["matched"].items()}
        row |= {f"{event}_in_named": value for event, value in found["in_named"].items()}
        return {key: value for key, value in row.items() if np.isfinite(value)}

    def alignment(self, model: IntentionModel, demos: Demonstrations, *, shuffles: int) -> dict[str, Any]:
        """Alignment of the labels of some trajectories, with the names of the intentions and their arrivals."""
        arrival = self.arrival(model)
        names = None if arrival is None else name_intentions(arrival, tuple(TARGETS))
        own = self.events.of(self._steps(demos))
        water = "delivery" if "delivery" in own.happened else "water visit"
        found = alignment(
            model.predict(demos),
            demos.offsets,
            own,
            model.n_intentions,
            names=names,
            named_events={"water": water, "home": "exit"},
            shuffles=shuffles,
        )
        return {"names": names, "arrival": None if arrival is None else arrival.tolist(), **found}

    def arrival(self, model: IntentionModel) -> Any:
        """Share of nodes whose greedy path arrives at water and at home, (K, 2); None without policies."""
        policies = getattr(model, "policies_", None)
        if policies is None or len(policies) != model.n_intentions:  # DIRL's differ between steps, not intentions
            return None
        if policies.shape[1] == self.mdp.n_states:
            return greedy_arrival(self.mdp, policies, list(TARGETS.values()))
        contexts = getattr(model, "contexts_", None)
        if contexts is None or policies.shape[1] != contexts.n_contexts:
            return None
        return greedy_arrival(
            augmented_mdp(self.mdp, contexts), policies, list(TARGETS.values()), contexts.current_state
        )

    def _steps(self, demos: Demonstrations) -> Any:
        assert demos.trajectory_names is not None
        windows = demos.trajectory_names.astype(np.int64)
        return steps_of(self.demos.offsets, windows)


def load(settings: Labyrinth) -> Data:
    """Return the published windows; annotations where they are at hand."""
    everything = load_labyrinth()
    demos = replace(everything, trajectory_names=np.arange(len(everything)))
    kept = np.arange(len(demos))
    if settings.n_trajectories is not None:
        kept = np.sort(np.random.default_rng(0).permutation(len(demos))[: settings.n_trajectories])
        demos = replace(demos.subset(kept), trajectory_names=np.arange(len(kept)))
    happened = {name: at[steps_of(everything.offsets, kept)] for name, at in load_events().items()}
    try:
        notes = load_annotations().subset(kept)
    except InputError:  # no part of the public download: the rest of the experiment does not need it
        return Data(demos, labyrinth_mdp(), Events(happened, np.zeros(demos.n_steps, np.int64), ()))
    animals = replace(demos, groups=notes.mouse_names[notes.mouse]).subset(np.flatnonzero(~notes.mixed))
    return Data(demos, labyrinth_mdp(), Events(happened, notes.flat("mode"), MODES), animals)
