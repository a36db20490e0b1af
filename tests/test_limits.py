"""Bounds are said with their numbers, and can be raised."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from prism_irl import Intentions, limits
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError, one_line
from support import prism


def test_memory_is_bounded_by_what_is_free_or_by_hand(monkeypatch):
    monkeypatch.delenv("PRISM_MAX_MEMORY", raising=False)
    free = limits.available()
    assert free is None or limits.allowed_bytes(0.5) == pytest.approx(free / 2, rel=0.5)
    monkeypatch.setenv("PRISM_MAX_MEMORY", "2.5")
    assert limits.allowed_bytes() == 2_500_000_000
    limits.check_bytes("It", 2e9, "give less")
    with pytest.raises(InputError, match=r"It would take about 3\.0 GB of memory, and 2\.5 GB are allowed; give less"):
        limits.check_bytes("It", 3e9, "give less")
    for wrong in ("", "much", "-1", "nan", "inf", "0"):
        monkeypatch.setenv("PRISM_MAX_MEMORY", wrong)
        with pytest.raises(InputError, match="PRISM_MAX_MEMORY"):
            limits.allowed_bytes()


@pytest.mark.parametrize(
    "command",
    [
        "fit x.csv --intentions 999999999 --out o",
        "fit x.csv --history 999999999 --out o",
        "fit x.csv --n-starts 999999999 --out o",
        "fit x.csv --n-candidates 999999999 --out o",
        "fit x.csv --epochs-per-m-step 999999999 --out o",
        f"fit x.csv --max-iterations {10**30} --out o",
        "select x.csv --intentions 1..1000000000 --out o",
        "select x.csv --folds 999999999 --out o",
        "select x.csv --surrogates 99999999999 --out o",
        "evidence x.csv --surrogates 99999999999 --out o",
        "compare x.csv --jobs 99999999 --out o",
        "compare x.csv --jobs 0 --out o",
        "evidence x.csv --jobs -3 --out o",
        "demo --jobs 0 --out o",
    ],
)
def test_options_that_no_machine_could_work_off_are_refused(command: str, tmp_path: Path):
    (tmp_path / "x.csv").write_text("trajectory,state,action\n" + "a,0,0\nb,1,1\n" * 5)
    done = prism(*command.split(), cwd=tmp_path)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert "; give at " in done.stderr
    assert not (tmp_path / "o").exists()


def test_what_data_bring_along_cannot_move_the_cursor():
    assert one_line("a\x1b[2Jb\nc\x00\u2028\ud800 ä\n") == "a\\x1b[2Jb c\\x00\\x2028\\xd800 ä"
    assert str(InputError("State \x1b[31m\nis odd.")) == "State \\x1b[31m is odd."


def test_a_table_of_pairs_that_the_data_hardly_visit_is_refused_unless_somebody_allows_it(monkeypatch):
    with pytest.raises(InputError, match="4 states with 1,000,000 actions are 4,000,000 pairs for 2,000 steps"):
        limits.check_pairs(4, 1_000_000, 2_000)
    demos = Demonstrations.from_arrays([[0, 1, 0]], [[0, 1, 1]], n_states=200, n_actions=10_000)
    with pytest.raises(InputError, match=r"about 5.0 GB.*PRISM_MAX_MEMORY"):
        Intentions(2, switching="markov").fit(demos)
    limits.check_pairs(100_000, 10, 200_000)  # many states, and data that visit them
    monkeypatch.setenv("PRISM_MAX_MEMORY", "8")
    limits.check_pairs(4, 1_000_000, 2_000)


# -- threads: one number for every library, in a process of its own, before any of them is imported --------------------

COUNT = (
    "from prism_irl import limits; print(limits.bound_threads()); import torch, numba; "
    "print(torch.get_num_threads(), numba.config.NUMBA_NUM_THREADS)"
)
VARIABLES = ("PRISM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"PRISM_THREADS": "1"}, "1\n1 1\n"),
        ({"OMP_NUM_THREADS": "1"}, "1\n1 1\n"),
        ({"PRISM_THREADS": "1", "OMP_NUM_THREADS": "2", "NUMBA_NUM_THREADS": "2"}, "1\n1 1\n"),
    ],
    ids=["ours", "OpenMP's", "ours before others"],
)
def test_one_setting_bounds_all_libraries(given, expected):
    pytest.importorskip("numba", reason="needs prism-irl[fast]")
    rest = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    done = subprocess.run([sys.executable, "-c", COUNT], env=rest | given, capture_output=True, text=True, check=True)
    assert done.stdout == expected


def test_numba_that_has_begun_is_left_alone():
    pytest.importorskip("numba", reason="needs prism-irl[fast]")
    rest = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    late = (
        "import numba, os; from prism_irl import limits; limits.bound_threads(); "
        "print('NUMBA_NUM_THREADS' in os.environ)"
    )
    command = [sys.executable, "-c", late]
    done = subprocess.run(command, env=rest | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_a_number_that_is_none_is_refused():
    rest = {name: value for name, value in os.environ.items() if name not in VARIABLES} | {"PRISM_THREADS": "many"}
    command = [sys.executable, "-m", "prism_irl", "methods"]
    done = subprocess.run(command, env=rest, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        2,
        "prism: PRISM_THREADS is 'many'; give a number of threads, such as 1.\n",
    )


def test_what_is_pinned_is_pinned_with_its_hash():
    root = Path(__file__).parents[1]
    pins, hashes = (
        dict(
            line.replace(" --hash", "==").replace("_", "-").lower().split("==")[:2] for line in lines if "#" not in line
        )
        for lines in ((root / name).read_text().splitlines() for name in ("constraints.txt", "hashes.txt"))
    )
    assert {name: version.partition("+")[0] for name, version in hashes.items()} == pins
