"""Tables of the mouse labyrinth: the paper's protocol, the honest one, and what the intentions mean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from blocks import block, need, number, table

FAMILIES = (("hiql", "HIQL (Markov chain)"), ("prism", "PRISM, past gate"), ("prism-recurrent", "recurrent switching"))


def _ranked(methods: Mapping[str, Any], names: Iterable[str]) -> list[tuple[str, dict[str, Any]]]:
    found = [(name, methods[name]) for name in names if name in methods]
    return sorted(found, key=lambda item: -item[1]["predictive_ll"]["mean"])


def _dwell(entry: Mapping[str, Any]) -> str:
    return number(entry["mean_dwell"], 1) if entry["n_intentions"] > 1 else "–"


@block("labyrinth")
def labyrinth_paper(metrics: dict[str, Any]) -> str:
    """Tables num_latents and model_type, and figure (b) as numbers."""
    rows = []
    for row in need(metrics, "paper", "networks"):
        name = f"{row['network'].upper() if row['network'] != 'transformer' else 'Transformer'}, K={row['K']}"
        keys = ("reported_train", "reported_test", "paper_score_train")
        test = {"mean": row["paper_score_test"], "std": row["paper_score_test_std"]}
        cells = [*(number(row[key], 3) for key in keys), number(test, 3, spread=True)]
        rows.append([name, *cells, number(row["predictive_test"], 3), number(row["mean_dwell"], 1)])
    titles = [
        "network",
        "paper, train",
        "paper, test",
        "ours, train",
        "ours, test",
        "predictive LL, test",
        "mean dwell",
    ]
    return table(titles, rows)


@block("labyrinth")
def labyrinth_timing(metrics: dict[str, Any]) -> str:
    """Table timing beside the paper's."""
    own = need(metrics, "paper", "timing")[0]
    fits = metrics.get("published", {}).get("fits", [])
    mean = sum(fit["iterations"] for fit in fits) / len(fits) if fits else None
    columns = (
        ("E-step", "e_step", "reported_e_step"),
        ("rewards, per intention", "rewards_per_intention", "reported_rewards"),
        ("network, per intention", "network_per_intention", "reported_network"),
        ("iteration", "total", "reported_total"),
    )
    rows = [[name, f"{own[ours]:.2g} s", f"{own[paper]:.2f} s"] for name, ours, paper in columns]
    rows.append(
        ["iterations to convergence", "–" if mean is None else f"{mean:.0f}", f"about {own['reported_iterations']}"]
    )
    device = "GPU" if own["device"].startswith("cuda") else f"CPU, {own['threads']} threads"
    return table(["", f"ours, {device}", f"the paper's, {own['reported_device']}"], rows)


@block("labyrinth")
def labyrinth_histories(metrics: dict[str, Any]) -> str:
    """Every switching family with every history."""
    methods = need(metrics, "methods")
    rows = []
    for family, name in FAMILIES:
        for suffix, words in (("", "1"), *((f"-h{i}", str(i)) for i in range(2, 6)), ("-hauto", "chosen")):
            entry = methods.get(family + suffix)
            if entry is None:
                continue
            if suffix == "-hauto":
                words = f"chosen (mean {number(entry['history_length'], 1)})"
            scores = [number(entry["predictive_ll"], 4, spread=True), _dwell(entry), number(entry.get("agreement"), 2)]
            rows.append([name, words, *scores])
    need({"honest": rows}, "honest")
    return table(["switching", "history", "predictive LL", "mean dwell", "agreement of starts"], rows)


@block("labyrinth")
def labyrinth_others(metrics: dict[str, Any]) -> str:
    """Methods that are not one of the families."""
    methods = need(metrics, "methods")
    crossed = {family + suffix for family, _ in FAMILIES for suffix in ("", "-h2", "-h3", "-h4", "-h5", "-hauto")}
    names = [name for name, entry in methods.items() if name not in crossed and not entry["leaks"]]
    rows = []
    for name, entry in _ranked(methods, names):
        scores = [number(entry["predictive_ll"], 4, spread=True), _dwell(entry), number(entry.get("agreement"), 2)]
        rows.append([f"{entry['name']} (`{name}`)", *scores])
    need({"honest": rows}, "honest")
    return table(["method", "predictive LL", "mean dwell", "agreement of starts"], rows)


def _plain(entries: Mapping[str, Any]) -> str:
    rows = [
        [entry["name"], number(entry["predictive_ll"], 4, spread=True), _dwell(entry)]
        for _, entry in _ranked(entries, entries)
    ]
    return table(["method", "predictive LL", "mean dwell"], rows)


@block("labyrinth")
def labyrinth_fifth(metrics: dict[str, Any]) -> str:
    """SWIRL's own split."""
    return _plain(need(metrics, "every_fifth"))


@block("labyrinth")
def labyrinth_animals(metrics: dict[str, Any]) -> str:
    """Leave one animal out; spread is over animals and seeds."""
    return _plain(need(metrics, "animals", "methods"))


@block("labyrinth")
def labyrinth_frontier(metrics: dict[str, Any]) -> str:
    """Likelihood against dwell as penalties grow."""
    entries = sorted(need(metrics, "frontier", "methods").values(), key=lambda e: (e["family"], float(e["penalty"])))
    rows = [
        [e["family"], f"{e['penalty']:g}", number(e["predictive_ll"], 4), number(e["mean_dwell"], 1)] for e in entries
    ]
    return table(["family", "penalty", "predictive LL", "mean dwell"], rows)


@block("labyrinth")
def labyrinth_alignment(metrics: dict[str, Any]) -> str:
    """What the intentions of fits to all windows mean."""
    rows = []
    for name, entry in need(metrics, "alignment", "methods").items():
        cells = [number(entry["predictive_ll"], 4), number(entry["mean_dwell"], 1), number(entry["agreement"], 2)]
        cells += [_matched(entry, mode) for mode in ("drink", "leave", "explore")]
        cells += [number(entry["in_named"].get(event), 2) for event in ("delivery", "exit")]
        rows.append([f"{entry['name']} (`{name}`)", *cells, ", ".join(entry["names"] or ["–"])])
    titles = ["method", "LL on the same windows", "dwell", "agreement", "drink", "leave", "explore"]
    return table([*titles, "deliveries in water", "exits in home", "names from maps"], rows)


def _matched(entry: Mapping[str, Any], mode: str) -> str:
    """Enrichment beside that of shuffled labels."""
    own, control = entry["matched"].get(mode), entry["shuffled"]["matched"].get(mode)
    return "–" if own is None else number(own, 1) + ("" if control is None else f" ({number(control, 1)})")


@block("labyrinth")
def labyrinth_published(metrics: dict[str, Any]) -> str:
    """The paper's central claim: PRISM as published, several seeds."""
    rows = []
    for fit in need(metrics, "published", "fits"):
        cells = [number(fit[key], 3) for key in ("paper_score", "predictive_ll")]
        cells += [number(fit["mean_dwell"], 1), *(_matched(fit, mode) for mode in ("drink", "leave", "explore"))]
        cells += [number(fit["in_named"].get(event), 2) for event in ("delivery", "exit")]
        rows.append([str(fit["seed"]), *cells, ", ".join(fit["names"] or ["–"]), str(fit["iterations"])])
    titles = ["seed", "paper score", "predictive LL", "dwell", "drink", "leave", "explore", "deliveries in water"]
    agreement = ", ".join(number(value, 2) for value in metrics["published"]["ari"])
    return (
        table([*titles, "exits in home", "names from maps", "iterations to convergence"], rows)
        + f"\nAdjusted Rand index between the labellings of the seeds: {agreement}. Enrichments of shuffled labels "
        "stand in brackets."
    )


@block("labyrinth")
def labyrinth_swirl(metrics: dict[str, Any]) -> str:
    """SWIRL S-2 on its own split: published, and ours change by change."""
    found = need(metrics, "swirl", "methods")
    rows = [["the paper's number", number(metrics["swirl"]["reported"], 2), "–"]]
    for row in metrics["swirl"]["published"]:
        rows.append([row["name"], number(row["predictive_ll"], 4), number(row["swirl_score"], 4)])
    rows += [[entry["name"], number(entry["predictive_ll"], 4, spread=True), "–"] for entry in found.values()]
    return table(["SWIRL S-2, every fifth window is tested", "predictive LL", "without the first step"], rows)


@block("sizes")
def labyrinth_sizes(metrics: dict[str, Any]) -> str:
    """Both scores of the paper's RNN by its hidden units and layers."""
    keys = ("paper_score_train", "paper_score_test", "predictive_test")
    rows = [
        [str(row["hidden"]), str(row["layers"]), *(number(row[key], 3) for key in keys)]
        for row in need(metrics, "sizes", "rows")
    ]
    return table(["hidden units", "layers", "paper score, train", "test", "predictive LL, test"], rows)


@block("labyrinth")
def collapse(metrics: dict[str, Any]) -> str:
    """Which gates collapse to one intention under the paper's penalties."""
    found = need(metrics, "transformer", "rows")
    rows = []
    for row in found:
        scores = [number(row[key], 3) for key in ("paper_score_train", "paper_score_test")]
        words = {0.0: "none", 1.0: "the paper's"}.get(row["penalties"], f"{row['penalties']:g} of the paper's")
        rows.append([row["network"], str(row["epochs"]), words, str(row["iterations"]), *scores])
    single = metrics["transformer"]["one_intention"]
    return (
        table(["network", "epochs per M-step", "penalties", "EM iterations", "paper score, train", "test"], rows)
        + f"\nOne intention has {number(single['train'], 3)} and {number(single['test'], 3)}: a row at these numbers "
        "has collapsed."
    )
