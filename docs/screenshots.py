"""Pages of reports as pictures for the documentation: python docs/screenshots.py [--only gridworld].

The picture of README is that of its own two commands (`--only mouse`), once more with numbers for the text about it.
Five more kinds of data, all simulated: a grid, a maze with a map, choices in trials, a robot arm, ten animals.
Each is a table, a `prism fit` as people type it, and a picture of the top of its page. `--only mice` draws the real
mice, where `PRISM_DATA` has them. Needs Chromium and playwright.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from pictures import small

from prism_irl import maze
from prism_irl.cli.main import main
from prism_irl.worlds.frustration import ACTIONS, FrustrationWorld

sys.path.append(str(Path(__file__).parents[1] / "reproduce"))
from worlds.labyrinth import LabyrinthWorld, walls

IMAGES = Path(__file__).parent / "images" / "pages"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
WIDTH, HEIGHT = 1280, 1500
FIT = ["--n-starts", "3", "--max-iterations", "150", "--device", "cpu", "--quiet"]


SAMPLES = {"mouse": "mouse", "trials": "choices"}
"""Picture → the sample that it shows, by the two commands of README."""


def analysed(folder: Path, sample: str) -> Path:
    """The page of `prism sample` and `prism analyze`."""
    table = f"{sample}.csv"
    if main(["sample", sample, "--out", table]) or main(["analyze", table, "--out", f"runs/{sample}"]):
        raise SystemExit(f"the commands for {sample} fail")
    return folder / "runs" / sample / "fit" / "report.html"


def gridworld(folder: Path) -> list[str]:
    """The frustration gridworld as a table of cells and moves."""
    steps = FrustrationWorld().simulate(120, seed=7).demonstrations.to_pandas()
    table = pd.DataFrame({"bout": steps["trajectory"], "cell": [f"x{s % 5}y{s // 5}" for s in steps["state"]]})
    table["move"] = [ACTIONS[a] for a in steps["action"]]
    table.to_csv(folder / "steps.csv", index=False)
    cells = [{"state": f"x{s % 5}y{s // 5}", "x": s % 5, "y": s // 5} for s in range(25)]
    pd.DataFrame(cells).to_csv(folder / "cells.csv", index=False)
    columns = "--trajectory bout --state cell --action move --map cells.csv"
    return [*columns.split(), "--method", "hiql", "--intentions", "2"]


def labyrinth(folder: Path) -> list[str]:
    """Simulated mice in the maze, with its map and its walls."""
    demos = LabyrinthWorld(horizon=300).simulate(60, seed=1).demonstrations
    demos.to_pandas().drop(columns="intention").to_csv(folder / "steps.csv", index=False)
    xy, sides = maze.layout(), np.array([np.ravel(wall) for wall in walls()])
    nodes = pd.DataFrame({"state": range(127), "x": xy[:, 0], "y": -xy[:, 1]})
    nodes["neighbours"] = ["", *map(str, maze.parents()[1:])]
    lines = pd.DataFrame({"x": sides[:, 0], "y": -sides[:, 1], "x2": sides[:, -2], "y2": -sides[:, -1]})
    pd.concat([nodes.astype({"state": "Int64"}), lines]).to_csv(folder / "nodes.csv", index=False)
    return ["--map", "nodes.csv", "--valid-actions", "observed", "--method", "hiql", "--intentions", "3"]


def robot(folder: Path) -> list[str]:
    """The sample arm: positions and velocities, no tokens."""
    main(["sample", "arm", "--out", str(folder / "steps.csv")])
    return ["--trajectory", "demo", "--observe", "x,y,z,grip", "--act", "vx,vy,vz,vgrip"]


def ten_animals(folder: Path) -> list[str]:
    """Ten animals whose bouts are numbered from 0 in each, with accents of their own."""
    steps = FrustrationWorld().simulate(150, seed=11).demonstrations.to_pandas()
    steps["animal"] = [f"m{t // 15}" for t in steps["trajectory"]]
    steps["bout"] = steps["trajectory"] % 15
    steps[["animal", "bout", "state", "action"]].to_csv(folder / "steps.csv", index=False)
    return [
        "--trajectory",
        "animal,bout",
        "--group",
        "animal",
        "--grid",
        "5x5",
        "--method",
        "hiql",
        "--intentions",
        "2",
        "--individuals",
    ]


PAGES: dict[str, Callable[[Path], list[str]]] = {
    "gridworld": gridworld,
    "labyrinth": labyrinth,
    "robot": robot,
    "ten_animals": ten_animals,
}


MARKS = ("#answer-title", "#answer figure", "#raster", "#phases-title", "#answer .renaming", "#verdict details")
"""What the numbers of the annotated page point at, in their order."""
PARTS = {"mouse": {"trips": "#phases-title + *"}, "robot": {"curves": "#answer figure.picture"}}
"""Parts of pages that have pictures of their own."""
NUMBERED = """marks => marks.forEach((mark, i) => {
  const box = document.querySelector(mark).getBoundingClientRect(), dot = document.createElement("b");
  dot.textContent = i + 1;
  dot.style.cssText = `position:absolute;left:${box.left + scrollX - 34}px;top:${box.top + scrollY}px;width:30px;` +
    "height:30px;border-radius:15px;background:#b1001c;color:#fff;font:bold 17px/30px sans-serif;text-align:center";
  document.body.append(dot);
})"""


def photograph(page: Path, name: str) -> None:
    """Save the top of a page, the parts that have pictures of their own, and the page of README with numbers."""
    from playwright.sync_api import sync_playwright

    path = os.environ.get("PRISM_BROWSER") or next((p for name in BROWSERS if (p := shutil.which(name))), None)
    IMAGES.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path)
        tab = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        tab.goto(page.as_uri())
        tab.wait_for_timeout(500)
        made = [name, *PARTS.get(name, {})]
        tab.screenshot(path=IMAGES / f"{name}.png")
        for part, selector in PARTS.get(name, {}).items():
            tab.locator(selector).first.screenshot(path=IMAGES / f"{part}.png")
        if name == "mouse":
            made.append("annotated")
            tab.evaluate(NUMBERED, list(MARKS))
            tab.screenshot(path=IMAGES / "annotated.png")
        browser.close()
    for one in made:
        small(IMAGES / f"{one}.png", IMAGES / f"{one}.png")
        print(IMAGES / f"{one}.png", flush=True)


def mice(folder: Path) -> None:
    """Maps of one fit to the real mice, and the paper's own model under its four penalties, one start of each."""
    from labyrinth.data import Labyrinth
    from labyrinth.run import run as reproduce

    one = replace(Labyrinth(), explained=("state+goals",), independent_fits=1, paper_starts=1)
    reproduce(one, folder, parts=("alignment",))
    for figure, picture in {"c_maps": "mice_maps", "d_segmentation": "mice_segmentation"}.items():
        small(folder / "figures" / f"{figure}.png", IMAGES / f"{picture}.png")
        print(IMAGES / f"{picture}.png", flush=True)


def run() -> int:
    """Make the pages that were asked for; returns the exit code of the first fit that fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=[*SAMPLES, "mice", *PAGES], action="append")
    for name in parser.parse_args().only or [*SAMPLES, *PAGES]:
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            os.chdir(folder)
            if name == "mice":
                mice(folder)
            elif name in SAMPLES:
                photograph(analysed(folder, SAMPLES[name]), name)
            else:
                shared = [] if name == "robot" else FIT  # phases have no starts
                code = main(["fit", "steps.csv", *PAGES[name](folder), *shared, "--out", "run"])
                if code:
                    return code
                photograph(folder / "run" / "report.html", name)
            os.chdir(IMAGES)
    return 0


if __name__ == "__main__":
    sys.exit(run())
