"""What checking costs and what long data take: models, Parquet, long histories, attention over long trajectories.

python benchmarks/robustness.py            # under two minutes on a quiet core; every row is printed when it is there
python benchmarks/robustness.py --quick    # small, which tells that it works and nothing about speed
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import torch
from safetensors.torch import load_file

import prism_irl as prism
from prism_irl import storage
from prism_irl.data.contexts import Contexts
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.files import read_table_file
from prism_irl.mdp import MDP
from prism_irl.switching.networks import SPAN, Transformer
from timing import Row


def model_rows(folder: Path) -> Iterator[Row]:
    """A model of 127 states and a network of the default size: its file, and all that loading it takes."""
    rng = np.random.default_rng(0)
    demos = Demonstrations.from_arrays(rng.integers(0, 127, (20, 100)), rng.integers(0, 4, (20, 100)))
    prism.Intentions(3, switching="recurrent", n_starts=1, max_iterations=1, warm_up=1, device="cpu").fit(demos).save(
        folder
    )
    path = folder / "model.safetensors"

    def unchecked() -> None:  # the same model by plain safetensors: no checksum
        with mock.patch.object(storage, "_sum_of", return_value=mock.ANY):
            prism.load(folder)

    prism.load(folder)
    checked = "the same without its checksum"
    yield Row.by_turns("load a model", checked, unchecked, lambda: prism.load(folder), "0.9×", 21)
    plain = "plain safetensors"
    yield Row.by_turns("tensors of a model", plain, lambda: load_file(path), lambda: storage.load_tensors(path), "", 21)


def table_row(folder: Path, n: int) -> Row:
    """A table of n rows."""
    rng, path = np.random.default_rng(0), folder / "table.parquet"
    columns = {"trajectory": np.repeat(np.arange(n // 500), 500), "state": rng.integers(0, 127, n // 500 * 500)}
    pd.DataFrame({**columns, "action": rng.integers(0, 4, n // 500 * 500)}).to_parquet(path)
    return Row.by_turns(
        f"read {n:,} rows of Parquet",
        "pandas.read_parquet",
        lambda: pd.read_parquet(path),
        lambda: read_table_file(path),
        "0.9×",
        9,
    )


def dense_world(n_steps: int, history: int) -> tuple[MDP, Contexts]:
    """127 states of which every one can follow every other, and the histories that occur in so many steps."""
    rng, S, A = np.random.default_rng(0), 127, 4
    P = rng.dirichlet(np.ones(S), size=(S, A))
    above = P.cumsum(-1)
    states = np.zeros((n_steps // 500, 500), dtype=np.int64)
    actions = rng.integers(0, A, states.shape)
    states[:, 0] = rng.integers(0, S, len(states))
    for t in range(499):
        drawn = rng.random(len(states))[:, None]
        states[:, t + 1] = np.minimum((above[states[:, t], actions[:, t]] < drawn).sum(1), S - 1)
    demos = Demonstrations.from_arrays(states, actions, n_states=S, n_actions=A)
    return MDP.from_dense(P, 0.97), Contexts.fit(demos, history)


def attention_row(length: int) -> Row:
    """A pass of the Transformer over one long trajectory, forth and back."""
    torch.manual_seed(0)
    x, mask = torch.randn(1, length, 32), torch.ones(1, length, dtype=torch.bool)
    cores = [Transformer(32, span=span) for span in (length, SPAN)]
    first = slice(0, SPAN)  # which sees all before it, either way
    cores[1].load_state_dict(cores[0].state_dict())
    torch.testing.assert_close(*(core(x, mask)[:, first] for core in cores), rtol=1e-4, atol=1e-4)
    whole, window = ((lambda core=core: core(x, mask).sum().backward()) for core in cores)
    return Row.by_turns(f"attention over {length:,} steps", "to all steps before", whole, window, "", 3)


def rows(folder: Path, *, quick: bool) -> Iterator[Row]:
    """Every row, when it has been measured."""
    yield from model_rows(folder / "model")
    yield table_row(folder, 200_000 if quick else 2_000_000)
    yield attention_row(2_048 if quick else 8_192)


def main() -> None:
    """Print the rows."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        for row in rows(Path(name), quick="--quick" in sys.argv):
            against = f"against {row.reference} ({row.reference_seconds:.4f} s)"
            print(f"{row.work:34} {row.seconds:10.4f} s   {row}  {against}", flush=True)
    print(f"{time.perf_counter() - began:.0f} s in all")


if __name__ == "__main__":
    main()
