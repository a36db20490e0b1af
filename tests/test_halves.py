"""Options are written down by their class, and read back from where they have been before."""

from __future__ import annotations

import pytest

from prism_irl import halves
from prism_irl.errors import InputError
from prism_irl.switching.options import State


def test_options_are_read_back_wherever_their_class_stood_when_they_were_written() -> None:
    written = halves.to_json(State(kernel="table"))
    assert halves.from_json(written) == State(kernel="table")
    assert halves.from_json(written | {"half": "prism_irl.switching.state:State"}) == State(kernel="table")
    with pytest.raises(InputError):
        halves.from_json(written | {"half": "prism_irl.switching.state:Nowhere"})
