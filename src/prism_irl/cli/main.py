"""The command `prism`: what people type, in the groups that its help shows.

Each verb is a file of its own, and imports what is heavy (torch, scikit-learn, pandas) only when it runs, so that the
help is there at once.

Exit codes: 0 ok; 2 wrong input, one sentence on standard error; 1 our fault; 130 interrupted, checkpoint kept.
"""

from __future__ import annotations

import gc
import io
import logging
import os
import shlex
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from cyclopts import App, CycloptsError, Group, MissingArgumentError
from cyclopts.exceptions import UnusedCliTokensError

from prism_irl import __version__, limits
from prism_irl.cli.analyze import analyze_command, with_fits
from prism_irl.cli.animals import contrast, imagine, individuals
from prism_irl.cli.fit import fit
from prism_irl.cli.help import show_help
from prism_irl.cli.options import EXPERIMENTS, HELP, OWN_DATA, ROBOTS, START
from prism_irl.cli.progress import Waiting
from prism_irl.cli.report import names, report
from prism_irl.cli.reproduce import reproduce
from prism_irl.cli.robots import tokenize, triage, with_local_copies
from prism_irl.cli.runs import LEFT_BEHIND, UNFINISHED
from prism_irl.cli.segment import score, segment
from prism_irl.cli.select import compare, evidence, select_command
from prism_irl.cli.start import app as data
from prism_irl.cli.start import demo, methods, sample
from prism_irl.cli.study import init, with_study
from prism_irl.errors import InputError, one_line

FORMER = {"--inputs": "--covariates", "--since": "--time-since", "--observations": "--network-inputs"}
FORMER |= {"--recount": "--count-all", "--power": "--window-weight"}
"""Flags of version 0.1.0 by the names that they have now."""
REMOVED = {
    "--world": "prism demo simulates its gridworld alone; prism sample writes tables of other worlds",
    "--tensorboard": "history.csv of the run has every iteration, and fit(on_iteration=…) in Python is told of each",
}
"""Flags of version 0.1.0 that are gone, and what takes their place."""

app = App(
    name="prism",
    suppress_keyboard_interrupt=False,
    version=__version__,
    group_commands=HELP,
    help="""Recover what an agent wants, and when it changes its mind, from states and actions alone.

A first look: prism demo

A table of your own (one row per step): prism analyze mouse.csv

Every command explains itself, with an example: prism fit --help
""",
)

COMMANDS: dict[Group, dict[str, Callable[..., None]]] = {
    START: {"demo": demo, "sample": sample, "methods": methods},
    OWN_DATA: {
        "analyze": analyze_command,
        "init": init,
        "evidence": evidence,
        "select": select_command,
        "fit": fit,
        "segment": segment,
        "score": score,
        "compare": compare,
        "contrast": contrast,
        "individuals": individuals,
        "imagine": imagine,
        "report": report,
        "names": names,
    },
    EXPERIMENTS: {"reproduce": reproduce},
    ROBOTS: {"tokenize": tokenize, "triage": triage},
}
"""Verbs in the order in which the help shows them."""
for _group, _verbs in COMMANDS.items():
    for _place, (_name, _verb) in enumerate(_verbs.items()):
        app.command(_verb, name=_name, group=_group, sort_key=_place)
app.command(data)


def main(tokens: list[str] | None = None) -> int:
    """Run a command; return its exit code."""
    # Threads that wait for work sleep instead of spinning: torch's and numba's would keep each other, and whoever else
    # is on the machine, from the cores. Read when torch is imported, which no command has done yet.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        limits.bound_threads()
    except InputError as error:
        return _say(2, str(error))
    arguments = sys.argv[1:] if tokens is None else tokens
    debug = "--debug" in arguments
    Waiting.quiet = "--quiet" in arguments
    try:
        if any("\0" in word for word in arguments):
            raise InputError("An argument holds a NUL byte, which no name of a file has; type it again.")
        for flag in (word.partition("=")[0] for word in arguments if "tokenize" not in arguments):
            if flag in FORMER:
                raise InputError(f"{flag} is now called {FORMER[flag]}; type that instead.")
            if flag in REMOVED:
                raise InputError(f"{flag} is gone: {REMOVED[flag]}.")
        asked = {"--help", "-h", "--help-all"} & set(arguments)
        if asked and show_help(app, arguments, everything="--help-all" in asked):
            return 0
        arguments = with_local_copies(with_study(app, with_fits(arguments)))
        app([{"--help-all": "--help"}.get(word, word) for word in arguments], exit_on_error=False, print_error=False)
        return 0
    except (InputError, CycloptsError) as error:
        if debug:
            traceback.print_exc()
        return _say(2, in_words(app, error, arguments) if isinstance(error, CycloptsError) else str(error))
    except KeyboardInterrupt:
        return _interrupted(arguments)
    except BrokenPipeError:
        return 0
    except SystemExit as stop:
        return int(stop.code or 0)
    except Exception as error:
        if isinstance(error.__cause__, KeyboardInterrupt):  # compiled code raises a SystemError from it
            return _interrupted(arguments)
        if debug:
            traceback.print_exc()
        if (reason := _fault_of_the_machine(error)) is not None:
            return _say(2, reason)
        text = one_line(f"{error!r:.500}")
        print(f"prism: internal error: {text}; run again with --debug and report it.", file=sys.stderr)
        return 1


def _say(code: int, text: str) -> int:
    print(f"prism: {one_line(text)}", file=sys.stderr)
    return code


def _interrupted(arguments: list[str]) -> int:
    """Say how to go on where this command was interrupted, if anything was kept."""
    places = [value for flag, value in pairwise(arguments) if flag == "--out"]
    places += [word.removeprefix("--out=") for word in arguments if word.startswith("--out=")]
    begun = (Path(place) / inner for place in places for inner in (".", UNFINISHED))
    how = "nothing was kept; type the command again."
    if "analyze" in arguments:
        how = "type the same command again, which goes on where it stopped."
    elif any((folder / part).is_dir() for folder in begun for part in LEFT_BEHIND):
        words = [word for word in arguments if word not in ("--overwrite", "--resume")]
        how = f"go on with: {shlex.join(['prism', *words, '--resume'])}"
    return _say(130, f"interrupted; {how}")


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


def in_words(app: App, error: CycloptsError, arguments: list[str]) -> str:
    """One sentence for what the parser did not like; its own, where that is clear enough."""
    chain = error.command_chain or ()
    command = " ".join(chain) or "prism"
    if isinstance(error, MissingArgumentError) and error.argument is not None:
        name = str(error.argument.name)
        if any(word == name or word.startswith(f"{name}=") for word in arguments):
            return f"{name} needs a value after it{_example(app, chain)}."
        if error.argument.field_info.is_positional:
            name = name.removeprefix("--").upper()
        return f"{command} needs {name}, which is missing{_example(app, chain)}."
    if isinstance(error, UnusedCliTokensError):
        unused = [str(word) for word in error.unused_tokens or ()]
        words = " ".join(unused)
        if len(unused) > 1 and all(Path(word).suffix.lower() in (".csv", ".tsv", ".parquet") for word in unused):
            several = f'"*{Path(unused[0]).suffix}"'
            return f"{command} takes one table, or several as one pattern in quotes: {command} {several}, not {words}."
        return f"{command} does not know what to do with {words}; options begin with --, see prism {command} --help."
    return str(error)


def _example(app: App, chain: Sequence[str]) -> str:
    """The example of the command's help, as the end of a sentence."""
    found: Any = app
    for name in chain:
        found = found[name]
    text = getattr(found.default_command, "__doc__", None) or ""
    lines = (line.strip() for line in text.splitlines())
    shown = next((line.removeprefix("Example:").strip() for line in lines if line.startswith("Example:")), "")
    return f"; for example: {shown}" if shown else f"; see {' '.join(['prism', *chain])} --help"


def _terminated(*_: object) -> None:
    """Leave as an error does: temporary files are removed, what can be gone on from stays."""
    raise SystemExit(128 + signal.SIGTERM)


def run() -> int:
    """The command as a process of its own; `prism_irl.__main__` begins earlier."""
    gc.freeze()  # what was imported stays
    signal.signal(signal.SIGTERM, _terminated)
    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal without our characters sees their codes
        sys.stdout.reconfigure(errors="backslashreplace")
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # of its caches nobody has to hear, without a home either
    code = main()
    gc.freeze()
    return code


if __name__ == "__main__":
    sys.exit(run())
