"""The pages of every command that makes one: each can be explored, marks its events and shows its frames."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import expect

import gridworld
import harness
from bridge import run as bridge
from labyrinth import figures as labyrinth_figures
from labyrinth import run as labyrinth
from labyrinth.alignment import Events
from prism_irl import storage
from prism_irl.maze import HOME, WATER, maze_mdp
from prism_irl.models.presets import HIQL
from prism_irl.models.registry import Method, save
from prism_irl.models.single import IAVI
from prism_irl.report import explorer
from prism_irl.report.render import write_report
from prism_irl.robots.episodes import Episode
from prism_irl.studies import comparison
from prism_irl.studies import selection as selecting
from prism_irl.worlds.frustration import FrustrationWorld
from worlds.labyrinth import LabyrinthWorld
from worlds.lerobot import write_lerobot

QUESTIONS = ["Did", "How", "What", "When", "Can"]

NO_FRAMES = {"version": 1, "every": 1, "trajectories": {}}


def simulated(n=16, horizon=20):
    demos = FrustrationWorld(horizon=horizon).simulate(n, seed=3).demonstrations
    return demos, {"at home": demos.states == 0, "at the goal": demos.states == 24}


def compared(folder):
    demos, events = simulated()
    methods = [Method("iavi", "IAVI", IAVI()), Method("hiql", "HIQL", HIQL(2, n_starts=2, max_iterations=5))]
    comparison.compare(demos, methods, folder, folds=2, events=events)


def selected(folder):
    demos, events = simulated()
    settings = selecting.Select((1, 2), folds=2, splits=1, starts=1, surrogates=2, max_iterations=5)
    selecting.select(demos, settings, folder, events=events)


def gridworld_run(folder):
    """What the experiment explores, from one quick fit."""
    world = FrustrationWorld(horizon=20)
    simulation = world.simulate(30, seed=3)
    methods = [Method("hiql", "HIQL (Markov chain)", HIQL(2, n_starts=2, max_iterations=10))]
    done = gridworld.run_simulated(simulation, methods, only_folds=(0,))
    found = done.evaluation.table()
    result = harness.write(folder, done.evaluation, "Gridworld", "gridworld", quick=True, methods=found)
    gridworld.write_all(folder / "figures", world, result, done)


def labyrinth_run(folder):
    """What the part alignment leaves behind, from one quick fit."""
    demos = LabyrinthWorld().simulate(8, 40, seed=0).demonstrations
    happened = {"water visit": demos.states == WATER, "exit": (demos.states == HOME) & (demos.actions == 3)}
    data = labyrinth.Data(demos, maze_mdp(), Events(happened, np.zeros(demos.n_steps, np.int64), ()))
    save(HIQL(3, n_starts=1, max_iterations=5).fit(demos, data.mdp), folder / "cache" / "models" / "one")
    score = {"name": "HIQL (Markov chain)", "leaks": False, "predictive_ll": {"mean": -1.0, "std": 0.0}}
    fitted = {"model": "one", "agreement": 0.9, "n_intentions": 3, "names": ["water", "home", "explore"]}
    result = {"title": "Labyrinth", "methods": {"hiql": score | {"paper_score": None}}}
    result["alignment"] = {"methods": {"hiql": score | fitted}}
    (folder / "metrics.json").write_text(json.dumps(result))
    labyrinth_figures.explore(folder, data, result, folder / "cache" / "models")


def frames(index, length):
    for step in range(length):
        yield np.full((48, 64, 3), (8 * step, 255 - 8 * step, 20 * index), np.uint8)


def episode(index):
    rng = np.random.default_rng(index)
    forth = np.arange(20) < 10
    moves = np.where(forth, 1.0, -1.0)[:, None] * [1.0, 0.3] + 0.1 * rng.normal(size=(20, 2))
    cameras = {"observation.images.top": partial(frames, index, 20)}
    return Episode(index, moves, np.cumsum(moves, axis=0), "there and back", cameras)


def bridge_run(folder):
    dataset = write_lerobot(folder.parent / f"{folder.name}-data", map(episode, range(14)))
    small = {"n_states": 8, "n_actions": 4, "granularity_states": (), "sweep": (), "networks": (), "starts": 2}
    settings = bridge.Bridge(dataset, n_intentions=2, encoder="proprio", **small)
    bridge.run(settings, folder, chosen=("features-markov",))


RUNS = {
    "compare": compared,
    "select": selected,
    "gridworld": gridworld_run,
    "labyrinth": labyrinth_run,
    "bridge": bridge_run,
}
PICTURED = ("compare", "bridge")  # whose pages stay for people to look at


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Make each run once, when its page is first asked for."""
    made: dict[str, Path] = {}

    def page(name):
        if name not in made:
            folder = tmp_path_factory.mktemp(name)
            RUNS[name](folder)
            made[name] = write_report(folder)
        return made[name]

    return page


@pytest.mark.parametrize("name", RUNS)
def test_every_run_can_be_explored(watched, pages, screenshots, name):
    path = pages(name)
    page = watched(path).page
    questions = page.locator("#verdict .question h3").all_inner_texts()
    assert [question.split()[0] for question in questions] == QUESTIONS
    found = json.loads((path.parent / "explorer.json").read_text())
    assert page.locator("#verdict .wants li").count() == found["n_intentions"]
    assert found["fit"]["how"] in page.locator("#explorer").inner_text()  # what was fitted to what
    box = page.locator("#raster").bounding_box()
    rows, longest = len(found["trajectories"]), max(len(one["states"]) for one in found["trajectories"])
    page.locator("#raster").click(
        position={"x": 3.5 / longest * box["width"], "y": (rows - 0.5) / rows * box["height"]}
    )
    assert f"Trajectory {found['trajectories'][-1]['name']}, step 3" in page.locator("#readout").inner_text()
    assert path.stat().st_size < 8_000_000
    if name in PICTURED:
        page.screenshot(path=screenshots / f"{name}-1280.png", full_page=True)
    page.set_viewport_size({"width": 390, "height": 844})
    expect(page.locator("#raster")).to_have_js_property("width", round(page.locator("#raster").bounding_box()["width"]))
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    if name in PICTURED:
        page.screenshot(path=screenshots / f"{name}-390.png", full_page=True)


@pytest.mark.parametrize("name", ["compare", "gridworld", "labyrinth"])
def test_events_are_marked_and_told(watched, pages, name):
    path = pages(name)
    one = watched(path)
    page, found = one.page, json.loads((path.parent / "explorer.json").read_text())
    for row in (0, 4):
        page.locator("#trajectory").select_option(index=row)
        for event, steps in found["trajectories"][row]["events"].items():
            marks = page.locator(f'#timeline path[data-event="{event}"]')
            assert marks.count() == len(steps)
            places = [marks.nth(i).bounding_box() for i in range(len(steps))]
            assert all(place["width"] > 2 and place["height"] > 2 for place in places)
            centres = [place["x"] + place["width"] / 2 for place in places]
            band = page.locator("#timeline polygon").first.bounding_box()
            each = band["width"] / len(found["trajectories"][row]["states"])
            assert centres == pytest.approx([band["x"] + (t + 0.5) * each for t in steps], abs=1.5)
    row, event, step = next(
        (i, event, steps[0])
        for i, trajectory in enumerate(found["trajectories"])
        for event, steps in trajectory["events"].items()
        if steps
    )
    page.locator("#trajectory").select_option(index=row)
    page.locator("#scrub").fill(str(step))
    assert "Here: " in page.locator("#readout").inner_text()
    assert event in page.locator("#readout").inner_text()
    silent = next(
        t
        for t in range(len(found["trajectories"][row]["states"]))
        if all(t not in steps for steps in found["trajectories"][row]["events"].values())
    )
    page.locator("#scrub").fill(str(silent))
    assert "Here: " not in page.locator("#readout").inner_text()
    assert event in one.saved(page.locator("#timeline-csv").click)[1].splitlines()[0]


def test_the_raster_marks_the_event_that_is_chosen(watched, pages):
    page = watched(pages("compare")).page
    picture = "canvas => canvas.toDataURL()"
    options = page.locator("#marks option").all_inner_texts()
    assert options == ["nothing", "at home", "at the goal"]
    seen = []
    for option in options:
        page.locator("#marks").select_option(label=option)
        seen.append(page.locator("#raster").evaluate(picture))
    assert len(set(seen)) == 3


def test_the_frame_follows_the_scrubber(watched, pages):
    path = pages("bridge")
    page = watched(path).page
    frame = page.locator("#frame")
    kept = json.loads((path.parent / "frames.json").read_text())["trajectories"]
    assert 0 < len(kept) < 14
    row = min(map(int, kept))
    assert page.locator("#trajectory").input_value().endswith("with frames")
    for step in (0, 7, 19):
        page.locator("#scrub").fill(str(step))
        assert frame.get_attribute("src") == f"data:image/jpeg;base64,{kept[str(row)]['jpeg'][step]}"
        assert f"step {step} " in frame.get_attribute("alt")
        expect(frame).to_have_js_property("naturalWidth", 64)  # it was decoded
    bare = next(i for i in range(14) if str(i) not in kept)
    page.locator("#trajectory").select_option(index=bare)
    assert frame.is_hidden()
    assert "No frames are kept of this trajectory" in page.locator("#no-frame").inner_text()
    page.locator("#trajectory").select_option(index=row)
    assert frame.is_visible()


def test_missing_frames_are_one_sentence(watched, run, tmp_path):
    for name in ("metrics.json", explorer.FILE):
        (tmp_path / name).write_bytes((run / name).read_bytes())
    storage.write_json(
        tmp_path / "frames.json",
        NO_FRAMES | {"note": "There are no frames here. The dataset is gone."},
    )
    page = watched(write_report(tmp_path)).page
    assert "There are no frames here. The dataset is gone." in page.locator("#explorer").inner_text()
    assert page.locator("#frame").count() == 0
