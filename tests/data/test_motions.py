import numpy as np
import pytest

from prism_irl.data.motions import MotionDemonstrations, linear_design
from prism_irl.errors import InputError

LENGTHS = (7, 1, 4, 12)


def motion_demos(make_demos, **options):
    demos = make_demos(0, lengths=LENGTHS, n_observations=2)
    rng = np.random.default_rng(1)
    n = demos.n_steps
    return MotionDemonstrations.of(demos, rng.normal(size=(n, 3)), rng.normal(size=(n, 3, 2)), **options)


def test_subset_takes_commands_of_the_same_steps(make_demos):
    demos = motion_demos(make_demos)
    part = demos.subset([3, 0])
    steps = [*range(12, 24), *range(7)]
    assert isinstance(part, MotionDemonstrations)
    np.testing.assert_array_equal(part.motions, demos.motions[steps])
    np.testing.assert_array_equal(part.design, demos.design[steps])
    np.testing.assert_array_equal(part.states, demos.states[steps])
    mask = np.array([True, False, False, True])
    np.testing.assert_array_equal(demos.subset(mask).motions, demos.motions[[*range(7), *range(12, 24)]])


def test_checksum_knows_commands(make_demos):
    demos = motion_demos(make_demos)
    moved = MotionDemonstrations.of(demos, demos.motions + 1e-9, demos.design)
    assert demos.checksum() != moved.checksum()
    assert demos.checksum() == motion_demos(make_demos).checksum()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"motions": np.zeros((5, 3))}, "commands have shape"),
        ({"design": np.zeros((24, 2, 2))}, "design has shape"),
        ({"noise_blocks": (0, 2, 2)}, "no gaps"),
        ({"noise_blocks": (0, 1)}, "each of 3"),
    ],
)
def test_wrong_shapes_are_named(make_demos, change, words):
    demos = motion_demos(make_demos)
    given = {"motions": demos.motions, "design": demos.design} | change
    with pytest.raises(InputError, match=words):
        MotionDemonstrations.of(demos, given.pop("motions"), given.pop("design"), **given)


def test_commands_that_are_not_finite_are_located(make_demos):
    demos = motion_demos(make_demos)
    broken = demos.motions.copy()
    broken[9, 1] = np.nan
    with pytest.raises(InputError, match="command at trajectory 2"):
        MotionDemonstrations.of(demos, broken, demos.design)


def test_linear_design_is_a_linear_policy():
    rng = np.random.default_rng(0)
    x = rng.normal(3.0, 2.0, size=(40, 2))
    weights = rng.normal(size=(3, 3))
    scaled = np.column_stack([np.ones(40), (x - x.mean(0)) / x.std(0)])
    np.testing.assert_allclose(linear_design(x, 3) @ weights.ravel(), scaled @ weights.T)
