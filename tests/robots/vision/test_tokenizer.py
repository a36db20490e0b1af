import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prism_irl.errors import InputError
from prism_irl.robots.vision.tokenizer import Tokenizer


def robot(n: int = 600, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Embeddings, and actions whose gripper is nearly all of the variance, as BridgeData's is."""
    rng = np.random.default_rng(seed)
    moves = 0.02 * rng.normal(size=(n, 3))
    return rng.normal(size=(n, 4)).astype(np.float32), np.column_stack([moves, rng.integers(0, 2, size=n)])


def test_tokens_are_the_nearest_centroids_and_decode_to_them():
    embeddings, actions = robot()
    tokenizer = Tokenizer(20, 8).fit(embeddings, actions)
    states, moves = tokenizer.encode(embeddings, actions)
    assert (states.min(), states.max(), moves.min(), moves.max()) == (0, 19, 0, 7)
    distances = ((embeddings[:, None] - tokenizer.state_centroids_) ** 2).sum(-1)
    np.testing.assert_array_equal(states, distances.argmin(1))
    centres = tokenizer.state_centroids_[states]
    np.testing.assert_array_equal(tokenizer.encode_states(centres), states)
    scaled = (actions - tokenizer.action_mean_) / tokenizer.action_scale_
    for token in range(8):  # a centroid is the mean of its members
        own = tokenizer.action_centroids_[token]
        np.testing.assert_allclose(own, scaled[moves == token].mean(0), atol=1e-3 / tokenizer.action_scale_.min())


def test_scaling_gives_motion_a_say():
    embeddings, actions = robot()

    def spread(scaling: str) -> float:
        """Share of the motion's variance that tokens explain."""
        tokenizer = Tokenizer(5, 16, action_scaling=scaling, gripper=None).fit(embeddings, 100 * actions / [1, 1, 1, 1])
        tokens = tokenizer.encode_actions(100 * actions)
        gripper_only = len(np.unique(tokens[actions[:, 3] == 1]))
        decoded = tokenizer.action_centroids_[tokens] * tokenizer.action_scale_ + tokenizer.action_mean_
        residual = (100 * actions - decoded)[:, :3].var() / (100 * actions[:, :3]).var()
        assert gripper_only >= 1
        return 1 - residual

    assert spread("standardised") > 0.4
    # With two clusters, raw actions are told apart by the gripper alone.
    raw = Tokenizer(5, 2, action_scaling="none", gripper=None).fit(embeddings, actions)
    tokens = raw.encode_actions(actions)
    assert len(np.unique(tokens * 2 + actions[:, 3])) == 2


def test_the_gripper_is_found_and_made_binary():
    embeddings, actions = robot()
    actions[:, 3] *= 0.08  # metres
    actions[::40, 3] = 0.05  # now and then on its way
    tokenizer = Tokenizer(5, 8).fit(embeddings, actions)
    assert tokenizer.gripper_ == 3
    assert tokenizer.gripper_range_ == (0.0, pytest.approx(0.08))
    almost = actions.copy()
    almost[:, 3] = np.where(actions[:, 3] > 0.04, 0.07, 0.01)
    np.testing.assert_array_equal(tokenizer.encode_actions(actions), tokenizer.encode_actions(almost))
    smooth = np.random.default_rng(0).normal(size=(600, 4))
    assert Tokenizer(5, 8).fit(embeddings, smooth).gripper_ is None
    assert Tokenizer(5, 8, gripper=None).fit(embeddings, actions).gripper_ is None
    assert Tokenizer(5, 8, gripper=0).fit(embeddings, actions).gripper_ == 0


@settings(deadline=None, max_examples=20)
@given(st.floats(0.1, 100), st.floats(-5, 5))
def test_standardised_tokens_do_not_depend_on_units(scale, shift):
    embeddings, actions = robot(200)
    first = Tokenizer(3, 6).fit(embeddings, actions)
    units = actions * [scale, 1, 1, 1] + [shift, 0, 0, 0]
    second = Tokenizer(3, 6).fit(embeddings, units)
    agreement = (first.encode_actions(actions) == second.encode_actions(units)).mean()
    assert agreement > 0.98  # rounding may move a row on a border


def test_a_still_first_step_is_dropped():
    actions = np.array([[0, 1e-7, 0, 1], [0.1, 0, 0, 1], [0, 0, 0, 1]])
    assert Tokenizer().kept(actions).tolist() == [False, True, True]
    assert Tokenizer(drop_still_start=False).kept(actions).tolist() == [True] * 3
    assert Tokenizer(gripper=None).kept(actions).tolist() == [True] * 3  # then the last dimension is motion too
    assert Tokenizer().kept(actions[1:]).tolist() == [True, True]
    assert Tokenizer().kept(actions[:1]).tolist() == [True]  # never an empty episode


def test_saved_and_loaded(tmp_path):
    embeddings, actions = robot()
    tokenizer = Tokenizer(20, 8, action_scaling="none", seed=3).fit(embeddings, actions)
    tokenizer.save(tmp_path / "tokenizer")
    again = Tokenizer.load(tmp_path / "tokenizer")
    for first, second in zip(tokenizer.encode(embeddings, actions), again.encode(embeddings, actions), strict=True):
        np.testing.assert_array_equal(first, second)
    assert repr(again) == repr(tokenizer)
    described = json.loads((tmp_path / "tokenizer/tokenizer.json").read_text())
    described["parameters"]["colour"] = "red"
    (tmp_path / "tokenizer/tokenizer.json").write_text(json.dumps(described))
    with pytest.raises(InputError, match="were not written together"):
        Tokenizer.load(tmp_path / "tokenizer")


def test_a_tokenizer_of_the_first_version_is_read(tmp_path):
    embeddings, actions = robot()
    tokenizer = Tokenizer(20, 8).fit(embeddings, actions)
    tokenizer.max_iterations, tokenizer.method, tokenizer.device = 25, "vq", "auto"  # what it wrote beside the rest
    tokenizer.save(tmp_path)
    again = Tokenizer.load(tmp_path)
    np.testing.assert_array_equal(again.encode_states(embeddings), tokenizer.encode_states(embeddings))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n_states": 0}, "n_states is 0"),
        ({"n_states": 601}, "600 steps and 601 state tokens"),
        ({"n_actions": 601}, "different actions and 601 action tokens"),
        ({"action_scaling": "big"}, "action_scaling is 'big'"),
        ({"gripper": 9}, "dimension 9 of an action of 4"),
    ],
)
def test_wrong_requests(options, words):
    embeddings, actions = robot()
    with pytest.raises(InputError, match=words):
        Tokenizer(**{"n_states": 5, "n_actions": 4, **options}).fit(embeddings, actions)


def test_wrong_data():
    embeddings, actions = robot()
    with pytest.raises(InputError, match="call fit first"):
        Tokenizer().encode(embeddings, actions)
    with pytest.raises(InputError, match="600 embeddings for 599 actions"):
        Tokenizer(5, 4).fit(embeddings, actions[1:])
    tokenizer = Tokenizer(5, 4).fit(embeddings, actions)
    with pytest.raises(InputError, match="3 dimensions; the tokenizer learned 4"):
        tokenizer.encode_actions(actions[:, :3])
    actions[7, 1] = np.nan
    with pytest.raises(InputError, match="actions at step 7 are not finite"):
        tokenizer.encode_actions(actions)
