"""The command `prism`: fit, segment, score, demo, reproduce.

Exit codes: 0 ok; 2 wrong input, one sentence on standard error; 1 our fault; 130 interrupted, checkpoint kept.
"""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import Any, Literal

from cyclopts import App, CycloptsError

from prism_irl import __version__
from prism_irl.commands.options import ColumnOptions, CommonOptions, ModelOptions, build_model
from prism_irl.errors import InputError

app = App(
    name="prism",
    suppress_keyboard_interrupt=False,
    version=__version__,
    help="Recover what an agent wants, and when it changes its mind, from states and actions alone.",
)


@app.command
def demo(
    *,
    out: Path = Path("runs/demo"),
    jobs: int = 2,
    overwrite: bool = True,
    common: CommonOptions | None = None,
) -> None:
    """Simulate an agent with two hidden intentions and recover them, in about a minute.

    Example: prism demo

    Parameters
    ----------
    out
        Folder of the results.
    jobs
        Fits that run at the same time.
    overwrite
        Replace the results of an earlier demo.
    """
    from prism_irl.experiments.gridworld import Gridworld

    _gridworld(Gridworld.demo(), out, jobs, overwrite, common, "Frustration gridworld: a demonstration")


@app.command
def reproduce(
    experiment: Literal["gridworld"],
    *,
    quick: bool = False,
    out: Path | None = None,
    jobs: int = 2,
    overwrite: bool = False,
    common: CommonOptions | None = None,
) -> None:
    """Run an experiment of the paper and put its numbers beside ours.

    Example: prism reproduce gridworld --quick --out runs/gridworld

    Parameters
    ----------
    experiment
        Section of the paper.
    quick
        A smaller honest run: fewer trajectories, folds, starts and iterations, labelled as such.
    out
        Folder of the results [default: runs/EXPERIMENT].
    jobs
        Fits that run at the same time.
    overwrite
        Replace results that are already there.
    """
    from prism_irl.experiments.gridworld import Gridworld

    settings = Gridworld.small() if quick else Gridworld()
    _gridworld(
        settings, out or Path("runs") / experiment, jobs, overwrite, common, "Frustration gridworld (paper §5.1)"
    )


def _gridworld(settings: Any, out: Path, jobs: int, overwrite: bool, common: CommonOptions | None, title: str) -> None:
    from prism_irl import runs, storage
    from prism_irl.commands import output
    from prism_irl.commands.progress import fits_progress
    from prism_irl.experiments import gridworld
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


@app.command
def fit(
    table: Path,
    *,
    out: Path,
    columns: ColumnOptions | None = None,
    model: ModelOptions | None = None,
    preset: str | None = None,
    overwrite: bool = False,
    resume: bool = False,
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
    """
    from prism_irl.commands import output
    from prism_irl.commands.fitting import fit_table

    estimator = build_model(model, preset)
    chosen = {} if columns is None else columns.given()
    metrics = fit_table(table, estimator, chosen, out, overwrite=overwrite, resume=resume)
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


@app.command
def segment(
    run: Path,
    table: Path,
    *,
    out: Path,
    unknown_state: bool = False,
    overwrite: bool = False,
    common: CommonOptions | None = None,
) -> None:
    """Give every step of a table its intention.

    Example: prism segment runs/mouse new.csv --out labels.parquet

    Parameters
    ----------
    run
        Folder of a fitted model.
    table
        A .csv, .parquet or .npz file with the columns that the model was fitted on.
    out
        A .csv or .parquet file: the input's rows, in order, plus intention and p_0..p_{K-1}.
    unknown_state
        Accept states that the fit never saw; there all intentions act uniformly.
    overwrite
        Replace a file that is already there.
    """
    from prism_irl import tables
    from prism_irl.commands.scoring import open_run

    if out.exists() and not overwrite:
        raise InputError(f"{out} exists already; choose another --out or pass --overwrite.")
    tables.check_writable(out)
    model, data = open_run(run, table, unknown_state=unknown_state)
    probabilities = model.predict_proba(data.demonstrations)
    tables.write_table(tables.with_posterior(data, probabilities.argmax(axis=1), probabilities), out)
    print(f"{data.demonstrations.n_steps} steps segmented: {out}")


@app.command
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
    from prism_irl.commands import output
    from prism_irl.commands.scoring import open_run
    from prism_irl.evaluation.likelihood import evaluate

    model, data = open_run(run, table, unknown_state=unknown_state)
    scores = evaluate(model, data.demonstrations)
    if common is not None and common.json:
        output.print_json(scores)
    else:
        output.print_scores(scores, leaks=model.leaks)


@app.command
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
    columns: ColumnOptions | None = None,
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
        prism-paper, prism, prism-recurrent; variants such as prism-recurrent-h2, hiql-k4, prism-paper-lstm.
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
    overwrite
        Replace a comparison that is already there.
    resume
        Go on with an interrupted comparison; finished fits are not made again.
    """
    from prism_irl import runs, storage, tables
    from prism_irl.commands import output
    from prism_irl.commands.progress import fits_progress
    from prism_irl.datasets import NAMED
    from prism_irl.evaluation.value_difference import read_truth
    from prism_irl.experiments import comparison
    from prism_irl.experiments.methods import method
    from prism_irl.report.render import write_report

    if overwrite and resume:
        raise InputError("--overwrite begins again and --resume goes on; pass one of them.")
    chosen = [method(identifier.strip(), intentions) for identifier in methods.split(",") if identifier.strip()]
    mdp = None
    if str(table) in NAMED and not table.exists():
        load, dynamics = NAMED[str(table)]
        demos, mdp = load(), dynamics()
    else:
        demos = tables.read(table, **({} if columns is None else columns.given())).demonstrations
    folder = runs.prepare_folder(out, overwrite=overwrite, resume=resume)
    with fits_progress() as on_fit:
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
        )
    storage.write_json(folder / "config.json", {"command": runs.command_line(), "versions": runs.versions()})
    page = write_report(folder)
    if common is not None and common.json:
        output.print_json(metrics)
        return
    output.print_methods(metrics)
    output.print_value_differences(metrics)
    for note in comparison.best_two_note(metrics):
        print(note)
    print(f"Report: {page}")


@app.command
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
