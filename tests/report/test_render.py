"""The report says what the run folder holds, judges it by stated rules, and loads nothing from anywhere."""

import base64
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from prism_irl.errors import InputError
from prism_irl.figures.style import intention_color
from prism_irl.report import render
from prism_irl.report.render import write_report
from prism_irl.report.table_rows import method_bar_rows, method_table
from prism_irl.report.verdict import marked_options, verdict

FIT = json.loads(Path(__file__).with_name("fit.json").read_text())
COMPARISON = json.loads(Path(__file__).with_name("comparison.json").read_text())
METHODS = COMPARISON["methods"]
SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="{}pt" height="100pt"><text>{}</text></svg>'


def fit(**changes):
    return {**FIT, **changes}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "figures").mkdir()
    return tmp_path


def report(folder, metrics, config=None, captions=None):
    (folder / "metrics.json").write_text(json.dumps(metrics))
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config))
    if captions is not None:
        (folder / "figures" / "captions.json").write_text(json.dumps(captions))
    return write_report(folder).read_text(encoding="utf-8")


class Page(HTMLParser):
    """Tags, attributes and visible text."""

    void = frozenset({"meta", "img", "link", "br", "hr", "input"})

    def __init__(self, html):
        super().__init__()
        self.tags, self.open, self.words = [], [], []
        self.feed(html)
        assert not self.open, f"unclosed {self.open}"

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in self.void:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"style", "script"} & set(self.open):
            self.words.append(data)

    @property
    def text(self):
        return re.sub(r"\s+", " ", " ".join(self.words))

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


# -- tables ------------------------------------------------------------------------------------------------------------


def test_method_table_has_both_likelihood_columns_and_marks_leaks():
    table = method_table(COMPARISON)
    titles = [column.title for column in table.columns]
    assert titles[:2] == ["predictive LL", "paper score"]
    assert {"EVD goal", "label accuracy", "fit time", "reported in the paper"} <= set(titles)
    assert "ARI" not in titles  # nobody has one
    cells = {name: dict(zip(titles, row, strict=True)) for name, _, row in table.rows}
    assert cells["PRISM (paper gate)"]["paper score"].mark == "not a likelihood"
    assert cells["PRISM (paper gate)"]["predictive LL"].mark == ""
    assert cells["Recurrent switching"]["paper score"].mark == ""
    assert cells["Recurrent switching"]["predictive LL"][:2] == ("−1.101", "± 0.004")
    assert cells["Recurrent switching"]["label accuracy"][:2] == ("97.5%", "± 0.3")
    assert cells["Truth"]["paper score"].text == "–"
    best = [name for name, row in cells.items() if row["predictive LL"].best]
    assert best == ["Recurrent switching"]  # the truth does not compete


def test_the_chart_has_leaking_scores_apart():
    rows = sorted(method_bar_rows(COMPARISON), key=lambda row: (not row["is_likelihood"], -row["mean"]))
    assert [(row["mean"], row["is_likelihood"]) for row in rows] == [(-1.101, True), (-1.19, True), (-0.72, False)]
    assert rows[-1]["reference"] == -0.81


def test_the_recommended_number_of_intentions_is_marked_and_said_first(folder):
    entry = {"predictive_ll": {"mean": -1.0, "std": 0.1}, "agreement": 0.9}
    methods = {"k1": {"name": "K=1", **entry}, "k2": {"name": "K=2", **entry}}
    chosen = {"recommended": 2, "by_likelihood": 2, "recommendation": "Two intentions are there."}
    notes = ["Two intentions are there.", "Five folds."]
    metrics = {"methods": methods, "notes": notes, **chosen}
    table = method_table(metrics)
    assert [kind for _, kind, _ in table.rows] == ["", "recommended"]
    assert [column.key for column in table.columns][:2] == ["predictive_ll", "agreement"]
    page = Page(report(folder, metrics))
    assert page.text.count("Two intentions are there.") == 1  # in the verdict, not again among the notes
    assert "Five folds." in page.text
    assert page.text.index("Take 2 intentions.") < page.text.index("Two intentions are there.")


# -- the page ----------------------------------------------------------------------------------------------------------


def test_the_budget_stands_beside_a_comparison_with_its_intervals(folder):
    row = {"id": "state", "name": "+ state", "predictive_ll": -1.4, "low": -1.45, "high": -1.35}
    rows = [row, row | {"id": "memory", "name": "+ memory", "gain": 0.02, "gain_low": -0.01, "gain_high": 0.05}]
    (folder / "figures" / "budget.svg").write_text(SVG.format(300, "budget"))
    page = report(folder, COMPARISON | {"budget": rows})
    text = Page(page).text
    assert "+ memory −1.4000 −1.4500 to −1.3500 0.0200 −0.0100 to 0.0500" in text
    assert "Intervals (95%) are over folds" in text
    assert page.count('alt="budget"') == 1  # in its own section, and not among the figures again
    tested = report(folder, COMPARISON | {"budget": rows, "experiment": "evidence", "evidence": {"found": True}})
    assert 'id="budget"' in tested
    assert 'id="methods"' not in tested  # the budget is its table, told once
    assert "a bootstrap over animals" in Page(tested).text


def test_fit_report_shows_numbers_intentions_and_verdict(folder):
    config = {"command": "prism fit mouse.csv --intentions 2", "versions": {"prism-irl": "9.8.7", "torch": "2.13.0"}}
    html = report(folder, fit(label_accuracy=0.9754), config)
    page = Page(html)
    for words in ("−1.100", "−0.720", "not a likelihood", "1,024 trajectories", "51,200 steps", "97.5%", "60.0%"):
        assert words in page.text, words
    for finding in verdict(FIT):
        assert finding.text in page.text
    assert page.text.index("Verdict") < page.text.index("Numbers") < page.text.index("Run it again")
    for k in range(2):
        assert f"background:{intention_color(k)}" in html
    for words in ("prism fit mouse.csv --intentions 2", "torch 2.13.0", "version = {9.8.7}", "sheng2026prism"):
        assert words in page.text.replace("\xa0", " "), words
    assert "Probabilistic Recurrent Intention Switching Model" in page.text


def test_a_gate_that_does_not_leak_is_not_marked(folder):
    assert "not a likelihood" not in Page(report(folder, fit(leaks=False))).text


def test_comparison_report_shows_the_table(folder):
    config = {"command": ["prism", "compare", "my data.csv"]}
    page = Page(report(folder, {**COMPARISON, "quick": True, "notes": ["Read off a figure."]}, config))
    for words in ("Gridworld", "quick run", "5 folds", "3 seeds", "Read off a figure.", "−1.190 ± 0.010"):
        assert words in page.text, words
    assert "prism compare 'my data.csv'" in page.text
    assert page.text.count("not a likelihood") >= 3
    assert len(page.all("tr")) == 1 + len(METHODS)


def test_figures_come_in_the_order_of_their_captions(folder):
    for stem in ("a", "b_map", "c"):
        (folder / "figures" / f"{stem}.svg").write_text(SVG.format(500 if stem == "c" else 200, f"figure {stem}"))
    page = Page(report(folder, FIT, captions={"c": "Third <first>", "a": "A map", "gone": "x", "../config": "y"}))
    assert [image["alt"] for image in page.all("img")] == ["Third <first>", "A map", "b map"]
    assert [figure["class"] for figure in page.all("figure")] == ["wide", "narrow", "narrow"]
    drawn = [base64.b64decode(image["src"].partition("base64,")[2]).decode() for image in page.all("img")]
    assert drawn[0] == SVG.format(500, "figure c")


def test_figures_come_with_their_data(folder):
    (folder / "figures" / "a.svg").write_text(SVG.format(200, "a"))
    (folder / "figures" / "a.csv").write_text("x,y\n1,2\n")
    (folder / "figures" / "b.svg").write_text(SVG.format(200, "b"))
    (folder / "figures" / "b.csv").write_text("x" * (render.MAX_DATA + 1))
    page = Page(report(folder, FIT))
    links = [link for link in page.all("a") if "download" in link]
    assert "Its data is in figures/b.csv." in page.text
    assert [link["download"] for link in links] == ["a.csv"]
    assert base64.b64decode(links[0]["href"].partition("base64,")[2]) == b"x,y\n1,2\n"


def test_nothing_outside_the_folder_is_read(folder, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside") / "secret.svg"
    outside.write_text(SVG.format(10, "secret"))
    (folder / "figures" / "link.svg").symlink_to(outside)
    assert Page(report(folder, FIT, captions={"link": "x", str(outside.with_suffix("")): "y"})).all("img") == []
    (folder / "config.json").symlink_to(outside)
    with pytest.raises(InputError, match="points out of"):
        write_report(folder)


def test_large_figures_fall_back_to_png_or_are_named(folder, monkeypatch):
    monkeypatch.setattr(render, "MAX_FIGURE", 300)
    monkeypatch.setattr(render, "MAX_FIGURES", 700)
    (folder / "figures" / "a.svg").write_text(SVG.format(200, "x" * 500))
    (folder / "figures" / "a.png").write_bytes(b"\x89PNG small")
    (folder / "figures" / "b.svg").write_text(SVG.format(200, "x" * 2000))
    page = Page(report(folder, FIT))
    (image,) = page.all("img")
    assert image["src"] == "data:image/png;base64," + base64.b64encode(b"\x89PNG small").decode()
    assert "figures/b.svg" in page.text


def test_no_figure_is_left_out_for_the_sake_of_a_table(folder, monkeypatch):
    monkeypatch.setattr(render, "MAX_FIGURES", 400)
    for stem in "ab":
        (folder / "figures" / f"{stem}.svg").write_text(SVG.format(200, stem))
        (folder / "figures" / f"{stem}.csv").write_text("x" * 150)
    page = Page(report(folder, FIT))
    assert len(page.all("img")) == 2
    assert [link["download"] for link in page.all("a")] == ["a.csv"]


def test_eight_megabytes_are_never_passed(folder):
    for i in range(12):
        (folder / "figures" / f"{i:02d}.svg").write_text(SVG.format(200, "x" * 900_000))
    assert len(report(folder, FIT)) < 8_000_000


def test_text_from_data_is_escaped(folder):
    evil = '<script>alert("x")</script>'
    (folder / "figures" / "a.svg").write_text(SVG.format(200, "a"))
    config = {"command": evil, "versions": {evil: evil}, "note": evil}
    metrics = {**COMPARISON, "title": evil, "notes": [evil], "methods": {**METHODS, "x": {"name": evil, evil: 1.0}}}
    for html in (
        report(folder, {**metrics}, config, {"a": f'">{evil}'}),
        report(folder, fit(method=evil), config, {"a": evil}),
    ):
        assert evil not in html
        page = Page(html)
        assert len(page.all("script")) == 1  # ours
        assert evil in page.text


def test_nothing_is_loaded_from_anywhere(folder):
    (folder / "figures" / "a.svg").write_text(SVG.format(200, "a"))
    html = report(folder, COMPARISON)
    page = Page(html)
    assert re.findall(r"https?:|//cdn|@import|url\(", html) == []
    assert page.all("link") == []
    assert all("src" not in script for script in page.all("script"))
    assert all(image["src"].startswith("data:image/") and image["alt"] for image in page.all("img"))
    policy = next(meta["content"] for meta in page.all("meta") if meta.get("http-equiv"))
    assert policy.startswith("default-src 'none'")


def test_the_page_fits_phones_paper_and_screen_readers(folder):
    html = report(folder, COMPARISON)
    page = Page(html)
    assert page.all("html") == [{"lang": "en"}]
    assert any("width=device-width" in meta.get("content", "") for meta in page.all("meta"))
    assert "@media print" in html
    assert "overflow-x: auto" in html
    assert len(page.all("main")) == len(page.all("h1")) == 1
    ids = {attributes["id"] for _, attributes in page.tags if "id" in attributes}
    assert all(attributes["aria-labelledby"] in ids for _, attributes in page.tags if "aria-labelledby" in attributes)
    assert all("scope" in head for head in page.all("th"))


@pytest.mark.parametrize("metrics", [FIT, COMPARISON], ids=["fit", "comparison"])
def test_the_same_folder_gives_the_same_bytes(folder, metrics):
    first = report(folder, metrics)
    assert report(folder, metrics) == first


def test_metrics_alone_are_enough(tmp_path):
    minimal = {"predictive_ll": {"train": -1.0, "validation": None}}
    assert "Model fit" in Page(report(tmp_path, minimal)).text
    assert "did not record its command" in Page(report(tmp_path, {"methods": {}})).text


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "no metrics.json"), ("{", "JSON"), ("[1]", "JSON object"), ("{}", "neither a fit nor a table")],
)
def test_missing_or_broken_metrics_are_an_input_error(tmp_path, content, message):
    if content is not None:
        (tmp_path / "metrics.json").write_text(content)
    with pytest.raises(InputError, match=message):
        write_report(tmp_path)
    assert not (tmp_path / "report.html").exists()


def test_a_missing_folder_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="no folder"):
        write_report(tmp_path / "gone")


@pytest.mark.parametrize(
    ("text", "page"),
    [
        ("run more starts (--n-starts).", "run more starts (<code>--n-starts</code>)."),
        ("leave --surrogates at 19", "leave <code>--surrogates</code> at 19"),
        ("a -- b, a--b, ---, x --", "a -- b, a--b, ---, x --"),
        ("<b>--out</b> & <i>", "&lt;b&gt;<code>--out</code>&lt;/b&gt; &amp; &lt;i&gt;"),
    ],
)
def test_only_options_are_code(text, page):
    assert str(marked_options(text)) == page
