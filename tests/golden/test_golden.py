"""What version 0.1.0 found is still found: labels, likelihoods and rewards of every method on two small worlds.

Stored numbers are compared within tolerances that any processor meets: closed forms to 1e-6, networks in float32 by
likelihood and by nearly all of their labels. What guards a change of the code to the last digit is `make golden`, which
runs two commits on one machine.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import prism_irl as prism
from golden_cases import KEPT, METHODS, NETWORK_KERNELS, NETWORKS, run, tolerance, worlds

FOLDER = Path(__file__).parent
GOLDEN = np.load(FOLDER / "v0_1_0.npz")
WORLDS = worlds()


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("world", WORLDS)
def test_every_method_finds_what_it_found(world: str, name: str) -> None:
    _, found = run(name, *WORLDS[world])
    expected = {key.split("/")[2]: GOLDEN[key] for key in GOLDEN.files if key.startswith(f"{world}/{name}/")}
    assert found.keys() == expected.keys()
    allowed = tolerance(name)
    steps = WORLDS[world][0].n_steps / len(WORLDS[world][0])
    likelihoods = found["log_likelihood"] / steps, expected["log_likelihood"] / steps
    np.testing.assert_allclose(*likelihoods, atol=allowed, rtol=0)
    assert found["paper_score"] == pytest.approx(float(expected["paper_score"]), abs=allowed)
    trained = name in NETWORKS | NETWORK_KERNELS
    assert (found["labels"] == expected["labels"]).mean() >= (0.95 if trained else 0.999)
    if "rewards" in expected and not trained:
        np.testing.assert_allclose(found["rewards"], expected["rewards"], atol=1e-4, rtol=1e-6)


@pytest.mark.parametrize("name", KEPT)
def test_models_saved_by_the_first_version_load(name: str) -> None:
    demos, _ = WORLDS["labyrinth"]
    model = prism.load(FOLDER / "models" / name)
    written = json.loads((FOLDER / "models" / name / "config.json").read_text())["method"]
    assert type(model).__name__ == {"PRISM": "Intentions"}.get(written, written)
    found = np.add.reduceat(model.log_likelihood(demos), demos.offsets[:-1])
    np.testing.assert_allclose(found, GOLDEN[f"saved/{name}/log_likelihood"], atol=1e-3)
    np.testing.assert_allclose(model.rewards_, GOLDEN[f"saved/{name}/rewards"], atol=1e-3)
