"""SWIRL's shipped labyrinth parameters give the published likelihoods (Ke et al. 2025), and our own fit beats them."""

import os
from pathlib import Path

import numpy as np
import pytest

from labyrinth.published import from_parameters, slots, swirl_score
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.datasets.labyrinth import labyrinth_mdp, load_labyrinth
from prism_irl.models.presets import SWIRL
from prism_irl.rewards.soft import Places, own_dynamics

# Nats per step, first step of every window dropped, every 5th window for testing.
PUBLISHED = {"s2": (-0.7270, -0.7268), "s1": (None, -6.749)}


def data_folder() -> Path:
    beside_the_repository = Path(__file__).resolve().parents[3] / "shared" / "data"
    return Path(os.environ.get("PRISM_DATA", beside_the_repository))


@pytest.fixture(scope="module", autouse=True)
def data_set():
    needed = [f"reference/swirl_{name}_labyrinth.npz" for name in PUBLISHED] + ["labyrinth/emissions500new.npy"]
    missing = [name for name in needed if not (data_folder() / name).exists()]
    if missing:
        pytest.skip(f"{missing[0]} is absent; set PRISM_DATA to the folder that holds reference/ and labyrinth/")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRISM_DATA", str(data_folder()))
        yield


@pytest.fixture(scope="module")
def parts(data_set) -> tuple[Demonstrations, Demonstrations]:
    demos, test = load_labyrinth(), np.arange(238) % 5 == 0
    return demos.subset(~test), demos.subset(test)


def shipped(name: str) -> SWIRL:
    with np.load(data_folder() / "reference" / f"swirl_{name}_labyrinth.npz", allow_pickle=False) as arrays:
        return from_parameters(dict(arrays), labyrinth_mdp(), device="cpu")


@pytest.mark.parametrize("name", PUBLISHED)
def test_shipped_parameters_give_the_published_likelihood(name, parts):
    model = shipped(name)
    assert model.order == int(name[1])
    tolerance = 1e-4 if name == "s2" else 5e-4  # the last published digit
    for published, demos in zip(PUBLISHED[name], parts, strict=True):
        if published is not None:
            assert swirl_score(model, demos) == pytest.approx(published, abs=tolerance)


def test_slots_are_the_authors():
    mdp = labyrinth_mdp()
    # Parent, the node itself (an invalid action stays), then the children; the root has no parent, leaves no children.
    places = Places(own_dynamics(mdp, mdp.valid_actions, 0.95, "stay"), order=2)
    assert places.previous is not None
    found = set(zip(places.previous.tolist(), places.arrival.tolist(), slots(places, 4).tolist(), strict=True))
    expected = set()
    for s in range(127):
        before = sorted({(s - 1) // 2 if s else 0, s} | ({2 * s + 1, 2 * s + 2} if s < 63 else set()))
        expected |= {(q, s, 4 * s + i) for i, q in enumerate(before)}
    assert found == expected


def test_scores_over_all_steps_are_likelihoods(parts):
    model = shipped("s2")
    proba = model.action_proba(parts[1])
    np.testing.assert_allclose(proba.sum(1), 1.0)
    taken = proba[np.arange(parts[1].n_steps), parts[1].actions]
    assert model.score(parts[1]) == pytest.approx(np.log(taken).mean())


def test_our_own_fit_reaches_the_published_likelihood(parts):
    # One short start from window clusters and a Markov chain: nobody else's starting point.
    model = SWIRL(3, order=2, n_starts=1, warm_up=10, max_iterations=10, device="cpu").fit(parts[0], labyrinth_mdp())
    assert swirl_score(model, parts[1]) > -0.7268
