"""Robots: `prism tokenize`, a dataset in and demonstrations out, and `prism triage`, the episodes to watch."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cyclopts import Parameter

from prism_irl import limits, storage
from prism_irl.cli.options import CommonOptions, FittedOptions, Overwrite
from prism_irl.cli.runs import RunFolder
from prism_irl.errors import InputError, brief, one_line

if TYPE_CHECKING:
    from prism_irl.data.demonstrations import Demonstrations
    from prism_irl.robots.episodes import EpisodeSource
    from prism_irl.robots.vision.encoders import Encoder
    from prism_irl.robots.vision.tokenizer import Tokenizer


@Parameter(name="*")
@dataclass(frozen=True)
class TokenizeOptions:
    """What becomes of frames and commands."""

    encoder: str = "pixels"
    """pixels or proprio (no weights needed), dinov2-small, dinov2-base, dinov2-large, siglip2-base, a local folder
    or a hub id."""
    camera: str | None = None
    "Which camera to read [default: the first]."
    states: int = 2048
    "Number of state tokens."
    actions: int = 32
    "Number of action tokens."
    action_scaling: Literal["standardised", "none"] = "standardised"
    "standardised: every dimension of the action counts alike; none: raw, as in the paper."
    gripper: str = "auto"
    "Dimension of the action that is open or closed, such as -1; auto finds it, none has none."
    keep_still_start: bool = False
    "Keep a first step that commands no motion, as BridgeData's episodes begin."
    observations: Literal["none", "proprio"] = "none"
    "proprio keeps the recorded states beside the tokens."
    split: str | None = None
    "Split of TFRecord shards (RLDS), or all of them [default: train, where there are several]."
    strict: bool = False
    "Stop at a damaged episode instead of leaving it out with a warning."
    batch_size: int = 64
    "Frames per pass of the encoder."
    device: str = "auto"
    "Where the encoder runs: auto, cpu or cuda."
    seed: int = 0
    "Of the clustering."
    like: Path | None = None
    """Results of an earlier tokenize: use its encoder and codebooks, so that a model fitted there can segment this
    dataset; the options of the codebooks do not apply then."""


def tokenize(dataset: Path, *, folder: RunFolder, options: TokenizeOptions = TokenizeOptions()) -> None:
    """Turn robot demonstrations into tokens that can be fitted: frames to states, commands to actions.

    Example: prism tokenize bridge_lerobot --encoder dinov2-small --states 2048 --actions 32 --out tokens

    Parameters
    ----------
    dataset
        Folder of a LeRobot dataset (v2.x, v3.0), or of TFRecord shards (RLDS).
    folder.out
        Folder of the results: demonstrations.npz for prism fit, mdp.safetensors, tokenizer, metrics.json.
    folder.resume
        Go on with an interrupted run; frames that are encoded are not encoded again.
    """
    from prism_irl.cli.progress import plain_warnings
    from prism_irl.robots import continuous
    from prism_irl.robots.episodes import open_episodes
    from prism_irl.robots.vision.encoders import make_encoder
    from prism_irl.robots.vision.tokenizer import Tokenizer

    for name in ("states", "actions", "batch_size", "seed"):
        limits.check_option(name, getattr(options, name, None))
    source = open_episodes(dataset, split=options.split, strict=options.strict)
    encoder = make_encoder(options.encoder, camera=options.camera, batch_size=options.batch_size, device=options.device)
    grippers: dict[str, Literal["auto"] | None] = {"auto": "auto", "none": None}
    if options.gripper not in grippers and re.fullmatch(r"-?[0-9]+", options.gripper) is None:
        raise InputError(f"The gripper is {options.gripper!r}; give a dimension such as -1, auto or none.")
    if options.like is not None:
        tokenizer = Tokenizer.load(options.like / "tokenizer")
    else:
        tokenizer = Tokenizer(
            options.states,
            options.actions,
            action_scaling=options.action_scaling,
            gripper=grippers[options.gripper] if options.gripper in grippers else int(options.gripper),
            drop_still_start=not options.keep_still_start,
            seed=options.seed,
        )
    config = {
        "dataset": source.describe(),
        "source": continuous.place(dataset, folder.out),  # where a report finds the frames again
        "options": vars(options),
    }

    def work(path: Path, _: None) -> dict[str, Any]:
        demos, metrics = encode_and_count(source, encoder, tokenizer, options, path)
        config["data"] = {"sha256": demos.checksum()}
        return metrics

    folder.make(
        work,
        lambda metrics: show(metrics, folder.out),
        progress=plain_warnings,
        config=config,
        report=False,
    )


def encode_and_count(
    source: EpisodeSource, encoder: Encoder, tokenizer: Tokenizer, asked: TokenizeOptions, folder: Path
) -> tuple[Demonstrations, dict[str, Any]]:
    """Encode, cluster and count; leaves demonstrations, dynamics, tokenizer and metrics in the folder."""
    import numpy as np

    from prism_irl.cli.progress import counting
    from prism_irl.data.read import write_npz
    from prism_irl.mdp import MDP
    from prism_irl.robots.continuous import TOKENIZE
    from prism_irl.robots.vision.embeddings import embed
    from prism_irl.robots.vision.tokenizer import demonstrations, fit_tokenizer, granularity

    with counting("frames") as report:
        cache = embed(
            source,
            encoder,
            folder / "cache",
            like=None if asked.like is None else asked.like / "cache",
            on_episode=lambda done, total, frames: report("episodes", done, total, f"{frames} frames"),
        )
    if asked.like is None:
        with counting("rows") as report:
            fit_tokenizer(cache, tokenizer, on_progress=lambda what, done, n: report(what, done, n, ""))
    demos = demonstrations(cache, tokenizer, observations=asked.observations)
    mdp = MDP.from_demonstrations(demos)
    tokenizer.save(folder / "tokenizer")
    storage.save_tensors(folder / "mdp.safetensors", mdp.state(), {"n_states": mdp.n_states, "discount": mdp.discount})
    write_npz(demos, folder / "demonstrations.npz", made_by=TOKENIZE)
    metrics = {
        "n_episodes": demos.n_trajectories,
        "n_steps": demos.n_steps,
        "skipped": [{"episode": entry.name, "reason": entry.reason} for entry in cache.skipped],
        "n_states": demos.n_states,
        "n_actions": demos.n_actions,
        "states_used": len(np.unique(demos.states)),
        "actions_used": len(np.unique(demos.actions)),
        "inertia": tokenizer.inertia_,
        "gripper": tokenizer.gripper_,
        "granularity": granularity(demos),
    }
    storage.write_json(folder / "metrics.json", metrics)
    return demos, metrics


def show(metrics: dict[str, Any], out: Path) -> None:
    """Print what was made, in a few lines."""
    left_out = len(metrics["skipped"])
    print(
        f"{metrics['n_episodes']} episodes, {metrics['n_steps']} steps"
        + (f"; {left_out} damaged episode{'s' if left_out > 1 else ''} left out" if left_out else "")
    )
    for what in ("states", "actions"):
        print(f"{what:<8} {metrics[f'{what}_used']} of {metrics[f'n_{what}']} tokens used")
    for name, found in metrics["granularity"].items():
        print(f"{name:<11} {found['mean']:.2f} ± {found['std']:.2f}" + ("" if name == "revisits" else " %"))
    print(one_line(f"Demonstrations: {out / 'demonstrations.npz'}"))


HUB_ID = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")
READERS = {"fit": 0, "select": 0, "triage": 0, "tokenize": 0, "segment": 1, "score": 1}
"""Verbs that read recordings, with how many words stand before these."""


def with_local_copies(arguments: list[str]) -> list[str]:
    """The arguments with the folders of recordings in the place of their ids on the Hugging Face Hub."""
    if not arguments or arguments[0] not in READERS:
        return arguments
    found, before = list(arguments), READERS[arguments[0]]
    for i, (flag, word) in enumerate(pairwise(arguments), start=1):
        if flag.startswith("--") and "=" not in flag and flag != "--write-back":
            continue
        if not flag.startswith("--") and not word.startswith("-") and before > 0:
            before -= 1
            continue
        if HUB_ID.fullmatch(word) and not Path(word).exists() and not Path(word).parent.exists():
            found[i] = str(hub_folder(word, videos=any("images" in other for other in arguments)))
    return found


def hub_folder(name: str, *, videos: bool = True) -> Path:
    """Folder of a dataset of the Hub: the copy that LeRobot or the Hub's library keeps, or else a download."""
    cache = Path(os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface")
    lerobot = Path(os.environ.get("HF_LEROBOT_HOME") or cache / "lerobot").expanduser()
    hub = Path(os.environ.get("HF_HUB_CACHE") or cache / "hub").expanduser()
    stored = [folder / f"datasets--{name.replace('/', '--')}" for folder in (lerobot / "hub", hub)]
    copies = [lerobot / name]
    for folder in stored:
        main = folder / "refs" / "main"
        newest = sorted((folder / "snapshots").glob("*"), key=lambda path: path.stat().st_mtime, reverse=True)
        copies += [folder / "snapshots" / main.read_text(encoding="utf-8").strip()] if main.is_file() else []
        copies += newest
    for copy in copies:
        if (copy / "meta" / "info.json").is_file():
            return copy
    missing = f"There is no file or folder {name}, and no copy of a dataset of that name in {lerobot} or {hub}"
    try:
        download = import_module("huggingface_hub").snapshot_download
        kept = download(name, repo_type="dataset", ignore_patterns=None if videos else ["videos/*"])
    except ImportError:
        raise InputError(f"{missing}; with the extra robots it would be downloaded.") from None
    except Exception as error:  # of the network, of the Hub, or of a name that it does not have
        raise InputError(f"{missing}, and it cannot be downloaded ({brief(error)}).") from None
    return Path(kept)


def triage(
    dataset: Path,
    *,
    run: Path,
    out: Path | None = None,
    fitted: FittedOptions = FittedOptions(),
    overwrite: Overwrite = False,
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
    """
    from prism_irl.cli.fitted import open_fitted
    from prism_irl.cli.printing import print_json, print_table
    from prism_irl.data.files import check_writable
    from prism_irl.evaluation import triage as study
    from prism_irl.evaluation.metrics import infer_once
    from prism_irl.report.names import names_in

    if out is not None:
        check_writable(out)
        if out.suffix.lower() != ".csv":
            raise InputError(f"The list is a .csv file, and {out} is none; write --out {out.with_suffix('.csv')}.")
        if out.exists() and not overwrite:
            raise InputError(f"{out} exists already; choose another --out or pass --overwrite.")
    model, data = open_fitted(run, dataset, fitted)
    demos, K = data.demonstrations, model.n_intentions
    found = study.triage(infer_once(model, demos), demos, names_in(run, K) or [str(k) for k in range(K)])
    episodes = list(dict.fromkeys(one.episode for one in found))
    command = None
    if episodes and (dataset / "meta" / "info.json").is_file() and all(name.isdecimal() for name in episodes):
        root = dataset.absolute()
        kept = root.with_name(f"{root.name}_kept")
        words = ["lerobot-edit-dataset", "--repo_id", f"local/{root.name}", "--root", str(root)]
        words += ["--new_repo_id", f"local/{kept.name}", "--new_root", str(kept), "--operation.type", "delete_episodes"]
        which = f"[{', '.join(sorted(episodes, key=int))}]"
        command = shlex.join([*words, "--operation.episode_indices", which])
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
