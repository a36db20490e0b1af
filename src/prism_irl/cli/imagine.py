"""`prism imagine`: what the agents of a fit would do in a world that has changed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from prism_irl import limits
from prism_irl.cli.options import CommonOptions
from prism_irl.errors import InputError, one_line

if TYPE_CHECKING:
    from prism_irl.cli.fitted import RunData
    from prism_irl.mdp import MDP


def imagine(
    run: Path,
    *,
    block: str | None = None,
    dynamics: Path | None = None,
    without: str | None = None,
    unaware: bool = False,
    intervals: int = 0,
    simulations: int = 100,
    name: str | None = None,
    jobs: int = 2,
    seed: int = 0,
    method: str | None = None,
    overwrite: bool = False,
    common: CommonOptions = CommonOptions(),
) -> None:
    """Predict where time would be spent if a door were closed, the world changed, or an intention were missing.

    Agents know of the change and plan anew, for which rewards must be on states (--rewards soft-1 or goals); with
    --unaware they act as before, and any fit will do. Table and figure are left in the run folder.

    Example: prism imagine runs/mouse --block 12,17 --intervals 200

    Example: prism imagine runs/mouse --dynamics moved.csv --unaware

    Example: prism imagine runs/mouse --without "seek water"

    Parameters
    ----------
    run
        Folder of a prism fit.
    block
        States that cannot be entered any more, with commas between; who tries stays where he is.
    dynamics
        The changed world instead: a table with state, action, next_state and probability, or an npz file with one
        array (states, actions, states), as prism fit takes it.
    without
        An intention that nobody has: its number, or its name where prism names gave it one.
    unaware
        The agents do not know of the change: only where their actions lead is different.
    intervals
        Resamples of the animals that the model is fitted to again, so that intervals count how sure the fit is; 0
        keeps the fit as it is.
    simulations
        Simulations of the fit where there are no resamples.
    name
        Of the answer's files [default: made of the change].
    jobs
        Simulations, or resamples, at the same time.
    seed
        Of the simulations and resamples.
    method
        MODULE:CLASS of the model, where it is not one of this package.
    overwrite
        Replace an earlier answer of the same name.
    """
    if block is None and dynamics is None and without is None:
        raise InputError("What is different? Give --block STATES, --dynamics FILE or --without INTENTION.")
    if name is not None and not name.strip():
        raise InputError("--name is empty; give the answer a name, or leave it out.")
    if simulations < 20 and not intervals:
        raise InputError(f"--simulations is {simulations}; an interval needs 20 or more.")
    from prism_irl import storage
    from prism_irl.cli.fitted import open_run_data
    from prism_irl.cli.printing import print_json
    from prism_irl.cli.progress import counting
    from prism_irl.cli.report import write_again
    from prism_irl.cli.runs import adding
    from prism_irl.models.intentions import Intentions
    from prism_irl.report.explorer import read_explorer
    from prism_irl.report.verdict import doubts
    from prism_irl.studies import imagine as study
    from prism_irl.studies.imagine import check_new, imagined_path, in_words, write_imagined
    from prism_irl.studies.intervals import check_intervals

    given = {"intervals": intervals, "simulations": simulations, "jobs": jobs, "seed": seed}
    for option, value in given.items():
        limits.check_option(option, value)
    data = open_run_data(run, method)
    check_intervals(intervals, data.model, data.demos)
    if not isinstance(data.model, Intentions):
        raise InputError(f"{type(data.model).__name__} is no pair of switching and rewards; fit one with prism fit.")
    shut = [] if block is None else _states(block, data)
    missing = None if without is None else _intention(without, data)
    change = study.Change(_world(data, dynamics, shut), missing, not unaware)
    label = name or _label(block, dynamics, without, unaware=unaware)
    check_new(run, label, overwrite=overwrite)
    with counting("simulations") as report:
        found = study.imagine(
            data.model,
            data.demos,
            change,
            closed=shut,
            simulations=simulations,
            resamples=intervals,
            seed=seed,
            jobs=jobs,
            on_part=lambda done, total: report("simulations", done, total, ""),
        )
    states = data.table.states.names or tuple(f"state {s}" for s in range(data.demos.n_states))
    words = in_words(found, _what(block, dynamics, missing, data), states, data.names)
    known = doubts(storage.read_object(run / "metrics.json"))
    found |= {"name": label, "in_words": " ".join([words, *(finding.text for finding in known)])}
    layout = (read_explorer(run) or {}).get("layout")
    with adding(run):
        write_imagined(run, label, found, states=states, names=data.names, layout=layout)
        write_again(run)
    if common.json:
        print_json(found)
        return
    print(found["in_words"])
    print(one_line(f"Table: {imagined_path(run, label).with_suffix('.csv')}; figure in {run / 'report.html'}"))


def _states(block: str, data: RunData) -> list[int]:
    """Ids of the states of --block."""
    words = [word.strip() for word in block.split(",") if word.strip()]
    known = data.table.states
    if not words:
        raise InputError("--block names no state; give some, with commas between.")
    ids = {str(s): s for s in range(known.size)} if known.names is None else {n: s for s, n in enumerate(known.names)}
    for word in words:
        if word not in ids:
            there = f"0 to {known.size - 1}" if known.names is None else ", ".join(known.names[:10])
            raise InputError(f"--block has {word!r}, which is no state of the fit; there are {there}.")
    return [ids[word] for word in words]


def _intention(without: str, data: RunData) -> int:
    """Number of the intention of --without."""
    if without in data.names:
        return data.names.index(without)
    numbers = [str(k) for k in range(len(data.names))]
    if without in numbers:
        return numbers.index(without)
    there = ", ".join(f"{k} ({name})" for k, name in enumerate(data.names))
    raise InputError(f"There is no intention {without!r}; there are {there}.")


def _world(data: RunData, dynamics: Path | None, shut: list[int]) -> MDP | None:
    """The changed world; None where only an intention is missing."""
    from prism_irl.data.geography import read_dynamics_file
    from prism_irl.mdp import MDP

    own: Any = getattr(data.model, "mdp_", None)
    if own is None or (dynamics is None and not shut):
        return None
    world: MDP = own
    if dynamics is not None:
        found = read_dynamics_file(dynamics, data.table.states, data.table.actions)
        world = MDP(found.transitions, own.discount, found.valid_actions)
    return world.closed(shut) if shut else world


def _label(block: str | None, dynamics: Path | None, without: str | None, *, unaware: bool) -> str:
    parts = [
        f"block-{block}" if block else "",
        dynamics.stem if dynamics else "",
        f"without-{without}" if without else "",
    ]
    return "-".join([part for part in parts if part] + (["unaware"] if unaware else []))


def _what(block: str | None, dynamics: Path | None, missing: int | None, data: RunData) -> str:
    parts = [f"in the world of {dynamics.name}" if dynamics else "", f"with {block} closed" if block else ""]
    parts += [f"without {data.names[missing]}" if missing is not None else ""]
    text = " and ".join(part for part in parts if part)
    return text[0].upper() + text[1:]
