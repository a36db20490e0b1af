"""Parameters of the estimator of pairs, and the defaults that a pair chooses; nothing here imports numpy or torch.

The command line makes its flags of these fields and of those of the components (`switching.options`,
`rewards.options`), so that the Python interface and the command line cannot drift apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, Literal

from prism_irl import halves
from prism_irl.errors import InputError
from prism_irl.models.default import USUAL_PAIR
from prism_irl.rewards import REWARDS
from prism_irl.rewards.options import RewardOptions
from prism_irl.switching import SWITCHING, NetworkName
from prism_irl.switching.options import SwitchingOptions

DEFAULTS: Mapping[str, Any] = {
    "n_intentions": 3,
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
"""What is used where neither the user nor a component says otherwise."""


class ByPair:
    """A parameter whose default the pair chooses: looked up whenever it is read, so that another pair has its own."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, model: Settings | None, owner: type) -> Any:
        """What was given, else the default of the pair; on the class None, which stands for the latter."""
        if model is None:
            return None
        given = vars(model).get(self.name)
        return model.default_of(self.name) if given is None else given

    def __set__(self, model: Settings, value: Any) -> None:
        vars(model)[self.name] = value


def by_pair() -> Any:
    """A default that the pair chooses, of whatever type the parameter is."""
    return ByPair()


@dataclass(eq=False, repr=False)
class Settings:
    """Parameters of a pair of switching and rewards.

    What several components share is a parameter here; what belongs to one alone is an option of that component, which
    is then given instead of its name: ``Intentions(3, switching=State(kernel="table"), rewards=Goals(sparsity=20))``.
    Parameters that the pair does not read have no effect.

    Parameters
    ----------
    n_intentions : int, optional
        Number of intentions K, 3 by default; places find it unless it is given. Likelihood alone does not choose it;
        look at dwell and agreement too.
    switching : str or options
        When intentions switch: single, per-trajectory, independent, markov, semi-markov, arrival, state, ordered or
        recurrent. Without a name the data decide: arrival where states are places that actions connect.
    rewards : str or options
        What each intention is after: tabular, iql, soft-1, soft-2, goals, places, features and others that ``prism
        methods`` lists. Free policies (tabular) predict best; places and planned goals on a habit explain best.
    network : {"rnn", "lstm", "gru", "transformer"}
        What reads the history: the paper's RNN for its gate, a GRU for recurrent switching, which predicts unseen
        trajectories of three simulated worlds better with it (`benchmarks/default_network.py`).
    observe : {"past", "current"}
        The network sees (s_t, a_{t-1}), or the paper's (s_t, a_t), whose score is not a likelihood.
    history : int or "auto"
        Policies depend on the last ``history`` states. More predicts better and means less. "auto" chooses 1 to 6 by
        likelihood on the validation trajectories (`models.choices`). 1, and "auto" for the habit of goals.
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
        Every animal (group of trajectories) may do some things more often than the others do, whatever it wants;
        how much it may differ is chosen on validation trajectories. A new animal does as all do.
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
        Whose likelihood decides when to stop and which start to keep; "auto" is training where both components
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
    starts : {"mixed", "windows", "random", "annealed", "goals"}
        Kinds of first responsibilities (`models.starts`); "mixed" alternates between windows and random. Annealed
        starts, for chains only, find the best optimum of few intentions most reliably; goals that end label the steps
        of worlds with places better than clusters do.
    device : {"auto", "cpu", "cuda"}
    seed : int
        The one source of randomness.
    """

    n_intentions: int = by_pair()
    _: KW_ONLY
    switching: str | SwitchingOptions = by_pair()  # noqa: RUF009
    rewards: str | RewardOptions = by_pair()  # noqa: RUF009
    network: NetworkName = by_pair()  # noqa: RUF009
    observe: Literal["past", "current"] = "past"
    history: int | Literal["auto"] = by_pair()
    l1: float = 0.0
    kl: float = 0.0
    switch_penalty: float = 0.05
    smoothing: float = 0.01
    backoff: float | Literal["auto"] = by_pair()
    individuals: bool = False
    embedding: int = by_pair()
    hidden: int = by_pair()
    learning_rate: float = by_pair()
    batch_size: int = 32
    epochs_per_m_step: int = 1
    max_iterations: int = by_pair()
    n_starts: int = by_pair()
    warm_up: int = by_pair()
    n_candidates: int = by_pair()
    validation_fraction: float = 0.1
    stop_by: Literal["auto", "validation", "training"] = "auto"
    recount: bool = False
    patience: int | None = 10
    discount: float = by_pair()
    starts: Literal["mixed", "windows", "random", "annealed", "goals"] = "mixed"
    device: str = "auto"
    seed: int = 0

    def _halves(self) -> tuple[Any, Any]:
        """Switching and rewards, each a name or its options."""
        return self.switching, self.rewards

    def parameters_read(self) -> set[str]:
        """Names of the parameters that the pair reads; the others have no effect."""
        given = zip(("switching", "rewards"), self._halves(), (SWITCHING, REWARDS), strict=True)
        kinds = [halves.options_class(what, one, known) if isinstance(one, str) else one for what, one, known in given]
        switching, rewards = kinds
        everybody = [halves.locate(half.where, "component") for half in (*SWITCHING.values(), *REWARDS.values())]
        of_components = {field.name for kind in everybody for field in fields(kind)}
        found = {field.name for field in fields(self)} - (of_components & {field.name for field in fields(Settings)})
        found |= {field.name for kind in kinds for field in fields(kind)}
        if rewards.memory == "none":
            found -= {"history", "backoff", "individuals"}
        if rewards.searches or not switching.is_chain:
            found -= {"warm_up", "n_candidates"}
        if rewards.searches or rewards.start_kinds is not None:
            found -= {"starts"}
        return found

    def _told(self) -> list[str]:
        """The number and the pair, where somebody gave or a fit found them."""
        names = [name for name in ("n_intentions", "switching", "rewards") if getattr(type(self), name) is None]
        return [name for name in names if "n_states_" in vars(self) or vars(self).get(name) is not None]

    def default_of(self, name: str) -> Any:
        """What a parameter is where it is not given: as the pair would have it."""
        field = getattr(type(self), name)  # a preset may have a default of its own, which is no `ByPair`
        if field is not None:
            return field
        if name in ("switching", "rewards"):
            alone = vars(self).get("switching") is None and vars(self).get("rewards") is None
            beside = vars(self).get("_usual_pair", USUAL_PAIR)
            usual = vars(self).get("_default_pair", beside) if alone else beside
            suited = {} if alone or name == "rewards" else defaults_of(usual[0], vars(self)["rewards"])
            return suited.get(name, usual[name == "rewards"])
        return {**DEFAULTS, **defaults_of(*self._halves()), **vars(self).get("_discovered", {})}.get(name)


def defaults_of(switching: Any, rewards: Any) -> dict[str, Any]:
    """Parameters that the components of a pair prefer; nothing where a name is wrong, which `fit` will say."""
    found: dict[str, Any] = {}
    for what, given, known in (("switching", switching, SWITCHING), ("rewards", rewards, REWARDS)):
        try:
            half = halves.options_class(what, given, known) if isinstance(given, str) else given
        except InputError:
            continue
        kind = half if isinstance(half, type) else type(half)
        if issubclass(kind, SwitchingOptions | RewardOptions):
            found |= kind.defaults
    return found
