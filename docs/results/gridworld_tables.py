"""Tables of the frustration gridworld: methods, value differences, rewards, and what follows from them."""

from __future__ import annotations

from typing import Any

from blocks import block, need, number, table

INTENTIONS = ("goal", "abandon")


def _methods(metrics: dict[str, Any]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = need(metrics, "methods")
    return found


def _name(entry: dict[str, Any]) -> str:
    name: str = entry["name"]
    return f"*{name}*" if name.startswith("Truth") else name


def _labelled(entry: dict[str, Any]) -> bool:
    return int(entry["n_intentions"]) > 1


@block("gridworld")
def gridworld_methods(metrics: dict[str, Any]) -> str:
    """Every method by likelihood and labels."""
    rows = []
    for entry in _methods(metrics).values():
        paper = number(entry["paper_score"], 3, spread=True) + ", not a likelihood" if entry["leaks"] else "the same"
        labels = [number(entry.get(key), 3, spread=True) for key in ("label_accuracy", "ari", "boundary_f1")]
        labels = labels if _labelled(entry) else ["–"] * 3
        dwell = number(entry["mean_dwell"], 1) if _labelled(entry) else "–"
        rows.append([_name(entry), number(entry["predictive_ll"], 3, spread=True), paper, *labels, dwell])
    titles = ["method", "predictive LL", "paper score", "label accuracy", "ARI", "boundary F1", "mean dwell"]
    return table(titles, rows)


@block("gridworld")
def gridworld_gate(metrics: dict[str, Any]) -> str:
    """The paper's gate in two rows, in words."""
    methods = _methods(metrics)
    one, ours = methods["prism-paper"], methods["prism-paper-starts"]
    chain, recurrent, truth = methods["hiql"], methods["prism-recurrent"], methods["oracle"]
    return (
        f"With one random start, as the paper describes it, the paper's gate gives the true intention to "
        f"{number(one['label_accuracy'], 2, spread=True)} of the steps, depending on its seed; with the starts that "
        f"every other family gets, to {number(ours['label_accuracy'], 2, spread=True)}. Its predictive LL is "
        f"{number(one['predictive_ll'], 3)} and {number(ours['predictive_ll'], 3)}, where a single intention has "
        f"{number(methods['iavi']['predictive_ll'], 3)}. What is between the two rows is the start. "
        f"From the same starts HIQL labels {number(chain['label_accuracy'], 3)} of the steps and recurrent switching "
        f"{number(recurrent['label_accuracy'], 3)} (the Bayes filter: {number(truth['label_accuracy'], 3)}), with "
        f"spreads of {number(chain['label_accuracy']['std'], 3)} and {number(recurrent['label_accuracy']['std'], 3)}: "
        f"what is between them and the second row is the gate, whose score chooses among starts without being a "
        f"likelihood. Over HIQL "
        f"recurrent switching gains likelihood, {number(recurrent['predictive_ll'], 3)} against "
        f"{number(chain['predictive_ll'], 3)}, because it knows *when*."
    )


@block("gridworld")
def gridworld_evd(metrics: dict[str, Any]) -> str:
    """Expected value differences with and without cells that cannot be entered."""
    rows = []
    for entry in _methods(metrics).values():
        if entry.get("evd_goal") is None:
            continue
        own = [number(entry[f"{key}_{name}"], 2, spread=True) for key in ("evd", "evd_entered") for name in INTENTIONS]
        own += [number(entry[f"evd_s0_{name}"], 2, spread=True) for name in INTENTIONS]
        paper = entry.get("paper_evd")
        reported = "–" if paper is None else " / ".join(number(paper[f"evd_{name}"], 2) for name in INTENTIONS)
        rows.append([_name(entry), *own, reported])
    titles = [
        "method",
        *(f"all cells, {name}" for name in INTENTIONS),
        *(f"cells that can be entered, {name}" for name in INTENTIONS),
    ]
    titles += [*(f"s₀, {name}" for name in INTENTIONS), "the paper's, of another world: goal / abandon"]
    return table(titles, rows)


@block("gridworld")
def gridworld_rewards(metrics: dict[str, Any]) -> str:
    """Distance from the true reward, and what planning with the recovered one earns elsewhere."""
    rows = []
    for entry in _methods(metrics).values():
        keys = [f"{kind}_{name}" for kind in ("transfer", "reward_distance", "carried") for name in INTENTIONS]
        if any(entry.get(key) is not None for key in keys):
            rows.append([_name(entry), *(number(entry.get(key), 2, spread=key.startswith("transfer")) for key in keys)])
    words = ("planned with the recovered reward", "distance of the reward", "policy carried over")
    image = "![Recovered rewards of every method, greedy actions, goal above abandon](../images/gridworld_rewards.png)"
    return table(["method", *(f"{kind}, {name}" for kind in words for name in INTENTIONS)], rows) + "\n" + image


@block("gridworld")
def scores_leak(metrics: dict[str, Any]) -> str:
    """The leak of the paper's score on a world whose truth is known."""
    methods = _methods(metrics)
    names = ("oracle", "prism-recurrent", "prism", "hiql", "iavi", "prism-paper", "prism-paper-starts")
    rows = []
    for entry in (methods[name] for name in names):
        accuracy = number(entry["label_accuracy"], 3) if _labelled(entry) else "–"
        paper = number(entry["paper_score"], 3)
        rows.append(
            [_name(entry), number(entry["predictive_ll"], 3), f"**{paper}**" if entry["leaks"] else paper, accuracy]
        )
    gate, truth, single = methods["prism-paper"], methods["oracle"], methods["iavi"]
    ahead = gate["paper_score"]["mean"] - truth["predictive_ll"]["mean"]
    worse = gate["predictive_ll"]["mean"] < single["predictive_ll"]["mean"]
    known, alone, cloned = (number(methods[name]["predictive_ll"], 3) for name in ("oracle", "iavi", "bc"))
    return (
        f"A Bayes filter over the hidden intention and counter reaches {known} nats per step. Nothing that predicts "
        "can be better.\n\n"
        + table(["method", "predictive LL", "paper score", "steps with the true intention"], rows)
        + f"\nBy the paper score the paper's gate is {number(ahead, 2)} nats per step ahead of the truth itself. Asked "
        f"to predict before it sees the action, it has {number(gate['predictive_ll'], 3)}, "
        f"{'worse' if worse else 'better'} than a single intention ({alone}); behaviour cloning, which knows no "
        f"intentions, has {cloned}. The number measures the leak."
    )


SUMMARY_ROWS = (
    ("prism-recurrent", "**recurrent switching** (ours)", "recurrent chain", "IAVI"),
    ("prism-recurrent-hauto", "the same, memory chosen on validation data", "recurrent chain", "IAVI on histories"),
    ("recurrent+soft-1", "recurrent switching, planned rewards (ours)", "recurrent chain", "soft Bellman"),
    ("prism-goals", "**goals on a shared habit** (ours)", "Markov chain", "planned, sparse"),
    ("recurrent+goals", "the same, recurrent (ours)", "recurrent chain", "planned, sparse"),
    ("prism", "PRISM, past gate", "independent gate", "IAVI"),
    ("prism-paper", "PRISM, paper gate, one random start", "independent gate that sees a_t", "IAVI"),
    ("prism-paper-starts", "PRISM, paper gate, our starts", "independent gate that sees a_t", "IAVI"),
    ("hiql", "HIQL", "Markov chain", "IAVI"),
    ("hiql-hauto", "HIQL, memory chosen on validation data", "Markov chain", "IAVI on histories"),
    ("swirl-1", "SWIRL S-1", "state-dependent chain", "soft Bellman"),
    ("swirl-2", "SWIRL S-2", "state-dependent chain", "soft Bellman, on transitions"),
    ("mixture", "trajectory mixture", "per trajectory", "IAVI"),
    ("dirl", "DIRL", "time-varying weights", "soft Bellman"),
    ("iavi", "IAVI", "single", "IAVI"),
    ("maxcausalent", "MaxCausalEnt", "single", "soft Bellman"),
    ("maxent", "MaxEnt", "single", "maximum entropy over paths"),
    ("ngram", "back-off n-gram", "reference", "no reward"),
    ("bc", "behaviour cloning (LSTM)", "reference", "no reward"),
    ("uniform", "uniform over valid actions", "reference", "no reward"),
    ("oracle", "*truth (Bayes filter)*", "knows the world", "true"),
)


@block("gridworld", "labyrinth")
def summary_methods(gridworld: dict[str, Any], labyrinth: dict[str, Any]) -> str:
    """Every method on both worlds."""
    grid, maze = gridworld.get("methods", {}), labyrinth.get("methods", {})
    rows = []
    for name, title, switching, rewards in SUMMARY_ROWS:
        g, m = grid.get(name), maze.get(name)
        cells = ["–"] * 3
        if g is not None:
            transfer = "–"
            if g.get("transfer_goal") is not None:
                transfer = " / ".join(number(g[f"transfer_{k}"], 2) for k in INTENTIONS)
            accuracy = number(g["label_accuracy"], 3) if _labelled(g) else "–"
            cells = [number(g["predictive_ll"], 3), accuracy, transfer]
        starts = ", best of 3 starts" if name == "prism-paper" else ""  # the paper's protocol of the labyrinth
        dwell = f" (dwell {number(m['mean_dwell'], 0)}{starts})" if m is not None and m["n_intentions"] > 1 else ""
        cells.append("–" if m is None else number(m["predictive_ll"], 3) + dwell)
        rows.append([title, switching, rewards, *cells])
    titles = ["method", "switching", "rewards", "gridworld: predictive LL", "label accuracy"]
    return table([*titles, "reward transfer: goal / abandon", "labyrinth: predictive LL"], rows)
