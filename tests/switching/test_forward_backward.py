"""Forward–backward against enumeration of all paths, against hmmlearn, and against automatic differentiation."""

from itertools import product
from typing import NamedTuple

import numpy as np
import pytest
import torch
from hmmlearn.base import BaseHMM
from hmmlearn.hmm import CategoricalHMM
from torch import Tensor

from prism_irl.switching import inference
from prism_irl.switching.base import BatchPosterior
from prism_irl.switching.forward_backward import forward, forward_backward, viterbi


class Problem(NamedTuple):
    """A batch of chains with a different kernel at every step, and lengths that differ."""

    log_initial: Tensor
    log_kernel: Tensor
    log_emission: Tensor
    mask: Tensor

    @property
    def lengths(self) -> list[int]:
        return self.mask.sum(1).tolist()


def problem(seed: int = 0, n_intentions: int = 3, lengths: tuple[int, ...] = (5, 1, 3, 4, 2)) -> Problem:
    generator = torch.Generator().manual_seed(seed)
    B, T, K = len(lengths), max(lengths), n_intentions

    def normal(*shape: int) -> Tensor:
        return 2 * torch.randn(*shape, generator=generator, dtype=torch.float64)

    mask = torch.arange(T) < torch.tensor(lengths).unsqueeze(1)
    kernel = torch.log_softmax(normal(B, T, K, K), -1)
    return Problem(torch.log_softmax(normal(B, K), -1), kernel, -normal(B, T, K).abs(), mask)


class Enumeration:
    """Every quantity by summing over all K^T paths of one chain."""

    def __init__(self, initial: np.ndarray, kernel: np.ndarray, emission: np.ndarray) -> None:
        self.T, self.K = emission.shape
        self.paths = np.array(list(product(range(self.K), repeat=self.T)))
        prior = initial[self.paths[:, 0]] + sum(
            (kernel[t, self.paths[:, t - 1], self.paths[:, t]] for t in range(1, self.T)), np.zeros(len(self.paths))
        )
        seen = np.stack([emission[t, self.paths[:, t]] for t in range(self.T)], 1)
        self.prior = np.exp(prior)
        self.weight = [self.prior * np.exp(seen[:, :t].sum(1)) for t in range(self.T + 1)]  # of paths and a_1..a_t

    def marginal(self, t: int, n_seen: int) -> np.ndarray:
        """P(z_t | the first ``n_seen`` actions)."""
        mass = np.bincount(self.paths[:, t], weights=self.weight[n_seen], minlength=self.K)
        return mass / mass.sum()

    def pairs(self, t: int) -> np.ndarray:
        """P(z_{t-1}, z_t | all actions)."""
        mass = np.zeros((self.K, self.K))
        np.add.at(mass, (self.paths[:, t - 1], self.paths[:, t]), self.weight[self.T])
        return mass / mass.sum()

    def log_likelihood(self, t: int) -> float:
        return float(np.log(self.weight[t + 1].sum() / self.weight[t].sum()))

    def best_path(self) -> np.ndarray:
        return self.paths[self.weight[self.T].argmax()]


@pytest.mark.parametrize("n_intentions", [1, 2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_equals_enumeration_of_all_paths(seed, n_intentions):
    chain = problem(seed, n_intentions)
    result = forward_backward(*chain)
    path = viterbi(*chain)
    for b, T in enumerate(chain.lengths):
        exact = Enumeration(
            chain.log_initial[b].numpy(), chain.log_kernel[b, :T].numpy(), chain.log_emission[b, :T].numpy()
        )
        for t in range(T):
            np.testing.assert_allclose(result.predicted[b, t].exp(), exact.marginal(t, t), rtol=1e-10)
            np.testing.assert_allclose(result.filtered[b, t].exp(), exact.marginal(t, t + 1), rtol=1e-10)
            np.testing.assert_allclose(result.smoothed[b, t].exp(), exact.marginal(t, T), rtol=1e-10)
            np.testing.assert_allclose(result.log_likelihood[b, t], exact.log_likelihood(t), rtol=1e-10, atol=1e-12)
            expected_pairs = exact.pairs(t) if t else np.zeros_like(exact.pairs(T - 1))
            np.testing.assert_allclose(result.pairwise[b, t], expected_pairs, rtol=1e-10, atol=1e-15)
        np.testing.assert_array_equal(path[b, :T], exact.best_path())


def test_padding_is_zero_where_results_are_summed():
    chain = problem()
    result = forward_backward(*chain)
    assert (result.log_likelihood[~chain.mask] == 0).all()
    assert (result.pairwise[~chain.mask] == 0).all()


@pytest.mark.parametrize("garbage", [1e6, -1e6, -torch.inf, torch.nan])
def test_padding_never_matters(garbage):
    clean = problem()
    dirty = clean._replace(
        log_kernel=torch.where(clean.mask[..., None, None], clean.log_kernel, garbage),
        log_emission=torch.where(clean.mask[..., None], clean.log_emission, garbage),
    )
    for expected, found in zip(forward_backward(*clean), forward_backward(*dirty), strict=True):
        torch.testing.assert_close(found[clean.mask], expected[clean.mask], rtol=0, atol=0)
    assert torch.equal(viterbi(*dirty)[clean.mask], viterbi(*clean)[clean.mask])


def test_the_first_kernel_is_never_read():
    chain = problem()
    kernel = chain.log_kernel.clone()
    kernel[:, 0] = 7.0
    other = chain._replace(log_kernel=kernel)
    for expected, found in zip(forward_backward(*chain), forward_backward(*other), strict=True):
        torch.testing.assert_close(found[chain.mask], expected[chain.mask], rtol=0, atol=0)
    assert torch.equal(viterbi(*chain), viterbi(*other))


def test_a_trajectory_alone_equals_itself_in_a_batch():
    chain = problem()
    together = forward_backward(*chain)
    for b, T in enumerate(chain.lengths):
        alone = forward_backward(*(part[b : b + 1, :T] if part.dim() > 2 else part[b : b + 1] for part in chain[:3]),
                                 chain.mask[b : b + 1, :T])  # fmt: skip
        for expected, found in zip(together, alone, strict=True):
            torch.testing.assert_close(found[0], expected[b, :T], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_gradient_of_the_log_marginal_is_the_posterior(seed):
    chain = problem(seed)
    initial, kernel, emission = (part.clone().requires_grad_() for part in chain[:3])
    log_marginal = (forward(initial, kernel, emission)[2] * chain.mask).sum()
    first, pairs, single = torch.autograd.grad(log_marginal, (initial, kernel, emission))
    result = forward_backward(*chain)
    real = chain.mask.unsqueeze(-1)
    torch.testing.assert_close(first, result.smoothed[:, 0].exp(), rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(single, result.smoothed.exp() * real, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(pairs, result.pairwise, rtol=1e-9, atol=1e-12)


def test_long_chains_do_not_underflow():
    """Likelihoods of 3,000 steps are e^-9000: only relative quantities may be formed."""
    T, K = 3_000, 2
    generator = torch.Generator().manual_seed(0)
    emission = -3 - torch.rand(1, T, K, generator=generator, dtype=torch.float64)
    kernel = torch.tensor([[0.9, 0.1], [0.2, 0.8]], dtype=torch.float64).log().expand(1, T, K, K)
    mask = torch.ones(1, T, dtype=torch.bool)
    result = forward_backward(torch.full((K,), 0.5, dtype=torch.float64).log(), kernel, emission, mask)
    torch.testing.assert_close(result.smoothed.exp().sum(-1), torch.ones(1, T, dtype=torch.float64))
    torch.testing.assert_close(result.pairwise[:, 1:].sum((-1, -2)), torch.ones(1, T - 1, dtype=torch.float64))
    torch.testing.assert_close(result.pairwise[:, 1:].sum(-2), result.smoothed[:, 1:].exp())


def test_an_impossible_action_does_not_poison_its_neighbours():
    """An action that no intention can take has likelihood 0 and teaches nothing; everything else stays finite."""
    chain = problem(lengths=(4,))
    emission = chain.log_emission.clone()
    emission[0, 2] = -torch.inf
    result = forward_backward(chain.log_initial, chain.log_kernel, emission, chain.mask)
    assert result.log_likelihood[0, 2] == -torch.inf
    torch.testing.assert_close(result.filtered[0, 2], result.predicted[0, 2])
    without = emission.clone()
    without[0, 2] = 0.0
    expected = forward_backward(chain.log_initial, chain.log_kernel, without, chain.mask)
    torch.testing.assert_close(result.smoothed, expected.smoothed)
    torch.testing.assert_close(result.log_likelihood[0, [0, 1, 3]], expected.log_likelihood[0, [0, 1, 3]])


# -- hmmlearn ----------------------------------------------------------------------------------------------------------


class FrameHMM(BaseHMM):
    """Observations are the log-probabilities of the frames themselves: emissions may depend on any context."""

    def _compute_log_likelihood(self, X):
        return X


def as_hmmlearn(model, chain: Problem):
    model.startprob_, model.transmat_ = chain.log_initial[0].exp().numpy(), chain.log_kernel[0, 0].exp().numpy()
    return model


def constant_kernel(chain: Problem) -> Problem:
    return chain._replace(
        log_initial=chain.log_initial[:1].expand_as(chain.log_initial),
        log_kernel=chain.log_kernel[:1, :1].expand_as(chain.log_kernel),
    )


@pytest.mark.parametrize("seed", range(3))
def test_equals_hmmlearn_with_emissions_from_contexts(seed):
    chain = constant_kernel(problem(seed, lengths=(12, 1, 30, 7)))
    frames = chain.log_emission[chain.mask].numpy()
    oracle = as_hmmlearn(FrameHMM(3), chain)
    log_probability, posteriors = oracle.score_samples(frames, chain.lengths)
    result = forward_backward(*chain)
    np.testing.assert_allclose(result.log_likelihood.sum(), log_probability, rtol=1e-10)
    np.testing.assert_allclose(result.smoothed[chain.mask].exp(), posteriors, atol=1e-9)
    np.testing.assert_array_equal(viterbi(*chain)[chain.mask], oracle.decode(frames, chain.lengths)[1])


def test_equals_hmmlearn_with_categorical_emissions():
    chain = constant_kernel(problem(lengths=(12, 1, 30, 7)))
    rng = np.random.default_rng(0)
    policies = rng.dirichlet(np.ones(4), 3)
    actions = torch.from_numpy(rng.integers(4, size=chain.mask.shape))
    actions[0, :4] = torch.arange(4)  # hmmlearn counts the symbols that it sees
    chain = chain._replace(log_emission=torch.from_numpy(np.log(policies)).T[actions])
    oracle = as_hmmlearn(CategoricalHMM(3, n_features=4), chain)
    oracle.emissionprob_ = policies
    log_probability, posteriors = oracle.score_samples(actions[chain.mask].numpy()[:, None], chain.lengths)
    result = forward_backward(*chain)
    np.testing.assert_allclose(result.log_likelihood.sum(), log_probability, rtol=1e-10)
    np.testing.assert_allclose(result.smoothed[chain.mask].exp(), posteriors, atol=1e-9)


# -- compiled passes ---------------------------------------------------------------------------------------------------


def expected_beliefs(chain: Problem) -> BatchPosterior:
    result = forward_backward(*chain)
    return BatchPosterior(
        result.smoothed.exp(),
        result.predicted.exp(),
        result.filtered.exp(),
        result.log_likelihood,
        result.pairwise.sum((0, 1)),
        result.pairwise,
    )


def assert_same_beliefs(found: BatchPosterior, expected: BatchPosterior, mask: Tensor) -> None:
    for name, one, other in zip(found._fields, found, expected, strict=True):
        if name in ("predicted", "filtered", "responsibilities"):
            one, other = one[mask], other[mask]
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-13, msg=lambda text, name=name: f"{name}: {text}")


@pytest.fixture(params=["compiled", "torch"])
def backend(request, monkeypatch):
    """Both ways to the beliefs; the compiled one may not call the other behind our back."""
    if request.param == "torch":
        monkeypatch.setenv("PRISM_BACKEND", "torch")
    else:
        pytest.importorskip("numba")
        monkeypatch.delenv("PRISM_BACKEND", raising=False)
        monkeypatch.setattr("prism_irl.switching.forward_backward.forward_backward", None)
    return request.param


@pytest.mark.parametrize("n_intentions", [1, 2, 4])
@pytest.mark.parametrize("constant", [False, True])
def test_both_backends_give_the_same_beliefs(backend, n_intentions, constant):
    chain = problem(7, n_intentions, lengths=(40, 1, 3, 25, 2))
    if constant:
        kernel = chain.log_kernel[0, 0].expand_as(chain.log_kernel)  # as a Markov chain gives it: a view
        chain = chain._replace(log_initial=chain.log_initial[0], log_kernel=kernel)
    expected = expected_beliefs(chain)
    assert_same_beliefs(inference.infer(*chain, pairwise=True), expected, chain.mask)
    without = inference.infer(*chain)
    assert without.pairwise is None
    torch.testing.assert_close(without.transitions, expected.transitions)


def test_an_intention_that_cannot_act_is_no_obstacle(backend):
    chain = problem(3, lengths=(6, 2))
    emission = chain.log_emission.clone()
    emission[:, ::2, 1] = -torch.inf
    chain = chain._replace(log_emission=emission)
    assert_same_beliefs(inference.infer(*chain, pairwise=True), expected_beliefs(chain), chain.mask)


def test_padding_never_reaches_either_backend(backend):
    clean = problem()
    dirty = clean._replace(
        log_kernel=torch.where(clean.mask[..., None, None], clean.log_kernel, torch.nan),
        log_emission=torch.where(clean.mask[..., None], clean.log_emission, torch.nan),
    )
    found = inference.infer(*dirty, pairwise=True)
    assert_same_beliefs(found, expected_beliefs(clean), clean.mask)


def test_compiled_passes_share_nothing_between_threads():
    numba = pytest.importorskip("numba")
    chain = problem(5, 3, lengths=tuple(range(1, 60)))
    before = numba.get_num_threads()
    numba.set_num_threads(numba.config.NUMBA_NUM_THREADS)
    try:
        assert_same_beliefs(inference.infer(*chain, pairwise=True), expected_beliefs(chain), chain.mask)
    finally:
        numba.set_num_threads(before)


@pytest.mark.parametrize("emission", [-torch.inf, -1e4])
def test_log_space_takes_over_where_scaled_probabilities_end(emission):
    """A step that no intention, or only a hopeless one, can explain is beyond doubles; it must not become NaN."""
    chain = problem(2, 2, lengths=(5, 3))
    emissions, kernel = chain.log_emission.clone(), chain.log_kernel.clone()
    emissions[0, 2] = torch.tensor([0.0, emission]) if emission > -torch.inf else emission
    kernel[0, 2] = torch.tensor([[-1e3, 0.0], [-1e3, 0.0]])  # intention 0 is all but impossible there
    chain = chain._replace(log_emission=emissions, log_kernel=kernel)
    found, expected = inference.infer(*chain, pairwise=True), expected_beliefs(chain)
    assert not any(part.isnan().any() for part in expected)
    assert_same_beliefs(found, expected, chain.mask)
