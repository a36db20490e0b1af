"""Pictures of a model where one works with it, from the numbers that a report shows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from prism_irl import HIQL, Demonstrations
from prism_irl.errors import InputError
from prism_irl.worlds.frustration import FrustrationWorld


@pytest.fixture(scope="module")
def demos() -> Demonstrations:
    return FrustrationWorld(horizon=15).simulate(20, seed=1).demonstrations


@pytest.fixture(scope="module")
def model(demos: Demonstrations) -> HIQL:
    return HIQL(2, n_starts=1, max_iterations=3, device="cpu").fit(demos)


def test_every_picture_is_drawn(model: HIQL, demos: Demonstrations) -> None:
    raster, timeline, maps = model.plot.raster(demos), model.plot.timeline(demos, 3), model.plot.maps(demos)
    assert len(raster.axes) == len(timeline.axes) == 1
    titles = [title for ax in maps.axes if (title := ax.get_title(loc="left"))]
    assert titles == ["intention 0", "intention 1", "intention 0: reward", "intention 1: reward"]
    assert timeline.axes[0].get_title(loc="left") == "Trajectory 3"
    shown = raster.axes[0].images[0].get_array()
    assert np.ma.count(shown[0]) >= 15
    assert set(np.unique(np.ma.compressed(shown)).astype(int)) <= {0, 1}


def test_labels_that_are_words_name_the_intentions(model: HIQL, demos: Demonstrations) -> None:
    told = replace(demos, partial_labels=np.zeros(demos.n_steps, np.int64), partial_label_names=("eat",))
    (ax,) = model.plot.timeline(told, 0).axes
    assert [text.get_text() for text in ax.get_legend().get_texts()][:2] == ["eat", "intention 1"]


def test_what_cannot_be_drawn_says_why(demos: Demonstrations, model: HIQL) -> None:
    with pytest.raises(NotFittedError):
        _ = HIQL(2).plot
    rng = np.random.default_rng(0)
    everywhere = Demonstrations.from_arrays(rng.integers(25, size=(20, 200)), rng.integers(5, size=(20, 200)))
    with pytest.raises(InputError, match="no map"):
        model.plot.maps(everywhere)
