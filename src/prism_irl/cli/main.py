"""The command `prism`: what people type, in the groups that its help shows.

Exit codes: 0 ok; 2 wrong input, one sentence on standard error; 1 our fault; 130 interrupted, checkpoint kept.
"""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import Any, Literal

from cyclopts import App, CycloptsError

from prism_irl import __version__
from prism_irl.cli.data import app as data_app
from prism_irl.cli.groups import EXPERIMENTS, HELP, OWN_DATA, ROBOTS, START
from prism_irl.cli.options import ColumnOptions, CommonOptions, ModelOptions, build_model
from prism_irl.errors import InputError

app = App(
    name="prism",
    suppress_keyboard_interrupt=False,
    version=__version__,
    group_commands=HELP,
    help="""Recover what an agent wants, and when it changes its mind, from states and actions alone.

A first look: prism demo

A table of your own (one row per step): prism select mouse.csv --out runs/select, then
prism fit mouse.csv --intentions 2 --out runs/mouse, and open runs/mouse/report.html

Every command explains itself, with an example: prism fit --help
""",
)
app.command(data_app)


@app.command(group=START)
def demo(
    *,
    world: Literal["gridworld", "labyrinth"] = "gridworld",
    out: Path = Path("runs/demo"),
    jobs: int = 2,
    overwrite: bool = True,
    common: CommonOptions | None = None,
) -> None:
    """Simulate an agent with hidden intentions and recover them, in a minute or three.

    Example: prism demo

    Parameters
    ----------
    world
        gridworld: an expert with two goals that gives up in front of barriers; labyrinth: a mouse in a maze that wants
        water, home or to explore.
    out
        Folder of the results.
    jobs
        Fits that run at the same time.
    overwrite
        Replace the results of an earlier demo.
    """
    if world == "labyrinth":
        from prism_irl.cli.demo import labyrinth

        labyrinth(out, jobs, overwrite=overwrite, json=common is not None and common.json)
        return
    from prism_irl.experiments.gridworld.run import Gridworld

    _gridworld(Gridworld.demo(), out, jobs, overwrite, common, "Frustration gridworld: a demonstration")


@app.command(group=EXPERIMENTS)
def reproduce(
    experiment: Literal["gridworld", "labyrinth", "bridge"],
    dataset: Path | None = None,
    /,
    *,
    quick: bool = False,
    out: Path | None = None,
    jobs: int = 2,
    scheduler: str | None = None,
    overwrite: bool = False,
    resume: bool = False,
    parts: str | None = None,
    common: CommonOptions | None = None,
) -> None:
    """Run an experiment of the paper and put its numbers beside ours.

    Example: prism reproduce gridworld --quick --out runs/gridworld

    Parameters
    ----------
    experiment
        Section of the paper.
    dataset
        Robot demonstrations for bridge: a LeRobot, RLDS or raw BridgeData folder [default: simulated pick-and-place].
    quick
        A smaller honest run: fewer trajectories, folds, starts and iterations, labelled as such.
    out
        Folder of the results [default: runs/EXPERIMENT].
    jobs
        Fits that run at the same time.
    scheduler
        Address of a running Dask scheduler, tcp://host:port, whose workers make the fits of gridworld and labyrinth.
    overwrite
        Replace results that are already there.
    resume
        Go on with an interrupted run, or add parts to a finished one (labyrinth); finished fits are not made again.
    parts
        Comma-separated parts of the labyrinth to run: paper, honest, frontier, animals, alignment [default: all].
    """
    if dataset is not None and experiment != "bridge":
        raise InputError(f"{experiment} has its own data; a dataset belongs to bridge.")
    if scheduler is not None and experiment == "bridge":
        raise InputError("bridge makes its fits one after the other; leave out --scheduler.")
    from prism_irl.scale.fanout import cluster

    if experiment == "labyrinth":
        from prism_irl.cli.reproduce_labyrinth import reproduce_labyrinth

        with cluster(scheduler):
            reproduce_labyrinth(
                out or Path("runs") / experiment,
                quick=quick,
                parts=parts,
                jobs=jobs,
                overwrite=overwrite,
                resume=resume,
                json=common is not None and common.json,
            )
        return
    if experiment == "bridge" and parts is None:
        from prism_irl.cli.reproduce_bridge import reproduce_bridge

        reproduce_bridge(
            dataset,
            out or Path("runs") / experiment,
            quick=quick,
            overwrite=overwrite,
            resume=resume,
            json=common is not None and common.json,
        )
        return
    if parts is not None or resume:
        raise InputError(f"--parts and --resume belong to the labyrinth; {experiment} runs in one piece.")
    from prism_irl.experiments.gridworld.run import Gridworld

    settings = Gridworld.small() if quick else Gridworld()
    with cluster(scheduler):
        _gridworld(
            settings, out or Path("runs") / experiment, jobs, overwrite, common, "Frustration gridworld (paper §5.1)"
        )


def _gridworld(settings: Any, out: Path, jobs: int, overwrite: bool, common: CommonOptions | None, title: str) -> None:
    from prism_irl import storage
    from prism_irl.cli import printing as output
    from prism_irl.cli import run_folder as runs
    from prism_irl.cli.progress import fits_progress
    from prism_irl.experiments.gridworld import run as gridworld
    from prism_irl.report.render import write_report

    folder = runs.prepare_folder(out, overwrite=overwrite)
    with fits_progress() as on_fit:
        metrics = gridworld.run(settings, folder, jobs=jobs, on_fit=on_fit, title=title)
    storage.write_json(folder / "config.json", {"command": runs.command_line(), "versions": runs.versions()})
    page = write_report(folder)
    if common is not None and common.json:
        output.print_json(metrics)
    else:
        output.print_methods(metrics)
        output.print_value_differences(metrics)
        print(f"Report: {page}")


@app.command(group=OWN_DATA, sort_key=1)
def fit(
    table: Path,
    *,
    out: Path,
    columns: ColumnOptions | None = None,
    model: ModelOptions | None = None,
    preset: str | None = None,
    overwrite: bool = False,
    resume: bool = False,
    tensorboard: bool = False,
    events: tuple[str, ...] = (),
    common: CommonOptions | None = None,
) -> None:
    """Fit a model to a table of states and actions.

    Example: prism fit mouse.csv --trajectory bout --state node --action move --intentions 3 --out runs/mouse

    Parameters
    ----------
    table
        A .csv, .parquet or .npz file.
    out
        Folder of the results.
    preset
        paper-gridworld, paper-labyrinth or paper-bridge: the paper's model and hyperparameters.
    overwrite
        Replace a run that is already there.
    resume
        Go on with an interrupted fit, with the same result as if it had never been interrupted.
    tensorboard
        Write the likelihood of every iteration to OUT/tensorboard; look at it with tensorboard --logdir OUT.
    events
        Column with 1 where something happened (water came), else 0: marked in the report, unseen by a fit; may repeat.
    """
    from prism_irl.cli import printing as output
    from prism_irl.cli.fit import fit_table

    estimator = build_model(model, preset)
    chosen = {} if columns is None else columns.given()
    options: dict[str, Any] = {"overwrite": overwrite, "resume": resume, "tensorboard": tensorboard, "events": events}
    metrics = fit_table(table, estimator, chosen, out, **options)
    if metrics is None:  # another rank writes and prints
        return
    if common is not None and common.json:
        output.print_json(metrics)
        return
    held_out = metrics["predictive_ll"]["validation"]
    part = "train" if held_out is None else "validation"
    print(f"{metrics['n_intentions']} intentions, {metrics['n_steps']} steps; scores on {part} data:")
    scores = {key: metrics[key][part] for key in ("predictive_ll", "paper_score")}
    output.print_scores({**metrics, **scores}, leaks=metrics["leaks"])
    agreement = metrics["agreement"]
    print("agreement      " + ("– (no second start came as far)" if agreement is None else f"{agreement:.2f}"))
    print(f"Report: {out / 'report.html'}")


@app.command(group=OWN_DATA, sort_key=2)
def segment(
    run: Path,
    table: Path,
    *,
    out: Path,
    names: Path | None = None,
    write_back: Path | None = None,
    unknown_state: bool = False,
    overwrite: bool = False,
    common: CommonOptions | None = None,
) -> None:
    """Give every step of a table its intention.

    Example: prism segment runs/mouse new.csv --out labels.parquet

    Example: prism segment runs/arm tokens/demonstrations.npz --write-back LEROBOT_DATASET --out COPY

    Parameters
    ----------
    run
        Folder of a fitted model.
    table
        A .csv, .parquet or .npz file with the columns that the model was fitted on.
    out
        A .csv or .parquet file: the input's rows, in order, plus intention and p_0..p_{K-1}.
    names
        names.json as the report's page exports it: adds a column intention_name.
    write_back
        The LeRobot dataset that the data was tokenized from: --out becomes a copy of it with a column intention (-1
        where a step was not segmented), and the dataset itself is only read.
    unknown_state
        Accept states that the fit never saw; there all intentions act uniformly.
    overwrite
        Replace a file that is already there.
    """
    from prism_irl.cli.open_run import open_run, segmented
    from prism_irl.data import tables

    if write_back is not None and names is not None:
        raise InputError("--names adds a column to a table, and --write-back writes a dataset; pass one of them.")
    if write_back is not None:
        from prism_irl.cli.tokenize import write_back_run

        steps = write_back_run(run, table, write_back, out, unknown_state=unknown_state)
        print(f"{steps} steps segmented: {out}")
        return
    if out.exists() and not overwrite:
        raise InputError(f"{out} exists already; choose another --out or pass --overwrite.")
    tables.check_writable(out)
    model, data = open_run(run, table, unknown_state=unknown_state)
    tables.write_table(segmented(model, data, names), out)
    print(f"{data.demonstrations.n_steps} steps segmented: {out}")


@app.command(group=OWN_DATA, sort_key=3)
def score(
    run: Path,
    table: Path,
    *,
    unknown_state: bool = False,
    common: CommonOptions | None = None,
) -> None:
    """Score a fitted model on a table: predictive log-likelihood and, kept apart, the paper's score.

    Example: prism score runs/mouse new.csv --json

    Parameters
    ----------
    run
        Folder of a fitted model.
    table
        A .csv, .parquet or .npz file with the columns that the model was fitted on.
    unknown_state
        Accept states that the fit never saw; there all intentions act uniformly.
    """
    from prism_irl.cli import printing as output
    from prism_irl.cli.open_run import open_run
    from prism_irl.evaluation.likelihood import evaluate

    model, data = open_run(run, table, unknown_state=unknown_state)
    scores = evaluate(model, data.demonstrations)
    if common is not None and common.json:
        output.print_json(scores)
    else:
        output.print_scores(scores, leaks=model.leaks)


@app.command(group=OWN_DATA, sort_key=4)
def compare(
    table: Path,
    *,
    out: Path,
    methods: str = "uniform,iavi,ngram,hiql,prism,prism-recurrent",
    intentions: int = 3,
    folds: int = 5,
    seeds: int = 1,
    by: Literal["trajectory", "group"] = "trajectory",
    truth: Path | None = None,
    jobs: int = 2,
    scheduler: str | None = None,
    columns: ColumnOptions | None = None,
    events: tuple[str, ...] = (),
    overwrite: bool = False,
    resume: bool = False,
    common: CommonOptions | None = None,
) -> None:
    """Cross-validate several methods on a table, by the same proper likelihood.

    Example: prism compare mouse.csv --methods prism-recurrent,hiql,swirl-2,iavi,bc --folds 5 --out runs/compare

    Parameters
    ----------
    table
        A .csv, .parquet or .npz file, or the name of a data set: labyrinth.
    out
        Folder of the results.
    methods
        Comma-separated: uniform, iavi, iql, maxent, maxcausalent, mixture, ngram, bc, hiql, swirl-1, swirl-2, dirl,
        prism-paper, prism, prism-recurrent, prism-markov, prism-goals; variants such as prism-recurrent-h2, hiql-k4,
        prism-paper-lstm.
    intentions
        Number of intentions of the methods that have several.
    folds
        Parts of the cross-validation.
    seeds
        Fits per method and fold.
    by
        What a fold keeps together.
    truth
        An .npz file with true rewards (Z, S, A) and transitions (S, A, S), for the expected value difference; needs
        true labels.
    jobs
        Fits that run at the same time.
    scheduler
        Address of a running Dask scheduler, tcp://host:port, whose workers make the fits instead of this machine.
    events
        Column with 1 where something happened (water came), else 0: marked in the report, unseen by a fit; may repeat.
    overwrite
        Replace a comparison that is already there.
    resume
        Go on with an interrupted comparison; finished fits are not made again.
    """
    from prism_irl import storage
    from prism_irl.cli import printing as output
    from prism_irl.cli import run_folder as runs
    from prism_irl.cli.events import read_events, refuse_events
    from prism_irl.cli.progress import fits_progress
    from prism_irl.data import tables
    from prism_irl.datasets import NAMED
    from prism_irl.evaluation.value_difference import read_truth
    from prism_irl.models.registry import method
    from prism_irl.report.render import write_report
    from prism_irl.scale.fanout import cluster
    from prism_irl.studies import comparison

    if overwrite and resume:
        raise InputError("--overwrite begins again and --resume goes on; pass one of them.")
    chosen = [method(identifier.strip(), intentions) for identifier in methods.split(",") if identifier.strip()]
    mdp, marks = None, {}
    if str(table) in NAMED and not table.exists():
        refuse_events(str(table), events)
        load, dynamics = NAMED[str(table)]
        demos, mdp = load(), dynamics()
    else:
        rows = tables.read(table, **({} if columns is None else columns.given()))
        demos, marks = rows.demonstrations, read_events(rows, events)
    folder = runs.prepare_folder(out, overwrite=overwrite, resume=resume)
    with fits_progress() as on_fit, cluster(scheduler):
        metrics = comparison.compare(
            demos,
            chosen,
            folder,
            mdp=mdp,
            folds=folds,
            seeds=seeds,
            by=by,
            jobs=jobs,
            extra=None if truth is None else read_truth(truth, demos),
            title=f"Comparison on {table.name}",
            on_fit=on_fit,
            fresh=overwrite,
            events=marks,
        )
    config = comparison.config(demos, chosen, folds=folds, seeds=seeds, by=by)
    data = {"file": table.name, "columns": {} if columns is None else columns.given(), **config.pop("data")}
    versions = {"command": runs.command_line(), "versions": runs.versions()}
    storage.write_json(folder / "config.json", {**versions, "data": data, **config})
    page = write_report(folder)
    if common is not None and common.json:
        output.print_json(metrics)
        return
    output.print_methods(metrics)
    output.print_value_differences(metrics)
    for note in comparison.best_two_note(metrics):
        print(note)
    print(f"Report: {page}")


@app.command(group=OWN_DATA, sort_key=0)
def select(
    table: Path,
    *,
    out: Path,
    intentions: str = "1..6",
    switching: Literal["markov", "recurrent", "independent"] = "markov",
    history: int = 1,
    folds: int = 5,
    by: Literal["trajectory", "group"] = "trajectory",
    sets: int = 3,
    starts: int | None = None,
    max_iterations: int | None = None,
    jobs: int = 2,
    scheduler: str | None = None,
    seed: int = 0,
    columns: ColumnOptions | None = None,
    events: tuple[str, ...] = (),
    overwrite: bool = False,
    resume: bool = False,
    common: CommonOptions | None = None,
) -> None:
    """Say how many intentions the data identifies: what predicts, and what independent fits agree on.

    Example: prism select mouse.csv --intentions 1..6 --out runs/select

    Parameters
    ----------
    table
        A .csv, .parquet or .npz file, or the name of a data set: labyrinth.
    out
        Folder of the results.
    intentions
        Numbers of intentions to try, such as 1..6 or 2,3,4.
    switching
        How intentions switch; markov takes seconds per fit, a network minutes.
    history
        Policies depend on the last so many states.
    folds
        Parts of the cross-validation.
    by
        What a fold keeps together.
    sets
        Independent sets of starts on all data, whose winners are compared.
    starts
        Starts per set [default: 8 for markov, 4 for a network].
    max_iterations
        EM iterations at most [default: the model's].
    jobs
        Fits that run at the same time.
    scheduler
        Address of a running Dask scheduler, tcp://host:port, whose workers make the fits instead of this machine.
    seed
        The one source of randomness.
    events
        Column with 1 where something happened (water came), else 0: marked in the report, unseen by a fit; may repeat.
    overwrite
        Replace a selection that is already there.
    resume
        Go on with an interrupted selection, or add numbers of intentions; finished fits are not made again.
    """
    if overwrite and resume:
        raise InputError("--overwrite begins again and --resume goes on; pass one of them.")
    from prism_irl.cli import select as selecting
    from prism_irl.scale.fanout import cluster

    settings = selecting.Select(
        intentions=selecting.parse_intentions(intentions),
        switching=switching,
        history=history,
        folds=folds,
        by=by,
        sets=sets,
        starts=starts,
        max_iterations=max_iterations,
        seed=seed,
    )
    chosen = {} if columns is None else columns.given()
    as_json = common is not None and common.json
    with cluster(scheduler):
        selecting.select_table(
            table,
            settings,
            chosen,
            out,
            jobs=jobs,
            overwrite=overwrite,
            resume=resume,
            json=as_json,
            events=events,
        )


@app.command(group=ROBOTS)
def tokenize(
    dataset: Path,
    *,
    out: Path,
    encoder: str = "pixels",
    camera: str | None = None,
    states: int = 2048,
    actions: int = 32,
    method: Literal["kmeans", "vq"] = "kmeans",
    action_scaling: Literal["standardised", "none"] = "standardised",
    gripper: str = "auto",
    keep_still_start: bool = False,
    observations: Literal["none", "proprio"] = "none",
    strict: bool = False,
    batch_size: int = 64,
    device: str = "auto",
    seed: int = 0,
    like: Path | None = None,
    overwrite: bool = False,
    resume: bool = False,
    common: CommonOptions | None = None,
) -> None:
    """Turn robot demonstrations into tokens that can be fitted: frames to states, commands to actions.

    Example: prism tokenize bridge_lerobot --encoder dinov2-small --states 2048 --actions 32 --out tokens

    Parameters
    ----------
    dataset
        Folder of a LeRobot dataset (v2.x, v3.0), of TFRecord shards (RLDS), or of raw BridgeData V2.
    out
        Folder of the results: demonstrations.npz for prism fit, mdp.safetensors, tokenizer, metrics.json.
    encoder
        pixels or proprio (no weights needed), dinov2-small, dinov2-base, dinov2-large, siglip2-base, a local folder or
        a hub id.
    camera
        Which camera to read [default: the first].
    states
        Number of state tokens.
    actions
        Number of action tokens.
    method
        How codebooks are learned: k-means, or vector quantisation.
    action_scaling
        standardised: every dimension of the action counts alike; none: raw, as in the paper.
    gripper
        Dimension of the action that is open or closed, such as -1; auto finds it, none has none.
    keep_still_start
        Keep a first step that commands no motion, as BridgeData's episodes begin.
    observations
        proprio keeps the recorded states beside the tokens.
    strict
        Stop at a damaged episode instead of leaving it out with a warning.
    batch_size
        Frames per pass of the encoder.
    device
        auto, cpu or cuda.
    seed
        Of the clustering.
    like
        Results of an earlier tokenize: use its encoder and codebooks, so that a model fitted there can segment this
        dataset; the options of the codebooks do not apply then.
    overwrite
        Replace results that are already there.
    resume
        Go on with an interrupted run; frames that are encoded are not encoded again.
    """
    from prism_irl.cli import printing as output
    from prism_irl.cli import tokenize as tokenizing

    options = tokenizing.TokenizeOptions(
        encoder=encoder,
        camera=camera,
        states=states,
        actions=actions,
        method=method,
        action_scaling=action_scaling,
        gripper=gripper,
        keep_still_start=keep_still_start,
        observations=observations,
        strict=strict,
        batch_size=batch_size,
        device=device,
        seed=seed,
        like=like,
    )
    metrics = tokenizing.tokenize(dataset, options, out, overwrite=overwrite, resume=resume)
    if common is not None and common.json:
        output.print_json(metrics)
    else:
        tokenizing.print_metrics(metrics, out)


@app.command(group=OWN_DATA, sort_key=5)
def report(run: Path, *, common: CommonOptions | None = None) -> None:
    """Write report.html of a run folder again.

    Example: prism report runs/mouse

    Parameters
    ----------
    run
        Folder that fit, demo or reproduce wrote.
    """
    from prism_irl.report.render import write_report

    print(f"Report: {write_report(run)}")


def main(tokens: list[str] | None = None) -> int:
    """Run a command; return its exit code."""
    arguments = sys.argv[1:] if tokens is None else tokens
    debug = "--debug" in arguments
    try:
        app(arguments, exit_on_error=False, print_error=False)
        return 0
    except (InputError, CycloptsError) as error:
        if debug:
            traceback.print_exc()
        print(f"prism: {str(error).strip()}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("prism: interrupted; a fit goes on from its checkpoint with --resume.", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return 0
    except SystemExit as stop:
        return int(stop.code or 0)
    except Exception as error:
        if debug:
            traceback.print_exc()
        print(f"prism: internal error: {error!r}; run again with --debug and report it.", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
