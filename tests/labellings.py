"""Random labels of ragged trajectories, and the slow and obvious way to cut them into runs."""

from itertools import pairwise

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

quick = settings(max_examples=50, deadline=None)  # no deadline: the machine may be busy


@st.composite
def cases(draw, n_labels=4):
    """True labels, predicted labels and offsets of a few ragged trajectories."""
    lengths = draw(st.lists(st.integers(1, 12), min_size=1, max_size=6))
    n = sum(lengths)
    labels = st.lists(st.integers(0, n_labels - 1), min_size=n, max_size=n).map(np.array)
    return draw(labels), draw(labels), np.concatenate([[0], np.cumsum(lengths)])


def pieces(values, offsets):
    return [np.asarray(values)[a:b] for a, b in pairwise(offsets)]


def runs(labels):
    """Runs of one trajectory as (label, begin, end), the slow and obvious way."""
    found = []
    for t, label in enumerate(labels):
        if found and found[-1][0] == label:
            found[-1][2] = t + 1
        else:
            found.append([int(label), t, t + 1])
    return found
