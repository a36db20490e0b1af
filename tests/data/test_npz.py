import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.npz import write_npz
from prism_irl.data.tables import read, to_pandas
from prism_irl.data.vocabulary import Vocabulary
from prism_irl.errors import InputError
from support import assert_same, frame, refused

FULL = Demonstrations(
    states=np.array([0, 299, 2, 1, 2]),
    actions=np.array([0, 1, 0, 2, 1]),
    offsets=np.array([0, 2, 5]),
    n_states=300,
    n_actions=4,
    observations=(np.arange(10) / 3).astype(np.float32).reshape(5, 2),
    labels=np.array([0, 5000, 1, 1, 0]),
    times=np.array([3.0, 1.0, 2.0, 2.0, 1.0]),
    groups=np.array(["mouse", "rat"]),
    valid_actions=np.arange(1200).reshape(300, 4) % 7 != 3,
    trajectory_names=np.array([7, 7]),
)


class TestNpz:
    def save(self, path: Path, **arrays: Any) -> Path:
        arrays = {"states": np.array([[0, 1], [2, 0]]), "actions": np.array([[1, 1], [0, 1]])} | arrays
        given_arrays: dict[str, Any] = {key: np.asarray(value) for key, value in arrays.items() if value is not None}
        np.savez(path / "a.npz", **given_arrays)
        return path / "a.npz"

    def test_everything_comes_back(self, tmp_path: Path) -> None:
        FULL.save(tmp_path / "a.npz")
        assert_same(Demonstrations.from_table(tmp_path / "a.npz"), FULL)

    def test_names_come_back(self, tmp_path: Path) -> None:
        labelled = frame(state=list("xyzyx"), action=list("lrrll"), intention=list("pqqpp"))
        choices: list[dict[str, Any]] = [{}, {"states": Vocabulary(("z", "y"), 2), "unknown_state": True}]
        for options in choices:
            table = read(labelled, **options)
            write_npz(table.demonstrations, tmp_path / "a.npz")
            again = read(tmp_path / "a.npz")
            assert_same(again.demonstrations, table.demonstrations)
            assert again[3:] == table[3:]

    @given(data=st.data())
    @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_round_trip(self, data: st.DataObject, tmp_path: Path) -> None:
        lengths = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=6))
        rng = np.random.default_rng(data.draw(st.integers(0, 99)))
        n, n_states, n_actions = sum(lengths), data.draw(st.integers(1, 400)), data.draw(st.integers(1, 300))
        optional: dict[str, Any] = {
            "observations": rng.normal(size=(n, 2)).astype(np.float32),
            "labels": rng.integers(3000, size=n).astype(np.int32),
            "times": rng.integers(9, size=n),
            "groups": rng.integers(3, size=len(lengths)),
            "state_names": tuple(f"s{i}" for i in rng.permutation(n_states)),
            "action_names": tuple(f"a{i}" for i in rng.permutation(n_actions)),
            "valid_actions": np.ones((n_states, n_actions), dtype=bool),
            "trajectory_names": np.array([f"t{i}" for i in range(len(lengths))]),
            "unknown_state": n_states > 1,
        }
        names = data.draw(st.sets(st.sampled_from(sorted(optional))))
        demos = Demonstrations(
            states=rng.integers(n_states, size=n),
            actions=rng.integers(n_actions, size=n),
            offsets=np.cumsum([0, *lengths]),
            n_states=n_states,
            n_actions=n_actions,
            **{name: optional[name] for name in names},
        )
        write_npz(demos, tmp_path / "a.npz")
        assert_same(read(tmp_path / "a.npz").demonstrations, demos)
        vocabularies: dict[str, Any] = {
            "states": Vocabulary(demos.state_names, n_states),
            "actions": Vocabulary(demos.action_names, n_actions),
        }
        through_pandas = read(
            to_pandas(demos),
            observations=to_pandas(demos).filter(like="obs").columns.tolist(),
            ties="keep",
            **vocabularies,
        )
        if "times" not in names:
            np.testing.assert_array_equal(through_pandas.demonstrations.states, demos.states)
            np.testing.assert_array_equal(through_pandas.demonstrations.offsets, demos.offsets)

    def test_rectangular_and_flat(self, tmp_path: Path) -> None:
        square = read(self.save(tmp_path, labels=[[0, 0], [1, 1]], observations=np.ones((2, 2, 3)))).demonstrations
        flat = {"states": [0, 1, 2, 0], "actions": [1, 1, 0, 1], "lengths": [2, 2], "labels": [0, 0, 1, 1]}
        assert_same(read(self.save(tmp_path, **flat, observations=np.ones((4, 3)))).demonstrations, square)
        assert (square.n_states, square.n_actions) == (3, 2)
        assert square.offsets.tolist() == [0, 2, 4]

    def test_text_and_given_sizes(self, tmp_path: Path) -> None:
        table = read(self.save(tmp_path, states=[["x", "y"], ["y", "x"]], n_actions=5))
        assert table.states.names == ("x", "y")
        assert table.demonstrations.n_actions == 5

    def test_order_is_kept_whatever_the_times(self, tmp_path: Path) -> None:
        table = read(self.save(tmp_path, times=[[2, 1], [0, 0]]))
        assert table.demonstrations.states.tolist() == [0, 1, 2, 0]
        assert table.order.tolist() == [0, 1, 2, 3]

    @pytest.mark.parametrize(
        ("arrays", "parts"),
        [
            ({"states": None}, ("states and actions", "holds actions")),
            ({"actions": None}, ("states and actions", "holds states")),
            ({"states": [0, 1], "actions": [0, 1]}, ("shape (2,)", "lengths")),
            ({"lengths": [2, 2]}, ("shape (2, 2)", "lengths")),
            ({"states": [0, 1], "actions": [0, 1], "lengths": [1, 2]}, ("lengths", "add up")),
            ({"states": [0, 1], "actions": [0, 1], "lengths": [2.0]}, ("lengths",)),
            ({"states": [0, 1], "actions": [0, 1], "lengths": [2, 0]}, ("empty",)),
            ({"states": np.zeros((0, 3), int), "actions": np.zeros((0, 3), int)}, ("no trajectory",)),
            ({"actions": [[0, 1, 1, 1]]}, ("'actions'", "(1, 4)", "(2, 2)")),
            ({"labels": [0, 1]}, ("'labels'", "(2,)")),
            ({"times": [0, 1, 2]}, ("'times'",)),
            ({"groups": [0, 1, 2]}, ("'groups'", "2 trajectories")),
            ({"trajectory_names": ["a"]}, ("'trajectory_names'",)),
            ({"observations": [[0, 1], [1, 2]]}, ("'observations'",)),
            ({"observations": [[["a"], ["b"]], [["c"], ["d"]]]}, ("'observations'",)),
            ({"observations": [[[0.0], [np.nan]], [[0.0], [0.0]]]}, ("trajectory 0, step 1", "finite")),
            ({"n_states": 2}, ("The state 2", "row 2 (trajectory 1)", "ids 0 to 1")),
            ({"n_states": "many"}, ("'n_states'",)),
            ({"n_states": [3, 3]}, ("'n_states'",)),
            ({"states": [[0, -1], [0, 0]]}, ("The state -1", "row 1 (trajectory 0)", "negative")),
            ({"states": [[0, 0.5], [0, 0]]}, ("The state 0.5", "discretise")),
            ({"state_names": ["a", "b"]}, ("The state 2", "step 2")),
            ({"state_names": ["a", "b", "c"], "n_states": 4}, ("4 ids cannot have 3 names",)),
            ({"valid_actions": np.ones((2, 2))}, ("mask", "(2, 2)")),
            ({"valid_actions": [[True, False]] * 3}, ("Action 1 in state 0", "trajectory 0, step 0")),
            ({"groups": np.array([{}, {}], dtype=object)}, ("Python objects", "never unpickled")),
        ],
    )
    def test_wrong_arrays(self, arrays: dict[str, Any], parts: tuple[str, ...], tmp_path: Path) -> None:
        refused(self.save(tmp_path, **arrays), *parts)

    def test_damage_is_an_input_error_or_harmless(self, tmp_path: Path) -> None:
        FULL.save(tmp_path / "a.npz")
        content = (tmp_path / "a.npz").read_bytes()
        rng = np.random.default_rng(0)
        caught = 0
        for _ in range(150):
            damaged = bytearray(content)
            for at in rng.integers(len(content), size=3):
                damaged[at] = rng.integers(256)
            cut = len(damaged) if rng.random() < 0.7 else int(rng.integers(len(damaged)))
            (tmp_path / "b.npz").write_bytes(damaged[:cut])
            try:
                read(tmp_path / "b.npz")
            except InputError:
                caught += 1
        assert caught > 75

    def test_array_file_with_the_wrong_name(self, tmp_path: Path) -> None:
        with (tmp_path / "a.npz").open("wb") as file:
            np.save(file, np.zeros(3))
        refused(tmp_path / "a.npz", "not an npz file")


class TestNpzWithAModel:
    def test_names_are_translated(self, tmp_path: Path) -> None:
        write_npz(read(frame(state=list("xyzyx"))).demonstrations, tmp_path / "a.npz")
        model = Vocabulary(("z", "y", "x", "w"), 4)
        assert read(tmp_path / "a.npz", states=model).demonstrations.states.tolist() == [2, 0, 2, 1, 1]
        refused(tmp_path / "a.npz", "The state x", "trajectory 0", states=Vocabulary(("z", "y"), 2))
        unknown = read(tmp_path / "a.npz", states=Vocabulary(("z", "y"), 2), unknown_state=True).demonstrations
        assert unknown.states.tolist() == [2, 0, 2, 1, 1]
        assert unknown.unknown_state

    def test_ids_and_sizes_are_checked(self, tmp_path: Path) -> None:
        np.savez(tmp_path / "a.npz", states=[[0, 3]], actions=[[0, 1]])
        assert read(tmp_path / "a.npz", states=Vocabulary(None, 9)).demonstrations.n_states == 9
        refused(tmp_path / "a.npz", "The state 3", "trajectory 0", "ids 0 to 2", states=Vocabulary(None, 3))
        refused(tmp_path / "a.npz", "The action 1", states=Vocabulary(None, 4), actions=Vocabulary(None, 1))
        refused(tmp_path / "a.npz", "The state 0", "x, y", states=Vocabulary(("x", "y"), 2))
        np.savez(tmp_path / "b.npz", states=[[0, 3]], actions=[[0, 1]], n_states=100)
        refused(tmp_path / "b.npz", "100 states and the model 50", states=Vocabulary(None, 50))

    def test_mask_is_kept_only_for_the_same_ids(self, tmp_path: Path) -> None:
        mask = np.array([[True, True], [True, False]])
        np.savez(tmp_path / "a.npz", states=[[0, 1]], actions=[[1, 0]], n_states=2, n_actions=2, valid_actions=mask)
        two = Vocabulary(None, 2)
        same = read(tmp_path / "a.npz", states=two, actions=two).demonstrations
        assert same.valid_actions is not None
        np.testing.assert_array_equal(same.valid_actions, mask)
        assert read(tmp_path / "a.npz", states=Vocabulary(None, 3)).demonstrations.valid_actions is None
        assert read(tmp_path / "a.npz", states=two, unknown_state=True).demonstrations.valid_actions is None


class TestNothingIsTakenOnTrust:
    def member(self, tmp_path: Path, name: str, content: bytes) -> Path:
        path = tmp_path / "x.npz"
        np.savez(path, states=np.zeros((2, 3), int), actions=np.zeros((2, 3), int))
        with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # which zipfile says about a name that is there already
            archive.writestr(name, content)
        return path

    def header(self, shape: str, kind: str = "<i8") -> bytes:
        text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
        return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()

    def test_an_array_that_is_there_twice(self, tmp_path: Path) -> None:
        refused(self.member(tmp_path, "states.npy", self.header("(1,)") + bytes(8)), "'states' is there twice")

    def test_a_shape_that_the_bytes_do_not_have(self, tmp_path: Path) -> None:
        refused(
            self.member(tmp_path, "labels.npy", self.header("(10000000000,)")), "'labels'", "does not fit its bytes"
        )

    def test_more_than_fits_into_memory(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = self.member(tmp_path, "labels.npy", self.header("(10000000,)") + bytes(80_000_000))
        assert path.stat().st_size < 1_000_000
        monkeypatch.setenv("PRISM_MAX_MEMORY", "0.01")
        refused(path, "160 MB of memory", "10 MB are allowed")

    @pytest.mark.parametrize(
        "text", ["(", "{'descr': ", "{'descr': '<i8', 'fortran_order': 3, 'shape': (1,)}", "\0" * 9]
    )
    def test_headers_that_are_none(self, tmp_path: Path, text: str) -> None:
        header = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()
        refused(self.member(tmp_path, "labels.npy", header), "damaged or not an npz file")
