import io

import numpy as np
import pytest

from prism_irl.errors import InputError
from prism_irl.robots.episodes import DamagedEpisodeError, Episode, decode_image, inside, open_episodes


def test_lengths_and_numbers_are_checked():
    with pytest.raises(DamagedEpisodeError, match=r"Episode 3 is damaged: its states have shape \(4, 2\) for 5 steps"):
        Episode(3, np.zeros((5, 7)), np.zeros((4, 2)))
    with pytest.raises(DamagedEpisodeError, match="actions are not finite at step 2"):
        Episode(3, np.array([[0.0], [1], [np.nan]]))
    with pytest.raises(DamagedEpisodeError, match="no steps"):
        Episode(0, np.zeros((0, 7)))
    with pytest.raises(DamagedEpisodeError, match="phases have shape"):
        Episode(0, np.zeros((2, 7)), phases=np.zeros(3))


@pytest.mark.parametrize(("n", "words"), [(3, "only 3 frames for 4 steps"), (5, "more than 4 frames for 4 steps")])
def test_a_camera_must_have_one_frame_per_step(n, words):
    frame = np.zeros((2, 2, 3), np.uint8)
    episode = Episode(1, np.zeros((4, 2)), cameras={"top": lambda: iter([frame] * n)})
    with pytest.raises(DamagedEpisodeError, match=words):
        list(episode.frames("top"))


def test_frames_are_not_opened_before_they_are_wanted():
    def broken():
        raise AssertionError

    episode = Episode(1, np.zeros((4, 2)), cameras={"top": broken})
    assert "top" in repr(episode)
    with pytest.raises(AssertionError):
        next(episode.frames())


def test_cameras_by_name():
    with pytest.raises(InputError, match="has no camera; use an encoder"):
        Episode(1, np.zeros((4, 2))).camera()
    with pytest.raises(InputError, match="no camera 'left'; choose top"):
        Episode(1, np.zeros((4, 2)), cameras={"top": lambda: iter(())}).camera("left")


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "data/../../x", "", "a\\b"])
def test_paths_stay_inside(tmp_path, name):
    with pytest.raises(InputError, match="points outside the dataset"):
        inside(tmp_path, name, "data_path")


def test_a_folder_of_nothing_is_named(tmp_path):
    with pytest.raises(InputError, match="no dataset that prism reads"):
        open_episodes(tmp_path)
    with pytest.raises(InputError, match="There is no folder"):
        open_episodes(tmp_path / "absent")


def test_a_picture_that_claims_to_be_huge_is_refused():
    image = pytest.importorskip("PIL.Image", reason="needs prism-irl[robots]")
    buffer = io.BytesIO()
    image.new("1", (10_000, 9_500)).save(buffer, format="PNG")
    assert len(buffer.getvalue()) < 100_000
    with pytest.raises(DamagedEpisodeError, match="claims 10000 × 9500 pixels"):
        decode_image(buffer.getvalue(), "5", "a picture")
