import numpy as np
import pytest

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.robots.vision.tokenizer import granularity


def test_by_hand():
    # First: T=4, D=2, one state seen once; second: T=3, D=3, all seen once.
    states = [np.array([0, 0, 0, 5]), np.array([1, 2, 3])]
    demos = Demonstrations.from_arrays(states, [np.zeros_like(s) for s in states], n_states=10)
    found = granularity(demos)
    assert found["coverage"] == {"mean": pytest.approx(25), "std": pytest.approx(5)}
    assert found["revisits"] == {"mean": pytest.approx(1.5), "std": pytest.approx(0.5)}
    assert found["singletons"] == {"mean": pytest.approx(75), "std": pytest.approx(25)}


def test_finer_tokens_are_visited_less():
    rng = np.random.default_rng(0)
    walk = np.cumsum(rng.normal(size=500))
    walk -= walk.min()
    coarse, fine = (
        granularity(Demonstrations.from_arrays([s], [np.zeros(500, int)], n_states=n))
        for s, n in (((walk / walk.max() * 9).astype(int), 10), ((walk / walk.max() * 99).astype(int), 100))
    )
    assert coarse["revisits"]["mean"] > 5 * fine["revisits"]["mean"] / 2
    assert coarse["coverage"]["mean"] >= fine["coverage"]["mean"]
