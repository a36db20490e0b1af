"""One number bounds the threads of every library, in a process of its own, before any of them is imported."""

import os
import subprocess
import sys

import pytest

COUNT = (
    "from prism_irl import threads; print(threads.bound()); import torch, numba; "
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
    late = "import numba, os; from prism_irl import threads; threads.bound(); print('NUMBA_NUM_THREADS' in os.environ)"
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
