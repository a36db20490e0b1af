"""`prism report`: the page of a run again, for instance with names for its intentions."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from prism_irl import storage
from prism_irl.cli.options import CommonOptions
from prism_irl.cli.runs import locked
from prism_irl.errors import InputError, brief, one_line


def report(run: Path, *, common: CommonOptions = CommonOptions()) -> None:
    """Write report.html of a run folder again.

    Example: prism report runs/mouse

    Parameters
    ----------
    run
        Folder that fit, demo or reproduce wrote.
    """
    if not run.is_dir():
        raise InputError(f"There is no folder {run}; give the folder that a run wrote.")
    with locked(run):
        path = write_again(run)
    print(one_line(f"Report: {path}"))


def write_again(run: Path) -> Path:
    """The page of a run that was there before this command: its files may have been changed since, in any way.

    Where intentions have other names than in its figures, these are drawn again.
    """
    from prism_irl.checked import BROKEN
    from prism_irl.report.render import write_report

    try:
        _draw_again(run)
        return write_report(run)
    except BROKEN as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"The files in {run} are not those of a run ({type(error).__name__}: {brief(error)}); restore them or run "
            "again."
        ) from error


def _draw_again(run: Path) -> None:
    """Draw the figures of a run again where its intentions have got other names than its figures say.

    Names come after a fit: from the button of its page, or from `prism names`. All that is drawn lies in the run;
    figures/names.json says which names the figures have, and without it these are numbers.
    """
    from prism_irl.report.explorer import read_explorer
    from prism_irl.report.names import FILE, default_names, read_names
    from prism_irl.storage import inside

    explorer = read_explorer(run)
    if explorer is None or not (run / FILE).is_file() or not inside(run / FILE, run):
        return
    from prism_irl.cli.animals import draw_individuals
    from prism_irl.report.contrast import read_contrasts
    from prism_irl.report.draw import draw_run
    from prism_irl.studies.contrast import write_contrast

    n, figures = int(explorer["n_intentions"]), run / "figures"
    names, before = read_names(run / FILE, n), list(explorer["names"] or default_names(n))
    if (figures / FILE).is_file():
        with suppress(InputError):
            before = read_names(figures / FILE, n)
    if names == before:
        return
    draw_run(run, names, maps=(figures / "maps.svg").is_file())
    for contrast in read_contrasts(run):
        write_contrast(run, contrast, names)
    if (run / "individuals.json").is_file() and (figures / "individuals.svg").is_file():
        draw_individuals(figures, storage.read_object(run / "individuals.json"), names)


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
        Folder of another fit to the same data, whose names are given to the intentions that resemble its own.
    """
    from prism_irl import storage
    from prism_irl.cli.printing import print_json
    from prism_irl.cli.runs import adding
    from prism_irl.report import names as files

    if file is not None and like is not None:
        raise InputError("A file and --like both give names; pass one of them.")
    if not (run / "metrics.json").is_file():
        raise InputError(f"There is no run in {run}; give the folder that a fit wrote.")
    n = storage.read_object(run / "metrics.json").get("n_intentions")
    if not isinstance(n, int) or n < 1:
        raise InputError(f"{run} is no fit and has no intentions to name; give the folder that a fit wrote.")
    if file is None and like is None:
        found = files.names_in(run, n) or []
        print_json({"names": found}) if common.json else print(
            "\n".join(found) or "Nobody has named the intentions yet."
        )
        return
    notes: list[str] = []
    if like is not None:
        rows, posterior = files.segmentation(run)
        if not files.same_rows(files.segmentation(like)[0], rows):
            raise InputError(f"{like} was fitted to other data than {run}, and nothing can be compared; type names.")
        given, notes = files.carry_names(like, rows, posterior)
    else:
        assert file is not None
        typed = Path(file).suffix != ".json" and not Path(file).is_file()
        given = files.check_names(file.split(","), n, "what was typed") if typed else files.read_names(Path(file), n)
    with adding(run):
        files.write_names(run, given)
        path = write_again(run)
    for note in notes:
        print(note)
    print(one_line(f"Named {', '.join(given)}. Report: {path}"))
