"""The page of a run that was there before: whatever has become of its files is one sentence."""

import json

import pytest

from prism_irl.cli.report import write_again
from prism_irl.errors import InputError
from support import one_sentence


@pytest.mark.parametrize("wrong", [["markov", "tabular"], 3])
def test_files_that_were_changed_are_no_fault_of_ours(tmp_path, wrong):
    score = {"train": -1.0, "validation": -1.1}
    whole = {"method": "HIQL", "n_intentions": 2, "n_steps": 9, "predictive_ll": score, "paper_score": score}
    (tmp_path / "metrics.json").write_text(json.dumps(whole))
    assert write_again(tmp_path).is_file()
    (tmp_path / "metrics.json").write_text(json.dumps(whole | {"pair": wrong}))
    with pytest.raises(InputError) as error:
        write_again(tmp_path)
    assert "not those of a run" in one_sentence(error)
