"""Frames in the page: small pictures of the right steps, within their limits, and nothing but pictures."""

import base64
import io
import json

import numpy as np
import pytest
from PIL import Image

from prism_irl import storage
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.report import explorer as frames
from prism_irl.report.explorer import read_frames, thumbnail, write_explorer, write_frames
from prism_irl.report.render import write_report
from prism_irl.robots.episodes import damaged

NO_FRAMES = {"version": 1, "every": 1, "trajectories": {}}


def picture(i, t, height=90, width=120):
    return np.full((height, width, 3), (10 * i % 250, 5 * t % 250, 128), np.uint8)


def decoded(text):
    return Image.open(io.BytesIO(base64.b64decode(text, validate=True)))


def colour(text):
    """Trajectory and step that a picture is of."""
    red, green, _ = np.asarray(decoded(text), float).mean(axis=(0, 1))
    return round(red / 10), round(green / 5)


def episodes(lengths):
    states = [np.arange(length) % 4 for length in lengths]
    return Demonstrations.from_arrays(states, states, n_states=4, n_actions=4)


def explored(folder, lengths):
    demos = episodes(lengths)
    return demos, write_explorer(folder, demos, np.eye(2)[np.arange(demos.n_steps) % 2])


def camera(demos):
    return lambda i: (picture(i, t) for t in range(int(demos.lengths[i])))


def test_thumbnails_are_small_jpegs():
    small = decoded(thumbnail(picture(1, 1, 480, 640)))
    assert (small.format, small.size) == ("JPEG", (96, 72))
    assert decoded(thumbnail(picture(1, 1, 24, 32))).size == (32, 24)  # never larger than the recording


def test_every_frame_belongs_to_its_step(tmp_path):
    demos, explorer = explored(tmp_path, [7, 5, 9])
    written = write_frames(tmp_path, demos, explorer, camera(demos))
    assert read_frames(tmp_path, 3) == written
    assert written["every"] == 1
    for row, one in written["trajectories"].items():
        assert one["steps"] == list(range(int(demos.lengths[int(row)])))
        assert [colour(text) for text in one["jpeg"]] == [(int(row), t) for t in one["steps"]]


def test_of_many_steps_every_nth_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("prism_irl.report.explorer.MAX_FRAMES", 10)
    demos, explorer = explored(tmp_path, [11, 14])
    written = write_frames(tmp_path, demos, explorer, camera(demos))
    assert written["every"] == 3
    assert written["trajectories"]["0"]["steps"] == [0, 3, 6, 9]
    assert [colour(text)[1] for text in written["trajectories"]["1"]["jpeg"]] == [0, 3, 6, 9, 12]
    page = "".join(write_page(tmp_path).split())
    assert "".join("Frames are kept of one in 3 steps of 2 trajectories".split()) in page


def test_of_many_trajectories_some_are_kept_evenly(tmp_path, monkeypatch):
    from prism_irl.report import explorer as explorer_module

    monkeypatch.setattr(explorer_module, "MAX_TRAJECTORIES", 20)
    monkeypatch.setattr("prism_irl.report.explorer.MAX_SHOWN", 3)
    demos, explorer = explored(tmp_path, [3] * 39)
    written = write_frames(tmp_path, demos, explorer, camera(demos))
    assert list(written["trajectories"]) == ["0", "10", "19"]  # rows of the raster …
    # … whose pictures are those of the trajectories behind the rows.
    assert [colour(one["jpeg"][0])[0] for one in written["trajectories"].values()] == [0, 20 % 25, 38 % 25]
    chosen = write_frames(tmp_path, demos, explorer, camera(demos), trajectories=[1, 2, 4])
    assert list(chosen["trajectories"]) == ["1", "2"]  # trajectory 1 is not in the raster


def test_the_pictures_stay_within_their_bytes(tmp_path, monkeypatch):
    demos, explorer = explored(tmp_path, [6] * 5)
    one = 6 * len(thumbnail(picture(0, 0)))
    monkeypatch.setattr("prism_irl.report.explorer.MAX_PICTURES", 3 * one + one // 2)
    written = write_frames(tmp_path, demos, explorer, camera(demos))
    assert len(written["trajectories"]) == 3
    assert sum(len(text) for one in written["trajectories"].values() for text in one["jpeg"]) <= frames.MAX_PICTURES


def test_damaged_episodes_are_left_out_and_other_errors_are_told(tmp_path):
    demos, explorer = explored(tmp_path, [4, 4, 4])

    def broken(i):
        if i == 1:
            raise damaged("1", "its video breaks off")
        return camera(demos)(i)

    assert list(write_frames(tmp_path, demos, explorer, broken)["trajectories"]) == ["0", "2"]
    short = write_frames(tmp_path, demos, explorer, lambda i: list(camera(demos)(i))[: 4 - i])
    assert list(short["trajectories"]) == ["0"]

    def refused(i):
        raise InputError("This needs the package av; install it.")

    assert write_frames(tmp_path, demos, explorer, refused)["note"].endswith("This needs the package av; install it.")
    assert "no readable recording" in write_frames(tmp_path, demos, explorer, lambda i: None)["note"]


def write_page(folder):
    (folder / "metrics.json").write_text(json.dumps({"n_intentions": 2, "predictive_ll": {"train": -1.0}}))
    return write_report(folder).read_text()


def test_why_there_are_no_frames_is_one_sentence_in_the_page(tmp_path):
    explored(tmp_path, [4])
    assert "frames here" not in write_page(tmp_path)
    storage.write_json(
        tmp_path / "frames.json",
        NO_FRAMES | {"note": "There are no frames here. The dataset has moved."},
    )
    assert "There are no frames here. The dataset has moved." in write_page(tmp_path)


def test_frames_of_an_earlier_segmentation_are_dropped(tmp_path):
    demos, explorer = explored(tmp_path, [4, 4])
    write_frames(tmp_path, demos, explorer, camera(demos))
    explored(tmp_path, [3])
    assert read_frames(tmp_path, 1) is None


def test_anything_but_pictures_is_refused(tmp_path):
    demos, explorer = explored(tmp_path, [4, 4])
    good = write_frames(tmp_path, demos, explorer, camera(demos))
    own = good["trajectories"]["0"]
    wrong = [
        {},
        [],
        good | {"version": 2},
        good | {"trajectories": {"7": own}},  # no such row
        good | {"trajectories": {"0": own | {"steps": [0, 1]}}},
        good | {"trajectories": {"0": own | {"steps": [3, 2, 1, 0]}}},
        good | {"trajectories": {"0": own | {"jpeg": ['/9j/" onerror="alert(1)'] * 4}}},
        good | {"trajectories": {"0": own | {"jpeg": [base64.b64encode(b"<svg>").decode()] * 4}}},
    ]
    for value in wrong:
        (tmp_path / "frames.json").write_text(json.dumps(value))
        with pytest.raises(InputError, match="damaged"):
            read_frames(tmp_path, 2)
    (tmp_path / "frames.json").write_text(" " * 3_000_000)
    with pytest.raises(InputError, match="larger than"):
        read_frames(tmp_path, 2)


def test_a_page_full_of_frames_and_figures_stays_below_its_limit(tmp_path):
    rng = np.random.default_rng(0)
    demos, explorer = explored(tmp_path, [60] * 12)
    noise = rng.integers(0, 256, size=(40, 96, 96, 3), dtype=np.uint8)  # nothing compresses worse

    def camera_noise(i):
        return (noise[(i * 7 + t) % len(noise)] for t in range(60))

    write_frames(tmp_path, demos, explorer, camera_noise)
    assert (tmp_path / "frames.json").stat().st_size > 1_000_000
    (tmp_path / "figures").mkdir()
    for k in range(9):
        (tmp_path / "figures" / f"f{k}.svg").write_text('<svg width="10pt">' + "x" * 900_000 + "</svg>")
    page = write_page(tmp_path)
    assert 6_000_000 < len(page) < 8_000_000
    assert "Too large for this page" in page
