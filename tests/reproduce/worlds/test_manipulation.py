"""Simulated pick-and-place: phases follow the keyframes, seeds are honoured, nothing global is disturbed."""

import numpy as np
import pytest

from prism_irl.errors import InputError
from prism_irl.robots.episodes import open_episodes
from worlds import manipulation
from worlds.manipulation import ACTION_NAMES, PHASE_UNTIL, PHASES, STATE_NAMES, PickAndPlace, phases_of


def column(episode, name):
    return episode.states[:, STATE_NAMES.index(name)]


@pytest.fixture(scope="module")
def simulated():
    pytest.importorskip("ogbench", reason="the extra sim is not installed")
    np.random.seed(7)  # noqa: NPY002
    expected = np.random.RandomState(7).normal(size=3)
    episodes = list(PickAndPlace(idle_steps=3).episodes(2, seed=5))
    np.testing.assert_array_equal(np.random.normal(size=3), expected)  # noqa: NPY002  the caller's generator is untouched
    return episodes


def test_phases_are_the_stretches_between_keyframes():
    times = dict(zip(["initial", *PHASE_UNTIL], np.arange(11.0), strict=True))
    found = phases_of(times, np.array([0.0, 1.99, 2.0, 2.9, 3.0, 6.9, 7.0, 8.0, 9.9, 30.0]))
    named = [PHASES[phase] for phase in found]
    assert named == [
        "approach",
        "approach",
        "grasp",
        "grasp",
        "carry",
        "carry",
        "release",
        "depart",
        "depart",
        "depart",
    ]
    with pytest.raises(InputError, match="follow one another"):
        phases_of({"initial": 0.0, "pick": 1.0, "pick_start": 1.0}, np.zeros(1))


def test_an_episode_picks_and_places(simulated):
    for episode in simulated:
        assert episode.states.shape == (len(episode), len(STATE_NAMES))
        assert episode.actions.shape == (len(episode), len(ACTION_NAMES))
        assert np.abs(episode.actions).max() <= 1.0
        # every phase once, in order
        order = episode.phases[np.flatnonzero(np.diff(episode.phases, prepend=-1))]
        assert [PHASES[phase] for phase in order] == list(PHASES)
        assert (episode.phases == PHASES.index("idle")).sum() == 3
        carried = episode.phases == PHASES.index("carry")
        assert column(episode, "block_z")[carried].max() > 0.05
        end = np.array([column(episode, f"block_{axis}")[-1] for axis in "xyz"])
        goal = np.array([column(episode, f"target_{axis}")[-1] for axis in "xyz"])
        assert np.linalg.norm(end - goal) < 0.04
        closing = column(episode, "gripper_opening")
        assert closing[carried].mean() > 0.4 > 0.2 > closing[episode.phases == 0].mean()


def test_an_episode_depends_on_seed_and_number_only(simulated):
    world = PickAndPlace(idle_steps=3)
    (again,) = world.episodes(1, seed=5, first=1)
    np.testing.assert_array_equal(again.actions, simulated[1].actions)
    np.testing.assert_array_equal(again.phases, simulated[1].phases)
    (other,) = world.episodes(1, seed=6, first=1)
    assert other.actions.shape != again.actions.shape or np.abs(other.actions - again.actions).max() > 0.1


def test_dataset_is_written_once_and_read_back(simulated, tmp_path, monkeypatch):
    """In our cache: a folder of data belongs to whoever put them there, and may be shared or read only."""
    monkeypatch.setenv("PRISM_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(PickAndPlace, "episodes", lambda *_, **__: iter(simulated))
    folder = PickAndPlace().dataset(2, seed=5)
    assert folder.is_relative_to(tmp_path / "cache")
    assert not (tmp_path / "data").exists()
    read = list(open_episodes(folder))
    for wrote, found in zip(simulated, read, strict=True):
        np.testing.assert_array_equal(found.actions, wrote.actions)
        np.testing.assert_array_equal(found.states, wrote.states)
        np.testing.assert_array_equal(found.phases, wrote.phases)
    assert read[0].phase_names == PHASES
    monkeypatch.setattr(PickAndPlace, "episodes", lambda *_, **__: pytest.fail("simulated again"))
    assert PickAndPlace().dataset(2, seed=5) == folder


def test_frames_are_rendered_without_a_screen():
    pytest.importorskip("ogbench", reason="the extra sim is not installed")
    if manipulation.render_backend() is None:
        pytest.skip("neither EGL nor OSMesa works here")
    (episode,) = PickAndPlace(seconds_between_keyframes=0.1, frame_size=32).episodes(1, frames=True)
    frames = np.stack(list(episode.frames()))
    assert frames.shape == (len(episode), 32, 32, 3)
    assert frames.std() > 10  # not one colour
    assert (frames[0] != frames[-1]).any()


def test_without_opengl_the_package_is_named(monkeypatch):
    pytest.importorskip("ogbench", reason="the extra sim is not installed")
    monkeypatch.setenv("MUJOCO_GL", "disabled")
    monkeypatch.setattr(manipulation, "render_backend", lambda: None)
    with pytest.raises(InputError, match="apt-get install libegl1"):
        next(PickAndPlace().episodes(1, frames=True))


def test_without_the_extra_the_command_is_named(monkeypatch):
    monkeypatch.setattr(manipulation, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install \"prism-irl\[sim\]\""):
        next(PickAndPlace().episodes(1))


@pytest.mark.parametrize("wrong", [{"noise": -1}, {"frame_size": 3}, {"seconds_between_keyframes": 0.0}])
def test_settings_that_make_no_sense(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        PickAndPlace(**wrong)
