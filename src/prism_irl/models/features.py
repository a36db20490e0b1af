"""PRISM with policies that share parameters across states: for robots, whose tokens are too fine for tables.

`policies="gaussian"` explains continuous commands (`motions.MotionDemonstrations`), `policies="softmax"` action tokens
from observation vectors; both work with every switching model, and `ordered=True` lets a demonstration pass through the
intentions once, in order. The score of Gaussian policies is a log *density*: compare it with other densities of the
same commands, never with the likelihood of tokens.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from prism_irl import em
from prism_irl.data.batching import Batch, Prepared
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.motions import MotionDemonstrations
from prism_irl.errors import InputError
from prism_irl.models.base import FloatArray
from prism_irl.models.pair import PairModel
from prism_irl.models.prism import SwitchingName
from prism_irl.models.starts import StartKind
from prism_irl.models.streaming import IntentionFilter
from prism_irl.rewards.base import RewardModel
from prism_irl.rewards.features import GaussianPolicies, SoftmaxPolicies, with_motions
from prism_irl.rewards.tabular import TabularPolicies
from prism_irl.switching.base import Switching
from prism_irl.switching.chain import Chain
from prism_irl.switching.gate import Gate
from prism_irl.switching.markov import MarkovChain
from prism_irl.switching.networks import HistoryNetwork, NetworkName
from prism_irl.switching.optimiser import Optimiser
from prism_irl.switching.ordered import OrderedChain, OrderedRecurrentChain
from prism_irl.switching.recurrent import RecurrentChain

WINDOWS = (4, 8, 12)
"""Steps of the windows that starts cluster; phases of manipulation last about that long."""
SURE = 0.8


class FeaturePRISM(PairModel):
    """Intentions with policies linear in features.

    Parameters
    ----------
    n_intentions : int
        Number of intentions K.
    policies : {"gaussian", "softmax"}
        Over continuous commands, or over action tokens.
    switching : {"markov", "recurrent", "independent"}
        How intentions switch. The networks read tokens and, where there are any, observations.
    ordered : bool
        Every demonstration passes through the intentions once, in order; for chains.
    network : {"rnn", "lstm", "gru", "transformer"}
        What reads the history.
    ridge : float
        Strength of the prior on the weights; one is far below what a few hundred steps say.
    noise, noise_strength : float
        Prior variance of a command, and how many commands it is worth.
    switch_penalty, embedding, hidden, learning_rate, batch_size, epochs_per_m_step : see `PRISM`
        Small by default: robot data sets have hundreds of demonstrations.
    warm_up : int
        Markov-chain EM iterations before a recurrent chain begins.
    max_iterations, n_starts, validation_fraction, patience, discount, device, seed : see `PRISM`
    """

    history = 1

    def __init__(
        self,
        n_intentions: int = 5,
        *,
        policies: Literal["gaussian", "softmax"] = "gaussian",
        switching: SwitchingName = "markov",
        ordered: bool = False,
        network: NetworkName = "gru",
        ridge: float = 1.0,
        noise: float = 0.01,
        noise_strength: float = 10.0,
        switch_penalty: float = 0.05,
        embedding: int = 16,
        hidden: int = 16,
        learning_rate: float = 3e-3,
        batch_size: int = 32,
        epochs_per_m_step: int = 1,
        warm_up: int = 30,
        max_iterations: int = 100,
        n_starts: int = 8,
        validation_fraction: float = 0.1,
        patience: int | None = 10,
        discount: float = 0.97,
        device: str = "cpu",
        seed: int = 0,
    ) -> None:
        self.n_intentions = n_intentions
        self.policies = policies
        self.switching = switching
        self.ordered = ordered
        self.network = network
        self.ridge = ridge
        self.noise = noise
        self.noise_strength = noise_strength
        self.switch_penalty = switch_penalty
        self.embedding = embedding
        self.hidden = hidden
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.epochs_per_m_step = epochs_per_m_step
        self.warm_up = warm_up
        self.max_iterations = max_iterations
        self.n_starts = n_starts
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.discount = discount
        self.device = device
        self.seed = seed

    # -- the pair --------------------------------------------------------------------------------------------------

    def _build(self, demos: Demonstrations) -> tuple[Switching, RewardModel]:
        return self._build_switching(demos), self._build_policies(demos)

    def _build_policies(self, demos: Demonstrations) -> RewardModel:
        K, A = self.n_intentions, demos.n_actions
        if self.policies == "softmax":
            width = self.n_observations_
            return SoftmaxPolicies(K, A, width, self.contexts_, demos.valid_actions, ridge=self.ridge)
        found = with_motions(demos)
        assert isinstance(demos, MotionDemonstrations)
        assert demos.noise_blocks is not None
        return GaussianPolicies(
            K,
            found.design.shape[2],
            demos.noise_blocks,
            TabularPolicies(K, A, self.contexts_, demos.valid_actions),
            ridge=self.ridge,
            noise=self.noise,
            noise_strength=self.noise_strength,
        )

    def _build_switching(self, demos: Demonstrations) -> Switching:
        K = self.n_intentions
        if self.switching == "markov":
            return self._markov()
        recurrent = self.switching == "recurrent"
        network = HistoryNetwork(
            self.network,
            n_states=demos.n_states,
            n_actions=demos.n_actions,
            n_observations=self.n_observations_,
            n_outputs=K * K if recurrent else K,
            embedding=self.embedding,
            hidden=self.hidden,
            observe="past",
            token_scale=0.5 if recurrent else 1.0,
            head_scale=0.1 if recurrent else 1.0,
            interaction=False,
        )
        optimiser = Optimiser(self.learning_rate, self.batch_size, self.epochs_per_m_step)
        if not recurrent:
            return Gate(network, K, l1=0.0, kl=0.0, optimiser=optimiser)
        kind = OrderedRecurrentChain if self.ordered else RecurrentChain
        return kind(network, K, switch_penalty=self.switch_penalty, optimiser=optimiser)

    def _markov(self) -> MarkovChain:
        return OrderedChain(self.n_intentions) if self.ordered else MarkovChain(self.n_intentions)

    # -- starts ----------------------------------------------------------------------------------------------------

    def _start_kinds(self) -> tuple[StartKind, ...]:
        return ("windows",)

    def _first(self, train: Prepared, kind: StartKind, generator: np.random.Generator) -> FloatArray:
        """Stretches of random relative length where the order is given, otherwise clusters of short windows."""
        demos, K = train.whole, self.n_intentions
        if K == 1:
            return train.share(np.ones((demos.n_steps, 1)))
        if self.ordered:
            borders = generator.dirichlet(np.full(K, 8.0)).cumsum()[:-1]
            moment = (demos.step_index + 0.5) / np.repeat(demos.lengths, demos.lengths)
            labels = np.searchsorted(borders, moment)
        else:
            labels = window_clusters(self._described(demos), demos, K, generator)
        return train.share(np.eye(K)[labels] * SURE + (1.0 - SURE) / K)

    def _described(self, demos: Demonstrations) -> FloatArray:
        """Every step in a few numbers: how far its command follows each vector of the design, and observations."""
        parts = [] if demos.observations is None else [demos.observations.astype(np.float64)]
        if self.policies == "gaussian":
            found = with_motions(demos)
            parts.insert(0, np.einsum("nmp,nm->np", found.design, found.motions))
        else:
            parts.append(np.eye(demos.n_actions)[demos.actions])
        return np.concatenate(parts, axis=1)

    def _begin(self, start: em.Start, train: Prepared, kind: StartKind, generator: np.random.Generator) -> None:
        """A recurrent chain takes over from a Markov chain that has already found its policies."""
        super()._begin(start, train, kind, generator)
        if not self.warm_up or not isinstance(start.switching, RecurrentChain):
            return
        chain = self._markov().to(self.device_)
        for _ in range(self.warm_up):
            emission = torch.from_numpy(start.rewards.log_likelihood(train))
            posterior = chain.expectation(train, emission, online=False)
            chain.maximise(train, emission, posterior, None)
            start.rewards.maximise(train, posterior.responsibilities)
        start.switching.take_over(chain)

    # -- checks ----------------------------------------------------------------------------------------------------

    def _check_parameters(self, demos: Demonstrations) -> None:
        super()._check_parameters(demos)
        choices = {
            "policies": ("gaussian", "softmax"),
            "switching": ("markov", "recurrent", "independent"),
            "network": ("rnn", "lstm", "gru", "transformer"),
        }
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise InputError(f"{name} is {getattr(self, name)!r}; choose {', '.join(allowed)}.")
        if self.ordered and self.switching == "independent":
            raise InputError("An independent gate has no order of intentions; choose a chain or ordered=False.")
        self._check_numbers({"warm_up": 0, "embedding": 1, "hidden": 1, "batch_size": 1}, integer=True)
        self._check_data(demos)

    def _check_data(self, demos: Demonstrations) -> None:
        if self.policies == "gaussian":
            with_motions(demos)
        elif demos.observations is None:
            raise InputError("Softmax policies on features need observations; give a vector per step.")

    def _set_up(self, demos: Demonstrations) -> None:
        super()._set_up(demos)
        self.n_motions_, self.n_weights_ = 0, 0
        self.noise_blocks_: tuple[int, ...] = ()
        if isinstance(demos, MotionDemonstrations) and demos.design is not None:
            self.n_motions_, self.n_weights_ = demos.design.shape[1:]
            self.noise_blocks_ = demos.noise_blocks or ()

    def _check_new(self, demos: Demonstrations) -> Demonstrations:
        self._check_data(demos)
        if self.policies == "gaussian":
            shape = with_motions(demos).design.shape[1:]
            self._check_fitted()
            if shape != (self.n_motions_, self.n_weights_):
                raise InputError(
                    f"The commands have {shape[0]} dimensions and {shape[1]} design vectors, those of the fit had "
                    f"{self.n_motions_} and {self.n_weights_}."
                )
        return super()._check_new(demos)

    # -- inference -------------------------------------------------------------------------------------------------

    @property
    def is_density(self) -> bool:
        """Whether `score` is a log density of commands instead of a log probability of tokens."""
        return self.policies == "gaussian"

    def action_proba(self, demos: Demonstrations) -> FloatArray:
        """p(a | x_≤t, a_<t), (n, A), of softmax policies; Gaussian ones give tokens no probability."""
        if self.is_density:
            raise InputError(
                "Gaussian policies give a density of the command and no probability of an action token; use "
                'log_likelihood, or policies="softmax".'
            )
        demos = self._check_new(demos)
        rewards = self.rewards_model_
        assert isinstance(rewards, SoftmaxPolicies)
        assert demos.observations is not None
        every = rewards.policies_given(demos.states, demos.observations.astype(np.float64))

        def policy_of(batch: Batch) -> torch.Tensor:
            return torch.from_numpy(every[batch.steps.cpu().numpy()]).to(batch.mask.device)

        data = self._prepare(demos)
        emission = torch.from_numpy(rewards.log_likelihood(data))
        return self.switching_.action_proba(data, emission, policy_of)

    def decode(self, demos: Demonstrations) -> npt.NDArray[np.int64]:
        """Most probable path of a chain as a whole, (n,): at most one pass through the order where there is one."""
        from prism_irl.data.batching import scatter

        demos = self._check_new(demos)
        if not isinstance(self.switching_, Chain):
            return self.predict(demos)
        data = self._prepare(demos)
        emission = torch.from_numpy(self.rewards_model_.log_likelihood(data))
        flat = torch.zeros(demos.n_steps, dtype=torch.int64)
        for batch in data.batches:
            scatter(batch, self.switching_.decode(batch, data.gather(batch, emission)), flat)
        return flat.numpy()

    def filter(self) -> FeatureFilter:
        """Return a streaming filter: one step in, K probabilities out."""
        self._check_fitted()
        return FeatureFilter(self.switching_, self.rewards_model_, self.contexts_, self.device_)

    def sample(self, n_trajectories: int = 1, length: int = 100, seed: int = 0) -> Demonstrations:
        """Refuse: features are measured, not simulated."""
        raise InputError("Policies on features cannot be simulated without a robot; sample from a tabular model.")

    @property
    def weights_(self) -> FloatArray:
        """Weights of every intention: (K, p) for Gaussian policies, (K, A, d + 1) for softmax."""
        self._check_fitted()
        return self.rewards_model_.state()["weights"]

    # -- saving ----------------------------------------------------------------------------------------------------

    def info(self) -> dict[str, Any]:
        """Sizes of the commands as well."""
        blocks = list(self.noise_blocks_)
        return {**super().info(), "n_motions": self.n_motions_, "n_weights": self.n_weights_, "noise_blocks": blocks}

    def load_state(self, tensors: dict[str, Any], info: dict[str, Any]) -> None:
        """Undo `state`."""
        self.n_motions_, self.n_weights_ = int(info["n_motions"]), int(info["n_weights"])
        self.noise_blocks_ = tuple(int(block) for block in info["noise_blocks"])
        super().load_state(tensors, info)

    def _like_training_data(self) -> Demonstrations:
        demos = super()._like_training_data()
        if not self.n_motions_:
            return demos
        empty = np.zeros((1, self.n_motions_)), np.zeros((1, self.n_motions_, self.n_weights_))
        return MotionDemonstrations.of(demos, *empty, noise_blocks=self.noise_blocks_)


class FeatureFilter(IntentionFilter):
    """Online filter over one trajectory, exactly as the batch computes it."""

    def step(
        self,
        state: int,
        action: int,
        observation: npt.ArrayLike | None = None,
        motion: npt.ArrayLike | None = None,
        design: npt.ArrayLike | None = None,
    ) -> FloatArray:
        """Take one step and return P(z_t=k | everything so far), (K,).

        Parameters
        ----------
        state, action : int
            Tokens.
        observation : (d,), optional
            For softmax policies and for networks that were fitted with observations.
        motion : (m,), design : (m, p)
            Command and its vectors, for Gaussian policies.
        """
        rewards = self._rewards
        if isinstance(rewards, GaussianPolicies):
            if motion is None or design is None:
                raise InputError("Gaussian policies filter commands; give motion and design of the step.")
            command = np.asarray(motion, dtype=np.float64)[None], np.asarray(design, dtype=np.float64)[None]
            evidence = rewards.log_density(*command)
            n_actions = rewards.tokens.n_actions
        else:
            assert isinstance(rewards, SoftmaxPolicies)
            if observation is None:
                raise InputError("Softmax policies on features read an observation at every step; give it.")
            seen = np.asarray(observation, dtype=np.float32).astype(np.float64)[None]
            with np.errstate(divide="ignore"):
                evidence = np.log(rewards.policies_given(np.array([state]), seen)[:, :, action])
            n_actions = rewards.n_actions
        vector = None
        if observation is not None:
            vector = torch.as_tensor(np.asarray(observation, dtype=np.float32), device=self._device).unsqueeze(0)
        # The stream asks for policies over tokens to say what may come; the evidence below is all that it weighs.
        uniform = torch.full((1, evidence.shape[1], n_actions), 1.0 / n_actions, dtype=torch.float64)
        self._stream.joint(torch.tensor([state], device=self._device), uniform.to(self._device), vector)
        probabilities = self._stream.update(
            torch.tensor([action], device=self._device), torch.from_numpy(evidence).to(self._device)
        )
        return np.asarray(probabilities[0].cpu().numpy(), dtype=np.float64)


def window_clusters(
    described: FloatArray, demos: Demonstrations, n_clusters: int, generator: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Cluster of the window that each step lies in, (n,), by k-means of the windows' mean descriptions (n, d)."""
    from sklearn.cluster import KMeans

    spread = described.std(axis=0)
    scaled = (described - described.mean(axis=0)) / np.where(spread > 1e-9, spread, 1.0)
    length = int(generator.choice(WINDOWS))
    shift = generator.integers(length, size=demos.n_trajectories)  # so that two starts cut elsewhere
    number = (demos.step_index + np.repeat(shift, demos.lengths)) // length
    key = demos.trajectory_index * (int(demos.lengths.max()) // length + 2) + number
    window = np.unique(key, return_inverse=True)[1]
    total = np.stack([np.bincount(window, column) for column in scaled.T], axis=1)
    means = total / np.bincount(window)[:, None]
    if len(means) <= n_clusters:
        return generator.integers(n_clusters, size=demos.n_steps)
    found = KMeans(n_clusters, n_init=1, random_state=int(generator.integers(2**31))).fit_predict(means)
    return np.asarray(found, dtype=np.int64)[window]
