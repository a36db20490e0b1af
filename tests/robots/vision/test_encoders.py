import numpy as np
import pytest

from prism_irl.errors import InputError
from prism_irl.robots.episodes import Episode
from prism_irl.robots.vision.encoders import (
    PixelEncoder,
    PretrainedEncoder,
    ProprioEncoder,
    averages,
    make_encoder,
)
from recordings_on_disk import CallableEncoder


def test_states_weigh_alike(source):
    encoder = ProprioEncoder()
    encoder.fit(source())
    vectors = np.concatenate([encoder.encode(episode) for episode in source()])
    np.testing.assert_allclose(vectors.mean(0), 0, atol=1e-4)
    np.testing.assert_allclose(vectors.std(0), [1, 1, 1, 1, 0], atol=1e-4)
    with pytest.raises(InputError, match="has no states"):
        encoder.encode(Episode(0, np.zeros((3, 2))))
    with pytest.raises(InputError, match="call fit first"):
        ProprioEncoder().encode(next(iter(source())))


def test_pixels_keep_what_varies(source):
    encoder = PixelEncoder(components=8, sample=1000, size=8)
    encoder.fit(source())
    vectors = np.concatenate([encoder.encode(episode) for episode in source()])
    assert vectors.shape == (sum(8 + i for i in range(6)), 8)
    spread = vectors.var(axis=0)
    assert (np.diff(spread) <= 1e-6).all()  # components come in order
    small = np.concatenate([averages(list(episode.frames()), 8) for episode in source()])
    assert spread.sum() > 0.9 * small.var(axis=0).sum()
    again = PixelEncoder(components=8, sample=1000, size=8)
    again.state = encoder.state
    np.testing.assert_array_equal(again.encode(next(iter(source()))), encoder.encode(next(iter(source()))))


def test_any_function(source):
    encoder = CallableEncoder(lambda frames: frames.reshape(len(frames), -1)[:, :5], "corner", batch_size=3)
    episode = next(iter(source()))
    expected = np.stack([frame.ravel()[:5] for frame in episode.frames()])
    np.testing.assert_array_equal(encoder.encode(episode), expected)
    with pytest.raises(InputError, match=r"made \(\) of 8 frames"):
        CallableEncoder(lambda frames: 1.0, "wrong").encode(episode)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Random DINOv2, SigLIP and SigLIP2 models of a few thousand weights, saved as the published ones are."""
    transformers = pytest.importorskip("transformers", reason="needs prism-irl[robots]")
    import torch

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    folder = tmp_path_factory.mktemp("models")
    torch.manual_seed(0)
    tiny = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    text = {**tiny, "vocab_size": 50_000, "max_position_embeddings": 4}
    text |= {"hidden_size": 16, "num_hidden_layers": 1}
    dino = transformers.Dinov2Config(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, image_size=28, patch_size=14
    )
    transformers.Dinov2Model(dino).save_pretrained(folder / "dinov2")
    transformers.BitImageProcessorPil(
        size={"shortest_edge": 32}, crop_size={"height": 28, "width": 28}
    ).save_pretrained(folder / "dinov2")
    siglip = transformers.SiglipConfig(text_config=text, vision_config={**tiny, "image_size": 32, "patch_size": 8})
    transformers.SiglipModel(siglip).save_pretrained(folder / "siglip")
    transformers.SiglipImageProcessorPil(size={"height": 32, "width": 32}).save_pretrained(folder / "siglip")
    siglip2 = transformers.Siglip2Config(text_config=text, vision_config={**tiny, "num_patches": 16, "patch_size": 8})
    transformers.Siglip2Model(siglip2).save_pretrained(folder / "siglip2")
    transformers.Siglip2ImageProcessorPil(patch_size=8, max_num_patches=16).save_pretrained(folder / "siglip2")
    return folder


@pytest.mark.parametrize("name", ["dinov2", "siglip", "siglip2"])
def test_pretrained_models_from_a_folder(models, source, name):
    encoder = make_encoder(str(models / name), batch_size=3, device="cpu")
    assert isinstance(encoder, PretrainedEncoder)
    episode = next(iter(source()))
    vectors = encoder.encode(episode)
    assert vectors.shape == (8, 16)
    assert vectors.dtype == np.float32
    assert np.ptp(vectors, axis=0).max() > 1e-4  # frames differ, so do their vectors
    other = make_encoder(str(models / name), batch_size=8, device="cpu").encode(episode)
    np.testing.assert_allclose(vectors, other, atol=1e-4)


def test_dinov2_is_the_pooled_class_token(models, source):
    import torch
    from transformers import AutoImageProcessor, AutoModel

    path = str(models / "dinov2")
    frames = list(next(iter(source())).frames())
    with torch.inference_mode():
        inputs = AutoImageProcessor.from_pretrained(path)(images=frames, return_tensors="pt")
        expected = AutoModel.from_pretrained(path).eval()(**inputs).last_hidden_state[:, 0]
    np.testing.assert_allclose(PretrainedEncoder(path, device="cpu").batch(frames), expected, atol=1e-4)


def test_pickled_weights_are_refused(models, tmp_path):
    import shutil

    import torch
    from safetensors.torch import load_file

    shutil.copytree(models / "dinov2", tmp_path / "model")
    torch.save(load_file(tmp_path / "model/model.safetensors"), tmp_path / "model/pytorch_model.bin")
    (tmp_path / "model/model.safetensors").unlink()
    with pytest.raises(InputError, match="could not be loaded"):
        PretrainedEncoder(str(tmp_path / "model"))


def test_unknown_names(tmp_path):
    with pytest.raises(InputError, match="no encoder 'resnet'; choose pixels, proprio, dinov2-small"):
        make_encoder("resnet")
    with pytest.raises(InputError, match="There is no folder"):
        make_encoder(str(tmp_path / "absent"))
