"""Many fits at once: every fit is what it would have been alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from prism_irl.data.batching import Prepared
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.models.intentions import Intentions
from prism_irl.models.presets import PRISM
from prism_irl.rewards.tabular import TabularPolicies
from prism_irl.scale.stacked import can_stack, fit_together
from prism_irl.scale.stacked_models import Rows, StackedPolicies, recurrence

S, A = 7, 3


def ragged(seed: int, n: int = 14, *, even: bool = False) -> Demonstrations:
    rng = np.random.default_rng(seed)
    lengths = np.full(n, 12) if even else rng.integers(3, 15, n)
    states = [rng.integers(S, size=length) for length in lengths]
    actions = [
        np.where(rng.random(length) < 0.7, s % A, rng.integers(A, size=length))
        for s, length in zip(states, lengths, strict=True)
    ]
    return Demonstrations.from_arrays(states, actions, n_states=S, n_actions=A)


@pytest.mark.parametrize("name", ["rnn", "gru", "lstm"])
def test_recurrence_equals_torch_for_each_fit(name: str) -> None:
    torch.manual_seed(0)
    F, B, T, d, H = 2, 3, 6, 4, 5
    cores = [{"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}[name](d, H, batch_first=True) for _ in range(F)]
    tokens, others = torch.randn(F, S, d), torch.randn(F, A, d)
    index = torch.randint(0, S, (40,), dtype=torch.int32), torch.randint(0, A, (40,), dtype=torch.int32)
    first, length = torch.tensor([[0, 7, 20], [3, 30, 12]]), torch.tensor([[6, 4, 6], [2, 6, 6]], dtype=torch.int32)
    rows = Rows(first, length, T)
    project = torch.stack([core.weight_ih_l0 for core in cores]).transpose(1, 2)
    bias = torch.stack([core.bias_ih_l0 for core in cores]).unsqueeze(1)
    hidden = recurrence(
        name,
        rows,
        index,
        (tokens @ project + bias, others @ project),
        torch.stack([core.weight_hh_l0 for core in cores]),
        torch.stack([core.bias_hh_l0 for core in cores]),
    )
    assert hidden.shape == (F, B, T + 1, H)
    for f, core in enumerate(cores):
        for b in range(B):
            steps = slice(int(first[f, b]), int(first[f, b] + length[f, b]))
            x = tokens[f, index[0][steps].long()] + others[f, index[1][steps].long()]
            torch.testing.assert_close(
                hidden[f, b, 1 : 1 + int(length[f, b])], core(x[None])[0][0], atol=1e-5, rtol=1e-5
            )


@pytest.mark.parametrize("lengths", [(1, 1), (2, 3)])
def test_policies_equal_those_of_each_fit(lengths: tuple[int, int]) -> None:
    tables, stacked_inputs = [], []
    for seed, (length, K) in enumerate(zip(lengths, (2, 3), strict=True)):
        demos = ragged(seed)
        contexts = demos.with_history(length)
        tables.append(TabularPolicies(K, A, contexts, smoothing=0.1 + seed, backoff=3.0 + seed))
        w = np.random.default_rng(seed).dirichlet(np.ones(K), demos.n_steps)
        stacked_inputs.append((Prepared.of(demos, contexts), w))
    stack = StackedPolicies(tables, torch.device("cpu"))
    stack.clear()
    for f, (data, w) in enumerate(stacked_inputs):
        pairs = torch.zeros(2, 1, data.demos.n_steps, dtype=torch.long)
        weights = torch.zeros(2, 1, data.demos.n_steps, 3, dtype=torch.float64)
        pairs[f, 0], weights[f, 0, :, : w.shape[1]] = torch.from_numpy(data.pairs.astype(np.int64)), torch.from_numpy(w)
        stack.count(pairs, weights)
    stack.maximise()
    prior = stack.log_prior()
    for f, (table, (data, w)) in enumerate(zip(tables, stacked_inputs, strict=True)):
        table.m_step(data, w)
        found = stack.policies[f, : len(table.valid), :, : table.n_intentions].permute(2, 0, 1).numpy()
        np.testing.assert_allclose(found, table.policies, atol=1e-12)
        assert float(prior[f]) == pytest.approx(table.log_prior(), abs=1e-9)


@pytest.mark.parametrize("switching", ["independent", "recurrent"])
@pytest.mark.parametrize("network", ["rnn", "gru"])
def test_a_fit_in_a_stack_equals_the_fit_alone(switching: str, network: str) -> None:
    options = {
        "switching": switching,
        "network": network,
        "hidden": 6,
        "embedding": 5,
        "batch_size": 4,
        "max_iterations": 4,
        "n_starts": 2,
    }
    options |= {"warm_up": 2, "n_candidates": 1, "device": "cpu", "patience": 2}
    variants = [(2, 0, 1), (3, 1, 2), (1, 2, 1)]  # intentions, seed, history; one intention needs no network
    penalties = {"l1": 0.5, "kl": 0.3} if switching == "independent" else {"switch_penalty": 0.2}
    data = [ragged(5), ragged(6, 17), ragged(7, 9)]
    alone = [
        Intentions(K, seed=s, history=h, **penalties, **options).fit(d)
        for (K, s, h), d in zip(variants, data, strict=True)
    ]
    together = [Intentions(K, seed=s, history=h, **penalties, **options) for K, s, h in variants]
    fit_together(together, data, device="cpu")
    for one, other, demos in zip(alone, together, data, strict=True):
        assert [row["iteration"] for row in one.monitor_] == [row["iteration"] for row in other.monitor_]
        for mine, theirs in zip(one.monitor_, other.monitor_, strict=True):
            assert theirs["train"] == pytest.approx(mine["train"], abs=1e-5)
            assert theirs["validation"] == pytest.approx(mine["validation"], abs=1e-5)
        np.testing.assert_allclose(other.predict_proba(demos), one.predict_proba(demos), atol=1e-3)
        assert other.score(demos) == pytest.approx(one.score(demos), abs=1e-5)


def test_the_paper_gate_without_validation_data() -> None:
    demos = ragged(9, even=True)
    options = {"max_iterations": 3, "hidden": 6, "embedding": 5, "device": "cpu"}
    alone = PRISM.paper("labyrinth", n_intentions=2, **options).fit(demos)
    together = PRISM.paper("labyrinth", n_intentions=2, **options)
    fit_together([together, PRISM.paper("labyrinth", n_intentions=3, **options)], [demos, demos], device="cpu")
    assert together.paper_score(demos) == pytest.approx(alone.paper_score(demos), abs=1e-5)


def test_what_can_be_stacked() -> None:
    demos = ragged(1)
    assert can_stack(Intentions(2, switching="recurrent"), demos)
    assert not can_stack(Intentions(2), demos)  # the pair is chosen by the data
    assert not can_stack(Intentions(2, switching="markov"), demos)
    assert not can_stack(Intentions(2, rewards="goals"), demos)
    assert not can_stack(Intentions(2, switching="state", rewards="soft-1"), demos)
    assert not can_stack(Intentions(2, switching="recurrent", network="transformer"), demos)
    assert not can_stack(Intentions(2, switching="recurrent", smoothing=0.0), demos)
