"""Choice kernels: traces by hand, weights that a simulation had, and no knowledge of the step itself."""

import numpy as np

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.rewards.choice_kernels import RATES, ChoiceKernels, fit_kernels, traces_of


def test_traces_are_of_the_actions_before_each_step(make_demos):
    demos = make_demos(1, lengths=(9, 1, 4))
    found, A = traces_of(demos, demos.n_actions), demos.n_actions
    kernels = ChoiceKernels(np.array([1.0, -2.0, 0.5, 0.3]), np.full((demos.n_states, A), 0.5))
    for first, end in zip(demos.offsets[:-1], demos.offsets[1:], strict=True):
        traces = kernels.begin(1)
        for t in range(first, end):
            np.testing.assert_allclose(found[t], traces[0])
            expected = 0.5 * np.exp(kernels.weights @ traces[0])
            np.testing.assert_allclose(kernels.along(demos)[t], expected)
            traces = kernels.after(traces, demos.actions[t : t + 1].astype(int))
    assert RATES.shape == kernels.weights.shape


def test_weights_are_found_again():
    rng, weight = np.random.default_rng(0), 3.0
    actions, trace = np.zeros((100, 200), np.int64), np.zeros((100, 3))
    for t in range(200):
        p = np.exp(weight * trace)
        actions[:, t] = (rng.random((100, 1)) > (p / p.sum(1, keepdims=True)).cumsum(1)).sum(1)
        trace += RATES[2] * (np.eye(3)[actions[:, t]] - trace)
    demos = Demonstrations.from_arrays(np.zeros_like(actions), actions, n_states=1, n_actions=3)
    found = fit_kernels(demos, np.full((demos.n_steps, 3), 1 / 3)).weights
    np.testing.assert_allclose(found, [0.0, 0.0, weight, 0.0], atol=0.4)
    impossible = np.tile([0.5, 0.5, 0.0], (demos.n_steps, 1))
    assert np.isfinite(fit_kernels(demos, impossible).weights).all()


def test_perseveration_and_the_liking_of_places_are_told_apart():
    """Where one comes from depends on what was done, so that counts of a place contain perseveration."""
    rng, liking = np.random.default_rng(1), np.array([[0.8, 0.0], [0.0, 0.4], [0.2, 0.0]])
    states, actions = np.zeros((2, 150, 100), np.int64)
    now, last = rng.integers(3, size=150), np.zeros((150, 2))
    for t in range(100):
        p = np.exp(liking[now] + 1.5 * last)
        states[:, t], actions[:, t] = now, (rng.random((150, 1)) > (p / p.sum(1, keepdims=True)).cumsum(1)).sum(1)
        last = np.eye(2)[actions[:, t]]
        now = np.where(rng.random(150) < 0.8, actions[:, t], 2)
    demos = Demonstrations.from_arrays(states, actions, n_states=3, n_actions=2)
    counts = np.array([np.bincount(actions[states == s], minlength=2) for s in range(3)], float)
    found = fit_kernels(demos, (counts / counts.sum(1, keepdims=True))[demos.states])
    assert abs(found.weights[0] - 1.5) < 0.25  # the ridge shrinks it
    levels = np.log(counts * found.levels)
    np.testing.assert_allclose(levels[:, 0] - levels[:, 1], liking[:, 0] - liking[:, 1], atol=0.2)
