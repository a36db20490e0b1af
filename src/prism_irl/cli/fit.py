"""`prism fit`: a table in, a run folder out."""

from __future__ import annotations

import inspect
import shlex
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from prism_irl import halves, limits, storage
from prism_irl.cli.options import ColumnOptions, Jobs, ModelOptions, WorldOptions, build_model, flag_of, given
from prism_irl.cli.runs import RunFolder
from prism_irl.errors import InputError, one_line


def fit(
    table: Path,
    *,
    folder: RunFolder,
    columns: ColumnOptions = ColumnOptions(),
    world: WorldOptions = WorldOptions(),
    model: ModelOptions | None = None,
    preset: str | None = None,
    method: str | None = None,
    simulations: int = 20,
    evidence: Path | None = None,
    intervals: int = 0,
    jobs: Jobs = 2,
    scheduler: str | None = None,
) -> None:
    """Fit a model to a table of states and actions.

    Example: prism fit mouse.csv --trajectory bout --state node --action move --intentions 3 --out runs/mouse

    Example: prism fit mouse.csv --map nodes.csv --valid-actions observed --method swirl-1 --out runs/swirl

    Example: prism fit mouse.csv --switching state --rewards goals --intentions 3 --out runs/goals

    Example: prism fit mouse.csv --method hiql --intentions 2 --group animal --intervals 200 --out runs/sure

    Example: prism fit arm.parquet --observe x,y,z,grip --act vx,vy,vz --intentions 5 --out runs/arm

    Example: prism fit arm.parquet --observe x,y,z,grip --act vx,vy,vz --window 0.5s --intentions 5 --out runs/gestures

    Example: prism fit arm.parquet --observe x,y --act vx,vy --window auto --labels known --intentions 5 --out runs/arm

    Example: prism fit LEROBOT --observe observation.state --act action --labels known.csv --out runs/known

    Example: prism fit RLDS --observe observation.state --act action --labels known.csv --hz 5 --out runs/known

    Parameters
    ----------
    table
        A .csv, .parquet or .npz file; with --observe and --act also a LeRobot or RLDS folder. Several files
        as one pattern in quotes, "animals/*.csv": their names are the column file (--trajectory file,bout).
    folder.resume
        Go on with an interrupted fit, with the same result as if it had never been interrupted.
    preset
        paper-gridworld, paper-labyrinth or paper-bridge: the paper's model and hyperparameters.
    method
        A method that prism methods lists (hiql, swirl-2, state+goals, …), or MODULE:CLASS of your own [default: the
        pair of --switching and --rewards].
    simulations
        How often the fitted model is simulated, to be compared with the data in the report; 0 leaves that out.
    evidence
        Folder of a prism evidence or prism select of the same data, which the verdict then speaks of [default: the
        newest one beside OUT, if there is any].
    intervals
        Resamples of the animals (--group; else of the trajectories) that are fitted again, from the fit: 95% intervals
        of usage, dwell, switching, rewards and values; 200 is usual, 0 leaves them out.
    scheduler
        Address of a running Dask scheduler, tcp://host:port: its workers share the trajectories of the fit, and
        make the resamples of --intervals.
    """
    for name, value in (("intervals", intervals), ("jobs", jobs)):
        limits.check_option(name, value)
    with ExitStack() as claim:
        from prism_irl.cli.fitted import describe_and_write
        from prism_irl.cli.progress import counting_parts, em_progress, patience
        from prism_irl.cli.sources import (
            find_evidence,
            read_evidence,
            read_inputs,
            read_table,
            steps_per_second,
            with_inputs,
            with_window,
        )  # fmt: skip
        from prism_irl.evaluation.checks import check_simulations
        from prism_irl.mdp import MDP
        from prism_irl.models.intentions import Intentions
        from prism_irl.report.render import write_report
        from prism_irl.scale import memory
        from prism_irl.scale.fanout import cluster, parts_on

        check_simulations(simulations)
        if method is not None or preset is not None or {"switching", "rewards"} <= set(given(model)):
            build_model(model, preset, method)  # refused before anything is read
        with patience(f"reading {table.name}"):
            source = read_table(table, columns, world)
        assert source.rows is not None
        rows, covariates = read_inputs(source.rows, columns)
        demos, mdp = rows.demonstrations, source.mdp
        estimator = build_model(model, preset, method, demos, phases=not any(columns.covariates()))
        estimator = with_window(with_inputs(estimator, columns), table, demos, columns.hz)
        if mdp is not None:
            mdp = MDP(mdp.transitions, getattr(estimator, "discount", mdp.discount), mdp.valid_actions)
        known = find_evidence(folder.out, demos) if evidence is None else read_evidence(evidence, demos)
        parameters = inspect.signature(estimator.fit).parameters  # whether it tells of iterations and keeps checkpoints
        anything = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
        iterates = anything or {"checkpoint", "resume", "on_iteration"} <= set(parameters)
        if isinstance(estimator, Intentions):
            estimator._check_parameters(demos)  # before a folder is made
        if intervals:
            from prism_irl.studies.intervals import check_intervals

            check_intervals(intervals, estimator, demos)
        path = claim.enter_context(folder.claimed())
        checkpoint, resume = path / "checkpoint", folder.resume and iterates
        request = {"parameters": halves.parameters_json(estimator), "data": demos.checksum()}
        _open_checkpoint(checkpoint, request, resume=resume)
        if iterates:
            if isinstance(estimator, Intentions):
                memory.announce(demos, estimator)
            with patience("fitting"), em_progress() as on_iteration:
                watch: dict[str, Any] = {"checkpoint": checkpoint, "resume": resume, "on_iteration": on_iteration}
                if scheduler is not None:
                    if not isinstance(estimator, Intentions) or estimator.switching_options.reads_history:
                        raise InputError(
                            "A network is trained in one process; leave out --scheduler, or choose a chain without one."
                        )
                    watch["run"] = claim.enter_context(parts_on(scheduler))
                estimator.fit(demos, mdp, **watch)
        else:
            estimator.fit(demos, mdp)
        written: dict[str, Any] = {"columns": columns.read_with(), "source": table, "events": source.events}
        written |= {"simulations": simulations, "evidence": known, "inputs": covariates}
        written |= {"layout": source.layout, "world": world.described(), "before": folder.out}
        written["hz"] = steps_per_second(table, columns.hz)
        if intervals:
            from prism_irl.studies.intervals import intervals as resampled

            assert isinstance(estimator, Intentions)
            with cluster(scheduler), counting_parts("resamples") as on_part:
                asked: dict[str, Any] = {"jobs": jobs, "folder": checkpoint / "intervals", "on_part": on_part}
                written["intervals"] = resampled(estimator, demos, intervals, seed=estimator.seed, **asked)
        with patience("describing and drawing what was found"):
            metrics = describe_and_write(path, estimator, rows, **written)
            write_report(path)
        shutil.rmtree(checkpoint)  # last: whatever is killed before that goes on from it
    from prism_irl.report.names import names_in

    names = names_in(folder.out, estimator.n_intentions)
    folder.tell(metrics, lambda found: show(found, names))
    if known is None and metrics["n_intentions"] > 1 and not (folder.common.json or metrics["density"]):
        words = ["prism", "evidence", str(table)]  # with the columns and the world that were typed for this fit
        for name, value in {**given(columns), **given(world)}.items():
            for one in value if isinstance(value, tuple) else (value,):
                words += [flag_of(name), str(one)]
        out = folder.out.resolve() if folder.out.name in ("", "..") else folder.out  # "." has no name
        words += ["--out", str(out.with_name(f"{out.name}-evidence"))]
        print(one_line(f"To test it against a habit: {shlex.join(words)}"))


def show(metrics: dict[str, Any], names: list[str] | None = None) -> None:
    """Print the scores of a fit in a few lines, beside the references, and what speaks against it.

    ``names`` are those of its K intentions, where they have any.
    """
    from prism_irl.cli.printing import print_scores
    from prism_irl.report.answers import place_in_words
    from prism_irl.report.verdict import choices, overall, part_name, part_remark, reference_name, scored_part, verdict

    part, plain = scored_part(metrics), storage.read_plain(metrics | {"names": names})
    K, steps, trajectories = (metrics[f"n_{what}"] for what in ("intentions", "steps", "trajectories"))
    print(
        f"{K} intention{'' if K == 1 else 's'}, {steps:,} steps in {trajectories:,} trajectories; scores on "
        f"{part_name(metrics)} data{part_remark(metrics)}:"
    )
    scores = {key: metrics[key][part] for key in ("predictive_ll", "paper_score")}
    print_scores({**metrics, **scores}, leaks=metrics["leaks"], density=bool(metrics.get("density")))
    named = ((reference_name(key), found["predictive_ll"][part]) for key, found in metrics["references"].items())
    print("references     " + ", ".join(f"{name} {score:.4f}" for name, score in named))
    if simple := plain.get("baselines"):
        if all("label_accuracy" in one for one in simple.values()):
            cells = [f"{name} {one['label_accuracy']:.3f} ({one['ari']:.3f})" for name, one in simple.items()]
            print("baselines      label accuracy (ARI) of " + ", ".join(cells))
        else:
            cells = [f"{name} {one['agreement']:.2f}" for name, one in simple.items()]
            print("baselines      agreement (ARI) of these phases with " + ", ".join(cells))
    for k, place in enumerate(plain.get("goals", {}).get("places", [])):
        print(f"{f'goal {k}' if names is None else names[k]:<14} {place_in_words(plain['goals']['names'], place)}")
    if names is not None:
        shares = (f"{name} {share:.0%}" for name, share in zip(names, plain["usage"], strict=True))
        print(one_line("intentions     " + ", ".join(shares)))
    for sentence in choices(plain):
        print(f"note           {sentence}")
    if "halves_agreement" in plain:
        print(f"halves         {plain['halves_agreement']:.2f} agreement (ARI) between fits to halves of the episodes")
    elif metrics["em"] is not None:
        agreement = metrics["agreement"]
        told = "– (no second start came as far)"
        if agreement is not None:
            told = f"{agreement:.2f} between starts that came as far (1: the same intentions, 0: chance)"
        print(f"agreement      {told}")
    if plain.get("intervals"):
        _show_intervals(plain["intervals"], names)
    findings = verdict(plain)
    for finding in findings:
        if finding.level == "bad":
            print(f"problem        {finding.text}")
    print(f"verdict        {overall(plain, findings)}")


def _show_intervals(found: dict[str, Any], names: list[str] | None) -> None:
    unit = "animals" if found["unit"] == "group" else "trajectories"
    print(f"95% intervals over {found['n']} resamples of {found['n_units']} {unit}:")
    for name in ("usage", "dwell"):
        if name in found["numbers"]:
            values, (low, high) = found["numbers"][name]["estimate"], found["numbers"][name]["interval"]
            called = ["" for _ in values] if names is None else [f"{name} " for name in names]
            rows = zip(called, values, low, high, strict=True)
            cells = (f"{of}{v:.3g} ({a:.3g} to {b:.3g})" for of, v, a, b in rows)
            print(f"  {name:<12} {', '.join(cells)}")


def _open_checkpoint(checkpoint: Path, request: dict[str, Any], *, resume: bool) -> None:
    """Make sure that what is resumed is what was begun; a fit that begins again drops the old checkpoint."""
    wanted = storage.read_plain(request)
    if resume and (checkpoint / "request.json").exists():
        if storage.read_json(checkpoint / "request.json") != wanted:
            raise InputError(
                f"{checkpoint.parent} was begun with other data or options; repeat the original command with --resume, "
                "or begin again with --overwrite."
            )
        return
    if resume:
        raise InputError(
            f"There is nothing to resume in {checkpoint.parent}; run the command without --resume, or with --overwrite "
            "where a run has begun."
        )
    if checkpoint.exists():
        shutil.rmtree(checkpoint)
    checkpoint.mkdir()
    storage.write_json(checkpoint / "request.json", request)
