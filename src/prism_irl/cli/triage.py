"""`prism triage`: the episodes of a robot dataset to watch before a policy is trained on them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from prism_irl.cli.options import CommonOptions, FittedOptions
from prism_irl.errors import InputError, one_line


def triage(
    dataset: Path,
    *,
    run: Path,
    out: Path | None = None,
    fitted: FittedOptions = FittedOptions(),
    overwrite: bool = False,
    common: CommonOptions = CommonOptions(),
) -> None:
    """List the episodes to watch, with reasons: what is unlike the other episodes under the phases of a fit.

    Unlikely commands, phases that are missing, repeated or over-long, and rests at the start or the end. For a LeRobot
    folder the command that would delete these episodes is printed; nothing is deleted.

    Example: prism triage LEROBOT_DATASET --run runs/arm --out triage.csv

    Parameters
    ----------
    dataset
        A robot dataset, or a table with the columns that the model was fitted on.
    run
        Folder of a fitted model.
    out
        A .csv file for the list: episode, reason, value, usual, z.
    overwrite
        Replace a file that is already there.
    """
    from prism_irl.cli.fitted import open_fitted
    from prism_irl.cli.printing import print_json, print_table
    from prism_irl.data.read import check_writable
    from prism_irl.evaluation import triage as study
    from prism_irl.evaluation.metrics import infer_once
    from prism_irl.report.names import FILE, read_names

    if out is not None:
        check_writable(out)
        if out.suffix.lower() != ".csv":
            raise InputError(f"The list is a .csv file, and {out} is none; write --out {out.with_suffix('.csv')}.")
        if out.exists() and not overwrite:
            raise InputError(f"{out} exists already; choose another --out or pass --overwrite.")
    model, data = open_fitted(run, dataset, fitted)
    demos, given = data.demonstrations, run / FILE
    K = model.n_intentions
    found = study.triage(
        infer_once(model, demos), demos, read_names(given, K) if given.is_file() else [str(k) for k in range(K)]
    )
    episodes = list(dict.fromkeys(one.episode for one in found))
    command = deleting(dataset, episodes) if episodes else None
    if out is not None:
        study.write(out, found)
    if common.json:
        rows = [one._asdict() for one in found]
        print_json({"n_episodes": len(demos), "episodes": episodes, "findings": rows, "delete": command})
        return
    title = f"{len(episodes)} of {len(demos)} episodes to watch"
    if found:
        columns = {"episode": ("episode", 0), "reason": ("reason", 0), "value": ("value", 2)}
        print_table(title, [one._asdict() for one in found], columns | {"usual": ("usual", 2), "robust z": ("z", 1)})
        print("Values are steps; of unlikely episodes nats per step, of repeated phases how often they come.")
    else:
        print(f"{title}: none is unlike the others.")
    if command is not None:
        print(f"Watch them first; this would leave them out of a copy, and number the others anew:\n{command}")
    if out is not None:
        print(one_line(f"List: {out}"))


def deleting(dataset: Path, episodes: Sequence[str]) -> str | None:
    """The command of LeRobot that writes a copy without the episodes; None of what is no LeRobot folder."""
    if not (dataset / "meta" / "info.json").is_file() or not all(name.isdecimal() for name in episodes):
        return None
    root = dataset.absolute()
    kept = root.with_name(f"{root.name}_kept")
    words = ["lerobot-edit-dataset", "--repo_id", f"local/{root.name}", "--root", str(root)]
    words += ["--new_repo_id", f"local/{kept.name}", "--new_root", str(kept), "--operation.type", "delete_episodes"]
    return shlex.join([*words, "--operation.episode_indices", f"[{', '.join(sorted(episodes, key=int))}]"])
