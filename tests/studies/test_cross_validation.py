"""Cross-validation: every fit once, on its training fold only, remembered under everything that it depends on."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.evaluation.metrics import evaluate
from prism_irl.mdp import MDP
from prism_irl.models.intentions import Intentions
from prism_irl.models.presets import HIQL
from prism_irl.models.references import Empirical, Uniform
from prism_irl.models.registry import Method
from prism_irl.scale import stacked
from prism_irl.studies import cross_validation
from prism_irl.studies.cross_validation import compare_best_two, cross_validate, fit_to_all, is_saved, table
from prism_irl.worlds.frustration import FrustrationWorld

HIQL_OPTIONS = {"n_starts": 1, "max_iterations": 3, "validation_fraction": 0.2}
METHODS = [
    Method("uniform", "Uniform", Uniform()),
    Method("empirical", "Counts", Empirical()),
    Method("hiql", "Chain", HIQL(2, **HIQL_OPTIONS, seed=3)),
]
FOLDS, SEEDS = 3, (0, 4)


@pytest.fixture(scope="module")
def demos(make_demos) -> Demonstrations:
    plain = make_demos(seed=1)
    return replace(plain, labels=np.random.default_rng(0).integers(2, size=plain.n_steps))


def rows_of(demos, methods=METHODS, **options):
    """Rows in a fixed order, without the time that they took."""
    fits = cross_validate(demos, methods, **{"folds": FOLDS, "seeds": SEEDS} | options).fits
    for fit in fits:
        assert (fit.method.id, fit.fold, fit.seed) == tuple(fit.row[key] for key in ("method", "fold", "seed"))
        assert fit.row["fit_seconds"] >= 0
    rows = [{key: value for key, value in fit.row.items() if key != "fit_seconds"} for fit in fits]
    return sorted(rows, key=lambda row: (row["method"], row["fold"], row["seed"]))


@pytest.fixture(scope="module")
def rows(demos):
    return rows_of(demos)


def test_every_method_fold_and_seed_comes_once(rows):
    found = [(row["method"], row["fold"], row["seed"]) for row in rows]
    assert found == sorted((method.id, fold, seed) for method in METHODS for fold in range(FOLDS) for seed in SEEDS)


def test_criteria_count_what_was_estimated(demos, rows):
    states, actions = demos.n_states, demos.n_actions
    sizes = {"uniform": 0, "empirical": states * (actions - 1), "hiql": 2 * states * (actions - 1) + 3}
    for row in rows:
        train, _ = demos.fold_indices(FOLDS)[row["fold"]]
        n = demos.subset(train).n_steps
        assert row["n_parameters"] == pytest.approx(sizes[row["method"]], abs=1)  # a start that has probability 0
        deviance = -2 * n * row["train_predictive_ll"]
        assert row["aic"] == pytest.approx(deviance + 2 * row["n_parameters"])
        assert row["bic"] == pytest.approx(deviance + np.log(n) * row["n_parameters"])


def test_splits_of_somebody_else_are_folds(demos, rows):
    splits = demos.fold_indices(FOLDS)
    assert rows_of(demos, splits=splits) == rows
    one = rows_of(demos, splits=splits[1:2])
    assert one == [row | {"fold": 0} for row in rows if row["fold"] == 1]


def test_rows_are_those_of_fits_by_hand(demos, rows):
    by_hand = {
        "uniform": lambda seed: Uniform(),
        "empirical": lambda seed: Empirical(),
        "hiql": lambda seed: HIQL(2, **HIQL_OPTIONS, seed=3 + seed),
    }
    splits = demos.fold_indices(FOLDS)
    for row in rows:
        train, test = (demos.subset(part) for part in splits[row["fold"]])
        model = by_hand[row["method"]](row["seed"]).fit(train)
        expected = evaluate(model, test) | {"train_predictive_ll": model.score(train)}
        assert expected.items() <= row.items()
        assert row["n_steps"] == test.n_steps
        assert row["predictive_ll"] == pytest.approx(
            np.log(model.action_proba(test)[range(len(test.actions)), test.actions]).mean()
        )


def test_only_some_folds(demos, rows):
    assert rows_of(demos, only_folds=(2,)) == [row for row in rows if row["fold"] == 2]


def test_another_split_seed_is_another_split(demos, rows):
    other = rows_of(demos, split_seed=1)
    assert [row["predictive_ll"] for row in other] != [row["predictive_ll"] for row in rows]


def test_processes_change_nothing(demos, rows):
    assert rows_of(demos, jobs=2) == rows


def test_test_folds_are_never_seen_in_training(demos, monkeypatch):
    seen = []
    fit = Empirical.fit

    def spy(self, train, mdp=None):
        seen.append(set(train.trajectory_names.tolist()))
        return fit(self, train, mdp)

    monkeypatch.setattr(Empirical, "fit", spy)
    groups = np.array(["a", "b", "c", "d", "a", "b", "c", "d"])
    named = replace(demos, trajectory_names=np.arange(len(demos)), groups=groups)
    for by in ("trajectory", "group"):
        seen.clear()
        cross_validate(named, METHODS[1:2], folds=FOLDS, by=by)
        assert len(seen) == FOLDS
        tested = [set(range(len(demos))) - train for train in seen]
        assert sorted(name for test in tested for name in test) == list(range(len(demos)))
        for train, (_, test) in zip(seen, demos_folds(named, by), strict=True):
            assert not train & set(test.tolist())
            if by == "group":
                assert not set(groups[list(train)]) & set(groups[test])


def demos_folds(demos, by):
    return demos.fold_indices(FOLDS, by=by)


def test_an_evaluation_has_all_fits_in_order_and_the_models_of_the_first(demos, rows):
    totals = []
    done = cross_validate(
        demos,
        METHODS,
        folds=FOLDS,
        seeds=SEEDS,
        only_folds=(2, 0),
        on_fit=lambda fit, total: totals.append(total),
        keep_models=True,
    )
    expected = [(m, s, f) for m in sorted(m.id for m in METHODS) for s in SEEDS for f in (0, 2)]
    assert [(fit.method.id, fit.seed, fit.fold) for fit in done.fits] == expected
    assert totals == [len(expected)] * len(expected)
    found = {(row["method"], row["seed"], row["fold"]): row["predictive_ll"] for row in done.rows}
    assert found == {(r["method"], r["seed"], r["fold"]): r["predictive_ll"] for r in rows if r["fold"] != 1}
    assert list(done.table()) == list(done.models()) == [method.id for method in METHODS]
    np.testing.assert_array_equal(done.test, demos.fold_indices(FOLDS)[2][1])
    for name, model in done.models().items():
        assert model.score(demos.subset(done.test)) == found[name, SEEDS[0], 2]
    assert cross_validate(demos, METHODS, only_folds=()).table() == {}


def test_models_come_back_only_where_asked_for(demos):
    fits = cross_validate(demos, METHODS[:2], folds=2, only_folds=(1, 0), keep_models=True).fits
    assert [fit.model is not None for fit in fits] == [fit.fold == 1 for fit in fits]
    assert all(fit.model is None for fit in cross_validate(demos, METHODS[:2], folds=2).fits)
    assert all(hasattr(fit.model, "n_states_") for fit in fits if fit.model is not None)
    assert not hasattr(METHODS[0].model, "n_states_"), "the method itself must stay unfitted"


def forbidden(*_):
    raise AssertionError("a finished fit was made again")


class TestCache:
    def test_a_second_run_makes_no_fit(self, demos, rows, tmp_path, monkeypatch):
        assert rows_of(demos, cache=tmp_path) == rows
        monkeypatch.setattr(cross_validation, "run_job", forbidden)
        assert rows_of(demos, cache=tmp_path) == rows

    def test_an_interrupted_run_makes_only_the_missing_fits(self, demos, rows, tmp_path, monkeypatch):
        rows_of(demos, cache=tmp_path, only_folds=(0, 2))
        made = []
        run_job = cross_validation.run_job

        def spy(job, *rest):
            made.append(job.fold)
            return run_job(job, *rest)

        monkeypatch.setattr(cross_validation, "run_job", spy)
        assert rows_of(demos, cache=tmp_path) == rows
        assert made == [1] * len(METHODS) * len(SEEDS)

    def test_methods_without_a_seed_keep_their_seeds_apart(self, demos, tmp_path):
        for _ in range(2):
            found = rows_of(demos, METHODS[:1], folds=2, cache=tmp_path)
            assert [(row["fold"], row["seed"]) for row in found] == [(0, 0), (0, 4), (1, 0), (1, 4)]

    def test_equal_methods_keep_their_names(self, demos, tmp_path):
        twins = [Method("one", "One", Empirical()), Method("two", "Two", Empirical())]
        for _ in range(2):
            assert {row["method"] for row in rows_of(demos, twins, cache=tmp_path)} == {"one", "two"}

    def test_whatever_numbers_depend_on_is_part_of_the_key(self, demos, tmp_path):
        chosen = [Method("empirical", "Counts", Empirical())]
        dynamics = MDP.from_demonstrations(demos, discount=0.9)
        flipped = replace(demos, labels=1 - demos.labels)
        actions = demos.actions.copy()
        actions[0] = (actions[0] + 1) % demos.n_actions
        masked = replace(demos, valid_actions=np.ones((demos.n_states, demos.n_actions), dtype=bool))
        variants = {
            "the same": (demos, chosen, {}),
            "parameters": (demos, [Method("empirical", "Counts", Empirical(smoothing=0.02))], {}),
            "class": (demos, [Method("empirical", "Counts", Uniform())], {}),
            "data": (replace(demos, actions=actions), chosen, {}),
            "mask": (masked, chosen, {}),
            "labels": (flipped, chosen, {}),
            "no labels": (replace(demos, labels=None), chosen, {}),
            "split": (demos, chosen, {"split_seed": 1}),
            "dynamics": (demos, chosen, {"mdp": dynamics}),
            "discount": (demos, chosen, {"mdp": MDP.from_demonstrations(demos, discount=0.8)}),
            "further numbers": (demos, chosen, {"extra": further}),
        }
        written = set()
        for what, (data, methods, options) in variants.items():
            rows_of(data, methods, only_folds=(0,), seeds=(0,), cache=tmp_path, **options)
            now = {path.name for path in tmp_path.iterdir()}
            assert len(now - written) == 1, what
            written = now
        rows_of(demos, chosen, only_folds=(0,), seeds=(0,), cache=tmp_path)
        assert {path.name for path in tmp_path.iterdir()} == written

    def test_the_seed_is_part_of_the_key_where_there_is_one(self, demos, tmp_path):
        rows_of(demos, METHODS[2:], only_folds=(0,), cache=tmp_path)
        assert len(list(tmp_path.iterdir())) == len(SEEDS)


def further(model, test):
    return {"evd_goal": float(test.n_steps)}


def test_further_numbers_are_of_the_test_fold(demos):
    for row in rows_of(demos, METHODS[:1], extra=further):
        assert row["evd_goal"] == row["n_steps"]


def made_up(**scores):
    return [
        {
            "method": name,
            "fold": fold,
            "seed": seed,
            "n_steps": 5,
            "predictive_ll": value,
            "fit_seconds": 2.0 * seed,
            "agreement": None,
        }
        for name, folds in scores.items()
        for fold, values in enumerate(folds)
        for seed, value in enumerate(values)
    ]


def named(*names):
    return [Method(name, name.title(), Uniform(), leaks=name == "b") for name in names]


def test_table_gives_mean_and_spread_per_method():
    rows = made_up(a=[(-1.0, -2.0), (-3.0, -6.0)], b=[(-0.5,)])
    found = table(named("b", "a", "absent"), rows)
    assert list(found) == ["b", "a"]
    assert found["a"]["predictive_ll"] == pytest.approx({"mean": -3.0, "std": np.std([1, 2, 3, 6], ddof=1)})
    assert found["b"]["predictive_ll"] == {"mean": -0.5, "std": 0.0}
    assert found["a"]["fit_seconds"] == pytest.approx(1.0)
    assert (found["a"]["name"], found["a"]["leaks"], found["b"]["leaks"]) == ("A", False, True)
    assert found["a"]["agreement"] is None
    assert found["a"]["label_accuracy"] is None
    assert not {"fold", "seed", "n_steps", "method"} & found["a"].keys()


def test_a_method_with_one_intention_has_no_labels_to_be_right():
    rows = [row | {"label_accuracy": 0.4, "ari": 0.1} for row in made_up(a=[(-1.0, -2.0)])]
    found = {n: table([Method("a", "A", Intentions(n, switching="markov"))], rows)["a"] for n in (1, 2)}
    assert (found[1]["label_accuracy"], found[1]["ari"]) == (None, None)
    assert found[2]["label_accuracy"]["mean"] == pytest.approx(0.4)


def test_the_best_two_are_compared_with_the_corrected_test():
    scores = {
        "a": [(-1.0, -1.2), (-1.3, -1.1), (-0.9, -0.7), (-1.4, -1.4)],
        "b": [(-1.3, -1.3), (-1.2, -1.4), (-1.0, -1.2), (-1.3, -1.6)],
        "c": [(-2.0, -2.0)] * 4,
        "oracle": [(-0.1, -0.1)] * 4,
    }
    found = compare_best_two(named(*scores), made_up(**scores))
    means = {name: np.mean(values, axis=1) for name, values in scores.items()}
    difference = means["a"] - means["b"]
    # Nadeau & Bengio (2003): 1/n becomes 1/n + n_test / n_train, which is 1 / (folds - 1).
    t = difference.mean() / np.sqrt((1 / 4 + 1 / 3) * difference.var(ddof=1))
    assert (found["best"], found["second"], found["folds"]) == ("a", "b", 4)
    assert found["difference"] == pytest.approx(difference.mean())
    assert found["p_value"] == pytest.approx(2 * stats.t.sf(t, 3))
    assert found["p_value"] > stats.ttest_rel(means["a"], means["b"]).pvalue, "the plain test is too sure of itself"


def test_best_two_where_there_is_little_to_compare():
    assert compare_best_two(named("a"), made_up(a=[(-1.0,), (-2.0,)])) is None
    assert compare_best_two(named("a", "oracle"), made_up(a=[(-1.0,)], oracle=[(-0.5,)])) is None
    assert compare_best_two(named("a", "b"), made_up(a=[(-1.0,)], b=[(-2.0,)]))["p_value"] is None
    same = compare_best_two(named("a", "b"), made_up(a=[(-1.0,), (-2.0,)], b=[(-1.0,), (-2.0,)]))
    assert (same["difference"], same["p_value"]) == (0.0, 1.0)
    always = compare_best_two(named("a", "b"), made_up(a=[(-1.0,), (-2.0,)], b=[(-1.5,), (-2.5,)]))
    assert (always["difference"], always["p_value"]) == (0.5, 0.0)


def test_folds_that_were_not_run_still_count_for_the_correction():
    """Two of five folds: training parts overlap as in five folds, and only two differences were seen."""
    scores = {"a": [(-1.0,), (-1.3,)], "b": [(-1.3,), (-1.4,)]}
    found = compare_best_two(named(*scores), made_up(**scores), 5)
    difference = np.array([0.3, 0.1])
    t = difference.mean() / np.sqrt((1 / 2 + 1 / 4) * difference.var(ddof=1))
    assert found["p_value"] == pytest.approx(2 * stats.t.sf(t, 1))
    assert found["folds"] == 2


def test_methods_are_ranked_on_the_folds_that_all_of_them_have():
    """Method b looks best only because it ran the easy fold alone."""
    found = compare_best_two(named("a", "b"), made_up(a=[(-1.0,), (-5.0,)], b=[(-1.5,)]), 2)
    assert (found["best"], found["folds"], found["p_value"]) == ("a", 1, None)
    rows = made_up(a=[(-1.0,)]) + [{**row, "fold": 1} for row in made_up(b=[(-2.0,)])]
    assert compare_best_two(named("a", "b"), rows, 2) is None


def test_an_impossible_action_leaves_nothing_to_test():
    rows = made_up(a=[(-1.0,), (-1.0,)], b=[(-np.inf,), (-1.0,)])
    assert compare_best_two(named("a", "b"), rows) is None


def test_a_remembered_row_keeps_a_likelihood_of_zero(tmp_path):
    row = {"method": "nan", "fold": 1, "predictive_ll": -np.inf, "evd": np.float64("nan"), "agreement": None, "n": 3}
    cross_validation.write_row(tmp_path / "row.json", row)
    back = cross_validation.read_row(tmp_path / "row.json")
    assert np.isnan(back.pop("evd"))
    assert back == {key: value for key, value in row.items() if key != "evd"}


# -- fits to all data --------------------------------------------------------------------------------------------------


MODELS = [HIQL(2, n_starts=2, max_iterations=5), HIQL(2, n_starts=2, max_iterations=5, seed=1)]


@pytest.fixture(scope="module")
def few():
    return FrustrationWorld(horizon=12).simulate(16, seed=3).demonstrations


def test_a_fit_to_all_data_is_found_again(few, tmp_path, monkeypatch):
    found = fit_to_all(MODELS, few, None, folder=tmp_path)
    assert MODELS[0].starts_ is None, "the models themselves must stay unfitted"
    assert len({name for name, _ in found}) == 2
    monkeypatch.setattr(HIQL, "fit", lambda *_, **__: pytest.fail("fitted again"))
    again = fit_to_all(MODELS, few, None, folder=tmp_path)
    for (name, first), (same, second) in zip(found, again, strict=True):
        assert name == same
        assert is_saved(tmp_path / name)
        assert first.starts_ == second.starts_
        np.testing.assert_array_equal(first.predict_proba(few), second.predict_proba(few))
    with pytest.raises(pytest.fail.Exception):  # other data, another fit
        fit_to_all(MODELS, few.subset([0, 1]), None, folder=tmp_path)


def test_equal_models_are_fitted_once_and_come_back_in_order(few, monkeypatch):
    fits = []
    fit = HIQL.fit
    monkeypatch.setattr(HIQL, "fit", lambda self, *rest: fits.append(self.seed) or fit(self, *rest))
    found = fit_to_all([MODELS[1], MODELS[0], clone(MODELS[1])], few, None)
    assert sorted(fits) == [0, 1]
    assert [model.seed for _, model in found] == [1, 0, 1]
    assert found[0][0] == found[2][0]


def test_fits_that_share_a_gpu_are_those_that_they_would_be_alone(few, monkeypatch):
    """The stack runs on a CPU here; on a GPU it is chosen by itself."""
    options = {"hidden": 4, "embedding": 4, "max_iterations": 3, "warm_up": 1, "n_candidates": 1, "device": "cpu"}
    models = [Intentions(2, switching="recurrent", **options, n_starts=2, seed=seed) for seed in (0, 1)]
    alone = fit_to_all([*models, MODELS[0]], few, None)
    stacks = []
    fit_together = stacked.fit_together

    def spy(chosen, data, mdp):
        stacks.append(len(chosen))
        return fit_together(chosen, data, mdp, device="cpu")

    monkeypatch.setattr(stacked, "worth_stacking", stacked.can_stack)
    monkeypatch.setattr(stacked, "fit_together", spy)
    together = fit_to_all([*models, MODELS[0]], few, None)
    assert stacks == [2]
    for (_, one), (_, other) in zip(alone, together, strict=True):
        assert other.score(few) == pytest.approx(one.score(few), abs=1e-5)
        assert (one.predict(few) == other.predict(few)).mean() > 0.95
