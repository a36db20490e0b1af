"""The one sentence about a package that is not there."""

import json
import sys

import pytest

from prism_irl.errors import InputError
from prism_irl.optional import need


def test_a_package_that_is_there_is_returned():
    assert need("json", "data") is json


@pytest.mark.parametrize("module", ["absent_package", "absent_package.part"])
def test_what_is_missing_and_the_extra_are_named(module):
    with pytest.raises(InputError, match=r'^absent_package is not installed; .* "prism-irl\[robots\]"\.$'):
        need(module, "robots")


def test_the_dependency_that_is_missing_is_named_and_not_the_module_that_wants_it(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard", raising=False)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(InputError, match=r"^tensorboard is not installed"):
        need("torch.utils.tensorboard", "logging")
