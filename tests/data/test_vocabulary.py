from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prism_irl.data.read import UNKNOWN_NAME, read_data, to_pandas
from prism_irl.data.vocabulary import Vocabulary
from prism_irl.errors import InputError
from support import frame, one_sentence, refused


class TestVocabulary:
    @pytest.mark.parametrize(
        ("values", "names", "ids"),
        [
            ([0, 3, 1], None, [0, 3, 1]),
            ([0.0, 3.0, 1.0], None, [0, 3, 1]),
            (pd.array([0, 3, 1], dtype="Int64"), None, [0, 3, 1]),
            (np.array([0, 3, 1], dtype=np.uint64), None, [0, 3, 1]),
            (pd.Series([0, 3, 1], dtype=object), None, [0, 3, 1]),
            (["c", "a", "b", "a"], ("a", "b", "c"), [2, 0, 1, 0]),
            (["10", "9"], ("10", "9"), [0, 1]),
            (pd.Categorical(["c", "a"], categories=["z", "c", "a"]), ("a", "c"), [1, 0]),
            ([True, False], ("False", "True"), [1, 0]),
            ([10_000, 9, 10_000], ("9", "10000"), [1, 0, 1]),
            (np.array([2**63 + 5, 7], dtype=np.uint64), ("7", str(2**63 + 5)), [1, 0]),
            ([1e6, 9.0], ("9", "1000000"), [1, 0]),
        ],
    )
    def test_ids_and_labels(self, values: object, names: tuple[str, ...] | None, ids: list[int]) -> None:
        vocabulary = Vocabulary.learn(values)
        assert vocabulary.names == names
        assert vocabulary.size == (max(ids) + 1)
        assert vocabulary.encode(values).tolist() == ids
        assert Vocabulary.from_json(vocabulary.to_json()) == vocabulary

    def test_where_ids_become_labels(self) -> None:
        assert Vocabulary.learn([0, 1003]) == Vocabulary(None, 1004)
        assert Vocabulary.learn([0, 1004]) == Vocabulary(("0", "1004"), 2)

    def test_negative_ids(self) -> None:
        refused(frame(state=[0, 1, 2, -1, 0]), "The state -1 at column 'state', row 3 (trajectory a) is negative")

    @pytest.mark.parametrize(
        ("values", "names"),
        [
            ([-2, 0, 2, -1, 1], ("-2", "-1", "0", "1", "2")),
            ([1, -1, 1, 1, -1], ("-1", "1")),
            ([0.5, 0, 1, 0.5, 0], ("0", "0.5", "1")),
            ([-0.25, 0.125, 1, -1, 1], ("-1", "-0.25", "0.125", "1")),
        ],
    )
    def test_the_levels_of_a_number_are_labels(self, values: list[float], names: tuple[str, ...]) -> None:
        table = read_data(frame(state=values))
        assert table.states.names == names
        assert [names[s] for s in table.demonstrations.states] == [f"{values[i]:g}" for i in (0, 2, 4, 1, 3)]

    def test_many_fractions_are_measurements(self) -> None:
        with pytest.raises(InputError, match="is not a whole number; name continuous columns with --observe"):
            Vocabulary.learn(np.linspace(0, 1, 60), "state")

    @pytest.mark.parametrize("bad", [2.5, np.inf, -np.inf])
    def test_fractions(self, bad: float) -> None:
        refused(frame(action=[0, 1, 0, bad, 1]), f"The action {bad}", "row 3 (trajectory a)", "discretise the actions")

    def test_labels_of_all_kinds_give_names(self) -> None:
        table = read_data(frame(state=list("xyzyx"), action=[True, False, True, True, False], intention=list("qpqpq")))
        demos = table.demonstrations
        assert (demos.state_names, demos.action_names, demos.label_names) == (
            ("x", "y", "z"),
            ("False", "True"),
            ("p", "q"),
        )
        assert table.labels == Vocabulary(("p", "q"), 2)
        assert demos.states.tolist() == [0, 2, 0, 1, 1]

    @pytest.mark.parametrize(
        ("value", "message"),
        [
            ({"names": None, "size": 0}, "0 ids"),
            ({"names": ["a"], "size": 2}, "2 ids cannot have 1 names"),
            ({"names": ["a", "a"], "size": 2}, "'a' stands for two"),
            ({"names": [1], "size": 1}, "damaged"),
            ({"size": 1}, "damaged"),
            (None, "damaged"),
        ],
    )
    def test_impossible_vocabularies(self, value: object, message: str) -> None:
        with pytest.raises(InputError, match=message):
            Vocabulary.from_json(value)

    @given(*2 * [st.lists(st.text("aé0 ", min_size=1, max_size=3), min_size=1, max_size=20)])
    @settings(max_examples=30, deadline=None)
    def test_encode_is_a_lookup(self, old: list[str], new: list[str]) -> None:
        vocabulary = Vocabulary.learn(old)
        known = {name: i for i, name in enumerate(sorted(set(old)))}
        assert vocabulary.encode(new, unknown="new").tolist() == [known.get(name, len(known)) for name in new]


class TestNewData:
    names = Vocabulary(("x", "y", "z", "w"), 4)
    ids = Vocabulary(None, 4)

    def test_known_data_keep_the_ids_and_sizes_of_the_model(self) -> None:
        table = read_data(frame(state=list("wyxyw")), states=self.names, actions=Vocabulary(None, 7))
        assert table.demonstrations.states.tolist() == [3, 0, 3, 1, 1]
        assert (table.demonstrations.n_states, table.demonstrations.n_actions) == (4, 7)
        assert table.demonstrations.state_names == self.names.names
        assert table.states is self.names

    def test_unseen_label(self) -> None:
        new = frame(state=["x", "north", "y", "y", "x"])
        refused(
            new,
            "The state north at column 'state', row 1 (trajectory a)",
            "x, y, z, w",
            "--unknown-state",
            states=self.names,
        )

    @pytest.mark.parametrize("bad", [4, 4.0, "north", "1.5"])
    def test_id_out_of_range(self, bad: object) -> None:
        new = frame(state=[0, 1, bad, 1, 0])
        refused(
            new, f"The state {str(bad)[:1]}", "row 2 (trajectory b)", "ids 0 to 3", "--unknown-state", states=self.ids
        )

    @pytest.mark.parametrize(("known", "bad"), [(Vocabulary(("0",), 1), "1"), (Vocabulary(None, 1), "1")])
    def test_unseen_action_is_always_an_error(self, known: Vocabulary, bad: str) -> None:
        with pytest.raises(InputError) as error:
            read_data(frame(), actions=known, states=self.ids, unknown_state=True)
        assert f"The action {bad} at column 'action', row 1" in one_sentence(error)
        assert "--unknown" not in str(error.value)

    def test_unknown_states_share_one_new_id(self) -> None:
        table = read_data(frame(state=["x", "north", "y", "south", "w"]), states=self.names, unknown_state=True)
        demos = table.demonstrations
        assert demos.states.tolist() == [0, 1, 3, 4, 4]
        assert (demos.n_states, demos.unknown_state) == (5, True)
        assert demos.state_names == ("x", "y", "z", "w", UNKNOWN_NAME)
        assert table.states == self.names
        assert to_pandas(demos)["state"].tolist() == ["x", "y", "w", "<unknown>", "<unknown>"]
        numbered = read_data(frame(state=[9, 3, 0, 3, 0]), states=self.ids, unknown_state=True).demonstrations
        assert numbered.states.tolist() == [4, 0, 0, 3, 3]
        assert (numbered.n_states, numbered.state_names) == (5, None)

    def test_room_for_unknown_states_even_when_all_are_known(self) -> None:
        demos = read_data(frame(), states=self.ids, unknown_state=True).demonstrations
        assert (demos.n_states, demos.unknown_state) == (5, True)

    def test_missing_states_stay_an_error(self) -> None:
        refused(frame(state=[0, 1, None, 1, 0]), "missing", states=self.ids, unknown_state=True)

    def test_unknown_to_whom(self) -> None:
        refused(frame(), "fitted model", unknown_state=True)

    def test_labels_that_look_like_numbers_in_a_file(self, tmp_path: Path) -> None:
        path = tmp_path / "new.csv"
        path.write_text("trajectory,state,action\n1,01,7\n1,02,7\n")
        assert read_data(path, states=Vocabulary(("01", "02", "a"), 3)).demonstrations.states.tolist() == [0, 1]
        assert read_data(path, states=Vocabulary(("1", "2"), 2)).demonstrations.states.tolist() == [0, 1]
        refused(path, "The state 01", states=Vocabulary(("1", "2", "a"), 3))


def test_ids_beyond_64_bits_signed_are_refused_and_not_cast():
    ids = Vocabulary(None, 3)
    with pytest.raises(InputError, match="state 9223372036854775808 at row 1 is not one of the 3 known"):
        ids.encode(np.array([1, 2**63], dtype=np.uint64), "state")
    assert ids.encode(np.array([2, 0, 7], dtype=np.uint64), "state", unknown="new").tolist() == [2, 0, 3]
