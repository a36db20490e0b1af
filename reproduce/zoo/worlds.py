"""Many simulated worlds with known truth, drawn from one generator, on which methods and defaults are judged.

    world = draw(seed)                   # or draw(seed, "needs"); FAMILIES names them
    model.fit(world.train); model.predict_proba(world.test); world.test.labels; world.oracle.labels

Seeds below 1000 are for development, 1000 to 1999 for the table of `prism reproduce zoo`; the rest stays unused. A seed
without a family takes the families in turn, so that consecutive seeds hold all of them.

The agent has an intention z_t and acts by π_z(a | s, its last action, who it is); after the step its intention changes
by a rule of the family. Simulation and oracle share one definition of that rule (`Rule.kernel`, a transition matrix of
hidden states of which the intention is a part), so the oracle is the exact filter and smoother of the generator: it
knows the policies, the rule and the individuals, and sees states and actions alone. Nulls have no intention; their
oracle is the probability of the action under the habit itself. Nothing here knows a method: the only import of the
package is `Demonstrations`, which holds the data.

What goals that end assume (one place per intention, which ends there) is broken by the families of `BREAKS`: goals
where the agent stays, several soft goals at once, goals side by side, trials that are given up, and switching by
failures, time, or nothing that a place announces.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse.csgraph import minimum_spanning_tree, shortest_path
from scipy.special import softmax

from prism_irl.data.demonstrations import Demonstrations

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Rng = np.random.Generator

N_TRAIN = (20, 40, 80, 160, 400)
"""Training trajectories of a world; a quarter as many, at least 20, are for testing."""
MOST_STEPS = 16_000
"""Training steps of a world, about."""


class Oracle(NamedTuple):
    """What the exact filter of the generator says of every step, aligned with the demonstrations.

    Attributes
    ----------
    probabilities : (n, K)
        P(z_t | all states and actions of the trajectory).
    labels : (n,)
        The likeliest intention of each step.
    log_likelihood : (n,)
        log p(a_t | s_≤t, a_<t), of continuous commands their density; its mean is the ceiling of every prediction.
    """

    probabilities: Floats
    labels: Ints
    log_likelihood: Floats

    def at(self, steps: slice) -> Oracle:
        """Return the part of some steps."""
        return Oracle(self.probabilities[steps], self.labels[steps], self.log_likelihood[steps])


@dataclass(frozen=True, eq=False)
class World:
    """A world with its data and its truth.

    Parameters
    ----------
    name, family, seed
        ``name`` is "family-seed".
    train, test : Demonstrations
        With true intentions as ``labels`` (None for nulls), individuals as ``groups``, and ``places`` where several
        states (headings) are one place.
    oracle, train_oracle : Oracle
        The exact filter on either.
    n_intentions : int
        True K; 1 for nulls.
    is_null : bool
        Whether there is no intention behind the behaviour.
    breaks : bool
        Whether the family breaks what goals that end assume.
    continuous : bool
        Whether states are positions and actions commands.
    goals : tuple of K tuples
        Places of each intention (ids of places; coordinates where continuous); several where goals are soft, none in
        nulls.
    rewards : (K, S, A), optional
        True rewards, 1 at the place; None for nulls and continuous worlds.
    transitions : (S, A, S), optional
        True dynamics of discrete worlds.
    place : (S,), optional
        Which place a state belongs to: several headings make one place.
    coordinates : (P, 2), optional
        Where places lie.
    train_events, test_events : (n,) bool, optional
        The outside event of the family "event", for methods that take covariates. The oracle does not see it.
    facts : dict
        What was drawn: layout, switching, sharpness, slips, …
    """

    name: str
    family: str
    seed: int
    train: Demonstrations
    test: Demonstrations
    oracle: Oracle
    train_oracle: Oracle
    n_intentions: int
    is_null: bool
    breaks: bool
    continuous: bool = False
    goals: tuple[Any, ...] = ()
    rewards: Floats | None = None
    transitions: Floats | None = None
    place: Ints | None = None
    coordinates: Floats | None = None
    train_events: Bools | None = None
    test_events: Bools | None = None
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def n_present(self) -> int:
        """Intentions that occur in the training data at all."""
        return 1 if self.train.labels is None else len(np.unique(self.train.labels))


# -- places and dynamics -----------------------------------------------------------------------------------------------


class Space(NamedTuple):
    """Dynamics over states, the last action of which stays and does something; places are joined as in ``distance``."""

    kind: str
    transitions: Floats  # (S, A, S)
    place: Ints  # (S,)
    coordinates: Floats  # (P, 2)
    distance: Floats  # (P, P) steps from place to place


def grid(width: int, height: int) -> tuple[Ints, Floats]:
    """Neighbours (P, 4) of every cell, up, down, left, right, −1 for none, and coordinates (P, 2)."""
    xy = np.stack([np.arange(width * height) % width, np.arange(width * height) // width], axis=1)
    target = xy[:, None] + np.array([(0, 1), (0, -1), (-1, 0), (1, 0)])
    inside = ((target >= 0) & (target < (width, height))).all(axis=2)
    return np.where(inside, target @ (1, width), -1), xy.astype(float)


def with_walls(neighbours: Ints, share: float, rng: Rng) -> Ints:
    """Close a share of the passages that a random spanning tree does not need."""
    n = len(neighbours)
    weights = np.zeros((n, n))
    origin, port = np.nonzero(neighbours >= 0)
    weights[origin, neighbours[origin, port]] = rng.uniform(1, 2, len(origin))
    weights = np.triu(weights, 1)
    needed = minimum_spanning_tree(weights).toarray() > 0
    kept = needed | ((weights > 0) & (rng.random((n, n)) > share))
    kept |= kept.T
    return np.where((neighbours >= 0) & kept[np.arange(n)[:, None], neighbours], neighbours, -1)


def tree(n: int, branches: int, rng: Rng) -> tuple[Ints, Floats]:
    """Port 0 leads up, the others down; breadth first, so that depths differ by little, but some branches end early."""
    neighbours = np.full((n, branches + 1), -1)
    xy = np.zeros((n, 2))
    open_ports = [(0, b) for b in range(branches)]
    for node in range(1, n):
        i = int(rng.integers(min(len(open_ports), 4)))
        parent, branch = open_ports.pop(i)
        neighbours[parent, branch + 1], neighbours[node, 0] = node, parent
        xy[node] = xy[parent, 0] + (branch - (branches - 1) / 2) * 3.0 / (1 - xy[parent, 1]), xy[parent, 1] - 1
        open_ports += [(node, b) for b in range(branches)]
    return neighbours, xy


def graph(n: int, rng: Rng, most: int = 5) -> tuple[Ints, Floats]:
    """A random geometric graph: every place is joined to near ones, at most ``most``; it is connected."""
    xy = rng.uniform(0, np.sqrt(n), (n, 2))
    apart = np.linalg.norm(xy[:, None] - xy, axis=2)
    joined = minimum_spanning_tree(np.triu(apart, 1)).toarray() > 0
    joined |= joined.T
    near = np.dstack(np.unravel_index(np.argsort(apart, axis=None), apart.shape))[0]
    for i, j in near[n : n + 6 * n]:
        if joined[i].sum() < most - 1 and joined[j].sum() < most - 1:
            joined[i, j] = joined[j, i] = True
    ports = int(joined.sum(axis=1).max())
    neighbours = np.full((n, ports), -1)
    for i in range(n):
        own = rng.permutation(np.flatnonzero(joined[i]))
        neighbours[i, rng.permutation(ports)[: len(own)]] = own
    return neighbours, xy


def space(rng: Rng, *, doors: bool = False) -> Space:
    """Draw a layout with 25 to 150 states; ``doors`` let an agent through at four tries of ten only."""
    kind = str(rng.choice(["grid", "walls", "walls", "tree", "graph", "heading"]))
    kind = "walls" if doors and kind in ("tree", "graph") else kind
    headings = kind == "heading"
    if kind in ("grid", "walls"):
        neighbours, xy = grid(int(rng.integers(5, 13)), int(rng.integers(5, 13)))
    elif headings:
        neighbours, xy = grid(6, int(rng.integers(4, 7)))
    elif kind == "tree":
        neighbours, xy = tree(int(rng.integers(30, 128)), int(rng.integers(2, 4)), rng)
    else:
        neighbours, xy = graph(int(rng.integers(25, 120)), rng)
    if kind in ("walls", "heading"):
        neighbours = with_walls(neighbours, float(rng.uniform(0.2, 0.7)), rng)
    n, ports = neighbours.shape
    joined = np.zeros((n, n))
    origin, port = np.nonzero(neighbours >= 0)
    joined[origin, neighbours[origin, port]] = 1
    distance = shortest_path(joined, unweighted=True)
    passes = np.ones((n, n))
    if doors:
        closed = np.triu(rng.random((n, n)) < 0.3, 1)
        passes[closed | closed.T] = 0.4
    target = np.where(neighbours >= 0, neighbours, np.arange(n)[:, None])
    through = np.where(neighbours >= 0, passes[np.arange(n)[:, None], target], 1.0)
    if headings:  # forward, left, right, act; up, right, down, left in turn
        order = np.array([0, 3, 1, 2])
        S, A = 4 * n, 4
        transitions = np.zeros((S, A, S))
        state = np.arange(S)
        node, heading = state // 4, state % 4
        forward, chance = target[node, order[heading]] * 4 + heading, through[node, order[heading]]
        transitions[state, 0, forward] += chance
        transitions[state, 0, state] += 1 - chance
        transitions[state, 1, node * 4 + (heading - 1) % 4] = 1
        transitions[state, 2, node * 4 + (heading + 1) % 4] = 1
        transitions[state, 3, state] = 1
        place = node
    else:
        S, A = n, ports + 1
        transitions = np.zeros((S, A, S))
        for p in range(ports):
            transitions[np.arange(n), p, target[:, p]] += through[:, p]
            transitions[np.arange(n), p, np.arange(n)] += 1 - through[:, p]
        transitions[np.arange(n), ports, np.arange(n)] = 1
        place = np.arange(n)
    slips = float(rng.choice([0.0, 0.0, 0.05, 0.1]))
    transitions = (1 - slips) * transitions + slips * transitions[:, :-1].mean(axis=1, keepdims=True)
    return Space(kind, transitions, place, xy, distance)


def choose_goals(where: Space, K: int, rng: Rng, *, side_by_side: bool = False) -> Ints:
    """Places (K,) of goals: at least two steps apart, or each beside another one."""
    n = len(where.coordinates)
    chosen = [int(rng.integers(n))]
    while len(chosen) < K:
        nearest = where.distance[:, chosen].min(axis=1)
        fits = nearest == 1 if side_by_side and len(chosen) % 3 else nearest >= 2
        fits = fits if fits.any() else nearest >= 1
        chosen.append(int(rng.choice(np.flatnonzero(fits))))
    return np.array(chosen)


def detours(transitions: Floats, at: Bools) -> Floats:
    """Extra expected steps (K, S, A) of every action over the best one, towards the states ``at`` (K, S)."""
    S, A, _ = transitions.shape
    flat = np.ascontiguousarray(transitions.reshape(S * A, S).T)
    distance = np.zeros(at.shape)
    for _ in range(2000):
        q = 1 + (distance @ flat).reshape(len(at), S, A)
        new = np.where(at, 0.0, q.min(axis=2))
        if np.abs(new - distance).max() < 1e-4:
            break
        distance = new
    return np.where(at[..., None], 0.0, np.minimum(q - q.min(axis=2, keepdims=True), 8.0))


# -- agents ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Agent:
    """π_k(a | s, last action, individual): softmax of ``logits`` and what the agent is used to, mixed with a habit.

    Parameters
    ----------
    logits : (K, S, A)
    at : (K, S)
        States where what is done is ``done`` (A,), unless that is None.
    habit : (S, A), mix : float
        A policy without intention, and the share of steps that it takes.
    stick : float
        Logit that repeating the last action gains.
    bias : (individuals, A)
        Logits of individuals.
    """

    logits: Floats
    at: Bools
    done: Floats | None
    habit: Floats
    mix: float
    stick: float
    bias: Floats

    def policies(self, s: Ints, last: Ints, who: Ints) -> Floats:
        """(N, K, A) of N agents in states s (N,); ``last`` is −1 at the first step."""
        A = self.logits.shape[2]
        own = self.bias[who] + self.stick * (last[:, None] == np.arange(A))
        p = softmax(self.logits[:, s].transpose(1, 0, 2) + own[:, None], axis=2)
        p = (1 - self.mix) * p + self.mix * self.habit[s][:, None]
        if self.done is not None:
            p = np.where(self.at[:, s].T[..., None], self.done, p)
        return np.asarray(p)


def agent(
    where: Space, at: Bools, rng: Rng, *, gap: Floats | None = None, stays: bool = False
) -> tuple[Agent, dict[str, Any]]:
    """Draw an agent that goes to the states ``at`` (K, S), and what it is like."""
    S, A, _ = where.transitions.shape
    gap = detours(where.transitions, at) if gap is None else gap
    like: dict[str, Any] = {
        "sharpness": float(rng.choice([1.0, 1.5, 2.5, 4.0])),
        "acts": bool(stays or rng.random() < 0.5),
        "mix": float(rng.choice([0.0, 0.0, 0.1, 0.2])),
        "stick": float(rng.choice([0.0, 0.0, 0.5])),
        "individuals": int(rng.choice([1, 1, 6])),
        "routes": float(rng.choice([0.0, 0.5])),
    }
    logits = -like["sharpness"] * gap + like["routes"] * rng.normal(size=gap.shape)
    logits[:, :, -1] -= 1.0  # nothing is done where there is nothing to do
    done = None
    if like["acts"]:
        done = np.full(A, 0.1 / (A - 1))
        done[-1] = 0.9
    bias = 0.3 * rng.normal(size=(like["individuals"], A)) * (like["individuals"] > 1)
    habit = rng.dirichlet(np.ones(A), size=S)
    return Agent(logits, at, done, habit, like["mix"], like["stick"], bias), like


# -- when the intention changes ----------------------------------------------------------------------------------------


class Step(NamedTuple):
    """What N agents have seen and done at one step, and the needs and events of it."""

    s: Ints  # (N,)
    a: Ints  # (N,)
    after: Ints  # (N,) the next state
    needs: Floats  # (N, K)
    event: Bools  # (N,)


Kernel = Callable[[Step], Floats]


class Rule(NamedTuple):
    """Hidden states (H,) with their intention, how they begin, and (N, H, H) how they go on after a step.

    ``seen`` is the kernel for who does not see events.
    """

    intention: Ints
    initial: Floats
    kernel: Kernel
    seen: Kernel
    facts: dict[str, Any]


def others(w: Floats) -> Floats:
    """(K, K) draws of the next intention from w, never the one that has just ended."""
    W = np.tile(w, (len(w), 1))
    np.fill_diagonal(W, 0.0)
    return np.asarray(W / W.sum(axis=1, keepdims=True))


def leaving(leave: Floats, W: Floats) -> Floats:
    """(…, K, K): the intention ends with probability ``leave`` (…, K), and W (…, K, K) draws the next one."""
    K = leave.shape[-1]
    return np.asarray((1 - leave)[..., None] * np.eye(K) + leave[..., None] * W)


def by_table(table: Floats, index: Callable[[Step], Ints]) -> Kernel:
    """A kernel (H, H) out of a few (M, H, H)."""
    return lambda step: table[index(step)]


def rule(family: str, where: Space, at: Bools, rng: Rng) -> Rule:
    """Draw how intentions change in a family, for goals at the states ``at`` (K, S)."""
    K = len(at)
    w = rng.dirichlet(np.full(K, 4.0))
    if K > 3 and rng.random() < 0.5:
        w[0] = 0.04  # visited rarely
    w /= w.sum()
    W = others(w)
    end, stay = float(rng.choice([1.0, 0.6, 0.4])), 1e-3
    base = leaving(np.where(at.T, end, stay), W)  # (S, K, K)
    intention, initial = np.arange(K), w
    facts: dict[str, Any] = {"switching": family, "end": end}
    kernel: Kernel

    def plain(table: Floats) -> Kernel:
        return by_table(table, lambda step: step.s)

    if family == "needs":
        strength = float(rng.uniform(3.0, 6.0))

        def by_need(step: Step) -> Floats:
            logits = np.repeat(strength * step.needs[:, None], K, axis=1)
            logits[:, np.arange(K), np.arange(K)] = -np.inf
            return leaving(np.where(at[:, step.s].T, end, stay), softmax(logits, axis=2))

        kernel = by_need
    elif family == "last-visited":  # mostly a fixed order
        order = rng.permutation(K)
        fixed = 0.1 * W
        fixed[order, np.roll(order, -1)] += 0.9
        kernel = plain(leaving(np.where(at.T, end, stay), fixed))
    elif family == "state":  # some places remind of something
        cues = rng.random(where.place.max() + 1) < 0.12
        cue = cues[where.place] & ~at.any(axis=0)
        reminds = rng.integers(K, size=len(cues))[where.place]
        table = base.copy()
        table[cue] = 0.4 * np.eye(K) + 0.6 * np.eye(K)[reminds[cue]][:, None]
        kernel, facts["cues"] = plain(table), int(cues.sum())
    elif family == "event":  # one that no state shows ends the intention
        rate, heard = float(rng.uniform(0.03, 0.08)), 0.9
        rung = base @ leaving(np.full(K, heard), W)
        kernel = by_table(np.stack([base, rung], axis=1).reshape(-1, K, K), lambda step: 2 * step.s + step.event)
        facts |= {"rate": rate}
        expected = (1 - rate) * base + rate * rung
        return Rule(intention, initial, kernel, plain(expected), facts)
    elif family == "time":  # of a typical length: phases one after the other, wherever the agent is
        phases, mean = int(rng.integers(2, 5)), float(rng.uniform(12, 35))
        on = phases / mean
        table = np.asarray(np.kron(np.eye(K), (1 - on) * np.eye(phases) + on * np.eye(phases, k=1)), np.float64)
        table += on * np.kron(W, np.outer(np.eye(phases)[-1], np.eye(phases)[0]))
        intention, initial = np.repeat(np.arange(K), phases), np.outer(w, np.eye(phases)[0]).ravel()
        kernel = by_table(table[None], lambda step: np.zeros(len(step.s), np.int64))
        facts |= {"phases": phases, "mean_dwell": mean}
    elif family == "failures":  # a hidden counter of moves that failed since the intention began
        most, patience = 4, 0.85
        failed, calm = np.zeros((2, K * most, K * most))
        up = np.eye(most, k=1)
        calm += np.eye(K * most)
        failed += np.kron(np.eye(K), up)
        full = np.arange(K) * most + most - 1
        fresh = np.kron(W, np.eye(most)[:1])  # (K, H)
        failed[full] = patience * fresh
        failed[full, full] += 1 - patience
        arrived = np.kron(np.repeat(W, most, axis=0), np.eye(most)[:1])  # (H, H)
        intention, initial = np.repeat(np.arange(K), most), np.outer(w, np.eye(most)[0]).ravel()
        here = np.where(np.repeat(at, most, axis=0).T, end, 0.0)[..., None]  # (S, H, 1)
        table = np.stack([(1 - here) * each + here * arrived for each in (calm, failed)], axis=1)
        moved = where.transitions.shape[1] - 1

        def index(step: Step) -> Ints:
            return np.asarray(2 * step.s + ((step.after == step.s) & (step.a < moved)))

        kernel = by_table(table.reshape(-1, K * most, K * most), index)
        facts |= {"patience": most}
    elif family in ("unannounced", "soft-goals"):
        mean = float(rng.uniform(15, 40))
        kernel = by_table(leaving(np.full((1, K), 1 / mean), W), lambda step: np.zeros(len(step.s), np.int64))
        facts |= {"mean_dwell": mean}
    elif family == "given-up":
        quits, end = float(rng.uniform(0.03, 0.08)), 0.4
        kernel = plain(leaving(np.where(at.T, end, quits), W))
        facts |= {"quits": quits, "end": end}
    elif family == "stays":
        end = float(rng.uniform(0.06, 0.2))
        kernel = plain(leaving(np.where(at.T, end, stay), W))
        facts |= {"end": end}
    else:  # on arrival
        kernel = plain(base)
    return Rule(intention, initial, kernel, kernel, facts)


# -- simulation and oracle ---------------------------------------------------------------------------------------------


def sample(p: Floats, rng: Rng) -> Ints:
    """One outcome per row of (N, M) probabilities."""
    cdf = p.cumsum(axis=1)
    return np.asarray((rng.random((len(p), 1)) * cdf[:, -1:] < cdf).argmax(axis=1))


def smooth(filtered: Floats, emission: Floats, kernels: Callable[[int], Floats], lengths: Ints) -> Floats:
    """(T, N, H) smoothed from filtered beliefs and emissions (T, N, H); trajectories end at their own lengths."""
    smoothed = filtered.copy()
    backward = np.ones(filtered.shape[1:])
    for t in range(len(filtered) - 2, -1, -1):
        new = (kernels(t) @ (emission[t + 1] * backward)[..., None])[..., 0]
        new /= new.sum(axis=1, keepdims=True)
        backward = np.where((t + 1 < lengths)[:, None], new, 1.0)
        smoothed[t] *= backward
        smoothed[t] /= smoothed[t].sum(axis=1, keepdims=True)
    return smoothed


class Run(NamedTuple):
    """A simulation, (N, T, …), padded behind the length of each trajectory."""

    states: npt.NDArray[Any]
    actions: npt.NDArray[Any]
    labels: Ints
    probabilities: Floats
    log_likelihood: Floats
    events: Bools
    lengths: Ints
    who: Ints


def simulate(where: Space, mind: Agent, how: Rule, lengths: Ints, who: Ints, rng: Rng) -> Run:
    """Let N agents act, and filter and smooth what they want by the rule that they follow."""
    K, S, _ = mind.logits.shape
    N, T = len(lengths), int(lengths.max())
    cdf = where.transitions.cumsum(axis=2)
    s, last = rng.integers(S, size=N), np.full(N, -1)
    h, belief = sample(np.tile(how.initial, (N, 1)), rng), np.tile(how.initial, (N, 1))
    rate = float(how.facts.get("rate", 0.0))
    needs, growth = rng.random((N, K)), rng.uniform(0.01, 0.04, K)
    to_intention = np.eye(K)[how.intention]  # (H, K)
    steps, hidden, filtered, emissions, scores = [], [], [], [], []
    for _ in range(T):
        policy = mind.policies(s, last, who)
        a = sample(policy[np.arange(N), how.intention[h]], rng)
        taken = policy[np.arange(N), :, a]  # (N, K)
        emission = taken[:, how.intention]
        after = (rng.random((N, 1)) < cdf[s, a]).argmax(axis=1)
        needs = np.where(mind.at[:, s].T, 0.0, needs + growth)
        step = Step(s, a, after, needs, rng.random(N) < rate)
        scores.append(np.log(((belief @ to_intention) * taken).sum(axis=1)))
        now = belief * emission
        now /= now.sum(axis=1, keepdims=True)
        steps.append(step)
        hidden.append(h)
        filtered.append(now)
        emissions.append(emission)
        belief = (now[:, None] @ how.seen(step))[:, 0]
        h = sample(how.kernel(step)[np.arange(N), h], rng)
        s, last = after, a
    smoothed = smooth(np.stack(filtered), np.stack(emissions), lambda t: how.seen(steps[t]), lengths) @ to_intention
    turned = (np.stack([getattr(step, name) for step in steps], axis=1) for name in ("s", "a", "event"))
    states, actions, events = turned
    labels = how.intention[np.stack(hidden, axis=1)]
    return Run(states, actions, labels, smoothed.swapaxes(0, 1), np.stack(scores, axis=1), events, lengths, who)


def sizes(rng: Rng) -> tuple[int, Ints]:
    """How many trajectories are for training, and the length of those and of the test trajectories behind them."""
    n = int(rng.choice(N_TRAIN))
    horizon = int(min(rng.choice([60, 100, 150]), max(40, MOST_STEPS // n)))
    total = n + max(20, n // 4)
    lengths = rng.integers(horizon // 2, horizon + 1, total) if rng.random() < 0.5 else np.full(total, horizon)
    return n, np.asarray(lengths, np.int64)


def finish(family: str, seed: int, n: int, run: Run, *, is_null: bool, facts: dict[str, Any], **truth: Any) -> World:
    """Cut a simulation into training and test data."""
    kept = np.arange(run.states.shape[1]) < run.lengths[:, None]
    K = run.probabilities.shape[2]
    oracle = Oracle(
        run.probabilities[kept], np.asarray(run.probabilities[kept].argmax(axis=1)), run.log_likelihood[kept]
    )
    parts = [slice(0, n), slice(n, len(run.lengths))]
    border = int(run.lengths[:n].sum())
    steps = [slice(0, border), slice(border, len(oracle.labels))]
    continuous = run.states.ndim == 3

    def demonstrations(part: slice) -> Demonstrations:
        def ragged(values: npt.NDArray[Any]) -> list[Any]:
            return [row[:length] for row, length in zip(values[part], run.lengths[part], strict=True)]

        labels = None if is_null else ragged(run.labels)
        if continuous:
            names = {"observation_names": ("x", "y"), "motion_names": ("vx", "vy")}
            return Demonstrations.continuous(
                ragged(run.states), ragged(run.actions), labels=labels, groups=run.who[part], **names
            )
        S, A, _ = truth["transitions"].shape
        shape: dict[str, Any] = {"n_states": S, "n_actions": A}
        if len(np.unique(truth["place"])) < S:
            shape["places"] = truth["place"]
        return Demonstrations.from_arrays(
            ragged(run.states), ragged(run.actions), labels=labels, groups=run.who[part], **shape
        )

    if run.events.any():
        truth |= {"train_events": run.events[kept][steps[0]], "test_events": run.events[kept][steps[1]]}
    return World(
        name=f"{family}-{seed}",
        family=family,
        seed=seed,
        train=demonstrations(parts[0]),
        test=demonstrations(parts[1]),
        oracle=oracle.at(steps[1]),
        train_oracle=oracle.at(steps[0]),
        n_intentions=K,
        is_null=is_null,
        breaks=family in BREAKS,
        continuous=continuous,
        facts=facts,
        **truth,
    )


# -- families ----------------------------------------------------------------------------------------------------------


def with_goals(family: str, seed: int, rng: Rng) -> World:
    """A world of places whose intentions are places, or rewards over several of them."""
    where = space(rng, doors=family == "failures")
    S, A, _ = where.transitions.shape
    K = int(rng.integers(2, 5 if family in ("soft-goals", "failures", "unannounced", "time") else 10))
    K = min(K, len(where.coordinates) // 4)
    if family == "soft-goals":  # two or three each, of different worth, wanted at once
        places = [choose_goals(where, int(rng.integers(2, 4)), rng) for _ in range(K)]
        reward = np.zeros((K, S))
        for k, own in enumerate(places):
            worth = rng.uniform(0.5, 1.0, len(own))
            reward[k] = ((where.place == own[:, None]) * worth[:, None]).sum(axis=0)
        at = np.zeros((K, S), bool)
        gap = _soft_gap(where.transitions, reward)
        goals = tuple(tuple(int(p) for p in own) for own in places)
    else:
        chosen = choose_goals(where, K, rng, side_by_side=family == "neighbours")
        at, gap = where.place == chosen[:, None], None
        reward, goals = at.astype(float), tuple((int(p),) for p in chosen)
    mind, like = agent(where, at, rng, gap=gap, stays=family == "stays")
    how = rule(family, where, at, rng)
    n, lengths = sizes(rng)
    who = rng.integers(len(mind.bias), size=len(lengths))
    run = simulate(where, mind, how, lengths, who, rng)
    return finish(
        family,
        seed,
        n,
        run,
        is_null=False,
        facts={"layout": where.kind, **like, **how.facts},
        goals=goals,
        rewards=np.repeat(reward[:, :, None], A, axis=2),
        transitions=where.transitions,
        place=where.place,
        coordinates=where.coordinates,
    )


def _soft_gap(transitions: Floats, reward: Floats, discount: float = 0.9) -> Floats:
    """Losses (K, S, A) of actions under rewards (K, S), in units of their mean over states."""
    S, A, _ = transitions.shape
    flat = np.ascontiguousarray(transitions.reshape(S * A, S).T)
    values = np.zeros(reward.shape)
    for _ in range(200):
        q = reward[..., None] + discount * (values @ flat).reshape(len(reward), S, A)
        values = q.max(axis=2)
    gap = values[..., None] - q
    return np.asarray(np.minimum(gap / np.maximum(gap.mean(axis=(1, 2), keepdims=True), 1e-12), 8.0))


def field_or_maze(family: str, seed: int, rng: Rng) -> World:
    """Positions in an open field, or in a maze with walls: commands point to the next cell on the way, with noise."""
    side = int(rng.integers(6, 10))
    neighbours, xy = grid(side, side)
    if family == "maze":
        neighbours = with_walls(neighbours, float(rng.uniform(0.4, 0.8)), rng)
    n_places = side**2
    joined = np.zeros((n_places, n_places))
    origin, port = np.nonzero(neighbours >= 0)
    joined[origin, neighbours[origin, port]] = 1
    distance = shortest_path(joined, unweighted=True)
    where = Space(family, np.zeros((0, 0, 0)), np.arange(n_places), xy, distance)
    K = int(rng.integers(2, 7))
    cells = choose_goals(where, K, rng)
    goals = xy[cells] + 0.5 + rng.uniform(-0.2, 0.2, (K, 2))
    _, before = shortest_path(joined, unweighted=True, return_predecessors=True, indices=cells)
    following = np.where(before < 0, np.arange(n_places), before)  # (K, P) the next cell on the way
    speed, noise, radius = 0.25, float(rng.uniform(0.08, 0.2)), 0.45
    w = rng.dirichlet(np.full(K, 4.0))
    W, end = others(w), float(rng.choice([1.0, 0.5]))

    def cell(x: Floats) -> Ints:
        column, row = np.clip(np.floor(x).astype(np.int64), 0, side - 1).T
        return np.asarray(row * side + column)

    def towards(x: Floats) -> Floats:  # (N, K, 2)
        here = cell(x)
        nxt = following[:, here].T
        aim = np.where((nxt == here[:, None])[..., None], goals, xy[nxt] + 0.5)
        aim = np.where((cells == here[:, None])[..., None], goals, aim) if family == "maze" else goals
        way = aim - x[:, None]
        return np.asarray(speed * way / np.maximum(np.linalg.norm(way, axis=2, keepdims=True), speed))

    def move(x: Floats, command: Floats) -> Floats:
        for axis in (0, 1):
            tried = x.copy()
            tried[:, axis] = np.clip(tried[:, axis] + np.clip(command[:, axis], -0.9, 0.9), 0.0, side - 1e-6)
            one, other = cell(x), cell(tried)
            x = np.where(((one == other) | (joined[one, other] > 0))[:, None], tried, x)
        return x

    def kernel(x: Floats) -> Floats:
        near = np.linalg.norm(x[:, None] - goals, axis=2) < radius
        return leaving(np.where(near, end, 1e-3), W)

    n, lengths = sizes(rng)
    N, T = len(lengths), int(lengths.max())
    x = rng.uniform(0.0, side, (N, 2))
    z, belief = sample(np.tile(w, (N, 1)), rng), np.tile(w, (N, 1))
    positions, commands, labels, filtered, emissions, scores = [], [], [], [], [], []
    for _ in range(T):
        mean = towards(x)
        command = mean[np.arange(N), z] + noise * rng.normal(size=(N, 2))
        log_density = -((command[:, None] - mean) ** 2).sum(axis=2) / (2 * noise**2) - np.log(2 * np.pi * noise**2)
        top = log_density.max(axis=1, keepdims=True)
        emission = np.exp(log_density - top)
        now = belief * emission
        scores.append(np.log(now.sum(axis=1)) + top[:, 0])
        now /= now.sum(axis=1, keepdims=True)
        positions.append(x)
        commands.append(command)
        labels.append(z)
        filtered.append(now)
        emissions.append(emission)
        after = kernel(x)
        belief = (now[:, None] @ after)[:, 0]
        z = sample(after[np.arange(N), z], rng)
        x = move(x, command)
    smoothed = smooth(np.stack(filtered), np.stack(emissions), lambda t: kernel(positions[t]), lengths)
    run = Run(
        np.stack(positions, axis=1),
        np.stack(commands, axis=1),
        np.stack(labels, axis=1),
        smoothed.swapaxes(0, 1),
        np.stack(scores, axis=1),
        np.zeros((N, T), bool),
        lengths,
        np.zeros(N, np.int64),
    )
    facts = {"layout": family, "switching": "arrival", "end": end, "noise": noise}
    return finish(family, seed, n, run, is_null=False, facts=facts, goals=tuple(map(tuple, goals)))


HASHED = 4096


def null(family: str, seed: int, rng: Rng) -> World:
    """Behaviour without intentions: what is done depends on what was seen and done, and on who does it, alone."""
    trials = family in ("sticky-choices", "choice-kernel")
    if trials:  # a cue per trial, whatever was chosen
        S, A = int(rng.integers(2, 6)), int(rng.integers(2, 4))
        transitions, place, xy = np.full((S, A, S), 1 / S), np.arange(S), None
        kind = "trials"
    else:
        where = space(rng)
        transitions, place, xy, kind = where.transitions, where.place, where.coordinates, where.kind
        S, A, _ = transitions.shape
    n, lengths = sizes(rng)
    N, T = len(lengths), int(lengths.max())
    individuals = 8 if family == "individuals" else int(rng.choice([1, 4]))
    who = rng.integers(individuals, size=N)
    memory = int(rng.integers(1, 7)) if family.startswith("habit") else 0
    habit = rng.normal(size=(S, A))
    tables = 1.2 * rng.normal(size=(max(memory, 1), HASHED, A))
    factors = rng.integers(1, 2**31, size=(8, 2)) * 2 + 1
    bias, own = np.zeros((individuals, A)), np.zeros((individuals, S, A))
    if family == "individuals":
        bias, own = rng.normal(size=bias.shape), 0.7 * rng.normal(size=own.shape)
    stick, rate = float(rng.uniform(0.8, 2.0)), float(rng.uniform(0.1, 0.4))
    unlike = 2.0 * rng.normal(size=(S, A))
    weights = rng.normal(size=(S + A, 32)), rng.normal(size=(32, A))
    kernel, trace, drift = np.zeros((N, A)), np.zeros((N, 32)), rng.uniform(0, 1, N)
    s = rng.integers(S, size=N)
    seen: list[Ints] = []
    done: list[Ints] = []
    states, actions, scores = [], [], []
    for _ in range(T):
        seen.insert(0, s)
        logits = habit[s] + bias[who] + own[who, s]
        if family.startswith("habit"):
            key = s * factors[0, 0]
            for j in range(memory):
                if family != "habit-actions" and j:
                    key = key ^ (seen[j] + 1 if j < len(seen) else np.zeros(N, int)) * factors[j, 0]
                if family != "habit-states":
                    key = key ^ (done[j] + 1 if j < len(done) else np.zeros(N, int)) * factors[j, 1]
                logits = logits + tables[j, (key >> 7) % HASHED] * 0.8**j
        elif family == "sticky-choices" and done:
            logits = logits + stick * (done[0][:, None] == np.arange(A))
        elif family == "choice-kernel":
            logits = logits + 2 * stick * kernel
        elif family == "drift":
            logits = (1 - drift[:, None]) * habit[s] + drift[:, None] * unlike[s]
            drift = np.clip(drift + 0.02 * rng.normal(size=N), 0, 1)
        elif family == "network":  # a random one, which forgets within some ten steps
            before = np.zeros((N, S + A))
            before[np.arange(N), s] = 1
            if done:
                before[np.arange(N), S + done[0]] = 1
            trace = np.tanh(0.75 * trace + 0.8 * before @ weights[0])
            logits = 0.5 * logits + 0.5 * trace @ weights[1]
        p = softmax(logits, axis=1)
        a = sample(p, rng)
        kernel = kernel + rate * (np.eye(A)[a] - kernel)
        states.append(s)
        actions.append(a)
        scores.append(np.log(p[np.arange(N), a]))
        done.insert(0, a)
        del seen[8:], done[8:]
        s = sample(transitions[s, a], rng)
    zeros, scored = np.zeros((N, T), np.int64), np.stack(scores, axis=1)
    seen_all, done_all = np.stack(states, axis=1), np.stack(actions, axis=1)
    run = Run(seen_all, done_all, zeros, np.ones((N, T, 1)), scored, zeros > 0, lengths, who)
    facts = {"layout": kind, "memory": memory, "individuals": individuals}
    truth = {"transitions": transitions, "place": place, "coordinates": xy}
    return finish(family, seed, n, run, is_null=True, facts=facts, **truth)


FAMILIES: dict[str, Callable[[str, int, Rng], World]] = {
    **dict.fromkeys(("arrival", "needs", "failures", "time", "state", "last-visited", "event"), with_goals),
    **dict.fromkeys(("stays", "soft-goals", "neighbours", "given-up", "unannounced"), with_goals),
    **dict.fromkeys(("field", "maze"), field_or_maze),
    **dict.fromkeys(("habit-states", "habit-actions", "habit-both", "sticky-choices", "choice-kernel"), null),
    **dict.fromkeys(("individuals", "drift", "network"), null),
}
"""Families with intentions first, nulls last."""
NULLS = tuple(name for name, make in FAMILIES.items() if make is null)
CONTINUOUS = ("field", "maze")
BREAKS = ("stays", "soft-goals", "neighbours", "given-up", "unannounced", "time", "failures")
"""Families with intentions that break what goals that end assume."""
DEVELOPMENT, TABLE = range(1000), range(1000, 2000)


def draw(seed: int, family: str | None = None) -> World:
    """Return the world of a seed; families take turns where none is named."""
    names = list(FAMILIES)
    name = names[seed % len(names)] if family is None else family
    if name not in FAMILIES:
        raise ValueError(f"There is no family {name!r}; choose among {', '.join(names)}.")
    return FAMILIES[name](name, seed, np.random.default_rng([seed, names.index(name)]))
