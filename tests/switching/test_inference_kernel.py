"""Beliefs by compiled code, without those that only filtering needs: the same as in log space."""

from itertools import pairwise

import numba
import numpy as np
import pytest
import torch

from prism_irl.switching import inference
from prism_irl.switching import inference_kernel as lanes
from prism_irl.switching.forward_backward import forward_backward

FEW, MANY = lanes.LANES, 3 * lanes.LANES + 5


def flat_problem(lengths, n_intentions=3, seed=0):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    emission = np.log(rng.uniform(0.05, 1.0, (offsets[-1], n_intentions)))
    initial, kernel = rng.dirichlet(np.ones(n_intentions)), rng.dirichlet(np.ones(n_intentions), n_intentions)
    return np.log(initial), np.log(kernel), emission, offsets


def in_log_space(initial, kernel, emission, offsets):
    """Smoothed (n, K), log-likelihood (n,) and transitions (K, K), each trajectory alone, by the reference."""
    initial, kernel, emission = (torch.from_numpy(values) for values in (initial, kernel, emission))
    smoothed, likelihood, transitions = [], [], 0.0
    for begin, end in pairwise(offsets):
        part = emission[begin:end][None]
        found = forward_backward(
            initial, kernel.expand(1, end - begin, -1, -1), part, torch.ones(part.shape[:2], dtype=torch.bool)
        )
        smoothed.append(found.smoothed[0].exp())
        likelihood.append(found.log_likelihood[0])
        transitions = transitions + found.pairwise.sum((0, 1))
    return torch.cat(smoothed).numpy(), torch.cat(likelihood).numpy(), transitions.numpy()


def assert_equal(found, expected):
    for one, other in zip(parts(found), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


def parts(found):
    return found.responsibilities, found.log_likelihood, found.transitions


@pytest.fixture
def nothing_else(monkeypatch):
    """The reference may not answer."""
    monkeypatch.delenv("PRISM_BACKEND", raising=False)


@pytest.mark.usefixtures("nothing_else")
@pytest.mark.parametrize("n_intentions", [1, 2, 3, 5])
@pytest.mark.parametrize("n", [FEW, FEW + 1, MANY])
def test_beliefs_are_those_of_log_space(n, n_intentions):
    lengths = np.random.default_rng(n).integers(1, 3 * lanes.BLOCK + 2, n)
    problem = flat_problem(lengths, n_intentions)
    assert_equal(inference.infer_flat(*problem, online=False), in_log_space(*problem))


@pytest.mark.usefixtures("nothing_else")
@pytest.mark.parametrize("length", [1, 2, lanes.BLOCK - 1, lanes.BLOCK, lanes.BLOCK + 1, 2 * lanes.BLOCK])
def test_blocks_begin_and_end_anywhere(length):
    problem = flat_problem([length] * (lanes.LANES + 1))
    assert_equal(inference.infer_flat(*problem, online=False), in_log_space(*problem))


@pytest.mark.usefixtures("nothing_else")
def test_densities_may_be_very_small_and_very_large():
    initial, kernel, emission, offsets = flat_problem([40] * FEW)
    far = np.random.default_rng(0).choice([-250.0, 0.0, 250.0], size=(len(emission), 1))
    problem = initial, kernel, emission + far, offsets
    assert_equal(inference.infer_flat(*problem, online=False), in_log_space(*problem))


def test_a_step_that_nobody_can_explain_says_nothing_about_intentions(monkeypatch):
    monkeypatch.delenv("PRISM_BACKEND", raising=False)
    initial, kernel, emission, offsets = flat_problem([40] * MANY)
    emission[77] = -np.inf
    found = inference.infer_flat(initial, kernel, emission, offsets, online=False)
    alone = inference.infer_flat(initial, kernel, emission, offsets)
    assert np.flatnonzero(np.isneginf(found.log_likelihood)).tolist() == [77]
    assert_equal(found, parts(alone))


@pytest.mark.parametrize("depth", [-300.0, -700.0])
def test_underflow_is_never_an_answer(depth, monkeypatch):
    """Nothing leads back to an intention whose probability is lost in scaling: only log space remembers it.

    The forward pass notices when a step becomes too improbable (−700), the backward pass when the message to the lost
    intention overflows (−300).
    """
    monkeypatch.delenv("PRISM_BACKEND", raising=False)
    initial, _, emission, offsets = flat_problem([40] * FEW, 2)
    kernel = np.array([[np.log(0.9), np.log(0.1)], [-np.inf, 0.0]])
    assert inference.infer_flat(initial, kernel, emission, offsets, online=False) is not None
    emission[5:8, 0], emission[12:20, 1] = depth, depth
    assert inference.infer_flat(initial, kernel, emission, offsets, online=False) is None


def test_threads_share_nothing():
    problem = flat_problem(np.arange(1, MANY + 1))
    before = numba.get_num_threads()
    found = []
    try:
        for threads in (1, numba.config.NUMBA_NUM_THREADS):
            numba.set_num_threads(threads)
            found.append(inference.infer_flat(*problem, online=False))
    finally:
        numba.set_num_threads(before)
    np.testing.assert_array_equal(found[0].responsibilities, found[1].responsibilities)
    np.testing.assert_allclose(found[0].transitions, found[1].transitions, rtol=1e-13, atol=0)
