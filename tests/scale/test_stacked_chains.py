"""Short chains side by side end where each start would have ended alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from cuda_support import ragged
from prism_irl.models import starts
from prism_irl.models.intentions import Intentions
from prism_irl.scale import stacked as chains

CPU = torch.device("cpu")
DATA = [ragged(5, 12), ragged(6, 17), ragged(7, 9)]
VARIANTS = [(2, 0, 1), (3, 1, 2), (1, 2, 1)]  # intentions, seed, history


def begun(kind: str, warm: int) -> list:
    """Models, their starts at no point yet, and their data."""
    options = {"switching": "recurrent", "hidden": 4, "embedding": 4}
    options |= {"n_starts": 2, "n_candidates": 3, "warm_up": warm, "starts": kind}
    found = []
    for (K, seed, history), demos in zip(VARIANTS, DATA, strict=True):
        model = Intentions(K, seed=seed, history=history, device="cpu", **options)
        checked = model._checked(demos, None)
        model._set_up(checked, None)
        train, _ = model._validation_split(checked)
        found.append((model, [model._new_start(index, train.demos) for index in range(2)], train))
    return found


@pytest.mark.parametrize(("kind", "warm"), [("mixed", 3), ("annealed", 3), ("random", 0)])
def test_first_points_are_those_of_each_fit_alone(kind: str, warm: int, monkeypatch) -> None:
    monkeypatch.setattr(chains, "SIDE_BY_SIDE", 7)  # some starts in one part, some in the next
    monkeypatch.setattr(chains, "MOST_NUMBERS", 2000)  # several batches
    monkeypatch.setattr(starts, "COOLING", 4)
    together, alone = begun(kind, warm), begun(kind, warm)
    chains.find_first_points(together, CPU)
    for (model, own, train), (_, others, _) in zip(alone, together, strict=True):
        for start, other in zip(own, others, strict=True):
            model._first_point(start, train)
            np.testing.assert_allclose(other.rewards.policies, start.rewards.policies, atol=1e-9)
            np.testing.assert_allclose(other.rewards.counts, start.rewards.counts, atol=1e-7)
            for name in ("bias", "initial_logits"):
                torch.testing.assert_close(getattr(other.switching, name), getattr(start.switching, name))


def test_the_likeliest_candidate_is_taken() -> None:
    fits = begun("mixed", 4)[:2]
    found = []

    class Watched(chains.ShortChains):
        def chain(self, f):
            found.append((f, self.likelihood.clone()))
            return super().chain(f)

    original, chains.ShortChains = chains.ShortChains, Watched
    try:
        chains.find_first_points(fits, CPU)
    finally:
        chains.ShortChains = original
    assert len(found) == 4  # two starts of two fits
    for i, (f, likelihood) in enumerate(found):
        own = likelihood[3 * i : 3 * i + 3]
        assert f == 3 * i + int(own.argmax())
        assert own.min() < own.max()  # there was something to choose from
