"""History networks never see the future, never see their batch mates, and stream exactly as they run in one pass."""

import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from prism_irl.data.batching import Batch, pad_batch
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.switching import networks
from prism_irl.switching.networks import SPAN, HistoryNetwork, Transformer, attend, in_view, windows

NAMES = ("rnn", "lstm", "gru", "transformer")
VARIANTS = {
    "past": {"observe": "past"},
    "past with interaction": {"observe": "past", "interaction": True},
    "current": {"observe": "current"},
}
S, A, M, K = 5, 3, 2, 4

every_network = pytest.mark.parametrize("name", NAMES)
every_variant = pytest.mark.parametrize("variant", VARIANTS)


def make_network(name: str, variant: str, n_observations: int = M) -> HistoryNetwork:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        sizes = {"n_states": S, "n_actions": A, "n_observations": n_observations, "n_outputs": K}
        return HistoryNetwork(name, embedding=8, hidden=6, **sizes, **VARIANTS[variant]).double()


def in_double(batch: Batch) -> Batch:
    return batch if batch.observations is None else batch._replace(observations=batch.observations.double())


@pytest.fixture(scope="module")
def demos(make_demos):
    return make_demos(n_states=S, n_actions=A, n_observations=M)


@pytest.fixture(scope="module")
def batch(demos):
    return in_double(pad_batch(demos, np.argsort(demos.lengths, kind="stable")))


def each_alone(demos: Demonstrations, batch: Batch) -> Iterator[tuple[int, Batch]]:
    """Every trajectory of a batch as (row in the batch, a batch of its own)."""
    for row, step in enumerate(batch.steps[:, 0].tolist()):
        alone = pad_batch(demos.subset([demos.trajectory_index[step]]), np.array([0]))
        yield row, alone


def with_actions(batch: Batch, actions: torch.Tensor) -> Batch:
    """The same batch with other actions: what was done, and what is seen to have been done before."""
    return batch._replace(actions=actions, previous=torch.cat([batch.previous[:, :1], actions[:, :-1]], 1))


def moved(before: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
    """Which steps (T,) changed in any trajectory."""
    return ((before - after).abs() > 1e-12).any(-1).any(0)


@every_network
@every_variant
@torch.no_grad()
def test_the_future_never_moves_the_past(name, variant, batch):
    network = make_network(name, variant)
    T = batch.states.shape[1]
    before = network(batch)
    for t in range(T):
        later = torch.arange(T) > t
        states = torch.where(later, (batch.states + 1) % S, batch.states)
        observations = torch.where(later.unsqueeze(-1), batch.observations + 1, batch.observations)
        changed = later if variant == "current" else later | (torch.arange(T) == t)
        actions = torch.where(changed, (batch.actions + 1) % A, batch.actions)
        other = with_actions(batch, actions)._replace(states=states, observations=observations)
        assert not moved(before, network(other))[: t + 1].any()


@every_network
@every_variant
@torch.no_grad()
def test_everything_in_the_past_is_read(name, variant, batch):
    """Without this, a network that ignores its input would be perfectly causal."""
    network = make_network(name, variant)
    before, t = network(batch), 3
    at = torch.arange(batch.states.shape[1]) == t
    state = moved(before, network(batch._replace(states=torch.where(at, (batch.states + 1) % S, batch.states))))
    observed = moved(before, network(batch._replace(observations=batch.observations + at.unsqueeze(-1).double())))
    action = moved(before, network(with_actions(batch, torch.where(at, (batch.actions + 1) % A, batch.actions))))
    first_moved_by_action = t if variant == "current" else t + 1
    assert state[t:].all()
    assert observed[t:].all()
    assert action[first_moved_by_action:].all()


@every_network
@every_variant
@torch.no_grad()
def test_batch_mates_never_matter(name, variant, demos, batch):
    network = make_network(name, variant)
    together = network(batch)
    for row, alone in each_alone(demos, batch):
        outputs = network(in_double(alone))[0]
        torch.testing.assert_close(outputs, together[row, : len(outputs)], rtol=0, atol=1e-12)


@every_network
@torch.no_grad()
def test_batch_mates_never_matter_in_single_precision(name, demos):
    network = make_network(name, "past with interaction").float()
    batch = pad_batch(demos, np.argsort(demos.lengths, kind="stable"))
    together = network(batch)
    for row, alone in each_alone(demos, batch):
        outputs = network(alone)[0]
        torch.testing.assert_close(outputs, together[row, : len(outputs)], rtol=0, atol=1e-6)


@every_network
@every_variant
@torch.no_grad()
def test_steps_equal_one_pass(name, variant, batch):
    network = make_network(name, variant)
    seen = batch.actions if variant == "current" else batch.previous
    carry = network.initial(len(batch.states))
    outputs = []
    for t in range(batch.states.shape[1]):
        before = batch.states[:, t - 1] if t else None
        out, carry = network.step(batch.states[:, t], seen[:, t], batch.observations[:, t], carry, before)
        outputs.append(out)
    torch.testing.assert_close(torch.stack(outputs, 1), network(batch), rtol=0, atol=1e-12)


@every_network
@torch.no_grad()
def test_every_candidate_action_equals_the_sequence_with_that_action(name, batch):
    network = make_network(name, "current")
    candidates = network.for_each_action(batch)
    taken = batch.actions[..., None, None].expand(-1, -1, 1, K)
    torch.testing.assert_close(candidates.gather(2, taken).squeeze(2), network(batch), rtol=0, atol=1e-12)
    for t in range(batch.states.shape[1]):
        for a in range(A):
            actions = batch.actions.clone()
            actions[:, t] = a
            expected = network(with_actions(batch, actions))[:, t]
            torch.testing.assert_close(candidates[:, t, a], expected, rtol=0, atol=1e-12)


@torch.no_grad()
def test_two_transformer_layers_stream_and_answer_alternatives(batch):
    """One layer has no keys that depend on earlier attention; two layers do."""
    network = make_network("transformer", "current")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network.core = Transformer(8, layers=2).double()
    whole, carry = network(batch), network.initial(len(batch.states))
    candidates = network.for_each_action(batch)
    for t in range(batch.states.shape[1]):
        out, carry = network.step(batch.states[:, t], batch.actions[:, t], batch.observations[:, t], carry)
        torch.testing.assert_close(out, whole[:, t], rtol=0, atol=1e-12)
        other = batch.actions.clone()
        other[:, t] = (other[:, t] + 1) % A
        expected = network(with_actions(batch, other))[:, t]
        index = other[:, t].view(-1, 1, 1).expand(-1, 1, K)
        torch.testing.assert_close(candidates[:, t].gather(1, index).squeeze(1), expected, rtol=0, atol=1e-12)


@every_network
@torch.no_grad()
def test_a_state_that_was_never_named_is_read_as_nothing(name, batch):
    """The row of unknown states is zero, so that all that is left of the step is its action."""
    network = make_network(name, "past")
    assert (network.tokens.states.weight[S] == 0).all()
    unknown = torch.full_like(batch.states, S)
    assert torch.isfinite(network(batch._replace(states=unknown))).all()


def test_the_row_of_unknown_states_is_never_trained(batch):
    network = make_network("rnn", "past")
    network(batch._replace(states=torch.full_like(batch.states, S))).sum().backward()
    assert (network.tokens.states.weight.grad[S] == 0).all()


def test_missing_and_misshapen_observations_are_named(batch):
    network = make_network("rnn", "past")
    with pytest.raises(InputError, match="fitted with observation vectors; the new data has none"):
        network(batch._replace(observations=None))
    with pytest.raises(InputError, match=rf"vectors of {M} numbers.*{M + 1}"):
        network(batch._replace(observations=torch.zeros(*batch.states.shape, M + 1, dtype=torch.float64)))


def test_observations_are_ignored_by_a_network_without_them(batch):
    network = make_network("rnn", "past", n_observations=0)
    assert torch.equal(network(batch), network(batch._replace(observations=None)))


def test_a_transformer_of_impossible_width_is_explained():
    with pytest.raises(InputError, match=r"width 10 must be a multiple of 8; change `embedding`"):
        HistoryNetwork(
            "transformer",
            n_states=S,
            n_actions=A,
            n_observations=0,
            n_outputs=K,
            embedding=10,
            hidden=6,
            observe="past",
        )


# -- attention within a window: against a mask over everything, step by step, and with alternatives -------------------

D = 8


def transformer(span: int, layers: int = 1) -> Transformer:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return Transformer(D, heads=2, layers=layers, span=span).double()


def inputs(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@given(length=st.integers(1, 40), span=st.integers(1, 45), block=st.integers(1, 45))
def test_blocks_hold_every_query_once_and_all_that_it_sees(length, span, block):
    seen = [
        (t, key + int(u))
        for first, last, key in windows(length, span, block)
        for t, row in enumerate(in_view(first, last, key, span, torch.device("cpu")), start=first)
        for u in row.nonzero().ravel()
    ]
    assert seen == [(t, u) for t in range(length) for u in range(max(0, t - span + 1), t + 1)]


@settings(deadline=None, max_examples=30)
@given(length=st.integers(1, 40), span=st.integers(1, 45))
def test_equals_attention_to_everything_under_a_mask(length, span):
    q, k, v = inputs(3, 2, 2, length, 4)
    scores = q @ k.transpose(-1, -2) / math.sqrt(4)
    hidden = ~in_view(0, length, 0, span, q.device)
    expected = torch.softmax(scores.masked_fill(hidden, -math.inf), -1) @ v
    torch.testing.assert_close(attend(q, k, v, span), expected, rtol=0, atol=1e-12)


def test_up_to_the_span_everything_before_is_seen():
    x, mask = inputs(2, 30, D), torch.ones(2, 30, dtype=torch.bool)
    torch.testing.assert_close(transformer(30)(x, mask), transformer(SPAN)(x, mask), rtol=0, atol=0)
    assert not torch.allclose(transformer(29)(x, mask), transformer(30)(x, mask))


@pytest.mark.parametrize("layers", [1, 2])
@torch.no_grad()
def test_streams_and_alternatives_look_back_as_far(layers, monkeypatch):
    monkeypatch.setattr(networks, "QUERIES", 4)
    core, x, others = transformer(5, layers), inputs(2, 17, D), inputs(2, 17, 3, D, seed=1)
    mask = torch.ones(2, 17, dtype=torch.bool)
    whole, carry = core(x, mask), core.initial(2, x)
    alternatives = core.alternatives(x, others, mask)
    for t in range(17):
        for a in range(3):
            torch.testing.assert_close(core.step(others[:, t, a], carry)[0], alternatives[:, t, a], rtol=0, atol=1e-12)
        h, carry = core.step(x[:, t], carry)
        torch.testing.assert_close(h, whole[:, t], rtol=0, atol=1e-12)
        assert all(kept.shape[-2] <= 5 for kept in carry[:-1]), "a stream keeps what it may still see"


@torch.no_grad()
def test_a_step_reaches_as_far_as_the_span_and_its_gradient_too():
    core, x = transformer(5), inputs(1, 17, D)
    mask, changed = torch.ones(1, 17, dtype=torch.bool), x.clone()
    changed[0, 3] = inputs(D, seed=2)
    moved = (core(x, mask) != core(changed, mask)).any(-1)[0]
    assert moved.nonzero().ravel().tolist() == [3, 4, 5, 6, 7]
    with torch.enable_grad():
        x.requires_grad_(True)
        core(x, mask)[0, 12, 0].backward()
    assert (x.grad[0].abs().sum(-1) > 0).nonzero().ravel().tolist() == [8, 9, 10, 11, 12]
