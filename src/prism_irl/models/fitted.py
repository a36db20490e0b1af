"""What can be asked of a fitted pair: beliefs, predictions, streams, simulations and rewards; how it is kept on disk.

Rewards are solved when somebody asks: as planned where the reward model plans, else by IAVI from the policies.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from prism_irl import checked, em, storage
from prism_irl.arrays import FloatArray, IntArray
from prism_irl.data import mapped
from prism_irl.data.batching import Batch, Prepared
from prism_irl.data.contexts import Contexts
from prism_irl.data.continuous import Units
from prism_irl.data.demonstrations import Demonstrations, expect_demonstrations, parts_of
from prism_irl.devices import as_array, available_device
from prism_irl.errors import InputError
from prism_irl.mdp import MDP
from prism_irl.models.base import IntentionModel, check_mdp, not_fitted
from prism_irl.models.streaming import Imagined, IntentionFilter, PairChooser, Walk, simulate
from prism_irl.rewards.accents import Accents, load_accents
from prism_irl.rewards.base import RewardModel
from prism_irl.rewards.iavi import IAVI, ContextIAVI, InverseSolution, average_solution, own_visits, unvisited_states
from prism_irl.rewards.linear import StateReward, learn_state_reward
from prism_irl.rewards.options import RewardOptions
from prism_irl.switching.base import Posterior, Switching

if TYPE_CHECKING:
    from torch import Tensor

SOLVED = ("solution_", "level_solution_", "context_solution_")
"""What is solved on first use, and solved again after another fit."""
KEPT: Mapping[str, Callable[[Any], Any]] = {
    "n_states": int,
    "n_actions": int,
    "n_observations": int,
    "backoff": float,
    "history_choice": list,
    "agreement": lambda found: found,
    "n_equal_starts": int,
    "converged": bool,
    "n_iterations": int,
    "starts": list,
    "chosen": dict,
    "choice": list,
    "intentions_found": bool,
    "default": lambda found: found,
}
"""Plain values that are saved with a fit, and their types; version 0.1.0 had none of the last four."""


def _part_of(solution: str, name: str, doc: str) -> Any:
    """A property: one array of what a method of the model solves."""
    return property(lambda model: getattr(getattr(model, solution)(), name), doc=doc)


class FittedPair(IntentionModel):
    """Everything that follows from a fitted switching model and a fitted reward model.

    Attributes
    ----------
    switching_, rewards_model_ : both components of the best start
    contexts_ : Contexts, what a row of the policies stands for
    history_length_, backoff_ : length of the histories and strength of their back-off, as given or as chosen ("auto")
    history_choice_ : list of dict, what "auto" tried on validation data; empty where there was nothing to choose
    chosen_ : dict, options of the rewards that were left to "auto"; choice_ : list of dict, what was tried for them
    validation_chose_ : list of str, what the validation trajectories decided: memory, start, stopping point
    mdp_ : MDP that rewards are solved on
    monitor_ : list of dict, what EM's monitor saw, all starts, with a column ``start``
    starts_ : list of dict per start: score, iterations, converged, seconds
    agreement_ : mean ARI of the best start with the equally good ones, or None
    """

    switching_: Switching
    rewards_model_: RewardModel
    contexts_: Contexts
    mdp_: MDP
    n_observations_: int
    device: str
    seed: int
    accents_: Accents | None
    units_: Units | None = None
    found_: Any = None
    state_reward_: StateReward | None = None

    _new_start: Callable[[int, Demonstrations], em.Start]

    @property
    @abstractmethod
    def reward_options(self) -> RewardOptions:
        """Options of the reward model."""

    def _prepare(self, demos: Demonstrations) -> Prepared:
        return Prepared.of(demos, self.contexts_, self.device_)

    def _check_fitted(self) -> None:
        if "mdp_" not in vars(self):  # the last thing that a fit sets
            raise not_fitted(f"This {type(self).__name__} is not fitted yet; call fit first.")

    def _check_new(self, demos: Demonstrations) -> Demonstrations:
        self._check_fitted()
        expect_demonstrations(demos)
        if self.units_ is not None:
            demos = self.units_.apply(demos)
        self.rewards_model_.check(demos)
        return super()._check_new(demos)

    def _emission(self, data: Prepared) -> Any:
        return self.switching_.reads(self.rewards_model_.log_likelihood(data))

    def _prediction(self, demos: Demonstrations) -> Posterior:
        """Beliefs by what is known before each command alone; those of `posterior` unless rewards look ahead."""
        if not self.looks_ahead:
            return self.posterior(demos)
        data = self._prepare(self._check_new(demos))
        return self.switching_.expectation(
            data, self.switching_.reads(self.rewards_model_.predictive_log_likelihood(data))
        )

    def posterior(self, demos: Demonstrations) -> Posterior:
        """All beliefs about the intention of every step; see `switching.base.Posterior`.

        Large continuous data are read in parts, and where they are mapped files, so are beliefs.
        """
        self._check_fitted()
        expect_demonstrations(demos)
        if self.units_ is None or not (self.rewards_model_.adds_up and demos.n_steps > em.LARGE):
            data = self._prepare(self._check_new(demos))
            return self.switching_.expectation(data, self._emission(data))
        found: list[FloatArray] = []
        n = demos.n_steps
        for rows, part in parts_of(demos, em.PART):
            data = self._prepare(self._check_new(part))
            own = self.switching_.expectation(data, self._emission(data))[:4]
            found = found or [mapped.empty_like(demos.states, (n, *one.shape[1:]), one.dtype) for one in own]
            for all_steps, values in zip(found, own, strict=True):
                all_steps[rows] = values
        responsibilities, predicted, filtered, likelihood = found
        return Posterior(responsibilities, predicted, filtered, likelihood)

    def predict_proba(self, demos: Demonstrations) -> FloatArray:
        """P(z_t=k | everything), (n, K): smoothed for a chain, Eq. (posterior) for a gate."""
        return self.posterior(demos).responsibilities

    def labels_of(self, probabilities: FloatArray, demos: Demonstrations) -> IntArray:
        """Labels (n,) of beliefs (n, K): the likeliest, or where stages pass in order, a path that keeps it."""
        return self.switching_.labels_of(probabilities, demos.offsets)

    def filter_proba(self, demos: Demonstrations) -> FloatArray:
        """P(z_t=k | s_≤t, a_≤t), (n, K): what `filter` gives step by step."""
        return self._prediction(demos).filtered

    def decode(self, demos: Demonstrations) -> IntArray:
        """Most probable path as a whole, (n,), of a chain; elsewhere `predict`."""
        data = self._prepare(self._check_new(demos))
        return self.switching_.decode(data, self._emission(data))

    def action_proba(self, demos: Demonstrations) -> FloatArray:
        """p(a | s_≤t, a_<t), (n, A)."""
        data = self._prepare(self._check_new(demos))
        if self.is_density:
            raise InputError(
                "Gaussian policies give a density of the command and no probability of an action token; use "
                'log_likelihood, or policies="softmax".'
            )

        import torch

        def policy_of(batch: Batch) -> Tensor:
            steps = batch.steps.cpu().numpy()
            policies = self.rewards_model_.policies_along(data, steps.reshape(-1))
            return torch.from_numpy(policies.reshape(*steps.shape, *policies.shape[1:])).to(batch.mask.device)

        return self.switching_.action_proba(data, self._emission(data), policy_of)

    @property
    def leaks(self) -> bool:
        """True for a gate that reads the current action."""
        self._check_fitted()
        return not self.switching_.normalised

    @property
    def is_density(self) -> bool:
        """Whether `score` is a log density of commands instead of a log probability of tokens."""
        self._check_fitted()
        return self.rewards_model_.is_density

    @property
    def looks_ahead(self) -> bool:
        """Whether `predict` reads what comes after a step; scores and streams never do."""
        self._check_fitted()
        return self.rewards_model_.looks_ahead

    def log_likelihood(self, demos: Demonstrations) -> FloatArray:
        """Log p(a_t | s_≤t, a_<t), (n,); straight from the E-step where its prior has not seen a_t."""
        return super().log_likelihood(demos) if self.leaks else self._prediction(demos).log_likelihood

    def paper_score(self, demos: Demonstrations) -> float:
        """Mean of log Σ_k f(φ_t)_k π_k(a_t | s_t); not a likelihood when φ_t holds a_t."""
        return float(self._prediction(demos).log_likelihood.mean())

    def filter(self) -> IntentionFilter:
        """Return a streaming filter: one (state, action) in, K probabilities out."""
        self._check_fitted()
        return IntentionFilter(self.switching_, self.rewards_model_, self.contexts_, self.device_, self.units_)

    def sample(self, n_trajectories: int = 1, length: int = 100, seed: int = 0) -> Demonstrations:
        """Simulate from the fitted model; the labels are the intentions drawn."""
        self._check_simulable()
        if n_trajectories < 1 or length < 1:
            raise InputError("Simulate at least one trajectory of at least one step.")
        walk = Walk(self.switching_, self.rewards_model_, self.contexts_, self.device_, n_trajectories)
        generator = np.random.default_rng(seed)
        return simulate(walk, self.mdp_, self.start_states_, length=length, generator=generator)

    def chooser(self, demos: Demonstrations, trajectories: IntArray) -> PairChooser:
        """Chooses by the predictive distribution."""
        self._check_simulable()
        who = None if self.accents_ is None else self.accents_.who(demos)[trajectories]
        pair = self.switching_, self.rewards_model_, self.contexts_, self.device_
        return PairChooser(Walk(*pair, len(trajectories), who))

    def _check_simulable(self) -> None:
        self._check_fitted()
        if self.motion_shape_ is not None or self.n_observations_:
            raise InputError(
                "A fit with observations cannot be simulated, since they are measured; sample from one without."
            )

    # -- what each intention is after --------------------------------------------------------------------------------

    @property
    def policies_(self) -> FloatArray:
        """π_k(a | context), (K, C, A); C = S with history 1."""
        self._check_fitted()
        rows = np.arange(self.contexts_.n_contexts)
        return np.ascontiguousarray(self.rewards_model_.policies_at(rows).transpose(1, 0, 2))

    def _solution(self) -> InverseSolution:
        """Solved on first use, because likelihoods never need it: as planned, or by IAVI (over histories: averaged)."""
        self._check_fitted()
        if "solution_" not in vars(self):
            solution = self._cell_solution() or self.rewards_model_.solution(self.mdp_)
            if solution is None:
                solution = self._context_solution()
                if self.contexts_.parents:
                    solution = average_solution(self.contexts_, solution, self._visits())
            self.solution_ = solution
        return self.solution_

    def _cell_solution(self) -> InverseSolution | None:
        """Rewards of a continuous world at the centres of its cells, the same for every command."""
        if self.state_reward_ is None or self.units_ is None:
            return None
        values = self.state_reward_.values_at(self.units_.cells).T
        rewards = self.state_reward_.at(self.units_.cells).T
        rewards = rewards - rewards.mean(axis=1, keepdims=True)
        wide = np.repeat(rewards[..., None], self.n_actions_, axis=2)
        return InverseSolution(wide, wide + values[..., None], values)

    def reward_at(self, observations: npt.ArrayLike) -> FloatArray:
        """Reward g_k(x) of every intention at observations (n, d) in the units of the data, (n, K).

        Of fits to continuous data (`rewards.linear`): up to a constant and to the scale of the noise, and
        meaningless far from where the data are.
        """
        self._check_fitted()
        if self.state_reward_ is None or self.units_ is None:
            raise AttributeError("The rewards of this model are on states and actions; read rewards_.")
        x = np.asarray(observations, dtype=np.float64)
        return self.state_reward_.at((x - self.units_.observation_mean) / self.units_.observation_spread)

    @property
    def places_(self) -> FloatArray:
        """Goals in the units of the observations, (K, d), of goals on landmarks."""
        self._check_fitted()
        ends = self.rewards_model_.ends
        if self.units_ is None or ends is None:
            raise AttributeError("Only goals on landmarks are places; read reward_at or rewards_.")
        return np.asarray(ends.at * self.units_.observation_spread + self.units_.observation_mean)

    def _context_solution(self) -> InverseSolution:
        """IAVI on the contexts that occur (`rewards.iavi`); with history 1, on the MDP itself."""
        self._check_fitted()
        if "context_solution_" not in vars(self):
            policies, counts = self.policies_, self.rewards_model_.state().get("counts")
            solver = ContextIAVI(self.mdp_, self.contexts_) if self.contexts_.parents else IAVI(self.mdp_)
            # the authors' 1e-6 where a valid action has probability zero, else nothing
            floor = 1e-6 if (policies[:, solver.valid_actions] <= 0).any() else 0.0
            with np.errstate(divide="ignore"):
                solution = solver.solve(np.log(policies), floor)
            unvisited = None if counts is None else unvisited_states(counts)
            self.context_solution_ = solution._replace(unvisited=unvisited)
        return self.context_solution_

    def _visits(self) -> FloatArray:
        """Weighted visits of every context, (K, C); of every state alone where the reward model does not count."""
        counts = self.rewards_model_.state().get("counts")
        if counts is not None:
            return own_visits(self.contexts_, counts)
        states = np.arange(self.contexts_.n_contexts) < self.n_states_
        return np.tile(states.astype(np.float64), (self.n_intentions, 1))

    context_rewards_ = _part_of("_context_solution", "rewards", "r_k(c, a), (K, C, A): for which policies are optimal.")
    context_q_ = _part_of("_context_solution", "q", "Q_k(c, a), (K, C, A); softmax(Q_k(c, ·)) is the policy exactly.")
    context_values_ = _part_of("_context_solution", "values", "V_k(c), (K, C).")
    rewards_ = _part_of("_solution", "rewards", "r_k(s, a), (K, S, A); of contexts, the mean over the visits of each.")
    q_ = _part_of("_solution", "q", "Q_k(s, a), (K, S, A); of contexts, the mean over the visits of a state.")
    values_ = _part_of("_solution", "values", "V_k(s), (K, S); of contexts, the mean over the visits of a state.")
    unvisited_ = _part_of("_solution", "unvisited", "States whose reward is an echo of other states, (K, S), or None.")

    @property
    def canonical_(self) -> InverseSolution:
        """The same explanation without shaping (`MDP.level`); sparse goals and continuous rewards as they are."""
        if "level_solution_" not in vars(self):
            own = self._solution()
            planned = self.rewards_model_.solution(self.mdp_) is not None
            if planned and not self.rewards_model_.sparse and self._cell_solution() is None:
                rewards, ahead = self.mdp_.level(own.rewards)  # IAVI chooses the level one itself
                own = own._replace(rewards=rewards, q=own.q - ahead[..., None], values=own.values - ahead)
            self.level_solution_ = own
        return self.level_solution_

    @property
    def canonical_rewards_(self) -> FloatArray:
        """The reward (K, S, A) of `canonical_`, which tables, maps and intervals show: 0 where there is no choice."""
        return self.canonical_.rewards

    @property
    def state_rewards_(self) -> FloatArray:
        """r_k(s), (K, S), where rewards are on states: soft ones and goals."""
        self._check_fitted()
        found = self.rewards_model_.state_rewards
        if found is None:
            raise AttributeError(f"The rewards of this {type(self).__name__} are on states and actions; read rewards_.")
        return found

    @property
    def goals_(self) -> list[list[int]]:
        """States with a reward, per intention, the largest first; an intention that wants nothing has none."""
        orders = ((r, np.argsort(-r, kind="stable")) for r in self.state_rewards_)
        return [[int(s) for s in order if r[s] > 0.1 * r.max() > 0] for r, order in orders]

    @property
    def initial_(self) -> FloatArray:
        """P(z_1=k), (K,), of a chain that keeps it as it is."""
        return self._kept("initial")

    @property
    def kernel_(self) -> FloatArray:
        """P(z_t=k | z_{t−1}=j), (K, K), of a chain whose kernel is constant."""
        return self._kept("kernel")

    def _kept(self, name: str) -> FloatArray:
        self._check_fitted()
        found = self.switching_.state()
        if name not in found:
            raise AttributeError(f"{type(self.switching_).__name__} has no {name} of its own; read switching_.")
        return np.asarray(found[name], dtype=np.float64)

    def imagine(self, mdp: MDP | None = None, *, without: int | None = None, aware: bool = True) -> Imagined:
        """What the agents would do in other dynamics, or without an intention; ``simulate`` of the result shows it.

        Parameters
        ----------
        mdp : the changed world, over the same states and actions (`MDP.closed` closes some); as it was, if absent
        without : intention that nobody has: whatever would lead to it leads to the others, in proportion
        aware : whether agents know the change and plan anew, which only rewards on states can (soft-1, goals); else
            they act as before, and only where their actions lead has changed
        """
        self._check_simulable()
        if self.is_density:
            raise InputError("Commands of a continuous world lead nowhere in dynamics of states; fit tokens.")
        if without is not None and not 0 <= without < self.n_intentions:
            raise InputError(f"There is no intention {without}; they run from 0 to {self.n_intentions - 1}.")
        if without is not None and self.n_intentions == 1:
            raise InputError("Without its only intention the agent would do nothing; fit several.")
        world, rewards = self.mdp_, self.rewards_model_
        if mdp is not None:
            check_mdp(mdp, self._like_training_data())
            free = replace(self._like_training_data(), valid_actions=None)  # the changed world knows its own
            world = self.reward_options.dynamics(mdp, free, self.mdp_.discount)
            rewards = rewards.moved(world) if aware else rewards
        return Imagined(self.switching_, rewards, self.contexts_, world, self.device_, self.accents_, without)

    def _learn_rewards(self, demos: Demonstrations) -> None:
        """Rewards by least squares, in a continuous world, weighted by the smoothed responsibilities."""
        if self.units_ is not None and self.rewards_model_.is_density:
            # In the units of the fit already; a regression with some hundred weights needs no millions of steps.
            data = em.some_of(self.rewards_model_, self._prepare(demos), self.seed)
            weights = self.switching_.expectation(data, self._emission(data), online=False).responsibilities
            self.state_reward_ = learn_state_reward(data, weights, self.mdp_.discount)

    # -- on disk ---------------------------------------------------------------------------------------------------

    def _state(self) -> dict[str, Any]:
        """Both components, contexts, dynamics and start states."""
        parts: dict[str, Any] = {"switching": self.switching_, "rewards": self.rewards_model_}
        parts |= {name: getattr(self, f"{name}_") for name in ("contexts", "mdp", "accents", "units", "state_reward")}
        valid = {} if self.valid_actions_ is None else {"valid_actions": self.valid_actions_}
        found = storage.prefixed("data", {"start_states": self.start_states_, **valid})
        for prefix, part in parts.items():
            found |= {} if part is None else storage.prefixed(prefix, part.state())
        return found

    def _info(self) -> dict[str, Any]:
        """Sizes and what the monitor concluded."""
        m, p, blocks = self.motion_shape_ or (0, 0, ())
        kept = {name: kind(getattr(self, f"{name}_")) for name, kind in KEPT.items()}
        of_motions = {"n_motions": m, "n_weights": p, "noise_blocks": list(blocks)}
        rest = {"discount": self.mdp_.discount, "history_rows": self.monitor_}
        return {**kept, **of_motions, **({} if self.accents_ is None else self.accents_.info()), **rest}

    def _load_state(self, tensors: dict[str, Any], info: dict[str, Any]) -> None:
        """Rebuild the components, then fill them; version 0.1.0 kept what IQL learned beside them."""
        tensors = tensors | {f"rewards.learned_{name}": value for name, value in storage.part("iql", tensors).items()}
        for name, kind in KEPT.items():
            if name in info or name not in tuple(KEPT)[-4:]:
                setattr(self, f"{name}_", kind(info[name]))
        self.monitor_ = info["history_rows"]
        self.motion_shape_ = None
        if info.get("n_motions"):
            blocks = tuple(int(block) for block in info["noise_blocks"])
            self.motion_shape_ = int(info["n_motions"]), int(info["n_weights"]), blocks
        self.device_ = available_device(self.device)
        contexts, dynamics, data, units, state_reward = (
            {name: as_array(value) for name, value in storage.part(prefix, tensors).items()}
            for prefix in ("contexts", "mdp", "data", "units", "state_reward")
        )
        self.units_, self.state_reward_ = Units.from_state(units), StateReward.from_state(state_reward)
        self.contexts_ = Contexts.from_state(self.n_states_, contexts)
        self.history_length_ = self.contexts_.length
        self.accents_ = load_accents(tensors, info, (self.contexts_.n_contexts, self.n_actions_))
        self.mdp_ = self._dynamics = MDP.from_state(self.n_states_, float(info["discount"]), dynamics)
        checked.shape("dynamics", self.mdp_.valid_actions, (self.n_states_, self.n_actions_))
        self.valid_actions_ = data.get("valid_actions")
        if self.valid_actions_ is not None:
            checked.shape("valid actions", self.valid_actions_, (self.n_states_, self.n_actions_))
        self.start_states_ = data["start_states"]
        checked.ids("start states", self.start_states_, self.n_states_)
        start = self._new_start(0, self._like_training_data())
        start.restore({name: value for name, value in tensors.items() if name.startswith(("switching.", "rewards."))})
        start.switching.check_loaded()
        self.switching_, self.rewards_model_ = start.switching, start.rewards

    def _like_training_data(self) -> Demonstrations:
        """One step with the sizes of the training data: all that building the halves looks at."""
        action = 0 if self.valid_actions_ is None else int(np.argmax(self.valid_actions_[0]))
        steps = np.zeros(1, np.int64), np.array([action]), np.array([0, 1])
        seen = np.zeros((1, self.n_observations_), np.float32) if self.n_observations_ else None
        known: dict[str, Any] = {"observations": seen, "valid_actions": self.valid_actions_}
        demos = Demonstrations(*steps, self.n_states_, self.n_actions_, **known)
        if self.motion_shape_ is None:
            return demos
        m, p, blocks = self.motion_shape_
        design = np.zeros((1, m, p)) if p else None
        return demos.with_commands(np.zeros((1, m)), design, noise_blocks=blocks)
