"""`model.summary()`: a fit on one screen, as a statistics package prints it."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap

import numpy as np

from prism_irl.evaluation.result import FitResult

WIDTH = 78
NAME = 24
STATES = 3


def summary_text(result: FitResult, names: Sequence[str]) -> str:
    """Return the text; ``names`` are those of the K intentions."""
    demos, rule = result.demos, "=" * WIDTH
    left = [("Method", result.method), ("Switching + rewards", result.pair or "–")]
    left += [("Intentions", str(result.n_intentions)), ("Trajectories", f"{len(demos):,}")]
    left += [("Steps", f"{demos.n_steps:,}")]
    unit = "Log density/step" if result.density else "Log-lik./step"
    right = [(f"{unit} ({part})", _number(result.scores["predictive_ll"][part])) for part in ("train", "validation")]
    right += [("Mean dwell (steps)", f"{result.dwell.mean:.1f}"), ("Restart stability", _number(result.agreement, 2))]
    if result.em is not None:
        done = "converged" if result.em["converged"] else "stopped"
        right.append(("EM iterations", f"{result.em['iterations']} ({done})"))
    right += [("", "")] * (len(left) - len(right))
    lines = [f"{'PRISM: intentions of a fit':^{WIDTH}}", rule]
    for (name, value), (other, number) in zip(left, right, strict=True):
        lines.append(f"{name + ':' if name else '':<21}{value:<16} {other + ':' if other else '':<28}{number:>12}")
    lines += [rule, f"{'intention':<{NAME}}{'share':>8}{'dwell':>8}  {'is mostly in':<36}", "-" * WIDTH]
    for k, name in enumerate(names):
        p, shown = result.shown.probabilities[:, k], result.shown.demos
        time = np.bincount(shown.states, weights=p, minlength=shown.n_states) / max(float(p.sum()), 1e-12)
        most = [s for s in np.argsort(-time, kind="stable")[:STATES] if time[s] >= 0.01]
        states = shown.state_names
        places = ", ".join(f"{states[s] if states else s} {100 * time[s]:.0f}%" for s in most)
        dwell = result.dwell.per_intention[k]
        lines.append(
            f"{_cut(name, NAME - 1):<{NAME}}{100 * result.usage[k]:7.1f}%{_number(dwell, 1):>8}  {_cut(places, 36)}"
        )
    if result.n_intentions > 1:
        lines += ["-" * WIDTH, "Switches per 100 steps, from row to column:"]
        total = np.maximum(result.transitions.sum(axis=1), 1)
        for k, name in enumerate(names):
            cells = (
                "       ·" if j == k else f"{100 * n / total[k]:8.1f}"
                for j, n in enumerate(result.transitions[k].tolist())
            )
            lines.append(f"{_cut(name, NAME - 1):<{NAME}}{''.join(cells)}")
    lines.append(rule)
    if result.leaks:
        lines.append("The gate has seen the action that it is scored on: the paper score is not a likelihood.")
    lines += [line for note in result.notes for line in wrap(note, WIDTH)]
    return "\n".join(lines)


def _number(value: float | None, digits: int = 4) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
