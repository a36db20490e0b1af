"""The mouse labyrinth (paper §5.2, appendix D): the paper's tables as the paper computes them, and an honest answer.

Five parts, each of which can run alone and remembers its fits: *paper* (tables num_latents, model_type and timing),
*honest* (every method by predictive likelihood, dwell, agreement and alignment), *frontier* (likelihood against dwell,
by sweeping the penalties), *animals* (leave one animal out) and *alignment* (what the intentions mean, against
shuffled labels, with fits to all data). Parts that have run are put together into metrics.json, tables and figures.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from prism_irl import storage
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.datasets.labyrinth import MODES, labyrinth_mdp, load_annotations, load_labyrinth
from prism_irl.errors import InputError
from prism_irl.evaluation.alignment import Events, alignment, greedy_arrival, name_intentions
from prism_irl.maze import HOME, WATER
from prism_irl.mdp import MDP
from prism_irl.models.base import IntentionModel
from prism_irl.rewards.augmented import augmented_mdp
from prism_irl.studies.cross_validation import Fit

PARTS = ("paper", "honest", "frontier", "animals", "alignment")

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
DELIVERY_CONFIDENCE = 3
"""Deliveries of water whose step is known."""

OnFit = Callable[[Fit, int], None]


@dataclass(frozen=True)
class Labyrinth:
    """Settings of the experiment.

    Parameters
    ----------
    folds, only_folds, seeds : cross-validation over windows; only these folds
    n_trajectories : use the first so many windows of a seeded shuffle; all when None
    n_intentions : K of everything but the table num_latents
    paper_ks, paper_iterations, paper_starts : numbers of intentions, EM iterations and starts in the paper's protocol
    networks : architectures of table model_type
    transformer_iterations : EM iterations of the Transformer, which needs fewer and takes longer in each
    paper_size : width of embeddings and networks in the paper's protocol
    histories : history lengths of every switching family
    families : switching families that are crossed with the histories
    others : further methods of the honest comparison
    starts, max_iterations, chain_starts : of learned methods, and starts of Markov chains
    penalties, frontier_folds, frontier_histories : switch penalties of the frontier, the folds that it is measured on,
        and the histories of recurrent switching there, as suffixes of its identifier
    animals, only_animals : methods that are tested on animals they have not seen; only these animals
    explained, independent_fits : methods whose meaning is judged, each fitted so many times independently
    """

    folds: int = 5
    only_folds: tuple[int, ...] | None = None
    seeds: tuple[int, ...] = (0,)
    n_trajectories: int | None = None
    n_intentions: int = 3
    paper_ks: tuple[int, ...] = (1, 2, 3, 4, 5, 6)
    paper_iterations: int = 180
    paper_starts: int = 3
    networks: tuple[str, ...] = ("rnn", "lstm", "transformer")
    transformer_iterations: int = 60
    paper_size: int = 128
    histories: tuple[int, ...] = (1, 2, 3, 4, 5)
    families: tuple[str, ...] = ("hiql", "prism", "prism-recurrent")
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
    )
    starts: int = 2
    chain_starts: int = 16
    max_iterations: int = 80
    penalties: tuple[float, ...] = (0.0, 0.05, 0.1, 0.3, 1.0)
    frontier_folds: tuple[int, ...] = (0, 1)
    frontier_histories: tuple[str, ...] = ("", "-hauto")
    animals: tuple[str, ...] = ("iavi", "ngram", "hiql", "hiql-hauto", "prism-recurrent", "prism-recurrent-hauto")
    only_animals: tuple[int, ...] | None = None
    explained: tuple[str, ...] = (
        "hiql-k2",
        "prism-markov-k2",
        "hiql",
        "prism-markov",
        "prism",
        "prism-recurrent",
        "prism-recurrent-h2",
        "hiql-hauto",
        "prism-recurrent-hauto",
        "prism-goals-h1",
        "prism-goals",
    )
    independent_fits: int = 3
    quick: bool = False

    @classmethod
    def small(cls) -> Labyrinth:
        """A smaller honest run, for `--quick`."""
        return cls(
            only_folds=(0,),
            n_trajectories=140,
            paper_ks=(1, 2, 3, 6),
            paper_iterations=40,
            paper_starts=1,
            transformer_iterations=12,
            histories=(1, 2, 4),
            families=("hiql", "prism-recurrent"),
            others=("uniform", "iavi", "ngram", "prism", "swirl-1", "prism-goals"),
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
            quick=True,
        )

    @property
    def tested_folds(self) -> tuple[int, ...]:
        """The folds that are run."""
        return tuple(range(self.folds)) if self.only_folds is None else self.only_folds


@dataclass(frozen=True, eq=False)
class Data:
    """Demonstrations with what is known about them from outside.

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
    targets: tuple[int, int] = (WATER, HOME)

    @property
    def judge(self) -> Judge:
        """What a fit is asked beyond its likelihood."""
        return Judge(self.mdp, self.events, self.demos.offsets, self.targets)


@dataclass(frozen=True, eq=False)
class Judge:
    """Names of intentions from their maps, and the alignment of labels with outside events.

    Parameters
    ----------
    mdp : MDP
    events : Events of the trajectories whose positions are ``trajectory_names``
    offsets : where those trajectories begin
    targets : states that intentions are named after: water, home
    """

    mdp: MDP
    events: Events
    offsets: Any
    targets: tuple[int, int]

    def __call__(self, model: IntentionModel, test: Demonstrations) -> dict[str, Any]:
        """Alignment on held-out trajectories, and the history that was chosen; for `cross_validate`."""
        row: dict[str, Any] = {}
        if getattr(model, "history_length_", 1) > 1:
            row |= {"history_length": model.history_length_, "backoff": model.backoff_}
        if model.n_intentions < 2:
            return row
        found = self.alignment(model, test, shuffles=0)
        row |= {f"{mode}_enrichment": value for mode, value in found["matched"].items()}
        row |= {f"{event}_in_named": value for event, value in found["in_named"].items()}
        return {key: value for key, value in row.items() if np.isfinite(value)}

    def alignment(self, model: IntentionModel, demos: Demonstrations, *, shuffles: int) -> dict[str, Any]:
        """Alignment of the labels of some trajectories, with the names of the intentions and their arrivals."""
        arrival = self.arrival(model)
        names = None if arrival is None else name_intentions(arrival, ("water", "home"))
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
            return greedy_arrival(self.mdp, policies, self.targets)
        contexts = getattr(model, "contexts_", None)
        if contexts is None or policies.shape[1] != contexts.n_contexts:
            return None
        return greedy_arrival(augmented_mdp(self.mdp, contexts), policies, self.targets, contexts.current_state)

    def _steps(self, demos: Demonstrations) -> Any:
        assert demos.trajectory_names is not None
        windows = demos.trajectory_names.astype(np.int64)
        return np.concatenate([np.arange(self.offsets[i], self.offsets[i + 1]) for i in windows])


def load(settings: Labyrinth) -> Data:
    """Return the published windows; annotations where they are at hand."""
    demos = load_labyrinth()
    demos = replace(demos, trajectory_names=np.arange(len(demos)))
    kept = np.arange(len(demos))
    if settings.n_trajectories is not None:
        kept = np.sort(np.random.default_rng(0).permutation(len(demos))[: settings.n_trajectories])
        demos = replace(demos.subset(kept), trajectory_names=np.arange(len(kept)))
    states, actions = demos.states.astype(np.int64), demos.actions
    happened = {"water visit": states == WATER, "exit": (states == HOME) & (actions == 3)}
    try:
        notes = load_annotations().subset(kept)
    except InputError:  # no part of the public download: the rest of the experiment does not need it
        return Data(demos, labyrinth_mdp(), Events(happened, np.zeros(demos.n_steps, np.int64), ()))
    sure = notes.flat("water_conf") >= DELIVERY_CONFIDENCE
    happened["delivery"] = (notes.flat("water_delivered") > 0) & sure
    animals = replace(demos, groups=notes.mouse_names[notes.mouse]).subset(np.flatnonzero(~notes.mixed))
    return Data(demos, labyrinth_mdp(), Events(happened, notes.flat("mode"), MODES), animals)


def run(
    settings: Labyrinth,
    folder: Path,
    *,
    parts: Sequence[str] = PARTS,
    jobs: int = 1,
    on_fit: OnFit | None = None,
    data: Data | None = None,
    title: str = "Mouse labyrinth (paper §5.2)",
) -> dict[str, Any]:
    """Run some parts, then put everything that is there together: metrics.json, tables and figures.

    Finished fits are remembered in ``folder/cache`` and finished parts in ``folder/parts``, so that an interrupted run
    goes on where it stopped and parts can be run one by one.
    """
    from prism_irl.experiments.labyrinth import figures as labyrinth_figures
    from prism_irl.experiments.labyrinth import parts as labyrinth_parts

    check_parts(parts)
    data = load(settings) if data is None else data
    cache, done = folder / "cache", folder / "parts"
    for path in (cache, done):
        path.mkdir(parents=True, exist_ok=True)
    seconds = {}
    for part in parts:
        clock = time.perf_counter()
        result = labyrinth_parts.RUNNERS[part](settings, data, cache, jobs, on_fit)
        before = _saved(done, part, settings)
        spent = time.perf_counter() - clock + (0.0 if before is None else float(before.get("seconds", 0.0)))
        storage.write_json(
            done / f"{part}.json", {"quick": settings.quick, "result": result, "seconds": spent, "jobs": jobs}
        )
    found = {}
    for part in PARTS:
        if (saved := _saved(done, part, settings)) is not None:
            found[part] = saved["result"]
            seconds[part] = float(saved.get("seconds", 0.0))
    result = assemble(settings, data, found, title)
    result["seconds"] = seconds
    result["notes"].append(_time_note(seconds, jobs))
    storage.write_json(folder / "metrics.json", result)
    write_tables(folder, result)
    labyrinth_figures.write_all(folder / "figures", data, result, cache)
    return result


def _time_note(seconds: dict[str, float], jobs: int) -> str:
    each = ", ".join(f"{part} {value:.0f} s" for part, value in seconds.items())
    return (
        f"Time spent: {each}; {sum(seconds.values()) / 60:.0f} minutes in all, {jobs} fits at a time. A part that was "
        "resumed counts all of its runs."
    )


def _saved(folder: Path, part: str, settings: Labyrinth) -> dict[str, Any] | None:
    """What an earlier run left of a part; a quick part and a full one are not one experiment."""
    path = folder / f"{part}.json"
    saved: dict[str, Any] | None = storage.read_json(path) if path.is_file() else None
    return saved if saved is not None and saved["quick"] == settings.quick else None


def check_parts(parts: Sequence[str]) -> None:
    """Refuse parts that do not exist."""
    for part in parts:
        if part not in PARTS:
            raise InputError(f"The labyrinth has no part {part!r}; choose among {', '.join(PARTS)}.")
    if not parts:
        raise InputError(f"No part was named; choose among {', '.join(PARTS)}.")


def assemble(settings: Labyrinth, data: Data, found: dict[str, Any], title: str) -> dict[str, Any]:
    """One metrics.json from the parts that have run."""
    methods: dict[str, Any] = {}
    for part in ("paper", "honest"):
        methods |= found.get(part, {}).get("methods", {})
    if not methods:  # a run of the other parts alone: its table is theirs
        for part in ("frontier", "animals", "alignment"):
            methods |= found.get(part, {}).get("methods", {})
    return {
        "title": title,
        "experiment": "labyrinth",
        "quick": settings.quick,
        "folds": len(settings.tested_folds),
        "seeds": len(settings.seeds),
        "n_trajectories": len(data.demos),
        "n_steps": data.demos.n_steps,
        "parts": list(found),
        "notes": _notes(settings, data, found, methods),
        "methods": methods,
        "recommended": recommended(found),
        **{part: result for part, result in found.items() if part not in ("honest",)},
        **({"every_fifth": found["honest"]["every_fifth"]} if "honest" in found else {}),
    }


def recommended(found: dict[str, Any]) -> dict[str, Any]:
    """Best predictor (likeliest with a mean dwell of 10 or more) and best explanation (independent fits agree most)."""
    predictors = {
        name: entry["predictive_ll"]["mean"]
        for name, entry in found.get("honest", {}).get("methods", {}).items()
        if entry.get("mean_dwell") and entry["mean_dwell"]["mean"] >= 10 and _has_intentions(entry)
    }
    explanations = {
        name: entry["agreement"]
        for name, entry in found.get("alignment", {}).get("methods", {}).items()
        if entry["agreement"] is not None
    }
    return {
        "predictor": max(predictors, key=predictors.__getitem__) if predictors else None,
        "explanation": max(explanations, key=explanations.__getitem__) if explanations else None,
    }


def _has_intentions(entry: dict[str, Any]) -> bool:
    """Methods with several intentions were asked where exits fall."""
    return any(key.endswith(("_enrichment", "_in_named")) for key in entry)


def write_tables(folder: Path, result: dict[str, Any]) -> None:
    """One CSV file per table."""
    tables = folder / "tables"
    tables.mkdir(exist_ok=True)
    for name in ("methods", "animals", "alignment", "every_fifth", "frontier"):
        part = result.get(name, {})
        entries = part if name in ("methods", "every_fifth") else part.get("methods", {})
        if entries:
            flat = pd.json_normalize([{"method": key, **entry} for key, entry in entries.items()])
            storage.write_text(tables / f"{name}.csv", flat.to_csv(index=False))
    for name in ("num_latents", "model_type", "timing"):
        rows = result.get("paper", {}).get(name)
        if rows:
            storage.write_text(tables / f"{name}.csv", pd.DataFrame(rows).to_csv(index=False))


def _notes(settings: Labyrinth, data: Data, found: dict[str, Any], methods: dict[str, Any]) -> list[str]:
    notes = [
        f"{len(data.demos)} windows; {len(settings.tested_folds)} of {settings.folds} folds over shuffled windows, "
        f"{len(settings.seeds)} seed(s). History length, back-off, starts and stopping were chosen on validation "
        "windows inside each training fold.",
        "The paper's gate reads the action that it is scored on: its score is not a likelihood, rises with log K, and "
        "is shown for comparison with the paper's tables only. Predictive LL is the honest number of the same model.",
    ]
    if settings.quick:
        notes.insert(0, "A quick run: fewer windows, folds, starts and iterations than the paper's protocol.")
    if not data.events.mode_names:
        notes.append("Annotations are absent: there is no leave-one-animal-out and no enrichment of modes.")
    if "alignment" not in found:
        notes.append("The segmentation can be explored here once the part alignment has run: it fits to all windows.")
    if "animals" in found and found["animals"]["methods"]:
        best = max(found["animals"]["methods"].items(), key=lambda item: item[1]["predictive_ll"]["mean"])
        notes.append(
            f"On animals that a method has never seen ({found['animals']['n_animals']} of them, windows that splice "
            f"two animals left out), {best[1]['name']} predicts best: {best[1]['predictive_ll']['mean']:.3f}."
        )
    chosen = recommended(found)
    if chosen["predictor"] is not None:
        entry = methods[chosen["predictor"]]
        notes.append(
            f"Best predictor with intentions that last (mean dwell of at least 10): {entry['name']}, "
            f"{entry['predictive_ll']['mean']:.4f} at dwell {entry['mean_dwell']['mean']:.1f}."
        )
    if chosen["explanation"] is not None:
        entry = found["alignment"]["methods"][chosen["explanation"]]
        notes.append(
            f"Best explanation (independent fits agree most, {entry['agreement']:.2f}): {entry['name']}, whose maps "
            f"name its intentions {', '.join(entry['names'])}. Names follow from greedy paths alone: an intention is "
            "called after the target that its paths arrive at."
        )
    return notes
