"""Options of the switching models that a network learns, and the one place that builds their network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.halves import check_choice, check_numbers
from prism_irl.switching import NETWORKS, NetworkName
from prism_irl.switching.base import SwitchingOptions
from prism_irl.switching.networks import HistoryNetwork
from prism_irl.switching.optimiser import Optimiser


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

    has_network: ClassVar[bool] = True
    network: NetworkName = "gru"
    embedding: int = 32
    hidden: int = 32
    learning_rate: float = 3e-3
    batch_size: int = 32
    epochs_per_m_step: int = 1
    observe: str = "past"

    def check(self, n_intentions: int) -> None:
        """Names, sizes and rates."""
        check_choice(self, network=NETWORKS, observe=("past", "current"))
        sizes = ("embedding", "hidden", "batch_size", "epochs_per_m_step")
        check_numbers(self, dict.fromkeys(sizes, 1), integer=True)
        check_numbers(self, {"learning_rate": 0})
        if self.learning_rate == 0:
            raise InputError("learning_rate must be above 0; with 0 the network would never learn.")

    def _network(
        self, demos: Demonstrations, n_outputs: int, *, quiet: bool, interaction: bool = False
    ) -> HistoryNetwork:
        """The network; a ``quiet`` one has small tables and an almost silent head, so that a chain begins as it was."""
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
        return Optimiser(self.learning_rate, self.batch_size, self.epochs_per_m_step)

    def _past_only(self) -> None:
        if self.observe == "current":
            raise InputError('observe="current" belongs to switching="independent" (the paper); chains see the past.')
