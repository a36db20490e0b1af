"""A fit speaks of the evidence that an earlier run found, if it is about the same data."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from prism_irl.cli.known_evidence import content, find_evidence, read_evidence
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError

FOUND = {"p_value": 0.05, "gain": 0.01, "surrogates": 19, "agreement": 0.9, "agreement_p_value": 0.05}


@pytest.fixture
def demos() -> Demonstrations:
    rng = np.random.default_rng(0)
    return Demonstrations.from_arrays(
        rng.integers(3, size=(4, 6)), rng.integers(2, size=(4, 6)), n_states=3, n_actions=2
    )


def run(folder: Path, demos: Demonstrations, **changes: object) -> Path:
    (folder / "metrics.json").write_text(json.dumps({"evidence": {**FOUND, "surrogate_gains": [0.0], **changes}}))
    (folder / "config.json").write_text(json.dumps({"data": {"content": content(demos)}}))
    return folder


def test_what_was_found_is_read_whether_or_not_animals_are_named(tmp_path: Path, demos: Demonstrations) -> None:
    named = replace(demos, groups=np.array(["a", "a", "b", "b"]))
    assert content(named) == content(demos)
    assert named.checksum() != demos.checksum()
    found = read_evidence(run(tmp_path, named), demos)
    assert found == {**FOUND, "from": tmp_path.name}


def test_evidence_beside_a_run_is_found(tmp_path: Path, demos: Demonstrations) -> None:
    assert find_evidence(tmp_path / "fit", demos) is None
    for name, data in (("other", demos.subset([0, 1])), ("evidence", demos)):
        (tmp_path / name).mkdir()
        run(tmp_path / name, data, g1={"found": False})
    found = find_evidence(tmp_path / "fit", demos)
    assert found is not None
    assert (found["from"], found["g1"]) == ("evidence", {"found": False})
    with_covariates = replace(demos, observations=np.zeros((demos.n_steps, 1), np.float32))
    assert find_evidence(tmp_path / "fit", with_covariates) == found
    assert find_evidence(tmp_path / "fit", demos.subset([0])) is None


def test_other_data_and_other_folders_are_refused(tmp_path: Path, demos: Demonstrations) -> None:
    with pytest.raises(InputError, match="holds no evidence"):
        read_evidence(tmp_path, demos)
    run(tmp_path, demos, gain="much")
    with pytest.raises(InputError, match="holds no evidence"):
        read_evidence(tmp_path, demos)
    for wrong in ({"surrogates": float("inf")}, {"gain": float("nan")}, {"p_value": 7}):
        run(tmp_path, demos, **wrong)
        with pytest.raises(InputError, match="holds no evidence"):
            read_evidence(tmp_path, demos)
    run(tmp_path, demos.subset([0, 1]))
    with pytest.raises(InputError, match="about other data"):
        read_evidence(tmp_path, demos)
