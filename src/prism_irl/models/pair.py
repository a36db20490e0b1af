"""Methods that are a pair (switching, rewards) fitted by EM: everything but the choice of the pair.

A subclass says how to build the two halves (`_build`); fitting with several starts, early stopping on validation
trajectories, checkpoints, inference, streaming, simulation and rewards are the same for all of them.
"""

from __future__ import annotations

import zlib
from abc import abstractmethod
from collections.abc import Mapping
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.exceptions import NotFittedError
from torch import Tensor

from prism_irl import em, storage
from prism_irl.data.batching import Batch, Prepared
from prism_irl.data.contexts import Contexts
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.devices import available_device, resolve_device
from prism_irl.errors import InputError
from prism_irl.labels import agreement
from prism_irl.mdp import MDP
from prism_irl.models.base import FloatArray, IntentionModel
from prism_irl.models.histories import BACKOFFS, LENGTHS, choose_history
from prism_irl.models.references import validation_split
from prism_irl.models.starts import StartKind, annealing_powers, first_responsibilities
from prism_irl.models.streaming import IntentionFilter, simulate
from prism_irl.rewards.augmented import augmented_mdp, average_solution, own_visits
from prism_irl.rewards.base import RewardModel
from prism_irl.rewards.iavi import InverseSolution, solve_iavi
from prism_irl.scale import distributed
from prism_irl.switching.base import Posterior, Switching
from prism_irl.switching.markov import MarkovChain

DEFAULT_BACKOFF = 5.0  # where there is nothing to choose it for
AGREEMENT_MARGIN = 0.002  # starts within this many nats per step of the best count as equally good


class PairModel(IntentionModel):
    """Base class of the methods that EM fits.

    Attributes
    ----------
    switching_, rewards_model_ : the two halves of the best start
    contexts_ : Contexts, what a row of the policies stands for
    history_length_, backoff_ : length of the histories and strength of their back-off, as given or as chosen ("auto")
    history_choice_ : list of dict, what "auto" tried on validation data; empty where there was nothing to choose
    mdp_ : MDP that rewards are solved on
    history_ : list of dict, what the monitor saw, all starts, with a column ``start``
    starts_ : list of dict per start: score, iterations, converged, seconds
    agreement_ : mean ARI of the best start with the equally good ones, or None
    """

    # constructor arguments that every subclass stores
    n_intentions: int
    history: int | Literal["auto"]
    max_iterations: int
    n_starts: int
    validation_fraction: float
    recount: bool = False
    patience: int | None
    discount: float
    device: str
    seed: int

    @abstractmethod
    def _build(self, demos: Demonstrations) -> tuple[Switching, RewardModel]:
        """Build the untrained halves of one start; the caller has seeded torch."""

    def _start_kinds(self) -> tuple[StartKind, ...]:
        """Kinds of first responsibilities that the starts cycle through."""
        return ("windows", "random")

    def _begin(self, start: em.Start, train: Prepared, kind: StartKind, generator: np.random.Generator) -> None:
        """Give a start its first policies; a subclass may look for better ones before EM proper."""
        start.rewards.maximise(train, self._first(train, kind, generator))

    def _first(self, train: Prepared, kind: StartKind, generator: np.random.Generator) -> FloatArray:
        """First responsibilities (n, K), found on all data even where this process holds a part of it."""
        return train.share(first_responsibilities(kind, train.whole, self.n_intentions, generator))

    def _begin_with_chain(
        self,
        start: em.Start,
        train: Prepared,
        kind: StartKind,
        generator: np.random.Generator,
        *,
        candidates: int,
        iterations: int,
    ) -> MarkovChain:
        """Short Baum–Welch runs from several first points; leave the policies of the likeliest and return its chain.

        An annealed start has its own number of iterations, with emissions to a rising power.
        """
        powers = annealing_powers() if kind == "annealed" else np.ones(iterations)
        best: tuple[float, MarkovChain, dict[str, FloatArray]] | None = None
        for _ in range(candidates):
            start.rewards.maximise(train, self._first(train, kind, generator))
            chain = MarkovChain(self.n_intentions).to(self.device_)
            likelihood = -np.inf
            for power in powers:
                emission = torch.from_numpy(start.rewards.log_likelihood(train) * power)
                posterior = chain.expectation(train, emission, online=False)
                likelihood = train.mean(posterior.log_likelihood)
                chain.maximise(train, emission, posterior, None)
                start.rewards.maximise(train, posterior.responsibilities)
            if best is None or likelihood > best[0]:
                best = likelihood, chain, {name: value.copy() for name, value in start.rewards.state().items()}
        assert best is not None
        start.rewards.load_state(best[2])
        return best[1]

    # -- fitting ---------------------------------------------------------------------------------------------------

    def fit(
        self,
        demos: Demonstrations,
        mdp: MDP | None = None,
        *,
        checkpoint: str | Path | None = None,
        resume: bool = False,
        on_iteration: em.OnIteration | None = None,
    ) -> Self:
        """Fit by EM.

        Parameters
        ----------
        demos : Demonstrations
        mdp : MDP, optional
            Dynamics for the rewards; estimated from counts when absent. Never changes likelihoods or labels.
        checkpoint : folder, optional
            Where running starts are saved every few seconds.
        resume : bool
            Go on from the checkpoint instead of starting again.
        on_iteration : callable, optional
            Called with an `em.Progress` after each iteration.
        """
        demos = self._checked(demos, mdp)
        self._set_up(demos)
        world = distributed.current()
        train, validation = self._validation_split(demos, world)
        folder = None if checkpoint is None or not world.writes else Path(checkpoint)
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            if not resume:  # what an earlier fit left here is not ours to resume later
                for old in folder.glob("start_*.safetensors"):
                    old.unlink()
        options = {name: value for name, value in self.get_params(deep=False).items() if name != "device"}
        fingerprint = f"{zlib.crc32(repr(sorted(options.items())).encode()):08x} {demos.checksum()}"
        starts = []
        for index in range(self.n_starts):
            path = None if folder is None else folder / f"start_{index:02d}.safetensors"
            with world.fetched(path if resume else None) as saved:
                start = self._new_start(index, train.demos)
                start.fingerprint = fingerprint
                starts.append(self._run_start(start, train, validation, path, saved, on_iteration))
        self._finish(starts, train, None if validation is None else world, demos, mdp)
        return self

    def _checked(self, demos: Demonstrations, mdp: MDP | None) -> Demonstrations:
        """Demonstrations that fit the parameters and the dynamics, with the valid actions of the latter."""
        self._check_parameters(demos)
        if mdp is not None and (mdp.n_states, mdp.n_actions) != (demos.n_states, demos.n_actions):
            raise InputError(
                f"The MDP has {mdp.n_states} states and {mdp.n_actions} actions, the demonstrations {demos.n_states} "
                f"and {demos.n_actions}; give both the same sets."
            )
        if mdp is not None and demos.valid_actions is None and not mdp.valid_actions.all():
            demos = demos.with_valid_actions(mdp.valid_actions)
        return demos

    def _first_point(self, start: em.Start, train: Prepared) -> None:
        """Where a start begins, from its own randomness."""
        kinds = self._start_kinds()
        self._begin(start, train, kinds[start.index % len(kinds)], np.random.default_rng([self.seed, start.index]))

    def _finish(
        self,
        starts: list[em.Start],
        train: Prepared,
        validated: distributed.World | None,
        demos: Demonstrations,
        mdp: MDP | None,
    ) -> None:
        """Keep the best start; ``validated`` says who holds the data when some of it was held out."""
        self._keep_best(starts, train)
        if self.recount and validated is not None:
            self._recount(validated.prepare(demos, None, self.contexts_, self.device_))
        self.mdp_ = MDP.from_demonstrations(demos, self.discount) if mdp is None else mdp

    def _set_up(self, demos: Demonstrations) -> None:
        for name in ("mdp_", "solution_", "context_solution_"):  # of an earlier fit, should this one be interrupted
            if hasattr(self, name):
                delattr(self, name)
        self.n_states_, self.n_actions_ = demos.n_states, demos.n_actions
        self.n_observations_ = 0 if demos.observations is None else demos.observations.shape[1]
        self.valid_actions_ = demos.valid_actions
        self.history_length_, self.backoff_ = self._chosen_history(demos)
        self.contexts_ = demos.with_history(self.history_length_)
        self.device_ = resolve_device(self.device)
        self.start_states_ = demos.states[demos.offsets[:-1]].astype(np.int64)

    def _chosen_history(self, demos: Demonstrations) -> tuple[int, float]:
        """Length and back-off strength of the histories; what is "auto" is chosen on the validation trajectories."""
        length, backoff = self.history, getattr(self, "backoff", 0.0)  # SWIRL and others have no table to shrink
        self.history_choice_: list[dict[str, float]] = []
        if length != "auto" and (backoff != "auto" or length == 1):
            return length, DEFAULT_BACKOFF if backoff == "auto" else float(backoff)
        train, validation = validation_split(demos, self.validation_fraction, self.seed)
        if validation is None:  # a single step
            return 1, DEFAULT_BACKOFF if backoff == "auto" else float(backoff)
        choice = choose_history(
            train,
            validation,
            self.n_intentions,
            lengths=LENGTHS if length == "auto" else (length,),
            backoffs=BACKOFFS if backoff == "auto" else (float(backoff),),
            smoothing=getattr(self, "smoothing", 0.01),
            seed=self.seed,
        )
        self.history_choice_ = choice.tried
        return choice.length, choice.backoff

    def _validation_split(
        self, demos: Demonstrations, world: distributed.World = distributed.SOLO
    ) -> tuple[Prepared, Prepared | None]:
        if self.validation_fraction <= 0 or len(demos) < 2:
            return world.prepare(demos, None, self.contexts_, self.device_), None
        held_out, kept = demos.split_indices(self.validation_fraction, seed=self.seed)
        train, validation = (world.prepare(demos, part, self.contexts_, self.device_) for part in (kept, held_out))
        return train, validation

    def _prepare(self, demos: Demonstrations) -> Prepared:
        return Prepared.of(demos, self.contexts_, self.device_)

    def _new_start(self, index: int, demos: Demonstrations) -> em.Start:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(zlib.crc32(f"{self.seed} {index}".encode()))
            switching, rewards = self._build(demos)
        stopping = em.Stopping(self.max_iterations, self.patience)
        exact = switching.exact and getattr(rewards, "exact", False)
        return em.Start(index, switching.to(self.device_), rewards, em.Monitor(stopping, exact=exact))

    def _run_start(
        self,
        start: em.Start,
        train: Prepared,
        validation: Prepared | None,
        path: Path | None,
        saved: Path | None,
        on_iteration: em.OnIteration | None,
    ) -> em.Start:
        if saved is not None:
            if em.load_start(start, saved, train):
                return start
        else:
            self._first_point(start, train)
        em.fit_start(
            start, train, validation, seed=self.seed, n_starts=self.n_starts, checkpoint=path, on_iteration=on_iteration
        )
        if path is not None:
            em.save_start(start, path)
        return start

    def _keep_best(self, starts: list[em.Start], train: Prepared) -> None:
        best = max(starts, key=lambda start: start.score)
        self.switching_, self.rewards_model_ = best.switching, best.rewards
        self.converged_ = best.monitor.converged
        self.n_iterations_ = best.monitor.best
        self.history_ = [{"start": start.index, **row} for start in starts for row in start.monitor.rows]
        self.starts_ = [
            {
                "score": start.score,
                "iterations": len(start.monitor.rows) - 1,
                "converged": start.monitor.converged,
                "seconds": start.seconds,
                "best": start is best,
            }
            for start in starts
        ]
        equals = [s for s in starts if s is not best and s.score > best.score - AGREEMENT_MARGIN]
        found = (self._posterior_of(s.switching, s.rewards, train) for s in (best, *equals))
        labels = [train.collect(posterior.responsibilities.argmax(1)) for posterior in found] if equals else []
        self.agreement_ = agreement(labels) if equals else None
        self.n_equal_starts_ = len(equals) + 1

    def _recount(self, everything: Prepared) -> None:
        """Count the policies once more on all trajectories, now that validation has decided what it had to decide."""
        posterior = self._posterior_of(self.switching_, self.rewards_model_, everything)
        self.rewards_model_.maximise(everything, posterior.responsibilities)

    def _check_parameters(self, demos: Demonstrations) -> None:
        whole = {"n_intentions": 1, "history": 1, "max_iterations": 0, "n_starts": 1, "seed": 0}
        if self.patience is not None:
            whole["patience"] = 1
        if self.history == "auto":
            del whole["history"]
        if "auto" in (self.history, getattr(self, "backoff", None)) and not self.validation_fraction:
            raise InputError(
                'history="auto" and backoff="auto" are chosen on validation trajectories; set validation_fraction '
                "above 0, or give numbers."
            )
        self._check_numbers(whole, integer=True)
        self._check_numbers({"validation_fraction": 0, "discount": 0}, below=1)
        if getattr(self, "smoothing", 1.0) == 0 and self.validation_fraction:
            raise InputError(
                "With smoothing=0 an action that was never seen has probability 0, and no validation trajectory can be "
                "scored; set a small smoothing such as 0.01, or validation_fraction=0."
            )
        pairs = len(np.unique(demos.states.astype(np.int64) * demos.n_actions + demos.actions))
        if self.n_intentions > pairs:
            raise InputError(
                f"{self.n_intentions} intentions cannot be told apart: only {pairs} different (state, action) pairs "
                "occur; ask for fewer intentions or give more data."
            )

    def _check_numbers(self, lowest: Mapping[str, float], *, below: float = np.inf, integer: bool = False) -> None:
        """Parameters must be numbers (whole ones) of at least ``lowest`` and less than ``below``."""
        for name, low in lowest.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Integral if integer else Real):
                raise InputError(f"{name} must be a {'whole ' if integer else ''}number, not {value!r}.")
            if not low <= float(value) < below:
                limit = "" if below == np.inf else f" and below {below}"
                raise InputError(f"{name} must be at least {low}{limit}, not {value}.")

    def _check_fitted(self) -> None:
        if not hasattr(self, "mdp_"):  # the last thing that a fit sets
            raise NotFittedError(f"This {type(self).__name__} is not fitted yet; call fit first.")

    # -- inference -------------------------------------------------------------------------------------------------

    def _posterior_of(self, switching: Switching, rewards: RewardModel, data: Prepared) -> Posterior:
        return switching.expectation(data, torch.from_numpy(rewards.log_likelihood(data)))

    def posterior(self, demos: Demonstrations) -> Posterior:
        """All beliefs about the intention of every step; see `switching.base.Posterior`."""
        data = self._prepare(self._check_new(demos))
        return self._posterior_of(self.switching_, self.rewards_model_, data)

    def predict_proba(self, demos: Demonstrations) -> FloatArray:
        """P(z_t=k | everything), (n, K): smoothed for a chain, Eq. (posterior) for a gate."""
        return self.posterior(demos).responsibilities

    def filter_proba(self, demos: Demonstrations) -> FloatArray:
        """P(z_t=k | s_≤t, a_≤t), (n, K): what `filter` gives step by step."""
        return self.posterior(demos).filtered

    def action_proba(self, demos: Demonstrations) -> FloatArray:
        """p(a | s_≤t, a_<t), (n, A)."""
        data = self._prepare(self._check_new(demos))

        def policy_of(batch: Batch) -> Tensor:
            steps = batch.steps.cpu().numpy()
            policies = self.rewards_model_.policies_at(data.rows[steps.reshape(-1)])
            return torch.from_numpy(policies.reshape(*steps.shape, *policies.shape[1:])).to(batch.mask.device)

        emission = torch.from_numpy(self.rewards_model_.log_likelihood(data))
        return self.switching_.action_proba(data, emission, policy_of)

    @property
    def leaks(self) -> bool:
        """True for a gate that reads the current action."""
        self._check_fitted()
        return not self.switching_.normalised

    def log_likelihood(self, demos: Demonstrations) -> FloatArray:
        """Log p(a_t | s_≤t, a_<t), (n,); straight from the E-step where its prior has not seen a_t."""
        self._check_fitted()
        if self.switching_.normalised:
            return self.posterior(demos).log_likelihood
        return super().log_likelihood(demos)

    def paper_score(self, demos: Demonstrations) -> float:
        """Mean of log Σ_k f(φ_t)_k π_k(a_t | s_t); not a likelihood when φ_t holds a_t."""
        return float(self.posterior(demos).log_likelihood.mean())

    def filter(self) -> IntentionFilter:
        """Return a streaming filter: one (state, action) in, K probabilities out."""
        self._check_fitted()
        return IntentionFilter(self.switching_, self.rewards_model_, self.contexts_, self.device_)

    def sample(self, n_trajectories: int = 1, length: int = 100, seed: int = 0) -> Demonstrations:
        """Simulate from the fitted model; the labels are the intentions drawn."""
        self._check_fitted()
        return simulate(
            self.switching_,
            self.rewards_model_,
            self.contexts_,
            self.mdp_,
            self.start_states_,
            n_trajectories=n_trajectories,
            length=length,
            generator=np.random.default_rng(seed),
            device=self.device_,
        )

    # -- rewards ---------------------------------------------------------------------------------------------------

    @property
    def policies_(self) -> FloatArray:
        """π_k(a | context), (K, C, A); C = S with history 1."""
        self._check_fitted()
        rows = np.arange(self.contexts_.n_contexts)
        return np.ascontiguousarray(self.rewards_model_.policies_at(rows).transpose(1, 0, 2))

    def _solution(self) -> InverseSolution:
        """IAVI per state, solved on first use: likelihoods never need it. With histories, averaged over contexts."""
        self._check_fitted()
        if not hasattr(self, "solution_"):
            solution = self._context_solution()
            if self.contexts_.parents:
                solution = average_solution(self.contexts_, solution, self._visits())
            self.solution_ = solution
        return self.solution_

    def _context_solution(self) -> InverseSolution:
        """IAVI on the MDP of the contexts that occur (`rewards.augmented`); with history 1, on the MDP itself."""
        self._check_fitted()
        if not hasattr(self, "context_solution_"):
            mdp = augmented_mdp(self.mdp_, self.contexts_) if self.contexts_.parents else self.mdp_
            policies, counts = self.policies_, self.rewards_model_.state().get("counts")
            self.context_solution_ = solve_iavi(mdp, policies, visits=counts, floor=_floor(policies, mdp))
        return self.context_solution_

    def _visits(self) -> FloatArray:
        """Weighted visits of every context, (K, C); of every state alone where the reward model does not count."""
        counts = self.rewards_model_.state().get("counts")
        if counts is not None:
            return own_visits(self.contexts_, counts)
        states = np.arange(self.contexts_.n_contexts) < self.n_states_
        return np.tile(states.astype(np.float64), (self.n_intentions, 1))

    @property
    def context_rewards_(self) -> FloatArray:
        """r_k(c, a) of every context, (K, C, A): what the policies, which may remember, are optimal for."""
        return self._context_solution().rewards

    @property
    def context_q_(self) -> FloatArray:
        """Q_k(c, a), (K, C, A); softmax(Q_k(c, ·)) is the policy π_k(·|c) exactly."""
        return self._context_solution().q

    @property
    def context_values_(self) -> FloatArray:
        """V_k(c), (K, C)."""
        return self._context_solution().values

    @property
    def rewards_(self) -> FloatArray:
        """r_k(s, a), (K, S, A). With longer histories: mean of `context_rewards_` over the visits of each state."""
        return self._solution().rewards

    @property
    def q_(self) -> FloatArray:
        """Q_k(s, a), (K, S, A). With longer histories: mean of `context_q_` over the visits of each state."""
        return self._solution().q

    @property
    def values_(self) -> FloatArray:
        """V_k(s), (K, S). With longer histories: mean of `context_values_` over the visits of each state."""
        return self._solution().values

    @property
    def unvisited_(self) -> npt.NDArray[np.bool_] | None:
        """States whose reward under intention k is an echo of other states, (K, S)."""
        return self._solution().unvisited

    # -- saving ----------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Both halves, contexts, dynamics and start states."""
        valid = {} if self.valid_actions_ is None else {"valid_actions": self.valid_actions_}
        return {
            **storage.prefixed("switching", self.switching_.state_dict()),
            **storage.prefixed("rewards", self.rewards_model_.state()),
            **storage.prefixed("contexts", self.contexts_.state()),
            **storage.prefixed("mdp", self.mdp_.state()),
            **storage.prefixed("data", {"start_states": self.start_states_, **valid}),
        }

    def info(self) -> dict[str, Any]:
        """Sizes and what the monitor concluded."""
        return {
            **super().info(),
            "n_observations": self.n_observations_,
            "backoff": self.backoff_,
            "history_choice": self.history_choice_,
            "discount": self.mdp_.discount,
            "agreement": self.agreement_,
            "n_equal_starts": self.n_equal_starts_,
            "converged": self.converged_,
            "n_iterations": self.n_iterations_,
            "starts": self.starts_,
            "history_rows": self.history_,
        }

    def load_state(self, tensors: dict[str, Any], info: dict[str, Any]) -> None:
        """Rebuild the halves, then fill them."""
        self.n_states_, self.n_actions_ = int(info["n_states"]), int(info["n_actions"])
        self.n_observations_ = int(info["n_observations"])
        self.device_ = available_device(self.device)
        contexts, dynamics, data = (
            {name: value.numpy() for name, value in storage.part(prefix, tensors).items()}
            for prefix in ("contexts", "mdp", "data")
        )
        self.contexts_ = Contexts.from_state(self.n_states_, contexts)
        self.history_length_, self.backoff_ = self.contexts_.length, float(info["backoff"])
        self.history_choice_ = info["history_choice"]
        self.mdp_ = MDP.from_state(self.n_states_, float(info["discount"]), dynamics)
        self.valid_actions_ = data.get("valid_actions")
        self.start_states_ = data["start_states"]
        self.agreement_, self.n_equal_starts_ = info["agreement"], int(info["n_equal_starts"])
        self.converged_, self.n_iterations_ = bool(info["converged"]), int(info["n_iterations"])
        self.starts_, self.history_ = info["starts"], info["history_rows"]
        start = self._new_start(0, self._like_training_data())
        start.restore({name: value for name, value in tensors.items() if name.startswith(("switching.", "rewards."))})
        self.switching_, self.rewards_model_ = start.switching, start.rewards

    def _like_training_data(self) -> Demonstrations:
        """One step with the sizes of the training data: all that `_build` looks at."""
        action = 0 if self.valid_actions_ is None else int(np.argmax(self.valid_actions_[0]))
        observations = np.zeros((1, self.n_observations_), np.float32) if self.n_observations_ else None
        return Demonstrations(
            np.zeros(1, np.int64),
            np.array([action]),
            np.array([0, 1]),
            self.n_states_,
            self.n_actions_,
            observations=observations,
            valid_actions=self.valid_actions_,
        )


def _floor(policies: FloatArray, mdp: MDP) -> float:
    """The authors' 1e-6 where a valid action has probability zero, else nothing."""
    return 1e-6 if (policies[:, mdp.valid_actions] <= 0).any() else 0.0
