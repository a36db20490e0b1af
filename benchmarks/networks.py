"""Training networks: an epoch of the gate, and the paper's labyrinth fit end to end, against the plain loop."""

from __future__ import annotations

import numpy as np
import torch

from chains import steps_like_labyrinth
from plain import PlainEM, PlainGate, gate_loss
from prism_irl import em
from prism_irl.data.batching import Parts, Prepared
from prism_irl.data.contexts import Contexts
from prism_irl.models.starts import random_responsibilities
from prism_irl.rewards.tabular import TabularPolicies
from prism_irl.switching.gate import Gate
from prism_irl.switching.networks import HistoryNetwork, Optimiser
from timing import Row

K, WIDTH, L1, KL = 3, 128, 2.22, 1.48  # Table hparams, labyrinth


def ours(data: Prepared, name: str = "rnn") -> em.Start:
    """The paper's gate at a random start."""
    torch.manual_seed(0)
    sizes = {"n_states": data.demos.n_states, "n_actions": data.demos.n_actions, "n_observations": 0}
    network = HistoryNetwork(name, **sizes, n_outputs=K, embedding=WIDTH, hidden=WIDTH, observe="current")  # type: ignore[arg-type]
    gate = Gate(network, K, l1=L1, kl=KL, optimiser=Optimiser(learning_rate=1e-3, batch_size=32))
    rewards = TabularPolicies(K, data.demos.n_actions, Contexts(data.demos.n_states), smoothing=0.01)
    rewards.m_step(data, random_responsibilities(data.demos, K, np.random.default_rng(0)))
    return em.Start(0, gate, rewards, em.Monitor(em.Stopping(10, None)))


def twin(start: em.Start, data: Prepared) -> PlainEM:
    """The plain loop with the same parameters."""
    network = start.switching.network
    S, A = data.demos.n_states, data.demos.n_actions
    gate = PlainGate(S, A, K, WIDTH)
    gate.states.load_state_dict({"weight": network.tokens.states.weight[:S]})
    gate.actions.load_state_dict({"weight": network.tokens.actions.weight[:A]})
    gate.rnn.load_state_dict(network.core.core.state_dict())
    gate.head.load_state_dict(network.head.state_dict())
    return PlainEM(data.demos, gate, start.rewards.policies.copy(), L1, KL)


def check(start: em.Start, plain: PlainEM, data: Prepared) -> None:
    """Responsibilities and gradients of the two agree to 1e-5."""
    w = plain.expectation()
    found = em.expectation(start.switching, start.rewards, data).responsibilities
    np.testing.assert_allclose(found, w.reshape(-1, K).numpy(), atol=1e-5)
    (batch,) = list(Prepared(data.demos.subset(range(8)), data.rows).batches)
    gate = start.switching
    plain_loss = gate_loss(
        plain.gate(batch.states, batch.actions), data.gather(batch, w.reshape(-1, K)).float(), L1, KL
    )
    plain_loss.backward()
    own_loss = gate_loss(gate.log_gate(batch), data.gather(batch, w.reshape(-1, K)).float(), L1, KL)
    own_loss.backward()
    pairs = [
        (gate.network.core.core.weight_hh_l0, plain.gate.rnn.weight_hh_l0),
        (gate.network.core.core.weight_ih_l0, plain.gate.rnn.weight_ih_l0),
        (gate.network.head.weight, plain.gate.head.weight),
    ]
    for one, other in pairs:
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-5, atol=1e-5 * float(other.grad.abs().max()))
    gate.zero_grad(set_to_none=True)
    plain.gate.zero_grad(set_to_none=True)


def rows(n: int = 190, iterations: int = 5) -> list[Row]:
    """An epoch of each network with given responsibilities; then whole EM iterations, as many of each."""
    data = Prepared.of(steps_like_labyrinth(n), Contexts(127))
    start = ours(data)
    plain = twin(start, data)
    check(start, plain, data)
    emission = em.emissions(start.switching, start.rewards, data)
    posterior = em.expectation(start.switching, start.rewards, data)
    w = torch.from_numpy(posterior.responsibilities).view(n, -1, K)
    generator = np.random.default_rng(0)
    size = f"{data.demos.n_steps:,} steps, H={WIDTH}"
    found = [
        Row.by_turns(
            f"RNN epoch, {size}",
            "nn.RNN, batches of 32",
            lambda: plain.epoch(w, generator),
            lambda: list(start.switching.visit(Parts(data), lambda part: emission, 0)),
            "3×",
            7,
        )
    ]

    def fit_plain() -> None:
        for _ in range(iterations):
            plain.iterate(generator)

    def fit_ours() -> None:
        for i in range(iterations):
            em.em_iteration(start.switching, start.rewards, Parts(data), i)

    found.append(
        Row.by_turns(
            f"paper's labyrinth fit, K={K}, {iterations} EM iterations of each",
            "plain loop with a separate E-step",
            fit_plain,
            fit_ours,
            "4×",
            5,
        )
    )
    return found
