"""What checking costs: models against plain safetensors, Parquet against pandas, rewards of long histories.

python benchmarks/robustness.py            # all, about two minutes; --quick leaves the slow reference small
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from safetensors.torch import load_file

import prism_irl as prism
from prism_irl import storage
from prism_irl.data.contexts import Contexts
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.frames import read_frame
from prism_irl.mdp import MDP
from prism_irl.rewards.augmented import augmented_mdp
from prism_irl.rewards.context_iavi import ContextIAVI
from prism_irl.rewards.iavi import IAVI
from timing import Row, seconds


def model_rows(folder: Path) -> list[Row]:
    """A model of 127 states and a network of the default size: its file, and all that loading it takes."""
    rng = np.random.default_rng(0)
    demos = Demonstrations.from_arrays(rng.integers(0, 127, (20, 100)), rng.integers(0, 4, (20, 100)))
    prism.PRISM(3, n_starts=1, max_iterations=1, warm_up=1, device="cpu").fit(demos).save(folder)
    path = folder / "model.safetensors"

    def unchecked() -> None:  # the same model, without the checksum and without the checks of its numbers
        keep, storage._check_sum = storage._check_sum, lambda *_: None
        try:
            prism.load(folder)
        finally:
            storage._check_sum = keep

    prism.load(folder)
    return [
        Row.by_turns(
            "load a model", "the same without its checksum", unchecked, lambda: prism.load(folder), "0.9×", 21
        ),
        Row.by_turns(
            "tensors of a model",
            "plain safetensors",
            lambda: load_file(path),
            lambda: storage.load_tensors(path),
            "",
            21,
        ),
    ]


def table_row(folder: Path, n: int) -> Row:
    """A table of n rows."""
    rng, path = np.random.default_rng(0), folder / "table.parquet"
    columns = {"trajectory": np.repeat(np.arange(n // 500), 500), "state": rng.integers(0, 127, n // 500 * 500)}
    pd.DataFrame({**columns, "action": rng.integers(0, 4, n // 500 * 500)}).to_parquet(path)
    return Row.by_turns(
        f"read {n:,} rows of Parquet",
        "pandas.read_parquet",
        lambda: pd.read_parquet(path),
        lambda: read_frame(path, {}, "doubled"),
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


def reward_row(n_steps: int, history: int) -> Row:
    """Rewards of three intentions on histories; both ways must agree to 1e-8."""
    mdp, contexts = dense_world(n_steps, history)
    log_policies = np.log(np.random.default_rng(1).dirichlet(np.ones(4), size=(3, contexts.n_contexts)))
    found = ContextIAVI(mdp, contexts).solve(log_policies)
    expected = []
    slow = seconds(lambda: expected.append(IAVI(augmented_mdp(mdp, contexts)).solve(log_policies)), 1)
    for name in ("rewards", "values"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected[0], name), atol=1e-8)
    fast = seconds(lambda: ContextIAVI(mdp, contexts).solve(log_policies), 3)
    return Row(f"rewards of {contexts.n_contexts:,} histories", "factored matrix of transitions", slow, fast, "10×")


def main() -> None:
    """Print the rows."""
    quick = "--quick" in sys.argv
    with tempfile.TemporaryDirectory() as name:
        rows = [*model_rows(Path(name) / "model"), table_row(Path(name), 200_000 if quick else 2_000_000)]
    rows.append(reward_row(2_000 if quick else 17_000, 3))
    for row in rows:
        print(f"{row.work:34} {row.seconds:10.4f} s   {row}  against {row.reference} ({row.reference_seconds:.4f} s)")


if __name__ == "__main__":
    main()
