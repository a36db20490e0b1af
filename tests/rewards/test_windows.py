"""Intentions by windows: what they read, that predictions do not, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import prism_irl as prism
from continuous_worlds import walking
from prism_irl.data.batching import Prepared
from prism_irl.data.contexts import Contexts
from prism_irl.data.continuous import DESCRIBED, described, in_steps
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.evaluation.metrics import infer_once
from prism_irl.rewards.base import Problem
from prism_irl.rewards.options import Windows
from prism_irl.rewards.windows import View
from support import one_sentence

DEMOS = walking(n_trajectories=5, length=30)


def rhythms(n: int = 12, length: int = 120, seed: int = 0) -> Demonstrations:
    """Two gestures that differ by their rhythm: single commands look alike, stretches of them do not."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(rng.integers(2, size=(n, length // 40)), 40, axis=1)
    phase = np.cumsum(np.where(labels == 0, 2.0 * np.pi / 20.0, 2.0 * np.pi / 5.0), axis=1)
    commands = np.sin(phase + rng.uniform(0.0, 6.0, (n, 1)))[..., None] + rng.normal(0, 0.1, (n, length, 1))
    return Demonstrations.continuous(rng.normal(size=(n, length, 1)), commands, labels=labels)


def fitted(demos, **options):
    return prism.Intentions(
        2, switching="markov", rewards=Windows(**options), n_starts=1, max_iterations=8, device="cpu"
    ).fit(demos)


def test_a_window_in_steps_and_in_seconds():
    assert in_steps(15, DEMOS) == in_steps("15", DEMOS) == 15
    times = np.tile(0.1 * np.arange(30), 5)
    assert in_steps("0.5s", replace(DEMOS, times=times)) == 5
    dates = np.datetime64("2026-01-01") + (1000 * times).astype("timedelta64[ms]")
    assert in_steps("0.5s", replace(DEMOS, times=dates)) == 5
    assert in_steps("2s", replace(DEMOS, times=np.tile(np.arange(30), 5)), rate=4.0) == 8


@pytest.mark.parametrize(
    ("window", "times", "words"),
    [
        ("soon", None, "such as 15, or a time such as 0.5s"),
        (2.5, None, "such as 15, or a time such as 0.5s"),
        (0, None, "A window of 0 steps each way"),
        (31, None, "the longest has 30, so give no more"),
        ("-1s", np.tile(0.1 * np.arange(30), 5), "A window of 0 steps each way"),
        ("infs", None, "such as 15"),
        ("0.5s", None, "name its column with --time"),
        ("0.5s", np.tile(np.arange(30), 5), "may be frames"),
        ("0.5s", np.zeros(150), "steps at different times"),
    ],
)
def test_what_is_no_window_is_said(window, times, words):
    with pytest.raises(InputError) as error:
        fitted(replace(DEMOS, times=times), window=window)
    assert words in one_sentence(error)


def test_windows_are_described_by_lags_and_spreads_within_a_trajectory():
    values = np.concatenate([DEMOS.observations, DEMOS.motions], axis=1)
    found = described(values, DEMOS.offsets, 4)
    assert found.shape == (150, DESCRIBED * 4)
    alone = described(values[30:60], np.array([0, 30]), 4)
    np.testing.assert_allclose(found[30:60], alone, atol=1e-12)  # no trajectory sees another
    np.testing.assert_allclose(found[10, 4:8], found[6, :4])  # four steps before


def test_components_do_not_depend_on_how_the_data_are_cut(monkeypatch):
    whole = View.fit(DEMOS, 3, 5)
    monkeypatch.setattr("prism_irl.rewards.windows.ROWS", 40)
    parts = View.fit(DEMOS, 3, 5)
    np.testing.assert_allclose(parts(DEMOS), whole(DEMOS), atol=1e-9)
    centred = whole(DEMOS)
    np.testing.assert_allclose(centred.mean(axis=0), 0.0, atol=1e-9)
    covariance = np.cov(centred.T)
    np.testing.assert_allclose(covariance, np.diag(np.diag(covariance)), atol=1e-9)
    assert (np.diff(np.diag(covariance)) <= 1e-9).all()


def test_densities_are_those_of_gaussians():
    rewards = Windows(window=3, components=4).build(Problem(2, DEMOS, Contexts(1), 1.0, None))
    data = Prepared.of(DEMOS, Contexts(1))
    weights = np.random.default_rng(0).dirichlet(np.ones(2), 150)
    rewards.m_step(data, weights)
    for k in range(2):
        own = multivariate_normal(rewards.seen.weights[k, :, 0], rewards.seen.covariances[k])
        np.testing.assert_allclose(rewards.log_likelihood(data)[:, k], own.logpdf(rewards.windows(DEMOS)))


@pytest.mark.parametrize("covariance", ["full", "shared"])
def test_every_window_counts_as_much_as_its_power_and_em_never_falls(covariance):
    whole, half = (Windows(window=3, components=4, covariance=covariance, power=p) for p in (1.0, 0.5))
    data, weights = Prepared.of(DEMOS, Contexts(1)), np.random.default_rng(0).dirichlet(np.ones(2), 150)
    one, other = (options.build(Problem(2, DEMOS, Contexts(1), 1.0, None)) for options in (whole, half))
    one.m_step(data, weights / 2)  # half of the evidence, wherever it comes from
    other.m_step(data, weights)
    np.testing.assert_allclose(one.seen.weights, other.seen.weights)
    np.testing.assert_allclose(one.seen.covariances, other.seen.covariances)
    np.testing.assert_allclose(one.log_likelihood(data) / 2, other.log_likelihood(data))
    rows = fitted(DEMOS, window=3, covariance=covariance, power=0.3, shrinkage=0.4).monitor_
    assert all(b["objective"] >= a["objective"] - 1e-9 for a, b in pairwise(rows))


def test_a_shrunk_covariance_has_its_share_of_white_noise():
    data, weights = Prepared.of(DEMOS, Contexts(1)), np.random.default_rng(0).dirichlet(np.ones(2), 150)

    def covariance(share: float) -> np.ndarray:
        options = Windows(window=3, components=4, covariance="shared", shrinkage=share)
        rewards = options.build(Problem(2, DEMOS, Contexts(1), 1.0, None))
        rewards.m_step(data, weights)
        whole = 150 + 2 + rewards.seen.noise_strength + 5  # what its prior and its mode divide by
        return rewards.seen.covariances[0] * whole / (150 + rewards.seen.noise_strength)

    scatter = (covariance(0.5) - 0.5 * np.eye(4)) / 0.5
    for share in (0.1, 0.8):
        np.testing.assert_allclose(covariance(share), (1 - share) * scatter + share * np.eye(4), atol=1e-9)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"window": "auto"}, "name them with --labels"),
        ({"power": 1.5}, "power must be at least"),
        ({"power": 0.0}, "power must be at least"),
        ({"shrinkage": 1.0}, "shrinkage must be at least"),
        ({"components": "many"}, "components must be a whole number"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, words):
    with pytest.raises(InputError) as error:
        fitted(DEMOS, **options)
    assert words in one_sentence(error)


def test_rhythm_is_found_where_single_commands_say_nothing():
    demos = rhythms()
    model = fitted(demos, window=8)
    accuracy = infer_accuracy(model.predict(demos), demos.labels)
    single = prism.Intentions(2, switching="markov", rewards="features", n_starts=1, max_iterations=8, device="cpu")
    # A slow and a fast swing go through the same commands, in another order.
    assert accuracy > 0.9 > 0.7 > infer_accuracy(single.fit(demos).predict(demos), demos.labels)


def infer_accuracy(labels, truth):
    agree = float((labels == truth).mean())
    return max(agree, 1.0 - agree)


def test_labels_look_ahead_and_scores_do_not():
    model, whole = fitted(DEMOS, window=4), DEMOS.subset([0])
    later = np.arange(30)[:, None] >= 20
    changed = replace(whole, motions=np.where(later, -whole.motions, whole.motions))
    assert model.looks_ahead
    seen = (model.rewards_model_.log_likelihood(model._prepare(model._check_new(part))) for part in (whole, changed))
    assert (np.subtract(*seen)[17:20] != 0).all()
    np.testing.assert_allclose(model.log_likelihood(whole)[:20], model.log_likelihood(changed)[:20])
    found = infer_once(model, whole)
    np.testing.assert_allclose(found.log_likelihood, model.log_likelihood(whole))
    assert found.paper.mean() == pytest.approx(model.paper_score(whole)) == pytest.approx(model.score(whole))


def test_the_density_of_commands_integrates_to_one():
    model = fitted(walking(n_trajectories=5, length=30, noise=0.3), window=3)
    one = DEMOS.subset([0])
    side = np.linspace(-6.0, 6.0, 241)
    grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    past = 7  # the command after these is anything
    x = np.asarray(one.observations[past])
    belief = model.filter_proba(one)[past - 1] @ model.kernel_
    scaled = model.units_
    density = model.rewards_model_.log_density(
        np.tile((x - scaled.observation_mean) / scaled.observation_spread, (len(grid), 1)).astype(np.float32),
        (grid - scaled.command_mean) / scaled.command_spread,
    )
    total = np.exp(density - scaled.log_volume) @ belief
    assert total.sum() * (side[1] - side[0]) ** 2 == pytest.approx(1.0, abs=1e-3)
