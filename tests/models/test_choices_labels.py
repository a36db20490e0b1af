"""What known labels choose: by trajectories left out, by individuals, and by nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

import prism_irl as prism
from prism_irl.data.batching import Prepared
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.models import choices as label_choices
from prism_irl.rewards.options import Windows
from prism_irl.rewards.windows import POWERS, SHRINKAGES
from prism_irl.switching.markov import MarkovChain
from support import prism as command

FEW = {"n_starts": 1, "max_iterations": 3, "warm_up": 0, "device": "cpu"}


def rhythms(n: int = 10, told: int = 5, length: int = 80) -> Demonstrations:
    """Two gestures of twenty steps that differ by their rhythm; the first trajectories are labelled."""
    rng = np.random.default_rng(0)
    labels = np.repeat((rng.integers(2, size=(n, 1)) + np.arange(length // 20)) % 2, 20, axis=1)
    phase = np.cumsum(np.where(labels == 0, 2.0 * np.pi / 20.0, 2.0 * np.pi / 5.0), axis=1)
    commands = np.sin(phase + rng.uniform(0.0, 6.0, (n, 1)))[..., None] + rng.normal(0, 0.1, (n, length, 1))
    demos = Demonstrations.continuous(rng.normal(size=(n, length, 1)), commands, labels=labels)
    return replace(demos, partial_labels=np.where(demos.trajectory_index < told, demos.labels, -1))


def fitted(demos, **options):
    return prism.Intentions(2, switching="markov", rewards=Windows(window="auto", **options), **FEW).fit(demos)


def test_labels_choose_a_window_that_labels_the_others(tmp_path):
    demos = rhythms()
    model = fitted(demos)
    best = max(row["label_accuracy"] for row in model.choice_)
    first = next(row for row in model.choice_ if row["label_accuracy"] == best)
    assert model.chosen_ == {name: value for name, value in first.items() if name != "label_accuracy"}
    assert model.chosen_["covariance"] == "shared"
    assert len(model.choice_) == len(SHRINKAGES) * len(POWERS) * len({row["window"] for row in model.choice_})
    assert model.rewards_model_.reach[0] == model.chosen_["window"] > 2
    others = demos.partial_labels < 0
    assert (model.predict(demos) == demos.labels)[others].mean() > 0.9
    assert "prior of the policies" not in model.validation_chose_
    model.save(tmp_path)
    again = prism.load(tmp_path)
    assert again.chosen_ == model.chosen_
    np.testing.assert_array_equal(again.predict_proba(demos), model.predict_proba(demos))


def test_leaving_out_by_subtraction_is_fitting_to_the_others():
    demos = rhythms(6, 6)
    model = fitted(demos, power=0.3, shrinkage=0.2)
    contexts = model.contexts_
    ready = model.units_.apply(demos)
    data = [Prepared.of(ready.subset([i]), contexts) for i in range(6)]
    options = replace(model.reward_options, window=5)

    def built(part):
        rewards = options.build(model._problem(ready))
        rewards.m_step(Prepared.of(ready, contexts), label_choices._weights(ready, 2))
        stats = rewards.statistics(part, label_choices._weights(part.demos, 2))
        stats["steps"] = np.array(float(ready.n_steps))  # the prior is that of all
        rewards.update(stats)
        return rewards

    shares = []
    for i, left in enumerate(data):
        part = Prepared.of(ready.subset([j for j in range(6) if j != i]), contexts)
        rewards, chain, known = built(part), MarkovChain(2), part.demos.partial_labels
        for trajectory in np.split(known, part.demos.offsets[1:-1]):
            for before, after in pairwise(trajectory):
                chain.moves[before, after] += 1.0
        chain.begin[:] = np.bincount(known[part.demos.offsets[:-1]], minlength=2) + 1e-10
        chain.begin /= chain.begin.sum()
        chain.moves -= MarkovChain(2).moves
        chain.moves /= chain.moves.sum(axis=1, keepdims=True)
        found = chain.expectation(left, rewards.log_likelihood(left)).responsibilities.argmax(axis=1)
        shares.append((found == left.demos.partial_labels).mean())
    rewards = built(Prepared.of(ready, contexts))
    assert label_choices._accuracy(rewards, data, 2) == pytest.approx(np.mean(shares))


def test_individuals_are_left_out_whole_and_validation_takes_no_part():
    demos = replace(rhythms(8, 8), groups=np.array(list("aabbccdd")))
    parts = label_choices.left_out(demos, 0)
    assert sorted(tuple(part) for part in parts) == [(0, 1), (2, 3), (4, 5), (6, 7)]
    assert len(label_choices.left_out(replace(demos, groups=np.array(["a"] * 8)), 0)) == 8
    model = prism.Intentions(2, switching="markov", rewards=Windows(window="auto"), validation_fraction=0.25, **FEW)
    held_out = demos.split_indices(0.25, seed=0)[0]
    wrong = np.where(np.isin(demos.trajectory_index, held_out), 1 - demos.partial_labels, demos.partial_labels)
    found = [model.fit(one).choice_ for one in (demos, replace(demos, partial_labels=wrong))]
    assert [row["label_accuracy"] for row in found[0]] == [row["label_accuracy"] for row in found[1]]


def test_what_is_usual_is_taken_where_labels_cannot_choose():
    alone = fitted(rhythms(5, 1))
    assert alone.choice_ == []
    assert (alone.chosen_["power"], alone.chosen_["shrinkage"]) == (POWERS[0], SHRINKAGES[0])
    without = prism.Intentions(2, switching="markov", rewards=Windows(window=5), **FEW).fit(
        replace(rhythms(), partial_labels=None)
    )
    assert without.chosen_ == {"components": 12, "covariance": "full", "power": 1.0, "shrinkage": 0.0}


def test_the_command_says_what_the_labels_chose(tmp_path):
    demos = rhythms(6, 3, 60)
    known = np.where(demos.partial_labels >= 0, np.array(["slow", "fast"])[demos.partial_labels], "")
    columns = {"trajectory": demos.trajectory_index, "x": demos.observations[:, 0], "v": demos.motions[:, 0]}
    pd.DataFrame({**columns, "gesture": known}).to_csv(tmp_path / "arm.csv", index=False)
    small = ("--intentions", 2, "--n-starts", 1, "--max-iterations", 3, "--observe", "x", "--act", "v")
    done = command("fit", "arm.csv", *small, "--window", "auto", "--labels", "gesture", "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "labelled trajectories were left out in turn" in " ".join(done.stdout.split())
    chosen = json.loads((tmp_path / "run" / "metrics.json").read_text())["chosen"]
    assert chosen["options"]["window"] in {row["window"] for row in chosen["tried"]}
    done = command("fit", "arm.csv", *small, "--window", "auto", "--out", "other", cwd=tmp_path)
    assert (done.returncode, "name them with --labels" in " ".join(done.stderr.split())) == (2, True)
