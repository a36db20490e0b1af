"""PRISM: intentions from a recurrent prior and weighted-count policies (Sheng, Zhu & Boedecker).

`switching="recurrent"` (default) is a chain over intentions whose kernel a recurrent network reads from the history:
it keeps the likelihood of the paper's gate and recovers the true intentions. `switching="independent"` is the
paper's gate, `switching="markov"` a constant chain. `PRISM.paper(...)` gives the paper's own models.
"""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np

from prism_irl import em
from prism_irl.data.batching import Prepared
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.models.pair import PairModel
from prism_irl.models.starts import StartKind
from prism_irl.rewards.base import RewardModel
from prism_irl.rewards.tabular import TabularPolicies
from prism_irl.switching.base import Switching
from prism_irl.switching.chain import Chain
from prism_irl.switching.gate import Gate
from prism_irl.switching.markov import MarkovChain
from prism_irl.switching.networks import HistoryNetwork, NetworkName
from prism_irl.switching.optimiser import Optimiser
from prism_irl.switching.recurrent import RecurrentChain

SwitchingName = Literal["recurrent", "independent", "markov"]

PAPER: dict[str, dict[str, Any]] = {
    "gridworld": {"n_intentions": 2, "max_iterations": 180, "discount": 0.9},
    "labyrinth": {"n_intentions": 3, "max_iterations": 180, "discount": 0.97, "l1": 2.22, "kl": 1.48},
    "bridge": {"n_intentions": 4, "max_iterations": 150, "discount": 0.97},
}
"""Table hparams; the gridworld is not in it, so there the labyrinth's network without penalties stands in."""


class PRISM(PairModel):
    """Probabilistic Recurrent Intention Switching Model.

    Parameters
    ----------
    n_intentions : int
        Number of intentions K. Likelihood alone does not choose it; look at dwell and agreement too.
    switching : {"recurrent", "independent", "markov"}
        How intentions switch. Recurrent switching predicts like the gate and finds intentions that last.
    network : {"rnn", "lstm", "gru", "transformer"}
        What reads the history. The paper's RNN suffices on small data; a GRU learns faster.
    observe : {"past", "current"}
        The network sees (s_t, a_{t-1}), or the paper's (s_t, a_t), whose score is not a likelihood.
    history : int or "auto"
        Policies depend on the last ``history`` states. More predicts better and means less. "auto" chooses 1 to 6 by
        likelihood on the validation trajectories (`models.histories`).
    l1, kl : float
        Penalties of Eq. (loss), for the independent gate. Zero as in the paper except on the labyrinth.
    switch_penalty : float
        Penalty on the switching mass per step, for recurrent switching. 0.05 keeps long training from cutting
        intentions into actions; more gives longer segments.
    smoothing : float
        Pseudo-count per action and state. A hundredth of a visit: enough to keep rare actions possible.
    backoff : float or "auto"
        Strength of the shrinkage of longer histories towards shorter ones, in steps: 3 to 8 work for 2 nodes, 16 to 64
        for 4 and more. "auto" chooses it on the validation trajectories.
    embedding, hidden : int
        Sizes of the network, 128 as in the paper.
    learning_rate, batch_size, epochs_per_m_step : Adam on minibatches of trajectories, as in the paper
        (which uses 8 epochs for the Transformer).
    max_iterations : int
        EM iterations at most, 180 as in the paper; early stopping usually ends sooner.
    n_starts : int
        Independent starts; the best by validation likelihood is kept and the others tell whether it is stable.
    warm_up : int
        Markov-chain EM iterations before a chain begins: cheap, and they bring the start to a region where there is
        something to refine. The gate starts without.
    n_candidates : int
        First points per start that are warmed up; the likeliest (on training data) goes on.
    validation_fraction : float
        Share of the training trajectories that decides when to stop and which start to keep.
    recount : bool
        In the end count the policies on all trajectories, those of validation included, which long histories need;
        scores on the validation trajectories are then no longer held out.
    patience : int or None
        Iterations without a rise in validation likelihood before stopping; None runs all.
    discount : float
        γ of the rewards, 0.97 as in the paper. Likelihood and labels do not depend on it.
    starts : {"mixed", "windows", "random", "annealed"}
        Kinds of first responsibilities (`models.starts`); "mixed" alternates between windows and random. Annealed
        starts, for chains only, find the best optimum of few intentions most reliably.
    device : {"auto", "cpu", "cuda"}
    seed : int
        The one source of randomness.
    """

    def __init__(
        self,
        n_intentions: int = 3,
        *,
        switching: SwitchingName = "recurrent",
        network: NetworkName = "rnn",
        observe: Literal["past", "current"] = "past",
        history: int | Literal["auto"] = 1,
        l1: float = 0.0,
        kl: float = 0.0,
        switch_penalty: float = 0.05,
        smoothing: float = 0.01,
        backoff: float | Literal["auto"] = 5.0,
        embedding: int = 128,
        hidden: int = 128,
        learning_rate: float = 1e-3,
        batch_size: int = 32,
        epochs_per_m_step: int = 1,
        max_iterations: int = 180,
        n_starts: int = 4,
        warm_up: int = 25,
        n_candidates: int = 3,
        validation_fraction: float = 0.1,
        recount: bool = False,
        patience: int | None = 10,
        discount: float = 0.97,
        starts: Literal["mixed", "windows", "random", "annealed"] = "mixed",
        device: str = "auto",
        seed: int = 0,
    ) -> None:
        self.n_intentions = n_intentions
        self.switching = switching
        self.network = network
        self.observe = observe
        self.history = history
        self.l1 = l1
        self.kl = kl
        self.switch_penalty = switch_penalty
        self.smoothing = smoothing
        self.backoff = backoff
        self.embedding = embedding
        self.hidden = hidden
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.epochs_per_m_step = epochs_per_m_step
        self.max_iterations = max_iterations
        self.n_starts = n_starts
        self.warm_up = warm_up
        self.n_candidates = n_candidates
        self.validation_fraction = validation_fraction
        self.recount = recount
        self.patience = patience
        self.discount = discount
        self.starts = starts
        self.device = device
        self.seed = seed

    @classmethod
    def paper(cls, experiment: str, **changes: Any) -> Self:
        """Return the paper's model and Table hparams: "gridworld", "labyrinth" or "bridge".

        Independent gate on the current action, one random start, all iterations, no validation data.
        """
        if experiment not in PAPER:
            raise InputError(f"The paper has no experiment {experiment!r}; choose {', '.join(PAPER)}.")
        settings: dict[str, Any] = {
            "switching": "independent",
            "observe": "current",
            "n_starts": 1,
            "starts": "random",
            "validation_fraction": 0.0,
            "patience": None,
            "seed": 42,
            **PAPER[experiment],
        }
        if changes.get("network") == "transformer":
            settings["epochs_per_m_step"] = 8
        return cls(**{**settings, **changes})

    def _check_parameters(self, demos: Demonstrations) -> None:
        super()._check_parameters(demos)
        choices = {
            "switching": ("recurrent", "independent", "markov"),
            "network": ("rnn", "lstm", "gru", "transformer"),
            "observe": ("past", "current"),
            "starts": ("mixed", "windows", "random", "annealed"),
        }
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise InputError(f"{name} is {getattr(self, name)!r}; choose {', '.join(allowed)}.")
        if self.observe == "current" and self.switching != "independent":
            raise InputError('observe="current" belongs to switching="independent" (the paper); chains see the past.')
        if self.starts == "annealed" and self.switching == "independent":
            raise InputError('starts="annealed" belongs to chains; give switching="markov" or "recurrent".')
        sizes = ("n_candidates", "embedding", "hidden", "batch_size", "epochs_per_m_step")
        self._check_numbers({"warm_up": 0, **dict.fromkeys(sizes, 1)}, integer=True)
        self._check_numbers(dict.fromkeys(("l1", "kl", "switch_penalty", "smoothing", "learning_rate"), 0))
        if self.backoff != "auto":
            self._check_numbers({"backoff": 0})
        if self.learning_rate == 0:
            raise InputError("learning_rate must be above 0; with 0 the network would never learn.")

    def _start_kinds(self) -> tuple[StartKind, ...]:
        return ("windows", "random") if self.starts == "mixed" else (self.starts,)

    def _build(self, demos: Demonstrations) -> tuple[Switching, RewardModel]:
        rewards = TabularPolicies(
            self.n_intentions,
            demos.n_actions,
            self.contexts_,
            demos.valid_actions,
            smoothing=self.smoothing,
            backoff=self.backoff_,
        )
        if self.switching == "markov":
            return MarkovChain(self.n_intentions), rewards
        recurrent = self.switching == "recurrent"
        network = HistoryNetwork(
            self.network,
            n_states=demos.n_states,
            n_actions=demos.n_actions,
            n_observations=self.n_observations_,
            n_outputs=self.n_intentions ** (2 if recurrent else 1),
            embedding=self.embedding,
            hidden=self.hidden,
            observe=self.observe,
            # Small tables and an almost silent head: the chain begins as the Markov chain that warmed it up.
            token_scale=0.5 if recurrent else 1.0,
            head_scale=0.1 if recurrent else 1.0,
            interaction=recurrent,
        )
        optimiser = Optimiser(self.learning_rate, self.batch_size, self.epochs_per_m_step)
        if recurrent:
            chain = RecurrentChain(network, self.n_intentions, switch_penalty=self.switch_penalty, optimiser=optimiser)
            return chain, rewards
        return Gate(network, self.n_intentions, l1=self.l1, kl=self.kl, optimiser=optimiser), rewards

    def _begin(self, start: em.Start, train: Prepared, kind: StartKind, generator: np.random.Generator) -> None:
        """Chains begin with the best of a few short Markov chains; the gate begins as in the paper."""
        if (self.warm_up == 0 and kind != "annealed") or not isinstance(start.switching, Chain):
            return super()._begin(start, train, kind, generator)
        found = self._begin_with_chain(
            start, train, kind, generator, candidates=self.n_candidates, iterations=self.warm_up
        )
        start.switching.take_over(found)
        return None
