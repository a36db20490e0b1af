"""The one sentence about a package that is not there."""

import json
import os
import time

import pytest

from prism_irl.errors import InputError
from prism_irl.optional import apart, compiled, need


def test_a_package_that_is_there_is_returned():
    assert need("json", "data") is json


@pytest.mark.parametrize("module", ["absent_package", "absent_package.part"])
def test_what_is_missing_and_the_extra_are_named(module):
    with pytest.raises(InputError, match=r'^absent_package is not installed; .* "prism-irl\[robots\]"\.$'):
        need(module, "robots")


def test_the_dependency_that_is_missing_is_named_and_not_the_module_that_wants_it(tmp_path, monkeypatch):
    (tmp_path / "wanting.py").write_text("import absent_library")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match=r"^absent_library is not installed"):
        need("wanting", "any")


def _twice(x):
    return 2 * x


def test_functions_are_compiled_where_no_folder_can_keep_them(monkeypatch):
    caching = pytest.importorskip("numba.core.caching", reason="needs prism-irl[fast]")
    monkeypatch.setattr(caching.CompileResultCacheImpl, "_locator_classes", [])
    assert compiled()(_twice)(21) == 42


def _slow() -> None:
    time.sleep(60)


def _dead() -> None:
    os._exit(1)


def _wrong() -> None:
    raise ValueError("no such thing")


def test_what_hangs_or_dies_does_so_apart() -> None:
    assert apart(divmod, 7, 2, seconds=60) == (3, 1)
    with pytest.raises(TimeoutError, match="longer than 1 seconds"):
        apart(_slow, seconds=1)
    with pytest.raises(OSError, match="killed"):
        apart(_dead, seconds=60)
    with pytest.raises(OSError, match="ValueError: no such thing"):
        apart(_wrong, seconds=60)
