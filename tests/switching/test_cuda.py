"""Every switching model on a GPU against itself on the CPU: the E-step, one M-step, and the E-step after it."""

from __future__ import annotations

import copy

import numpy as np
import torch

from cuda_support import DEVICE, close, cuda, exact_products, prepared, ragged
from prism_irl.switching.base import Switching
from prism_irl.switching.gate import Gate
from prism_irl.switching.markov import MarkovChain
from prism_irl.switching.networks import HistoryNetwork, Optimiser
from prism_irl.switching.ordered import OrderedChain, OrderedRecurrentChain
from prism_irl.switching.per_trajectory import TrajectoryChoice
from prism_irl.switching.recurrent import RecurrentChain
from prism_irl.switching.varying import StateChain, StatePairChain
from support import visited

K, S, A = 3, 7, 3
EXACT, SINGLE = 1e-9, 1e-4  # closed form in double precision; one pass of Adam over a network in single precision


def history(name: str, n_outputs: int, **options) -> HistoryNetwork:
    sizes = {"n_states": S, "n_actions": A, "n_observations": 0, "embedding": 8, "hidden": 16}
    return HistoryNetwork(name, n_outputs=n_outputs, **{"observe": "past", **sizes, **options})


def build(kind: str) -> Switching:
    """A model away from its symmetric first point."""
    torch.manual_seed(1)
    optimiser = Optimiser(learning_rate=1e-2, batch_size=4)
    kind, _, network = kind.partition(" ")
    if kind == "gate":
        return Gate(history(network, K), K, l1=0.4, kl=0.3, optimiser=optimiser)
    if kind == "paper":
        return Gate(history(network, K, observe="current"), K, l1=0.0, kl=0.0, optimiser=optimiser)
    if kind in ("recurrent", "stages"):
        chain = RecurrentChain if kind == "recurrent" else OrderedRecurrentChain
        core = history(network, K * K, interaction=True)
        return chain(core, K, switch_penalty=0.1, optimiser=optimiser)
    if kind == "state" and network == "pair":
        return StatePairChain(S, K)
    if kind == "state":
        return StateChain(S, K, kind=network, hidden=6, steps=5)
    return {"markov": MarkovChain, "ordered": OrderedChain, "mixture": TrajectoryChoice}[kind](K)


def compare(kind: str, tolerance: float) -> None:
    on_device, on_cpu = prepared(ragged(2))
    emission = torch.from_numpy(np.log(np.random.default_rng(0).dirichlet(np.ones(K), on_cpu.demos.n_steps)))
    there = build(kind)
    here = copy.deepcopy(there)
    if hasattr(here, "optimiser"):
        for model in (here, there):
            model.optimiser.bind(model.network if isinstance(model, Gate) else model)
    there.to(DEVICE)

    def posteriors(step: str) -> None:
        """Compare the E-step; a float32 network is off in the last digits before any step as well."""
        found, wanted = there.expectation(on_device, emission), here.expectation(on_cpu, emission)
        for name, value in wanted._asdict().items():
            assert (value is None) == (getattr(found, name) is None)
            if value is not None:
                close(getattr(found, name), value, tolerance, f"{name} {step}")

    posteriors("at first")
    with exact_products():
        if there.incremental:
            found, wanted = visited(there, on_device, emission, 5), visited(here, on_cpu, emission, 5)
            close(found.responsibilities, wanted.responsibilities, tolerance, "responsibilities of the pass")
            close(found.log_likelihood, wanted.log_likelihood, tolerance, "log-likelihood of the pass")
        for model, data in ((there, on_device), (here, on_cpu)):
            em_step = visited(model, data, emission, 6)
            model.update(model.statistics(data, em_step))
        posteriors("after the M-step")


@cuda(kind=["markov", "ordered", "mixture"])
def test_closed_forms(kind: str) -> None:
    compare(kind, EXACT)


@cuda(kind=["pair", "table", "mlp"])
def test_chain_over_states(kind: str) -> None:
    compare(f"state {kind}", 1e-6)  # L-BFGS turns rounding into other steps


@cuda(kind=["gate", "paper", "recurrent", "stages"], network=["rnn", "gru", "lstm", "transformer"])
def test_networks(kind: str, network: str) -> None:
    with exact_products():
        compare(f"{kind} {network}", SINGLE)
