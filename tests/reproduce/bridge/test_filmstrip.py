import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from bridge.filmstrip import filmstrip
from prism_irl.errors import InputError
from prism_irl.figures import style

LABELS = np.repeat([0, 2, 1], [10, 5, 9])


def draw(**options):
    figure, (ax,) = style.new_figure(width=6.0, height=1.5)
    frames = np.random.default_rng(0).integers(255, size=(24, 8, 8, 3)).astype(np.uint8)
    assert filmstrip(ax, options.pop("frames", frames), options.pop("labels", LABELS), **options) is ax
    return figure, ax


def test_borders_have_the_colour_of_the_intention():
    figure, ax = draw(n_frames=6)
    assert len(ax.images) == 6
    steps = np.linspace(0, 23, 6).round().astype(int)
    borders = [patch for patch in ax.patches if isinstance(patch, Rectangle) and not patch.get_fill()]
    found = [to_hex(border.get_edgecolor()) for border in borders]
    assert found == [style.intention_color(int(LABELS[step])).lower() for step in steps]
    assert len(style.to_svg(figure)) > 1000


def test_truth_and_names_are_drawn():
    _, ax = draw(true=np.zeros(24, int), names=("reach", "lift", "place"))
    texts = [text.get_text() for text in ax.texts]
    assert {"found", "true", "reach", "lift", "place"} <= set(texts)
    assert texts.count("reach") == 2


def test_strips_alone_without_frames():
    _, ax = draw(frames=None)
    assert not ax.images
    assert len(ax.patches) == 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"labels": np.zeros(3, int)}, "24 frames for 3"),
        ({"labels": np.zeros((2, 2), int)}, "one intention per step"),
        ({"true": np.zeros(4, int)}, "true phases"),
        ({"n_frames": 0}, "at least one"),
    ],
)
def test_wrong_input_is_named(options, words):
    with pytest.raises(InputError, match=words):
        draw(**options)
