"""Figures drawn in other processes are the same figures, and whatever happens to a process, they are drawn."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

from prism_irl.errors import InputError
from prism_irl.figures import elsewhere
from prism_irl.figures.elsewhere import HERE, drawing_elsewhere
from prism_irl.figures.palette import intention_color
from prism_irl.report import drawn

pytestmark = pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="needs POSIX signals")
FIT = (np.repeat([0, 1, 0], 5), np.array([0, 7, 15]), ["reach", "carry"], None, None)


def test_the_same_bytes_the_same_errors_and_no_interrupts(tmp_path):
    places = tmp_path / "here", tmp_path / "there"
    for place in places:
        place.mkdir()
    captions = HERE.draw(drawn.fit_figures, places[0], *FIT)()
    with drawing_elsewhere() as drawing:
        waiting, wrong = drawing.draw(drawn.fit_figures, places[1], *FIT), drawing.draw(intention_color, -1)
        assert waiting() == captions
        with pytest.raises(InputError, match="no intention -1"):
            wrong()
        assert signal.SIGINT in drawing.draw(signal.pthread_sigmask, signal.SIG_BLOCK, ())()
        while (process := drawing.draw(os.getpid)()) != os.getpid():
            os.kill(process, signal.SIGKILL)  # one after the other: in the end there is only this one to draw
    files = {path.name for path in places[0].iterdir()}
    assert files == {f"{stem}.{ending}" for stem in captions for ending in ("svg", "png", "csv")}
    for file in files:
        assert (places[0] / file).read_bytes() == (places[1] / file).read_bytes()
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_one_thread_or_one_core_is_no_room(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    assert elsewhere.has_room(None)
    assert not elsewhere.has_room(1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0}, raising=False)
    assert not elsewhere.has_room(None)
