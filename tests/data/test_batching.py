from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from prism_irl.data import batching
from prism_irl.data.batching import Batch, Prepared, gather, minibatches, pad_batch, scatter
from prism_irl.data.contexts import Contexts
from prism_irl.data.demonstrations import Demonstrations

lengths_of_trajectories = st.lists(st.integers(1, 9), min_size=1, max_size=10)


def build(lengths: list[int], observations: bool = True) -> Demonstrations:
    """Every step has its own state, so that a step is recognised wherever it ends up."""
    n = sum(lengths)
    return Demonstrations(
        states=np.arange(n),
        actions=np.arange(n) % 3,
        offsets=np.cumsum([0, *lengths]),
        n_states=n,
        n_actions=3,
        observations=np.arange(2 * n, dtype=np.float32).reshape(n, 2) if observations else None,
    )


def check_batch(batch: Batch, demos: Demonstrations) -> None:
    """Each row is one trajectory from its first step to its last, then padding."""
    assert batch.states.dtype == batch.actions.dtype == batch.previous.dtype == batch.steps.dtype == torch.int64
    lengths = batch.mask.sum(dim=1)
    assert int(lengths.max()) == batch.mask.shape[1]
    assert batch.n_steps == int(lengths.sum())
    for row, length in enumerate(lengths.tolist()):
        assert batch.mask[row, :length].all(), "padding is on the right"
        steps = batch.steps[row, :length].tolist()
        i = int(demos.trajectory_index[steps[0]])
        assert steps == list(range(demos.offsets[i], demos.offsets[i + 1]))
        assert batch.states[row, :length].tolist() == demos.states[steps].tolist()
        actions = demos.actions[steps].tolist()
        assert batch.actions[row, :length].tolist() == actions
        assert batch.previous[row, :length].tolist() == [demos.n_actions, *actions[:-1]]
        # Padding never shows another trajectory.
        assert set(batch.steps[row].tolist()) == set(steps)
        if batch.observations is not None and demos.observations is not None:
            np.testing.assert_array_equal(batch.observations[row, :length], demos.observations[steps])


def make_batches(demos: Demonstrations, size: int, seed: int) -> list[Batch]:
    return [pad_batch(demos, part) for part in minibatches(demos.lengths, size, np.random.default_rng(seed))]


def real_steps(batches: list[Batch]) -> list[int]:
    return sorted(step for batch in batches for step in batch.steps[batch.mask].tolist())


@given(lengths_of_trajectories, st.integers(1, 12), st.booleans())
@settings(max_examples=30, deadline=None)
def test_batches_cover_every_step_once(lengths: list[int], size: int, observations: bool) -> None:
    demos = build(lengths, observations)
    batches = make_batches(demos, size, 0)
    assert real_steps(batches) == list(range(demos.n_steps))
    assert len(batches) == -(-len(lengths) // size)
    assert all(len(batch.mask) <= size for batch in batches)
    for batch in batches:
        check_batch(batch, demos)
        assert (batch.observations is not None) == observations
    # Sorted by length: what one batch holds is never between two lengths of another, up to the noise of shuffling.
    slack = 1.1 / 0.9
    spans = [(int(b.mask.sum(dim=1).min()), int(b.mask.sum(dim=1).max())) for b in batches]
    assert all(one[1] <= slack * two[0] or two[1] <= slack * one[0] for one, two in combinations(spans, 2))


@given(lengths_of_trajectories, st.integers(1, 12))
@settings(max_examples=30, deadline=None)
def test_scatter_undoes_gather_and_padding_never_leaks(lengths: list[int], size: int) -> None:
    demos = build(lengths)
    flat = torch.randn(demos.n_steps, 2, generator=torch.Generator().manual_seed(0))
    back = torch.full_like(flat, torch.nan)
    for batch in make_batches(demos, size, 1):
        values = gather(batch, flat)
        assert values.shape == (*batch.mask.shape, 2)
        values[~batch.mask] = torch.inf
        scatter(batch, values, back)
    assert torch.equal(back, flat)


def test_scatter_converts_and_takes_vectors_and_scalars() -> None:
    demos = build([2, 1])
    batch = pad_batch(demos, np.array([1, 0]))
    flat = torch.zeros(3, dtype=torch.float64)
    scatter(batch, torch.tensor([[3.0, 99.0], [1.0, 2.0]], dtype=torch.float32), flat)
    assert flat.tolist() == [1.0, 2.0, 3.0]
    assert gather(batch, flat).tolist() == [[3.0, 3.0], [1.0, 2.0]]


def test_shuffling_is_random_and_repeatable() -> None:
    demos = build([2] * 30)

    first, again, other = ([batch.steps[:, 0].tolist() for batch in make_batches(demos, 4, seed)] for seed in (0, 0, 1))
    assert first == again != other
    # Not only the order of the batches but also who is in them.
    assert {frozenset(batch) for batch in first}.isdisjoint(frozenset(batch) for batch in other)


def test_shuffling_changes_the_order_of_batches_too() -> None:
    demos = build(list(range(1, 13)))
    batches = [make_batches(demos, 2, seed) for seed in range(8)]
    widths = [[batch.mask.shape[1] for batch in order] for order in batches]
    assert widths[0] != sorted(widths[0])
    # About equal lengths share a batch, but not always the same trajectories.
    assert all(2 * sum(order) <= 1.2 * demos.n_steps for order in widths)
    mates = {frozenset(frozenset(b.steps[:, 0].tolist()) for b in order) for order in batches}
    assert len(mates) > 1


class TestPrepared:
    def test_rows_and_pairs(self) -> None:
        demos = Demonstrations.from_arrays([[0, 1, 0], [1, 0]], [[2, 0, 1], [1, 1]], n_states=300)
        contexts = Contexts.fit(demos, 2)
        data = Prepared.of(demos, contexts)
        np.testing.assert_array_equal(data.rows, contexts.encode(demos))
        assert data.pairs.tolist() == [int(r) * 3 + int(a) for r, a in zip(data.rows, demos.actions, strict=True)]
        assert data.pairs.max() > 255, "no overflow of the small types"

    @given(lengths_of_trajectories, st.integers(1, 30))
    @settings(max_examples=40, deadline=None)
    def test_evaluation_batches(self, lengths: list[int], budget: int) -> None:
        demos = build(lengths)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(batching, "EVALUATION_STEPS", budget)
            batches = Prepared(demos, demos.states.astype(np.int64)).batches
        assert real_steps(batches) == list(range(demos.n_steps))
        for batch in batches:
            check_batch(batch, demos)
            assert batch.mask.numel() <= budget or len(batch.mask) == 1

    def test_one_long_trajectory_does_not_leave_the_short_ones_alone(self) -> None:
        demos = build([batching.EVALUATION_STEPS, *[3] * 500], observations=False)
        assert [len(batch.mask) for batch in Prepared(demos, demos.states.astype(np.int64)).batches] == [1, 500]

    def test_batches_are_made_once(self) -> None:
        data = Prepared.of(build([2, 3]), Contexts(5))
        assert data.batches is data.batches

    def test_shuffled(self) -> None:
        data = Prepared.of(build([1, 5, 3]), Contexts(9))
        assert real_steps(data.shuffled(2, np.random.default_rng(0))) == list(range(9))

    def test_gather(self) -> None:
        data = Prepared.of(build([1, 3]), Contexts(4))
        flat = torch.arange(8.0).reshape(4, 2)
        for batch in data.batches:
            assert torch.equal(data.gather(batch, flat), gather(batch, flat))
