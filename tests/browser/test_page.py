"""The report in a real browser: it loads quietly, and pointing, clicking, scrubbing, renaming and saving work."""

import csv
import json
import shutil
from io import StringIO
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from playwright.sync_api import expect

from prism_irl.data.labels import with_labels
from prism_irl.report.names import read_names
from prism_irl.report.render import write_report
from prism_irl.worlds.frustration import FrustrationWorld

ROWS = 40


def raster_point(page, row, step, longest=50):
    box = page.locator("#raster").bounding_box()
    return {"x": (step + 0.5) / longest * box["width"], "y": (row + 0.5) / ROWS * box["height"]}


def truth(run):
    return json.loads((run / "explorer.json").read_text())


def test_the_page_opens_without_complaint_and_answers_the_five_questions(watched, run, screenshots):
    page = watched(run / "report.html").page
    questions = page.locator("#verdict .question h3").all_inner_texts()
    assert [question.split()[0] for question in questions] == ["Did", "How", "What", "When", "Can"]
    assert page.locator("#verdict .wants li").count() == 2
    assert (run / "report.html").stat().st_size < 8_000_000
    page.screenshot(path=screenshots / "report-1280.png", full_page=True)


@pytest.mark.parametrize("width", [1280, 400])
def test_the_first_screen_is_the_answer_the_map_and_the_raster(watched, run, screenshots, width):
    page = watched(run / "report.html", width=width, folded=True).page
    sentence = page.locator("#answer .sentence")
    assert sentence.inner_text().startswith("Two intentions")
    assert {0, 1} == {int(one.get_attribute("data-name")) for one in sentence.locator("[data-name]").all()}
    lines = sentence.evaluate("e => e.getBoundingClientRect().height / parseFloat(getComputedStyle(e).lineHeight)")
    assert width < 1000 or lines < 2.5  # no more than two lines above the picture
    assert page.locator("#places g").count() == 25
    for part in ("#places", "#raster"):
        box = page.locator(part).bounding_box()
        assert box["width"] > 0.4 * min(width, 800)
        assert box["y"] + (60 if width < 1000 else box["height"]) < 900 or part == "#raster"
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert page.locator("details[open]").count() == 0  # all the rest is folded
    assert page.locator("#answer .phases tbody tr").count() > 40
    page.screenshot(path=screenshots / f"first-screen-{width}.png")
    page.locator("#raster").click(position={"x": 60, "y": 60})
    expect(page.locator("#readout")).to_be_visible()  # a click on a row unfolds its trajectory
    assert page.locator("#timeline").evaluate("e => e.clientWidth") > 200


def test_on_paper_everything_is_unfolded(watched, run):
    page = watched(run / "report.html", folded=True).page
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == page.locator("#rerun details:not([open])").count()
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.locator("#answer ~ section details[open]").count() == 0


def test_pointing_at_a_step_shows_what_was_done_there(watched, run):
    page = watched(run / "report.html").page
    assert page.locator("#tooltip").is_hidden()
    page.locator("#raster").hover(position=raster_point(page, 7, 20))
    one = truth(run)["trajectories"][7]
    words = page.locator("#tooltip").inner_text()
    assert "Trajectory 7, step 20" in words
    action = truth(run)["actions"][one["actions"][20]]
    assert f"state {one['states'][20]}, {action}" in words
    assert "intention 0" in words
    assert "%" in words


def test_a_click_opens_the_trajectory_with_its_timeline_and_path(watched, run):
    page = watched(run / "report.html").page
    first = page.locator("#timeline polygon").first.get_attribute("points")
    page.locator("#raster").click(position=raster_point(page, 12, 31))
    assert page.locator("#trajectory").input_value() == "12"
    assert page.locator("#scrub").input_value() == "31"
    assert "Trajectory 12, step 31" in page.locator("#readout").inner_text()
    assert page.locator("#timeline polygon").first.get_attribute("points") != first
    one = truth(run)["trajectories"][12]["states"][:32]
    moves = sum(a != b for a, b in pairwise(one))
    assert page.locator("#map g line").count() == moves


def test_scrubbing_moves_the_agent_along_its_path(watched, run):
    page = watched(run / "report.html").page
    found = truth(run)
    states, ring = found["trajectories"][0]["states"], page.locator("#map g circle").last
    places, seen = set(), set()
    for step in (0, 10, 20, 49):
        page.locator("#scrub").fill(str(step))
        assert f"step {step}" in page.locator("#readout").inner_text()
        moves = sum(a != b for a, b in pairwise(states[: step + 1]))
        assert page.locator("#map g line").count() == moves
        places.add((tuple(found["layout"]["xy"][states[step]]), ring.get_attribute("cx"), ring.get_attribute("cy")))
        seen.add(states[step])
    assert len(places) == len(seen) > 1  # one place on the screen for each state, and no two states share one
    page.locator("#scrub").focus()
    page.keyboard.press("ArrowLeft")
    assert "step 48" in page.locator("#readout").inner_text()


def test_the_raster_is_usable_by_keyboard(watched, run):
    page = watched(run / "report.html").page
    page.locator("#raster").focus()
    for key in ("Home", "ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft"):
        page.keyboard.press(key)
    assert "Trajectory 2, step 2" in page.locator("#readout").inner_text()
    page.keyboard.press("End")
    assert "step 49" in page.locator("#readout").inner_text()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "scrub"
    assert page.locator("#scrub").get_attribute("aria-valuetext").startswith("Trajectory 2, step 49")


def test_names_change_everywhere_and_are_exported(watched, run, tmp_path):
    one = watched(run / "report.html")
    page = one.page
    evil = "<img src=x onerror=alert(1)>"
    page.get_by_label("Name of intention 0").fill("reach the goal")
    page.get_by_label("Name of intention 1").fill(evil)
    assert page.locator('#verdict .wants [data-name="0"]').inner_text() == "reach the goal"
    assert page.locator('#intentions [data-name="1"]').inner_text() == evil
    assert page.locator("img[src=x]").count() == 0
    assert "reach the goal" in page.locator("#readout").inner_text()
    assert "time of reach the goal" in page.locator("#shade").inner_text()
    name, text = one.saved(page.locator("#export-names").click)
    assert name == "names.json"
    (tmp_path / name).write_text(text)
    assert read_names(tmp_path / name, 2) == ["reach the goal", evil]


def test_figures_and_their_data_can_be_saved(watched, run):
    one = watched(run / "report.html")
    page = one.page
    page.locator("#shade").select_option(index=2)
    for stem in ("raster", "timeline", "map"):
        name, text = one.saved(page.locator(f"#{stem}-svg").click)
        assert name == f"{stem}.svg"
        assert ElementTree.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"
        name, text = one.saved(page.locator(f"#{stem}-csv").click)
        assert name == f"{stem}.csv"
        rows = list(csv.DictReader(StringIO(text)))
        assert len(rows) == {"raster": ROWS * 50, "timeline": 50, "map": 25}[stem]
    expected = truth(run)["trajectories"][0]
    name, text = one.saved(page.locator("#timeline-csv").click)
    rows = list(csv.DictReader(StringIO(text)))
    assert [int(row["state"]) for row in rows] == expected["states"]
    assert [round(1000 * float(row["p_0"])) for row in rows] == expected["p"][::2]
    figure = page.locator("#verdict .question > figure").first
    assert one.saved(figure.get_by_role("button", name="SVG").click)[1].lstrip().startswith("<?xml")
    assert one.saved(figure.get_by_role("link", name="CSV").click)[1].startswith("axes,series,kind")


def test_playing_walks_through_time(watched, run):
    page = watched(run / "report.html").page
    page.locator("#scrub").fill("47")
    page.locator("#play").click()
    expect(page.locator("#play")).to_have_text("Pause")
    expect(page.locator("#readout")).to_contain_text("step 49")
    expect(page.locator("#play")).to_have_text("Play")


@pytest.mark.parametrize("width", [390, 768])
def test_a_narrow_page_does_not_overflow(watched, run, screenshots, width):
    page = watched(run / "report.html", width=width, height=844).page
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.locator("#raster").hover(position=raster_point(page, 30, 49))
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.mouse.move(0, 0)
    page.screenshot(path=screenshots / f"report-{width}.png", full_page=True)


@pytest.mark.parametrize("width", [390, 1100])
def test_long_names_do_not_widen_the_page(watched, run, tmp_path, width):
    shutil.copytree(run, tmp_path / "run")
    (tmp_path / "run" / "names.json").write_text(json.dumps({"names": ["reach for it " * 6, "carry" * 16]}))
    page = watched(write_report(tmp_path / "run"), width=width).page
    assert "carrycarry" in page.locator("#shade").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_wider_window_redraws_the_raster(watched, run):
    page = watched(run / "report.html", width=500).page
    raster = page.locator("#raster")
    assert raster.evaluate("canvas => canvas.width") < 500
    page.set_viewport_size({"width": 1100, "height": 900})
    expect(raster).to_have_js_property("width", round(raster.bounding_box()["width"]))


def test_a_page_without_any_width_does_not_complain(watched, run):
    page = watched(run / "report.html").page
    page.evaluate("document.querySelector('main').style.display = 'none'")
    page.evaluate("window.dispatchEvent(new Event('resize'))")
    page.evaluate("document.querySelector('main').style.display = ''")
    page.evaluate("window.dispatchEvent(new Event('resize'))")
    raster = page.locator("#raster")
    expect(raster).to_have_js_property("width", round(raster.bounding_box()["width"]))


def test_paper_shows_the_verdict_and_hides_the_buttons(watched, run):
    page = watched(run / "report.html").page
    page.emulate_media(media="print")
    assert page.locator("#verdict").is_visible()
    assert page.locator("#raster").is_visible()
    assert page.locator("#export-names").is_hidden()


def test_names_in_the_run_folder_name_the_intentions(watched, run, tmp_path):
    for name in ("metrics.json", "explorer.json"):
        (tmp_path / name).write_bytes((run / name).read_bytes())
    (tmp_path / "names.json").write_text(json.dumps({"names": ["home </script><b>", "away"]}))
    page = watched(write_report(tmp_path)).page
    assert page.get_by_label("Name of intention 0").input_value() == "home </script><b>"
    assert page.locator('#verdict .wants [data-name="1"]').inner_text() == "away"


def test_data_without_a_map_is_explored_all_the_same(watched, run, tmp_path):
    explored = truth(run) | {"layout": None, "flow": None, "rewards": None, "occupancy": None}
    (tmp_path / "explorer.json").write_text(json.dumps(explored))
    (tmp_path / "metrics.json").write_bytes((run / "metrics.json").read_bytes())
    page = watched(write_report(tmp_path)).page
    page.locator("#raster").click(position=raster_point(page, 3, 5))
    assert "Trajectory 3, step 5" in page.locator("#readout").inner_text()
    page.get_by_label("Name of intention 0").fill("first")
    assert "first" in page.locator("#readout").inner_text()
    assert page.locator("#map").count() == 0


def test_a_table_of_methods_can_be_sorted_and_saved(watched, tmp_path, screenshots):
    methods = {
        "oracle": {"name": "Truth", "predictive_ll": {"mean": -1.0, "std": 0.1}},
        "b": {"name": "B, worse", "predictive_ll": {"mean": -1.3, "std": 0.1}},
        "a": {"name": "A, better", "predictive_ll": {"mean": -1.1, "std": 0.1}},
    }
    (tmp_path / "metrics.json").write_text(json.dumps({"title": "Table", "methods": methods}))
    one = watched(write_report(tmp_path))
    head = one.page.locator("table.sortable thead th").nth(1)
    head.focus()
    one.page.keyboard.press("Enter")
    assert one.page.locator("table.sortable tbody th").all_inner_texts()[1:] == ["A, better", "B, worse"]
    name, text = one.saved(one.page.get_by_role("button", name="Download the table as CSV").click)
    assert name == "methods.csv"
    rows = list(csv.DictReader(StringIO(text)))
    assert [row["predictive LL"] for row in rows] == ["-1.0", "-1.1", "-1.3"]
    assert rows[1]["method"] == "A, better"
    one.page.screenshot(path=screenshots / "comparison-1280.png", full_page=True)


def test_typed_names_are_there_after_a_reload_until_the_run_has_others(watched, run, tmp_path):
    copy = tmp_path / "report.html"
    copy.write_bytes((run / "report.html").read_bytes())
    page = watched(copy).page
    page.locator(".names input").first.fill("seek water")
    page.reload()
    assert page.locator(".names input").first.input_value() == "seek water"
    assert page.locator("#verdict .wants b").first.text_content() == "seek water"
    assert "reward of a visit, seek water" in page.locator("#shade option").all_text_contents()
    text = (
        copy.read_text()
        .replace('value="intention 0"', 'value="go home"')
        .replace('"names":["intention 0"', '"names":["go home"')
    )
    copy.write_text(text)
    page.reload()
    assert page.locator(".names input").first.input_value() == "go home"


def labels_of(one):
    """Trajectory, step and label of every row of the label file."""
    name, text = one.saved(one.page.locator("#save-labels").click)
    assert name == "labels.csv"
    return [(row["trajectory"], int(row["step"]), row["label"]) for row in csv.DictReader(StringIO(text))], text


def test_labels_are_corrected_on_the_page_and_read_by_a_fit(watched, run, tmp_path):
    path = tmp_path / "report.html"
    path.write_bytes((run / "report.html").read_bytes())
    one = watched(path)
    page, save = one.page, one.page.locator("#save-labels")
    page.locator("#trajectory").select_option(index=3)
    assert save.is_disabled()
    border = page.locator("#timeline [data-boundary]").first
    page.locator("#timeline").scroll_into_view_if_needed()
    at, box = int(border.get_attribute("data-boundary")), border.bounding_box()
    each = page.locator("#timeline polygon").first.bounding_box()["width"] / 50
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 2.2 * each, y, steps=4)
    page.mouse.up()
    assert int(page.locator("#timeline [data-boundary]").first.get_attribute("data-boundary")) == at + 2
    p = truth(run)["trajectories"][3]["p"]
    before = f"intention {int(p[2 * at - 1] > p[2 * at - 2])}"
    assert labels_of(one)[0] == [("3", at, before), ("3", at + 1, before)]  # what was changed, and nothing else
    page.locator("#undo-label").click()
    assert save.is_disabled()
    page.locator("#trajectory").select_option(index=5)
    page.locator("#scrub").fill("20")
    page.locator("#label-as").select_option(index=1)
    page.locator("#label-rest").click()
    rows, _ = labels_of(one)
    assert {(name, label) for name, _, label in rows} == {("5", "intention 1")}
    assert min(step for _, step, _ in rows) == 20
    page.locator(".names input").nth(1).fill("go home")
    page.locator("#confirm-labels").click()
    page.reload()  # nothing of the work is lost
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    rows, text = labels_of(one)
    assert len(rows) == 50
    assert {label for _, _, label in rows} <= {"intention 0", "go home"}
    told = tmp_path / "labels.csv"
    told.write_text(text)
    demos = with_labels(FrustrationWorld().simulate(40, seed=2).demonstrations, told)
    assert (demos.partial_labels >= 0).sum() == 50
    assert set(demos.partial_label_names) == {label for _, _, label in rows}


def test_one_stretch_begins_and_ends_where_one_says(watched, run, tmp_path):
    path = tmp_path / "report.html"
    path.write_bytes((run / "report.html").read_bytes())
    one = watched(path)
    page = one.page
    borders = [int(b.get_attribute("data-boundary")) for b in page.locator("#timeline [data-boundary]").all()]
    begin, end = borders[:2]
    assert end - begin >= 3
    page.locator("#scrub").fill(str(begin + 1))
    page.locator("#begin-here").click()
    page.locator("#end-here").click()
    after = [int(b.get_attribute("data-boundary")) for b in page.locator("#timeline [data-boundary]").all()]
    assert after[:2] == [begin + 1, begin + 2]
    assert f"steps {begin + 1} to {begin + 1}." in page.locator("#label-state").inner_text()


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_on_the_page_is_out_of_reach(watched, run, width):
    """Contrast, names of controls, keyboard and structure, as axe-core checks them."""
    checker = pytest.importorskip("axe_playwright_python")
    page = watched(run / "report.html", width=width).page
    page.evaluate((Path(checker.__file__).parent / "axe.min.js").read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document)")
    assert len(found["passes"]) > 20
    assert [(one["id"], one["nodes"][0]["html"]) for one in found["violations"]] == []


def test_what_is_wider_than_the_screen_says_that_it_scrolls(watched, run):
    for width, expected in ((1280, False), (390, True)):
        page = watched(run / "report.html", width=width).page
        boxes = page.locator(".scroll").all()
        hints = page.locator(".scrolls").all()
        wide = [box.evaluate("e => e.scrollWidth > e.clientWidth + 2") for box in boxes]
        assert [hint.is_visible() for hint in hints] == wide
        assert any(wide) == expected


def test_a_printed_page_cuts_no_figure(watched, run, tmp_path):
    page = watched(run / "report.html").page
    page.emulate_media(media="print")
    for figure in page.locator("figure:visible").all():
        assert figure.evaluate("e => getComputedStyle(e).breakInside") == "avoid"
    page.set_viewport_size({"width": 690, "height": 980})  # A4 without its margins
    for image in page.locator("figure img:visible").all():
        box = image.bounding_box()
        assert box["width"] <= 690
        assert box["height"] <= 930
    assert len(page.pdf(path=tmp_path / "page.pdf")) > 10_000


def test_no_script_but_the_pages_own_runs(watched, run):
    opened = watched(run / "report.html")
    page = opened.page
    policy = page.locator("meta[http-equiv=Content-Security-Policy]").get_attribute("content")
    assert "script-src 'sha256-" in policy
    assert "script-src 'unsafe-inline'" not in policy
    refused = page.evaluate(
        """() => new Promise((done) => {
            document.addEventListener("securitypolicyviolation", (event) => done(event.effectiveDirective));
            const script = document.createElement("script");
            script.textContent = "window.broken_in = true";
            document.body.append(script);
            setTimeout(() => done("nothing was refused"), 2000);
        })"""
    )
    assert refused.startswith("script-src")
    assert page.evaluate("window.broken_in") is None
    asked = page.evaluate("fetch('https://example.org').then(() => 'answered', () => 'refused')")
    assert asked == "refused"
    assert len(opened.complaints) >= 2
    opened.complaints.clear()  # which were asked for here


def test_cells_that_look_like_formulas_are_inert(watched, run):
    page = watched(run / "report.html").page
    cells = ["=1+1", "+a", "-b", "@c", "-1.5", "+2e-3", "plain", '=a,"b"']
    assert page.evaluate("(cells) => table2csv([cells])", cells) == (
        '\'=1+1,\'+a,\'-b,\'@c,-1.5,+2e-3,plain,"\'=a,""b"""\n'
    )
