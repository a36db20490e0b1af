"""The page and the pictures of a fit from where one works with it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from prism_irl import HIQL, IAVI, Demonstrations, InputError, load
from prism_irl.worlds.frustration import FrustrationWorld
from support import prism


def small(seed: int = 1) -> Demonstrations:
    return FrustrationWorld(horizon=12).simulate(16, seed=seed).demonstrations


def quick(k: int = 2) -> HIQL:
    return HIQL(k, n_starts=1, max_iterations=3, device="cpu")


def test_a_report_needs_no_data_but_those_of_the_fit(tmp_path: Path) -> None:
    demos = small()
    model = quick().fit(demos)
    page = model.report(tmp_path / "run", events={"first": demos.first_steps})
    assert page == tmp_path / "run" / "report.html"
    assert "report.html" in page._repr_html_()
    text = page.read_text(encoding="utf-8")
    assert "What does each intention want?" in text
    assert json.loads((tmp_path / "run" / "explorer.json").read_text())["events"] == ["first"]
    assert load(tmp_path / "run").score(demos) == model.score(demos)
    demos.to_pandas().to_csv(tmp_path / "new.csv", index=False)
    done = prism("score", "run", "new.csv", "--json", cwd=tmp_path)  # the folder is one that commands go on from
    assert json.loads(done.stdout)["predictive_ll"] == pytest.approx(model.score(demos), abs=1e-9)
    with pytest.raises(InputError, match="already holds a run"):
        model.report(tmp_path / "run")
    model.report(tmp_path / "run", overwrite=True)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="holds no run of prism"):
        model.report(tmp_path / "mine", overwrite=True)


def test_pictures_of_the_fit(tmp_path: Path) -> None:
    demos = small()
    model = quick().fit(demos)
    assert sum(bool(ax.get_title(loc="left")) for ax in model.plot.maps().axes) == 4  # two maps per intention
    assert len(model.plot.timeline().axes) == len(model.plot.raster().axes) == 1
    model.save(tmp_path)
    with pytest.raises(InputError, match=r"does not hold the data.*model\.plot\.maps\(demos\)"):
        load(tmp_path).plot.maps()


def test_a_summary_is_one_screen_with_every_number_in_its_place() -> None:
    demos = small()
    model = quick().fit(demos)
    text = repr(model.summary())
    held_out = set(demos.split_indices(model.validation_fraction, seed=0)[0].tolist())
    train = demos.subset([i for i in range(len(demos)) if i not in held_out])
    assert f"{model.score(train):.4f}" in text
    shares = np.bincount(model.predict(demos), minlength=2) / demos.n_steps
    rows = [line.split() for line in text.splitlines() if line.startswith("intention ")]
    assert [row[2] for row in rows[1:3]] == [f"{100 * share:.1f}%" for share in shares]
    assert max(map(len, text.splitlines())) <= 80
    assert len(text.splitlines()) < 30


def test_a_model_keeps_no_data_alive() -> None:
    demos = small()
    model = quick().fit(demos)
    del demos
    with pytest.raises(InputError, match=r'model\.report\("x", demos\)'):
        model.report("x")
    assert not Path("x").exists()


@pytest.mark.parametrize("given", ["mouse.csv", [[0, 1]], pd.DataFrame()])
def test_what_is_no_demonstrations_is_answered_with_how_to_read_them(given: Any) -> None:
    demos = Demonstrations.from_arrays([[0, 1, 2, 1]], [[0, 1, 0, 1]])
    fitted = HIQL(2, n_starts=1, max_iterations=1, device="cpu").fit(demos)
    for ask in (HIQL(2).fit, fitted.score, IAVI().fit(demos).score):
        with pytest.raises(InputError, match="from_table"):
            ask(given)


@pytest.fixture(scope="module")
def demos() -> Demonstrations:
    return FrustrationWorld(horizon=15).simulate(20, seed=1).demonstrations


@pytest.fixture(scope="module")
def model(demos: Demonstrations) -> HIQL:
    return HIQL(2, n_starts=1, max_iterations=3, device="cpu").fit(demos)


def test_every_picture_is_drawn(model: HIQL, demos: Demonstrations) -> None:
    raster, timeline, maps = model.plot.raster(demos), model.plot.timeline(demos, 3), model.plot.maps(demos)
    assert len(raster.axes) == len(timeline.axes) == 1
    titles = [title for ax in maps.axes if (title := ax.get_title(loc="left"))]
    assert titles == ["intention 0", "intention 1", "intention 0: reward", "intention 1: reward"]
    assert timeline.axes[0].get_title(loc="left") == "Trajectory 3"
    shown = raster.axes[0].images[0].get_array()
    assert np.ma.count(shown[0]) >= 15
    assert set(np.unique(np.ma.compressed(shown)).astype(int)) <= {0, 1}


def test_labels_that_are_words_name_the_intentions(model: HIQL, demos: Demonstrations) -> None:
    told = replace(demos, partial_labels=np.zeros(demos.n_steps, np.int64), partial_label_names=("eat",))
    (ax,) = model.plot.timeline(told, 0).axes
    assert [text.get_text() for text in ax.get_legend().get_texts()][:2] == ["eat", "intention 1"]


def test_what_cannot_be_drawn_says_why(demos: Demonstrations, model: HIQL) -> None:
    with pytest.raises(NotFittedError):
        _ = HIQL(2).plot
    rng = np.random.default_rng(0)
    everywhere = Demonstrations.from_arrays(rng.integers(25, size=(20, 200)), rng.integers(5, size=(20, 200)))
    with pytest.raises(InputError, match="no map"):
        model.plot.maps(everywhere)
