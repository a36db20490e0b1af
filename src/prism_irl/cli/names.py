"""`prism names`: what people call the intentions of a run, kept beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from prism_irl.cli.options import CommonOptions
from prism_irl.errors import InputError, one_line


def names(
    run: Path,
    file: str | None = None,
    *,
    like: Annotated[Path | None, Parameter(name="--like")] = None,
    common: CommonOptions = CommonOptions(),
) -> None:
    """Name the intentions of a run: its report and prism segment then call them so.

    Example: prism names runs/mouse water,home,explore

    Example: prism names runs/mouse names.json

    Example: prism names runs/mouse-again --like runs/mouse

    Parameters
    ----------
    run
        Folder of a fit.
    file
        The names with commas between them, intention 0 first; or names.json as the button of the report saves it.
        Without it, and without --like, the names are printed.
    like
        Folder of another fit, whose names are given to the intentions that resemble its own.
    """
    from prism_irl import storage
    from prism_irl.cli.printing import print_json
    from prism_irl.cli.report import write_again
    from prism_irl.cli.run_marker import adding
    from prism_irl.report.name_matching import carry_names, remember
    from prism_irl.report.names import FILE, check_names, read_names, write_names

    if file is not None and like is not None:
        raise InputError("A file and --like both give names; pass one of them.")
    if not (run / "metrics.json").is_file():
        raise InputError(f"There is no run in {run}; give the folder that a fit wrote.")
    n = storage.read_object(run / "metrics.json").get("n_intentions")
    if not isinstance(n, int) or n < 1:
        raise InputError(f"{run} is no fit and has no intentions to name; give the folder that a fit wrote.")
    if file is None and like is None:
        found = read_names(run / FILE, n) if (run / FILE).is_file() else []
        print_json({"names": found}) if common.json else print(
            "\n".join(found) or "Nobody has named the intentions yet."
        )
        return
    notes: list[str] = []
    if like is not None:
        given, notes = carry_names(remember(like), remember(run))
    else:
        assert file is not None
        typed = Path(file).suffix != ".json" and not Path(file).is_file()
        given = check_names(file.split(","), n, "what was typed") if typed else read_names(Path(file), n)
    with adding(run):
        write_names(run, given)
        path = write_again(run)
    for note in notes:
        print(note)
    print(one_line(f"Named {', '.join(given)}. Report: {path}"))
