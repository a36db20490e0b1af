"""Stacked fits on a GPU against each fit alone on the CPU."""

from __future__ import annotations

from contextlib import ExitStack
from functools import cache
from unittest import mock

import numpy as np
import torch

from cuda_support import DEVICE, close, cuda, exact_products, ragged, without_triton
from prism_irl.data.batching import Prepared
from prism_irl.models.intentions import Intentions
from prism_irl.models.presets import PRISM
from prism_irl.rewards.tabular import TabularPolicies
from prism_irl.scale.stacked import Stack, fit_together
from prism_irl.scale.stacked_models import StackedPolicies

LIKELIHOOD = 1e-4  # nats per step, after a few passes of Adam in single precision
BELIEF = 1e-2
SMALL = {"embedding": 8, "batch_size": 4, "max_iterations": 4, "n_starts": 2, "patience": 2, "warm_up": 2}
PENALTIES = {"independent": {"l1": 0.5, "kl": 0.3}, "recurrent": {"switch_penalty": 0.2}}


def together(models: list[Intentions], data: list, *, graphs: bool = True, triton: bool = True) -> list[Intentions]:
    """Fit as one stack on the device, with or without CUDA graphs and Triton."""
    with ExitStack() as stack:
        if not graphs:
            stack.enter_context(mock.patch.object(Stack, "_replay", Stack.update))
        if not triton:
            stack.enter_context(without_triton())
        stack.enter_context(exact_products())
        fit_together(models, data, device=DEVICE)
    return models


def compare(found: Intentions, wanted: Intentions, demos, *, score: str = "score") -> None:
    """The same history of iterations, likelihood and beliefs."""
    assert [row["iteration"] for row in found.monitor_] == [row["iteration"] for row in wanted.monitor_]
    for name in wanted.monitor_[0].keys() - {"seconds"}:
        close([row[name] for row in found.monitor_], [row[name] for row in wanted.monitor_], LIKELIHOOD, name)
    close(getattr(found, score)(demos), getattr(wanted, score)(demos), LIKELIHOOD, score)
    close(found.predict_proba(demos), wanted.predict_proba(demos), BELIEF, "beliefs")


def variants(switching: str, network: str, hidden: int) -> list[Intentions]:
    """Different numbers of intentions, seeds and histories in one stack, with penalties."""
    options = {"switching": switching, "network": network, "hidden": hidden, "n_candidates": 2, "device": "cpu"}
    return [
        Intentions(K, seed=seed, history=length, **PENALTIES[switching], **options, **SMALL)
        for K, seed, length in ((2, 0, 1), (3, 1, 2), (1, 2, 1))
    ]


DATA = [ragged(5, n_states=20), ragged(6, 17, n_states=20), ragged(7, 9, n_states=20)]  # a large table of pairs


@cache
def alone(switching: str, network: str, hidden: int) -> list[Intentions]:
    """Each fit by itself on the CPU."""
    return [model.fit(demos) for model, demos in zip(variants(switching, network, hidden), DATA, strict=True)]


def check(switching: str, network: str, hidden: int, **how: bool) -> None:
    stacked = together(variants(switching, network, hidden), DATA, **how)
    for found, wanted, demos in zip(stacked, alone(switching, network, hidden), DATA, strict=True):
        compare(found, wanted, demos)


@cuda(switching=["independent", "recurrent"], network=["rnn", "gru", "lstm"], graphs=[True, False])
def test_a_fit_in_a_stack_equals_the_fit_alone(switching: str, network: str, graphs: bool) -> None:
    check(switching, network, 16, graphs=graphs)


@cuda(switching=["independent", "recurrent"])
def test_hidden_sizes_that_triton_does_not_take(switching: str) -> None:
    check(switching, "rnn", 6)


@cuda(switching=["independent", "recurrent"])
def test_stacks_without_triton(switching: str) -> None:
    check(switching, "rnn", 16, triton=False)


@cuda()
def test_the_paper_gate_without_validation_data() -> None:
    demos = ragged(9)
    options = {"max_iterations": 3, "hidden": 16, "embedding": 8, "device": "cpu"}
    models = [PRISM.paper("labyrinth", n_intentions=K, **options) for K in (2, 3)]
    together(models, [demos, demos])
    alone = PRISM.paper("labyrinth", n_intentions=2, **options).fit(demos)
    compare(models[0], alone, demos, score="paper_score")


@cuda(length=[1, 2])
def test_policies(length: int) -> None:
    """Weighted counts with back-off, padded to the larger of two fits."""
    tables, given = [], []
    for seed, K in enumerate((2, 3)):
        demos = ragged(seed)
        contexts = demos.with_history(length)
        tables.append(TabularPolicies(K, demos.n_actions, contexts, smoothing=0.1 + seed, backoff=3.0 + seed))
        given.append((Prepared.of(demos, contexts), np.random.default_rng(seed).dirichlet(np.ones(K), demos.n_steps)))
    stack = StackedPolicies(tables, DEVICE)
    stack.clear()
    for f, (data, w) in enumerate(given):
        pairs = torch.zeros(2, 1, data.demos.n_steps, dtype=torch.long)
        weights = torch.zeros(2, 1, data.demos.n_steps, 3, dtype=torch.float64)
        pairs[f, 0], weights[f, 0, :, : w.shape[1]] = torch.from_numpy(data.pairs.astype(np.int64)), torch.from_numpy(w)
        stack.count(pairs.to(DEVICE), weights.to(DEVICE))
    stack.maximise()
    prior = stack.log_prior()
    for f, (table, (data, w)) in enumerate(zip(tables, given, strict=True)):
        table.m_step(data, w)
        found = stack.policies[f, : len(table.valid), :, : table.n_intentions].permute(2, 0, 1)
        close(found, table.policies, 1e-12)
        close(prior[f], table.log_prior(), 1e-12)
