"""When does the agent switch intention? Priors over intentions given the history.

`SWITCHING` is the only place that spells their names: a new one is a file with its options class, and a line here.
"""

from typing import Literal, get_args

from prism_irl.halves import Half

NetworkName = Literal["rnn", "lstm", "gru", "transformer"]
NETWORKS: tuple[str, ...] = get_args(NetworkName)
"""What reads the history where a network does (`switching.networks`)."""

SWITCHING: dict[str, Half] = {
    "single": Half("prism_irl.switching.options:Single", "one intention: what several have to beat"),
    "per-trajectory": Half(
        "prism_irl.switching.options:PerTrajectory", "an intention per trajectory, kept: the null of switching"
    ),
    "independent": Half("prism_irl.switching.options:Independent", "the paper's gate: every step decides anew"),
    "markov": Half("prism_irl.switching.options:Markov", "constant kernel, milliseconds per iteration: try it first"),
    "semi-markov": Half("prism_irl.switching.options:SemiMarkov", "intentions have a typical length instead of any"),
    "arrival": Half("prism_irl.switching.options:Arrival", "intentions end where their place is reached"),
    "state": Half("prism_irl.switching.options:State", "intentions end at places, such as a goal that is reached"),
    "ordered": Half("prism_irl.switching.options:Ordered", "stages of one task, passed once and in order"),
    "recurrent": Half("prism_irl.switching.options:Recurrent", "what triggers a switch lies in the past"),
}
"""Name → options class and when to choose it."""
