"""Figures draw the numbers that they are given."""

import xml.etree.ElementTree as ElementTree

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.collections import QuadMesh
from matplotlib.colors import to_hex, to_rgb
from matplotlib.patches import Rectangle
from matplotlib.quiver import Quiver

from prism_irl.errors import InputError
from prism_irl.figures import style
from prism_irl.figures.curves import NOT_A_LIKELIHOOD, dwell_histogram, em_curves, method_bars
from prism_irl.figures.maps import DIRECTIONS, add_colorbar, grid_heatmap
from prism_irl.figures.style import intention_color, new_figure, paper_style, save, to_svg
from prism_irl.figures.timelines import counter_timeline, posterior_timeline, segmentation_raster
from prism_irl.worlds.frustration import ACTIONS, FrustrationWorld

UP, DOWN, LEFT, RIGHT, STAY = range(5)


@pytest.fixture
def ax():
    return new_figure()[1][0]


def texts(ax):
    return [text.get_text() for text in ax.texts]


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


# -- style -------------------------------------------------------------------------------------------------------------


def test_neighbouring_intentions_differ_in_lightness_and_from_white():
    def lightness(k):
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(intention_color(k))]
        return 116 * float(np.dot([0.2126, 0.7152, 0.0722], linear)) ** (1 / 3) - 16

    assert len({intention_color(k) for k in range(8)}) == 8
    assert intention_color(8) == intention_color(0)
    assert all(abs(lightness(j) - lightness(k)) > 9 for j in range(3) for k in range(j))
    assert all(lightness(k) < 75 for k in range(6))
    with pytest.raises(InputError, match="-1"):
        intention_color(-1)


def test_style_leaves_the_global_settings_alone():
    before = dict(mpl.rcParams)
    with paper_style():
        assert mpl.rcParams["svg.fonttype"] == "none"
    figure, axes = new_figure(2, 3, width=6.8, height=4)
    assert len(axes) == 6
    assert tuple(figure.get_size_inches()) == (6.8, 4)
    assert dict(mpl.rcParams) == before


def test_save_writes_all_files_with_the_same_bytes_each_time(tmp_path):
    for run in ("a", "b"):
        figure, (ax,) = new_figure()
        posterior_timeline(ax, [[0.2, 0.8], [0.5, 0.5]], true=[0, 1])
        save(figure, tmp_path / run / "history-0.5")
    assert {path.name for path in (tmp_path / "a").iterdir()} == {
        "history-0.5.svg",
        "history-0.5.png",
        "history-0.5.csv",
    }
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()
    svg = (tmp_path / "a" / "history-0.5.svg").read_text()
    assert ">posterior</text>" in svg  # text stays text
    assert "dc:date" not in svg


# -- maps --------------------------------------------------------------------------------------------------------------


def mesh(ax):
    (found,) = [artist for artist in ax.collections if isinstance(artist, QuadMesh)]
    return found


def test_heatmap_draws_values_with_state_zero_at_the_lower_left(ax):
    values = np.arange(6.0)
    assert grid_heatmap(ax, values, width=3, height=2, title="values", limits=(-1, 9)) is ax
    np.testing.assert_array_equal(mesh(ax).get_array(), values.reshape(2, 3))
    corners = mesh(ax).get_coordinates()
    np.testing.assert_array_equal(corners[0, 0], [-0.5, -0.5])
    np.testing.assert_array_equal(corners[-1, -1], [2.5, 1.5])
    low, high = ax.get_ylim()
    assert low < high  # y grows upwards on the page
    assert mesh(ax).get_clim() == (-1, 9)
    assert ax.get_title(loc="left") + ax.get_title() == "values"


def test_arrows_point_where_the_world_moves():
    world = FrustrationWorld()
    moves = np.array(DIRECTIONS)
    middle = world.state((2, 2))
    for action, name in enumerate(ACTIONS):
        target = int(FrustrationWorld(barriers=(), success=1.0).transitions[middle, action].argmax())
        assert (target % 5 - 2, target // 5 - 2) == tuple(moves[action]), name


def test_greedy_actions_become_arrows_and_dots(ax):
    greedy = [UP, DOWN, LEFT, RIGHT, STAY, -1]
    grid_heatmap(ax, np.arange(6.0), width=3, height=2, greedy=greedy)
    (arrows,) = [artist for artist in ax.collections if isinstance(artist, Quiver)]
    np.testing.assert_array_equal(arrows.XY, [[0, 0], [1, 0], [2, 0], [0, 1]])
    np.testing.assert_array_equal(np.stack([arrows.U, arrows.V], axis=1), [[0, 1], [0, -1], [-1, 0], [1, 0]])
    dots = ax.collections[-1]
    np.testing.assert_array_equal(dots.get_offsets(), [[1, 1]])


def test_barriers_unvisited_and_nan_cells_hide_value_and_action(ax):
    values = np.array([100.0, 1, 2, np.nan, 4, -50])
    unvisited = np.array([True, False, False, False, False, False])
    grid_heatmap(
        ax, values, width=3, height=2, greedy=[UP] * 6, barriers=[(2, 1)], unvisited=unvisited, mark=[(1, 0), (0, 0)]
    )
    np.testing.assert_array_equal(np.ma.getmaskarray(mesh(ax).get_array()).ravel(), [1, 0, 0, 1, 0, 1])
    assert mesh(ax).get_clim() == (1, 4)  # hidden cells do not stretch the scale
    (arrows,) = [artist for artist in ax.collections if isinstance(artist, Quiver)]
    assert len(arrows.XY) == 3
    patches = {(patch.get_x(), patch.get_y()): patch for patch in ax.patches if isinstance(patch, Rectangle)}
    assert set(patches) == {(-0.5, -0.5), (-0.5, 0.5), (1.5, 0.5)}
    assert to_hex(patches[1.5, 0.5].get_facecolor()) == style.BARRIER
    assert to_hex(patches[-0.5, -0.5].get_facecolor()) == style.UNVISITED
    assert [line.get_marker() for line in ax.lines] == ["*", "*"]


def test_heatmap_of_equal_values_and_colorbar_can_be_drawn():
    figure, (left, right) = new_figure(1, 2)
    for ax in (left, right):
        grid_heatmap(ax, np.zeros(4), width=2, height=2, greedy=[0, 1, 2, 3])
    bar = add_colorbar(left, [left, right], label="value")
    assert bar.ax.get_ylabel() == "value"
    ElementTree.fromstring(to_svg(figure))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"values": np.zeros(5)}, "values has shape"),
        ({"greedy": [0]}, "greedy has shape"),
        ({"greedy": [5] * 4}, "action 5"),
        ({"barriers": [(2, 0)]}, "outside"),
        ({"mark": [(0, -1)]}, "outside"),
    ],
)
def test_heatmap_says_what_is_wrong(ax, arguments, message):
    with pytest.raises(InputError, match=message):
        grid_heatmap(ax, **({"values": np.zeros(4), "width": 2, "height": 2} | arguments))


# -- timelines ---------------------------------------------------------------------------------------------------------


def test_posterior_bands_fill_the_unit_interval(ax):
    p = np.array([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0]])
    assert posterior_timeline(ax, p, names=("water", "home", "explore")) is ax
    assert len(ax.collections) == 3
    assert [to_hex(band.get_facecolor()[0]).upper() for band in ax.collections] == [
        intention_color(k) for k in range(3)
    ]
    middle = ax.collections[1].get_paths()[0].vertices
    first = middle[(middle[:, 0] > -0.51) & (middle[:, 0] < 0.49), 1]
    assert (first.min(), first.max()) == pytest.approx((0.2, 0.5))
    assert ax.get_xlim() == (-0.5, 1.5)
    assert legend(ax) == ["water", "home", "explore"]


def test_true_labels_are_a_strip_of_runs_below(ax):
    posterior_timeline(ax, np.full((6, 2), 0.5), true=[0, 0, 1, 1, 1, 0])
    boxes = [bar.get_paths()[0].get_extents() for bar in ax.collections[2:]]
    assert [(box.x0, box.x1) for box in boxes] == [(-0.5, 1.5), (1.5, 4.5), (4.5, 5.5)]
    assert all(box.y1 < 0 for box in boxes)
    colours = [to_hex(bar.get_facecolor()[0]).upper() for bar in ax.collections[2:]]
    assert colours == [intention_color(k) for k in (0, 1, 0)]
    assert "truth" in [label.get_text() for label in ax.get_yticklabels()]


def test_posterior_says_what_is_wrong(ax):
    with pytest.raises(InputError, match="shape"):
        posterior_timeline(ax, [0.1, 0.9])
    with pytest.raises(InputError, match="2 steps"):
        posterior_timeline(ax, np.full((2, 2), 0.5), true=[0])
    with pytest.raises(InputError, match="1 names"):
        posterior_timeline(ax, np.full((2, 2), 0.5), names=["goal"])


def test_counter_is_drawn_step_by_step(ax):
    assert counter_timeline(ax, [0, 1, 2, 0], label="frustration") is ax
    np.testing.assert_array_equal(ax.patches[0].get_data().values, [0, 1, 2, 0])
    np.testing.assert_array_equal(ax.patches[0].get_data().edges, [-0.5, 0.5, 1.5, 2.5, 3.5])
    assert ax.get_ylabel() == "frustration"


def test_raster_has_a_row_per_trajectory_and_masks_the_ragged_end(ax):
    assert segmentation_raster(ax, [0, 1, 1, 2, 0], [0, 3, 5]) is ax
    picture = ax.images[0].get_array()
    np.testing.assert_array_equal(picture.filled(-1), [[0, 1, 1], [2, 0, -1]])
    low, high = ax.get_ylim()
    assert low > high  # the first trajectory is on top
    drawn = ax.images[0].to_rgba(picture)[0, 1]
    assert to_hex(drawn).upper() == intention_color(1)
    assert legend(ax) == ["intention 0", "intention 1", "intention 2"]


def test_raster_says_that_it_left_trajectories_out(ax):
    segmentation_raster(ax, np.zeros(200, int), np.arange(0, 201, 2), max_trajectories=7)
    assert ax.images[0].get_array().shape == (7, 2)
    assert ax.get_ylabel() == "trajectory (first 7 of 100)"
    with pytest.raises(InputError, match="belong together"):
        segmentation_raster(ax, [0, 1], [0, 3])


# -- curves ------------------------------------------------------------------------------------------------------------

ROWS = [
    {"name": "recurrent", "mean": -1.10, "std": 0.01, "is_likelihood": True},
    {"name": "paper gate", "mean": -0.72, "std": 0.02, "is_likelihood": False, "reference": -0.8},
    {"name": "IAVI", "mean": -1.31, "std": None, "is_likelihood": True},
]


def test_method_bars_end_at_the_mean_and_mark_what_is_no_likelihood(ax):
    assert method_bars(ax, ROWS, ceiling=-1.088) is ax
    assert [bar.get_x() + bar.get_width() for bar in ax.patches] == pytest.approx([-1.10, -0.72, -1.31])
    assert [bool(bar.get_hatch()) for bar in ax.patches] == [False, True, False]
    assert texts(ax).count(NOT_A_LIKELIHOOD) == 1
    assert [label.get_text() for label in ax.get_yticklabels()] == ["recurrent", "paper gate", "IAVI"]
    low, high = ax.get_ylim()
    assert low > high  # the first method is on top
    whiskers = ax.containers[1].lines[2][0].get_segments()[0]
    np.testing.assert_allclose(whiskers[:, 0], [-1.11, -1.09])
    assert "−1.100" in texts(ax)
    diamonds = [line for line in ax.lines if line.get_marker() == "D" and len(line.get_xdata())]
    assert [float(line.get_xdata()[0]) for line in diamonds] == [-0.8]
    ceilings = [line for line in ax.lines if list(line.get_xdata()) == [-1.088, -1.088]]
    assert len(ceilings) == 1
    assert "oracle" in texts(ax)


def test_method_bars_without_ceiling_or_reference_have_neither(ax):
    method_bars(ax, ROWS[:1])
    assert "oracle" not in texts(ax)
    assert ax.get_legend() is None
    with pytest.raises(InputError, match="no method"):
        method_bars(ax, [])


def history(validation=True):
    rows = []
    for start, offset in enumerate((-0.2, 0.0, -0.1)):
        for iteration in range(5):
            row = {"start": start, "iteration": iteration, "train": offset - 1 / (iteration + 1)}
            rows.append(row | ({"validation": row["train"] - 0.1 * (iteration == 4)} if validation else {}))
    return rows


def test_em_curves_have_a_line_per_start_and_emphasise_the_best(ax):
    assert em_curves(ax, history()[::-1]) is ax  # rows in any order
    lines = {line.get_label(): line for line in ax.lines}
    assert {"train, 2 others", "train, start 1", "validation, start 1", "kept"} <= set(lines)
    assert len(ax.lines) == 3 + 1 + 1
    best = lines["train, start 1"]
    np.testing.assert_allclose(best.get_ydata(), [-1 / (i + 1) for i in range(5)])
    assert best.get_linewidth() > lines["train, 2 others"].get_linewidth()
    assert (lines["kept"].get_xdata()[0], lines["kept"].get_ydata()[0]) == pytest.approx((3, -0.25))


def test_em_curves_take_training_where_nothing_was_held_out(ax):
    em_curves(ax, history(validation=False))
    assert not any("validation" in str(line.get_label()) for line in ax.lines)
    kept = next(line for line in ax.lines if line.get_label() == "kept")
    assert kept.get_xdata()[0] == 4
    with pytest.raises(InputError, match="empty"):
        em_curves(ax, [])
    with pytest.raises(InputError, match="without any training"):
        em_curves(ax, [{"start": 0, "iteration": 0, "train": None}])


def test_dwell_histogram_shows_shares_and_means(ax):
    assert dwell_histogram(ax, [[1, 1, 3, 5], [2, 2], []]) is ax
    shares = ax.patches[0].get_data()
    np.testing.assert_allclose(shares.values, [0.5, 0, 0.25, 0, 0.25])
    np.testing.assert_allclose(shares.edges, np.arange(0.5, 6))
    assert legend(ax) == ["intention 0: mean 2.5", "intention 1: mean 2.0", "intention 2: never"]
    with pytest.raises(InputError, match="nothing to draw"):
        dwell_histogram(ax, [[], []])


def test_dwell_histogram_of_long_segments_loses_none(ax):
    lengths = np.random.default_rng(0).geometric(0.01, 500)
    dwell_histogram(ax, [lengths])
    assert ax.get_xscale() == "log"
    assert ax.patches[0].get_data().values.sum() == pytest.approx(1)


@pytest.mark.parametrize("name", ["map", "posterior", "raster", "bars", "em", "dwell"])
def test_every_figure_becomes_well_formed_svg(ax, name):
    draw = {
        "map": lambda: grid_heatmap(ax, np.arange(25.0), width=5, height=5, greedy=np.arange(25) % 5),
        "posterior": lambda: posterior_timeline(ax, np.full((4, 2), 0.5), true=[0, 1, 1, 0]),
        "raster": lambda: segmentation_raster(ax, [0, 1, 1], [0, 1, 3]),
        "bars": lambda: method_bars(ax, ROWS, ceiling=-1.0),
        "em": lambda: em_curves(ax, history()),
        "dwell": lambda: dwell_histogram(ax, [[1, 2, 90]]),
    }
    with paper_style():
        draw[name]()
    root = ElementTree.fromstring(to_svg(ax.figure))
    assert root.tag.endswith("svg")
