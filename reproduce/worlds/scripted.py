"""Scripted demonstrations of robot arms with the true stage of every step: twenty-four tasks, in milliseconds.

A task is a list of stages; a stage moves the tool to a place (minimum jerk), closes or opens the gripper, or waits.
Places and durations are drawn anew for every episode. What is recorded is the tool itself with commands that are
differences, or joints (a random smooth map of the tool) with commands that are absolute joint targets or differences,
noisy and quantised. The settings of phases were chosen on the first ten tasks and on random ones (`random_tasks`); the
last three, `HELD_OUT`, were written before the settings changed last; the threshold of the order moved once more
after. Use it wherever phases must be judged against a truth and a simulator with contacts would be too slow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from prism_irl.errors import InputError
from prism_irl.robots.episodes import Episode

FloatArray = npt.NDArray[np.float64]
Draw = np.random.Generator


class Stage(NamedTuple):
    """One stretch of a script: its phase, where the tool goes, the gripper (1: open), the tilt, typical seconds."""

    phase: str
    goal: FloatArray
    grip: float
    tilt: float
    seconds: float


def _place(draw: Draw, x: float, y: float, spread: float = 0.1) -> FloatArray:
    return np.asarray(np.array([x, y, 0.02]) + np.append(draw.uniform(-spread, spread, 2), 0.0))


def _above(place: FloatArray, height: float = 0.15) -> FloatArray:
    return np.asarray(place + np.array([0.0, 0.0, height]))


def _fetch(draw: Draw, source: FloatArray, target: FloatArray, which: str = "") -> list[Stage]:
    """Reach, grasp, carry and release one object."""
    return [
        Stage(f"reach{which}", _above(source), 1, 0, 1.2),
        Stage(f"reach{which}", source, 1, 0, 0.8),
        Stage(f"grasp{which}", source, 0, 0, 0.5),
        Stage(f"carry{which}", _above(source), 0, 0, 0.7),
        Stage(f"carry{which}", _above(target), 0, 0, 1.2),
        Stage(f"lower{which}", target, 0, 0, 0.9),
        Stage(f"release{which}", target, 1, 0, 0.5),
    ]


HOME = np.array([0.0, 0.0, 0.4])


def pick_place(draw: Draw) -> list[Stage]:
    """One object, to one place."""
    return [*_fetch(draw, _place(draw, 0.4, -0.2), _place(draw, 0.3, 0.3)), Stage("depart", HOME, 1, 0, 1.2)]


def two_objects(draw: Draw) -> list[Stage]:
    """Two objects, one after the other."""
    first = _fetch(draw, _place(draw, 0.4, -0.3), _place(draw, 0.3, 0.3, 0.03), " one")
    return [*first, *_fetch(draw, _place(draw, 0.5, 0.0), _place(draw, 0.4, 0.3, 0.03), " two")]


def drawer(draw: Draw) -> list[Stage]:
    """Pull a drawer open, put something in."""
    handle = np.array([0.6, draw.uniform(-0.1, 0.1), 0.2])
    pulled = handle - np.array([draw.uniform(0.15, 0.25), 0.0, 0.0])
    opened = [
        Stage("reach handle", handle, 1, 0, 1.5),
        Stage("grip handle", handle, 0, 0, 0.4),
        Stage("pull", pulled, 0, 0, 1.6),
        Stage("let go", pulled, 1, 0, 0.4),
    ]
    put = _fetch(draw, _place(draw, 0.3, -0.35), pulled + np.array([0.1, 0.0, 0.05]))
    return [*opened, *[stage for stage in put if stage.phase != "lower"]]


def buttons(draw: Draw) -> list[Stage]:
    """Press three buttons; nothing is held."""
    found = []
    for i, y in enumerate((-0.3, 0.0, 0.3)):
        button = _place(draw, 0.4, y, 0.04)
        found += [Stage(f"approach {i}", _above(button, 0.12), 0, 0, 1.2), Stage(f"press {i}", button, 0, 0, 0.5)]
        found += [Stage(f"press {i}", _above(button, 0.1), 0, 0, 0.5)]
    return found


def wipe(draw: Draw) -> list[Stage]:
    """Wipe to and fro, a few times: stages that come back."""
    left, right = _place(draw, 0.4, 0.3, 0.03), _place(draw, 0.4, -0.3, 0.03)
    strokes = [Stage("to the left", left, 0, 0, 0.8), Stage("to the right", right, 0, 0, 1.1)]
    return strokes * int(draw.integers(3, 7))


def joint_targets(draw: Draw) -> list[Stage]:
    """Pick and place with pauses before the grasp and after the release."""
    found = []
    for stage in pick_place(draw):
        found.append(stage)
        if stage.phase in ("grasp", "release") and draw.random() < 0.5:
            found.append(stage._replace(seconds=0.4))
    return found


def pour(draw: Draw) -> list[Stage]:
    """Take a bottle, pour, put it back."""
    bottle, cup = _place(draw, 0.4, -0.3), _place(draw, 0.45, 0.25)
    over = _above(cup, 0.2)
    return [
        Stage("reach", bottle, 1, 0, 1.5),
        Stage("grasp", bottle, 0, 0, 0.5),
        Stage("carry", _above(bottle), 0, 0, 0.6),
        Stage("carry", over, 0, 0, 1.2),
        Stage("pour", over, 0, 1.6, 0.8),
        Stage("pour", over, 0, 1.6, draw.uniform(0.6, 2.4)),
        Stage("return", over, 0, 0, 0.7),
        Stage("return", bottle, 0, 0, 1.5),
        Stage("release", bottle, 1, 0, 0.4),
    ]


def insert(draw: Draw) -> list[Stage]:
    """A peg into a hole, with a search of varying length."""
    peg, hole = _place(draw, 0.35, -0.25), _place(draw, 0.45, 0.2, 0.05)
    found = _fetch(draw, peg, hole)[:5]
    for _ in range(int(draw.integers(2, 7))):
        found.append(Stage("search", hole + np.append(draw.normal(0, 0.012, 2), 0.03), 0, 0, 0.3))
    found.append(Stage("insert", hole - np.array([0, 0, 0.02]), 0, 0, 1.0))
    return [*found, Stage("release", hole - np.array([0, 0, 0.02]), 1, 0, 0.4), Stage("depart", HOME, 1, 0, 1.0)]


def stack(draw: Draw) -> list[Stage]:
    """Three objects on top of one another, each a fetch that is one phase and a stacking that is another."""
    found, base = [], _place(draw, 0.4, 0.2, 0.05)
    for i in range(3):
        for stage in _fetch(draw, _place(draw, 0.3 + 0.1 * i, -0.3, 0.04), base + np.array([0, 0, 0.04 * i])):
            phase = "fetch" if stage.phase in ("reach", "grasp") else "stack"
            found.append(stage._replace(phase=f"{phase} {i}"))
    return found


def sweep(draw: Draw) -> list[Stage]:
    """Take a brush, sweep in strokes that the script does not count as phases, put it away."""
    brush, start = _place(draw, 0.3, -0.3), _place(draw, 0.4, 0.0)
    found = [Stage("reach", brush, 1, 0, 1.4), Stage("grasp", brush, 0, 0, 0.5), Stage("carry", start, 0, 0.8, 1.2)]
    for i in range(int(draw.integers(2, 5))):
        found.append(Stage("sweep", start + np.array([0.0, 0.25, 0.0]), 0, 0.8, 0.7))
        found.append(Stage("sweep", start + np.array([0.02 * i, 0.0, 0.03]), 0, 0.8, 0.5))
    return [*found, Stage("return", brush, 0, 0, 1.3), Stage("release", brush, 1, 0, 0.4)]


def humanoid(draw: Draw) -> list[Stage]:
    """One hand fetches, both meet, the other hand puts down: the right hand's place, then the left one's."""
    source, target, middle = _place(draw, 0.4, -0.35), _place(draw, 0.4, 0.35), np.array([0.35, 0.0, 0.3])
    rest, met = np.array([0.1, 0.3, 0.4]), middle + np.array([0.0, 0.08, 0.0])
    both = [
        ("reach", _above(source), rest, 1, 0, 1.0),
        ("reach", source, rest, 1, 0, 0.7),
        ("grasp", source, rest, 0, 0, 0.5),
        ("lift", middle, rest, 0, 0, 1.3),
        ("meet", middle, met, 0, 0, 1.0),
        ("hand over", middle, met, 0, 1, 0.5),
        ("hand over", middle, met, 1, 1, 0.4),
        ("place", HOME, _above(target), 1, 1, 1.2),
        ("place", HOME, target, 1, 1, 0.6),
        ("release", HOME, target, 1, 0, 0.5),
    ]
    return [Stage(name, np.concatenate([right, left]), *rest_of) for name, right, left, *rest_of in both]


def widths(draw: Draw) -> list[Stage]:
    """Pick and place of things of many sizes: the gripper closes as far as each lets it."""
    width = draw.uniform(0.1, 0.6)
    return [stage._replace(grip=width if stage.grip == 0 else 1.0) for stage in pick_place(draw)]


def ajar(draw: Draw) -> list[Stage]:
    """The drawer; three times in ten it is open already, and its first stages are missing."""
    script = drawer(draw)
    return script if draw.random() < 0.7 else script[4:]


def idle_ends(draw: Draw) -> list[Stage]:
    """Pick and place, recorded too early and too late: rests at both ends, which are stages of their own."""
    script = pick_place(draw)
    wait = Stage("wait", HOME, 1, 0, draw.uniform(0.3, 3.0))
    return [wait, *script, wait._replace(phase="done", seconds=draw.uniform(0.3, 4.0))]


def either_first(draw: Draw) -> list[Stage]:
    """Two objects of two places, whichever is first: stages whose order is not the same everywhere."""
    jobs = [
        _fetch(draw, _place(draw, 0.4, -0.3, 0.05), _place(draw, 0.3, 0.3, 0.03), " cup"),
        _fetch(draw, _place(draw, 0.6, 0.0, 0.05), _place(draw, 0.1, 0.4, 0.03), " plate"),
    ]
    merged = {"grasp": "reach", "lower": "carry", "release": "carry"}
    script = [stage for i in draw.permutation(2) for stage in jobs[i]]
    words = [stage.phase.split() for stage in script]
    return [stage._replace(phase=f"{merged.get(a, a)} {b}") for stage, (a, b) in zip(script, words, strict=True)]


def machine(draw: Draw) -> list[Stage]:
    """Tend a machine: fetch, load, wait, unload, two to five times."""
    stock, slot = _place(draw, 0.3, -0.35, 0.03), _place(draw, 0.5, 0.1, 0.01)
    done = _place(draw, 0.2, 0.4, 0.03)
    round_ = [
        Stage("fetch", stock, 1, 0, 1.1),
        Stage("fetch", stock, 0, 0, 0.3),
        Stage("load", slot, 0, 0, 1.2),
        Stage("load", slot, 1, 0, 0.3),
        Stage("wait", _above(slot), 1, 0, 0.5),
        Stage("wait", _above(slot), 1, 0, 1.0),
        Stage("unload", slot, 0, 0, 0.6),
        Stage("unload", done, 0, 0, 1.2),
        Stage("unload", done, 1, 0, 0.3),
    ]
    return round_ * int(draw.integers(2, 6))


def screw(draw: Draw) -> list[Stage]:
    """Screw a lid on: turns of the wrist, as many as it takes, on a jar that was fetched."""
    found = _fetch(draw, _place(draw, 0.35, -0.25), _place(draw, 0.4, 0.25, 0.02))[:5]
    jar = found[-1].goal - np.array([0.0, 0.0, 0.12])
    found.append(Stage("put on", jar, 0, 0, 0.8))
    for _ in range(int(draw.integers(3, 7))):
        found += [Stage("turn", jar, 0, 1.5, 0.6), Stage("turn", jar, 1, 0, 0.5), Stage("turn", jar, 0, 0, 0.2)]
    return [*found, Stage("depart", HOME, 1, 0, 1.2)]


def retry(draw: Draw) -> list[Stage]:
    """Pick and place where a third of the grasps fail, so that reach and grasp are done again."""
    script = pick_place(draw)
    while draw.random() < 0.33:
        again = [script[1]._replace(goal=_above(script[1].goal, 0.06), seconds=0.5), script[1], script[2]]
        script = [*script[:3], *again, *script[3:]]
    return script


def dishes(draw: Draw) -> list[Stage]:
    """Two hands clear a table: few stages of many movements each, which the gripper divides in their middle."""
    plate, cup, sink = _place(draw, 0.4, -0.3), _place(draw, 0.5, 0.2), _place(draw, 0.1, 0.5, 0.03)
    rest, home = np.array([0.1, 0.3, 0.4]), np.array([0.1, -0.3, 0.4])
    found = []
    for what, place, right in (("plate", plate, True), ("cup", cup, False)):
        still = rest if right else home
        for name, goal, grip, seconds in (
            (f"get {what}", _above(place, 0.2), 1, 1.1),
            (f"get {what}", place, 1, 0.7),
            (f"get {what}", place, 0, 0.4),
            (f"get {what}", _above(place, 0.25), 0, 0.8),
            (f"put {what} away", _above(sink), 0, 1.4),
            (f"put {what} away", sink, 0, 0.5),
            (f"put {what} away", sink, 1, 0.4),
            (f"put {what} away", home if right else rest, 1, 1.2),
        ):
            both = [goal, still] if right else [still, goal]
            found.append(Stage(name, np.concatenate(both), grip, 0, seconds))
            if draw.random() < 0.25:  # a person who thinks
                found.append(found[-1]._replace(seconds=draw.uniform(0.2, 0.9)))
    return found


def charger(draw: Draw) -> list[Stage]:
    """Open a flap, plug in, wait long, unplug, close: lengths that differ tenfold."""
    flap, plug = _place(draw, 0.5, 0.2, 0.03), _place(draw, 0.35, -0.3, 0.05)
    socket, wide = flap + np.array([0.0, 0.0, 0.1]), flap + np.array([0.0, 0.15, 0.05])
    return [
        Stage("open flap", flap, 0, 0, 1.0),
        Stage("open flap", wide, 0, 0, 0.8),
        Stage("fetch plug", plug, 1, 0, 1.2),
        Stage("fetch plug", plug, 0, 0, 0.4),
        Stage("plug in", _above(socket), 0, 0.8, 1.1),
        Stage("plug in", socket, 0, 0.8, 0.6),
        Stage("charge", socket, 0, 0.8, draw.uniform(3.0, 7.0)),
        Stage("unplug", _above(socket), 0, 0.8, 0.5),
        Stage("unplug", plug, 0, 0, 1.2),
        Stage("unplug", plug, 1, 0, 0.3),
        Stage("close flap", wide, 1, 0, 1.0),
        Stage("close flap", flap, 1, 0, 0.6),
    ]


def sorting(draw: Draw) -> list[Stage]:
    """Five small things into two boxes, one stage each, whichever lies where; some are pushed instead of held."""
    found = []
    for i in range(5):
        thing, box = _place(draw, 0.3 + 0.06 * i, -0.2, 0.04), _place(draw, 0.35, 0.25 + 0.15 * (i % 2), 0.02)
        if draw.random() < 0.3:
            found += [Stage(f"thing {i}", thing, 1, 0, 0.9), Stage(f"thing {i}", box, 1, 0, 1.1)]
        else:
            found += [stage._replace(phase=f"thing {i}") for stage in _fetch(draw, thing, box) if stage.seconds > 0.45]
    return found


def fold(draw: Draw) -> list[Stage]:
    """Two hands fold a cloth: long stages of both hands and short ones that only the grippers mark, or nothing does."""
    left, right = _place(draw, 0.3, 0.2, 0.04), _place(draw, 0.3, -0.2, 0.04)
    far = np.array([draw.uniform(0.2, 0.3), 0.0, 0.0])
    found = []
    for name, hands, grip, seconds in (
        ("corners", (_above(left), _above(right)), 1, 1.3),
        ("corners", (left, right), 1, 0.6),
        ("corners", (left, right), 0, 0.4),
        ("fold", (_above(left + far / 2, 0.2), _above(right + far / 2, 0.2)), 0, 1.1),
        ("fold", (left + far, right + far), 0, 1.2),
        ("smooth", (left + far, right + far), 1, 0.3),
        ("smooth", (left, right), 1, draw.uniform(0.8, 2.0)),
        ("side", (left + far / 2, _above(right, 0.1)), 1, 0.8),
        ("side", (left + far / 2, _above(right, 0.1)), 0, 0.3),
        ("side", (right, _above(right, 0.1)), 0, 1.4),
        ("leave", (_above(left, 0.3), _above(right, 0.3)), 1, 1.0),
    ):
        found.append(Stage(name, np.concatenate(hands), grip, 0, seconds))
    return found


def inspection(draw: Draw) -> list[Stage]:
    """A camera, no gripper: from view to view, with looks of very different length, and at times a second look."""
    found = []
    for i, (x, y) in enumerate(((0.4, -0.3), (0.55, -0.05), (0.5, 0.25), (0.25, 0.35))):
        view = _above(_place(draw, x, y, 0.03), 0.25)
        found += [Stage(f"go to {i}", view, 0, 0.5 * (i % 2), 1.2), Stage(f"look {i}", view, 0, 0.5 * (i % 2), 0.3)]
        found.append(found[-1]._replace(seconds=draw.exponential(1.5)))
        if draw.random() < 0.3:
            near = view + np.append(draw.normal(0, 0.03, 2), -0.05)
            found += [Stage(f"look {i}", near, 0, 0.5 * (i % 2), 0.6), found[-1]._replace(seconds=0.5)]
    return found


def packing(draw: Draw) -> list[Stage]:
    """As many things as there are go into a box, one after the other, and then it is closed: stages that come back."""
    box, found = _place(draw, 0.4, 0.25, 0.03), list[Stage]()
    for _ in range(int(draw.integers(2, 6))):
        thing = _place(draw, 0.4, -0.25, 0.12)
        found += [
            stage._replace(phase="get" if stage.phase in ("reach", "grasp") else "put in")
            for stage in _fetch(draw, thing, box)
        ]
    lid = box + np.array([0.15, 0.0, 0.05])
    return [*found, Stage("close", lid, 1, 1.0, 1.0), Stage("close", lid, 0, 1.0, 0.3), Stage("close", box, 0, 0, 1.1)]


@dataclass(frozen=True)
class Arm:
    """What is recorded of the tool.

    Parameters
    ----------
    joints : int
        Joints that are recorded, with absolute targets as commands; 0 records the tool, with differences as commands.
    deltas : bool
        Commands of joints are differences, too.
    hz : float
    noise : float
        Of commands and measurements, relative to their spread.
    quantum : float
        Step of joint readings, relative to their spread; 0 for none.
    objects : bool
        Record where the script's places are, too (what a simulator knows).
    """

    joints: int = 0
    deltas: bool = False
    hz: float = 10.0
    noise: float = 0.02
    quantum: float = 0.0
    objects: bool = False


TASKS: dict[str, tuple[Callable[[Draw], list[Stage]], Arm]] = {
    "pick-place": (pick_place, Arm(objects=True)),
    "two-objects": (two_objects, Arm(hz=20)),
    "drawer": (drawer, Arm(joints=7, hz=15)),
    "buttons": (buttons, Arm(noise=0.05)),
    "wipe": (wipe, Arm(joints=7, hz=20)),
    "joint-targets": (joint_targets, Arm(joints=26, hz=30, quantum=0.02)),
    "stack": (stack, Arm(joints=6, hz=30, quantum=0.005)),
    "pour": (pour, Arm(joints=7, hz=30, quantum=0.005)),
    "insert": (insert, Arm(noise=0.05, hz=20)),
    "sweep": (sweep, Arm(joints=14, hz=25)),
    "humanoid": (humanoid, Arm(joints=29, hz=50, quantum=0.005)),
    "widths": (widths, Arm(joints=6, deltas=True, hz=50)),
    "ajar": (ajar, Arm(joints=7, hz=15)),
    "idle-ends": (idle_ends, Arm(joints=6, hz=30, quantum=0.005)),
    "either-first": (either_first, Arm(joints=7, hz=20)),
    "machine": (machine, Arm(joints=6, hz=20)),
    "screw": (screw, Arm(joints=7, deltas=True, hz=30)),
    "retry": (retry, Arm(hz=10)),
    "dishes": (dishes, Arm(joints=26, hz=30, quantum=0.005)),
    "charger": (charger, Arm(joints=7, hz=20)),
    "sorting": (sorting, Arm(joints=6, deltas=True, hz=15, noise=0.04)),
    "fold": (fold, Arm(joints=28, hz=30, quantum=0.01)),
    "inspection": (inspection, Arm(joints=7, hz=20)),
    "packing": (packing, Arm(hz=10, noise=0.04)),
}
"""Every task with how it is recorded."""
HELD_OUT = tuple(TASKS)[21:]
"""Tasks that had no part in choosing settings, but that one threshold of the order moved after they had been seen."""


def _tool(script: list[Stage], hz: float, draw: Draw) -> tuple[FloatArray, list[str]]:
    """Tool x, y, z (of two hands), tilt and gripper at every step, (T, 5 or 8), and the phase of each."""
    pace = np.exp(draw.normal(0.0, 0.12))
    home = np.tile(HOME, len(script[0].goal) // 3)
    now = np.concatenate([home + draw.normal(0, 0.03, len(home)), [0.0, script[0].grip]])
    rows, phases = [], list[str]()
    for stage in script:
        n = max(2, round(stage.seconds * pace * np.exp(draw.normal(0.0, 0.25)) * hz))
        u = np.arange(1, n + 1) / n
        goal = np.concatenate([stage.goal + draw.normal(0, 0.004, len(home)), [stage.tilt, stage.grip]])
        rows.append(now + (goal - now) * (10 * u**3 - 15 * u**4 + 6 * u**5)[:, None])
        phases += [stage.phase] * n
        now = goal
    return np.concatenate(rows), phases


def _joints(tool: FloatArray, n: int) -> FloatArray:
    """A fixed smooth map of the tool into joints, (T, n)."""
    fixed = np.random.default_rng(n)
    hidden = np.tanh(tool[:, :-1] @ fixed.normal(0, 1.5, (tool.shape[1] - 1, 16)) + fixed.normal(0, 0.5, 16))
    found: FloatArray = hidden @ fixed.normal(0, 0.5, (16, n))
    found[:, n // 2 + 5 :] *= 0.02  # joints that hardly move
    return found


def episodes(task: str, n_episodes: int, *, seed: int = 0) -> Iterator[Episode]:
    """Demonstrations of a task, one at a time; episode i depends on the seed and on i only."""
    if task not in TASKS:
        raise InputError(f"There is no task {task!r}; choose {', '.join(TASKS)}.")
    make, arm = TASKS[task]
    tries = (make(np.random.default_rng(i)) for i in range(20))  # every phase, and where one is rare
    names = tuple(dict.fromkeys(stage.phase for script in tries for stage in script))
    for index in range(n_episodes):
        draw = np.random.default_rng([seed, index])
        script = make(draw)
        tool, phases = _tool(script, arm.hz, draw)
        nxt = np.concatenate([tool[1:], tool[-1:]])
        if arm.joints:
            state = _joints(tool, arm.joints)
            spread = np.maximum(state.std(0), 1e-3)
            action = _joints(nxt, arm.joints) - (state if arm.deltas else 0.0)
            action += draw.normal(0, arm.noise, state.shape) * (np.abs(action).max(0) if arm.deltas else spread)
            state = state + draw.normal(0, arm.noise / 2, state.shape) * spread
            if arm.quantum:
                state, action = (np.round(x / (arm.quantum * spread)) * arm.quantum * spread for x in (state, action))
        else:
            step = nxt[:, :4] - tool[:, :4]
            action = step + draw.normal(0, arm.noise, step.shape) * np.abs(step).max()
            state = tool[:, :4] + draw.normal(0, arm.noise / 10, step.shape)
        grip = tool[:, -1].copy()
        for k in range(3, len(grip)):  # the gripper closes behind its command
            grip[k] = 0.5 * grip[k - 1] + 0.5 * grip[k]
        state = np.column_stack([state, grip])
        shut = min(stage.grip for stage in script)
        action = np.column_stack([action, np.where(nxt[:, -1] > (1.0 + shut) / 2, 1.0, shut)])
        if arm.objects:
            held = np.repeat(np.concatenate([script[1].goal, script[5].goal])[None], len(state), 0)
            state = np.column_stack([state, held])
        yield Episode(
            index,
            action.astype(np.float32),
            state.astype(np.float32),
            language=task,
            timestamps=np.arange(len(state)) / arm.hz,
            phases=np.array([names.index(phase) for phase in phases], dtype=np.int32),
            phase_names=names,
        )
