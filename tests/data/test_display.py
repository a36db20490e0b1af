"""Demonstrations in a notebook: a table of what is there, and a sequence of trajectories."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score

from prism_irl import HIQL, Demonstrations
from prism_irl.data.tables import read
from support import assert_same, frame


def test_a_notebook_shows_what_is_there() -> None:
    demos = read(frame(state=list("xy<xy"), group=["g", "h", "g", "h", "g"])).demonstrations
    html = demos._repr_html_()
    assert "<td>2: g, h</td>" in html
    assert "&lt;" in html
    assert "<, x" not in html
    assert "true labels" not in html


def test_demonstrations_are_a_sequence_of_trajectories() -> None:
    demos = Demonstrations.from_arrays([[0, 1], [1], [0, 0, 1]], [[0, 0], [1], [1, 0, 0]])
    assert_same(demos[-1], demos.subset([2]))
    assert_same(demos[1:], demos.subset([1, 2]))
    assert_same(demos[np.array([True, False, True])], demos.subset([0, 2]))
    assert [one.n_steps for one in demos] == [2, 1, 3]
    with pytest.raises(IndexError):
        demos[3]


def test_splits_and_searches_of_scikit_learn_work() -> None:
    rng = np.random.default_rng(0)
    demos = Demonstrations.from_arrays(rng.integers(3, size=(12, 8)), rng.integers(2, size=(12, 8)))
    model = HIQL(1, n_starts=1, max_iterations=2, device="cpu")
    groups = np.repeat([0, 1, 2], 4)
    scores = cross_val_score(model, demos, cv=GroupKFold(3), groups=groups)
    train, test = next(GroupKFold(3).split(demos, groups=groups))
    first = model.fit(demos.subset(train)).score(demos.subset(test))
    assert scores[0] == pytest.approx(first)
    search = GridSearchCV(model, {"n_intentions": [1, 2]}, cv=2, error_score="raise").fit(demos)
    assert search.best_params_["n_intentions"] in (1, 2)
