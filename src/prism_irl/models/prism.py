"""PRISM: any switching with any rewards (Sheng, Zhu & Boedecker, and beyond).

`switching="recurrent"` (default) is a chain over intentions whose kernel a recurrent network reads from the history:
it keeps the likelihood of the paper's gate and recovers the true intentions. `switching="independent"` is the paper's
gate. `PRISM.paper(...)` gives the paper's own models; `models.registry` has the pairs that somebody published.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

from prism_irl import halves
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.models.pair import PairModel
from prism_irl.rewards import REWARDS
from prism_irl.rewards.options import RewardOptions
from prism_irl.switching import NETWORKS, SWITCHING, NetworkName
from prism_irl.switching.options import SwitchingOptions

PAPER: dict[str, dict[str, Any]] = {
    "gridworld": {"n_intentions": 2, "max_iterations": 180, "discount": 0.9},
    "labyrinth": {"n_intentions": 3, "max_iterations": 180, "discount": 0.97, "l1": 2.22, "kl": 1.48},
    "bridge": {"n_intentions": 4, "max_iterations": 150, "discount": 0.97},
}
"""Table hparams; the gridworld is not in it, so there the labyrinth's network without penalties stands in."""

DEFAULTS: Mapping[str, Any] = {
    "history": 1,
    "backoff": 5.0,
    "max_iterations": 180,
    "n_starts": 4,
    "warm_up": 25,
    "n_candidates": 3,
    "discount": 0.97,
    "network": "rnn",
    "embedding": 128,
    "hidden": 128,
    "learning_rate": 1e-3,
}
"""What is used where neither the user nor a half of the pair says otherwise."""
BY_PAIR: Any = None
"""Stands for a default that the pair chooses."""


@dataclass(eq=False, repr=False, kw_only=True)
class PRISM(PairModel):
    """Probabilistic Recurrent Intention Switching Model: a pair of switching and rewards.

    What several halves share is a parameter here; what belongs to one half alone is an option of that half, which is
    then given instead of its name: ``PRISM(3, switching=State(kernel="table"), rewards=Goals(sparsity=20))``.

    Parameters
    ----------
    n_intentions : int
        Number of intentions K. Likelihood alone does not choose it; look at dwell and agreement too.
    switching : str or options
        When intentions switch: single, per-trajectory, independent, markov, semi-markov, state, ordered or recurrent.
        Recurrent switching predicts like the gate and finds intentions that last.
    rewards : {"tabular", "iql", "soft-1", "soft-2", "goals", "features"} or options
        What each intention is after. Free policies (tabular) predict best; planned goals on a habit explain best.
    network : {"rnn", "lstm", "gru", "transformer"}
        What reads the history: the paper's RNN for its gate, a GRU for recurrent switching, which predicts unseen
        trajectories of three simulated worlds better with it (`benchmarks/default_network.py`).
    observe : {"past", "current"}
        The network sees (s_t, a_{t-1}), or the paper's (s_t, a_t), whose score is not a likelihood.
    history : int or "auto"
        Policies depend on the last ``history`` states. More predicts better and means less. "auto" chooses 1 to 6 by
        likelihood on the validation trajectories (`models.histories`). 1, and "auto" for the habit of goals.
    l1, kl : float
        Penalties on changes of the independent gate from step to step, by their size (l1) and their divergence (kl):
        those of the paper's loss. Zero as in the paper except on the labyrinth.
    switch_penalty : float
        Penalty on the switching mass per step, for recurrent switching. 0.05 keeps long training from cutting
        intentions into actions; more gives longer segments.
    smoothing : float
        Pseudo-count per action and state. A hundredth of a visit: enough to keep rare actions possible.
    backoff : float or "auto"
        Strength of the shrinkage of longer histories towards shorter ones, in steps: 3 to 8 work for 2 nodes, 16 to 64
        for 4 and more. "auto" chooses it on the validation trajectories. 5, and "auto" for the habit of goals.
    individuals : bool
        Every animal (group of trajectories) may do some things more often than the others do, whatever it wants
        (`rewards.accents`); how much it may differ is chosen on validation trajectories. A new animal does as all do.
    embedding, hidden : int
        Sizes of the network, 128 as in the paper; 32 for recurrent switching, whose kernel has less to say.
    learning_rate, batch_size, epochs_per_m_step : Adam on minibatches of trajectories
        1e-3, 32 and 1 as in the paper (which uses 8 epochs for the Transformer); 3e-3 for recurrent switching.
    max_iterations : int
        EM iterations at most, 180 as in the paper; early stopping usually ends sooner. 80 for soft rewards, 15 for
        goals, whose search has done most of the work.
    n_starts : int
        Independent starts; the best by the likelihood of stop_by is kept, the others tell whether it is stable. 4, and
        3 for goals.
    warm_up : int
        Markov-chain EM iterations before a chain begins: cheap, and they bring the start to a region where there is
        something to refine. The gate starts without. 25, and 15 for soft rewards.
    n_candidates : int
        First points per start that are warmed up; the likeliest (on training data) goes on. 3, and 2 for soft rewards.
    validation_fraction : float
        Share of the training trajectories that is not trained on, and decides what stop_by and "auto" let it decide.
    stop_by : {"auto", "validation", "training"}
        Whose likelihood decides when to stop and which start to keep; "auto" is training where both halves of the pair
        are exact (Markov or per-trajectory switching, policies without memory), which then leaves the validation
        trajectories held out, and validation where networks or long memories could overfit.
    recount : bool
        In the end count the policies on all trajectories, those of validation included, which long histories need;
        the validation score is then that from before.
    patience : int or None
        Iterations without a rise of the likelihood of stop_by before stopping; None runs all.
    discount : float
        How much the next step counts beside this one in the rewards: 0.97 as in the paper, 0.95 for soft rewards as in
        SWIRL. Likelihood and labels depend on it only where intentions plan.
    starts : {"mixed", "windows", "random", "annealed"}
        Kinds of first responsibilities (`models.starts`); "mixed" alternates between windows and random. Annealed
        starts, for chains only, find the best optimum of few intentions most reliably.
    device : {"auto", "cpu", "cuda"}
    seed : int
        The one source of randomness.
    """

    switching: str | SwitchingOptions = "recurrent"
    rewards: str | RewardOptions = "tabular"
    network: NetworkName = BY_PAIR
    observe: Literal["past", "current"] = "past"
    history: int | Literal["auto"] = BY_PAIR
    l1: float = 0.0
    kl: float = 0.0
    switch_penalty: float = 0.05
    smoothing: float = 0.01
    backoff: float | Literal["auto"] = BY_PAIR
    individuals: bool = False
    embedding: int = BY_PAIR
    hidden: int = BY_PAIR
    learning_rate: float = BY_PAIR
    batch_size: int = 32
    epochs_per_m_step: int = 1
    max_iterations: int = BY_PAIR
    n_starts: int = BY_PAIR
    warm_up: int = BY_PAIR
    n_candidates: int = BY_PAIR
    recount: bool = False
    discount: float = BY_PAIR
    starts: Literal["mixed", "windows", "random", "annealed"] = "mixed"

    def __post_init__(self) -> None:
        """Let the pair fill in what was not said."""
        left = [name for name in DEFAULTS if getattr(self, name) is BY_PAIR]
        if left:
            found = {**DEFAULTS, **defaults_of(self.switching, self.rewards)}
            for name in left:
                setattr(self, name, found[name])

    def _check_parameters(self, demos: Demonstrations) -> None:
        super()._check_parameters(demos)
        # also what the halves chosen do not read: a wrong number is a mistake all the same
        halves.check_numbers(self, dict.fromkeys(("l1", "kl", "switch_penalty", "smoothing", "learning_rate"), 0))
        halves.check_choice(self, network=NETWORKS, observe=("past", "current"))

    def _halves(self) -> tuple[Any, Any]:
        return self.switching, self.rewards

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
            "network": "rnn",
            "embedding": 128,
            "hidden": 128,
            "learning_rate": 1e-3,
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

    @classmethod
    def annealed(cls, n_intentions: int = 3, history: int | Literal["auto"] = 1, **memory: Any) -> Self:
        """Return HIQL's chain, looked for harder: annealed starts.

        Without memory there is little to overfit, and starts are compared on all trajectories: good optima differ by
        less than a tenth of the data can tell. Memory needs validation trajectories, to choose its length and to stop.
        """
        settings: dict[str, Any] = {"starts": "annealed", "n_starts": 8, "n_candidates": 1, "device": "cpu"}
        if history == 1:
            settings["validation_fraction"] = 0.0
        return cls(n_intentions, switching="markov", history=history, **{**settings, **memory})


def defaults_of(switching: Any, rewards: Any) -> dict[str, Any]:
    """Parameters of `PRISM` that the halves of a pair prefer; nothing where a name is wrong, which `fit` will say."""
    found: dict[str, Any] = {}
    for what, given, known in (("switching", switching, SWITCHING), ("rewards", rewards, REWARDS)):
        try:
            half = halves.options_class(what, given, known) if isinstance(given, str) else given
        except InputError:
            continue
        found |= dict(getattr(half, "defaults", {}))
    return found
