"""Weighted-count policies of many fits at once: `rewards.tabular` on a leading axis.

Tables are (F, C + 1, A, K), padded to the largest number of contexts and of intentions; the last row takes whatever a
fit does not have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from prism_irl.errors import InputError
from prism_irl.rewards.tabular import TabularPolicies


class StackedPolicies:
    """Policies of F fits.

    Parameters
    ----------
    tables : the policies of each fit, at their first point
    """

    def __init__(self, tables: Sequence[TabularPolicies], device: torch.device) -> None:
        self.tables = tables
        F, A = len(tables), tables[0].n_actions
        K = max(table.n_intentions for table in tables)
        C = max(len(table.valid) for table in tables)
        self.n_intentions, self.rows = K, (C + 1) * A
        policies, counts = (np.zeros((F, C + 1, A, K)) for _ in range(2))
        valid = np.zeros((F, C + 1, A, 1), bool)
        policies[:] = 1.0 / A
        for f, table in enumerate(tables):
            n = table.valid.shape[0]
            valid[f, :n, :, 0] = table.valid
            policies[f, :n, :, : table.n_intentions] = table.policies.transpose(1, 2, 0)
            counts[f, :n, :, : table.n_intentions] = table.counts.transpose(1, 2, 0)
        self.policies, self.counts = (torch.from_numpy(values).to(device) for values in (policies, counts))
        self.valid = torch.from_numpy(valid).to(device)
        self.uniform = self.valid / self.valid.sum(2, keepdim=True).clamp_min(1)
        self.present = torch.tensor(
            [[k < table.n_intentions for k in range(K)] for table in tables], device=device
        ).view(F, 1, 1, K)
        self.smoothing, self.backoff = (
            torch.tensor([getattr(table, name) for table in tables], device=device, dtype=torch.float64).view(
                F, 1, 1, 1
            )
            for name in ("smoothing", "backoff")
        )
        self.flat = torch.tensor([not table.contexts.parents for table in tables], device=device)
        self.levels = self._levels(C, device)
        self.n_states = tables[0].contexts.starts[1]
        self.offset = (torch.arange(F, device=device) * self.rows).view(F, 1, 1)
        self.log_policies = torch.empty_like(self.policies).reshape(-1, K)
        self.accept()

    def _levels(self, dump: int, device: torch.device) -> list[tuple[Tensor, Tensor]]:
        """Rows of each level of the context tree and their parents, (F, n), padded with the last row."""
        levels = []
        for level in range(1, max(len(table.contexts.starts) for table in self.tables) - 1):
            rows, parents = [], []
            for table in self.tables:
                starts, trees = table.contexts.starts, table.contexts.parents
                has = level <= len(trees)
                rows.append(np.arange(starts[level], starts[level + 1]) if has else np.empty(0, np.int64))
                parents.append(trees[level - 1] if has else np.empty(0, np.int64))
            width = max(len(r) for r in rows)
            padded = [
                torch.from_numpy(np.stack([np.pad(r, (0, width - len(r)), constant_values=dump) for r in values]))
                .long()
                .to(device)
                for values in (rows, parents)
            ]
            levels.append((padded[0], padded[1]))
        return levels

    def accept(self) -> None:
        """Take the present policies as those that steps are scored by."""
        self.log_policies.copy_(self.policies.clamp_min(1e-300).log().reshape(-1, self.n_intentions))

    def log_emission(self, pairs: Tensor) -> Tensor:
        """Log π_k(a_t | c_t) at (F, B, T) rows `context · A + action`, (F, B, T, K)."""
        index = (self.offset + pairs).reshape(-1)
        return self.log_policies.index_select(0, index).reshape(*pairs.shape, -1)

    def clear(self) -> None:
        """Forget the counts, before a pass over the data."""
        self.counts.zero_()

    def count(self, pairs: Tensor, weights: Tensor) -> None:
        """Add responsibilities (F, B, T, K), zero at padding, to the counts."""
        index = (self.offset + pairs).reshape(-1)
        self.counts.view(-1, self.n_intentions).index_add_(0, index, weights.reshape(-1, self.n_intentions))

    def maximise(self) -> None:
        """Policies from the counts, with back-off from short to long contexts."""

        def expand(index: Tensor) -> Tensor:
            return index[..., None, None].expand(-1, -1, *self.counts.shape[2:])

        self.counts[:, -1] = 0.0
        for rows, parents in reversed(self.levels):  # a step counts for every suffix of its context
            self.counts.scatter_add_(1, expand(parents), self.counts.gather(1, expand(rows)))
        states = slice(0, self.n_states)
        valid, uniform = self.valid[:, states], self.uniform[:, states]
        prior = self.smoothing * valid
        counts = self.counts[:, states]
        shared = _normalise(counts.sum(-1, keepdim=True) + prior, uniform)
        strength = torch.where(self.flat.view(-1, 1, 1, 1), 0.0, self.backoff)
        self.policies[:, states] = _normalise(counts + prior + strength * shared, uniform)
        for rows, parents in self.levels:
            index, above = expand(rows), expand(parents)
            own = self.counts.gather(1, index) + self.backoff * self.policies.gather(1, above)
            plain = self.uniform.expand_as(self.policies).gather(1, index)
            self.policies.scatter_(1, index, _normalise(own, plain))
        self.accept()

    def log_prior(self) -> Tensor:
        """What the pseudo-counts add to the objective of each fit, (F,); zero for longer histories."""
        seen = self.valid & self.present
        logs = torch.where(seen, self.policies.clamp_min(1e-300).log(), 0.0).sum((1, 2, 3))
        return torch.where(self.flat, self.smoothing.view(-1) * logs, 0.0)

    def write_back(self, values: dict[str, Any]) -> None:
        """Hand each fit its table; ``values`` holds stacked policies and counts."""
        if not torch.isfinite(values["policies"]).all():
            raise InputError("The policies of a stacked fit are not finite; fit on the CPU to see which one.")
        for f, table in enumerate(self.tables):
            table.load_state(self.state_of(f, values))

    def state_of(self, f: int, values: dict[str, Any] | None = None) -> dict[str, np.ndarray]:
        """State of one fit's table, as it is now or of other stacked ``values``."""
        table, found = self.tables[f], values or {"policies": self.policies, "counts": self.counts}
        n, K = len(table.valid), table.n_intentions
        return {
            name: np.ascontiguousarray(found[name][f, :n, :, :K].permute(2, 0, 1).cpu().numpy())
            for name in ("policies", "counts")
        }


def _normalise(counts: Tensor, otherwise: Tensor) -> Tensor:
    total = counts.sum(2, keepdim=True)
    return torch.where(total > 0, counts / torch.where(total > 0, total, 1.0), otherwise)
