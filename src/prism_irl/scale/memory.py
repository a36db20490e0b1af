"""How much memory a fit will take, said before a large one begins.

What grows with the data: the demonstrations and their copy for training, context rows, padded batches, and emissions
and beliefs, of which the old and the new exist for a moment together. What does not: policies and counts (K, C, A),
of every start, and the activations of one batch. An estimate, good to about a factor of one and a half.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from prism_irl import em
from prism_irl.data.batching import EVALUATION_STEPS, KEPT_STEPS
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.limits import PER_PAIR, available, check_bytes, readable

DOUBT = 1.5
"""An estimate may be wrong by this factor: only what is above so many times the free memory is refused."""
LARGE_BYTES = 2**30
LARGE_STEPS = 1_000_000
LIBRARIES = 450 * 2**20
"""What Python, torch, SciPy, pandas and compiled kernels take before any data is there."""
WITHOUT_TORCH = 200 * 2**20
BATCHED = 5 * 8 + 1
"""Bytes per step of a padded batch: states, actions, actions before, positions, real steps, mask."""


@dataclass(frozen=True)
class Estimate:
    """Bytes by what they are for."""

    parts: dict[str, int]

    @property
    def total(self) -> int:
        """All bytes at the peak."""
        return sum(self.parts.values())

    def __str__(self) -> str:
        largest = sorted(self.parts, key=lambda name: -self.parts[name])[:3]
        return f"{readable(self.total)} (" + ", ".join(f"{name} {readable(self.parts[name])}" for name in largest) + ")"


LIKELY = 8
"""Intentions, where a fit finds their number."""


def estimate(demos: Demonstrations, model: Any) -> Estimate:
    """Memory of one process of a fit of a model to demonstrations."""
    K, A, n = model.n_intentions or LIKELY, demos.n_actions, demos.n_steps
    stored = sum(part.nbytes for part in (demos.states, demos.actions, demos.offsets))
    vectors = 0 if demos.observations is None else demos.observations.nbytes
    mapped = not demos.states.flags.writeable  # read from disk as needed
    table = 8 * K * _n_contexts(demos, model) * A
    switching = model.switching_options
    network: Any = switching if switching.reads_history else None
    longest = int(demos.lengths.max())
    batch = max(min(EVALUATION_STEPS, n), longest)
    # A chain that only counts reads the data as they lie, and keeps beliefs once, when it is asked in the end. Where
    # anything else is to be fitted, its half has imported torch.
    plain = "torch" not in sys.modules
    kept = 1 if plain and table <= 8 * K * n else 2
    copied, believed = stored + vectors, n
    batched = 0 if plain else min(n, KEPT_STEPS) * BATCHED + vectors
    if demos.state_space.continuous and n > em.LARGE and model.reward_options.adds_up and switching.adds_up:
        # Iterations read some trajectories at a time, and what is made of mapped data is mapped.
        copied, believed = (0, em.PART) if mapped else (copied, n)
        batched = 0 if mapped or network is None else batched
    parts = {
        "demonstrations": (0 if mapped else stored + vectors) + copied,
        "context rows": 3 * 8 * n,
        "batches": batched,
        "emissions and beliefs": kept * 8 * (4 * K + 1) * believed,
        "policies and counts": table * (5 + 4 * model.n_starts),
        "rewards and tables": 0 if demos.state_space.continuous else PER_PAIR * demos.n_states * A,
        "inference": 0 if plain else 8 * batch * 6 * K,
        "libraries": WITHOUT_TORCH if plain else LIBRARIES,
    }
    if switching.is_chain and not plain:
        parts["inference"] += 8 * batch * 2 * K * K
    if network is not None:
        outputs = K * K if network.is_chain else K
        gates = {"rnn": 2, "gru": 6, "lstm": 8, "transformer": 16}[network.network]
        training = min(network.batch_size * longest, n) * 2
        parts["activations"] = 4 * max(batch, training) * (2 * network.embedding + gates * network.hidden + 2 * outputs)
    return Estimate(parts)


def _n_contexts(demos: Demonstrations, model: Any) -> int:
    """Rows of the policies; with longer histories at most one per step and length.

    Histories of two states are counted; each further state multiplies their number as the second did.
    """
    history = getattr(model, "history", 1)
    length = history if isinstance(history, int) else 4
    rows = reached = demos.n_states
    if length > 1:
        follows = np.flatnonzero(~demos.first_steps)
        pairs = len(np.unique(demos.states[follows - 1].astype(np.int64) * demos.n_states + demos.states[follows]))
        for _ in range(length - 1):
            reached = min(-(-reached * pairs // demos.n_states), demos.n_steps)
            rows += reached
    return rows


def announce(demos: Demonstrations, model: Any) -> None:
    """Say on standard error what a large fit will take, warn where the machine has less, and refuse where much less.

    Libraries are there already; the rest would be found missing after hours of EM, or by the system, without a word.
    """
    needed = estimate(demos, model)
    there = available()
    advice = f"{needed}; use fewer starts (--n-starts), a shorter --history or fewer steps"
    check_bytes("This fit", needed.total - needed.parts["libraries"], advice, share=DOUBT)
    if there is not None and needed.total > there:
        print(
            f"prism: warning: this fit needs about {needed}, and {readable(there)} are free; use fewer "
            "starts, a shorter history, or a machine with more memory.",
            file=sys.stderr,
        )
    elif needed.total > LARGE_BYTES or demos.n_steps > LARGE_STEPS:
        print(f"prism: {demos.n_steps} steps; memory of the fit: about {needed}.", file=sys.stderr)
    switching, longest = model.switching_options, int(demos.lengths.max())
    if switching.reads_history and switching.network == "transformer":
        from prism_irl.switching.networks import SPAN  # with torch, which other fits may do without

        if longest <= SPAN:
            return
        print(
            f"prism: the Transformer looks back {SPAN} steps, so that time grows with the data, and the longest "
            f"trajectory has {longest}; what lies further back is known to --network gru only.",
            file=sys.stderr,
        )
