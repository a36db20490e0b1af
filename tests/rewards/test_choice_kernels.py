"""Choice kernels: traces by hand, weights that a simulation had, and no knowledge of the step itself."""

import numpy as np

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.rewards.choice_kernels import RATES, ChoiceKernels, fit_kernels, traces_of


def test_traces_are_of_the_actions_before_each_step(make_demos):
    demos = make_demos(1, lengths=(9, 1, 4))
    found, A = traces_of(demos, demos.n_actions), demos.n_actions
    kernels = ChoiceKernels(np.array([1.0, -2.0, 0.5]), A)
    for first, end in zip(demos.offsets[:-1], demos.offsets[1:], strict=True):
        traces = kernels.begin(1)
        for t in range(first, end):
            np.testing.assert_allclose(found[t], traces[0])
            expected = np.exp(kernels.weights @ traces[0])
            np.testing.assert_allclose(kernels.along(demos)[t], expected)
            traces = kernels.after(traces, demos.actions[t : t + 1].astype(int))
    assert RATES.shape == kernels.weights.shape


def test_weights_are_found_again():
    rng, weight = np.random.default_rng(0), 3.0
    actions, trace = np.zeros((100, 200), np.int64), np.zeros((100, 3))
    for t in range(200):
        p = np.exp(weight * trace)
        actions[:, t] = (rng.random((100, 1)) > (p / p.sum(1, keepdims=True)).cumsum(1)).sum(1)
        trace += RATES[1] * (np.eye(3)[actions[:, t]] - trace)
    demos = Demonstrations.from_arrays(np.zeros_like(actions), actions, n_states=1, n_actions=3)
    found = fit_kernels(demos, np.full((demos.n_steps, 3), 1 / 3)).weights
    np.testing.assert_allclose(found, [0.0, weight, 0.0], atol=0.25)
    impossible = np.tile([0.5, 0.5, 0.0], (demos.n_steps, 1))
    assert np.isfinite(fit_kernels(demos, impossible).weights).all()
