"""Figures of a run once more, where its intentions have got other names than the figures say.

Names come after a fit: from the button of its page, or from `prism names`. What is drawn lies in the run, so that no
figure needs the data or a fit again; ``figures/names.json`` says which names the figures have, and without it these are
numbers.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from prism_irl import storage
from prism_irl.errors import InputError
from prism_irl.report.names import FILE, default_names, read_names, write_names
from prism_irl.report.run_files import inside


def redraw(run: Path) -> None:
    """Draw the figures of a run that name its intentions again, if they have other names by now."""
    from prism_irl.report.explorer import read_explorer

    explorer = read_explorer(run)
    if explorer is None or not (run / FILE).is_file() or not inside(run / FILE, run):
        return
    n, figures = int(explorer["n_intentions"]), run / "figures"
    names = read_names(run / FILE, n)
    if names == _drawn_with(figures, explorer, n):
        return
    _draw_explorer(run, explorer, names)
    try:
        _draw_fit(run, names)
    except InputError as error:  # a method from outside, or a run whose model is gone: its page has the names
        print(f"prism: warning: some figures keep the numbers of the intentions. {error}", file=sys.stderr)
    write_names(figures, names)


def _drawn_with(figures: Path, explorer: Mapping[str, Any], n: int) -> list[str]:
    """The names that the figures have."""
    if (figures / FILE).is_file():
        with suppress(InputError):
            return read_names(figures / FILE, n)
    return list(explorer["names"] or default_names(n))


def _draw_explorer(run: Path, explorer: Mapping[str, Any], names: Sequence[str]) -> None:
    """Maps and switches, and the data beside simulations: of every run that has a page with intentions."""
    from prism_irl.report import check_pictures, checks, pictures

    figures = run / "figures"
    pictures.write_pictures(figures, explorer, names, maps=(figures / "maps.svg").is_file())
    found = checks.read_checks(run)
    if found is not None and (figures / "checks.svg").is_file():
        check_pictures.draw_curves(figures, found, names, explorer["states"])


def _draw_fit(run: Path, names: Sequence[str]) -> None:
    """What only a fit has, from the rows that it keeps: raster, dwell, intervals, inputs, and what was asked since."""
    from prism_irl.cli.individuals import draw_individuals
    from prism_irl.cli.run_data import open_run_data
    from prism_irl.models.run_files import begin_figures
    from prism_irl.report.contrast import read_contrasts
    from prism_irl.studies import interval_files
    from prism_irl.studies.contrast_files import write_contrast

    metrics, figures = storage.read_object(run / "metrics.json"), run / "figures"
    if (figures / "segmentation.svg").is_file():
        data = open_run_data(run)
        begin_figures(figures, data.model, data.demos, data.labels, names)()
        found = None
        if metrics.get("intervals") and (run / interval_files.TABLE).is_file():
            numbers = interval_files.kept_numbers(run, metrics["intervals"]["numbers"])
            interval_files.draw_intervals(figures, numbers, names, data.demos.state_names)
            found = {"numbers": numbers}
        if data.inputs is not None and (figures / "inputs.svg").is_file():
            chain: Any = data.model.switching_  # type: ignore[attr-defined]
            interval_files.draw_inputs(figures, data.inputs, chain, found, names)
    for contrast in read_contrasts(run):
        write_contrast(run, contrast, names)
    if (run / "individuals.json").is_file() and (figures / "individuals.svg").is_file():
        draw_individuals(figures, storage.read_object(run / "individuals.json"), names)
