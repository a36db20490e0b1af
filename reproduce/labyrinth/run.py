"""The mouse labyrinth (paper §5.2, appendix D): the paper's tables as the paper computes them, and an honest answer.

Nine parts, each of which can run alone and remembers its fits: *paper* (tables num_latents, model_type and timing),
*honest* (every method by predictive likelihood, dwell, agreement and alignment), *frontier* (likelihood against dwell,
by sweeping the penalties), *animals* (leave one animal out), *alignment* (what the intentions mean, against shuffled
labels, with fits to all data), *published* (the paper's own model with several seeds: what it claims), *swirl* (what
our SWIRL does differently), *transformer* (why the paper's has collapsed) and *sizes* (whether the paper's RNN
saturates). Parts that have run are put together into metrics.json, tables and figures.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labyrinth.data import PARTS, Data, Labyrinth, check_parts, load
from prism_irl import storage
from prism_irl.cli.options import FitsOptions
from prism_irl.cli.printing import console, print_experiment, print_table
from prism_irl.cli.progress import fits_progress
from prism_irl.cli.runs import RunFolder
from prism_irl.studies import results
from prism_irl.studies.cross_validation import OnFit

if TYPE_CHECKING:
    from labyrinth.parts import Runner


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
    from labyrinth import claims, transformer
    from labyrinth import figures as labyrinth_figures
    from labyrinth import parts as labyrinth_parts

    check_parts(parts)
    data = load(settings) if data is None else data
    cache, done = folder / "cache", folder / "parts"
    for path in (cache, done):
        path.mkdir(parents=True, exist_ok=True)
    work = labyrinth_parts.Work(cache, jobs, on_fit)
    for part in parts:
        clock = time.perf_counter()
        room = {"published": claims, "swirl": claims, "transformer": transformer, "sizes": transformer}.get(
            part, labyrinth_parts
        )
        runner: Runner = getattr(room, part)
        result = runner(settings, data, work)
        before = _saved(done, part, settings)
        spent = time.perf_counter() - clock + (0.0 if before is None else float(before.get("seconds", 0.0)))
        storage.write_json(
            done / f"{part}.json", {"quick": settings.quick, "result": result, "seconds": spent, "jobs": jobs}
        )
    saved = {part: own for part in PARTS if (own := _saved(done, part, settings)) is not None}
    seconds = {part: float(own.get("seconds", 0.0)) for part, own in saved.items()}
    result = assemble(settings, data, {part: own["result"] for part, own in saved.items()}, title)
    result["seconds"] = seconds
    each = ", ".join(f"{part} {value:.0f} s" for part, value in seconds.items())
    result["notes"].append(
        f"Time spent: {each}; {sum(seconds.values()) / 60:.0f} minutes in all, {jobs} fits at a time. A part that was "
        "resumed counts all of its runs."
    )
    storage.write_json(folder / "metrics.json", result)
    write_tables(folder, result)
    labyrinth_figures.write_all(folder / "figures", data, result, cache)
    return result


def _saved(folder: Path, part: str, settings: Labyrinth) -> dict[str, Any] | None:
    """What an earlier run left of a part; a quick part and a full one are not one experiment."""
    path = folder / f"{part}.json"
    saved: dict[str, Any] | None = storage.read_json(path) if path.is_file() else None
    return saved if saved is not None and saved["quick"] == settings.quick else None


def assemble(settings: Labyrinth, data: Data, found: dict[str, Any], title: str) -> dict[str, Any]:
    """One metrics.json from the parts that have run."""
    methods: dict[str, Any] = {}
    for part in ("paper", "honest"):
        methods |= found.get(part, {}).get("methods", {})
    if not methods:  # a run of the other parts alone: its table is theirs
        for part in ("frontier", "animals", "alignment", "swirl"):
            methods |= found.get(part, {}).get("methods", {})
    counts = {"folds": len(settings.tested_folds), "seeds": len(settings.seeds)}
    if not set(found) - {"transformer", "sizes"}:  # which have one fold and one start
        counts = {"folds": 1, "seeds": 1}
    return {
        **results.heading(title, data.demos, experiment="labyrinth", quick=settings.quick, **counts),
        "parts": list(found),
        "notes": _notes(settings, data, found, methods),
        "methods": methods,
        "recommended": recommended(found),
        **{part: result for part, result in found.items() if part not in ("honest",)},
        **({"every_fifth": found["honest"]["every_fifth"]} if "honest" in found else {}),
    }


def recommended(found: dict[str, Any]) -> dict[str, Any]:
    """Best predictor (likeliest with a mean dwell of 10 or more), and the method on which searches agree most."""
    predictors = {
        name: entry["predictive_ll"]["mean"]
        for name, entry in found.get("honest", {}).get("methods", {}).items()
        if entry.get("mean_dwell")
        and entry["mean_dwell"]["mean"] >= 10
        # Methods with several intentions were asked where exits fall.
        and any(key.endswith(("_enrichment", "_in_named")) for key in entry)
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


def write_tables(folder: Path, result: dict[str, Any]) -> None:
    """One CSV file per table."""
    tables = folder / "tables"
    tables.mkdir(exist_ok=True)
    for name in ("methods", "animals", "alignment", "every_fifth", "frontier", "swirl"):
        part = result.get(name, {})
        entries = part if name in ("methods", "every_fifth") else part.get("methods", {})
        if entries:
            results.write_methods(tables / f"{name}.csv", entries)
    for name in ("num_latents", "model_type", "networks", "timing", "published"):
        rows = result.get("published", {}).get("fits") if name == "published" else result.get("paper", {}).get(name)
        if rows:
            results.write_rows(tables / f"{name}.csv", rows)


def _notes(settings: Labyrinth, data: Data, found: dict[str, Any], methods: dict[str, Any]) -> list[str]:
    notes = [
        f"{len(data.demos)} windows; {len(settings.tested_folds)} of {settings.folds} folds over shuffled windows, "
        f"{len(settings.seeds)} seed(s). History length, back-off, starts and stopping were chosen on validation "
        "windows inside each training fold; exact EM (no history) stops by the windows that it was trained on.",
        "The paper's gate reads the action that it is scored on: its score is not a likelihood, can rise with K by up "
        "to log min(K, A), and is shown for comparison with the paper's tables only. Predictive LL is the honest "
        "number of the same model.",
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
            f"Searches on the same windows agree most on {entry['name']} ({entry['agreement']:.2f}), whose maps name "
            f"its intentions {', '.join(entry['names'])}. Names follow from greedy paths alone: an intention is called "
            "after the target that its paths arrive at. Windows simulated from a habit give such agreement and such "
            "names, too; whether there are intentions is for prism evidence labyrinth to say."
        )
    return notes


def command(folder: RunFolder, fits: FitsOptions, *, quick: bool, parts: str | None = None) -> None:
    """`prism reproduce labyrinth`."""
    settings = Labyrinth.small() if quick else Labyrinth()
    chosen = PARTS if parts is None else tuple(part.strip() for part in parts.split(",") if part.strip())
    check_parts(chosen)
    data = load(settings)  # says what to fetch before anything is written

    def work(path: Path, on_fit: OnFit) -> dict[str, Any]:
        return run(settings, path, parts=chosen, jobs=fits.jobs, on_fit=on_fit, data=data)

    config = {"data": {"sha256": data.demos.checksum()}, "settings": asdict(settings)}
    folder.make(work, print_labyrinth, progress=fits_progress, config=config)


def print_labyrinth(metrics: dict[str, Any]) -> None:
    """Every table of the experiment."""
    print_experiment(metrics)
    print_paper_tables(metrics)
    print_alignment(metrics)


def print_paper_tables(metrics: dict[str, Any]) -> None:
    """Tables num_latents, model_type and timing, with the paper's numbers beside ours."""
    paper = metrics.get("paper", {})
    columns = {
        "ours": ("paper_score_test", 3),
        "paper": ("reported_test", 3),
        "ours, train": ("paper_score_train", 3),
        "paper, train": ("reported_train", 3),
        "predictive LL": ("predictive_test", 3),
        "mean dwell": ("mean_dwell", 1),
    }
    for name, first in (("num_latents", "K"), ("model_type", "network")):
        if paper.get(name):
            title = f"Table {name}: test score as in the paper (not a likelihood)"
            print_table(title, paper[name], {first: (first, 0), **columns}, 140)
    for row in paper.get("timing", []):
        console(140).print(
            f"Seconds per EM iteration on {row['device']} (paper, {row['reported_device']}): "
            f"E-step {row['e_step']:.4f} ({row['reported_e_step']}), "
            f"rewards per intention {row['rewards_per_intention']:.6f} ({row['reported_rewards']}), "
            f"network per intention {row['network_per_intention']:.3f} ({row['reported_network']}), "
            f"total {row['total']:.3f} ({row['reported_total']})."
        )


def print_alignment(metrics: dict[str, Any]) -> None:
    """What the intentions mean: names from the maps, enrichment against shuffled labels, agreement."""
    rows = []
    modes: list[str] = []
    for entry in metrics.get("alignment", {}).get("methods", {}).values():
        modes, shuffled = list(entry["matched"]), entry["shuffled"]
        named = (f"{event} {_beside(v, shuffled['in_named'][event])}" for event, v in entry["in_named"].items())
        cells = {mode: _beside(value, shuffled["matched"][mode]) for mode, value in entry["matched"].items()}
        names = None if entry["names"] is None else ", ".join(entry["names"])
        rows.append(entry | cells | {"in_named": ", ".join(named), "names": names})
    if rows:
        columns = {"method": ("name", 0), "agreement": ("agreement", 2), **{mode: (mode, 0) for mode in modes}}
        columns |= {"in the named intention": ("in_named", 0), "names": ("names", 0)}
        print_table("Alignment of fits to all data (shuffled labels in brackets)", rows, columns, 140)


def _beside(value: float | None, control: float | None) -> str:
    return "–" if value is None else f"{value:.2f}" + ("" if control is None else f" ({control:.2f})")
