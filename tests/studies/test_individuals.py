"""Animals that differ are named, those that do not are shrunk to the shared numbers, and the command leaves both."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prism_irl.errors import InputError
from prism_irl.mdp import MDP
from prism_irl.studies.individuals import individuals, own_choices, rows_of, shrunk
from support import prism
from worlds.cohort import CohortWorld


class Oracle:
    """A stand-in for a fitted model that knows the labels."""

    n_intentions, mdp_ = 2, None

    def predict_proba(self, demos):
        return np.eye(2)[demos.labels]


def cohort(**options):
    return CohortWorld(animals=6, trajectories=8, horizon=60, spread=0.0, **options).simulate(0).demonstrations


def test_alike_animals_are_given_the_shared_numbers():
    demos = cohort()
    found = individuals(Oracle(), demos, demos.groups)
    assert found["differ"] == []
    spread = np.ptp([row["usage"] for row in found["rows"] if row["intention"] == 0])
    alone = np.ptp([row["usage_alone"] for row in found["rows"] if row["intention"] == 0])
    assert spread < 0.5 * alone
    assert "No animal differs" in found["in_words"]


def test_animals_that_differ_are_named_and_keep_their_numbers():
    demos = cohort(usage=6.0)
    names = np.unique(demos.groups)
    unit = np.where(demos.groups == names[-1], "odd", np.where(demos.groups >= "a06", "drop", demos.groups))
    kept = unit != "drop"
    found = individuals(Oracle(), demos.subset(kept), unit[kept])
    assert found["differ"] == ["odd"]
    odd = next(row for row in found["rows"] if row["unit_of"] == "odd" and row["intention"] == 1)
    assert abs(odd["usage"] - odd["usage_alone"]) < 0.5 * abs(odd["usage_alone"] - found["shared"]["usage"][1])


def test_ratios_lie_between_the_animal_and_all():
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(4), 5)
    under = rng.integers(20, 40, (20, 1)).astype(float)
    over = rng.binomial(under.astype(int), np.array([0.2, 0.8, 0.5, 0.5])[who][:, None]).astype(float)
    strength, rates = shrunk(over, under, who)
    assert strength < 100
    assert rates[0, 0] < 0.35 < 0.65 < rates[1, 0]


def test_one_animal_is_refused():
    demos = cohort()
    with pytest.raises(InputError, match="There is one animal"):
        individuals(Oracle(), demos, np.full(len(demos), "a"))


def test_the_command_leaves_table_and_figure(tmp_path):
    CohortWorld(animals=3, trajectories=2, horizon=40).simulate(0).demonstrations.to_pandas().to_csv(
        tmp_path / "mouse.csv", index=False
    )
    quick = ("--method", "hiql", "--intentions", 2, "--n-starts", 1, "--simulations", 0)
    assert prism("fit", "mouse.csv", *quick, "--out", "run", cwd=tmp_path).returncode == 0
    done = prism("individuals", "run", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["n_units"] == 6
    assert (tmp_path / "run" / "individuals.csv").is_file()
    assert "shared_reward" in (tmp_path / "run" / "individual_rewards.csv").read_text()
    assert "Usage of each intention by every animal" in (tmp_path / "run" / "report.html").read_text()
    assert prism("individuals", "run", "--unit", "gone", cwd=tmp_path).returncode == 2


# -- choices -----------------------------------------------------------------------------------------------------------


S, A, K = 4, 3, 2
RNG = np.random.default_rng(0)
WORLD = MDP.from_dense(RNG.dirichlet(np.ones(S), (S, A)), 0.9)


def counts_of(policies, who, steps, seed=0):
    """Counts (N, K, S, A) of trajectories whose animals follow policies (G, K, S, A)."""
    rng = np.random.default_rng(seed)
    return np.stack([[[rng.multinomial(steps, p) for p in own] for own in policies[g]] for g in who]).astype(float)


@pytest.fixture(scope="module")
def odd():
    """Four animals, of which the last does other things."""
    common = np.random.default_rng(1).dirichlet(np.full(A, 2.0), (K, S))
    policies = np.stack([common, common, common, np.roll(common, 1, axis=-1)])
    who = np.repeat(np.arange(4), 5)
    return own_choices(counts_of(policies, who, 20), who, np.ones((S, A), bool), WORLD, 0), policies


def test_the_animal_that_chooses_otherwise_is_found_and_so_are_its_policies_and_rewards(odd):
    found, policies = odd
    assert (found.p_adjusted[3] <= 0.05).all()
    assert np.isfinite(found.strength)
    wrong_own = np.abs(found.policies[3] - policies[3]).mean()
    assert wrong_own < 0.5 * np.abs(found.shared - policies[3]).mean()
    assert (found.distance[3] > found.distance[:3].max(axis=0)).all()


def test_alike_animals_are_given_nearly_the_shared_policies():
    common = np.random.default_rng(1).dirichlet(np.full(A, 2.0), (K, S))
    who = np.repeat(np.arange(4), 5)
    counts = counts_of(np.stack([common] * 4), who, 20)
    found = own_choices(counts, who, np.ones((S, A), bool), WORLD, 0)
    assert (found.p_adjusted > 0.05).all()
    assert found.strength >= 100
    assert found.distance.max() < 0.2


@given(seed=st.integers(0, 50))
@settings(max_examples=10, deadline=None)
def test_policies_are_distributions_between_the_animal_and_all(seed):
    rng = np.random.default_rng(seed)
    counts = rng.gamma(0.5, 2.0, (6, K, S, A))
    valid = np.ones((S, A), bool)
    valid[0, 2] = False
    counts[:, :, ~valid] = 0
    found = own_choices(counts, np.repeat(np.arange(3), 2), valid, None, seed)
    np.testing.assert_allclose(found.policies.sum(axis=-1), 1.0)
    assert (found.policies[:, :, 0, 2] == 0).all()
    alone = found.steps / found.steps.sum(axis=-1, keepdims=True)
    low, high = np.minimum(alone, found.shared), np.maximum(alone, found.shared)
    assert ((found.policies >= low - 1e-9) & (found.policies <= high + 1e-9)).all()
    assert found.rewards is None


def test_rows_name_animals_states_and_actions(odd):
    found, _ = odd
    rows = rows_of(found, ["a", "b", "c", "d"], range(S), ["x", "y", "z"])
    assert len(rows) == 4 * K * S * A
    assert {"policy", "shared_policy", "reward", "shared_reward"} <= set(rows[0])
