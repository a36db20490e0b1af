"""Why the paper's Transformer has collapsed: gates under its penalties, schedule by schedule, at the paper's size.

The paper's Transformer is "a standard encoder with a padding mask": it reads the whole trajectory, the future included.
Such a gate has a paper score and nothing else: there is no past to predict from, so it is no method of this package and
lives here. Beside it stand our causal Transformer and the RNN with the same penalties and epochs.

The part *sizes* asks whether the paper's RNN with one layer of 128 units saturates: fewer units, more, two layers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

from torch import Tensor, nn

from labyrinth.data import TRANSFORMER_PENALTIES, Data, Labyrinth
from labyrinth.parts import Work
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.models.intentions import Intentions
from prism_irl.models.presets import PAPER, PRISM
from prism_irl.models.references import Empirical
from prism_irl.studies.cross_validation import data_key, fit_key, read_row, write_row
from prism_irl.switching.gate import Gate
from prism_irl.switching.networks import Carry, Recurrent, Transformer
from prism_irl.switching.options import Independent

CASES: tuple[tuple[str, int, float], ...] = (
    ("encoder", 8, 1.0),
    ("encoder", 1, 1.0),
    ("transformer", 8, 1.0),
    ("transformer", 1, 1.0),
    ("rnn", 8, 1.0),
    ("rnn", 1, 1.0),
    ("encoder", 1, TRANSFORMER_PENALTIES),
    ("transformer", 1, TRANSFORMER_PENALTIES),
    ("encoder", 1, 0.0),
    ("transformer", 1, 0.0),
)
"""Network, epochs per M-step, share of the paper's penalties; the first is as published."""
NAMES = {"encoder": "Transformer, sees the whole trajectory", "transformer": "Transformer, causal", "rnn": "RNN"}

NO_PREDICTION = "This Transformer reads the whole trajectory: it has a paper score and predicts nothing."


class Encoder(Transformer):
    """A standard Transformer encoder with sinusoidal positions: h_t attends to every step of its trajectory."""

    def __init__(self, width: int, heads: int = 4, layers: int = 1) -> None:
        super().__init__(width, heads, layers=0)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True) for _ in range(layers)
        )
        del self.norm  # a standard layer normalises its own output

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """(B, T, d) → (B, T, d); padding is never attended to."""
        x = x + self.positions(0, x.shape[1], x)
        for layer in self.layers:
            x = layer(x, src_key_padding_mask=~mask)
        return x

    def initial(self, batch: int, like: Tensor) -> NoReturn:
        """Nothing can be carried."""
        raise InputError(NO_PREDICTION)

    def step(self, x: Tensor, carry: Carry) -> NoReturn:
        """There is no single step."""
        raise InputError(NO_PREDICTION)

    def alternatives(self, x: Tensor, others: Tensor, mask: Tensor) -> NoReturn:
        """The future would have been another one, too."""
        raise InputError(NO_PREDICTION)


@dataclass(frozen=True)
class WholeTrajectory(Independent):
    """Options of the gate whose network is the standard encoder."""

    def build(self, n_intentions: int, demos: Demonstrations) -> Gate:
        """The gate of the paper with the paper's Transformer."""
        network = self._network(demos, n_intentions, quiet=False)
        network.core = Encoder(self.embedding)
        return Gate(network, n_intentions, l1=self.l1, kl=self.kl, optimiser=self._optimiser())


class Deep(Recurrent):
    """A vanilla RNN of several layers."""

    def __init__(self, width: int, hidden: int, layers: int) -> None:
        super().__init__("rnn", width, hidden)
        self.core = nn.RNN(width, hidden, num_layers=layers, batch_first=True)
        self.layers, self.compiled = layers, False

    def initial(self, batch: int, like: Tensor) -> Carry:
        """Hidden state of every layer before the first step."""
        return (like.new_zeros(self.layers, batch, self.hidden),)


@dataclass(frozen=True)
class Layered(Independent):
    """Options of the gate whose RNN has several layers."""

    layers: int = 2

    def build(self, n_intentions: int, demos: Demonstrations) -> Gate:
        """The gate of the paper with a deeper network."""
        network = self._network(demos, n_intentions, quiet=False)
        network.core = Deep(self.embedding, self.hidden, self.layers)
        return Gate(network, n_intentions, l1=self.l1, kl=self.kl, optimiser=self._optimiser())


def gate(network: str, epochs: int, share: float, settings: Labyrinth) -> Intentions:
    """The paper's model of the labyrinth with another network, schedule or share of the penalties."""
    paper = PAPER["labyrinth"]
    asked: dict[str, Any] = {
        "network": "transformer" if network == "encoder" else network,
        "epochs_per_m_step": epochs,
        "l1": share * paper["l1"],
        "kl": share * paper["kl"],
        "embedding": settings.paper_size,
        "hidden": settings.paper_size,
    }
    found = PRISM.paper("labyrinth", max_iterations=settings.collapse_iterations, **asked)
    if network != "encoder":
        return found
    whole = WholeTrajectory(**asked, learning_rate=1e-3, batch_size=32, observe="current")
    return Intentions(switching=whole, rewards="tabular", **found.get_params(deep=False))


def transformer(settings: Labyrinth, data: Data, work: Work) -> dict[str, Any]:
    """Paper score of every case on the first fold, beside that of a single intention."""
    training, testing = data.demos.fold_indices(settings.folds)[settings.tested_folds[0]]
    train, test = data.demos.subset(training), data.demos.subset(testing)
    single = Empirical().fit(train, data.mdp)
    rows = []
    for network, epochs, share in CASES if settings.collapse_cases is None else CASES[: settings.collapse_cases]:
        model = gate(network, epochs, share, settings)
        path = work.cache / f"{fit_key(model, data_key(train, data.mdp, None), network)[:32]}.json"
        if not path.is_file():
            model.fit(train, data.mdp)
            scores = {"paper_score_train": model.paper_score(train), "paper_score_test": model.paper_score(test)}
            write_row(path, scores)
        about = {"network": NAMES[network], "epochs": epochs, "penalties": share}
        rows.append({**about, "iterations": settings.collapse_iterations, **read_row(path)})
    return {"rows": rows, "one_intention": {"train": single.score(train), "test": single.score(test)}}


def sized(hidden: int, layers: int, settings: Labyrinth) -> Intentions:
    """The paper's model of the labyrinth with another number of hidden units or layers."""
    size = {"embedding": settings.paper_size, "hidden": hidden}
    found = PRISM.paper("labyrinth", max_iterations=settings.paper_iterations, **size)
    if layers == 1:
        return found
    paper = PAPER["labyrinth"]
    deep = Layered(
        embedding=settings.paper_size,
        hidden=hidden,
        l1=paper["l1"],
        kl=paper["kl"],
        learning_rate=1e-3,
        observe="current",
        layers=layers,
    )
    return Intentions(switching=deep, rewards="tabular", **found.get_params(deep=False))


def sizes(settings: Labyrinth, data: Data, work: Work) -> dict[str, Any]:
    """Both scores on the first fold against the number of hidden units and layers; one start, nothing held out."""
    training, testing = data.demos.fold_indices(settings.folds)[settings.tested_folds[0]]
    train, test = data.demos.subset(training), data.demos.subset(testing)
    rows = []
    for hidden, layers in settings.sizes:
        model = sized(hidden, layers, settings)
        path = work.cache / f"{fit_key(model, data_key(train, data.mdp, None), 'sizes')[:32]}.json"
        if not path.is_file():
            model.fit(train, data.mdp)
            scores = {"paper_score_train": model.paper_score(train), "paper_score_test": model.paper_score(test)}
            write_row(path, {**scores, "predictive_test": model.score(test)})
        rows.append({"hidden": hidden, "layers": layers, **read_row(path)})
    return {"rows": rows, "iterations": settings.paper_iterations}
