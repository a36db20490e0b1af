"""Many fits at once: folds × seeds × K × penalties × starts on a leading axis, as batched work on one GPU.

A fit of this size cannot fill a GPU; ninety side by side can. Every fit keeps its own data, parameters, minibatch
order, Adam moments and early stopping, all derived from its own seed as when it is fitted alone, so that a fit's result
does not depend on its neighbours (tested).

Stacked: the independent gate and the recurrent chain over RNN, GRU or LSTM, with weighted-count policies. On a GPU
minibatches are filled up to a few shapes, for each of which the update is captured once as a CUDA graph and replayed.
The same code runs on a CPU, where it is the slower way and serves the tests.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from prism_irl import em
from prism_irl.data.batching import Prepared
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.mdp import MDP
from prism_irl.models.intentions import Intentions
from prism_irl.rewards.tabular import TabularPolicies
from prism_irl.scale.stacked_models import (
    Flat,
    Parameters,
    Rows,
    StackedChain,
    StackedGate,
    StackedPolicies,
    StackedSwitching,
    recurrence,
)

EVALUATION_ROWS = 2**14  # of all fits together: enough to fill a GPU, and their hidden states still fit
LARGEST = 128  # starts side by side: more than fill a GPU, and their hidden states still fit
BETAS, EPSILON = (0.9, 0.999), 1e-8  # Adam's, as torch has them


@dataclass
class Entry:
    """One start of one fit."""

    model: Intentions
    start: em.Start
    train: Prepared
    validation: Prepared | None


def can_stack(model: object, demos: Demonstrations) -> bool:
    """Whether a fit can be part of a stack."""
    return (
        isinstance(model, Intentions)
        and type(model) is Intentions
        and not model.chooses_pair
        and isinstance(model.switching, str)
        and isinstance(model.rewards, str)
        and model.switching_options.stackable
        and model.reward_options.stackable
        and model.network in ("rnn", "gru", "lstm")
        and model.epochs_per_m_step == 1
        and model.smoothing > 0
        and not model.individuals
        and demos.observations is None
        and demos.partial_labels is None
    )


def worth_stacking(model: object, demos: Demonstrations) -> bool:
    """Whether a fit can be part of a stack, and there is a GPU that it may use."""
    return can_stack(model, demos) and torch.cuda.is_available() and cast(Intentions, model).device in ("auto", "cuda")


def fit_together(
    models: Sequence[Intentions],
    data: Sequence[Demonstrations],
    mdp: MDP | None = None,
    *,
    device: torch.device | str = "cuda",
) -> None:
    """Fit models that `can_stack`, each on its demonstrations, all at once; each is then as after its own `fit`."""
    groups: dict[tuple[Any, ...], list[Entry]] = defaultdict(list)
    fits = []
    estimated: dict[tuple[int, float], MDP] = {}  # many fits have the same demonstrations, which are counted once
    for model, given in zip(models, data, strict=True):
        demos, key = model._checked(given, mdp), (id(given), model.discount)
        if mdp is None and key not in estimated:
            estimated[key] = MDP.from_demonstrations(demos, model.discount)
        model._set_up(demos, estimated[key] if mdp is None else mdp)
        model.device_ = "cpu"  # where first points are found and results are kept
        train, validation = model._validation_split(demos)
        starts = [model._new_start(index, train.demos) for index in range(model.n_starts)]
        for start in starts:
            model._first_point(start, train)
        groups[_shape(model, demos)] += [Entry(model, start, train, validation) for start in starts]
        fits.append((model, starts, train, validation, demos))
    for group in groups.values():
        for first in range(0, len(group), LARGEST):
            Stack(group[first : first + LARGEST], torch.device(device)).run()
    for model, starts, train, validation, demos in fits:
        model._finish(starts, train, validation, demos)


def _shape(model: Intentions, demos: Demonstrations) -> tuple[Any, ...]:
    """What the fits of a stack must have in common."""
    names = ("switching", "network", "observe", "hidden", "embedding", "batch_size")
    options = (getattr(model, name) for name in names)
    return (*options, demos.n_states, demos.n_actions, model.validation_fraction > 0, model.n_intentions == 1)


class Stack:
    """F starts side by side."""

    def __init__(self, entries: list[Entry], device: torch.device) -> None:
        self.entries, self.device = entries, device
        model = entries[0].model
        kind = StackedChain if model.switching_options.is_chain else StackedGate
        self.switching: StackedSwitching = kind([entry.start.switching for entry in entries], device)
        self.parameters = self.switching.parameters
        self.policies = StackedPolicies([cast(TabularPolicies, entry.start.rewards) for entry in entries], device)
        self.network, self.batch_size = model.network, model.batch_size
        self.silent = self.switching.n_intentions == 1  # nothing to choose from: networks would never be asked
        self.train = Flat([entry.train for entry in entries], device, self.switching.indices)
        held_out = [entry.validation for entry in entries if entry.validation is not None]
        self.validation = Flat(held_out, device, self.switching.indices) if held_out else None
        self.rates = torch.tensor([entry.model.learning_rate for entry in entries], device=device)
        self.moments = {name: (torch.zeros_like(p), torch.zeros_like(p)) for name, p in self.parameters.items()}
        self.updates = torch.zeros(len(entries), device=device)
        self.likelihood = torch.zeros(len(entries), device=device, dtype=torch.float64)
        self.graphs: dict[int, tuple[Rows, torch.cuda.CUDAGraph]] = {}

    def outputs(self, p: Parameters, rows: Rows, data: Flat) -> Tensor:
        """Outputs of every network along its rows, (F, B, T, n_outputs)."""
        if self.silent:
            return torch.zeros(*rows.first.shape, rows.n_steps, 1, device=self.device)
        core = "network.core.core."
        project = p[core + "weight_ih_l0"].transpose(1, 2)
        left, right = self.switching.tables(p)
        tables = torch.baddbmm(p[core + "bias_ih_l0"].unsqueeze(1), left, project), torch.bmm(right, project)
        index = (data.left, data.right)
        hidden = recurrence(self.network, rows, index, tables, p[core + "weight_hh_l0"], p[core + "bias_hh_l0"])
        F, B, T, H = hidden.shape
        head, bias = p["network.head.weight"].transpose(1, 2), p["network.head.bias"].unsqueeze(1)
        return torch.baddbmm(bias, hidden.reshape(F, B * T, H), head).reshape(F, B, T, -1)[:, :, 1:]

    def update(self, rows: Rows) -> None:
        """Responsibilities, counts, gradient and Adam, from one pass over a minibatch of every fit."""
        pairs = rows.gather(self.train.pairs)
        leaves = {name: value.detach().requires_grad_() for name, value in self.parameters.items()}
        with torch.enable_grad():
            emission = self.policies.log_emission(pairs)
            loss, weights, likelihood = self.switching.loss(
                leaves, self.outputs(leaves, rows, self.train), emission, rows
            )
            gradients = () if self.silent else torch.autograd.grad(loss, list(leaves.values()))
        self.policies.count(pairs, weights)
        self.likelihood += likelihood.sum((1, 2))
        if not self.silent:  # else all gradients are zero
            self._adam(gradients, (rows.length > 0).any(1))

    @torch.no_grad()
    def _adam(self, gradients: Iterable[Tensor], active: Tensor) -> None:
        """One step of Adam for the fits that have rows in this minibatch."""
        self.updates += active
        first, second = (1.0 - beta**self.updates for beta in BETAS)
        step = torch.where(active, self.rates / first.clamp_min(1e-12), 0.0)
        scale = second.clamp_min(1e-12).sqrt()
        for (name, parameter), gradient in zip(self.parameters.items(), gradients, strict=True):
            shape = (-1,) + (1,) * (parameter.dim() - 1)
            on = active.to(parameter.dtype).view(shape)
            mean, square = self.moments[name]
            mean.add_((gradient - mean) * on, alpha=1.0 - BETAS[0])
            square.add_((gradient * gradient - square) * on, alpha=1.0 - BETAS[1])
            parameter.sub_(step.view(shape) * mean / (square.sqrt() / scale.view(shape) + EPSILON))

    def _replay(self, rows: Rows) -> None:
        """`update` as a CUDA graph, one for each shape: hundreds of small launches become one."""
        if rows.n_steps not in self.graphs:
            self.graphs[rows.n_steps] = self._capture(rows)
        own, graph = self.graphs[rows.n_steps]
        own.first.copy_(rows.first)
        own.length.copy_(rows.length)
        graph.replay()

    def _capture(self, example: Rows) -> tuple[Rows, torch.cuda.CUDAGraph]:
        """The graph of one shape and the rows that it reads; leaves everything as it was."""
        rows = Rows(example.first.clone(), example.length.clone(), example.n_steps)
        before = {name: value.clone() for name, value in self._everything().items()}
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # compiles kernels and fills caches before the capture
            for _ in range(2):
                self.update(rows)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        # Graphs run one after the other and keep nothing for each other, so that they can share their memory.
        with torch.cuda.graph(graph, pool=next((g.pool() for _, g in self.graphs.values()), None)):
            self.update(rows)
        with torch.no_grad():
            for name, value in self._everything().items():
                value.copy_(before[name])
        return rows, graph

    @torch.no_grad()
    def evaluate(self, data: Flat) -> Tensor:
        """Mean log-likelihood per step of every fit, (F,)."""
        total = torch.zeros_like(self.likelihood)
        for rows in data.shuffled(min(max(EVALUATION_ROWS // len(self.entries), 1), data.most), self._seeds(0)):
            emission = self.policies.log_emission(rows.gather(data.pairs))
            outputs = self.outputs(self.parameters, rows, data)
            total += self.switching.loss(self.parameters, outputs, emission, rows)[2].sum((1, 2))
        return total / data.n_steps

    def run(self) -> None:
        """EM until every start is finished."""
        clock = time.perf_counter()
        update = self._replay if self.device.type == "cuda" else self.update
        self._record(self.evaluate(self.train), 0.0)
        best = {name: value.clone() for name, value in self._state().items()}
        iteration, order = 1, self._epoch(1)
        while not all(entry.start.monitor.finished for entry in self.entries):
            self.likelihood.zero_()
            self.policies.clear()
            for rows in order:
                update(rows)
            self.policies.maximise()
            iteration, order = iteration + 1, self._epoch(iteration + 1)  # shuffled while the GPU is at work
            improved = self._record(self.likelihood / self.train.n_steps, time.perf_counter() - clock)
            for name, value in self._state().items():
                best[name] = torch.where(improved.view((-1,) + (1,) * (value.dim() - 1)), value, best[name])
        self._write_back(best)

    def _record(self, train: Tensor, seconds: float) -> Tensor:
        """Tell the monitors of the starts that still run; return whose parameters are the best so far, (F,)."""
        objective = train + self.policies.log_prior() / self.train.n_steps
        columns = {"objective": objective, "train": train}
        if self.validation is not None:
            columns["validation"] = self.evaluate(self.validation)
        values = {name: value.cpu().tolist() for name, value in columns.items()}
        improved = []
        for f, entry in enumerate(self.entries):
            monitor = entry.start.monitor
            if monitor.rows and monitor.finished:
                improved.append(False)
                continue
            entry.start.seconds = seconds
            row = {name: value[f] for name, value in values.items()}
            improved.append(monitor.record(seconds=seconds, **row))
        return torch.tensor(improved, device=self.device)

    def _epoch(self, iteration: int) -> list[Rows]:
        """The minibatches of one iteration."""
        return list(self.train.shuffled(min(self.batch_size, self.train.most), self._seeds(iteration)))

    def _seeds(self, iteration: int) -> list[tuple[int, int, int]]:
        return [(entry.model.seed, entry.start.index, iteration) for entry in self.entries]

    def _state(self) -> dict[str, Tensor]:
        return {**self.parameters, "policies": self.policies.policies, "counts": self.policies.counts}

    def _everything(self) -> dict[str, Tensor]:
        moments = {f"{name} {i}": both[i] for name, both in self.moments.items() for i in range(2)}
        return {**self._state(), **moments, "updates": self.updates, "likelihood": self.likelihood}

    def _write_back(self, best: dict[str, Tensor]) -> None:
        """Leave every start at its best iteration, as `em.fit_start` does."""
        self.policies.write_back(best)
        for f, entry in enumerate(self.entries):
            sizes = self.switching.n_intentions, self.switching.sizes[f]
            own = {name: self.switching.resized(name, best[name][f], *sizes).cpu() for name in self.parameters}
            entry.start.switching.load_state({name: value.numpy() for name, value in own.items()})
            entry.start.snapshot = entry.start.parameters()
