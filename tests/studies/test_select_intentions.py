"""Settings of a selection; the selection itself is tested through the command line (`tests/cli/test_select.py`)."""

import pytest

from prism_irl.errors import InputError
from prism_irl.models.intentions import Intentions
from prism_irl.models.presets import HIQL
from prism_irl.studies.select_intentions import Select, parse_intentions


def test_intentions_are_read_as_people_write_them():
    assert parse_intentions("1..4") == (1, 2, 3, 4)
    assert parse_intentions("5,2") == (2, 5)
    assert parse_intentions("1..2,4") == (1, 2, 4)
    for wrong in ("", "0..3", "3..1", "two", "1..x"):
        with pytest.raises(InputError, match="cannot be read"):
            parse_intentions(wrong)


def test_switching_chooses_the_model():
    assert isinstance(Select().model(3), HIQL)
    network = Select(switching="recurrent", history=2, starts=1)
    model = network.model(2)
    assert isinstance(model, Intentions)
    assert (model.switching, model.history, model.n_starts) == ("recurrent", 2, 1)
    with pytest.raises(InputError, match="no method 'hidden'"):
        Select(switching="hidden").model(2)
