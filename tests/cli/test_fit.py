"""`prism fit` of any method: one inference per data set, the numbers of the model, and nothing that is not there."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from prism_irl import Demonstrations
from prism_irl.data.read import write_npz
from prism_irl.evaluation.metrics import evaluate, infer_once, segmentation_metrics
from prism_irl.models import registry
from prism_irl.models.describe import describe
from prism_irl.models.intentions import Intentions
from prism_irl.robots.continuous import TOKENIZE
from prism_irl.switching.base import Switching
from prism_irl.switching.markov import MarkovChain
from prism_irl.worlds.frustration import FrustrationWorld
from support import prism

SMALL = {"n_starts": 2, "max_iterations": 3, "warm_up": 2, "n_candidates": 1, "hidden": 4, "embedding": 4}
MARKOV = "--intentions 2 --switching markov --n-starts 2 --max-iterations 5 --device cpu".split()


@pytest.fixture(scope="module")
def demos() -> Demonstrations:
    return FrustrationWorld(horizon=15).simulate(20, seed=1).demonstrations


RECOUNT = {"switching": "recurrent", "rewards": "tabular", "recount": True}


@pytest.fixture(scope="module")
def table(demos: Demonstrations, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "steps.csv"
    demos.to_pandas().to_csv(path, index=False)
    return path


@pytest.mark.parametrize("method", ["prism-markov", "prism-recurrent", "prism-paper", "iavi", "ngram", "uniform"])
def test_one_inference_says_what_the_model_says(method: str, demos: Demonstrations) -> None:
    model = registry.method(method, 2, **SMALL, device="cpu").model.fit(demos)
    found = infer_once(model, demos)
    result = evaluate(model, demos)
    assert (result["predictive_ll"], result["paper_score"]) == (model.score(demos), model.paper_score(demos))
    labels = segmentation_metrics(demos.labels, model.predict(demos), demos.offsets)
    assert {"ari", "nmi", "boundary_f1", "mean_dwell"} < set(result)
    assert all(result[name] == labels[name] for name in result if name in labels)
    np.testing.assert_array_equal(found.probabilities, model.predict_proba(demos))
    np.testing.assert_array_equal(found.labels, model.predict(demos))


@pytest.mark.parametrize("options", [{}, {"switching": "independent", "observe": "current"}, RECOUNT])
def test_scores_of_the_parts_are_means_over_their_steps(options: dict[str, object], demos: Demonstrations) -> None:
    model = Intentions(2, validation_fraction=0.25, device="cpu", **SMALL, **options).fit(demos)
    result = describe(model, demos, references=False).to_json()
    held_out, kept = demos.split_indices(0.25, seed=0)
    train, validation = (evaluate(model, demos.subset(part)) for part in (kept, held_out))
    for name in ("predictive_ll", "paper_score"):
        assert result[name]["train"] == pytest.approx(train[name], abs=1e-12)
        if model.recount:  # as it was before the policies counted these trajectories
            best = next(start["score"] for start in model.starts_ if start["best"])
            assert result[name]["validation"] == best != validation[name]
        else:
            assert result[name]["validation"] == pytest.approx(validation[name], abs=1e-12)


def count_calls(owner: type, name: str, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Steps of every later call of a method whose first argument holds demonstrations."""
    calls, original = list[int](), getattr(owner, name)

    def counted(self: object, data: object, *rest: object, **options: object) -> object:
        calls.append(data.demos.n_steps)
        return original(self, data, *rest, **options)

    monkeypatch.setattr(owner, name, counted)
    return calls


@pytest.mark.parametrize(("preset", "passes"), [((), 1), (("--preset", "paper-gridworld", "--max-iterations", 1), 2)])
def test_a_run_is_written_from_one_inference(
    preset: tuple[object, ...],
    passes: int,
    table: Path,
    demos: Demonstrations,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two passes for a gate that sees the action: its predictive likelihood is not what the E-step gives."""
    counted: list[list[int]] = []
    fit = Intentions.fit

    def then_count(self: Intentions, *arguments: object, **options: object) -> Intentions:
        fit(self, *arguments, **options)
        owner = MarkovChain if isinstance(self.switching_, MarkovChain) else Switching
        counted.append(count_calls(owner, "expectation", monkeypatch))
        counted.append(count_calls(Switching, "action_proba", monkeypatch))
        return self

    monkeypatch.setattr(Intentions, "fit", then_count)
    options = preset or MARKOV
    done = prism("fit", table, *options, "--simulations", 0, "--out", tmp_path / "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [steps for calls in counted for steps in calls] == [demos.n_steps] * passes
    assert not (tmp_path / "run" / "checks.json").exists()


def test_a_run_compares_simulations_with_the_data(table: Path, demos: Demonstrations, tmp_path: Path) -> None:
    run = tmp_path / "run"
    command = ("fit", table, *MARKOV, "--out", run)
    assert prism(*command, cwd=tmp_path).returncode == 0
    checks = json.loads((run / "checks.json").read_text())
    assert (checks["simulations"], checks["n_steps"]) == (20, demos.n_steps)
    assert {"dwell", "where it is", "triples of states"} <= {one["name"] for one in checks["statistics"]}
    dwell = [one["data"] for one in checks["statistics"] if one["name"] == "dwell"]
    metrics = json.loads((run / "metrics.json").read_text())
    assert dwell == pytest.approx(metrics["dwell_per_intention"])
    assert "Does the model behave like the agent?" in (run / "report.html").read_text()
    # What is left out is not left over from before.
    assert prism(*command, "--simulations", 0, "--overwrite", cwd=tmp_path).returncode == 0
    assert not (run / "checks.json").exists()
    assert not list((run / "figures").glob("checks*"))
    done = prism(*command, "--simulations", 1, "--overwrite", cwd=tmp_path)
    assert done.returncode == 2
    assert "2 or more" in done.stderr


@pytest.mark.parametrize(
    ("method", "intentions"), [("iavi", 1), ("ngram", 1), ("dirl", 2), ("hiql", 2), ("swirl-1", 2)]
)
def test_any_method_leaves_a_run_that_can_be_segmented(
    method: str, intentions: int, table: Path, tmp_path: Path
) -> None:
    options = ["--intentions", 2] if intentions == 2 else []
    run = tmp_path / "run"
    pairs = method in ("hiql", "swirl-1")
    options += ["--n-starts", 1, "--max-iterations", 2] if pairs else []
    done = prism("fit", table, "--method", method, *options, "--out", run, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    metrics = json.loads(done.stdout)
    assert metrics["n_intentions"] == intentions
    assert (metrics["em"] is None) == (not pairs)
    assert (metrics["predictive_ll"]["validation"] is None) == (not pairs)
    assert (run / "history.csv").exists() == (run / "figures" / "em_curves.svg").exists() == pairs
    assert ("converge" in (run / "report.html").read_text().lower()) or not pairs
    assert not (run / "checkpoint").exists()
    segments = pd.read_parquet(run / "segments.parquet")
    assert len(segments) == metrics["n_steps"]
    done = prism("segment", run, table, "--out", tmp_path / "labels.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    label = "predicted_intention"
    np.testing.assert_array_equal(pd.read_csv(tmp_path / "labels.csv")[label], segments[label])
    assert prism("score", run, table, cwd=tmp_path).returncode == 0


def test_a_method_without_checkpoints_begins_again(table: Path, tmp_path: Path) -> None:
    command = ("fit", table, "--out", tmp_path / "run")
    assert prism(*command, *MARKOV, cwd=tmp_path).returncode == 0
    assert (tmp_path / "run" / "history.csv").exists()
    done = prism(*command, "--method", "iavi", "--resume", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "agreement" not in done.stdout
    # What only EM leaves behind went with it.
    assert not (tmp_path / "run" / "history.csv").exists()
    assert not list((tmp_path / "run" / "figures").glob("em_curves.*"))


def test_a_method_of_ones_own(table: Path, tmp_path: Path) -> None:
    (tmp_path / "own_method.py").write_text("from prism_irl import HIQL\n\n\nclass Own(HIQL):\n    pass\n")
    own = ("--method", "own_method:Own")
    fit = ("fit", table, *own, "--n-starts", 1, "--max-iterations", 2, "--out", "run")
    assert prism(*fit, cwd=tmp_path).returncode == 0
    assert json.loads((tmp_path / "run" / "config.json").read_text())["method"] == "own_method:Own"
    assert prism("score", "run", table, *own, cwd=tmp_path).returncode == 0
    assert prism("segment", "run", table, *own, "--out", "labels.csv", cwd=tmp_path).returncode == 0
    assert prism("score", "run", table, "--method", "own_method:Other", cwd=tmp_path).returncode == 2


def test_a_fit_stands_beside_the_references_and_is_not_called_good_untested(table: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    done = prism("fit", table, *MARKOV, "--out", run, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    metrics = json.loads((run / "metrics.json").read_text())
    assert {name: set(entry["predictive_ll"]) for name, entry in metrics["references"].items()} == {
        name: {"train", "validation"} for name in ("uniform", "empirical", "ngram")
    }
    assert metrics["validation_chose"] == []
    for words in (
        "scores on held-out data, which chose nothing",
        "references     uniform -",
        "verdict        ",
        "prism evidence",
    ):
        assert words in done.stdout
    page = (run / "report.html").read_text()
    assert "Beside what is simpler" in page
    assert "Not tested against a habit without intentions: run prism evidence DATA." in page
    assert "Nothing here speaks against this run" not in page


def test_a_fit_to_tokens_says_what_tokens_are_worth(demos: Demonstrations, tmp_path: Path) -> None:
    write_npz(demos, tmp_path / "tokens.npz", made_by=TOKENIZE)
    done = prism("fit", "tokens.npz", *MARKOV, "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "rarely recover the phases of a robot" in (tmp_path / "run" / "report.html").read_text()


def test_the_name_of_a_folder_cannot_colour_what_is_printed(table: Path, tmp_path: Path) -> None:
    done = prism("fit", table, *MARKOV, "--simulations", 0, "--out", "\x1b[31mred", cwd=tmp_path)
    assert done.returncode == 0
    assert "To test it against a habit: prism evidence" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr
