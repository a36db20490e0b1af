"""Tables of the experiment on continuous worlds."""

from __future__ import annotations

from typing import Any

from blocks import MissingPartError, block, need, number, table

MAZE_KEYS = (
    ("label_accuracy", 3),
    ("ari", 3),
    ("predictive_ll", 3),
    ("goal_distance", 2),
    ("transfer", 2),
    ("halves_agreement", 2),
)
MAZE_TITLES = (
    "method",
    "steps with the true goal",
    "ARI",
    "log density",
    "worst goal, cells",
    "return behind moved walls",
    "halves agree",
)
SQUARE_KEYS = (("predictive_ll", 3), ("goal_distance", 2), ("halves_agreement", 2))
SURGERY = ("knot_tying", "suturing")
ROBOT_KEYS = ("label_accuracy", "ari", "predictive_ll")
CHOSEN = {"told-decided": "EM or not", "told-chosen": "with EM", "told-chosen-alone": "labels alone"}
"""Rows of surgery whose windows the labelled trials choose, the one that decides everything inside first."""
DECIDED = "told-decided"
NEVER_SEEN = ("06", "07", "08", "09")
"""Surgeons whose labels had no part in what there is to choose from."""


@block("continuous")
def continuous_squares(metrics: dict[str, Any]) -> str:
    """Label accuracy with two to five goals in a square; what else there is of the largest."""
    found = {name: methods for name, methods in need(metrics, "data").items() if name.startswith("square")}
    if not found:
        raise MissingPartError("the squares")
    last, sizes = list(found.values())[-1], [name.removeprefix("square-") for name in found]
    rows = [
        [
            entry["name"],
            *(number(methods[key]["label_accuracy"], 3, spread=True) for methods in found.values()),
            *(number(entry.get(measure), digits, spread=True) for measure, digits in SQUARE_KEYS),
        ]
        for key, entry in last.items()
    ]
    more = [f"{title}, {sizes[-1]} goals" for title in ("log density", "worst goal", "halves agree")]
    return table(["method", *(f"{size} goals" for size in sizes), *more], rows)


@block("continuous")
def continuous_mazes(metrics: dict[str, Any]) -> str:
    """The walled maze at each noise."""
    parts = []
    for name, methods in need(metrics, "data").items():
        if name.startswith("maze"):
            rows = [
                [entry["name"], *(number(entry.get(key), digits, spread=True) for key, digits in MAZE_KEYS)]
                for entry in methods.values()
            ]
            parts.append(f"Noise {name.removeprefix('maze-')} of a step of 0.2:\n\n" + table(list(MAZE_TITLES), rows))
    if not parts:
        raise MissingPartError("the mazes")
    return "\n\n".join(parts)


@block("continuous")
def surgery_labels(metrics: dict[str, Any]) -> str:
    """Both tasks of surgery, with and without labelled trials; ± over seeds, or over the surgeons left out."""
    data = need(metrics, "data")
    if not all(task in data for task in SURGERY):
        raise MissingPartError("surgery")
    rows = []
    for key, entry in data[SURGERY[0]].items():
        both = [data[task][key] for task in SURGERY]
        cells = [number(one.get(measure), 2, spread=True) for one in both for measure in ROBOT_KEYS]
        rows.append([entry["name"], *cells])
    return table(["method", "knot tying", "ARI", "new surgeons", "suturing", "ARI", "new surgeons"], rows)


@block("continuous")
def pick_and_place_labels(metrics: dict[str, Any]) -> str:
    """Simulated pick-and-place, from what a real arm measures."""
    found = {name: methods for name, methods in need(metrics, "data").items() if name.startswith("pick-and-place")}
    if not found:
        raise MissingPartError("pick-and-place (needs the extra sim)")
    parts = []
    for methods in found.values():
        keys = (*ROBOT_KEYS, "other_ll")
        rows = [[entry["name"], *(number(entry.get(measure), 2) for measure in keys)] for entry in methods.values()]
        titles = ("steps with the true phase", "ARI", "log density of new commands", "of new grippers")
        parts.append(table(["method", *titles], rows))
    return "\n\n".join(parts)


@block("continuous")
def surgery_surgeons(metrics: dict[str, Any]) -> str:
    """Accuracy for every surgeon left out, and its mean over those that no development has seen."""
    data = need(metrics, "data")
    if not all(key in data.get(task, {}) for task in SURGERY for key in CHOSEN):
        raise MissingPartError("the labelled trials of surgery")
    rows = []
    for key, kind in CHOSEN.items():
        for task in SURGERY:
            entry = data[task][key]
            found = entry["surgeons"]
            new = [found[surgeon] for surgeon in NEVER_SEEN]
            cells = [number(value, 2) for _, value in sorted(found.items())]
            rows.append([f"{task.replace('_', ' ')}, {kind}", *cells, number(sum(new) / len(new), 2)])
    names = [str(int(name)) for name in sorted(data[SURGERY[0]][DECIDED]["surgeons"])]
    return table(["surgeon", *names, f"mean of {int(NEVER_SEEN[0])} to {int(NEVER_SEEN[-1])}"], rows)


@block("continuous")
def surgery_confusion(metrics: dict[str, Any]) -> str:
    """What the best chain with labelled trials says, per true gesture, in percent of its steps."""
    data = need(metrics, "data")
    if not all(DECIDED in data.get(task, {}) for task in SURGERY):
        raise MissingPartError("the labelled trials of surgery")
    parts = []
    for task in SURGERY:
        entry = data[task][DECIDED]
        names = entry["gestures"]
        rows, wrong = [], []
        for name, counts in zip(names, entry["confusion"], strict=True):
            total = sum(counts)
            if total:
                rows.append([name, str(total), *(str(round(100 * count / total)) for count in counts)])
                wrong += [(count, name, said, total) for said, count in zip(names, counts, strict=True) if said != name]
        parts.append(table([task.replace("_", " "), "steps", *names], rows))
        errors = sum(count for count, *_ in wrong)
        most = [
            f"{name} as {said} ({round(100 * count / errors)}% of the errors, {round(100 * count / total)}% of {name})"
            for count, name, said, total in sorted(wrong, reverse=True)[:3]
        ]
        parts.append(f"Most of what is wrong in {task.replace('_', ' ')}: {'; '.join(most)}.")
    return "\n\n".join(parts)
