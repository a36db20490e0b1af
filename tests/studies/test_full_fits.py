"""Fits to all data are made once, remembered under everything that they depend on, and the same wherever they run."""

import numpy as np
import pytest
from sklearn.base import clone

from prism_irl.models.intentions import Intentions
from prism_irl.models.presets import HIQL
from prism_irl.scale.stacked import stack as stacked
from prism_irl.studies.full_fits import fit_to_all, is_saved
from prism_irl.worlds.frustration import FrustrationWorld

MODELS = [HIQL(2, n_starts=2, max_iterations=5), HIQL(2, n_starts=2, max_iterations=5, seed=1)]


@pytest.fixture(scope="module")
def demos():
    return FrustrationWorld(horizon=12).simulate(16, seed=3).demonstrations


def test_a_fit_to_all_data_is_found_again(demos, tmp_path, monkeypatch):
    found = fit_to_all(MODELS, demos, None, folder=tmp_path)
    assert not hasattr(MODELS[0], "starts_"), "the models themselves must stay unfitted"
    assert len({name for name, _ in found}) == 2
    monkeypatch.setattr(HIQL, "fit", lambda *_, **__: pytest.fail("fitted again"))
    again = fit_to_all(MODELS, demos, None, folder=tmp_path)
    for (name, first), (same, second) in zip(found, again, strict=True):
        assert name == same
        assert is_saved(tmp_path / name)
        assert first.starts_ == second.starts_
        np.testing.assert_array_equal(first.predict_proba(demos), second.predict_proba(demos))
    with pytest.raises(pytest.fail.Exception):  # other data, another fit
        fit_to_all(MODELS, demos.subset([0, 1]), None, folder=tmp_path)


def test_equal_models_are_fitted_once_and_come_back_in_order(demos, monkeypatch):
    fits = []
    fit = HIQL.fit
    monkeypatch.setattr(HIQL, "fit", lambda self, *rest: fits.append(self.seed) or fit(self, *rest))
    found = fit_to_all([MODELS[1], MODELS[0], clone(MODELS[1])], demos, None)
    assert sorted(fits) == [0, 1]
    assert [model.seed for _, model in found] == [1, 0, 1]
    assert found[0][0] == found[2][0]


def test_fits_that_share_a_gpu_are_those_that_they_would_be_alone(demos, monkeypatch):
    """The stack runs on a CPU here; on a GPU it is chosen by itself."""
    options = {"hidden": 4, "embedding": 4, "max_iterations": 3, "warm_up": 1, "n_candidates": 1, "device": "cpu"}
    models = [Intentions(2, switching="recurrent", **options, n_starts=2, seed=seed) for seed in (0, 1)]
    alone = fit_to_all([*models, MODELS[0]], demos, None)
    stacks = []
    fit_together = stacked.fit_together

    def spy(chosen, data, mdp):
        stacks.append(len(chosen))
        return fit_together(chosen, data, mdp, device="cpu")

    monkeypatch.setattr(stacked, "worth_stacking", stacked.can_stack)
    monkeypatch.setattr(stacked, "fit_together", spy)
    together = fit_to_all([*models, MODELS[0]], demos, None)
    assert stacks == [2]
    for (_, one), (_, other) in zip(alone, together, strict=True):
        assert other.score(demos) == pytest.approx(one.score(demos), abs=1e-5)
        assert (one.predict(demos) == other.predict(demos)).mean() > 0.95
