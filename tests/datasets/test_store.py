"""Data sets are fetched once, checked always, and every failure is one sentence."""

import hashlib
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from prism_irl import datasets, maze
from prism_irl.cli.main import main
from prism_irl.datasets import labyrinth, store
from prism_irl.errors import InputError

pytest.importorskip("pooch", reason="downloading needs pooch")


class Quiet(SimpleHTTPRequestHandler):
    """A file server that counts what it is asked for."""

    asked: ClassVar[list[str]] = []

    def log_message(self, format, *args):
        pass

    def do_GET(self):
        self.asked.append(self.path)
        super().do_GET()


@pytest.fixture
def mirror(tmp_path: Path):
    folder = tmp_path / "server"
    folder.mkdir()
    (folder / "numbers.npy").write_bytes(b"the published bytes")
    Quiet.asked.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def data(mirror: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> store.DataSet:
    monkeypatch.setenv("PRISM_DATA", str(tmp_path / "data"))
    sha256 = hashlib.sha256(b"the published bytes").hexdigest()
    return store.DataSet("numbers", "Some numbers.", mirror, {"numbers.npy": sha256})


def test_a_missing_file_is_downloaded_once(data):
    assert store.states(data) == {"numbers.npy": "missing"}
    with pytest.raises(InputError, match="prism data fetch numbers"):
        data.path("numbers.npy")
    assert store.fetch(data) == {"numbers.npy": "downloaded"}
    assert data.path("numbers.npy").read_bytes() == b"the published bytes"
    assert store.fetch(data) == {"numbers.npy": "already there"}
    assert Quiet.asked == ["/numbers.npy"]


def test_a_wrong_file_is_neither_read_nor_replaced(data):
    data.folder.mkdir(parents=True)
    path = data.folder / "numbers.npy"
    path.write_bytes(b"something of the user's")
    assert store.states(data) == {"numbers.npy": "wrong"}
    for act in (lambda: store.fetch(data), lambda: data.path("numbers.npy")):
        with pytest.raises(InputError, match="not the published file"):
            act()
    assert path.read_bytes() == b"something of the user's"
    assert not Quiet.asked


def test_a_server_that_sends_something_else_leaves_nothing(data, tmp_path):
    (tmp_path / "server" / "numbers.npy").write_bytes(b"other bytes")
    with pytest.raises(InputError, match="sha256 differs"):
        store.fetch(data)
    assert list(data.folder.iterdir()) == []


def test_failures_of_the_network_are_one_sentence(data, tmp_path):
    with pytest.raises(InputError, match="check the network") as caught:
        store.fetch(data, "http://127.0.0.1:9/")  # nobody listens on the discard port
    assert "\n" not in str(caught.value)
    (tmp_path / "server" / "numbers.npy").unlink()
    with pytest.raises(InputError, match="the server answered 404"):
        store.fetch(data)
    with pytest.raises(InputError, match="http"):
        store.fetch(data, "gopher://127.0.0.1/")


def test_the_command_line_lists_and_fetches(data, mirror, monkeypatch, capsys):
    monkeypatch.setitem(datasets.PUBLIC, "numbers", data)
    assert main(["data", "list"]) == 0
    assert "get it: prism data fetch numbers" in capsys.readouterr().out
    assert main(["data", "fetch", "numbers", "--address", mirror]) == 0
    assert "downloaded" in capsys.readouterr().out
    assert main(["data", "list", "--json"]) == 0
    assert '"numbers.npy": "ready"' in capsys.readouterr().out
    assert main(["data", "fetch", "nothing"]) == 2
    assert "choose among labyrinth" in capsys.readouterr().err


def test_the_public_address_is_a_fixed_commit():
    assert labyrinth.COMMIT in labyrinth.DATA.address
    assert labyrinth.DATA.address.startswith("https://raw.githubusercontent.com/BRAINML-GT/SWIRL/")
    assert all(len(sha256) == 64 for sha256 in labyrinth.FILES.values())


def test_a_loader_without_data_says_the_command(tmp_path, monkeypatch):
    monkeypatch.setenv("PRISM_DATA", str(tmp_path))
    with pytest.raises(InputError, match="prism data fetch labyrinth"):
        labyrinth.load_labyrinth()
    with pytest.raises(InputError, match="no part of the public data"):
        labyrinth.load_annotations()


def test_without_pooch_the_extra_is_named(data, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pooch", None)
    with pytest.raises(InputError, match=r"prism-irl\[data\]"):
        store.fetch(data)


# -- the recordings ----------------------------------------------------------------------------------------------------


@pytest.fixture
def recordings(monkeypatch):
    import os

    folder = Path(os.environ.get("PRISM_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
    for name in (*labyrinth.FILES, labyrinth.ANNOTATIONS[0]):
        if not (folder / "labyrinth" / name).is_file():
            pytest.skip(f"labyrinth/{name} is absent; set PRISM_DATA to the folder that holds labyrinth/")
    monkeypatch.setenv("PRISM_DATA", str(folder))


@pytest.mark.usefixtures("recordings")
def test_annotations_belong_to_the_windows():
    demos, notes = datasets.NAMED["labyrinth"][0](), labyrinth.load_annotations()
    assert len(demos) == len(notes["animal"]) == 238
    at_port = demos.states == maze.WATER
    assert not notes["water_delivered"].ravel()[~at_port].any()
    np.testing.assert_array_equal(notes["water_conf"].ravel() > 0, at_port)
    assert np.flatnonzero(notes["mixed"]).tolist() == [14, 37, 71, 98, 176]
    np.testing.assert_array_equal(demos.groups, notes["animal"])
    assert len(demos.fold_indices(10, by="group")) == 10
    assert demos.checksum() != labyrinth.load_labyrinth().checksum()  # what knows the animals is another fit


@pytest.mark.usefixtures("recordings")
def test_without_annotations_the_named_data_set_has_no_animals(tmp_path, monkeypatch):
    (tmp_path / "labyrinth").mkdir()
    for name in labyrinth.FILES:
        (tmp_path / "labyrinth" / name).symlink_to(labyrinth.DATA.folder / name)
    monkeypatch.setenv("PRISM_DATA", str(tmp_path))
    demos = labyrinth.load_with_animals()
    assert len(demos) == 238
    assert demos.groups is None
