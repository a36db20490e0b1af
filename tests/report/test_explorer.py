"""The interactive part: what it tells is in the data, and what it embeds is small and safe."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_irl import maze
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.report import answers, explorer, story
from prism_irl.report.answers import questions
from prism_irl.report.explorer import PLACES, STEPS, exemplars, read_explorer, script_json, write_explorer
from prism_irl.report.names import read_names
from prism_irl.report.places import find_layout, grid
from prism_irl.report.render import write_report
from prism_irl.worlds.frustration import FrustrationWorld

NAMES = ["goal", "abandon"]


@pytest.fixture(scope="module")
def world():
    return FrustrationWorld()


@pytest.fixture(scope="module")
def simulated(world):
    simulation = world.simulate(60, seed=5)
    return simulation.demonstrations, np.eye(2)[simulation.demonstrations.labels]


def there_and_back(n=30):
    """Intention 0 walks 0 → 3 and waits there, intention 1 walks back."""
    states = [0, 1, 2, 3, 3, 3, 3, 2, 1, 0, 0, 0] * n
    labels = ([0] * 6 + [1] * 6) * n
    return Demonstrations.from_arrays([np.array(states)], [np.zeros(len(states), int)], n_states=4, n_actions=1), labels


# -- the story ---------------------------------------------------------------------------------------------------------


def test_the_story_of_the_true_segmentation_names_the_true_goals(world, simulated):
    found = story.describe(*simulated)
    places = [want["leads_to"][0][0] for want in found["wants"]]
    assert places == [world.state(world.goal), world.state(world.abandon)]
    assert sum(want["share"] for want in found["wants"]) == pytest.approx(1)
    # Frustration grows where moves are blocked, so that switches follow steps that lead nowhere.
    assert found["switches"]["stuck"]["rate"] > 2 * found["switches"]["moved"]["rate"]


def test_switches_are_counted_within_trajectories():
    demos, labels = there_and_back(3)
    found = story.describe(demos, np.eye(2)[labels])["switches"]
    assert found["n"] == 5
    assert found["pairs"] == [[0, 1, 3], [1, 0, 2]]
    assert found["rate"] == pytest.approx(5 / 35)
    two = Demonstrations.from_arrays([[0, 1], [1, 0]], [[0, 0], [0, 0]], n_states=2, n_actions=1)
    assert story.describe(two, np.eye(2)[[0, 0, 1, 1]])["switches"]["n"] == 0


def test_places_of_switches_stand_out_from_the_rest():
    demos, labels = there_and_back()
    found = story.describe(demos, np.eye(2)[labels])["switches"]["places"]
    assert [place["state"] for place in found] == [3]
    # A quarter of the visits to 3, 30 of 120, end in a switch; overall it is 59 of 359 steps.
    assert found[0]["n"] == 30
    assert found[0]["lift"] == pytest.approx(0.25 / (59 / 359))


@given(st.integers(0, 10_000), st.integers(1, 6))
def test_the_long_run_is_a_distribution(seed, n):
    from scipy.sparse import csr_array

    rng = np.random.default_rng(seed)
    counts = csr_array(rng.random((n, n)) * (rng.random((n, n)) < 0.4))
    begin = rng.dirichlet(np.ones(n))
    time = story.long_run(counts, begin)
    assert time.sum() == pytest.approx(1)
    assert (time >= 0).all()


def test_an_intention_that_is_next_to_never_somewhere_still_has_a_long_run():
    from scipy.sparse import csr_array

    counts = csr_array(np.array([[0.0, 5e-324], [1.0, 2.0]]))  # one over the first row is no number
    time = story.long_run(counts, np.array([0.0, 1.0]))
    assert time.sum() == pytest.approx(1)
    assert (time > 0).all()


def test_an_intention_that_is_never_used_is_told_of():
    demos, labels = there_and_back(2)
    found = story.describe(demos, np.eye(3)[labels])
    assert found["wants"][2] == {"share": 0.0, "dwell": None, "leads_to": [], "spread": None, "acts": [], "more": []}


# -- maps --------------------------------------------------------------------------------------------------------------


def test_a_grid_is_recognised_by_its_moves(simulated):
    found = find_layout(simulated[0])
    assert found["kind"] == "grid"
    assert found["xy"][7] == [2.0, 1.0]
    around = Demonstrations.from_arrays([[0, 1, 2, 3, 6, 7, 8, 5, 6]], [[0] * 9], n_states=9, n_actions=1)
    assert find_layout(around)["kind"] == "graph"  # 5 → 6 would lead around the edge


def test_the_labyrinth_is_recognised_by_its_moves():
    rng, states, actions = np.random.default_rng(0), [0], []
    for _ in range(300):
        actions.append(rng.choice(np.flatnonzero(maze.valid_actions()[states[-1]])))
        states.append(int(maze.successors()[states[-1], actions[-1]]))
    demos = Demonstrations.from_arrays([states[:-1]], [actions], n_states=127, n_actions=4)
    found = find_layout(demos)
    assert found["kind"] == "maze"
    assert len(found["edges"]) == 126
    scrambled = Demonstrations.from_arrays([rng.permutation(states[:-1])], [actions], n_states=127, n_actions=4)
    assert find_layout(scrambled) is None or find_layout(scrambled)["kind"] != "maze"


def test_coordinates_in_names_are_taken():
    demos = Demonstrations.from_arrays([[0, 1, 2]], [[0, 0, 0]], n_states=3, n_actions=1)
    demos = replace(demos, state_names=("(0, 0)", "(1, 0)", "1;2.5"))
    assert find_layout(demos)["xy"] == [[0.0, 0.0], [1.0, 0.0], [1.0, 2.5]]


def test_a_path_is_laid_out_straight_and_a_mess_not_at_all():
    walk = np.r_[0:8, 6:-1:-1]
    path = Demonstrations.from_arrays([walk], [np.zeros(len(walk), int)], n_states=9, n_actions=1)
    found = find_layout(replace(path, state_names=tuple("abcdefghi")))
    assert found["kind"] == "graph"
    assert found["xy"][8] is None  # never visited
    xy = np.array(found["xy"][:8])
    np.testing.assert_allclose(np.linalg.norm(np.diff(xy, axis=0), axis=1), 1, atol=0.02)
    assert np.linalg.norm(xy[7] - xy[0]) == pytest.approx(7, abs=0.1)
    states = np.random.default_rng(0).integers(40, size=3000)
    mess = Demonstrations.from_arrays([states], [states % 2], n_states=40, n_actions=2)
    assert find_layout(mess) is None


# -- the file ----------------------------------------------------------------------------------------------------------


def test_the_file_holds_a_sample_within_its_limits(simulated, tmp_path, monkeypatch):
    monkeypatch.setattr(explorer, "MAX_TRAJECTORIES", 7)
    demos, p = simulated
    written = write_explorer(tmp_path, demos, p, layout=grid(5, 5, [(1, 3)]), names=NAMES, rewards=np.ones((2, 25)))
    assert read_explorer(tmp_path) == written
    assert len(written["trajectories"]) == 7
    assert written["trajectories"][0]["name"] == "0"
    assert written["trajectories"][-1]["name"] == "59"  # evenly over the data
    assert written["layout"]["barriers"] == [16]
    first = written["trajectories"][0]
    assert first["states"] == demos.states[:50].tolist()
    np.testing.assert_array_equal(np.reshape(first["p"], (50, 2)), 1000 * p[:50])
    assert first["truth"] == demos.labels[:50].tolist()


def test_true_labels_take_the_numbers_of_the_intentions_that_found_them(simulated, tmp_path):
    demos, p = simulated
    written = write_explorer(tmp_path, demos, p[:, ::-1])
    assert written["trajectories"][0]["truth"] == (1 - demos.labels[:50]).tolist()


def test_long_trajectories_are_cut(tmp_path, monkeypatch):
    monkeypatch.setattr(explorer, "MAX_NUMBERS", 4 * 60)
    demos, labels = there_and_back()
    (one,) = write_explorer(tmp_path, demos, np.eye(2)[labels])["trajectories"]
    assert len(one["states"]) == 60
    assert one["length"] == 360


def test_many_long_names_do_not_fill_the_page(tmp_path, monkeypatch):
    demos, labels = there_and_back(2)
    named = replace(demos, state_names=tuple(f"{letter}" * 50 for letter in "abcd"))
    monkeypatch.setattr(explorer, "MAX_NAMES", 40)
    assert write_explorer(tmp_path, named, np.eye(2)[labels])["states"][0] == "a" * 9 + "…"
    monkeypatch.setattr(explorer, "MAX_NAMES", 20)
    assert write_explorer(tmp_path, named, np.eye(2)[labels])["states"] is None


def test_without_a_map_nothing_is_kept_for_it(tmp_path):
    states = np.random.default_rng(0).integers(500, size=3000)
    demos = Demonstrations.from_arrays([states], [states % 2], n_states=500, n_actions=2)
    written = write_explorer(tmp_path, demos, np.full((3000, 2), 0.5), rewards=np.ones((2, 500)))
    assert [written[key] for key in ("layout", "flow", "rewards", "occupancy")] == [None] * 4


def test_wrong_probabilities_and_damaged_files_are_refused(simulated, tmp_path):
    demos, p = simulated
    with pytest.raises(InputError, match="one row for each"):
        write_explorer(tmp_path, demos, p[:-1])
    with pytest.raises(InputError, match="not finite"):
        write_explorer(tmp_path, demos, np.full_like(p, np.nan))
    assert read_explorer(tmp_path) is None
    write_explorer(tmp_path, demos, p)
    value = json.loads((tmp_path / "explorer.json").read_text())
    value["trajectories"][0]["p"].pop()
    for broken in (value, {}, [], {"version": 1}):
        (tmp_path / "explorer.json").write_text(json.dumps(broken))
        with pytest.raises(InputError, match="damaged"):
            read_explorer(tmp_path)


@given(st.text())
def test_nothing_in_the_data_can_leave_the_script_element(text):
    safe = script_json({"text": text})
    assert not set(safe) & set("<>&\u2028\u2029")
    assert json.loads(safe) == {"text": text}


# -- questions ---------------------------------------------------------------------------------------------------------


def test_the_five_questions_are_answered_in_order(simulated, tmp_path):
    demos, p = simulated
    written = write_explorer(tmp_path, demos, p, actions=("up", "down", "left", "right", "stay"))
    metrics = {
        "n_intentions": 2,
        "predictive_ll": {"train": -1.0, "validation": -1.0},
        "em": {"converged": True, "iterations": 9, "starts": 4},
        "agreement": 0.95,
        "usage": [0.5, 0.5],
        "mean_dwell": 6.0,
        "label_accuracy": 0.97,
    }
    asked = questions(metrics, written, NAMES)
    words = ["converge", "How many", "want", "switch", "trust"]
    assert all(word in question.title for word, question in zip(words, asked, strict=True))
    assert all(question.findings or question.wants for question in asked)
    assert asked[0].findings[0].text == "EM converged after 9 iterations."
    assert [want.name for want in asked[2].wants] == NAMES
    assert asked[2].wants[0].text.startswith("heads for state 24")
    written["story"]["wants"][0]["goal"] = 3  # where it ends, which need not be where it would be most
    text = questions(metrics, written, NAMES)[2].wants[0].text
    assert text.startswith("heads for state 3. It would spend ")
    assert " of its time in state 24 if it never switched" in text
    assert "heads for state 24" not in text
    assert " ;" not in text
    assert "times as often after a step that left the state as it was" in asked[3].findings[-1].text
    assert any("97.0% of the steps" in finding.text for finding in asked[4].findings)


def test_a_table_of_methods_is_answered_by_the_fit_that_was_segmented(simulated, tmp_path):
    demos, p = simulated
    fit = {"em": {"converged": False, "iterations": 60, "starts": 2}, "agreement": 0.2, "mean_dwell": 6.0}
    written = write_explorer(tmp_path, demos, p, fit=fit)
    methods = {"methods": {"a": {"name": "A", "predictive_ll": -1.0}}}
    asked = questions(methods, written, NAMES)
    assert "before it had converged" in asked[0].findings[0].text
    trust = " ".join(finding.text for finding in asked[4].findings)
    assert "A predicts best" in trust
    assert "do not interpret them" in trust


def test_roaming_is_told_from_heading_somewhere(tmp_path):
    states = np.random.default_rng(0).integers(30, size=4000)
    demos = Demonstrations.from_arrays([states], [states % 2], n_states=30, n_actions=2)
    written = write_explorer(tmp_path, demos, np.ones((4000, 1)))
    asked = questions({"n_intentions": 1, "predictive_ll": {}}, written, ["all"])
    assert asked[2].wants[0].text.startswith("roams over about 30 states")
    assert asked[3].findings[-1].text == "It never switches within a trajectory."


# -- names -------------------------------------------------------------------------------------------------------------


def test_names_come_back_and_wrong_files_are_named(tmp_path):
    path = tmp_path / "names.json"
    with pytest.raises(InputError, match="no file"):
        read_names(path, 2)
    path.write_text(json.dumps({"names": ["go home ", "<b>"]}))
    assert read_names(path, 2) == ["go home", "<b>"]
    for value, words in [
        ({"names": ["one"]}, "1 names for 2"),
        ({"names": ["one", ""]}, "intention 1"),
        ({"names": ["one", "x" * 81]}, "longer than 80"),
        ({"names": ["same", "same"]}, "tell them apart"),
        (["one", "two"], "does not hold names"),
        ({"names": [1, 2]}, "does not hold names"),
    ]:
        path.write_text(json.dumps(value))
        with pytest.raises(InputError, match=words):
            read_names(path, 2)


# -- events ------------------------------------------------------------------------------------------------------------


def test_events_are_marked_at_their_steps_of_their_trajectories(tmp_path, make_demos):
    demos = make_demos(0, lengths=(7, 1, 4, 12))
    happened = np.random.default_rng(1).random(demos.n_steps) < 0.4
    written = write_explorer(
        tmp_path, demos, np.full((24, 2), 0.5), events={"water": happened, "none": happened & False}
    )
    assert read_explorer(tmp_path) == written
    assert written["events"] == ["water", "none"]
    for i, one in enumerate(written["trajectories"]):
        own = happened[demos.offsets[i] : demos.offsets[i + 1]]
        assert one["events"] == {"water": np.flatnonzero(own).tolist(), "none": []}


def test_events_whose_long_names_begin_alike_stay_apart(tmp_path):
    demos, labels = there_and_back(2)
    first = np.arange(demos.n_steps) == 0
    events = {"x" * 70 + "1": first, "x" * 70 + "2": ~first, "x" * 70 + "3": first}
    written = write_explorer(tmp_path, demos, np.eye(2)[labels], events=events)
    assert len(set(written["events"])) == 3
    assert [len(steps) for steps in written["trajectories"][0]["events"].values()] == [1, demos.n_steps - 1, 1]


def test_events_behind_the_cut_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(explorer, "MAX_NUMBERS", 5 * 60)
    demos, labels = there_and_back()
    happened = np.arange(demos.n_steps) % 50 == 0
    (one,) = write_explorer(tmp_path, demos, np.eye(2)[labels], events={"bell": happened})["trajectories"]
    assert len(one["states"]) == 60  # the events count among the numbers of a step
    assert one["events"] == {"bell": [0, 50]}
    assert read_explorer(tmp_path)["trajectories"] == [one]


def test_wrong_events_are_refused(simulated, tmp_path):
    demos, p = simulated
    for wrong in (np.zeros(3, bool), np.zeros(demos.n_steps)):
        with pytest.raises(InputError, match=r"'water'.*true or false"):
            write_explorer(tmp_path, demos, p, events={"water": wrong})
    write_explorer(tmp_path, demos, p, events={"water": np.ones(demos.n_steps, bool)})
    value = json.loads((tmp_path / "explorer.json").read_text())
    for steps in ([50], [-1], ["0"], 3):
        value["trajectories"][0]["events"] = {"water": steps}
        (tmp_path / "explorer.json").write_text(json.dumps(value))
        with pytest.raises(InputError, match="damaged"):
            read_explorer(tmp_path)


def test_switches_near_events_are_counted_within_trajectories():
    two = Demonstrations.from_arrays([[0] * 8, [0] * 8], [[0] * 8, [0] * 8], n_states=1, n_actions=1)
    labels = np.r_[[0, 0, 1, 1, 1, 1, 0, 0], np.zeros(8, int)]
    happened = np.zeros(16, bool)
    happened[[1, 7]] = True
    (near,) = story.describe(two, np.eye(2)[labels], {"bell": happened})["switches"]["near"].values()
    # Steps 1 to 3 and 5 to 7 of the first trajectory; the switches are at 2 and at 6, out of either intention.
    assert (near["events"], near["near"]["steps"], near["otherwise"]["steps"]) == (2, 6, 8)
    assert near["near"]["rate"] == pytest.approx(1 / 3)
    assert near["otherwise"]["rate"] == 0
    assert [own["near"]["steps"] for own in near["leaving"]] == [3, 3]
    assert near["near"]["low"] <= 1 / 3 <= near["near"]["high"]


def test_switches_near_events_are_told_by_direction_where_they_are_clear(tmp_path):
    demos, labels = there_and_back(60)
    step = np.arange(demos.n_steps)
    # The last step before every switch out of the first intention, before every switch, and at random.
    random = np.random.default_rng(0).random(demos.n_steps) < 0.2
    events = {"bell": step % 12 == 5, "gong": step % 6 == 5, "rain": random}
    written = write_explorer(tmp_path, demos, np.eye(2)[labels], events=events)
    metrics = {"n_intentions": 2, "predictive_ll": {}, "usage": [0.5, 0.5]}
    words = questions(metrics, written, NAMES)[3].findings[-1].text
    assert f"Within 2 steps of “bell” (60 times in the data) it switches at 25% of the steps of {NAMES[0]} (" in words
    assert f"of {NAMES[1]}" in words.partition("“gong”")[2]
    assert "“rain”" not in words
    assert "nothing that was marked" not in words


# -- of several models one is shown ------------------------------------------------------------------------------------


def test_the_answers_say_which_model_they_are_about(simulated, tmp_path):
    demos, p = simulated
    fit = {"name": "HIQL, the best", "how": "It was fitted to all trajectories.", "em": {"converged": True}}
    written = write_explorer(tmp_path, demos, p, fit=fit)
    methods = {"methods": {"a": {"name": "A", "predictive_ll": -1.0}}}
    first = questions(methods, written, NAMES)[0].findings[0]
    assert first.text == "The answers here are about HIQL, the best. It was fitted to all trajectories."
    (tmp_path / "metrics.json").write_text(json.dumps(methods))
    page = write_report(tmp_path).read_text()
    assert "Segmented by HIQL, the best. It was fitted to all trajectories." in page


def test_a_choice_of_the_number_answers_the_question_for_the_number(simulated, tmp_path):
    demos, p = simulated
    written = write_explorer(tmp_path, demos, p, fit={"em": {"converged": True}, "agreement": 0.9})
    chosen = {"recommended": 2, "recommendation": "The data identifies 2.", "by_likelihood": 2}
    chosen["methods"] = {f"k{k}": {"name": f"K={k}", "predictive_ll": -1.0, "agreement": 0.9} for k in (1, 2, 3)}
    asked = questions(chosen, written, NAMES)
    assert asked[1].findings[0].text == "The data identifies 2."
    assert all("asked for" not in finding.text for finding in asked[1].findings)
    assert "The data identifies 2." not in [finding.text for finding in asked[4].findings]


def test_intentions_are_contrasted_with_one_another():
    """Three intentions that all lead to the same place say nothing by the place; what sets each apart is said."""
    shares = np.array([[0.6, 0.3, 0.1], [0.6, 0.1, 0.3], [0.0, 0.0, 0.0]])
    used = np.array([True, True, False])
    assert story.ahead(shares, 0, used) == [[1, 0.3, 0.1]]
    assert story.ahead(shares, 1, used) == [[2, 0.3, 0.1]]
    assert story.ahead(shares, 0, np.array([True, False, False])) == []


def test_text_and_map_come_from_the_same_numbers():
    demos, labels = there_and_back(4)
    p = np.eye(2)[labels]
    leads = story.long_runs(demos, p)
    np.testing.assert_allclose(leads.sum(axis=1), 1)
    for want, row in zip(story.describe(demos, p)["wants"], leads, strict=True):
        assert want["leads_to"][0] == [int(row.argmax()), pytest.approx(float(row.max()))]


def test_a_switch_that_no_event_explains_says_so():
    demos, labels = there_and_back(40)
    rng = np.random.default_rng(0)
    told = {"n_intentions": 2, "states": None, "actions": None}
    rare = np.arange(demos.n_steps) == 7
    for events, words in (
        ({"bell": rng.random(demos.n_steps) < 0.2}, "are not tied to “bell”: nothing that was marked"),
        ({"bell": rare}, "Too rare to tell: “bell”"),
        ({}, ""),
    ):
        found = {**told, "story": story.describe(demos, np.eye(2)[labels], events)}
        words_of = answers._switches(found, NAMES)
        assert words in words_of
        assert ("nothing that was marked" in words_of) == ("nothing that was marked" in words)
    lonely = {"n": 5, "rate": 0.1, "stuck": {"steps": 0, "rate": None}, "moved": {"steps": 0, "rate": None}}
    words_of = answers._switches({**told, "story": {"switches": {**lonely, "near": {}, "places": []}}}, NAMES)
    assert "no events were given" in words_of


def told(p: list[int], states: list[int], leads: list[int]) -> dict[str, Any]:
    wants = [{"leads_to": [[s, 0.3] for s in leads]}, {"leads_to": []}]
    shown = {"name": "a", "states": states, "p": [x for one in p for x in (one, 1000 - one)]}
    return {"n_intentions": 2, "states": None, "story": {"wants": wants}, "trajectories": [shown]}


def test_places_come_first_and_unsure_steps_stand_for_nothing() -> None:
    explorer = told([900, 990, 500, 700, 800, 100], [4, 4, 4, 1, 2, 4], leads=[4, 9])
    frames = {"trajectories": {"0": {"steps": [0, 1, 2, 3, 4, 5], "jpeg": list("ABCDEF")}}}
    mine, other = exemplars(explorer, frames)
    assert [(one["uri"][-1], one["caption"]) for one in mine[:1]] == [("B", "state 4")]  # where the intention is surest
    assert {one["uri"][-1] for one in mine} == {"A", "B", "D", "E"}
    assert mine[1]["caption"] == "trajectory a, step 0"
    assert [one["uri"][-1] for one in other] == ["F"]


def test_few_frames_and_none_twice() -> None:
    n = 40
    explorer = told([1000] * n, [i % 5 for i in range(n)], leads=[0, 1, 2, 3])
    frames = {"trajectories": {"0": {"steps": list(range(n)), "jpeg": [f"frame{i}" for i in range(n)]}}}
    mine, other = exemplars(explorer, frames)
    assert len({one["uri"] for one in mine}) == len(mine) == PLACES + STEPS
    assert other == []
    assert exemplars(explorer, None) == [[], []]
