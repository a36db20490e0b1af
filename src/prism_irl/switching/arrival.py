"""Goals that end: an intention ends with some probability when its place is reached, and hardly ever elsewhere.

    P(z_{t+1}=k | z_t=j, s_t, s_{t+1}) = (1 − l_j) [j=k] + l_j B_jk

where l_j is one of four rates, as the agent is away from the place of j, enters it, stays there or leaves it
(`prism_irl.renewal`). All rates are shared by the goals, so that rare goals have them, too; the next goal depends on
the one that ended as far as there is evidence for it: B_j shrinks towards the weights of all. Where left-out
trajectories ask for it, places also remind of intentions, whatever the present one. Both passes are compiled; the
M-step is in closed form.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from prism_irl import checked
from prism_irl.arrays import FloatArray, IntArray
from prism_irl.data.batching import Batch, Prepared, Stats
from prism_irl.devices import as_array
from prism_irl.renewal import (
    ENTER,
    EXIT,
    ORDER_PRIOR,
    QUIT,
    STAY,
    Renewal,
    beliefs,
    leaving_rates,
    left_from,
    reminding,
)
from prism_irl.switching.base import Posterior
from prism_irl.switching.chain import FLOOR, ArrayChain, Previous

if TYPE_CHECKING:
    from torch import Tensor

    from prism_irl.rewards.base import Fit
    from prism_irl.switching.markov import MarkovChain
    from prism_irl.switching.networks import Carry


class ArrivalChain(ArrayChain):
    """Intentions that end on arrival.

    Attributes
    ----------
    begin : (K,), P(z_1=k)
    onward : (K, K), the goal after each goal
    rates : (K, 4), probabilities of ending: elsewhere, on entering the place, while staying there, on leaving it; all
        goals share theirs, and an intention without a place has its own
    ends : (K, S), ones where each intention is reached
    place : (S,), the place of every state
    reminders : (S, K), of place g in row g: probabilities that it brings each intention about; zeros where none does
    """

    exact = True
    distributions = ("initial", "onward")

    def __init__(self, n_intentions: int, place: npt.NDArray[np.integer[Any]]) -> None:
        self.n_intentions = n_intentions
        self.begin: FloatArray = np.full(n_intentions, 1.0 / n_intentions)
        self.onward: FloatArray = np.full((n_intentions, n_intentions), 1.0 / n_intentions)
        self.rates: FloatArray = np.tile([0.05, 0.5, 0.5, 0.5], (n_intentions, 1))
        self.ends: FloatArray = np.zeros((n_intentions, len(place)))
        self.place: IntArray = place.astype(np.int64)
        self.reminders: FloatArray = np.zeros((len(place), n_intentions))

    # -- parameters ------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Initial distribution, next goals, rates and places."""
        return {
            "initial": self.begin,
            "onward": self.onward,
            "rates": self.rates,
            "ends": self.ends,
            "reminders": self.reminders,
            "place": self.place,
        }

    def load_state(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Undo `state`."""
        super().load_state(state)
        checked.ids("places", self.place, len(self.place))

    def take_over(self, chain: MarkovChain) -> None:
        """Begin with the first intentions of a Markov chain, and with its order of them."""
        others = chain.moves * (1.0 - np.eye(self.n_intentions)) + FLOOR
        self.begin[...] = chain.begin
        self.onward[...] = others / others.sum(-1, keepdims=True)

    def first_guess(self, fit: Fit) -> None:
        """Take over the chain that was found; intentions end at the states where the rewards say so."""
        super().first_guess(fit)
        if fit.chain is not None and fit.rewards.ends_at is not None:
            self.ends[...] = fit.rewards.ends_at
        if fit.rewards.reminders is not None:
            self.reminders[: len(fit.rewards.reminders)] = fit.rewards.reminders

    # -- beliefs ---------------------------------------------------------------------------------------------------

    @property
    def _renewal(self) -> Renewal:
        reminders = self.reminders if self.reminders.any() else None
        return Renewal(self.begin, self.onward, self.rates, reminders)

    def _at(self, data: Prepared) -> IntArray:
        """The intention whose place each step is at, (n,), −1 where it is nobody's."""
        owner = np.where(self.ends.any(axis=0), self.ends.argmax(axis=0), -1)
        known = np.append(owner, -1)  # a state without a name is no place
        found: IntArray = known[np.minimum(data.demos.states.astype(np.int64), len(owner))]
        return found

    def _places(self, data: Prepared) -> IntArray:
        """The place of each step, (n,); a state without a name is taken for the last one."""
        found: IntArray = self.place[np.minimum(data.demos.states.astype(np.int64), len(self.place) - 1)]
        return found

    def _pass(self, data: Prepared, log_emission: Any, *, online: bool) -> Any:
        logs = as_array(log_emission)
        top = logs.max(axis=1)
        top[~np.isfinite(top)] = 0.0
        emission = np.exp(logs - top[:, None])
        found = beliefs(self._renewal, emission, self._at(data), data.demos.offsets, self._places(data), online=online)
        return found._replace(log_likelihood=found.log_likelihood + top)

    def expectation(self, data: Prepared, log_emission: Any, *, online: bool = True) -> Posterior:
        """Both passes over ragged data as it lies."""
        found = self._pass(data, log_emission, online=online)
        stays = np.diag(found.stayed.sum(axis=1))
        return Posterior(
            found.counts,
            found.predicted,
            found.filtered,
            found.log_likelihood,
            transitions=found.onward + stays,
            hidden=Stats(
                first=found.first,
                onward=found.onward,
                left=found.left,
                stayed=found.stayed,
                reminded=found.reminded,
                visits=left_from(self._places(data), data.demos.offsets, len(self.reminders)),
            ),
        )

    def statistics(self, data: Prepared, posterior: Posterior) -> Stats:
        """Expected first goals (K,), next goals (K, K) and reminders (S, K); leavings and stays (K, 4)."""
        assert posterior.hidden is not None
        return posterior.hidden

    def update(self, stats: Stats) -> None:
        """Rates, first goals, next goals and reminders from expected counts."""
        self.rates[...] = leaving_rates(stats["left"], stats["stayed"], self.ends.sum(axis=1) == 0)
        draws = stats["onward"].sum(axis=0) + stats["first"] + FLOOR
        weights = draws / draws.sum()
        first = stats["first"] + ORDER_PRIOR * weights
        self.begin[...] = first / first.sum()
        after = stats["onward"] + ORDER_PRIOR * weights
        self.onward[...] = after / after.sum(-1, keepdims=True)
        if self.reminders.any():
            self.reminders[...] = reminding(stats["reminded"], stats["visits"], weights)

    # -- padded batches and streams --------------------------------------------------------------------------------

    def log_initial(self) -> Tensor:
        """Log of the initial distribution."""
        import torch

        return torch.from_numpy(self.begin).clamp_min(FLOOR).log()

    def kernels(self, before: IntArray, now: IntArray) -> FloatArray:
        """Kernel between states (…,) and their successors, (…, K, K)."""
        before, now = (np.minimum(states, self.ends.shape[1] - 1) for states in (before, now))
        was, is_there = (np.moveaxis(self.ends[:, states], 0, -1) > 0 for states in (before, now))
        kind = np.where(was, np.where(is_there, STAY, EXIT), np.where(is_there, ENTER, QUIT))
        rates = self.rates[np.arange(self.n_intentions), kind]
        kernel: FloatArray = rates[..., None] * self.onward + (1.0 - rates)[..., None] * np.eye(self.n_intentions)
        reminders = self.reminders[self.place[before]][..., None, :]
        kernel = (1.0 - reminders.sum(-1, keepdims=True)) * kernel + reminders
        return np.maximum(kernel, FLOOR)

    def log_kernel(self, batch: Batch) -> Tensor:
        """Kernel into step t, from the states of both steps, (B, T, K, K)."""
        import torch

        states = batch.states.cpu().numpy()
        before = np.concatenate([states[:, :1], states[:, :-1]], axis=1)
        return torch.from_numpy(np.log(self.kernels(before, states))).to(batch.mask.device)

    def stream_kernel(
        self, states: Tensor, previous: Previous | None, observations: Tensor | None, carry: Carry
    ) -> tuple[Tensor, Carry]:
        """The same for one step of a stream."""
        import torch

        now = states.cpu().numpy()
        before = now if previous is None else previous.states.cpu().numpy()
        return torch.from_numpy(np.log(self.kernels(before, now))).to(states.device), carry
