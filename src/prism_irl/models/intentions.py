"""The estimator: any switching with any rewards, fitted by EM (Sheng, Zhu & Boedecker, and beyond).

``Intentions()`` chooses by the data (`models.default`): a pair, or phases for robots. A named method (`models.presets`)
is a subclass that states its pair and the defaults that differ. Fitting with several starts, early stopping on
validation trajectories and checkpoints are the same for all; what can be asked of the result is in `models.fitted`.
"""

from __future__ import annotations

import zlib
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np

from prism_irl import em, halves, limits
from prism_irl.arrays import FloatArray
from prism_irl.data.batching import Prepared
from prism_irl.data.continuous import Units
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.labels import aligned, check_known, out_of_order
from prism_irl.devices import resolve_device, seeded
from prism_irl.errors import InputError
from prism_irl.labels import agreement
from prism_irl.mdp import MDP
from prism_irl.models import starts
from prism_irl.models.base import IntentionModel, check_mdp, with_valid_actions_of
from prism_irl.models.choices import check_individuals, chosen_accents, chosen_history, chosen_options
from prism_irl.models.default import (
    ALTERNATIVES,
    CLEARLY,
    COUNTED,
    ERRORS,
    LEAST_HELD_OUT,
    default_pair,
    number_of_policies,
    suits_phases,
    usual_pair,
)
from prism_irl.models.fitted import SOLVED, FittedPair
from prism_irl.models.settings import Settings
from prism_irl.rewards import REWARDS
from prism_irl.rewards.base import Fit, Problem, RewardModel
from prism_irl.rewards.options import RewardOptions
from prism_irl.switching import NETWORKS, SWITCHING
from prism_irl.switching.base import Switching
from prism_irl.switching.options import SwitchingOptions

AGREEMENT_MARGIN = 0.002  # starts within this many nats per step of the best count as equally good
TRIAL_STARTS = 10
"""Starts of a fit that numbers of intentions are compared by: a bad optimum says nothing about a number."""


@dataclass(eq=False, repr=False, kw_only=True)
class Intentions(Settings, FittedPair):  # noqa: D101
    __doc__ = f"""Intentions, when they switch and what each is after, found by EM in states and actions alone.

    ``Intentions().fit(demos)`` chooses the pair of switching and rewards that suits the data, and finds how many
    intentions there are where that pair can.{(Settings.__doc__ or "").partition(".")[2]}"""  # parameters are said once

    # -- the pair --------------------------------------------------------------------------------------------------

    @property
    def pair(self) -> str:
        """Names of both components, "switching+rewards"."""
        switching, rewards = self._halves()
        return f"{halves.name_of(switching, SWITCHING)}+{halves.name_of(rewards, REWARDS)}"

    @property
    def chooses_pair(self) -> bool:
        """Whether nobody named a component."""
        own = type(self).switching is None and type(self).rewards is None  # a named method has a pair of its own
        return own and vars(self).get("switching") is None and vars(self).get("rewards") is None

    def suited(self, demos: Demonstrations) -> IntentionModel:
        """Return `Phases` where the data suit them and nobody asked for what they do not have; else this model."""
        if not self.chooses_pair or not demos.state_space.continuous:
            return self
        from prism_irl.models.phases import Phases

        usual = self._defaults()
        given = {name: value for name, value in self.get_params(deep=False).items() if value not in (None, usual[name])}
        if not set(given) <= set(Phases._defaults()) or not suits_phases(demos):
            return self
        return Phases(**given)

    def _parameters(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.get_params(deep=False)}

    @property
    def switching_options(self) -> SwitchingOptions:
        """Options of the switching model."""
        found: SwitchingOptions = halves.resolve("switching", self._halves()[0], SWITCHING, self._parameters())
        return found

    @property
    def reward_options(self) -> RewardOptions:
        """Options of the reward model, those that were left to "auto" as they were chosen."""
        found: RewardOptions = halves.resolve("rewards", self._halves()[1], REWARDS, self._parameters())
        left = {name: value for name, value in self.chosen_.items() if vars(found).get(name) == "auto"}
        return replace(found, **left) if left else found

    def _problem(self, demos: Demonstrations) -> Problem:
        return Problem(self.n_intentions, demos, self.contexts_, self.backoff_, self._dynamics, self.found_)

    def _new_start(self, index: int, demos: Demonstrations) -> em.Start:
        when, what = self.switching_options, self.reward_options
        with seeded(zlib.crc32(f"{self.seed} {index}".encode()), needed=when.draws_tensors):
            switching = when.build(self.n_intentions, demos)
            rewards = what.build(self._problem(demos))
        rewards.accents = self.accents_
        exact = switching.exact and rewards.exact
        # Counts have little to overfit, and a tenth of the data cannot tell their optima apart; regressions are exact,
        # too, but may have many weights.
        trusted = (exact and not rewards.is_density) or (what.by_training and not switching.incremental)
        by = ("training" if trusted else "validation") if self.stop_by == "auto" else self.stop_by
        monitor = em.Monitor(em.Stopping(self.max_iterations, self.patience, by=by), exact=exact)
        return em.Start(index, switching.to(self.device_), rewards, monitor)

    # -- where starts begin ----------------------------------------------------------------------------------------

    def _warm_up(self, switching: Switching) -> tuple[int, int]:
        """First points that are tried per start, and EM iterations of a constant chain that each of them gets."""
        return self.n_candidates, self.warm_up

    def _first_point(self, start: em.Start, train: Prepared) -> None:
        """Where a start begins, from its own randomness; of large data in some trajectories, drawn anew for each."""
        train = em.some_of(start.rewards, train, zlib.crc32(f"{self.seed} {start.index}".encode()))
        guess = RunningFit(self, start, train)
        start.rewards.first_guess(guess)
        start.switching.first_guess(guess)

    def _first_responsibilities(
        self, kind: starts.StartKind, train: Prepared, generator: np.random.Generator
    ) -> FloatArray:
        """Responsibilities (n, K) to begin with."""
        when, what = self.switching_options, self.reward_options
        found = starts.first_responsibilities(kind, train.demos, self.n_intentions, generator, when, what)
        return aligned(found, train.demos, in_order=when.in_order)

    # -- fitting ---------------------------------------------------------------------------------------------------

    def fit(
        self,
        demos: Demonstrations,
        mdp: MDP | None = None,
        *,
        checkpoint: str | Path | None = None,
        resume: bool = False,
        on_iteration: em.OnIteration | None = None,
        run: em.Run = map,
    ) -> Self:
        """Fit by EM; where nobody named a pair, the one that suits the data (`models.default`).

        Demonstrations of robots make it a fitted `Phases`. With goals found, other kinds of switching are tried on
        them, and one is taken where it clearly predicts trajectories better that were left out; ``default_`` says what
        was taken, and why.

        Parameters
        ----------
        mdp : dynamics; estimated from counts when absent. Intentions that plan (soft, goals) need them, and soft
            rewards replace their discount by the model's own. Elsewhere they never change likelihoods or labels.
        checkpoint : folder where running starts are saved every few seconds
        resume : go on from the checkpoint instead of starting again
        on_iteration : called with an `em.Progress` after each iteration
        run : maps the E-step over parts of the data, which workers may do (`scale.fanout.parts_on`)
        """
        vars(self).pop("_trial", None)
        if (phases := self.suited(demos)) is not self:
            found = vars(phases.fit(demos, mdp))
            vars(self).clear()
            vars(self).update(found)
            self.__class__ = type(phases)  # type: ignore[assignment]
            return self
        folder = None if checkpoint is None else Path(checkpoint)
        self._fit_pair(demos, mdp, folder, resume=resume, on_iteration=on_iteration, run=run)
        self.default_ = None
        if self.chooses_pair:
            self._try_alternatives(demos, mdp)
        return self

    def _fit_pair(
        self, demos: Demonstrations, mdp: MDP | None, folder: Path | None = None, *, resume: bool = False, **watch: Any
    ) -> None:
        """Every start, then what only has to be done once."""
        vars(self).pop("_discovered", None)  # by an earlier fit
        demos = self._checked(demos, mdp)
        self._set_up(demos, mdp)
        train, validation = self._validation_split(demos)
        self.numbers_tried_: dict[str, float] = {}
        if "_trial" not in vars(self):  # goals that were found already stay
            self.found_ = self.reward_options.discover(train.demos, self._dynamics, self.n_intentions, self.seed)
            self.intentions_found_ = self.n_intentions is None
        if self.found_ is not None and self.intentions_found_:
            self._discovered = {"n_intentions": self.found_.n_intentions}  # where a default is looked up
            self._check_parameters(train.demos)
        elif self.chooses_pair and "_trial" not in vars(self) and vars(self).get("n_intentions") is None:
            self._choose_number(train.demos)
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            if not resume:  # what an earlier fit left here is not ours to resume later
                for old in folder.glob("start_*.safetensors"):
                    old.unlink()
        options = {name: value for name, value in self._parameters().items() if name != "device"}
        fingerprint = f"{zlib.crc32(repr(sorted(options.items())).encode()):08x} {demos.checksum()}"
        fitted = []
        for index in range(self.n_starts):
            path = None if folder is None else folder / f"start_{index:02d}.safetensors"
            start = self._new_start(index, train.demos)
            start.fingerprint = fingerprint
            fitted.append(start)
            there = resume and path is not None and path.exists()
            if path is not None and there and em.load_start(start, path):
                continue
            if not there:
                self._first_point(start, train)
            em.fit_start(start, train, validation, seed=self.seed, n_starts=self.n_starts, checkpoint=path, **watch)
            if path is not None:
                em.save_start(start, path)
        self._finish(fitted, train, validation, demos)

    def _try_alternatives(self, demos: Demonstrations, mdp: MDP | None) -> None:
        """Become the fit of another kind of switching where it predicts left-out trajectories clearly better."""
        switching, rewards, why = self._default_pair
        if self.numbers_tried_:
            self.default_ = {"pair": self.pair, "why": why, "held_out": self.numbers_tried_}
            return
        held_out = demos.subset(demos.split_indices(self.validation_fraction or 0.1, seed=self.seed)[0])
        tried = {switching: self._per_trajectory(held_out)}
        others = ALTERNATIVES.get((switching, rewards), ())
        if len(held_out) < LEAST_HELD_OUT or not self.validation_fraction or self.n_intentions < 2:
            others = ()
        best: Intentions = self
        for name in others:
            other = copy(self)
            vars(other)["_trial"] = name, rewards, why
            other._fit_pair(demos, mdp)
            tried[name] = other._per_trajectory(held_out)
            gain, steps = tried[name] - tried[best.pair.split("+")[0]], held_out.lengths
            error = float(np.sqrt(len(gain)) * gain.std(ddof=1)) / steps.sum()
            if gain.sum() / steps.sum() > max(CLEARLY, ERRORS * error):
                best = other
        scores = {name: float(found.sum() / held_out.n_steps) for name, found in tried.items()}
        taken = best.pair
        vars(self).update(vars(best))
        vars(self).pop("_trial", None)
        if best is not self:
            why += f" Switching by {taken.split('+')[0]} predicts left-out trajectories clearly better than arrival."
        self.default_ = {"pair": taken, "why": why, "held_out": scores}

    def _per_trajectory(self, demos: Demonstrations) -> FloatArray:
        """Predictive log-likelihood of every trajectory, (N,)."""
        return np.asarray(np.add.reduceat(self.log_likelihood(demos), demos.offsets[:-1]))

    def _checked(self, demos: Demonstrations, mdp: MDP | None) -> Demonstrations:
        """Demonstrations that fit the parameters and the dynamics, with the valid actions of the latter.

        Continuous ones come into units that are taken from the training trajectories alone.
        """
        self.chosen_ = {}
        if not self.switching_options.reads_partial_labels:
            demos = replace(demos, partial_labels=None, partial_label_names=None)
        self._check_parameters(demos)
        self.units_ = None
        if demos.state_space.continuous:
            held_out = self.validation_fraction > 0 and len(demos) > 1
            kept = demos.split_indices(self.validation_fraction, seed=self.seed)[1] if held_out else None
            self.units_ = Units.fit(demos, kept, seed=self.seed)
            demos = self.units_.apply(demos)
        check_mdp(mdp, demos)
        if not self.reward_options.masks_invalid_actions:
            return demos  # every action can be chosen; some of them stay in place
        return with_valid_actions_of(mdp, demos)

    def _set_up(self, demos: Demonstrations, mdp: MDP | None) -> None:
        # of an earlier fit, should this one be interrupted
        for name in ("mdp_", "state_reward_", *SOLVED):
            self.__dict__.pop(name, None)
        self.n_states_, self.n_actions_ = demos.n_states, demos.n_actions
        self.n_observations_ = 0 if demos.observations is None else demos.observations.shape[1]
        y, design = demos.motions, demos.design
        self.motion_shape_ = None
        if y is not None:
            self.motion_shape_ = y.shape[1], 0 if design is None else design.shape[2], demos.noise_blocks or ()
        self.valid_actions_ = demos.valid_actions
        self.history_length_, self.backoff_, self.history_choice_ = chosen_history(self, demos)
        self.contexts_ = demos.with_history(self.history_length_)
        self.accents_ = chosen_accents(self, demos)
        self.device_ = resolve_device(self.device)
        self.start_states_ = demos.states[demos.offsets[:-1]].astype(np.int64)
        given = MDP.from_demonstrations(demos, self.discount) if mdp is None else mdp
        self._dynamics = self.reward_options.dynamics(given, demos, self.discount)
        self.chosen_, self.choice_ = chosen_options(self, demos)

    def _validation_split(self, demos: Demonstrations) -> tuple[Prepared, Prepared | None]:
        if self.validation_fraction <= 0 or len(demos) < 2:
            return self._prepare(demos), None
        held_out, kept = demos.split_indices(self.validation_fraction, seed=self.seed)
        return self._prepare(demos.subset(kept)), self._prepare(demos.subset(held_out))

    def _choose_number(self, demos: Demonstrations) -> None:
        """As many policies as left-out trajectories ask for, where the default is free policies."""
        switching, rewards, why = self._default_pair
        if (compared := COUNTED.get((switching, rewards))) is None:
            return

        def fit(n_intentions: int, part: Demonstrations) -> Intentions:
            other = copy(self)
            vars(other).update(_trial=(compared, rewards, why), n_intentions=n_intentions, n_starts=TRIAL_STARTS)
            other._fit_pair(part, None)
            return other

        found, reason, self.numbers_tried_ = number_of_policies(demos, fit)
        self._default_pair: tuple[str, str, str] = switching, rewards, f"{why} {reason}"
        self.intentions_found_, self._discovered = True, {"n_intentions": found}

    def _finish(
        self, fitted: list[em.Start], train: Prepared, validation: Prepared | None, demos: Demonstrations
    ) -> None:
        """Keep the best start, and do what only has to be done once."""
        best = max(fitted, key=lambda start: start.score)
        self.switching_, self.rewards_model_ = best.switching, best.rewards
        self.converged_, self.n_iterations_ = best.monitor.converged, best.monitor.best
        by_validation = bool(self.choice_) and not self.reward_options.labels_choose
        chosen = ["memory"] * bool(self.history_choice_) + ["prior of the policies"] * by_validation
        self.validation_chose_ = chosen + best.chosen_by_validation(len(fitted))
        self.monitor_ = [{"start": start.index, **row} for start in fitted for row in start.monitor.rows]
        self.starts_ = [
            {"score": start.score, "iterations": len(start.monitor.rows) - 1, "converged": start.monitor.converged}
            | {"seconds": start.seconds, "best": start is best}
            for start in fitted
        ]
        equals = [s for s in fitted if s is not best and s.score > best.score - AGREEMENT_MARGIN]
        labels = [em.labels(s.switching, s.rewards, train) for s in (best, *equals)] if equals else []
        self.agreement_ = agreement(labels) if equals else None
        self.n_equal_starts_ = len(equals) + 1
        self.mdp_ = self._dynamics
        ending = RunningFit(self, best, train, validation, self._prepare(demos))
        if self.recount and validation is not None:
            # Count the policies once more on all trajectories, now that validation has decided what it had to decide.
            best.rewards.m_step(ending.data, ending.responsibilities(ending.data))
        best.rewards.finish(ending)
        best.switching.finish(ending)
        self.validation_counted_ = ending.counted_validation
        self._learn_rewards(demos)

    # -- checks ----------------------------------------------------------------------------------------------------

    def _check_parameters(self, demos: Demonstrations) -> None:
        """Refuse parameters that make no sense, and data that lack what a component reads."""
        self._usual_pair = usual_pair(continuous=demos.state_space.continuous)
        self._default_pair = vars(self).get("_trial") or default_pair(demos)
        K = self.n_intentions
        whole = {"max_iterations": 0, "n_starts": 1, "seed": 0, "warm_up": 0, "n_candidates": 1}
        whole |= dict.fromkeys((name for name in ("n_intentions", "patience") if getattr(self, name) is not None), 1)
        halves.check_numbers(self, whole, integer=True)
        halves.check_numbers(self, {"validation_fraction": 0, "discount": 0}, below=1)
        # also what the components chosen do not read: a wrong number is a mistake all the same
        halves.check_numbers(self, dict.fromkeys(("l1", "kl", "switch_penalty", "smoothing", "learning_rate"), 0))
        halves.check_choice(self, network=NETWORKS, observe=("past", "current"))
        halves.check_choice(self, stop_by=("auto", "validation", "training"))
        halves.check_choice(self, starts=("mixed", "windows", "random", "annealed", "goals"))
        switching, rewards = self.switching_options, self.reward_options
        name = halves.name_of(self._halves()[0], SWITCHING)
        if name in rewards.unsuited:
            raise InputError(rewards.unsuited[name])
        if self.starts == "annealed" and not switching.is_chain:
            raise InputError('starts="annealed" belongs to chains; give switching="markov" or "recurrent".')
        if self.starts == "goals" and demos.state_space.continuous:
            raise InputError('starts="goals" looks for places, and these states are numbers; take "mixed".')
        if K is not None:
            switching.check(K)
        rewards.check(demos, K)
        if self.history != "auto":
            halves.check_numbers(self, {"history": 1}, integer=True)
        if self.backoff != "auto":
            halves.check_numbers(self, {"backoff": 0})
        if "auto" in (self.history, self.backoff) and rewards.memory != "none" and not self.validation_fraction:
            raise InputError(
                'history="auto" and backoff="auto" are chosen on validation trajectories; set validation_fraction '
                "above 0, or give numbers."
            )
        if self.individuals:
            check_individuals(rewards, demos)
        if self.history not in (1, "auto") and rewards.memory == "none":
            raise InputError(f"{type(rewards).__name__} rewards see the current state alone; leave history at 1.")
        if rewards.smoothing == 0 and self.validation_fraction:
            raise InputError(
                "With smoothing=0 an action that was never seen has probability 0, and no validation trajectory can be "
                "scored; set a small smoothing such as 0.01, or validation_fraction=0."
            )
        if K is not None:
            check_known(demos, K)
            if switching.once and (where := out_of_order(demos, range(K))) is not None:
                words = f"{where[0].upper()}{where[1:]}"
                raise InputError(f"{words}: correct that label, or choose a chain without order (--switching markov).")
        if demos.state_space.continuous:
            return  # their cells are not known yet
        limits.check_pairs(demos.n_states, demos.n_actions, demos.n_steps)
        pairs = len(np.unique(demos.states.astype(np.int64) * demos.n_actions + demos.actions))
        if K is not None and pairs < K:
            raise InputError(
                f"{K} intentions cannot be told apart: only {pairs} different (state, action) pairs occur; ask for "
                "fewer intentions or give more data."
            )

    @classmethod
    def annealed(cls, n_intentions: int = 3, history: int | Literal["auto"] = 1, **memory: Any) -> Self:
        """Return HIQL's chain, looked for harder: annealed starts.

        Without memory there is little to overfit, and starts are compared on all trajectories: good optima differ by
        less than a tenth of the data can tell. Memory needs validation trajectories, to choose its length and to stop.
        """
        settings: dict[str, Any] = {"starts": "annealed", "n_starts": 8, "n_candidates": 1, "device": "cpu"}
        if history == 1:
            settings["validation_fraction"] = 0.0
        return cls(n_intentions, switching="markov", history=history, **{**settings, **memory})


class RunningFit(Fit):
    """What the components of a pair see of its fit: a start that begins, or the best one when EM has ended."""

    def __init__(
        self,
        model: Intentions,
        start: em.Start,
        train: Prepared,
        validation: Prepared | None = None,
        data: Prepared | None = None,
    ) -> None:
        self.model, self.switching, self.rewards = model, start.switching, start.rewards
        self.train, self.validation, self.mdp = train, validation, model._dynamics
        self.data = train if data is None else data
        self.index, self.generator = start.index, np.random.default_rng([model.seed, start.index])
        mixed: tuple[starts.StartKind, ...] = ("windows", "random")
        kinds = model.reward_options.start_kinds or (mixed if model.starts == "mixed" else (model.starts,))
        self.kind = kinds[start.index % len(kinds)]
        self.candidates, iterations = model._warm_up(start.switching)
        self.powers = starts.annealing_powers() if self.kind == "annealed" else np.ones(iterations)

    def first_responsibilities(self) -> FloatArray:
        """Of the kind that is this start's turn."""
        return self.model._first_responsibilities(self.kind, self.train, self.generator)

    def warm_up(self, rewards: RewardModel) -> tuple[float, Any]:
        """As many EM iterations as there are powers."""
        chain = self.switching.constant()
        assert chain is not None
        chain = chain.to(self.model.device_)
        return em.short_run(chain, rewards, self.train, len(self.powers), powers=self.powers), chain

    run_fixed = staticmethod(starts.fixed_run)

    def responsibilities(self, data: Prepared, *, partial_labels: bool = True) -> FloatArray:
        """Of the components as they are."""
        found = em.expectation(self.switching, self.rewards, data, online=True, partial_labels=partial_labels)
        return found.responsibilities

    def go_on(self) -> None:
        """EM of the switching alone, until it stops as any start does."""
        stopping = em.Stopping(max(self.model.max_iterations, em.Stopping.max_iterations), self.model.patience or 10)
        more = em.Start(self.index, self.switching, self.rewards, em.Monitor(stopping), fixed_rewards=True)
        em.fit_start(more, self.train, self.validation, seed=self.model.seed)
