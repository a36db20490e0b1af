"""Data-parallel EM in real torchrun processes: the model of one process, also after a rank was killed."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

from prism_irl.data.batching import Prepared, minibatches
from prism_irl.data.contexts import Contexts
from prism_irl.data.sharing import SOLO, Shard
from prism_irl.scale import distributed
from prism_irl.scale.group import Group
from prism_irl.scale.tree_sum import KEPT_BYTES
from prism_irl.switching.optimiser import Optimiser
from prism_irl.worlds.frustration import FrustrationWorld

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
SMALL = "--intentions 2 --hidden 8 --embedding 8 --warm-up 3 --batch-size 4 --device cpu --json".split()


class Others(Group):
    """Ranks that live one after the other in this process: each sees the sums that were made before it."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size

    def total_(self, tensor: torch.Tensor) -> None:
        pass


def shards(demos, size: int) -> list[Shard]:
    contexts = Contexts.fit(demos, 1)
    return [Others(rank, size).prepare(demos, None, contexts, "cpu") for rank in range(size)]


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(1, 9), min_size=3, max_size=12), st.integers(2, 3), st.integers(1, 5), st.integers(0, 9))
def test_shards_partition_the_data_and_its_minibatches(make_demos, lengths, size, batch_size, seed) -> None:
    demos = make_demos(lengths=lengths)
    parts = shards(demos, size)
    steps = [part._steps() for part in parts]
    assert sorted(np.concatenate(steps).tolist()) == list(range(demos.n_steps))
    for part, at in zip(parts, steps, strict=True):
        assert part.n_steps == demos.n_steps
        np.testing.assert_array_equal(part.demos.states, demos.states[at])
        np.testing.assert_array_equal(part.whole.actions, demos.actions)
    whole = minibatches(demos.lengths, batch_size, np.random.default_rng(seed))
    shuffled = [list(part.shuffled(batch_size, np.random.default_rng(seed))) for part in parts]
    assert {len(batches) for batches in shuffled} == {len(whole)}, "every rank takes part in every update"
    for wanted, *found in zip(whole, *shuffled, strict=True):
        real = [
            at[batch.steps.reshape(-1)[batch.real].numpy()]
            for at, batch in zip(steps, found, strict=True)
            if batch is not None
        ]
        ends = [np.arange(demos.offsets[i], demos.offsets[i + 1]) for i in wanted]
        assert sorted(np.concatenate(real).tolist()) == sorted(np.concatenate(ends).tolist())


def test_fewer_trajectories_than_ranks_are_held_by_all(make_demos) -> None:
    demos = make_demos(lengths=(3, 2))
    held = Others(2, 4).prepare(demos, None, Contexts.fit(demos, 1), "cpu")
    assert type(held) is Prepared
    assert held.mean(np.arange(5.0)) == 2.0


def test_a_rank_without_a_trajectory_still_takes_part_in_the_update(make_demos) -> None:
    """With one trajectory per minibatch and two ranks, each rank idles in every other minibatch."""
    part = shards(make_demos(lengths=(4, 4, 4, 4)), 2)[0]
    module = torch.nn.Linear(1, 1)
    optimiser = Optimiser(learning_rate=0.1, batch_size=1).bind(module)
    updates = []
    optimiser.adam.step = lambda: updates.append(module.weight.grad.clone())  # type: ignore[method-assign]
    object.__setattr__(part.world, "total_", lambda flat: flat[-1:].clamp_(min=1))
    for batch in optimiser.minibatches(part, 0):
        optimiser.step(module(torch.ones(1)).sum(), len(batch.mask))
    assert len(updates) == 4
    assert sorted(float(update) for update in updates) == [0.0, 0.0, 1.0, 1.0]


class Received:
    """A request for a message, as `torch.distributed.irecv` returns it."""

    def __init__(self, message: torch.Tensor, box: queue.Queue[torch.Tensor]) -> None:
        self.message, self.box = message, box

    def wait(self) -> None:
        self.message.copy_(self.box.get(timeout=10))


@pytest.mark.parametrize("size", range(2, 10))
def test_sums_along_the_tree_reach_every_rank(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks as threads, messages as queues: every rank ends with the same bits, whatever their number."""
    own, mail = threading.local(), defaultdict(queue.Queue)
    asked: list[tuple[int, int, int]] = []

    def send(message: torch.Tensor, to: int, tag: int) -> None:
        mail[own.rank, to, tag].put(message.clone())

    def irecv(message: torch.Tensor, source: int, tag: int) -> Received:
        asked.append((source, own.rank, tag))
        return Received(message, mail[source, own.rank, tag])

    monkeypatch.setattr(torch.distributed, "send", send)
    monkeypatch.setattr(torch.distributed, "irecv", irecv)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: own.rank)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: size)
    # a small sum, a larger one and the small size again in another shape, for which every rank asks before it is sent;
    # a last one so large that no memory is kept for the next
    shapes = [(6,), (7,), (2, 3), (KEPT_BYTES // 8 + 1,)]
    values = [[np.random.default_rng((rank, i)).normal(size=n) for i, n in enumerate(shapes)] for rank in range(size)]

    def take_part(rank: int) -> list[np.ndarray]:
        own.rank = rank
        group = Group()
        return [group.total(value) for value in values[rank]]

    with ThreadPoolExecutor(size) as pool:
        totals = list(pool.map(take_part, range(size)))
    for i in range(len(shapes)):
        np.testing.assert_allclose(totals[0][i], sum(own[i] for own in values))
        assert all(np.array_equal(total[i], totals[0][i]) for total in totals)
    assert all(box.empty() for box in mail.values())
    asks = Counter(asked)
    assert len({(source, to) for source, to, _ in asks}) == 2 * (size - 1), "a tree has an edge less than nodes"
    assert {tag: n for (_, _, tag), n in asks.items()} == {1: 3, 2: 2, 3: 1}


def test_alone_without_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with distributed.join() as world:
        assert world is SOLO
        assert (world.rank, world.size, world.writes) == (0, 1, True)
    assert not torch.distributed.is_initialized()


# -- in processes ------------------------------------------------------------------------------------------------------


def fit(table: Path, out: Path, *options: str, ranks: int = 1, restarts: int = 0) -> subprocess.Popen[str]:
    run = ["-m", "prism_irl"]
    if ranks > 1:
        run = f"-m torch.distributed.run --standalone --nproc-per-node {ranks} --max-restarts {restarts}".split() + run
    command = [sys.executable, *run, "fit", str(table), *SMALL, *options, "--out", str(out)]
    return subprocess.Popen(command, env=ENVIRONMENT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def finished(process: subprocess.Popen[str]) -> dict[str, object]:
    stdout, stderr = process.communicate(timeout=400)
    assert process.returncode == 0, stderr
    return dict(json.loads(stdout))  # one rank prints, once


def assert_same_model(one: Path, other: Path) -> None:
    first, second = (load_file(run / "model.safetensors") for run in (one, other))
    assert first.keys() == second.keys()
    for name, value in first.items():
        np.testing.assert_allclose(second[name].numpy(), value.numpy(), rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "mouse.csv"
    FrustrationWorld(horizon=20).simulate(33, seed=3).demonstrations.to_pandas().to_csv(path, index=False)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("switching", ["recurrent", "independent", "markov"])
def test_two_ranks_fit_the_model_of_one(switching: str, table: Path, tmp_path: Path) -> None:
    options = ("--switching", switching, "--max-iterations", "6", "--n-starts", "2", "--l1", "0.5")
    one = finished(fit(table, tmp_path / "one", *options))
    two = finished(fit(table, tmp_path / "two", *options, ranks=2))
    assert_same_model(tmp_path / "one", tmp_path / "two")
    assert two["predictive_ll"] == pytest.approx(one["predictive_ll"], abs=1e-5)
    assert two["em"]["iterations"] == one["em"]["iterations"]  # type: ignore[index]
    if one["agreement"] is not None:
        assert two["agreement"] == pytest.approx(one["agreement"], abs=0.02)


def ranks_of(process: subprocess.Popen[str]) -> list[int]:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [int(child) for child in children]


def kill_a_rank_after_a_checkpoint(process: subprocess.Popen[str], out: Path) -> None:
    deadline = time.monotonic() + 300
    while not list((out / "checkpoint").glob("start_*.safetensors")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "no checkpoint was written"
        time.sleep(0.02)
    os.kill(ranks_of(process)[-1], signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the processes of the ranks in /proc")
def test_a_lost_rank_costs_the_work_since_the_last_checkpoint(table: Path, tmp_path: Path) -> None:
    options = ("--switching", "markov", "--max-iterations", "4000", "--n-starts", "1", "--patience", "100000")
    whole = finished(fit(table, tmp_path / "whole", *options))
    killed = fit(table, tmp_path / "killed", *options, ranks=2)
    kill_a_rank_after_a_checkpoint(killed, tmp_path / "killed")
    killed.communicate(timeout=200)
    assert killed.returncode != 0
    assert not (tmp_path / "killed" / "metrics.json").exists(), "the fit was over before the rank was killed"
    resumed = finished(fit(table, tmp_path / "killed", *options, "--resume", ranks=2))
    assert_same_model(tmp_path / "whole", tmp_path / "killed")
    assert resumed["em"]["iterations"] == whole["em"]["iterations"]  # type: ignore[index]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the processes of the ranks in /proc")
def test_torchrun_restarts_a_lost_rank_by_itself(table: Path, tmp_path: Path) -> None:
    options = ("--switching", "markov", "--max-iterations", "3000", "--n-starts", "1", "--patience", "100000")
    process = fit(table, tmp_path / "run", *options, ranks=2, restarts=1)
    kill_a_rank_after_a_checkpoint(process, tmp_path / "run")
    assert finished(process)["em"]["starts"] == 1  # type: ignore[index]
