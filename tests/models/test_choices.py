"""What validation trajectories choose about continuous policies."""

from __future__ import annotations

import json

import numpy as np

import prism_irl as prism
from continuous_worlds import walking, walks
from prism_irl.data.batching import Prepared
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.models import choices
from prism_irl.rewards.linear import RIDGES
from prism_irl.rewards.options import Features
from support import prism as command

FEW = {"n_starts": 1, "max_iterations": 4, "device": "cpu"}
DEMOS = walking(n_trajectories=10, length=40)


def bent(n: int = 10, length: int = 60) -> Demonstrations:
    """Commands that are a wave of the observation: no line follows it."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-2.0, 2.0, (n, length, 1))
    return Demonstrations.continuous(x, np.sin(4.0 * x) + rng.normal(0, 0.05, x.shape))


def straight() -> Demonstrations:
    """Commands that follow one observation exactly."""
    x = np.random.default_rng(0).normal(size=(10, 20, 1))
    return Demonstrations.continuous(x, 2.0 * x + np.random.default_rng(1).normal(0, 0.01, x.shape))


def noise(n: int = 6, length: int = 8) -> Demonstrations:
    """Commands that no observation explains, of many observations and few steps."""
    rng = np.random.default_rng(0)
    return Demonstrations.continuous(rng.normal(size=(n, length, 12)), rng.normal(size=(n, length, 1)))


def test_a_small_ridge_where_observations_explain_and_a_large_one_where_not():
    fits = [
        prism.Intentions(1, switching="single", rewards="features", **FEW).fit(demos) for demos in (straight(), noise())
    ]
    assert [len(fit.choice_) for fit in fits] == [len(RIDGES)] * 2
    assert fits[1].chosen_["ridge"] == 100.0
    assert fits[0].chosen_["ridge"] < 100.0
    for fit in fits:
        best = max(fit.choice_, key=lambda row: row["log_likelihood"])
        assert fit.rewards_model_.ridge == best["ridge"]
        assert fit.validation_chose_[0] == "prior of the policies"


def test_policies_bend_where_the_world_does():
    found = prism.Intentions(1, switching="single", rewards=Features(fourier="auto"), **FEW).fit(bent())
    assert found.chosen_["fourier"] == 64
    assert found.rewards_model_.basis.n_fourier == 64
    straight = prism.Intentions(1, switching="single", rewards=Features(fourier="auto"), **FEW).fit(noise())
    assert straight.chosen_["fourier"] == 0


def test_what_is_given_is_not_chosen_and_without_validation_the_usual_is_taken():
    fixed = prism.Intentions(2, switching="markov", rewards=Features(ridge=3.0, length_scale=1.0), **FEW).fit(DEMOS)
    assert (fixed.rewards_model_.ridge, fixed.choice_) == (3.0, [])
    usual = prism.Intentions(2, switching="markov", rewards="features", validation_fraction=0.0, **FEW).fit(DEMOS)
    assert (usual.rewards_model_.ridge, usual.choice_) == (1.0, [])
    usual.set_params(rewards=Features(ridge=5.0)).fit(DEMOS)  # an earlier choice does not stay
    assert usual.rewards_model_.ridge == 5.0


def test_large_data_are_represented_by_some_trajectories(monkeypatch):
    monkeypatch.setattr(choices, "TRIAL_STEPS", 100)
    sizes, prepare = [], Prepared.of
    monkeypatch.setattr(
        choices.Prepared, "of", lambda demos, *given: sizes.append(demos.n_steps) or prepare(demos, *given)
    )
    model = prism.Intentions(2, switching="markov", rewards="features", **FEW)
    model._set_up(model._checked(DEMOS, None), None)
    assert sizes == [120, min(120, round(0.1 * len(DEMOS)) * 40)]  # trajectories of 40 steps


def test_a_choice_is_saved(tmp_path):
    model = prism.Intentions(2, switching="markov", rewards=Features(fourier="auto"), **FEW).fit(DEMOS)
    model.save(tmp_path)
    again = prism.load(tmp_path)
    assert (again.chosen_, again.choice_) == (model.chosen_, model.choice_)
    np.testing.assert_array_equal(again.predict_proba(DEMOS), model.predict_proba(DEMOS))


def test_the_command_says_what_was_chosen(tmp_path):
    walks(n_trajectories=6, length=25).to_csv(tmp_path / "arm.csv", index=False)
    small = ("--intentions", 2, "--n-starts", 1, "--max-iterations", 3, "--observe", "x,y", "--act", "vx,vy")
    goals = ("--rewards", "landmarks", "--landmarks", 12)
    for options, word in ((("--rewards", "features"), "with a ridge of"), (goals, "goal 1")):
        done = command("fit", "arm.csv", *small, *options, "--out", f"run{len(options)}", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert word in done.stdout
    assert "with a ridge of" in (tmp_path / "run2" / "report.html").read_text(encoding="utf-8")
    metrics = json.loads((tmp_path / "run4" / "metrics.json").read_text())
    assert metrics["goals"]["names"] == ["x", "y"]
    assert "goal 1         x " in done.stdout
    assert "goes to x " in (tmp_path / "run4" / "report.html").read_text(encoding="utf-8")
