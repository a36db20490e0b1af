"""Questions to a fit: `prism contrast` and `prism individuals` of its animals, `prism imagine` of another world."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prism_irl import limits
from prism_irl.cli.options import CommonOptions, Jobs, Overwrite, OwnMethod, Seed
from prism_irl.errors import InputError, one_line

if TYPE_CHECKING:
    from prism_irl.cli.fitted import RunData
    from prism_irl.mdp import MDP


CONTROLS = {
    "saline", "vehicle", "veh", "control", "ctrl", "ctl", "sham", "placebo", "baseline", "wt", "wildtype", "wild-type",
    "+/+", "pre", "before", "off", "none", "untreated", "naive", "0", "false", "no",
}  # fmt: skip
"""Values that a difference is taken from, where nobody says otherwise."""
MOST_LEVELS = 6


def contrast(
    run: Path,
    *,
    by: str,
    unit: str | None = None,
    levels: str | None = None,
    table: Path | None = None,
    intervals: int = 0,
    jobs: Jobs = 2,
    seed: Seed = 0,
    method: OwnMethod = None,
    overwrite: Overwrite = False,
    common: CommonOptions = CommonOptions(),
) -> None:
    """Compare conditions: usage, dwell, switching, places and rewards, with whole animals as the unit.

    The fit never reads the conditions, and whole animals are permuted. The answer becomes a section of the run's
    report.

    Example: prism contrast runs/mouse --by drug --unit animal

    Example: prism contrast runs/mouse --by genotype --unit animal --table animals.csv

    Example: prism contrast runs/mouse --by dose --levels saline,low,high --unit animal

    Parameters
    ----------
    run
        Folder of a prism fit.
    by
        Column with the condition: of the table that was fitted, or of --table. Where it changes within trajectories
        (epochs of a session), each stretch of one value counts as a trajectory.
    unit
        Column with the animal; the same animal under all conditions makes the design a paired one [default: the
        --group of the fit].
    levels
        The values to compare, such as saline,drug; the difference of two is second minus first [default: all, a control
        (saline, vehicle, control, sham, wt, baseline, …) first, else in the order of numbers, of the rows where they
        change within trajectories, or of the alphabet].
    table
        A second table with the column --by and either the unit or the trajectory, one row for each.
    intervals
        Resamples of the animals that the model is fitted to again, so that the intervals count how sure the fit is,
        too; 0 keeps the fit as it is, which takes a second.
    """
    from prism_irl import storage
    from prism_irl.cli.fitted import open_run_data
    from prism_irl.cli.printing import print_contrast, print_json
    from prism_irl.cli.progress import patience, say
    from prism_irl.cli.report import write_again
    from prism_irl.cli.runs import adding
    from prism_irl.report.contrast import in_words
    from prism_irl.studies import contrast as study
    from prism_irl.studies.intervals import check_intervals
    from prism_irl.studies.results import check_new

    for name, value in (("intervals", intervals), ("jobs", jobs), ("seed", seed)):
        limits.check_option(name, value)
    data = open_run_data(run, method)
    check_intervals(intervals, data.model, data.demos)
    check_new(study.contrast_path(run, by), f"a contrast by {by!r}", overwrite=overwrite)
    who, unit_name = _units(data, unit)
    demos = data.demos
    if table is not None:
        condition = data.joined(table, by, unit_name, who)
    else:
        demos, condition, owner = data.stretches(by)
        if len(demos) > len(data.demos):
            pieces = f"{len(data.demos):,} of them are compared in {len(demos):,} stretches"
            say(f"{by} changes within trajectories: {pieces}.")
        who = who[owner]
    chosen = compared_levels(condition, levels, by, in_time=len(demos) > len(data.demos))
    if intervals and (len(chosen) > 2 or len(demos) > len(data.demos)):
        raise InputError(
            "--intervals compares two conditions of whole trajectories; leave it out, or name two --levels."
        )
    with patience(f"comparing {' and '.join(chosen)}"):
        found = study.contrast(data.model, demos, who, condition, levels=chosen, by=by, unit_name=unit_name, seed=seed)
    if intervals:
        from prism_irl.cli.progress import counting_parts
        from prism_irl.models.intentions import Intentions

        assert isinstance(data.model, Intentions)
        with counting_parts("resamples") as on_part:
            options: dict[str, Any] = {"seed": seed, "jobs": jobs, "on_part": on_part}
            found = study.refitted(found, data.model, data.demos, who, condition, intervals, **options)
    fit = storage.read_object(run / "metrics.json")
    found["in_words"] = in_words(found, data.names, fit)
    with adding(run):
        study.write_contrast(run, found, data.names)
        write_again(run)
    if common.json:
        print_json(
            {name: value for name, value in found.items() if name not in ("per_unit", "occupancy", "state_names")}
        )
        return
    print_contrast(found, data.names, fit)
    print(one_line(f"Report: {run / 'report.html'}"))


def _units(data: RunData, unit: str | None) -> tuple[Any, str]:
    """Unit of every trajectory, (N,), and what the column is called."""
    name = unit or data.group_column
    if name is None:
        raise InputError(
            "What is an animal? Name its column with --unit: trajectories of one animal are alike, and counting them "
            "as independent finds differences that are not there."
        )
    return data.column(name, "unit"), name


def compared_levels(condition: Any, levels: str | None, by: str, *, in_time: bool = False) -> tuple[str, ...]:
    """The conditions to compare; those of epochs (``in_time``) in the order in which they come."""
    found = dict.fromkeys(condition.astype(str).tolist())
    there = list(found) if in_time else sorted(found)
    if levels is not None:
        given = [level.strip() for level in levels.split(",")]
        if len(set(given)) != len(given) or not 2 <= len(given) <= MOST_LEVELS:
            raise InputError(
                f"--levels is {levels!r}; give two to {MOST_LEVELS} different values, such as saline,drug."
            )
        for level in given:
            if level not in there:
                raise InputError(f"The column {by!r} never is {level!r}; it is one of {', '.join(there[:20])}.")
        return tuple(given)
    if len(there) < 2:
        raise InputError(f"The column {by!r} is {there[0]!r} everywhere; a contrast needs two conditions.")
    if len(there) > MOST_LEVELS:
        raise InputError(
            f"The column {by!r} has {len(there)} values ({', '.join(there[:10])}, …); name some with --levels."
        )
    with suppress(ValueError):
        there.sort(key=float)
    return tuple(sorted(there, key=lambda level: level.strip().lower() not in CONTROLS))  # stable


def individuals(
    run: Path,
    *,
    unit: str | None = None,
    seed: Seed = 0,
    method: OwnMethod = None,
    common: CommonOptions = CommonOptions(),
) -> None:
    """Say how often each animal has each intention, and which animals differ from the others.

    Numbers, policies and rewards of an animal are shrunk towards those of all animals, as much as predicts its other
    trajectories best; tables and a figure (a row per animal) are left in the run folder.

    Example: prism individuals runs/mouse --unit animal

    Parameters
    ----------
    run
        Folder of a prism fit.
    unit
        Column with the animal [default: the --group of the fit].
    """
    from prism_irl import storage
    from prism_irl.cli.fitted import open_run_data
    from prism_irl.cli.printing import print_json
    from prism_irl.cli.progress import patience
    from prism_irl.cli.report import write_again
    from prism_irl.cli.runs import adding
    from prism_irl.report.verdict import doubts
    from prism_irl.studies import individuals as study
    from prism_irl.studies import results

    limits.check_option("seed", seed)
    data = open_run_data(run, method)
    who, name = _units(data, unit)
    with patience("comparing animals"):
        found = study.individuals(data.model, data.demos, who, unit_name=name, seed=seed)
    known = storage.read_object(run / "metrics.json")
    found["in_words"] = " ".join([found["in_words"], *(finding.text for finding in doubts(known))])
    choices = found.pop("choices")
    with adding(run):
        results.write_rows(run / "individuals.csv", found["rows"])
        if choices:
            results.write_rows(run / "individual_rewards.csv", choices)
        else:
            (run / "individual_rewards.csv").unlink(missing_ok=True)
        storage.write_json(run / "individuals.json", found)
        draw_individuals(run / "figures", found, data.names)
        write_again(run)
    if common.json:
        print_json(found)
        return
    print(found["in_words"])
    more = f", {run / 'individual_rewards.csv'}" if choices else ""
    print(one_line(f"Table: {run / 'individuals.csv'}{more}; figure in {run / 'report.html'}"))


def draw_individuals(folder: Path, found: Mapping[str, Any], names: Sequence[str]) -> None:
    """A figure with a row per animal, and its caption."""
    from prism_irl.figures import charts as drawing
    from prism_irl.figures import style
    from prism_irl.studies import results

    with style.paper_style():
        height = 0.8 + 0.18 * found["n_units"]
        figure, axes = style.new_figure(1, len(names), width=1.0 + 2.0 * len(names), height=height, sharey=True)
        for k, ax in enumerate(axes):
            own = [row for row in found["rows"] if row["intention"] == k]
            drawing.unit_rows(ax, own, found["shared"]["usage"][k], color=style.intention_color(k))
            ax.set_title(style.short(names[k]))
        style.save(figure, folder / "individuals")
    caption = "Usage of each intention by every animal: open as it is, filled shrunk to what all do (line); ∗ differs."
    results.add_captions(folder, {"individuals": caption})


# -- what the agents of a fit would do in a world that has changed -----------------------------------------------------


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
    jobs: Jobs = 2,
    seed: Seed = 0,
    method: OwnMethod = None,
    overwrite: Overwrite = False,
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
    from prism_irl.cli.progress import counting_parts
    from prism_irl.cli.report import write_again
    from prism_irl.cli.runs import adding
    from prism_irl.data.geography import read_dynamics_file
    from prism_irl.mdp import MDP
    from prism_irl.models.intentions import Intentions
    from prism_irl.report.explorer import read_explorer
    from prism_irl.report.verdict import doubts
    from prism_irl.studies import imagine as study
    from prism_irl.studies.imagine import imagined_path, in_words, write_imagined
    from prism_irl.studies.intervals import check_intervals
    from prism_irl.studies.results import check_new

    options: dict[str, Any] = {"simulations": simulations, "jobs": jobs, "seed": seed}
    for option, value in {"intervals": intervals, **options}.items():
        limits.check_option(option, value)
    data = open_run_data(run, method)
    check_intervals(intervals, data.model, data.demos)
    if not isinstance(data.model, Intentions):
        raise InputError(f"{type(data.model).__name__} is no pair of switching and rewards; fit one with prism fit.")
    known, shut, missing = data.table.states, list[int](), None
    if block is not None:
        words = [word.strip() for word in block.split(",") if word.strip()]
        if not words:
            raise InputError("--block names no state; give some, with commas between.")
        ids = {name: s for s, name in enumerate(known.names or map(str, range(known.size)))}
        for word in words:
            if word not in ids:
                there = f"0 to {known.size - 1}" if known.names is None else ", ".join(known.names[:10])
                raise InputError(f"--block has {word!r}, which is no state of the fit; there are {there}.")
        shut = [ids[word] for word in words]
    if without is not None:
        numbers = {str(k): k for k in range(len(data.names))} | {name: k for k, name in enumerate(data.names)}
        if without not in numbers:
            there = ", ".join(f"{k} ({name})" for k, name in enumerate(data.names))
            raise InputError(f"There is no intention {without!r}; there are {there}.")
        missing = numbers[without]
    own: Any = getattr(data.model, "mdp_", None)
    world: MDP | None = None if dynamics is None and not shut else own
    if world is not None and dynamics is not None:
        read = read_dynamics_file(dynamics, data.table.states, data.table.actions)
        world = MDP(read.transitions, world.discount, read.valid_actions)
    change = study.Change(world.closed(shut) if world is not None and shut else world, missing, not unaware)
    parts = [f"block-{block}" if block else "", dynamics.stem if dynamics else "", "unaware" if unaware else ""]
    parts.insert(2, f"without-{without}" if without else "")
    label = name or "-".join(part for part in parts if part)
    check_new(imagined_path(run, label), f"the answer {label!r}", overwrite=overwrite)
    with counting_parts("simulations") as on_part:
        options |= {"closed": shut, "resamples": intervals, "on_part": on_part}
        found = study.imagine(data.model, data.demos, change, **options)
    states = data.table.states.names or tuple(f"state {s}" for s in range(data.demos.n_states))
    parts = [f"in the world of {dynamics.name}" if dynamics else "", f"with {block} closed" if block else ""]
    parts += [f"without {data.names[missing]}" if missing is not None else ""]
    what = " and ".join(part for part in parts if part)
    words_of = [in_words(found, what[0].upper() + what[1:], states, data.names)]
    words_of += [finding.text for finding in doubts(storage.read_object(run / "metrics.json"))]
    found |= {"name": label, "in_words": " ".join(words_of)}
    layout = (read_explorer(run) or {}).get("layout")
    with adding(run):
        write_imagined(run, label, found, states=states, names=data.names, layout=layout)
        write_again(run)
    if common.json:
        print_json(found)
        return
    print(found["in_words"])
    print(one_line(f"Table: {imagined_path(run, label).with_suffix('.csv')}; figure in {run / 'report.html'}"))
