"""Predictions hold their mean, say what is left out, and a closed door is visited by nobody."""

import numpy as np
import pytest

from prism_irl.errors import InputError
from prism_irl.models.intentions import Intentions
from prism_irl.models.references import Uniform
from prism_irl.studies.imagine import Change, imagine, in_words, one_draw, rows_of
from worlds.cohort import CohortWorld

WORLD = CohortWorld(animals=3, trajectories=2, horizon=40, size=3)


@pytest.fixture(scope="module")
def demos():
    return WORLD.simulate(0).demonstrations


@pytest.fixture(scope="module")
def model(demos):
    return Intentions(2, switching="markov", rewards="soft-1", n_starts=1, max_iterations=5, device="cpu").fit(
        demos, WORLD.mdp
    )


@pytest.fixture(scope="module")
def found(model, demos):
    return imagine(model, demos, Change(WORLD.mdp.closed([4])), closed=[4], simulations=20)


def test_nobody_enters_what_is_closed_and_shares_are_shares(found, demos):
    assert found["visits"]["after"]["mean"][4] == 0
    assert found["visits"]["before"]["mean"][4] > 0
    for kind in ("visits", "usage"):
        for side, total in (("before", 1), ("after", 1), ("difference", 0)):
            assert found[kind][side]["mean"].sum() == pytest.approx(total)
            low, high = found[kind][side]["interval"]
            assert (low <= high).all()
    began = demos.states[demos.offsets[:-1]] == 4
    assert found["left_out"] == began.sum()


def test_the_answer_in_words_and_rows(found):
    states, names = [f"s{i}" for i in range(9)], ["home", "food"]
    text = in_words(found, "With s4 closed", states, names)
    assert text.startswith("With s4 closed: ")
    assert "as if the fit were certain" in text
    rows = rows_of(found, states, names)
    assert [row["of"] for row in rows] == states + names
    assert rows[4]["after"] == 0


def test_a_refit_keeps_the_numbers_of_the_intentions(model, demos):
    draw = one_draw(0, model, demos, demos, Change(without=1), 0, True)
    assert draw.shape == (2, 9 + 2)
    np.testing.assert_allclose(draw[1, 9:], [1.0, 0.0])


def test_wrong_questions_are_refused(model, demos):
    with pytest.raises(InputError, match="Nothing has changed"):
        imagine(model, demos, Change())
    with pytest.raises(InputError, match="Every trajectory begins"):
        imagine(model, demos, Change(WORLD.mdp.closed(range(9))), closed=range(9))
    with pytest.raises(InputError, match="no pair"):
        imagine(Uniform().fit(demos), demos, Change(without=0))
