"""Attention within a window: against a mask over everything, step by step, and with alternatives."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from prism_irl.switching import attention
from prism_irl.switching.attention import SPAN, Transformer, attend, in_view, windows

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
    monkeypatch.setattr(attention, "QUERIES", 4)
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
