"""Options of the reward models: one frozen dataclass per kind, which builds the model.

Flags of the command line are made of these fields, so that nothing heavy is imported before a model is built.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from prism_irl.errors import InputError
from prism_irl.halves import check_choice, check_numbers

if TYPE_CHECKING:
    from prism_irl.arrays import FloatArray
    from prism_irl.data.demonstrations import Demonstrations
    from prism_irl.mdp import MDP
    from prism_irl.rewards.base import Problem, RewardModel

NO_PLACES = {"arrival": "Intentions that end on arrival have to be places; choose rewards places, or switching markov."}


@dataclass(frozen=True)
class RewardOptions(ABC):
    """Options of a reward model, and how to build it; registered in `rewards.REWARDS`.

    Attributes
    ----------
    memory : whose policies remember short histories: each intention's, the shared habit's, or nobody's
    of_commands : on continuous data the policies are over commands, so that their likelihood is a density
    searches : starts are found by a search of the model's own (`RewardModel.first_guess`)
    start_kinds : kinds of first responsibilities that the starts cycle through, or None for those of the model
    unsuited : switching that makes no sense with it → the reason, in one sentence
    labels_choose : options that were left to "auto" are chosen by known labels instead of validation trajectories
    by_training : likelihood plus prior of the training data compares starts, although these are densities
    defaults : parameters of `Intentions` that this component prefers where the user says nothing
    stackable : fits are made side by side on a GPU (`scale.stacked`)
    adds_up : statistics of continuous data are a few sums (`RewardModel.adds_up`)
    """

    memory: ClassVar[Literal["intention", "habit", "none"]] = "none"
    of_commands: ClassVar[bool] = False
    searches: ClassVar[bool] = False
    labels_choose: ClassVar[bool] = False
    by_training: ClassVar[bool] = False
    start_kinds: ClassVar[tuple[Literal["random", "windows", "annealed"], ...] | None] = None
    unsuited: ClassVar[Mapping[str, str]] = NO_PLACES
    defaults: ClassVar[Mapping[str, Any]] = {}
    stackable: ClassVar[bool] = False
    adds_up: ClassVar[bool] = False

    @abstractmethod
    def build(self, problem: Problem) -> RewardModel:
        """The untrained model."""

    def check(self, demos: Demonstrations, n_intentions: int) -> None:  # noqa: B027
        """Raise an `InputError` where an option makes no sense, or where the data lack what it needs."""

    def dynamics(self, mdp: MDP, demos: Demonstrations, discount: float) -> MDP:
        """The dynamics as this component plans with them."""
        return mdp

    @property
    def smoothing(self) -> float:
        """What every action counts for where it was never seen, in the tables of a habit and of individuals."""
        return 0.01

    @property
    def masks_invalid_actions(self) -> bool:
        """Whether an action that a state does not have is impossible; else it can be chosen, and stays in place."""
        return True

    def in_steps(self, demos: Demonstrations, steps_per_second: Callable[[], float | None]) -> RewardOptions:
        """The same options, times in steps of these data."""
        return self

    def describe(self, demos: Demonstrations) -> FloatArray | None:
        """Every step in a few numbers (n, d), by which windows are clustered; None for states and actions."""
        return None

    def candidates(self, demos: Demonstrations) -> list[dict[str, Any]]:
        """Values of the options that were left to "auto", the usual ones first; one of them is chosen."""
        return []

    def discover(self, demos: Demonstrations, mdp: MDP, n_intentions: int | None, seed: int) -> Any:
        """What has to be known before a model can be built, with ``n_intentions``; None where that is nothing.

        ``n_intentions`` is the number asked for, or None where it is to be found.
        """
        return None


@dataclass(frozen=True)
class Tabular(RewardOptions):
    """Options of weighted-count policies, whose rewards IAVI solves.

    Parameters
    ----------
    smoothing : float
        Pseudo-count per action and state.
    """

    stackable: ClassVar[bool] = True
    memory: ClassVar[Literal["intention"]] = "intention"
    smoothing: float = 0.01

    def check(self, demos: Demonstrations, n_intentions: int) -> None:
        """Smoothing."""
        check_numbers(self, {"smoothing": 0})

    def build(self, problem: Problem) -> RewardModel:
        """Uniform policies."""
        from prism_irl.rewards.tabular import TabularPolicies

        return TabularPolicies.of(problem, self.smoothing)


@dataclass(frozen=True)
class ModelFree(Tabular):
    """The same policies; their rewards are learned from the transitions by IQL, without dynamics (`rewards.iql`)."""

    stackable: ClassVar[bool] = False

    def build(self, problem: Problem) -> RewardModel:
        """Uniform policies, without rewards yet."""
        from prism_irl.rewards.tabular import QLearnedPolicies

        return QLearnedPolicies.of(problem, self.smoothing)


@dataclass(frozen=True)
class SoftStates(RewardOptions):
    """Options of planned rewards on states, R(s).

    Parameters
    ----------
    temperatures : tuple of K floats, optional
        τ of each intention, 1 by default; only the unit of the rewards found, since R / τ decides the policy.
    invalid_actions : {"mask", "stay"}
        Actions that a state does not have: impossible, or, as in SWIRL's code, choices that stay in place.
    ridge : float
        Strength of the prior on values in units of τ, in nats: it keeps actions that never happened possible (as a
        pseudo-count of a few hundredths would) and chooses among values that the data cannot tell apart.
    """

    defaults: ClassVar[Mapping[str, Any]] = {"discount": 0.95, "max_iterations": 80, "warm_up": 15, "n_candidates": 2}
    order: ClassVar[int] = 1
    temperatures: tuple[float, ...] | None = None
    invalid_actions: str = "mask"
    ridge: float = 0.01

    @property
    def masks_invalid_actions(self) -> bool:
        """As the option says."""
        return self.invalid_actions == "mask"

    def check(self, demos: Demonstrations, n_intentions: int) -> None:
        """Treatment of invalid actions, and the ridge."""
        check_choice(self, invalid_actions=("mask", "stay"))
        check_numbers(self, {"ridge": 0}, above=True)

    def dynamics(self, mdp: MDP, demos: Demonstrations, discount: float) -> MDP:
        """The dynamics with the model's own discount and its treatment of invalid actions."""
        from prism_irl.rewards.soft import own_dynamics

        if discount == 0:
            raise InputError("The discount is 0: an intention that does not look ahead has no use for a reward.")
        valid = mdp.valid_actions if demos.valid_actions is None else mdp.valid_actions & demos.valid_actions
        return own_dynamics(mdp, valid, discount, self.invalid_actions)

    def build(self, problem: Problem) -> RewardModel:
        """Rewards of zero."""
        from prism_irl.rewards.soft import Places, SoftRewards

        assert problem.mdp is not None
        return SoftRewards(problem.n_intentions, Places(problem.mdp, self.order), self.temperatures, ridge=self.ridge)


@dataclass(frozen=True)
class SoftTransitions(SoftStates):
    """Options of planned rewards on transitions, R(s_prev, s)."""

    order: ClassVar[int] = 2


@dataclass(frozen=True)
class Goals(RewardOptions):
    """Options of goals on a habit; the last of the K intentions wants nothing in particular.

    Parameters
    ----------
    habit : {"all", "idle", "none"}
        What the habit with memory is fitted to: all steps, or those that want nothing; "none" gives pure goals (h = 0).
    goal_discount : float
        How much the next step counts beside this one in planning. A goal is a place to reach within some ten steps.
    sparsity : float
        Nats that a unit of reward must earn over the training data.
    smoothing : float
        Pseudo-count per action and state of the habit.
    """

    memory: ClassVar[Literal["habit"]] = "habit"
    searches: ClassVar[bool] = True
    unsuited: ClassVar[Mapping[str, str]] = {
        **NO_PLACES,
        "single": "Goals need a second intention that wants nothing in particular, and single has one; take tabular.",
        "ordered": "Goals are found in no particular order, so that ordered has nothing to go by; take markov.",
    }
    defaults: ClassVar[Mapping[str, Any]] = {"history": "auto", "backoff": "auto", "max_iterations": 15, "n_starts": 3}
    habit: str | bool = "all"
    goal_discount: float = 0.9
    sparsity: float = 50.0
    smoothing: float = 0.01

    @property
    def learns(self) -> str:
        """``habit``, where true and false stand for "idle" and "none"."""
        return {True: "idle", False: "none"}.get(self.habit, "") if isinstance(self.habit, bool) else self.habit

    def check(self, demos: Demonstrations, n_intentions: int) -> None:
        """The habit's name, discount and sparsity."""
        if self.learns not in ("all", "idle", "none"):
            raise InputError(f"habit is {self.habit!r}; choose all, idle or none.")
        check_numbers(self, {"goal_discount": 0}, below=1)
        check_numbers(self, {"sparsity": 0, "smoothing": 0})

    def build(self, problem: Problem) -> RewardModel:
        """No goals yet, and a uniform habit."""
        from prism_irl.rewards.goals import GoalPolicies
        from prism_irl.rewards.soft import Planner

        assert problem.mdp is not None
        planner, K = Planner(problem.mdp, self.goal_discount), problem.n_intentions
        strengths = {"sparsity": self.sparsity, "smoothing": self.smoothing, "backoff": problem.backoff}
        return GoalPolicies(K, planner, problem.contexts, habit=self.learns, **strengths)


@dataclass(frozen=True)
class Places(RewardOptions):
    """Options of goals that are places; how many there are is found unless it is asked for.

    Parameters
    ----------
    noise : float
        Share of the habit in every policy: what is done by the way.
    """

    searches: ClassVar[bool] = True
    by_training: ClassVar[bool] = True
    unsuited: ClassVar[Mapping[str, str]] = {
        "ordered": "Goals are found in no particular order, so that ordered has nothing to go by; take arrival."
    }
    defaults: ClassVar[Mapping[str, Any]] = {
        "switching": "arrival",
        "n_intentions": None,
        "max_iterations": 20,
        "n_starts": 1,
    }
    noise: float = 0.02

    def check(self, demos: Demonstrations, n_intentions: int | None) -> None:
        """The noise, and states to plan with."""
        check_numbers(self, {"noise": 0}, below=1)
        if demos.state_space.continuous:
            raise InputError("Places are states, and these states are numbers; choose rewards landmarks.")

    def build(self, problem: Problem) -> RewardModel:
        """The goals found, or any where nothing is known yet."""
        from prism_irl.rewards.places import PlacePolicies, place_of

        K, demos, contexts, _, mdp, found = problem
        assert mdp is not None
        rewards = PlacePolicies(K, mdp, contexts, place_of(demos), self.noise)
        if found is not None:
            rewards.begin(found)
        return rewards

    def discover(self, demos: Demonstrations, mdp: MDP, n_intentions: int | None, seed: int) -> Any:
        """Which places are goals, and how they are approached."""
        from prism_irl.rewards.places import discover

        return discover(demos, mdp, n_intentions, self.noise, seed)


@dataclass(frozen=True)
class Commands(RewardOptions):
    """What policies over continuous commands share.

    Parameters
    ----------
    noise, noise_strength : float
        Prior variance of a command, and how many commands it is worth.
    """

    of_commands: ClassVar[bool] = True
    defaults: ClassVar[Mapping[str, Any]] = {"discount": 0.8, "n_starts": 8}
    noise: float = 0.01
    noise_strength: float = 10.0

    def _check(self, demos: Demonstrations, what: str, *strengths: str) -> None:
        """Strengths of priors above 0, and continuous data where ``what`` needs them."""
        check_numbers(self, dict.fromkeys(("noise", "noise_strength", *strengths), 0), above=True)
        if what and not demos.state_space.continuous:
            raise InputError(f"{what} need continuous data; name columns with --observe and --act.")

    def _prior(self, ridge: Any) -> dict[str, Any]:
        return {"ridge": ridge, "noise": self.noise, "noise_strength": self.noise_strength}


@dataclass(frozen=True)
class Features(Commands):
    """Options of policies on features.

    Parameters
    ----------
    policies : {"auto", "gaussian", "softmax"}
        Over continuous commands, or over action tokens; auto: over commands where there are some.
    ridge : float or "auto"
        Strength of the prior on the weights; auto: of several, the one that predicts validation trajectories best.
    fourier : int or "auto"
        Random Fourier features beside the observations themselves: 0 for linear policies, 64 or 128 for bent ones;
        auto: 0 or 64, by validation trajectories, which does not make labels better where the world has walls.
    length_scale : float or "auto"
        Of the Fourier features, in standard deviations of the observations; auto: by validation trajectories.
    covariance : {"diagonal", "full", "shared"}
        Whether commands may be correlated given the intention, and whether they are so in the same way in all of them.
    """

    adds_up: ClassVar[bool] = True
    start_kinds: ClassVar[tuple[Literal["windows"], ...]] = ("windows",)
    policies: str = "auto"
    ridge: float | Literal["auto"] = "auto"
    fourier: int | Literal["auto"] = 0
    length_scale: float | Literal["auto"] = "auto"
    covariance: str = "diagonal"

    def _gaussian(self, demos: Demonstrations) -> bool:
        return self.policies == "gaussian" or (self.policies == "auto" and demos.action_space.continuous)

    def check(self, demos: Demonstrations, n_intentions: int) -> None:
        """The name, and that there is something to read."""
        from prism_irl.rewards.linear import with_motions

        check_choice(self, policies=("auto", "gaussian", "softmax"), covariance=("diagonal", "full", "shared"))
        self._check(demos, "", *(name for name in ("ridge", "length_scale") if getattr(self, name) != "auto"))
        if self.fourier != "auto":
            check_numbers(self, {"fourier": 0}, integer=True)
        if demos.state_space.continuous:
            if self.policies == "softmax":
                raise InputError("Commands are continuous here, and softmax policies choose tokens; leave --policies.")
        elif self._gaussian(demos):
            with_motions(demos)
        elif demos.observations is None:
            raise InputError("Softmax policies on features need observations; give a vector per step.")

    def build(self, problem: Problem) -> RewardModel:
        """Weights of zero."""
        from prism_irl.rewards import linear
        from prism_irl.rewards.tabular import TabularPolicies

        K, demos, contexts, *_ = problem
        A, valid = demos.n_actions, demos.valid_actions
        prior = self._prior(1.0 if self.ridge == "auto" else self.ridge)  # 1 for what has no candidates
        if demos.state_space.continuous:
            seen, done = (part.shape[1] for part in linear.measured(demos))
            assert self.fourier != "auto"
            scale = 1.0 if self.length_scale == "auto" else self.length_scale  # without Fourier features it is nothing
            kind = {"full": self.covariance != "diagonal", "shared": self.covariance == "shared"}
            return linear.LinearPolicies(K, done, linear.Basis(seen, self.fourier, scale), A, **kind, **prior)
        if not self._gaussian(demos):
            width = 0 if demos.observations is None else demos.observations.shape[1]
            return linear.SoftmaxPolicies(K, A, width, contexts, valid, ridge=prior["ridge"])
        p, blocks = linear.with_motions(demos)[1].shape[2], demos.noise_blocks or ()
        return linear.GaussianPolicies(K, p, blocks, TabularPolicies(K, A, contexts, valid), **prior)

    def candidates(self, demos: Demonstrations) -> list[dict[str, Any]]:
        """A small grid, of policies over measured commands alone."""
        from prism_irl.rewards.linear import candidates

        if not demos.state_space.continuous or demos.observations is None:
            return []
        return candidates(self.ridge, self.fourier, self.length_scale, demos.observations.shape[1])

    def describe(self, demos: Demonstrations) -> FloatArray:
        """How far the command follows each vector of the design (or which action was taken), and observations."""
        import numpy as np

        from prism_irl.rewards.linear import measured, with_motions

        parts = [] if demos.observations is None else [demos.observations.astype(np.float64)]
        if demos.state_space.continuous:
            parts.insert(0, measured(demos)[1])
        elif self._gaussian(demos):
            motions, design = with_motions(demos)
            parts.insert(0, np.einsum("nmp,nm->np", design, motions))
        else:
            parts.append(np.eye(demos.n_actions)[demos.actions])
        return np.concatenate(parts, axis=1)


@dataclass(frozen=True)
class Landmarks(Commands):
    """Options of goals on landmarks.

    Parameters
    ----------
    landmarks : int
        How many: more are finer, and need more data for the transitions between them.
    ridge : float
        Strength of the prior on the weights.
    habit_ridge : float
        How many steps the prior of what is done at one place, whatever the goal, is worth.
    """

    searches: ClassVar[bool] = True
    by_training: ClassVar[bool] = True  # graphs differ by more than a few held-out trajectories can tell
    defaults: ClassVar[Mapping[str, Any]] = {"discount": 0.8, "n_starts": 6, "max_iterations": 40, "n_intentions": None}
    landmarks: int = 100
    ridge: float = 1.0
    habit_ridge: float = 20.0

    def check(self, demos: Demonstrations, n_intentions: int | None) -> None:
        """Continuous data, and more landmarks than goals."""
        check_numbers(self, {"landmarks": max(4, n_intentions or 1)}, integer=True)
        self._check(demos, "Goals on landmarks", "ridge", "habit_ridge")

    def build(self, problem: Problem) -> RewardModel:
        """Without goals and without a graph."""
        from prism_irl.rewards.landmarks import LandmarkGoals
        from prism_irl.rewards.linear import measured

        sizes = (*(part.shape[1] for part in measured(problem.demos)), problem.demos.n_actions, self.landmarks)
        prior = self._prior(self.ridge) | {"habit_ridge": self.habit_ridge}
        rewards = LandmarkGoals(problem.n_intentions, *sizes, **prior)
        rewards.found = problem.found
        return rewards

    def discover(self, demos: Demonstrations, mdp: MDP, n_intentions: int | None, seed: int) -> Any:
        """Which places are goals, where nobody has said how many there are."""
        from prism_irl.rewards.landmarks import discover

        return None if n_intentions is not None else discover(demos, self.landmarks, seed)


@dataclass(frozen=True)
class Windows(Commands):
    """Options of windows; what is "auto" is chosen by known labels, and as usual where nobody knows any.

    Parameters
    ----------
    window : int or str
        How far intentions look before and after a step: a number of steps (15), a time (0.5s), or auto: known labels
        choose.
    components : int or "auto"
        Leading components of the windows that are kept: few without labels (auto: 12), hundreds where many steps have
        one.
    covariance : {"auto", "diagonal", "full", "shared"}
        Of the components, given the intention: apart, correlated, or correlated in the same way in all of them (auto:
        full, and shared with known labels).
    power : float or "auto"
        How much of an independent one every window counts: below 1, because neighbouring windows overlap.
    shrinkage : float or "auto"
        Share of white noise in the covariance of windows, for hundreds of components.
    ridge : float
        Strength of the prior on the weights; one is far below what a few hundred steps say.
    """

    labels_choose: ClassVar[bool] = True
    start_kinds: ClassVar[tuple[Literal["windows"], ...]] = ("windows",)
    window: int | str = 15
    components: int | Literal["auto"] = "auto"
    covariance: str = "auto"
    power: float | Literal["auto"] = "auto"
    shrinkage: float | Literal["auto"] = "auto"
    ridge: float = 1.0

    def check(self, demos: Demonstrations, n_intentions: int) -> None:
        """Continuous data, and windows that are part of it."""
        from prism_irl.data.continuous import in_steps

        check_choice(self, covariance=("auto", "diagonal", "full", "shared"))
        self._check(demos, "Windows", "ridge")
        usual = self.usual()
        check_numbers(usual, {"components": 1}, integer=True)
        check_numbers(usual, {"power": 1e-6}, below=1.0 + 1e-9)
        check_numbers(usual, {"shrinkage": 0}, below=1.0)
        if self.window != "auto":
            in_steps(self.window, demos)
        elif demos.partial_labels is None or (demos.partial_labels < 0).all():
            raise InputError(
                "How far windows reach is chosen by known labels, and there are none; name them with --labels, or give "
                "a number of steps such as --window 15."
            )

    def in_steps(self, demos: Demonstrations, steps_per_second: Callable[[], float | None]) -> Windows:
        """A window in seconds as so many steps."""
        from prism_irl.data.continuous import in_steps

        if not str(self.window).strip().endswith("s"):
            return self
        return replace(self, window=in_steps(self.window, demos, steps_per_second()))

    def usual(self) -> Windows:
        """The same with nothing left to choose but the window."""
        from prism_irl.rewards.windows import USUAL

        return replace(self, **{name: value for name, value in USUAL.items() if getattr(self, name) == "auto"})

    def candidates(self, demos: Demonstrations) -> list[dict[str, Any]]:
        """Without labels what is usual; with some a grid, and as many components as a shrunk covariance can have."""
        from prism_irl.data.continuous import DESCRIBED
        from prism_irl.rewards.linear import measured
        from prism_irl.rewards.windows import MOST_COMPONENTS, POWERS, SHRINKAGES, USUAL, reaches

        left = [name for name in ("window", *USUAL) if getattr(self, name) == "auto"]
        if demos.partial_labels is None or (demos.partial_labels < 0).all():
            return [{name: USUAL[name] for name in left}] if left else []
        width = DESCRIBED * sum(part.shape[1] for part in measured(demos))
        grid: dict[str, Any] = {"window": reaches(demos), "shrinkage": SHRINKAGES, "power": POWERS}
        grid |= {"components": (min(width, MOST_COMPONENTS),), "covariance": ("shared",)}
        return [dict(zip(left, values, strict=True)) for values in product(*(grid[name] for name in left))]

    def build(self, problem: Problem) -> RewardModel:
        """Without windows yet."""
        from prism_irl.rewards.linear import measured
        from prism_irl.rewards.windows import WindowPolicies

        seen, done = (part.shape[1] for part in measured(problem.demos))
        return WindowPolicies(problem.n_intentions, seen, done, problem.demos.n_actions, self.usual())

    def describe(self, demos: Demonstrations) -> FloatArray:
        """The windows themselves, by which first intentions are found."""
        from prism_irl.data.continuous import DESCRIBED, in_steps
        from prism_irl.rewards.linear import measured
        from prism_irl.rewards.windows import leading

        width = DESCRIBED * sum(part.shape[1] for part in measured(demos))
        return leading(demos, in_steps(self.window, demos), min(int(self.usual().components), width))[1]
