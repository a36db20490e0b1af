"""Fits on a real Dask scheduler with worker processes, also when a worker is killed in the middle."""

from __future__ import annotations

import json
import operator
import os
import signal
import subprocess
import sys
import threading
import time
from json import loads
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from prism_irl import storage
from prism_irl.data.batching import Parts
from prism_irl.errors import InputError
from prism_irl.models.intentions import Intentions
from prism_irl.scale import fanout
from prism_irl.worlds.frustration import FrustrationWorld

pytest.importorskip("distributed", reason="Dask is not installed (extra: cluster)")
SINGLE = {**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}


class Cluster:
    """`dask scheduler` and `dask worker` as people start them, on 127.0.0.1."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.processes = folder, []
        address = folder / "scheduler.json"
        self._start("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", address)
        deadline = time.monotonic() + 200
        while not address.exists():
            assert time.monotonic() < deadline, "the scheduler did not start"
            time.sleep(0.05)
        self.address = loads(address.read_text())["address"]

    def _start(self, *arguments: object) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "dask", *map(str, arguments)]
        path = os.pathsep.join(
            [str(self.folder), os.environ.get("PYTHONPATH", "")]
        )  # where a test puts what they import
        environment = {**SINGLE, "PYTHONPATH": path}
        log = (self.folder / f"log_{len(self.processes)}.txt").open("wb")
        self.processes.append(subprocess.Popen(command, cwd=self.folder, env=environment, stdout=log, stderr=log))
        log.close()
        return self.processes[-1]

    def worker(self) -> subprocess.Popen[bytes]:
        # Without a nanny the process that is killed is the worker itself, and nobody starts it again.
        options = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", self.folder)
        return self._start("worker", self.address, *options)

    def stop(self) -> None:
        for process in reversed(self.processes):
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory):
    started = Cluster(tmp_path_factory.mktemp("dask"))
    yield started
    started.stop()


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "mouse.csv"
    FrustrationWorld(horizon=10).simulate(16, seed=3).demonstrations.to_pandas().to_csv(path, index=False)
    return path


def spread(address: str, *work: object) -> dict[int, object]:
    """Results by task, from a cluster."""
    with fanout.cluster(address):
        return dict(fanout.spread(*work))


@pytest.mark.parametrize("jobs", [1, 2])
def test_local_processes_do_every_task_once(jobs: int) -> None:
    found = dict(fanout.spread(operator.add, range(5), (100,), jobs=jobs))
    assert found == {i: i + 100 for i in range(5)}


def test_processes_end_with_the_one_that_they_work_for(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        "import os, time, sys\n"
        "def work(i, folder):\n    open(f'{folder}/{os.getpid()}', 'w').close(); time.sleep(60)\n"
        "if __name__ == '__main__':\n    from prism_irl.scale.fanout import spread\n    import slow\n"
        "    list(spread(slow.work, [0, 1], (sys.argv[1],), jobs=99))\n"
    )
    (tmp_path / "pids").mkdir()
    running = subprocess.Popen(
        [sys.executable, "slow.py", "pids"], cwd=tmp_path, env=SINGLE | {"PYTHONPATH": os.pathsep.join(sys.path)}
    )
    deadline = time.monotonic() + 120
    while len(list((tmp_path / "pids").iterdir())) < 2 and running.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    workers = [int(path.name) for path in (tmp_path / "pids").iterdir()]
    running.kill()
    running.wait()
    assert len(workers) == 2, "as many processes as tasks, whatever was asked for"
    while any(_alive(pid) for pid in workers):
        assert time.monotonic() < deadline, "workers outlived their parent"
        time.sleep(0.1)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_scheduler_that_is_gone_is_one_sentence() -> None:
    for error in (OSError("Timed out\ntrying to connect"), RuntimeError("closed"), ValueError("no such comm")):
        with pytest.raises(InputError) as said, fanout._lost_scheduler("tcp://a:1"):
            raise error
        assert "\n" not in str(said.value)
        assert "is gone" in str(said.value)
        assert "go on with --resume" in str(said.value)


def test_nobody_at_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fanout, "CONNECT_SECONDS", 2)
    with pytest.raises(InputError, match=r"No Dask scheduler answers at tcp://127\.0\.0\.1:1 "):
        spread("tcp://127.0.0.1:1", operator.add, range(2), (0,))
    with pytest.raises(InputError, match="No Dask scheduler answers at nonsense"):
        spread("nonsense://", operator.add, range(2), (0,))


@pytest.mark.parametrize("rewards", ["tabular", "goals"])
@pytest.mark.parametrize("switching", ["markov", "semi-markov", "state"])
def test_parts_of_a_fit_add_up_to_all_of_it(switching: str, rewards: str) -> None:
    """Statistics of some trajectories at a time, as workers return them."""
    demos = FrustrationWorld(horizon=10).simulate(16, seed=3).demonstrations
    model = Intentions(2, switching=switching, rewards=rewards, n_starts=1, max_iterations=3, history=1, backoff=5.0)
    alone, together = clone(model).fit(demos), clone(model)
    together.fit(demos, run=lambda function, parts: [function(part) for part in Parts(parts.data, 40)])
    np.testing.assert_allclose(together.predict_proba(demos), alone.predict_proba(demos), atol=1e-6)
    assert together.score(demos) == pytest.approx(alone.score(demos), abs=1e-8)


@pytest.mark.slow
def test_parts_of_a_killed_worker_are_done_again(cluster: Cluster) -> None:
    first, _ = cluster.worker(), cluster.worker()
    demos = FrustrationWorld(horizon=10).simulate(64, seed=3).demonstrations
    model = Intentions(2, switching="markov", n_starts=1, max_iterations=12, patience=None)
    alone, together = clone(model).fit(demos), clone(model)

    def kill(progress: Any) -> None:
        if progress.iteration == 3:
            os.kill(first.pid, signal.SIGKILL)

    with fanout.parts_on(cluster.address) as run:
        together.fit(demos, run=run, on_iteration=kill)
    np.testing.assert_allclose(together.predict_proba(demos), alone.predict_proba(demos), atol=1e-9)
    assert [row["train"] for row in together.monitor_] == pytest.approx([row["train"] for row in alone.monitor_])


def compare(table: Path, out: Path, *options: str) -> subprocess.Popen[str]:
    chosen = "--methods uniform,iavi,hiql,ngram --folds 3 --seeds 2 --intentions 2".split()
    command = [sys.executable, "-m", "prism_irl", "compare", str(table), *chosen, "--out", str(out), *options]
    return subprocess.Popen(command, env=SINGLE, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def numbers(run: Path) -> pd.DataFrame:
    return pd.read_csv(run / "folds.csv").drop(columns="fit_seconds")


@pytest.mark.slow
def test_a_killed_worker_changes_nothing(cluster: Cluster, table: Path, tmp_path: Path) -> None:
    first = cluster.worker()
    cluster.worker()
    local = compare(table, tmp_path / "local", "--jobs", "1")
    stderr = local.communicate(timeout=600)[1]
    assert local.returncode == 0, stderr
    remote = compare(table, tmp_path / "remote", "--scheduler", cluster.address)
    cache = tmp_path / "remote" / "cache"
    deadline = time.monotonic() + 400
    while len(list(cache.glob("*.json"))) < 1:
        assert remote.poll() is None, remote.communicate()[1]
        assert time.monotonic() < deadline, "no fit came back"
        time.sleep(0.01)
    os.kill(first.pid, signal.SIGKILL)
    done = len(list(cache.glob("*.json")))
    stderr = remote.communicate(timeout=600)[1]
    assert remote.returncode == 0, stderr
    assert done < 24, "the worker was killed after the last fit"
    assert len(list(cache.glob("*.json"))) == len(list((tmp_path / "local" / "cache").glob("*.json")))
    pd.testing.assert_frame_equal(numbers(tmp_path / "remote"), numbers(tmp_path / "local"))


@pytest.mark.slow
def test_an_interrupted_sweep_goes_on_where_it_stopped(cluster: Cluster, table: Path, tmp_path: Path) -> None:
    alone = [process for process in cluster.processes[1:] if process.poll() is None] or [cluster.worker()]
    assert alone
    begun = compare(table, tmp_path / "run", "--scheduler", cluster.address)
    cache = tmp_path / "run" / "cache"
    deadline = time.monotonic() + 400
    while len(list(cache.glob("*.json"))) < 2:
        assert begun.poll() is None, begun.communicate()[1]
        assert time.monotonic() < deadline, "no fit came back"
        time.sleep(0.01)
    os.kill(begun.pid, signal.SIGKILL)
    begun.communicate()
    written = {path: path.stat().st_mtime_ns for path in cache.glob("*.json")}
    again = compare(table, tmp_path / "run", "--scheduler", cluster.address, "--resume")
    stderr = again.communicate(timeout=600)[1]
    assert again.returncode == 0, stderr
    assert {path: path.stat().st_mtime_ns for path in written} == written, "a finished fit was made again"
    assert len(numbers(tmp_path / "run")) == 30  # five methods with the references, three folds, two seeds


@pytest.mark.slow
def test_data_that_died_with_its_worker_is_sent_again(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The only worker, and with it the only copy of the data, is killed by one of the tasks."""
    for process in cluster.processes[1:]:
        if process.poll() is None:
            process.kill()
            process.wait()
    (cluster.folder / "unlucky.py").write_text(KILL_ONCE)
    monkeypatch.syspath_prepend(cluster.folder)
    import unlucky

    worker, flag, data = cluster.worker(), tmp_path / "killed", list(range(1000))
    replace = threading.Thread(target=lambda: (worker.wait(400), cluster.worker()))
    replace.start()
    found = spread(cluster.address, unlucky.kill_once, range(4), (data, str(flag)))
    replace.join()
    assert flag.exists()
    assert found == {i: sum(data) + i for i in range(4)}


KILL_ONCE = """
import os, pathlib, signal
def kill_once(task, data, flag):
    if task == 2 and not pathlib.Path(flag).exists():
        pathlib.Path(flag).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return sum(data) + task
"""


# -- rows on disk are taken as they are, and the rest is worked out and written ----------------------------------------


def square(task, offset):
    return {"value": task * task + offset}


def test_rows_keep_the_order_of_the_tasks_and_are_written(tmp_path):
    seen = []
    rows = fanout.remembered(square, [3, 1, 2], (10,), lambda task: tmp_path / f"{task}.json", on_rows=seen.append)
    assert rows == [{"value": 19}, {"value": 11}, {"value": 14}]
    assert seen == [0, 1, 2, 3]
    assert json.loads((tmp_path / "1.json").read_text())["value"] == 11


def test_what_is_on_disk_is_not_done_again(tmp_path):
    storage.write_sealed(tmp_path / "1.json", {"value": -1})
    seen = []
    rows = fanout.remembered(square, [3, 1], (0,), lambda task: tmp_path / f"{task}.json", on_rows=seen.append)
    assert rows == [{"value": 9}, {"value": -1}]
    assert seen == [1, 2]


def test_without_a_path_nothing_is_remembered(tmp_path):
    assert fanout.remembered(square, [2], (0,), lambda task: None) == [{"value": 4}]
    assert list(tmp_path.iterdir()) == []
