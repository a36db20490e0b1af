"""A fit beside the world that its data come from: value differences and distances of rewards.

The expected value difference of a recovered policy is V^π̂ − V* under the true reward and dynamics, as a mean modulus
over states or its value at the start; recovered intentions are matched to true ones by their labels, for evaluation
only. It judges policies. Rewards that differ by potential shaping r + γ E[Φ(s')] − Φ(s) and by a positive factor have
the same optimal policies, so their distance ignores both (`reward_distance`, STARC: Skalse et al. 2024).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import optimize, special

from prism_irl import checked
from prism_irl.arrays import BoolArray
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.files import read_arrays
from prism_irl.errors import InputError
from prism_irl.labels import match
from prism_irl.mdp import MDP, boltzmann

if TYPE_CHECKING:
    from prism_irl.arrays import FloatArray
    from prism_irl.models.base import IntentionModel


def canonical_reward(mdp: MDP, reward: npt.ArrayLike, states: BoolArray | None = None) -> FloatArray:
    """Reward (S, A) without shaping (`MDP.level`), divided by its length over the ``states`` (S,) that count.

    Zero for invalid actions and for states that do not count; all zero for a ``reward`` (S, A) or (S,) that prefers
    nothing.
    """
    advantages, values = mdp.level(reward)
    if states is not None:
        advantages = np.where(np.asarray(states)[:, None], advantages, 0.0)
    length = float(np.linalg.norm(advantages))
    # Rounding leaves a little of a constant reward, which is nothing and must not be blown up to length one.
    scale = float(np.abs(np.asarray(reward, dtype=np.float64)).max(initial=0.0)) + float(np.abs(values).max())
    result: FloatArray = advantages / length if length > 1e-9 * scale else np.zeros_like(advantages)
    return result


def reward_distance(mdp: MDP, one: npt.ArrayLike, other: npt.ArrayLike, states: BoolArray | None = None) -> float:
    """STARC distance ½‖c₁ − c₂‖ of two rewards: 0 for equivalent ones, 1 for opposite ones, ½ from one that is nothing.

    Two random rewards over many states are about 1/√2 apart.
    """
    difference = canonical_reward(mdp, one, states) - canonical_reward(mdp, other, states)
    return float(np.linalg.norm(difference)) / 2


class EVD(NamedTuple):
    """Expected value difference of a recovered policy, under the true reward and dynamics.

    ``mean`` over states of |V*(s) − V^π̂(s)|, V* being the value of the expert's policy; ``start``, V^π̂(s0) − V*(s0), is
    negative where the recovered policy earns less.
    """

    mean: float
    start: float


@dataclass(frozen=True, eq=False)
class Truth:
    """The world behind the demonstrations.

    Parameters
    ----------
    mdp : MDP with the true dynamics and the discount that values are measured with
    rewards : (Z, S, A) of the true intentions
    policies : (Z, S, A) of the expert
    names : of the true intentions
    start : state s0 of EVD(s0)
    entered : (S,) states that can be entered; EVD is then given over these, too
    """

    mdp: MDP
    rewards: FloatArray
    policies: FloatArray
    names: tuple[str, ...]
    start: int = 0
    entered: BoolArray | None = None

    def __call__(self, model: IntentionModel, test: Demonstrations) -> dict[str, float]:
        """Value differences of every true intention, and what there is to say about rewards, as far as there are any.

        ``evd_NAME`` over all states, ``evd_entered_NAME`` over those that can be entered, ``evd_s0_NAME``;
        ``reward_distance_NAME`` (STARC).
        """
        n_true = len(self.names)
        policies, rewards = recovered_policies(model, test, n_true), recovered_rewards(model, test, n_true)
        result: dict[str, float] = {}
        for k, (name, reward) in enumerate(zip(self.names, self.rewards, strict=False)):
            if policies is not None:
                evd = expected_value_difference(self.mdp, reward, self.policies[k], policies[k], start=self.start)
                result |= {f"evd_{name}": evd.mean, f"evd_s0_{name}": evd.start}
            if policies is not None and self.entered is not None:
                values = [self.mdp.policy_evaluation(p[k], reward) for p in (policies, self.policies)]
                result[f"evd_entered_{name}"] = float(np.abs(values[0] - values[1])[self.entered].mean())
            if rewards is not None:
                result[f"reward_distance_{name}"] = reward_distance(self.mdp, rewards[k], reward, self.entered)
        return result


def recovered_order(model: IntentionModel, demos: Demonstrations, n_true: int) -> list[int]:
    """Recovered intention that matches each true one; a single one stands for all of them."""
    if demos.labels is None:
        raise InputError("Recovered intentions can be matched to true ones only where the data has true labels.")
    if model.n_intentions == 1:
        return [0] * n_true
    mapping = np.asarray(
        match(demos.labels, model.predict(demos), n_true=n_true, n_predicted=model.n_intentions).mapping
    )
    # A true intention without a partner is represented by the first recovered one: its EVD is honestly large.
    return [int(found[0]) if len(found := np.flatnonzero(mapping == k)) else 0 for k in range(n_true)]


def recovered_policies(model: IntentionModel, demos: Demonstrations, n_true: int) -> FloatArray | None:
    """Policies (Z, S, A) of the recovered intentions that match the true ones; None where there are none."""
    policies = getattr(model, "policies_", None)
    if policies is None or len(policies) != model.n_intentions or policies.shape[1] < demos.n_states:
        return None
    return np.asarray(policies[recovered_order(model, demos, n_true), : demos.n_states])


def recovered_rewards(model: IntentionModel, demos: Demonstrations, n_true: int) -> FloatArray | None:
    """Rewards (Z, S, A) of the recovered intentions that match the true ones; None where there are none.

    A reward that drifts with time is averaged over it and stands for all intentions.
    """
    if (drifting := getattr(model, "time_varying_rewards_", None)) is not None:
        return np.repeat(np.repeat(drifting.mean(axis=0)[None, :, None], demos.n_actions, axis=2), n_true, axis=0)
    rewards = getattr(model, "rewards_", None)
    if rewards is None or np.shape(rewards) != (model.n_intentions, demos.n_states, demos.n_actions):
        return None
    return np.asarray(rewards, np.float64)[recovered_order(model, demos, n_true)]


def likeliest_expert(mdp: MDP, rewards: FloatArray, demos: Demonstrations) -> FloatArray:
    """(Z, S, A) policies softmax(β Q*), with the one β under which the actions of labelled steps are likeliest.

    The scale of a reward says nothing about how resolutely it is followed, and an expert of another resolution would
    be the one that recovered policies are measured against. The likelihood is concave in β.
    """
    assert demos.labels is not None
    q = mdp.value_iteration(rewards)[0]
    seen, allowed = q[demos.labels, demos.states], mdp.valid_actions[demos.states]
    taken = np.take_along_axis(seen, demos.actions[:, None].astype(np.int64), axis=1)[:, 0]

    def surprise(log_beta: float) -> float:
        scaled = np.where(allowed, np.exp(log_beta) * (seen - taken[:, None]), -np.inf)
        return float(special.logsumexp(scaled, axis=1).mean())

    unit = float(np.ptp(q[:, mdp.valid_actions])) or 1.0
    found = optimize.minimize_scalar(surprise, bounds=(np.log(1e-3 / unit), np.log(1e5 / unit)), method="bounded")
    return boltzmann(q, float(np.exp(found.x)))


def read_truth(path: Path, demos: Demonstrations) -> Truth:
    """Read `rewards` (Z, S, A) or (Z, S), `transitions` (S, A, S), optional `policies`, `discount`, `start`.

    Without `policies` the expert is the Boltzmann policy of the optimal action values, with the inverse temperature
    under which the actions of the data, whose intentions are known, are likeliest (`likeliest_expert`).
    """
    if demos.labels is None:
        raise InputError("Recovered intentions can be matched to true ones only where the data has true labels.")
    arrays = read_arrays(path)
    for name in ("rewards", "transitions"):
        if name not in arrays:
            raise InputError(f"{path} has no array {name!r}; give rewards (Z, S, A) and transitions (S, A, S).")
    for name in ("rewards", "transitions", "policies", "discount", "start"):
        found = arrays.get(name, np.zeros(()))
        if found.dtype.kind not in "biuf" or (name in ("discount", "start") and found.ndim):
            raise InputError(
                f"The array {name!r} in {path} has shape {found.shape} and type {found.dtype}; correct it."
            )
    discount = float(arrays["discount"]) if "discount" in arrays else 0.97
    mdp = MDP.from_dense(arrays["transitions"].astype(np.float64), discount, demos.valid_actions)
    shape = (demos.n_states, demos.n_actions)
    if (mdp.n_states, mdp.n_actions) != shape:
        raise InputError(f"{path} describes {mdp.n_states} states and {mdp.n_actions} actions; the data has {shape}.")
    rewards = arrays["rewards"].astype(np.float64)
    if rewards.ndim == 2:
        rewards = np.repeat(rewards[:, :, None], mdp.n_actions, axis=2)
    if rewards.shape[1:] != shape:
        raise InputError(f"The rewards in {path} have shape {rewards.shape}; they must be (Z, S, A).")
    if int(demos.labels.max()) >= len(rewards):
        raise InputError(f"The data has {demos.labels.max() + 1} true intentions and {path} rewards of {len(rewards)}.")
    checked.finite("true rewards", rewards)
    policies = arrays["policies"].astype(np.float64) if "policies" in arrays else likeliest_expert(mdp, rewards, demos)
    if policies.shape != rewards.shape:
        raise InputError(f"The policies in {path} have shape {policies.shape}; they must be {rewards.shape}.")
    checked.distributions("policies", policies, "true")
    start = int(arrays["start"]) if "start" in arrays else 0
    if not 0 <= start < mdp.n_states:
        raise InputError(f"The start in {path} is {start}; give a state from 0 to {mdp.n_states - 1}.")
    names = demos.label_names or tuple(str(k) for k in range(len(rewards)))
    return Truth(mdp, rewards, policies, names[: len(rewards)], start)


def expected_value_difference(
    mdp: MDP,
    true_reward: npt.ArrayLike,
    expert_policy: npt.ArrayLike,
    recovered_policy: npt.ArrayLike,
    start: int | npt.ArrayLike,
) -> EVD:
    """Compare what two policies (S, A) of one intention earn under the true reward (S, A) and the true dynamics.

    ``start`` is the state s0, or a distribution (S,) over start states.
    """
    recovered, expert = (mdp.policy_evaluation(policy, true_reward) for policy in (recovered_policy, expert_policy))
    difference = recovered - expert
    where, n = np.asarray(start), len(difference)
    if where.ndim == 0 and where.dtype.kind in "iu" and 0 <= where < n:
        where = np.eye(n)[where]
    if where.shape != (n,) or (where < 0).any() or not np.isclose(where.sum(), 1):
        raise InputError(f"start must be a state from 0 to {n - 1} or a distribution over the {n} states.")
    return EVD(mean=float(np.abs(difference).mean()), start=float(where @ difference))
