"""Behaviour cloning with a recurrent network: the predictive ceiling that intention models are held against.

A causal LSTM reads (s_t, a_{t-1}) and everything before and returns log p(a | s_≤t, a_<t) over the valid actions.
It explains nothing: its score says how predictable the behaviour is, and so how much an explanation leaves out.
"""

from __future__ import annotations

import copy
import math
import zlib
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from prism_irl import storage
from prism_irl.arrays import BoolArray, FloatArray
from prism_irl.data.batching import Batch, Prepared, scatter
from prism_irl.data.contexts import Contexts
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.devices import available_device, resolve_device
from prism_irl.halves import check_numbers
from prism_irl.mdp import MDP
from prism_irl.models.base import IntentionModel, validation_split, with_valid_actions_of
from prism_irl.switching.networks import HistoryNetwork

MIN_EPOCHS, MIN_UPDATES = 40, 400
"""What ``max_epochs=None`` trains for: small data makes few batches and needs more passes for as many updates."""
CLIP = 1.0


class CloningNetwork(HistoryNetwork):
    """`HistoryNetwork` whose outputs are log-probabilities of the valid actions (S, A).

    Dropout is applied to the tokens and to the summaries of the past.
    """

    valid: Tensor

    def __init__(
        self,
        n_states: int,
        n_actions: int,
        n_observations: int,
        valid_actions: BoolArray | None,
        *,
        embedding: int,
        hidden: int,
        dropout: float,
    ) -> None:
        sizes: dict[str, Any] = {"n_states": n_states, "n_actions": n_actions, "n_observations": n_observations}
        sizes |= {"n_outputs": n_actions, "embedding": embedding, "hidden": hidden}
        super().__init__("lstm", **sizes, observe="past", token_scale=0.5)
        self.dropout = nn.Dropout(dropout)
        valid = torch.ones(n_states + 1, n_actions, dtype=torch.bool)  # one row more: states that the fit never saw
        if valid_actions is not None:
            valid[:n_states] = torch.from_numpy(np.array(valid_actions))
        self.register_buffer("valid", valid)

    def forward(self, batch: Batch) -> Tensor:
        """Log p(a | s_≤t, a_<t), (B, T, A), in double precision."""
        past = self.core(self.dropout(self.embed(batch)), batch.mask)
        logits: Tensor = self.head(self.dropout(past))
        return logits.double().masked_fill(~self.valid[batch.states], -math.inf).log_softmax(-1)


@dataclass(eq=False, repr=False)
class BehaviourCloning(IntentionModel):
    """LSTM trained on the next action, with dropout, an annealed learning rate and the best epoch kept.

    Parameters
    ----------
    hidden, embedding : sizes of the LSTM and of its tokens E_s(s_t) + E_a(a_{t-1})
    dropout : without it the network knows the training trajectories by heart after a few passes
    learning_rate : peak of AdamW's learning rate, after a short warm-up and before a cosine decay to zero
    batch_size : trajectories per minibatch
    max_epochs : passes over the data; None takes 40, or more on small data until there were 400 updates
    patience : epochs without a rise of the validation likelihood before stopping; None runs all of them, as the decay
        of the learning rate brings its gains late; the best epoch is kept either way
    validation_fraction : share of the training trajectories that chooses the epoch; without it the last one is kept

    Attributes
    ----------
    best_epoch_ : int, epoch that was kept, counted from 1
    monitor_ : list of dict, epoch and train and validation log-likelihood per step (train: with dropout)
    """

    hidden: int = 64
    embedding: int = 64
    dropout: float = 0.3
    learning_rate: float = 5e-3
    weight_decay: float = 0.01
    batch_size: int = 16
    max_epochs: int | None = None
    patience: int | None = None
    validation_fraction: float = 0.1
    device: str = "auto"
    seed: int = 0

    def fit(self, demos: Demonstrations, mdp: MDP | None = None) -> Self:
        """Train on most trajectories, choose the epoch on the others; ``mdp`` is read for its valid actions only."""
        self._check_parameters()
        demos = with_valid_actions_of(mdp, demos)
        self.device_ = resolve_device(self.device)
        self.n_states_, self.n_actions_ = demos.n_states, demos.n_actions
        self.n_observations_ = 0 if demos.observations is None else demos.observations.shape[1]
        kept, held_out = validation_split(demos, self.validation_fraction, self.seed)
        train, validation = self._prepare(kept), None if held_out is None else self._prepare(held_out)
        devices = [] if self.device_ == "cpu" else [self.device_]
        with torch.random.fork_rng(devices):  # dropout draws from the global generator; leave it as it was
            torch.manual_seed(zlib.crc32(f"{self.seed} cloning".encode()))
            self.network_ = self._build(demos.valid_actions).to(self.device_)
            self._train(train, validation)
        self.network_.eval()
        return self

    def _build(self, valid_actions: BoolArray | None) -> CloningNetwork:
        sizes = (self.n_states_, self.n_actions_, self.n_observations_)
        return CloningNetwork(*sizes, valid_actions, embedding=self.embedding, hidden=self.hidden, dropout=self.dropout)

    def _prepare(self, demos: Demonstrations) -> Prepared:
        return Prepared.of(demos, Contexts(self.n_states_), self.device_)

    def _train(self, train: Prepared, validation: Prepared | None) -> None:
        per_epoch = math.ceil(len(train.demos) / self.batch_size)
        automatic = max(MIN_EPOCHS, math.ceil(MIN_UPDATES / per_epoch))
        epochs = automatic if self.max_epochs is None else self.max_epochs
        adam = torch.optim.AdamW(self.network_.parameters(), lr=self.learning_rate, weight_decay=self.weight_decay)
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            adam, self.learning_rate, total_steps=epochs * per_epoch, pct_start=0.05, cycle_momentum=False
        )
        generator = np.random.default_rng([self.seed, 1])
        self.monitor_: list[dict[str, float]] = []
        best, parameters = -math.inf, self.network_.state_dict()
        for epoch in range(1, epochs + 1):
            row = {"epoch": float(epoch), "train": self._epoch(train, adam, schedule, generator)}
            if validation is not None:
                self.network_.eval()
                with torch.no_grad():
                    total = sum(float(_taken(self.network_(batch), batch).sum()) for batch in validation.batches)
                row["validation"] = total / validation.demos.n_steps
            self.monitor_.append(row)
            if validation is None or row["validation"] > best:
                best, self.best_epoch_ = row.get("validation", best), epoch
                parameters = copy.deepcopy(self.network_.state_dict())
            elif self.patience is not None and epoch - self.best_epoch_ >= self.patience:
                break
        self.network_.load_state_dict(parameters)

    def _epoch(
        self,
        train: Prepared,
        adam: torch.optim.Optimizer,
        schedule: torch.optim.lr_scheduler.LRScheduler,
        generator: np.random.Generator,
    ) -> float:
        """One pass over the training data; return its mean log-likelihood."""
        self.network_.train()
        total = 0.0
        for batch in train.shuffled(self.batch_size, generator):
            assert batch is not None  # all data is here, so that no minibatch is empty
            likelihood = _taken(self.network_(batch), batch)
            adam.zero_grad(set_to_none=True)
            (-likelihood.mean()).backward()
            nn.utils.clip_grad_norm_(self.network_.parameters(), CLIP)
            adam.step()
            schedule.step()
            total += float(likelihood.detach().sum())
        return total / train.demos.n_steps

    def _check_parameters(self) -> None:
        given = [name for name in ("max_epochs", "patience") if getattr(self, name) is not None]
        check_numbers(self, dict.fromkeys(("hidden", "embedding", "batch_size", *given), 1), integer=True)
        check_numbers(self, {"dropout": 0, "validation_fraction": 0}, below=1)
        check_numbers(self, {"learning_rate": 0}, above=True)
        check_numbers(self, {"weight_decay": 0})

    @torch.no_grad()
    def action_proba(self, demos: Demonstrations) -> FloatArray:
        """p(a | s_≤t, a_<t), (n, A)."""
        demos = self._check_new(demos)
        proba = torch.empty(demos.n_steps, self.n_actions_, dtype=torch.float64)
        for batch in self._prepare(demos).batches:
            scatter(batch, self.network_(batch).exp(), proba)
        return proba.numpy()

    def _state(self) -> dict[str, Any]:
        """Parameters of the network, valid actions among them."""
        return storage.prefixed("network", self.network_.state_dict())

    def _info(self) -> dict[str, Any]:
        """Sizes and the course of training."""
        sizes = {**self._sizes(), "n_observations": self.n_observations_}
        return {**sizes, "best_epoch": self.best_epoch_, "history": self.monitor_}

    def _load_state(self, tensors: dict[str, Any], info: dict[str, Any]) -> None:
        """Build the network, then fill it."""
        self.n_states_, self.n_actions_ = int(info["n_states"]), int(info["n_actions"])
        self.n_observations_ = int(info["n_observations"])
        self.best_epoch_, self.monitor_ = int(info["best_epoch"]), info["history"]
        self.device_ = available_device(self.device)
        with torch.random.fork_rng([]):  # the first values are overwritten, so drawing them must leave no trace
            self.network_ = self._build(None)
        self.network_.load_state_dict(storage.part("network", tensors))
        self.network_.to(self.device_).eval()


def _taken(log_proba: Tensor, batch: Batch) -> Tensor:
    """Log-probability of the action taken at every real step, (m,)."""
    taken = log_proba.gather(-1, batch.actions.unsqueeze(-1)).reshape(-1)
    return taken.index_select(0, batch.real)
