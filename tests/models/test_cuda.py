"""Whole fits on a GPU against the same fits on the CPU."""

from __future__ import annotations

from cuda_support import DEVICE, close, cuda, exact_products, ragged
from prism_irl.models.intentions import Intentions

LIKELIHOOD = 1e-4  # nats per step, after a few passes of Adam in single precision
BELIEF = 1e-2


def compare(**options) -> None:
    """The same fit on the device and on the CPU: history, likelihood, beliefs and predictions."""
    demos = ragged(3, 20)
    options |= {"embedding": 8, "hidden": 16, "batch_size": 8, "n_starts": 2, "max_iterations": 4, "warm_up": 3}
    with exact_products():
        found = Intentions(2, device=str(DEVICE), n_candidates=1, **options).fit(demos)
        wanted = Intentions(2, device="cpu", n_candidates=1, **options).fit(demos)
        for name in wanted.monitor_[0].keys() - {"seconds"}:
            close([row[name] for row in found.monitor_], [row[name] for row in wanted.monitor_], LIKELIHOOD, name)
        close(found.score(demos), wanted.score(demos), LIKELIHOOD)
        close(found.predict_proba(demos), wanted.predict_proba(demos), BELIEF)
        close(found.action_proba(demos), wanted.action_proba(demos), BELIEF)


@cuda(switching=["independent", "recurrent"], network=["rnn", "gru", "lstm", "transformer"])
def test_prism(switching: str, network: str) -> None:
    compare(switching=switching, network=network)


@cuda()
def test_prism_with_a_markov_chain() -> None:
    compare(switching="markov")
