"""Goals that end: an intention ends with some probability when its place is reached, and hardly ever elsewhere.

    P(z_{t+1}=k | z_t=j, s_t, s_{t+1}) = (1 − l_j) [j=k] + l_j B_jk

where l_j is one of four rates, as the agent is away from the place of j, enters it, stays there or leaves it
(`prism_irl.renewal`). All rates are shared by the goals, so that rare goals have them, too; the next goal depends on
the one that ended, and on the one before that, as far as there is evidence for it: B_ij shrinks towards B_j, and B_j
towards the weights of all. Needs that grow ask for both, since what was just served comes last. Where left-out
trajectories ask for it, places also remind of intentions, whatever the present one. Both passes are compiled; the
M-step is in closed form. An intention whose trips go to any of many places is as many hidden ones, each drawn as often
as the others (`ArrivalChain.expanded`), whose beliefs are summed.
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
    lasting,
    leaving_rates,
    left_from,
    reminding,
)
from prism_irl.switching.base import BatchPosterior, Posterior, Stream
from prism_irl.switching.chain import FLOOR, ArrayChain

if TYPE_CHECKING:
    from torch import Tensor

    from prism_irl.rewards.base import Fit
    from prism_irl.switching.markov import MarkovChain


MOST_IN_TURN = 6
"""Intentions at most whose order reaches two back: the passes go over pairs of them."""
TURN_PRIORS = 5.0, 20.0, 80.0, 1e6
"""Draws that the order after one goal may be worth in that after two; the likeliest is taken."""


class ArrivalChain(ArrayChain):
    """Intentions that end on arrival.

    Attributes
    ----------
    begin : (K,), P(z_1=k)
    onward : (K, K), the goal after each goal
    after : (K, K, K), the goal after each two goals; (0, K, K) where only the last one counts
    rates : (K, 4), probabilities of ending: elsewhere, on entering the place, while staying there, on leaving it; all
        goals share theirs, and an intention without a place has its own
    ends : (G, S), ones where each intention is reached, or each hidden one; G = K unless one has several places
    owner : (G,), the intention that each hidden one belongs to; with ``after`` the hidden ones are pairs of the
        intention before and the present one
    tilt : (G, S, A), policies of hidden ones over those of their intentions; one number where there are none
    place : (S,), the place of every state
    last : (2,), how often a step is the last of its trajectory, away from the place of the intention and at it
    reminders : (S, K), of place g in row g: probabilities that it brings each intention about; zeros where none does
    """

    exact = True
    distributions = ("initial", "onward")

    def __init__(self, n_intentions: int, place: npt.NDArray[np.integer[Any]]) -> None:
        self.n_intentions = n_intentions
        self.begin: FloatArray = np.full(n_intentions, 1.0 / n_intentions)
        self.onward: FloatArray = np.full((n_intentions, n_intentions), 1.0 / n_intentions)
        self.after: FloatArray = np.zeros((0, n_intentions, n_intentions))
        self.rates: FloatArray = np.tile([0.05, 0.5, 0.5, 0.5], (n_intentions, 1))
        self.ends: FloatArray = np.zeros((n_intentions, len(place)))
        self.owner: IntArray = np.arange(n_intentions)
        self.tilt: FloatArray = np.ones((1, 1, 1))
        self.place: IntArray = place.astype(np.int64)
        self.reminders: FloatArray = np.zeros((len(place), n_intentions))
        self.last: FloatArray = np.full(2, 0.5)

    # -- parameters ------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Initial distribution, next goals, rates and places."""
        return {
            "initial": self.begin,
            "onward": self.onward,
            "after": self.after,
            "rates": self.rates,
            "ends": self.ends,
            "reminders": self.reminders,
            "place": self.place,
            "owner": self.owner,
            "tilt": self.tilt,
            "last": self.last,
        }

    def load_state(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Undo `state`."""
        own = self.state()
        earlier = {"owner": self.owner, "tilt": self.tilt, "last": self.last, "after": self.after[:0]}
        state = earlier | dict(state)  # which earlier versions lack
        G, S = np.shape(state["owner"])[:1], len(self.place)
        if own["owner"].shape != G:
            self.owner, self.ends = np.zeros(G, np.int64), np.zeros((*G, S))
        if own["after"].shape != np.shape(state["after"]):
            self.after = np.full((self.n_intentions,) * 3, 1.0 / self.n_intentions)[: len(state["after"])]
        if own["tilt"].shape != np.shape(state["tilt"]) and np.shape(state["tilt"])[:2] in ((1, 1), (*G, S)):
            self.tilt = np.ones(np.shape(state["tilt"]))
        super().load_state(state)
        checked.ids("places", self.place, len(self.place))
        checked.ids("owners", self.owner, self.n_intentions)
        if len(self.after):
            checked.distributions("after", self.after)

    def take_over(self, chain: MarkovChain) -> None:
        """Begin with the first intentions of a Markov chain, and with its order of them."""
        others = chain.moves * (1.0 - np.eye(self.n_intentions)) + FLOOR
        self.begin[...] = chain.begin
        self.onward[...] = others / others.sum(-1, keepdims=True)

    def first_guess(self, fit: Fit) -> None:
        """Take over the chain that was found; intentions end at the states where the rewards say so."""
        super().first_guess(fit)
        if fit.chain is None or (ends := fit.rewards.ends) is None:
            return
        self.ends = ends.at
        if ends.owner is not None and ends.tilt is not None:
            self.owner, self.tilt = ends.owner, ends.tilt
        elif 2 < self.n_intentions <= MOST_IN_TURN:
            self.after = np.tile(self.onward.mean(axis=0), (self.n_intentions, self.n_intentions, 1))
            self.owner = np.tile(np.arange(self.n_intentions), self.n_intentions)
            self.ends = self.ends[self.owner]
        if ends.reminders is not None:
            self.reminders[: len(ends.reminders)] = ends.reminders

    # -- what is behind intentions ---------------------------------------------------------------------------------

    def expanded(self) -> ArrivalChain:
        """The same chain with hidden intentions as its own."""
        chain, owner = ArrivalChain(len(self.owner), self.place), self.owner
        share = 1.0 / np.bincount(owner)[owner]
        chain.begin, chain.onward = self.begin[owner] * share, self.onward[owner][:, owner] * share
        if len(self.after):
            pairs = np.arange(len(owner)).reshape(self.n_intentions, -1)
            chain.onward = np.zeros_like(chain.onward)
            for now, found in enumerate(np.swapaxes(self.after, 0, 1)):
                chain.onward[np.ix_(pairs[:, now], pairs[now])] = found
        chain.rates, chain.ends, chain.reminders = self.rates[owner], self.ends, self.reminders[:, owner] * share
        chain.last = self.last
        return chain.to(self.device)

    def _tilted(self, log_emission: Any, states: Any, actions: Any) -> Any:
        """Emissions (…, G) of hidden intentions from those of their own (…, K) at states and actions (…)."""
        if self.tilt.size == 1:
            return log_emission[..., self.owner]
        S = self.tilt.shape[1] - 1
        known = np.minimum(as_array(states), S), as_array(actions)
        with np.errstate(divide="ignore"):
            more = np.moveaxis(np.log(self.tilt[:, known[0], known[1]]), 0, -1)
        if isinstance(log_emission, np.ndarray):
            return log_emission[..., self.owner] + more
        import torch

        return log_emission[..., self.owner] + torch.from_numpy(more).to(log_emission)

    @property
    def reached(self) -> FloatArray:
        """States at which each intention is reached, (K, S)."""
        return np.minimum(self._summed(self.ends, 0), 1.0) if len(self.owner) > self.n_intentions else self.ends

    def _summed(self, values: Any, axis: int = -1) -> Any:
        """Of hidden intentions along an axis, those of their own."""
        one = np.eye(self.n_intentions)[self.owner]
        if not isinstance(values, np.ndarray):
            import torch

            return values @ torch.from_numpy(one).to(values)
        return np.moveaxis(np.tensordot(values, one, (axis, 0)), -1, axis)

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

    @property
    def _targets(self) -> IntArray:
        """What `_at` calls the place of each intention, (K,)."""
        first = self.ends.argmax(axis=0)[self.ends.argmax(axis=1)]
        return np.where(self.ends.any(axis=1), first, np.arange(len(self.ends)))

    def _places(self, data: Prepared) -> IntArray:
        """The place of each step, (n,); a state without a name is taken for the last one."""
        found: IntArray = self.place[np.minimum(data.demos.states.astype(np.int64), len(self.place) - 1)]
        return found

    def _pass(self, data: Prepared, log_emission: Any, *, online: bool) -> Any:
        logs = as_array(log_emission)
        top = logs.max(axis=1)
        top[~np.isfinite(top)] = 0.0
        emission = np.exp(logs - top[:, None])
        steps = self._at(data), data.demos.offsets, self._places(data)
        found = beliefs(self._renewal, emission, *steps, online=online, targets=self._targets)
        found = found._replace(log_likelihood=found.log_likelihood + top)
        if self.last[0] == self.last[1]:
            return found
        # Where trajectories end is known to who looks back, and no part of what is predicted.
        ends = self.last[(steps[0][:, None] == self._targets).astype(np.int64)]
        closes = np.zeros(len(emission), bool)
        closes[data.demos.offsets[1:] - 1] = True
        emission *= np.where(closes[:, None], ends, 1.0 - ends)
        known = "log_likelihood", "filtered", "predicted"
        back = beliefs(self._renewal, emission, *steps, online=False, targets=self._targets)
        return back._replace(**{name: getattr(found, name) for name in known})

    def expectation(self, data: Prepared, log_emission: Any, *, online: bool = True) -> Posterior:
        """Both passes over ragged data as it lies."""
        if len(self.owner) > self.n_intentions:
            logs = self._tilted(as_array(log_emission), data.demos.states, data.demos.actions)
            hidden = self.expanded().expectation(data, logs, online=online)
            moves, stats = hidden.transitions, hidden.hidden
            assert moves is not None
            assert stats is not None
            known = {"visits": stats["visits"], "closed": stats["closed"], "reminded": self._summed(stats["reminded"])}
            known |= {name: self._summed(stats[name], 0) for name in ("first", "left", "stayed")}
            known["onward"] = self._summed(self._summed(stats["onward"]), 0)
            if len(self.after):
                pairs = stats["onward"].reshape((self.n_intentions,) * 4)
                known["after"] = np.einsum("ijjk->ijk", pairs)
            pairs = self._summed(self._summed(moves), 0)
            own = (self._summed(hidden.responsibilities), self._summed(hidden.predicted), self._summed(hidden.filtered))
            return Posterior(*own, hidden.log_likelihood, pairs, Stats(**known))
        found = self._pass(data, log_emission, online=online)
        stays = np.diag(found.stayed.sum(axis=1))
        here = self._at(data)
        at = (found.counts * (here[:, None] == self._targets)).sum(axis=1)
        closed = np.array([[1.0 - part.mean(), part.mean()] for part in (at[data.demos.offsets[1:] - 1], at)])
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
                closed=closed * [[len(data.demos)], [len(at)]],
                visits=left_from(self._places(data), data.demos.offsets, len(self.reminders)),
            ),
        )

    def statistics(self, data: Prepared, posterior: Posterior) -> Stats:
        """Expected first goals (K,), next goals (K, K) and reminders (S, K); leavings and stays (K, 4)."""
        assert posterior.hidden is not None
        return posterior.hidden

    def update(self, stats: Stats) -> None:
        """Rates, first goals, next goals, reminders and last steps from expected counts."""
        self.last[...] = lasting(stats["closed"])
        self.rates[...] = leaving_rates(stats["left"], stats["stayed"], self.reached.sum(axis=1) == 0)
        draws = stats["onward"].sum(axis=0) + stats["first"] + FLOOR
        weights = draws / draws.sum()
        first = stats["first"] + ORDER_PRIOR * weights
        self.begin[...] = first / first.sum()
        after = stats["onward"] + ORDER_PRIOR * weights
        self.onward[...] = after / after.sum(-1, keepdims=True)
        if len(self.after):
            self.after[...] = max(
                (in_turn(stats["after"], self.onward, m) for m in TURN_PRIORS), key=lambda one: one[0]
            )[1]
        if self.reminders.any():
            self.reminders[...] = reminding(stats["reminded"], stats["visits"], weights)

    # -- padded batches and streams --------------------------------------------------------------------------------

    def expectation_of(self, batch: Batch, log_emission: Tensor, *, pairwise: bool = False) -> BatchPosterior:
        """Forward–backward, over hidden intentions where there are some."""
        if len(self.owner) == self.n_intentions:
            return super().expectation_of(batch, log_emission, pairwise=pairwise)
        logs = self._tilted(log_emission, batch.states, batch.actions)
        found = self.expanded().expectation_of(batch, logs)
        smoothed, predicted, filtered = (self._summed(part) for part in found[:3])
        return BatchPosterior(smoothed, predicted, filtered, found.log_likelihood)

    def decode_batch(self, batch: Batch, log_emission: Tensor) -> Tensor:
        """Most probable path of one batch, (B, T)."""
        if len(self.owner) == self.n_intentions:
            return super().decode_batch(batch, log_emission)
        import torch

        logs = self._tilted(log_emission, batch.states, batch.actions)
        return torch.from_numpy(self.owner)[self.expanded().decode_batch(batch, logs)]

    def action_proba_of(self, batch: Batch, log_emission: Tensor, policy: Tensor) -> Tensor:
        """Predictive distribution of one batch, (B, T, A)."""
        if len(self.owner) == self.n_intentions:
            return super().action_proba_of(batch, log_emission, policy)
        logs = self._tilted(log_emission, batch.states, batch.actions)
        return self.expanded().action_proba_of(batch, logs, self.behind(policy, batch.states))

    def behind(self, policies: Any, states: Any) -> Any:
        """Policies (…, G, A) of hidden intentions from those of their own (…, K, A) at states (…)."""
        tilt = np.moveaxis(self.tilt[:, np.minimum(as_array(states), self.tilt.shape[1] - 1)], 0, -2)
        found = policies[..., self.owner, :] * (tilt if isinstance(policies, np.ndarray) else policies.new_tensor(tilt))
        return found / found.sum(-1)[..., None]

    def stream(self, n_trajectories: int = 1) -> Stream:
        """Streaming forward pass, over hidden intentions where there are some."""
        plain = len(self.owner) == self.n_intentions
        return super().stream(n_trajectories) if plain else HiddenStream(self, n_trajectories)

    def log_initial(self) -> Tensor:
        """Log of the initial distribution."""
        import torch

        return torch.from_numpy(self.begin).clamp_min(FLOOR).log()

    def kernels(self, before: IntArray, now: IntArray) -> FloatArray:
        """Kernel between states (…,) and their successors, (…, K, K)."""
        before, now = (np.minimum(states, self.ends.shape[1] - 1) for states in (before, now))
        was, is_there = (np.moveaxis(self.reached[:, states], 0, -1) > 0 for states in (before, now))
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


def in_turn(draws: FloatArray, onward: FloatArray, strength: float) -> tuple[float, FloatArray]:
    """The order after two goals (K, K, K) from draws (K, K, K), shrunk to that after one (K, K); its log evidence."""
    from scipy.special import gammaln

    prior = strength * onward
    found, total = draws + prior, draws.sum(-1) + strength
    evidence = (gammaln(found) - gammaln(prior)).sum() - (gammaln(total) - gammaln(strength)).sum()
    return float(evidence), found / total[..., None]


class HiddenStream(Stream):
    """The forward pass over hidden intentions, one step at a time."""

    def __init__(self, chain: ArrivalChain, n_trajectories: int) -> None:
        self.chain, self.inner = chain, chain.expanded().stream(n_trajectories)

    def joint(self, states: Any, policies: Any, observations: Any | None = None) -> FloatArray:
        """P(z_t | s_≤t, a_<t) π_k(a | s_t), (B, K, A)."""
        self.states = as_array(states)
        found: FloatArray = self.inner.joint(states, self.chain.behind(as_array(policies), self.states))
        return np.asarray(self.chain._summed(found, 1))

    def update(self, actions: Any, evidence: Any) -> FloatArray:
        """P(z_t | s_≤t, a_≤t), (B, K)."""
        logs = self.chain._tilted(as_array(evidence), self.states, actions)
        return np.asarray(self.chain._summed(self.inner.update(actions, logs)))
