"""A model is what was saved, to the last bit, or it is refused with one sentence."""

import json
import shutil

import numpy as np
import pytest
import torch

import prism_irl as prism
from prism_irl import em, storage
from prism_irl.errors import InputError
from support import one_sentence


@pytest.fixture(scope="module")
def demos():
    rng = np.random.default_rng(0)
    return prism.Demonstrations.from_arrays(rng.integers(0, 4, (6, 20)), rng.integers(0, 3, (6, 20)))


@pytest.fixture(scope="module")
def saved(demos, tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    model = prism.HIQL(n_intentions=2, n_starts=1, max_iterations=5, history=2).fit(demos)
    model.save(folder)
    return folder, model.predict_proba(demos)


@pytest.fixture
def copy(saved, tmp_path):
    return shutil.copytree(saved[0], tmp_path / "copy")


def rewritten(folder, change, version=1):
    """The model with other tensors, and a checksum that agrees with them (2) or none, as in the first version (1)."""
    path = folder / "model.safetensors"
    tensors, header = storage.load_tensors(path)
    change(tensors, header)
    if version == 2:
        storage.save_tensors(path, tensors, header)
        return
    from safetensors.torch import save_file

    header.pop("described_by", None)
    save_file(tensors, path, {"format": storage.FORMAT, "header": json.dumps(header)})
    config = storage.read_json(folder / "config.json")
    config.pop("format_version", None)
    storage.write_json(folder / "config.json", config)


def refused(folder, *parts):
    with pytest.raises(InputError) as error:
        prism.load(folder)
    for part in parts:
        assert part in one_sentence(error)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_a_flipped_bit_is_refused_or_without_effect(copy, saved, demos, name):
    path = copy / name
    whole, rng = path.read_bytes(), np.random.default_rng(0)
    for bit in rng.choice(8 * len(whole), size=400 if name.endswith("s") else 100, replace=False):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << (bit % 8)
        path.write_bytes(damaged)
        try:
            found = prism.load(copy)
        except InputError:
            continue
        np.testing.assert_array_equal(found.predict_proba(demos), saved[1], err_msg=f"bit {bit}")


def test_tensors_of_another_run_are_refused(copy, demos, tmp_path):
    other = prism.HIQL(n_intentions=2, n_starts=1, max_iterations=2, history=2).fit(demos)
    other.save(tmp_path / "other")
    shutil.copy(tmp_path / "other" / "model.safetensors", copy)
    refused(copy, "config.json and model.safetensors", "not written together")


@pytest.mark.parametrize(
    "change",
    [
        lambda config: config["parameters"].update(seed=7),
        lambda config: config.update(vocabulary={"states": {"names": ["b", "a"], "size": 2}}),
        lambda config: config.pop("format_version"),
        lambda config: config["versions"].update({"prism-irl": "99"}),
    ],
    ids=["parameter", "vocabulary", "version taken away", "versions"],
)
def test_a_changed_configuration_is_refused(copy, change):
    config = json.loads((copy / "config.json").read_text())
    change(config)
    (copy / "config.json").write_text(json.dumps(config))
    refused(copy, "not written together, or one of them was changed")


def test_the_order_and_layout_of_a_configuration_do_not_matter(copy, saved, demos):
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(dict(reversed(config.items()))))
    np.testing.assert_array_equal(prism.load(copy).predict_proba(demos), saved[1])


def test_a_newer_format_is_refused(copy, monkeypatch):
    config = storage.read_json(copy / "config.json")
    storage.write_json(copy / "config.json", config | {"format_version": 99})
    refused(copy, "of format 99", "use the version that wrote it")
    storage.write_json(copy / "config.json", config)
    tensors, header = storage.load_tensors(copy / "model.safetensors")
    monkeypatch.setattr(storage, "VERSION", 99)
    storage.save_tensors(copy / "model.safetensors", tensors, header)
    monkeypatch.undo()
    refused(copy, "of format '99'", "reads up to 2")


def test_a_model_of_the_first_format_is_read(copy, saved, demos):
    rewritten(copy, lambda tensors, header: None)
    np.testing.assert_array_equal(prism.load(copy).predict_proba(demos), saved[1])


def first(value):
    def change(tensor):
        tensor.view(-1)[0] = value

    return change


WRONG = {
    "NaN policy": ("rewards.policies", first(float("nan"))),
    "infinite policy": ("rewards.policies", first(float("inf"))),
    "negative policy": ("rewards.policies", first(-0.5)),
    "policy above one": ("rewards.policies", first(1e30)),
    "kernel above one": ("switching.kernel", first(3.0)),
    "NaN initial": ("switching.initial", first(float("nan"))),
    "index out of range": ("mdp.indices", first(2**30)),
    "negative index": ("mdp.indices", first(-1)),
    "pointer out of range": ("mdp.indptr", first(2**30)),
    "transition above one": ("mdp.data", first(7.0)),
    "parent out of range": ("contexts.parents_0", first(2**40)),
    "negative state": ("contexts.oldest_0", first(-3)),
    "start out of range": ("data.start_states", first(99)),
}


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("wrong", WRONG)
def test_impossible_numbers_are_refused_whatever_their_checksum_says(copy, wrong, version):
    name, change = WRONG[wrong]
    rewritten(copy, lambda tensors, header: change(tensors[name]), version)
    refused(copy)


@pytest.mark.parametrize(
    "change",
    [
        lambda tensors, header: tensors.update({"rewards.policies": tensors["rewards.policies"][:, :2].clone()}),
        lambda tensors, header: tensors.update({"switching.kernel": torch.eye(3, dtype=torch.float64)}),
        lambda tensors, header: tensors.pop("rewards.counts"),
        lambda tensors, header: tensors.update({"mdp.indptr": tensors["mdp.indptr"][:3].clone()}),
        lambda tensors, header: header.update(n_states=10**9),
        lambda tensors, header: header.update(n_actions="many"),
        lambda tensors, header: header.update(n_states=float("inf")),
        lambda tensors, header: header.update(discount=5),
        lambda tensors, header: header.clear(),
    ],
    ids=["policies", "kernel", "missing", "pointers", "huge", "text", "infinite", "discount", "empty"],
)
def test_other_shapes_and_headers_are_refused(copy, change):
    rewritten(copy, change)
    refused(copy)


@pytest.mark.parametrize(
    "config",
    [{}, {"method": "Oracle", "parameters": {}}, {"method": "PRISM", "parameters": {"x": 1}}, {"method": "PRISM"}],
    ids=["empty", "method", "parameter", "no parameters"],
)
def test_a_first_format_that_cannot_be_read_is_explained(copy, config):
    rewritten(copy, lambda tensors, header: None)
    storage.write_json(copy / "config.json", config)
    refused(copy, "use the version that wrote it")


def test_everybody_may_read_a_model_who_may_read_its_folder(copy):
    modes = {path.name: path.stat().st_mode & 0o777 for path in copy.iterdir()}
    assert modes["model.safetensors"] == modes["config.json"]


def test_a_flipped_bit_in_a_checkpoint_is_refused_or_without_effect(demos, tmp_path, monkeypatch):
    monkeypatch.setattr(em, "CHECKPOINT_SECONDS", -1.0)
    settings = {"n_intentions": 2, "n_starts": 1, "max_iterations": 3, "patience": None}
    expected = prism.HIQL(**settings).fit(demos, checkpoint=tmp_path).predict_proba(demos)
    (path,) = tmp_path.glob("start_*.safetensors")
    whole, rng, refused = path.read_bytes(), np.random.default_rng(1), 0
    for bit in rng.choice(8 * len(whole), size=400, replace=False):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << (bit % 8)
        path.write_bytes(damaged)
        try:
            found = prism.HIQL(**settings).fit(demos, checkpoint=tmp_path, resume=True)
        except InputError:
            refused += 1
            continue
        np.testing.assert_array_equal(found.predict_proba(demos), expected, err_msg=f"bit {bit}")
    assert refused > 300


@pytest.mark.parametrize(
    "change",
    [
        lambda tensors, header: tensors.update(
            {"now.rewards.policies": tensors["now.rewards.policies"][:, :2].clone()}
        ),
        lambda tensors, header: tensors.update({"best.rewards.policies": tensors["best.rewards.policies"] * 2}),
        lambda tensors, header: tensors.update({"best.switching.kernel": torch.full((2, 2), torch.nan)}),
        lambda tensors, header: tensors.pop("best.rewards.counts"),
        lambda tensors, header: header.update(rows=[{}]),
        lambda tensors, header: header.update(rows=7),
        lambda tensors, header: header.update(best=99),
        lambda tensors, header: header.update(seconds="long"),
    ],
    ids=["shape", "sum", "NaN", "missing", "empty row", "no rows", "best", "seconds"],
)
def test_a_checkpoint_that_does_not_fit_is_refused(demos, tmp_path, change, monkeypatch):
    monkeypatch.setattr(em, "CHECKPOINT_SECONDS", -1.0)
    settings = {"n_intentions": 2, "n_starts": 1, "max_iterations": 3, "patience": None}
    prism.HIQL(**settings).fit(demos, checkpoint=tmp_path)
    (path,) = tmp_path.glob("start_*.safetensors")
    tensors, header = storage.load_tensors(path)
    change(tensors, header)
    storage.save_tensors(path, tensors, header)
    with pytest.raises(InputError, match="does not fit this model"):
        prism.HIQL(**settings).fit(demos, checkpoint=tmp_path, resume=True)
