"""Models answer what scikit-learn asks of an estimator, and as its own base class would."""

from __future__ import annotations

import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.utils import get_tags

from prism_irl import HIQL, Intentions
from prism_irl.models.base import Parametrised
from prism_irl.switching.options import State


class Ours(Parametrised):
    def __init__(self, b: object = 2, a: int = 1) -> None:
        self.a, self.b = a, b


class Theirs(BaseEstimator):  # type: ignore[misc]
    def __init__(self, b: object = 2, a: int = 1) -> None:
        self.a, self.b = a, b


def test_parameters_are_those_of_scikit_learns_base_class() -> None:
    for inner in (3, Ours(a=5)):
        ours, theirs = Ours(inner), Theirs(inner)
        assert ours.get_params() == theirs.get_params()
        assert list(ours.get_params(deep=False).items()) == list(theirs.get_params(deep=False).items())
    assert Ours(Ours()).set_params(a=4, b__a=7).get_params()["b__a"] == 7
    assert get_tags(Ours()) == get_tags(Theirs())
    with pytest.raises(ValueError, match="no parameter 'c'; it has a, b"):
        Ours().set_params(c=1)


def test_a_copy_has_the_same_parameters_and_shows_those_that_are_not_by_default() -> None:
    model = HIQL(5, seed=4)
    assert clone(model).get_params() == model.get_params()
    assert clone(model) is not model
    assert repr(model) == "HIQL(n_intentions=5, seed=4)"
    assert "switching=State(" in repr(Intentions(2, switching=State()))
