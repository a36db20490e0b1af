"""Options of the switching models: one frozen dataclass per kind, which builds the model.

Flags of the command line are made of these fields, so that nothing heavy is imported before a model is built: help is
there at once, and a fit imports the kind that it needs and no other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from prism_irl.errors import InputError
from prism_irl.halves import check_fields
from prism_irl.switching import NETWORKS, NetworkName

if TYPE_CHECKING:
    import numpy as np

    from prism_irl.arrays import FloatArray
    from prism_irl.data.demonstrations import Demonstrations
    from prism_irl.switching.arrival import ArrivalChain
    from prism_irl.switching.base import Switching
    from prism_irl.switching.chain import Chain
    from prism_irl.switching.gate import Gate
    from prism_irl.switching.networks import HistoryNetwork, Optimiser
    from prism_irl.switching.per_trajectory import TrajectoryChoice
    from prism_irl.switching.recurrent import RecurrentChain
    from prism_irl.switching.semi_markov import SemiMarkovChain


KernelName = Literal["auto", "pair", "place", "table", "mlp"]


@dataclass(frozen=True)
class SwitchingOptions(ABC):
    """Options of a switching model, and how to build it; registered in `switching.SWITCHING`.

    Attributes
    ----------
    is_chain : an intention is carried along, so that a constant chain can begin for it
    in_order, once : intentions are stages, passed in the order of their numbers; each comes once at most
    reads_history : a network reads the history, with these options
    adds_up : statistics are a few sums (`Switching.adds_up`), with these options
    stackable : fits are made side by side on a GPU (`scale.stacked`)
    reads_partial_labels : labels of single steps can say something: not where there is one intention for all of them
    draws_tensors : `build` may draw random tensors, so that torch must be seeded before it is called
    defaults : parameters of `PRISM` that this half prefers where the user says nothing
    words, lowest, lowest_whole : what options may be (`halves.check_fields`)
    """

    is_chain: ClassVar[bool] = True
    in_order: ClassVar[bool] = False
    reads_partial_labels: ClassVar[bool] = True
    stackable: ClassVar[bool] = False
    draws_tensors: ClassVar[bool] = True
    defaults: ClassVar[Mapping[str, Any]] = {}
    words: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    lowest: ClassVar[Mapping[str, float]] = {}
    lowest_whole: ClassVar[Mapping[str, int]] = {}

    @property
    def once(self) -> bool:
        """See above."""
        return False

    @property
    def reads_history(self) -> bool:
        """See above."""
        return False

    @property
    def adds_up(self) -> bool:
        """See above."""
        return False

    @abstractmethod
    def build(self, n_intentions: int, demos: Demonstrations) -> Switching:
        """The untrained model, for demonstrations of these sizes; the caller has seeded torch where it is imported."""

    def check(self, n_intentions: int) -> None:
        """Raise an `InputError` where an option makes no sense."""
        check_fields(self)

    def first_responsibilities(
        self, kind: str, demos: Demonstrations, n_intentions: int, generator: np.random.Generator
    ) -> FloatArray | None:
        """First responsibilities (n, K) where this model has its own idea of a start, else None."""
        return None


@dataclass(frozen=True)
class ReadsInputs(SwitchingOptions):
    """Options of kernels that may read covariates, by multinomial logits (`switching.logit`).

    Parameters
    ----------
    inputs : bool
        The kernel reads the observations of a step; --covariates sets it.
    input_ridge : float
        Strength of the prior on what inputs do, in nats per squared standard deviation.
    """

    lowest: ClassVar[Mapping[str, float]] = {"input_ridge": 0}
    inputs: bool = field(default=False, kw_only=True)
    input_ridge: float = field(default=1.0, kw_only=True)

    @property
    def adds_up(self) -> bool:
        """Unless the kernel reads inputs."""
        return not self.inputs

    def n_inputs(self, demos: Demonstrations) -> int:
        """Number of inputs of every step; 0 where none are read, an `InputError` where there are none to read."""
        if not self.inputs:
            return 0
        if demos.observations is None:
            raise InputError("This switching reads inputs, and the data have none; name their columns (--covariates).")
        return int(demos.observations.shape[1])


@dataclass(frozen=True)
class Markov(ReadsInputs):
    """Options of the Markov chain."""

    draws_tensors: ClassVar[bool] = False

    def build(self, n_intentions: int, demos: Demonstrations) -> Chain:
        """The chain, sticky and uniform."""
        from prism_irl.switching.markov import MarkovChain

        if not self.inputs:
            return MarkovChain(n_intentions)
        from prism_irl.switching.varying import InputChain

        return InputChain(n_intentions, self.n_inputs(demos), ridge=self.input_ridge)


@dataclass(frozen=True)
class Single(Markov):
    """One intention: a chain with nowhere to go."""

    reads_partial_labels: ClassVar[bool] = False
    defaults: ClassVar[Mapping[str, Any]] = {"n_intentions": 1}

    def check(self, n_intentions: int) -> None:
        """K = 1."""
        if n_intentions != 1:
            raise InputError(f"single has one intention, and {n_intentions} were asked for; set n_intentions=1.")


@dataclass(frozen=True)
class PerTrajectory(SwitchingOptions):
    """An intention per trajectory; it has no options."""

    is_chain: ClassVar[bool] = False

    def build(self, n_intentions: int, demos: Demonstrations) -> TrajectoryChoice:
        """Uniform weights."""
        from prism_irl.switching.per_trajectory import TrajectoryChoice

        return TrajectoryChoice(n_intentions)

    def first_responsibilities(
        self, kind: str, demos: Demonstrations, n_intentions: int, generator: np.random.Generator
    ) -> FloatArray | None:
        """Random starts differ between trajectories: what differs within them alone, a mixture cannot keep."""
        if kind != "random":
            return None
        weights: FloatArray = generator.dirichlet([0.5] * n_intentions, len(demos))
        return weights[demos.trajectory_index]


@dataclass(frozen=True)
class SemiMarkov(ReadsInputs):
    """Options of intentions with a typical length.

    Parameters
    ----------
    phases : int
        Phases of an intention at most; the standard deviation of a dwell can be as small as its mean over the root of
        the phases.
    """

    lowest_whole: ClassVar[Mapping[str, int]] = {"phases": 1}
    phases: int = 6

    def build(self, n_intentions: int, demos: Demonstrations) -> SemiMarkovChain:
        """The chain, with any number of phases."""
        from prism_irl.switching.semi_markov import SemiMarkovChain

        return SemiMarkovChain(n_intentions, self.phases, self.n_inputs(demos), ridge=self.input_ridge)


@dataclass(frozen=True)
class Arrival(SwitchingOptions):
    """Intentions that end on arrival at their places; it has no options."""

    draws_tensors: ClassVar[bool] = False

    def build(self, n_intentions: int, demos: Demonstrations) -> ArrivalChain:
        """A chain whose intentions have no place yet."""
        import numpy as np

        from prism_irl.switching.arrival import ArrivalChain

        return ArrivalChain(n_intentions, np.arange(demos.n_states) if demos.places is None else demos.places)


@dataclass(frozen=True)
class State(ReadsInputs):
    """Options of a kernel that reads the state.

    Parameters
    ----------
    kernel : {"auto", "pair", "place", "table", "mlp"}
        A table per state and pair of intentions; one place per intention, for continuous data (`switching.places`); or
        SWIRL's pull of the state as a free table or by a network. "auto" is place for continuous data, else pair.
    shrinkage : float
        For "pair": steps that the kernel without the state is worth.
    hidden : int
        For "mlp": hidden units, 32 in SWIRL's paper.
    kernel_ridge : float
        For "table" and "mlp": strength of the prior on the weights.
    """

    defaults: ClassVar[Mapping[str, Any]] = {"hidden": 32}
    words: ClassVar[Mapping[str, tuple[str, ...]]] = {"kernel": get_args(KernelName)}
    lowest: ClassVar[Mapping[str, float]] = {"input_ridge": 0, "shrinkage": 0, "kernel_ridge": 0}
    lowest_whole: ClassVar[Mapping[str, int]] = {"hidden": 1}
    kernel: KernelName = "auto"
    shrinkage: float = 8.0
    hidden: int = 32
    kernel_ridge: float = 0.1

    @property
    def adds_up(self) -> bool:
        """Never: statistics are those of every step."""
        return False

    def build(self, n_intentions: int, demos: Demonstrations) -> Chain:
        """The chain, which begins as the Markov chain that warmed it up."""
        from prism_irl.switching.places import PlaceChain
        from prism_irl.switching.varying import StateChain, StateInputChain, StatePairChain

        if self.inputs:
            if self.kernel not in ("auto", "pair") or demos.state_space.continuous:
                raise InputError(
                    f"Inputs need states and the kernel 'pair', not {self.kernel!r}; leave out --covariates."
                )
            shrunk: dict[str, Any] = {"shrinkage": self.shrinkage, "ridge": self.input_ridge}
            return StateInputChain(demos.n_states, n_intentions, self.n_inputs(demos), **shrunk)
        if self.kernel == "place" or (self.kernel == "auto" and demos.state_space.continuous):
            if demos.observations is None:
                raise InputError("Intentions end at places where there are observations; choose --kernel pair.")
            return PlaceChain(n_intentions, demos.observations.shape[1])
        if self.kernel in ("auto", "pair"):
            return StatePairChain(demos.n_states, n_intentions, shrinkage=self.shrinkage)
        options: dict[str, Any] = {"kind": self.kernel, "hidden": self.hidden, "ridge": self.kernel_ridge}
        return StateChain(demos.n_states, n_intentions, **options)


@dataclass(frozen=True)
class Learned(SwitchingOptions):
    """A network that reads the history, trained by Adam on minibatches of trajectories.

    Parameters
    ----------
    network : {"rnn", "lstm", "gru", "transformer"}
    embedding, hidden : int
        Sizes of the network.
    learning_rate, batch_size, epochs_per_m_step : Adam on minibatches of trajectories
    observe : {"past", "current"}
        The network sees (s_t, a_{t-1}), or the paper's (s_t, a_t), whose score is not a likelihood.
    """

    words: ClassVar[Mapping[str, tuple[str, ...]]] = {"network": NETWORKS, "observe": ("past", "current")}
    lowest: ClassVar[Mapping[str, float]] = {"learning_rate": 0}
    lowest_whole: ClassVar[Mapping[str, int]] = dict.fromkeys(
        ("embedding", "hidden", "batch_size", "epochs_per_m_step"), 1
    )
    network: NetworkName = "gru"
    embedding: int = 32
    hidden: int = 32
    learning_rate: float = 3e-3
    batch_size: int = 32
    epochs_per_m_step: int = 1
    observe: str = "past"

    @property
    def reads_history(self) -> bool:
        """That is what it is for."""
        return True

    def check(self, n_intentions: int) -> None:
        """Names, sizes and rates."""
        super().check(n_intentions)
        if self.learning_rate == 0:
            raise InputError("learning_rate must be above 0; with 0 the network would never learn.")

    def _network(
        self, demos: Demonstrations, n_outputs: int, *, quiet: bool, interaction: bool = False
    ) -> HistoryNetwork:
        """The network; a ``quiet`` one has small tables and an almost silent head, so that a chain begins as it was."""
        from prism_irl.switching.networks import HistoryNetwork

        return HistoryNetwork(
            self.network,
            n_states=demos.n_states,
            n_actions=demos.n_actions,
            n_observations=0 if demos.observations is None else demos.observations.shape[1],
            n_outputs=n_outputs,
            embedding=self.embedding,
            hidden=self.hidden,
            observe="current" if self.observe == "current" else "past",
            token_scale=0.5 if quiet else 1.0,
            head_scale=0.1 if quiet else 1.0,
            interaction=interaction,
        )

    def _optimiser(self) -> Optimiser:
        from prism_irl.switching.networks import Optimiser

        return Optimiser(self.learning_rate, self.batch_size, self.epochs_per_m_step)


@dataclass(frozen=True)
class Independent(Learned):
    """Options of the gate.

    Parameters
    ----------
    l1, kl : float
        Penalties of Eq. (loss).
    """

    stackable: ClassVar[bool] = True
    is_chain: ClassVar[bool] = False
    lowest: ClassVar[Mapping[str, float]] = {"learning_rate": 0, "l1": 0, "kl": 0}
    l1: float = 0.0
    kl: float = 0.0

    def build(self, n_intentions: int, demos: Demonstrations) -> Gate:
        """The gate, as in the paper."""
        from prism_irl.switching.gate import Gate

        network = self._network(demos, n_intentions, quiet=False)
        return Gate(network, n_intentions, l1=self.l1, kl=self.kl, optimiser=self._optimiser())


@dataclass(frozen=True)
class Recurrent(Learned):
    """Options of recurrent switching.

    Parameters
    ----------
    switch_penalty : float
        Penalty on the switching mass per step; more gives longer segments.
    interaction : bool
        The network also reads the pair (s_{t-1}, a_{t-1}), which tells a blocked move from a step.
    """

    stackable: ClassVar[bool] = True
    defaults: ClassVar[Mapping[str, Any]] = {"network": "gru", "embedding": 32, "hidden": 32, "learning_rate": 3e-3}
    lowest: ClassVar[Mapping[str, float]] = {"learning_rate": 0, "switch_penalty": 0}
    switch_penalty: float = 0.05
    interaction: bool = True

    @property
    def adds_up(self) -> bool:
        """A network leaves nothing to add up."""
        return True

    def check(self, n_intentions: int) -> None:
        """What it sees, too."""
        super().check(n_intentions)
        if self.observe == "current":
            raise InputError('observe="current" belongs to switching="independent" (the paper); chains see the past.')

    def build(self, n_intentions: int, demos: Demonstrations) -> RecurrentChain:
        """The chain, which begins as the Markov chain that warmed it up."""
        from prism_irl.switching.recurrent import RecurrentChain

        return RecurrentChain(*self._chain(n_intentions, demos))

    def _chain(self, n_intentions: int, demos: Demonstrations) -> tuple[HistoryNetwork, int, float, Optimiser]:
        network = self._network(demos, n_intentions**2, quiet=True, interaction=self.interaction)
        return network, n_intentions, self.switch_penalty, self._optimiser()


@dataclass(frozen=True)
class Ordered(Recurrent, ReadsInputs):
    """Options of stages in order.

    Parameters
    ----------
    recurrent : bool
        A network reads from the history when to advance; otherwise a constant probability does.
    closing : bool
        The first stage follows the last one: stages that come again in order (strokes, steps, stitches).
    """

    stackable: ClassVar[bool] = False
    in_order: ClassVar[bool] = True
    lowest: ClassVar[Mapping[str, float]] = {**Recurrent.lowest, **ReadsInputs.lowest}
    recurrent: bool = False
    closing: bool = False

    @property
    def once(self) -> bool:
        """Unless the first stage follows the last one."""
        return not self.closing

    @property
    def reads_history(self) -> bool:
        """As the option says."""
        return self.recurrent

    @property
    def adds_up(self) -> bool:
        """Unless the kernel reads inputs."""
        return self.recurrent or not self.inputs

    def build(self, n_intentions: int, demos: Demonstrations) -> Chain:  # type: ignore[override]
        """A constant chain, one that reads inputs, or one with a network."""
        from prism_irl.switching.ordered import OrderedChain, OrderedInputChain, OrderedRecurrentChain

        if not self.recurrent and self.inputs:
            n_inputs = self.n_inputs(demos)
            return OrderedInputChain(n_intentions, n_inputs, ridge=self.input_ridge, closing=self.closing)
        if not self.recurrent:
            return OrderedChain(n_intentions, closing=self.closing)
        chain = OrderedRecurrentChain(*self._chain(n_intentions, demos))
        chain.closing = self.closing
        return chain

    def first_responsibilities(
        self, kind: str, demos: Demonstrations, n_intentions: int, generator: np.random.Generator
    ) -> FloatArray | None:
        """Stretches of random relative length, in order."""
        import numpy as np

        from prism_irl.switching.ordered import SURE

        if n_intentions == 1:
            return None
        borders = generator.dirichlet(np.full(n_intentions, 8.0)).cumsum()[:-1]
        moment = (demos.step_index + 0.5) / np.repeat(demos.lengths, demos.lengths)
        if self.closing:  # three rounds: how many there are is for EM to find
            moment = moment * 3 % 1
        labels = np.searchsorted(borders, moment)
        return np.asarray(np.eye(n_intentions)[labels] * SURE + (1.0 - SURE) / n_intentions)
