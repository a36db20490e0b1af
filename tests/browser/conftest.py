"""A run folder with everything in it, and Chromium to open its page with."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from prism_irl import storage
from prism_irl.report import draw, explorer
from prism_irl.report.places import grid
from prism_irl.report.render import write_report
from prism_irl.worlds.frustration import ACTIONS, FrustrationWorld

ROOT = Path(__file__).parents[2]
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
INSTALL = "apt-get install --yes chromium (or set PRISM_BROWSER to a Chromium or Chrome)"


@pytest.fixture(scope="session")
def browser():
    """Chromium of the system; without one the tests are skipped, but not in CI."""
    given = os.environ.get("PRISM_BROWSER")
    path = given or next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if path is None:
        message = f"There is no browser to open the report with; install one: {INSTALL}"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path)
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def screenshots():
    """Where pictures of the page stay for people to look at."""
    folder = ROOT / "runs" / "screenshots"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    """The run folder of a fit: the exact smoother of the gridworld stands in for a model."""
    folder = tmp_path_factory.mktemp("run")
    world = FrustrationWorld()
    simulation = world.simulate(40, seed=2)
    demos = simulation.demonstrations
    probabilities = world.oracle(demos).smoothed
    written = explorer.write_explorer(
        folder,
        demos,
        probabilities,
        layout=grid(world.size, world.size, world.barriers),
        rewards=world.rewards.reshape(2, world.n_states, -1).mean(axis=-1),
        actions=ACTIONS,
        counters={"frustration": simulation.counters},
    )
    captions = draw.write_pictures(folder / "figures", written)
    storage.write_json(folder / "figures" / "captions.json", captions)
    usage = np.bincount(probabilities.argmax(axis=1), minlength=2) / demos.n_steps
    metrics = {
        "title": "A page for tests, its scores made up",  # the pictures of it stay around
        "method": "PRISM",
        "n_intentions": 2,
        "n_trajectories": len(demos),
        "n_steps": demos.n_steps,
        "predictive_ll": {"train": -1.1, "validation": -1.1},
        "paper_score": {"train": -1.1, "validation": -1.1},
        "leaks": False,
        "mean_dwell": 6.4,
        "agreement": 0.95,
        "em": {"iterations": 30, "converged": True, "seconds": 1.0, "starts": 4},
        "usage": usage,
        "dwell_per_intention": [6.4, 6.5],
    }
    storage.write_json(folder / "metrics.json", metrics)
    write_report(folder)
    return folder


class Watched:
    """A page that remembers what it complained about and what it asked for."""

    def __init__(self, browser, path, width=1280, height=900, folded=False):
        self.page = browser.new_page(viewport={"width": width, "height": height}, accept_downloads=True)
        self.complaints, self.requests = [], []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())
        if not folded:
            self.page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
            wide = "(document.querySelector('#timeline') ?? document.body).clientWidth > 120"
            self.page.wait_for_function(wide)

    def saved(self, act):
        """Return name and text of the file that an action downloads."""
        with self.page.expect_download() as waiting:
            act()
        download = waiting.value
        return download.suggested_filename, Path(download.path()).read_text(encoding="utf-8")


@pytest.fixture
def watched(browser):
    """Open pages, and close them again: none may complain or ask the network for anything."""
    opened = []

    def open_page(path, **size):
        opened.append(Watched(browser, path, **size))
        return opened[-1]

    yield open_page
    for one in opened:
        one.page.close()
        assert one.complaints == []
        assert [url for url in one.requests if not url.startswith(("file:", "data:", "blob:"))] == []
