"""The command `prism`: what people type, in the groups that its help shows.

Each verb is a file of its own, and imports what is heavy (torch, scikit-learn, pandas) only when it runs, so that the
help is there at once.

Exit codes: 0 ok; 2 wrong input, one sentence on standard error; 1 our fault; 130 interrupted, checkpoint kept.
"""

from __future__ import annotations

import gc
import os
import shlex
import sys
import traceback
from itertools import pairwise
from pathlib import Path

from cyclopts import App, CycloptsError

from prism_irl import __version__, threads
from prism_irl.cli.analyze import analyze_command
from prism_irl.cli.compare import compare
from prism_irl.cli.complaints import in_words
from prism_irl.cli.contrast import contrast
from prism_irl.cli.data import app as data
from prism_irl.cli.demo import demo
from prism_irl.cli.evidence import evidence
from prism_irl.cli.fit import fit
from prism_irl.cli.groups import EXPERIMENTS, HELP, OWN_DATA, ROBOTS, START
from prism_irl.cli.help import show_help
from prism_irl.cli.imagine import imagine
from prism_irl.cli.individuals import individuals
from prism_irl.cli.init import init
from prism_irl.cli.methods import methods
from prism_irl.cli.names import names
from prism_irl.cli.progress import Waiting
from prism_irl.cli.report import report
from prism_irl.cli.reproduce import reproduce
from prism_irl.cli.run_marker import LEFT_BEHIND, UNFINISHED
from prism_irl.cli.sample import sample
from prism_irl.cli.score import score
from prism_irl.cli.segment import segment
from prism_irl.cli.select import select_command
from prism_irl.cli.study import with_study
from prism_irl.cli.tokenize import tokenize
from prism_irl.cli.triage import triage
from prism_irl.errors import InputError, one_line

FORMER = {"--inputs": "--covariates", "--since": "--time-since", "--observations": "--network-inputs"}
FORMER |= {"--recount": "--count-all", "--power": "--window-weight"}
"""Flags of version 0.1.0 by the names that they have now."""

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

app.command(demo, group=START)
app.command(sample, group=START)
app.command(analyze_command, name="analyze", group=OWN_DATA, sort_key=-1)
app.command(init, group=OWN_DATA, sort_key=0)
app.command(evidence, group=OWN_DATA, sort_key=0)
app.command(select_command, name="select", group=OWN_DATA, sort_key=0)
app.command(fit, group=OWN_DATA, sort_key=1)
app.command(segment, group=OWN_DATA, sort_key=2)
app.command(score, group=OWN_DATA, sort_key=3)
app.command(compare, group=OWN_DATA, sort_key=4)
app.command(contrast, group=OWN_DATA, sort_key=4)
app.command(individuals, group=OWN_DATA, sort_key=4)
app.command(imagine, group=OWN_DATA, sort_key=4)
app.command(report, group=OWN_DATA, sort_key=5)
app.command(names, group=OWN_DATA, sort_key=6)
app.command(methods, group=START)
app.command(data)
app.command(reproduce, group=EXPERIMENTS)
app.command(tokenize, group=ROBOTS)
app.command(triage, group=ROBOTS)


def main(tokens: list[str] | None = None) -> int:
    """Run a command; return its exit code."""
    # Threads that wait for work sleep instead of spinning: torch's and numba's would keep each other, and whoever else
    # is on the machine, from the cores. Read when torch is imported, which no command has done yet.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        threads.bound()
    except InputError as error:
        return _refuse(str(error))
    arguments = sys.argv[1:] if tokens is None else tokens
    debug = "--debug" in arguments
    Waiting.quiet = "--quiet" in arguments
    try:
        if any("\0" in word for word in arguments):
            raise InputError("An argument holds a NUL byte, which no name of a file has; type it again.")
        for flag in (word.partition("=")[0] for word in arguments if "tokenize" not in arguments):
            if flag in FORMER:
                raise InputError(f"{flag} is now called {FORMER[flag]}; type that instead.")
        asked = {"--help", "-h", "--help-all"} & set(arguments)
        if asked and show_help(app, arguments, everything="--help-all" in asked):
            return 0
        arguments = with_study(app, arguments)
        app([{"--help-all": "--help"}.get(word, word) for word in arguments], exit_on_error=False, print_error=False)
        return 0
    except (InputError, CycloptsError) as error:
        if debug:
            traceback.print_exc()
        return _refuse(in_words(app, error, arguments) if isinstance(error, CycloptsError) else str(error))
    except KeyboardInterrupt:
        print(one_line(f"prism: interrupted; {_how_to_go_on(arguments)}"), file=sys.stderr)
        return 130
    except BrokenPipeError:
        return 0
    except SystemExit as stop:
        return int(stop.code or 0)
    except Exception as error:
        if debug:
            traceback.print_exc()
        if (reason := _fault_of_the_machine(error)) is not None:
            return _refuse(reason)
        text = one_line(f"{error!r:.500}")
        print(f"prism: internal error: {text}; run again with --debug and report it.", file=sys.stderr)
        return 1


def _refuse(reason: str) -> int:
    print(f"prism: {one_line(reason)}", file=sys.stderr)
    return 2


def _fault_of_the_machine(error: Exception) -> str | None:
    """One sentence for a disk or a memory that is full, whoever noticed it; None where the fault is ours."""
    if isinstance(error, OSError) and error.errno is not None:
        where = f" at {error.filename}" if error.filename else ""
        return f"The disk or the system refused to go on{where} ({error.strerror}); make room or choose another place."
    if isinstance(error, MemoryError) or "can't allocate memory" in str(error) or "out of memory" in str(error):
        return (
            "There is not enough memory for this; use fewer data, intentions, starts or units, or a shorter history, "
            "or a machine with more memory."
        )
    return None


def _how_to_go_on(arguments: list[str]) -> str:
    """The command that goes on where this one was interrupted, if anything was kept."""
    if "analyze" in arguments:
        return "type the same command again, which goes on where it stopped."
    places = [value for flag, value in pairwise(arguments) if flag == "--out"]
    places += [word.removeprefix("--out=") for word in arguments if word.startswith("--out=")]
    begun = (Path(place) / inner for place in places for inner in (".", UNFINISHED))
    kept = any((folder / part).is_dir() for folder in begun for part in LEFT_BEHIND)
    if not kept:
        return "nothing was kept; type the command again."
    words = [word for word in arguments if word not in ("--overwrite", "--resume")]
    return f"go on with: {shlex.join(['prism', *words, '--resume'])}"


def run() -> int:
    """The command as a process of its own; `prism_irl.__main__` begins earlier."""
    gc.freeze()  # what was imported stays
    code = main()
    gc.freeze()
    return code


if __name__ == "__main__":
    sys.exit(run())
