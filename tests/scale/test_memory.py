"""The estimate of memory: what it grows with, what it says, and a measured peak beside it."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from continuous_worlds import walking
from prism_irl import em
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.models.intentions import Intentions
from prism_irl.models.presets import HIQL, PRISM
from prism_irl.scale import memory


def demonstrations(n: int, n_states: int = 50) -> Demonstrations:
    rng = np.random.default_rng(0)
    states, actions = rng.integers(n_states, size=n), rng.integers(4, size=n)
    return Demonstrations(states, actions, np.arange(0, n + 1, 50), n_states, 4)


def growing(model, demos, **options) -> int:
    return memory.estimate(demos, model, **options).total - memory.LIBRARIES


def test_a_fit_that_finds_its_number_of_intentions_has_an_estimate() -> None:
    assert memory.estimate(demonstrations(3000), Intentions(switching="arrival", rewards="places")).parts


@pytest.mark.parametrize("model", [Intentions(3), Intentions(3, switching="markov"), HIQL(3), PRISM.paper("labyrinth")])
def test_it_grows_with_what_memory_grows_with(model) -> None:
    small, large = demonstrations(3_000_000), demonstrations(6_000_000)
    assert 1.3 < growing(model, large) / growing(model, small) < 2.1
    wide = memory.estimate(demonstrations(3_000_000, 5000), model).parts["policies and counts"]
    assert wide == 100 * memory.estimate(small, model).parts["policies and counts"]
    more = type(model)(**{**model.get_params(), "n_intentions": 6})
    assert growing(more, small) > growing(model, small)
    longer = type(model)(**{**model.get_params(), "history": 3})
    assert growing(longer, small) > growing(model, small)


@pytest.mark.parametrize(("switching", "mapped"), [("markov", True), ("recurrent", True), ("state", False)])
def test_beliefs_about_mapped_continuous_data_are_on_disk(monkeypatch, switching, mapped) -> None:
    for name, value in {"LARGE": 100, "PART": 50}.items():
        monkeypatch.setattr(em, name, value)

    def beliefs(length: int) -> int:
        demos = walking(n_trajectories=4, length=length)
        demos.states.flags.writeable = demos.actions.flags.writeable = False  # as those of mapped files are
        return memory.estimate(demos, Intentions(3, switching=switching, rewards="features")).parts[
            "emissions and beliefs"
        ]

    assert (beliefs(60) == beliefs(120)) == mapped


def test_small_fits_say_nothing_and_large_ones_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    memory.announce(demonstrations(1000), Intentions(2))
    assert capsys.readouterr().err == ""
    memory.announce(demonstrations(1_000_050), HIQL(2))
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "1000050 steps" in said
    assert "about" in said


def test_a_fit_that_does_not_fit_is_a_warning(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "available", lambda: 10**8)
    memory.announce(demonstrations(1000), Intentions(2))
    said = capsys.readouterr().err
    assert "warning" in said
    assert "100 MB are free" in said
    monkeypatch.setattr(memory, "available", lambda: None)
    memory.announce(demonstrations(1000), Intentions(2))
    assert capsys.readouterr().err == ""


def test_a_fit_that_cannot_fit_is_refused_with_its_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dense transitions make almost every history of four states a new one: the estimate counts them."""
    rng = np.random.default_rng(0)
    steps = [rng.integers(size, size=(40, 500)) for size in (60, 4)]
    demos = Demonstrations.from_arrays(*steps, n_states=60, n_actions=4)
    model = Intentions(3, switching="markov", history=4)
    exact = demos.with_history(4).n_contexts
    assert exact <= memory._n_contexts(demos, model) < 1.5 * exact
    monkeypatch.setenv("PRISM_MAX_MEMORY", "0.05")
    with pytest.raises(InputError, match=r"about \d+ MB .* 50 MB are allowed; .*policies and counts.*--history"):
        memory.announce(demos, model)
    monkeypatch.setenv("PRISM_MAX_MEMORY", "1")
    memory.announce(demos, model)


@pytest.mark.parametrize(("network", "lines"), [("transformer", 1), ("gru", 0)])
def test_that_attention_forgets_is_announced(network, lines, capsys: pytest.CaptureFixture[str]) -> None:
    long = Demonstrations.from_arrays([np.arange(3000) % 5], [np.arange(3000) % 2])
    memory.announce(long, Intentions(2, switching="independent", network=network))
    said = capsys.readouterr().err
    assert said.count("\n") == said.count("looks back 1024 steps") == said.count("has 3000;") == lines


def test_this_machine_has_some_memory() -> None:
    there = memory.available()
    assert there is None or 2**20 < there < 2**50


@pytest.mark.parametrize(("n", "words"), [(3, "3 bytes"), (2_500_000, "2 MB"), (3.24e9, "3.2 GB"), (5e12, "5000.0 GB")])
def test_readable(n: float, words: str) -> None:
    assert memory.readable(n) == words


PEAK = """
import numpy as np
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.models.intentions import Intentions
from prism_irl.scale import memory

n, rng = 1_200_000, np.random.default_rng(0)
states, actions = rng.integers(2048, size=n).astype(np.uint16), rng.integers(32, size=n).astype(np.uint8)
demos = Demonstrations(states, actions, np.arange(0, n + 1, 40), 2048, 32)
model = Intentions(4, switching="markov", max_iterations=2, n_starts=1, warm_up=1, n_candidates=1, starts="random")
needed = memory.estimate(demos, model).total
model.fit(demos)
# Not ru_maxrss, which a child inherits: a test process that has grown would be measured instead.
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(needed / (int(peak.split()[1]) * 1024))
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak is measured in kilobytes on Linux only")
def test_the_measured_peak_is_about_the_estimate() -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", PEAK], env=environment, text=True, capture_output=True, check=True)
    assert 1 / 1.6 < float(done.stdout) < 1.6
