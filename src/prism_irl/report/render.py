"""One self-contained HTML file from a run folder: the page that people open first.

Reads metrics.json, config.json, history.csv, explorer.json and figures/, never a model, so that a report can be made
again years later. Figures travel inside the page as data URIs: nothing is loaded from anywhere, and no script in a
figure can run.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from prism_irl import __version__, storage
from prism_irl.errors import InputError
from prism_irl.figures.palette import intention_color
from prism_irl.report import screen, table_rows
from prism_irl.report.answers import answer, methods_text, questions
from prism_irl.report.checks import FIGURES as CHECKS
from prism_irl.report.checks import read_checks, section
from prism_irl.report.contrast import read_contrasts
from prism_irl.report.contrast import section as contrast_section
from prism_irl.report.explorer import FILE as EXPLORER
from prism_irl.report.explorer import FRAMES, exemplars, read_explorer, read_frames, script_json
from prism_irl.report.names import FILE as NAMES
from prism_irl.report.names import default_names, names_in
from prism_irl.report.verdict import (
    in_seconds,
    is_comparison,
    is_evidence,
    is_selection,
    mapping,
    number,
    overall,
    part_name,
    part_remark,
    sentences,
    templates,
    verdict,
)
from prism_irl.storage import inside

MAPS, BUDGET = "maps", "budget"
SWITCHES = ("switches", "inputs")
MAX_FIGURE = 400_000  # bytes of an SVG above which its PNG is taken instead, if there is a smaller one
MAX_FIGURES = 5_500_000  # bytes of figures, data and explorer: base64 adds a third, and the page stays below 8 MB
MAX_DATA = 600_000  # bytes of a figure's CSV; a longer one stays in the run folder
MOST_UNUSUAL = 8  # episodes that are listed


class EmbeddedFigure(NamedTuple):
    """A figure as a data URI, with its caption, its width on paper (0 where it does not say), and its data as CSV."""

    stem: str
    caption: str
    uri: str
    points: float
    data: str = ""


def write_report(folder: str | Path) -> Path:
    """Write ``report.html`` into a run folder and return its path; a missing or broken file is an `InputError`.

    The folder holds ``metrics.json`` and, where the run wrote them, ``config.json``, ``explorer.json`` (the interactive
    part), ``figures/*.svg`` with their data in ``*.csv``, and ``figures/captions.json`` ({stem: caption}; its order is
    the order of the figures). A ``names.json`` that somebody put there names the intentions.
    """
    source = Path(folder)
    if not source.is_dir():
        raise InputError(f"There is no folder {source}; give the folder that a run wrote.")
    path = source / "report.html"
    storage.write_text(path, render(source))
    return path


def _read_object(folder: Path, name: str) -> Mapping[str, Any]:
    if not inside(path := folder / name, folder):
        raise InputError(f"{path} points out of the run folder; put the file itself there.")
    return storage.read_object(path)


def render(folder: Path) -> str:
    """Return the report of a run folder as HTML; the same folder gives the same text."""
    metrics = _read_object(folder, "metrics.json")
    comparison, is_test = is_comparison(metrics), is_evidence(metrics)
    if not comparison and "predictive_ll" not in metrics:
        raise InputError(f"{folder / 'metrics.json'} holds neither a fit nor a table of methods; run again.")
    config = _read_object(folder, "config.json") if (folder / "config.json").is_file() else {}
    explorer, checks = read_explorer(folder), read_checks(folder)
    names = _names(folder, metrics, explorer)
    frames = None if explorer is None else read_frames(folder, len(explorer["trajectories"]))
    data = ([] if explorer is None else [EXPLORER]) + ([] if frames is None else [FRAMES])
    figures, left_out = _figures(folder, sum((folder / name).stat().st_size for name in data))
    contrasts = [contrast_section(one, names, metrics) for one in read_contrasts(folder)]
    budget, found, command = table_rows.budget_rows(metrics), verdict(metrics), config.get("command")
    elsewhere = {*CHECKS, *([BUDGET] if budget else []), *([] if explorer is None else [MAPS, *SWITCHES])}
    asked = [] if explorer is None else questions(metrics, explorer, names or [])
    titles = {is_test: "The budget of predictability", is_selection(metrics): "Numbers of intentions"}
    said = {metrics.get("recommendation"), *(one.text for one in (sentences(metrics["evidence"]) if is_test else []))}
    facts = {
        "title": _title(metrics, config),
        "metrics": metrics,
        "comparison": comparison,
        "facts": _facts(metrics),
        "questions": asked,
        "findings": [] if asked else found,
        "summary": overall(metrics, [f for question in asked for f in question.findings] or found),
        "screen": None if explorer is None else _screen(folder, metrics, explorer, names or []),
        "folded": explorer is not None,
        "notes": [str(note) for note in metrics.get("notes") or [] if note not in said],
        "table": table_rows.method_table(metrics) if comparison and not (budget and is_test) else None,
        "table_title": metrics.get("table_title") or titles.get(True, "Methods"),
        "step": number(metrics.get("step_seconds")),
        "part": part_name(metrics),
        "part_remark": part_remark(metrics),
        "references": [] if comparison else table_rows.reference_rows(metrics),
        "intentions": [] if comparison else table_rows.intention_rows(metrics, names),
        "explorer": None if explorer is None else _explorer(explorer, names or [], frames, metrics),
        "exemplars": [] if explorer is None else exemplars(explorer, frames),
        "budget": budget,
        "resampled": is_selection(metrics) or is_test,
        "checks": None if checks is None else section(checks, names, mapping(explorer).get("states")),
        "contrasts": [(one, [f for f in figures if f.stem.startswith(f"contrast-{one.key}-")]) for one in contrasts],
        "by_stem": {figure.stem: figure for figure in figures},
        "checks_figures": CHECKS,
        "switch_figures": SWITCHES,
        "figures": [f for f in figures if f.stem not in elsewhere and not f.stem.startswith("contrast-")],
        "left_out": left_out,
        "command": shlex.join(map(str, command)) if isinstance(command, list) else str(command or ""),
        "versions": sorted((str(k), str(v)) for k, v in mapping(config.get("versions")).items()),
        "config": json.dumps(config, indent=2, ensure_ascii=False) if config else "",
        "release": mapping(config.get("versions")).get("prism-irl") or __version__,
        "methods": "" if comparison else " ".join([methods_text(metrics, config), *(one.methods for one in contrasts)]),
    }
    page = templates().get_template("report.html.j2").render(facts)
    # The script of the page is allowed, by its hash in the content security policy, and no other.
    own = page[page.rindex("<script>") + len("<script>") : page.rindex("</script>")]
    digest = base64.b64encode(hashlib.sha256(own.encode()).digest()).decode()
    return page.replace("'own-script'", f"'sha256-{digest}'", 1)


# -- words -------------------------------------------------------------------------------------------------------------


def _title(metrics: Mapping[str, Any], config: Mapping[str, Any]) -> str:
    title = metrics.get("title") or config.get("title")
    if title:
        return str(title)
    if is_comparison(metrics):
        return "Comparison of methods"
    file = mapping(config.get("data")).get("file")
    if file and file != "in memory":
        return f"{_found(metrics).title()} in {file}"
    return f"{metrics.get('method') or 'Model'} fit"


def _found(metrics: Mapping[str, Any]) -> str:
    return "phases" if metrics.get("method") == "Phases" else "intentions"


def _facts(metrics: Mapping[str, Any]) -> list[str]:
    """Return the size of the run, in a few words each."""
    facts = []
    for key in ("n_intentions", "n_trajectories", "n_steps", "folds", "seeds"):
        value, noun = metrics.get(key), key.removeprefix("n_").replace("intentions", _found(metrics))
        count = float(len(value)) if isinstance(value, list) else number(value)
        if count is not None:
            one = "trajectory" if noun == "trajectories" else noun.removesuffix("s")
            facts.append(f"{count:,.0f} {one if count == 1 else noun}")
    pair = metrics.get("pair")
    if pair is not None and not isinstance(pair, str):
        raise TypeError(f"the pair is {pair!r}")
    return [*facts, pair.replace("+", " + ")] if pair else facts


def _names(folder: Path, metrics: Mapping[str, Any], explorer: Mapping[str, Any] | None) -> list[str] | None:
    """Return the names of the intentions: those of names.json in the run folder, of the run, or numbers."""
    n = number((explorer or metrics).get("n_intentions"))
    if n is None:
        return None
    if (folder / NAMES).is_file() and not inside(folder / NAMES, folder):
        raise InputError(f"{folder / NAMES} points out of the run folder; put the file itself there.")
    if (found := names_in(folder, int(n))) is not None:
        return found
    given = (explorer or {}).get("names")
    return [str(name) for name in given] if given and len(given) == n else default_names(int(n))


def _explorer(
    explorer: Mapping[str, Any], names: list[str], frames: Mapping[str, Any] | None, metrics: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what the template shows of the interactive part, and the data for its script."""
    rows = explorer["trajectories"]
    keys = ("states", "actions", "trajectories", "events", "layout", "rewards", "values", "leads", "occupancy")
    colors = [intention_color(k) for k in range(2 * len(names) + 8)]
    data = {key: explorer.get(key) for key in keys} | {"names": names, "colors": colors, "frames": frames}
    data["step_seconds"] = number(metrics.get("step_seconds"))
    return {
        "json": script_json(data),
        "names": list(zip(names, colors, strict=False)),
        "n": len(rows),
        "total": int(explorer["total"]["trajectories"]),
        "cut": any(one["length"] > len(one["states"]) for one in rows),
        "fit": mapping(explorer.get("fit")),
        "events": [str(name) for name in explorer.get("events") or []],
        "layout": explorer.get("layout"),
        "frames": frames,
        "has_truth": any("truth" in one for one in rows),
        "known": number(metrics.get("known_steps")),
    }


def _screen(folder: Path, metrics: Mapping[str, Any], explorer: Mapping[str, Any], names: list[str]) -> dict[str, Any]:
    """Return what the template shows first: answer, map or tables, phases, and how intentions follow one another."""
    step = number(metrics.get("step_seconds"))
    moves, unusual = explorer.get("movement"), dict[str, list[str]]()
    for one in (moves or {}).get("unusual", []):
        unusual.setdefault(str(one["episode"]), []).append(str(one["reason"]).format(*names))
    return {
        "answer": answer(metrics, explorer, names),
        "each": in_seconds(1, step),
        "moves": moves,
        "unusual": list(unusual.items())[:MOST_UNUSUAL],
        "map": None if moves else screen.picture(explorer, names),
        "choices": screen.choices(explorer, names),
        "phases": screen.phases(folder, explorer, step),
        "follows": screen.transitions(explorer, names, step),
    }


# -- pictures ----------------------------------------------------------------------------------------------------------


def _figures(folder: Path, used: int) -> tuple[list[EmbeddedFigure], list[str]]:
    """Return the figures of the run in the order of their captions, and the names of those that were too large.

    ``used`` bytes of the page are taken already.
    """
    found = {path.stem: path for path in sorted((folder / "figures").glob("*.svg")) if inside(path, folder)}
    captions: Mapping[str, Any] = {}
    if (folder / "figures" / "captions.json").is_file():
        captions = _read_object(folder / "figures", "captions.json")
    # Only names that the listing gave are opened, whatever the captions say.
    order = [stem for stem in captions if stem in found] + [stem for stem in found if stem not in captions]
    figures, left_out = [], []
    for stem in order:
        data, kind = found[stem].read_bytes(), "svg+xml"
        points = _width(data)
        picture = found[stem].with_name(stem + ".png")
        if len(data) > MAX_FIGURE and picture.is_file() and inside(picture, folder):
            data, kind = min((data, kind), (picture.read_bytes(), "png"), key=lambda one: len(one[0]))
        if used + len(data) > MAX_FIGURES:
            left_out.append(f"figures/{stem}.svg")
            continue
        used += len(data)
        caption = str(captions.get(stem) or stem.replace("_", " ").replace("-", " "))
        figures.append(EmbeddedFigure(stem, caption, _uri(f"image/{kind}", data), points))
    # Data takes the room that the figures leave: no figure is left out for the sake of a table.
    for i, figure in enumerate(figures):
        numbers = found[figure.stem].with_name(figure.stem + ".csv")
        if not numbers.is_file() or not inside(numbers, folder):
            continue
        size = numbers.stat().st_size
        if size <= min(MAX_DATA, MAX_FIGURES - used):
            used += size
            figures[i] = figure._replace(data=_uri("text/csv", numbers.read_bytes()))
        else:
            told = f"{figure.caption.rstrip('.')}. Its data is in figures/{numbers.name}."
            figures[i] = figure._replace(caption=told)
    return figures, left_out


def _uri(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode('ascii')}"


def _width(svg: bytes) -> float:
    """Return the width of an SVG in points, as matplotlib writes it; 0 where it does not say."""
    match = re.search(rb"<svg[^>]*?\swidth=\"([0-9.]+)(?:pt|px)?\"", svg[:4000])
    return float(match[1]) if match else 0.0
