"""Methods that are a pair (switching, rewards) fitted by EM: everything but the choice of the pair.

A subclass names its two halves (`_halves`); their options are its own parameters of the same names. Fitting with
several starts, early stopping on validation trajectories, checkpoints, inference and streaming are the same for all.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from prism_irl import em, halves
from prism_irl.data.batching import Prepared
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.labels import aligned
from prism_irl.data.units import Units
from prism_irl.devices import resolve_device, seeded
from prism_irl.labels import agreement
from prism_irl.mdp import MDP
from prism_irl.models import pair_checks, starts
from prism_irl.models.base import FloatArray, check_mdp, with_valid_actions_of
from prism_irl.models.choices import chosen_options
from prism_irl.models.fitted import motion_shape
from prism_irl.models.histories import chosen_accents, chosen_history
from prism_irl.models.hooks import Ending, FirstGuess
from prism_irl.models.pair_rewards import SOLVED, PairRewards
from prism_irl.models.settings import Settings
from prism_irl.rewards import REWARDS
from prism_irl.rewards.base import Problem
from prism_irl.rewards.options import RewardOptions
from prism_irl.switching import SWITCHING
from prism_irl.switching.base import Switching
from prism_irl.switching.options import SwitchingOptions

AGREEMENT_MARGIN = 0.002  # starts within this many nats per step of the best count as equally good


@dataclass(eq=False, repr=False, kw_only=True)
class PairModel(Settings, PairRewards):
    """Base class of the methods that EM fits.

    Parameters are those of `Settings`.

    Attributes
    ----------
    switching_, rewards_model_ : the two halves of the best start
    contexts_ : Contexts, what a row of the policies stands for
    history_length_, backoff_ : length of the histories and strength of their back-off, as given or as chosen ("auto")
    history_choice_ : list of dict, what "auto" tried on validation data; empty where there was nothing to choose
    chosen_ : dict, options of the rewards that were left to "auto"; choice_ : list of dict, what was tried for them
    validation_chose_ : list of str, what the validation trajectories decided: memory, start, stopping point
    mdp_ : MDP that rewards are solved on
    monitor_ : list of dict, what EM's monitor saw, all starts, with a column ``start``
    starts_ : list of dict per start: score, iterations, converged, seconds
    agreement_ : mean ARI of the best start with the equally good ones, or None
    """

    # -- the pair --------------------------------------------------------------------------------------------------

    @property
    def pair(self) -> str:
        """Names of both halves, "switching+rewards"."""
        switching, rewards = self._halves()
        return f"{halves.name_of(switching, SWITCHING)}+{halves.name_of(rewards, REWARDS)}"

    def _parameters(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.get_params(deep=False)}

    @property
    def switching_options(self) -> SwitchingOptions:
        """Options of the switching half."""
        found: SwitchingOptions = halves.resolve("switching", self._halves()[0], SWITCHING, self._parameters())
        return found

    @property
    def reward_options(self) -> RewardOptions:
        """Options of the rewards half."""
        found: RewardOptions = halves.resolve("rewards", self._halves()[1], REWARDS, self._parameters())
        left = {name: value for name, value in self.chosen_.items() if getattr(found, name, None) == "auto"}
        return replace(found, **left) if left else found

    def _problem(self, demos: Demonstrations) -> Problem:
        mdp = getattr(self, "mdp_", None)
        world = self._dynamics if mdp is None else mdp
        return Problem(self.n_intentions, demos, self.contexts_, self.backoff_, world, self.found_)

    def _new_start(self, index: int, demos: Demonstrations) -> em.Start:
        when, what = self.switching_options, self.reward_options
        with seeded(zlib.crc32(f"{self.seed} {index}".encode()), needed=when.draws_tensors):
            switching = when.build(self.n_intentions, demos)
            rewards = what.build(self._problem(demos))
        rewards.accents = self.accents_
        exact = switching.exact and rewards.exact
        # Counts have little to overfit, and a tenth of the data cannot tell their optima apart; regressions are exact,
        # too, but may have many weights.
        counts = exact and not rewards.is_density
        trusted = counts or (self.reward_options.by_training and not switching.incremental)
        by = ("training" if trusted else "validation") if self.stop_by == "auto" else self.stop_by
        monitor = em.Monitor(em.Stopping(self.max_iterations, self.patience, by=by), exact=exact)
        return em.Start(index, switching.to(self.device_), rewards, monitor)

    # -- where starts begin ----------------------------------------------------------------------------------------

    def _start_kinds(self) -> tuple[starts.StartKind, ...]:
        mixed: tuple[starts.StartKind, ...] = ("windows", "random")
        return self.reward_options.start_kinds or (mixed if self.starts == "mixed" else (self.starts,))

    def _warm_up(self, switching: Switching) -> tuple[int, int]:
        """First points that are tried per start, and EM iterations of a constant chain that each of them gets."""
        return self.n_candidates, self.warm_up

    def _first_point(self, start: em.Start, train: Prepared) -> None:
        """Where a start begins, from its own randomness; of large data in some trajectories, drawn anew for each."""
        train = em.some_of(start.rewards, train, zlib.crc32(f"{self.seed} {start.index}".encode()))
        guess = FirstGuess(self, start, train)
        start.rewards.first_guess(guess)
        start.switching.first_guess(guess)

    def _first_responsibilities(
        self, kind: starts.StartKind, train: Prepared, generator: np.random.Generator
    ) -> FloatArray:
        """Responsibilities (n, K) to begin with."""
        halves = self.switching_options, self.reward_options
        found = starts.first_responsibilities(kind, train.demos, self.n_intentions, generator, *halves)
        return aligned(found, train.demos, in_order=self.switching_options.in_order)

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
        """Fit by EM.

        Parameters
        ----------
        demos : Demonstrations
        mdp : MDP, optional
            Dynamics; estimated from counts when absent. Intentions that plan (soft, goals) need them, and soft rewards
            replace their discount by the model's own. Elsewhere they never change likelihoods or labels.
        checkpoint : folder, optional
            Where running starts are saved every few seconds.
        resume : bool
            Go on from the checkpoint instead of starting again.
        on_iteration : callable, optional
            Called with an `em.Progress` after each iteration.
        run : callable
            Maps the E-step over parts of the data, which workers may do (`scale.fanout.parts_on`).
        """
        vars(self).pop("_discovered", None)  # by an earlier fit
        demos = self._checked(demos, mdp)
        self._set_up(demos, mdp)
        train, validation = self._validation_split(demos)
        self._discover(train)
        folder = None if checkpoint is None else Path(checkpoint)
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            if not resume:  # what an earlier fit left here is not ours to resume later
                for old in folder.glob("start_*.safetensors"):
                    old.unlink()
        options = {name: value for name, value in self._parameters().items() if name != "device"}
        fingerprint = f"{zlib.crc32(repr(sorted(options.items())).encode()):08x} {demos.checksum()}"
        starts = []
        for index in range(self.n_starts):
            path = None if folder is None else folder / f"start_{index:02d}.safetensors"
            start = self._new_start(index, train.demos)
            start.fingerprint = fingerprint
            starts.append(self._run_start(start, train, validation, path, on_iteration, run, resume=resume))
        self._finish(starts, train, validation, demos)
        return self

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
        self.motion_shape_ = motion_shape(demos)
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

    def _discover(self, train: Prepared) -> None:
        """Look for what has to be known before the components can be built: how many intentions, and which places."""
        self.found_ = self.reward_options.discover(train.demos, self._dynamics, self.n_intentions, self.seed)
        self.intentions_found_ = self.n_intentions is None
        if self.intentions_found_:
            self._discovered = {"n_intentions": self.found_.n_intentions}  # where a default is looked up
            self._check_parameters(train.demos)

    def _run_start(
        self,
        start: em.Start,
        train: Prepared,
        validation: Prepared | None,
        path: Path | None,
        on_iteration: em.OnIteration | None,
        run: em.Run,
        *,
        resume: bool,
    ) -> em.Start:
        if resume and path is not None and path.exists():
            if em.load_start(start, path):
                return start
        else:
            self._first_point(start, train)
        em.fit_start(
            start,
            train,
            validation,
            seed=self.seed,
            n_starts=self.n_starts,
            checkpoint=path,
            on_iteration=on_iteration,
            run=run,
        )
        if path is not None:
            em.save_start(start, path)
        return start

    def _finish(
        self, starts: list[em.Start], train: Prepared, validation: Prepared | None, demos: Demonstrations
    ) -> None:
        """Keep the best start, and do what only has to be done once."""
        best = max(starts, key=lambda start: start.score)
        self._keep(best, starts, train)
        self.mdp_ = self._dynamics
        ending = Ending(self, best, train, validation, self._prepare(demos))
        if self.recount and validation is not None:
            # Count the policies once more on all trajectories, now that validation has decided what it had to decide.
            best.rewards.m_step(ending.data, ending.responsibilities(ending.data))
        best.rewards.finish(ending)
        best.switching.finish(ending)
        self.validation_counted_ = ending.counted_validation
        self._learn_rewards(demos)

    def _keep(self, best: em.Start, starts: list[em.Start], train: Prepared) -> None:
        self.switching_, self.rewards_model_ = best.switching, best.rewards
        self.converged_ = best.monitor.converged
        by_validation = bool(self.choice_) and not self.reward_options.labels_choose
        chosen = ["memory"] * bool(self.history_choice_) + ["prior of the policies"] * by_validation
        self.validation_chose_ = chosen + best.chosen_by_validation(len(starts))
        self.n_iterations_ = best.monitor.best
        self.monitor_ = [{"start": start.index, **row} for start in starts for row in start.monitor.rows]
        self.starts_ = [
            {
                "score": start.score,
                "iterations": len(start.monitor.rows) - 1,
                "converged": start.monitor.converged,
                "seconds": start.seconds,
                "best": start is best,
            }
            for start in starts
        ]
        equals = [s for s in starts if s is not best and s.score > best.score - AGREEMENT_MARGIN]
        labels = [em.labels(s.switching, s.rewards, train) for s in (best, *equals)] if equals else []
        self.agreement_ = agreement(labels) if equals else None
        self.n_equal_starts_ = len(equals) + 1

    # -- checks ----------------------------------------------------------------------------------------------------

    def _check_parameters(self, demos: Demonstrations) -> None:
        pair_checks.check_parameters(self, demos)
