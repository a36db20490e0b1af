"""The windows of the mice with what is known about them from outside, and what a fit means in terms of that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from harness import NETWORK, steps_of
from labyrinth.alignment import Events, alignment, greedy_arrival, name_intentions
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.datasets.labyrinth import MODES, labyrinth_mdp, load_annotations, load_events, load_labyrinth
from prism_irl.errors import InputError
from prism_irl.maze import HOME, WATER
from prism_irl.mdp import MDP
from prism_irl.models.base import IntentionModel
from prism_irl.models.presets import PAPER
from prism_irl.rewards.iavi import augmented_mdp

PARTS = ("paper", "honest", "frontier", "animals", "alignment", "published", "swirl", "transformer", "sizes")

PAPER_NUM_LATENTS = {
    1: (-0.86801, -0.87071),
    2: (-0.75432, -0.76024),
    3: (-0.63754, -0.64624),
    4: (-0.58141, -0.58714),
    5: (-0.53726, -0.54573),
    6: (-0.51220, -0.52129),
}
"""Table num_latents of the paper: train and test score for each K; not likelihoods above K = 1."""
PAPER_MODEL_TYPE = {"rnn": (-0.63754, -0.64624), "lstm": (-0.60993, -0.62705), "transformer": (-0.86797, -0.87067)}
"""Table model_type of the paper, K = 3: train and test score; its Transformer has collapsed to K = 1."""
PAPER_TIMING = {"e_step": 0.03, "rewards": 0.60, "network": 0.09, "total": 1.92, "iterations": 140}
"""Table timing of the paper: seconds per EM iteration, rewards and network per intention (RTX 3060 mobile)."""
PAPER_SWIRL = -0.73
"""What the paper reports for SWIRL S-2 on the same data (Figure labyrinth a)."""
PAPER_VALIDATION = 0.1
"""Share of the training windows that choose the iteration and the start in the paper's protocol."""
TRANSFORMER_PENALTIES = 0.3
"""Share of the paper's penalties that the Transformer gets, with one epoch per M-step as the other networks.

Under the paper's penalties it ends in the fixed point of one intention, -0.871, the paper's number, with 8 epochs per
M-step and with one, while the RNN does not; with this share of them it does not either. At the start the policies
hardly differ, so that responsibilities are little more than the gate itself and Eq. (loss) is mostly its penalties,
whose optimum is a constant gate: a network that gets there before the policies have come apart stays there. The part
transformer has the measurements (docs/results/labyrinth.md).
"""
PENALTY_SETTINGS = {
    "no penalty": (0.0, 0.0),
    "L1": (PAPER["labyrinth"]["l1"], 0.0),
    "KL": (0.0, PAPER["labyrinth"]["kl"]),
    "L1 and KL (paper)": (PAPER["labyrinth"]["l1"], PAPER["labyrinth"]["kl"]),
}
"""Figure labyrinth (d): from unconstrained to fully penalised."""


@dataclass(frozen=True)
class Labyrinth:
    """Settings of the experiment.

    Parameters
    ----------
    folds, only_folds, seeds : cross-validation over windows; only these folds
    n_trajectories : use the first so many windows of a seeded shuffle; all when None
    n_intentions : K of everything but the table num_latents
    paper_ks, paper_iterations, paper_starts : numbers of intentions, EM iterations and starts (of the RNN) in the
        paper's protocol
    networks, network_ks : architectures of table model_type and of figure (b), and the numbers of intentions of those
        that are not the RNN; at K other than 3 they have the first seed only, for the sake of time
    transformer_iterations : EM iterations of the Transformer, which needs fewer and takes longer in each
    paper_size : width of embeddings and networks in the paper's protocol
    histories : history lengths of every switching family
    families : switching families that are crossed with the histories
    others : further methods of the honest comparison
    starts, max_iterations, chain_starts : of learned methods, and starts of Markov chains
    penalties, frontier_folds, frontier_histories : switch penalties of the frontier, the folds that it is measured on,
        and the histories of recurrent switching there, as suffixes of its identifier
    animals, only_animals : methods that are tested on animals they have not seen; only these animals
    explained, independent_fits : methods whose meaning is judged, each fitted so many times independently, as is the
        paper's model in the part published
    collapse_iterations, collapse_cases : EM iterations of the part transformer, and the first so many of its cases
    sizes : hidden units and layers of the RNN in the part sizes
    swirl_changes : what is fitted on SWIRL's own split (`claims.SWIRL_CHANGES`)
    """

    folds: int = 5
    only_folds: tuple[int, ...] | None = None
    seeds: tuple[int, ...] = (0, 1, 2)
    n_trajectories: int | None = None
    n_intentions: int = 3
    paper_ks: tuple[int, ...] = (1, 2, 3, 4, 5, 6)
    paper_iterations: int = 180
    paper_starts: int = 3
    networks: tuple[str, ...] = ("rnn", "lstm", "transformer")
    network_ks: tuple[int, ...] = (1, 2, 3, 4, 5, 6)
    transformer_iterations: int = 60
    paper_size: int = 128
    histories: tuple[int, ...] = (1, 2, 3, 4, 5)
    families: tuple[str, ...] = ("hiql", "prism-past", "prism-recurrent")
    others: tuple[str, ...] = (
        "uniform",
        "iavi",
        "maxent",
        "maxcausalent",
        "mixture",
        "ngram",
        "bc",
        "swirl-1",
        "swirl-2",
        "dirl",
        "prism-markov",
        "prism-goals",
        "state+goals",
        "recurrent+goals",
    )
    starts: int = 2
    chain_starts: int = 16
    max_iterations: int = 80
    penalties: tuple[float, ...] = (0.0, 0.05, 0.1, 0.3, 1.0)
    frontier_folds: tuple[int, ...] = (0, 1)
    frontier_histories: tuple[str, ...] = ("", "-hauto")
    animals: tuple[str, ...] = (
        "uniform",
        "iavi",
        "maxcausalent",
        "mixture",
        "dirl",
        "ngram",
        "bc",
        "swirl-1",
        "swirl-2",
        "hiql",
        "hiql-hauto",
        "prism-past",
        "prism-recurrent",
        "prism-recurrent-hauto",
        "prism-goals",
        "state+goals",
        "recurrent+goals",
    )
    only_animals: tuple[int, ...] | None = None
    explained: tuple[str, ...] = (
        "hiql-k2",
        "prism-markov-k2",
        "hiql",
        "prism-markov",
        "prism-past",
        "prism-recurrent",
        "prism-recurrent-h2",
        "hiql-hauto",
        "prism-recurrent-hauto",
        "prism-goals-h1",
        "prism-goals",
        "state+goals",
        "recurrent+goals",
    )
    independent_fits: int = 3
    collapse_iterations: int = 60
    collapse_cases: int | None = None
    sizes: tuple[tuple[int, int], ...] = ((8, 1), (32, 1), (64, 1), (128, 1), (256, 1), (128, 2))
    swirl_changes: tuple[str, ...] = ("swirl-2-plain", "swirl-2-masked", "swirl-2-warm", "swirl-2")
    quick: bool = False

    @classmethod
    def small(cls) -> Labyrinth:
        """A smaller honest run, for `--quick`."""
        return cls(
            only_folds=(0,),
            seeds=(0,),
            n_trajectories=140,
            paper_ks=(1, 2, 3, 6),
            paper_iterations=40,
            paper_starts=1,
            network_ks=(3,),
            transformer_iterations=12,
            histories=(1, 2, 4),
            families=("hiql", "prism-recurrent"),
            others=("uniform", "iavi", "ngram", "prism-past", "swirl-1", "prism-goals"),
            starts=1,
            chain_starts=4,
            max_iterations=50,
            penalties=(0.0, 0.1, 0.5),
            frontier_folds=(0,),
            frontier_histories=("",),
            animals=("iavi", "ngram", "hiql-hauto"),
            only_animals=(0, 1),
            explained=("prism-markov-k2", "hiql", "prism-recurrent", "prism-goals"),
            independent_fits=2,
            collapse_iterations=3,
            collapse_cases=1,
            sizes=((8, 1),),
            swirl_changes=("swirl-2-plain", "swirl-2-masked"),
            quick=True,
        )

    @property
    def tested_folds(self) -> tuple[int, ...]:
        """The folds that are run."""
        return tuple(range(self.folds)) if self.only_folds is None else self.only_folds

    def options(self) -> dict[str, dict[str, Any]]:
        """Options of the methods of the honest comparison; those with a network get a smaller one than the paper's.

        It overfits here less quickly. Annealed starts are the point of ``prism-markov``, and keep their number.
        """
        starts = {"n_starts": self.starts}
        return {
            "": starts,
            "hiql": {"n_starts": self.chain_starts},
            "prism-past": {**starts, "max_iterations": self.max_iterations, **NETWORK},
            "prism-markov": {},
            "prism-goals": starts,
            "state+goals": {},
            "recurrent+goals": {},
        }


def check_parts(parts: Sequence[str]) -> None:
    """Refuse parts that do not exist."""
    for part in parts:
        if part not in PARTS:
            raise InputError(f"The labyrinth has no part {part!r}; choose among {', '.join(PARTS)}.")
    if not parts:
        raise InputError(f"No part was named; choose among {', '.join(PARTS)}.")


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
        if (length := getattr(model, "history_length_", None) or 1) > 1:
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
        notes = load_annotations()
    except InputError:  # no part of the public download: the rest of the experiment does not need it
        return Data(demos, labyrinth_mdp(), Events(happened, np.zeros(demos.n_steps, np.int64), ()))
    animals = replace(demos, groups=notes["animal"][kept]).subset(np.flatnonzero(~notes["mixed"][kept]))
    return Data(demos, labyrinth_mdp(), Events(happened, notes["mode"][kept].ravel().astype(np.int64), MODES), animals)
