"""The paper's Transformer: it sees the future, never the padding, and predicts nothing."""

import pytest
import torch

from labyrinth import transformer
from labyrinth.data import Labyrinth
from prism_irl.errors import InputError
from prism_irl.maze import maze_mdp
from worlds.labyrinth import LabyrinthWorld

SETTINGS = Labyrinth(paper_size=8, collapse_iterations=2)


def test_the_encoder_reads_the_future_and_no_padding():
    torch.manual_seed(0)
    encoder = transformer.Encoder(8)
    x = torch.randn(2, 6, 8)
    mask = torch.tensor([[True] * 6, [True] * 4 + [False] * 2])
    before = encoder(x, mask)
    later = x.clone()
    later[0, 5] += 1.0
    assert (encoder(later, mask)[0, 0] - before[0, 0]).abs().max() > 1e-4  # the future matters
    later = x.clone()
    later[1, 4:] += 1.0
    torch.testing.assert_close(encoder(later, mask)[1, :4], before[1, :4])
    torch.testing.assert_close(encoder(x[1:, :4], mask[1:, :4])[0], before[1, :4])
    for call, arguments in ((encoder.step, (x, ())), (encoder.alternatives, (x, x, mask)), (encoder.initial, (2, x))):
        with pytest.raises(InputError, match="whole trajectory"):
            call(*arguments)


def test_the_gate_with_it_has_a_paper_score_only():
    demos = LabyrinthWorld().simulate(4, 30, seed=0).demonstrations
    model = transformer.gate("encoder", 1, 1.0, SETTINGS).fit(demos, maze_mdp())
    assert isinstance(model.switching_.network.core, transformer.Encoder)
    assert model.paper_score(demos) < 0
    with pytest.raises(InputError, match="predicts nothing"):
        model.score(demos)


def test_the_first_case_is_as_published():
    network, epochs, share = transformer.CASES[0]
    model = transformer.gate(network, epochs, share, Labyrinth())
    options = model.switching_options
    assert (options.epochs_per_m_step, options.l1, options.kl) == (8, 2.22, 1.48)
    assert (options.embedding, options.learning_rate, options.observe) == (128, 1e-3, "current")
    assert (model.n_intentions, model.n_starts, model.starts, model.seed) == (3, 1, "random", 42)
    assert transformer.gate("rnn", 1, 1.0, Labyrinth()).switching == "independent"


def test_a_deeper_network_predicts_and_one_layer_is_the_papers():
    demos = LabyrinthWorld().simulate(4, 30, seed=0).demonstrations
    model = transformer.sized(8, 2, Labyrinth(paper_size=8, paper_iterations=2)).fit(demos, maze_mdp())
    assert model.switching_.network.core.core.num_layers == 2
    probabilities = model.action_proba(demos)
    assert abs(probabilities.sum(axis=1) - 1).max() < 1e-5
    live = model.filter()
    for state, action in zip(demos.states[:5], demos.actions[:5], strict=True):
        belief = live.step(int(state), int(action))
    assert abs(float(belief.sum()) - 1) < 1e-5
    paper = transformer.sized(128, 1, Labyrinth()).switching_options
    assert (paper.hidden, paper.embedding, paper.l1, paper.kl, paper.epochs_per_m_step) == (128, 128, 2.22, 1.48, 1)
