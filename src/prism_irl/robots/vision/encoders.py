"""From the frames or states of an episode to one vector per step.

Frozen vision models (DINOv2, SigLIP2) come through `transformers` from a local folder or a hub id, as safetensors and
without remote code. Three encoders need no weights: ``pixels``, the leading principal components of small
colour pictures, ``FixedEncoder``, random projections of them, and ``proprio``, the recorded states. A function of a
batch of frames is a `FrameEncoder` of two methods.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from prism_irl.devices import resolve_device
from prism_irl.errors import InputError, brief
from prism_irl.optional import need
from prism_irl.robots.episodes import Episode, EpisodeSource, Frame

Vectors = npt.NDArray[np.float32]
HUB = {
    "dinov2-small": "facebook/dinov2-small",
    "dinov2-base": "facebook/dinov2-base",
    "dinov2-large": "facebook/dinov2-large",
    "siglip2-base": "google/siglip2-base-patch16-224",
}
"""Short names of the paper's encoders."""


class Encoder(ABC):
    """One vector per step of an episode."""

    def __init__(self) -> None:
        self.state: dict[str, npt.NDArray[Any]] = {}  # what `fit` learned

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """What decides the vectors, as JSON: embeddings cached under another description are not reused."""

    @abstractmethod
    def encode(self, episode: Episode) -> Vectors:
        """Vectors of an episode, (T, m)."""

    def fit(self, source: EpisodeSource) -> None:
        """Look at a sample of the dataset; most encoders need nothing."""
        del source

    def learned(self, name: str) -> npt.NDArray[Any]:
        """One of the arrays of `state`; before `fit` there is none."""
        if name not in self.state:
            raise InputError(f"The {self.describe()['encoder']} encoder has seen no data; call fit first.")
        return self.state[name]


def _sample(source: EpisodeSource, read: Callable[[Episode], Vectors], wanted: int) -> Vectors:
    """Vectors of the first episodes, at least ``wanted`` of them where there are so many."""
    parts, n = list[Vectors](), 0
    for _, vectors in source.visit(read):
        parts.append(vectors)
        n += len(vectors)
        if n >= wanted:
            break
    if not parts:
        raise InputError(f"{source.folder} has no readable episode.")
    return np.concatenate(parts)


class ProprioEncoder(Encoder):
    """The recorded states, standardised on a ``sample`` of steps so that metres and radians weigh alike."""

    def __init__(self, sample: int = 50_000) -> None:
        super().__init__()
        self.sample = sample

    def describe(self) -> dict[str, Any]:
        """Name and sample."""
        return {"encoder": "proprio", "sample": self.sample}

    def fit(self, source: EpisodeSource) -> None:
        """Mean and spread of the first steps."""
        states = _sample(source, _states, self.sample).astype(np.float64)
        spread = states.std(axis=0)
        self.state = {"mean": states.mean(axis=0), "scale": np.where(spread > 1e-8, spread, 1.0)}

    def encode(self, episode: Episode) -> Vectors:
        """Standardised states."""
        return np.asarray((_states(episode) - self.learned("mean")) / self.learned("scale"), dtype=np.float32)


def _states(episode: Episode) -> Vectors:
    if episode.states is None:
        raise InputError(f"Episode {episode.name} has no states; choose an encoder that reads frames, such as pixels.")
    return episode.states


class FrameEncoder(Encoder):
    """An encoder of frames, in batches."""

    def __init__(self, camera: str | None = None, batch_size: int = 64) -> None:
        super().__init__()
        self.camera, self.batch_size = camera, batch_size

    @abstractmethod
    def batch(self, frames: list[Frame]) -> Vectors:
        """Vectors of some frames, (n, m)."""

    def encode(self, episode: Episode) -> Vectors:
        """Vectors of all frames of one camera."""
        frames = episode.frames(self.camera)
        parts = []
        while some := list(islice(frames, self.batch_size)):
            vectors = np.asarray(self.batch(some), dtype=np.float32)
            if vectors.ndim != 2 or len(vectors) != len(some):
                raise InputError(f"The encoder made {vectors.shape} of {len(some)} frames; it must return (n, m).")
            if not np.isfinite(vectors).all():
                raise InputError(f"The encoder made numbers that are not finite of episode {episode.name}.")
            parts.append(vectors)
        return np.concatenate(parts)


class PixelEncoder(FrameEncoder):
    """Leading principal components of pixels of one camera (default: the first), fitted on a ``sample`` of frames.

    Frames become size × size × 3 by averaging; at most so many ``components`` are kept.
    """

    def __init__(self, camera: str | None = None, size: int = 16, components: int = 64, sample: int = 4000) -> None:
        super().__init__(camera)
        self.size, self.components, self.sample = size, components, sample

    def describe(self) -> dict[str, Any]:
        """Name, camera and sizes."""
        sizes = {"size": self.size, "components": self.components, "sample": self.sample}
        return {"encoder": "pixels", "camera": self.camera, **sizes}

    def fit(self, source: EpisodeSource) -> None:
        """Principal components of frames taken at equal distances from episodes, a few from each."""
        from sklearn.decomposition import PCA

        per_episode = max(4, -(-self.sample // (source.n_episodes or 200)))

        def some(episode: Episode) -> Vectors:
            stride = max(len(episode) // per_episode, 1)
            return averages(list(islice(episode.frames(self.camera), 0, None, stride)), self.size)

        pixels = _sample(source, some, self.sample)
        found = PCA(min(self.components, *pixels.shape), svd_solver="covariance_eigh").fit(pixels)
        self.state = {"mean": found.mean_.astype(np.float32), "basis": found.components_.astype(np.float32)}

    def batch(self, frames: list[Frame]) -> Vectors:
        """Components of some frames, (n, components)."""
        vectors: Vectors = (averages(frames, self.size) - self.learned("mean")) @ self.learned("basis").T
        return vectors


class FixedEncoder(FrameEncoder):
    """Projections of small pictures on directions that were drawn once for all: neither weights nor a sample.

    New recordings get the same numbers as those of the fit without anything being kept, and differences between
    pictures keep their sizes, roughly. Principal components of pixels say more in as many numbers, and have to be kept.
    """

    def __init__(self, camera: str | None = None, size: int = 8, components: int = 16) -> None:
        super().__init__(camera)
        self.size, self.components = size, components
        drawn = np.random.default_rng(0).standard_normal((3 * size * size, components))
        self.directions: Vectors = (drawn / size).astype(np.float32)

    def describe(self) -> dict[str, Any]:
        """Name, camera and sizes."""
        return {"encoder": "fixed", "camera": self.camera, "size": self.size, "components": self.components}

    def batch(self, frames: list[Frame]) -> Vectors:
        """Projections of some frames, (n, components)."""
        return np.asarray((averages(frames, self.size) - 0.5) @ self.directions, dtype=np.float32)


def averages(frames: list[Frame], size: int) -> Vectors:
    """Averages of blocks of pictures, flat, between 0 and 1: (n, size·size·3)."""
    pictures = torch.from_numpy(np.stack(frames)).permute(0, 3, 1, 2).float() / 255
    small = torch.nn.functional.adaptive_avg_pool2d(pictures, size)
    return small.reshape(len(frames), -1).numpy()


class PretrainedEncoder(FrameEncoder):
    """A frozen vision model by a name of `HUB`, a hub id or a folder: DINOv2's class token, SigLIP's pooled picture."""

    def __init__(self, model: str, camera: str | None = None, batch_size: int = 64, device: str = "auto") -> None:
        super().__init__(camera, batch_size)
        self.model = HUB.get(model, model)
        self.device = resolve_device(device)
        transformers = need("transformers", "robots")
        if Path(self.model).is_absolute() and not Path(self.model).is_dir():
            raise InputError(f"There is no folder {self.model} with a model.")
        try:
            safe = {"trust_remote_code": False}
            self._processor = transformers.AutoImageProcessor.from_pretrained(self.model, **safe)
            network = transformers.AutoModel.from_pretrained(self.model, use_safetensors=True, **safe)
        except (OSError, ValueError, KeyError, ImportError) as error:
            raise InputError(
                f"The model {self.model} could not be loaded ({brief(error)}); give a folder with its config.json, "
                "model.safetensors and preprocessor_config.json, or a hub id where there is a network."
            ) from None
        self._network = network.to(self.device).eval().requires_grad_(False)

    def describe(self) -> dict[str, Any]:
        """Model, camera and, for weights on disk, their size."""
        weights = Path(self.model) / "model.safetensors"
        size = weights.stat().st_size if weights.is_file() else None
        return {"encoder": "pretrained", "model": self.model, "bytes": size, "camera": self.camera}

    @torch.inference_mode()
    def batch(self, frames: list[Frame]) -> Vectors:
        """Pooled features of some frames, (n, m) float32."""
        inputs = self._processor(images=frames, return_tensors="pt").to(self.device)
        # models of pictures and text have a name of their own for it
        found = getattr(self._network, "get_image_features", self._network)(**inputs)
        if not isinstance(found, torch.Tensor):
            pooled = getattr(found, "pooler_output", None)
            found = found.last_hidden_state[:, 0] if pooled is None else pooled
        return np.asarray(found.float().cpu().numpy())


def make_encoder(name: str, *, camera: str | None = None, batch_size: int = 64, device: str = "auto") -> Encoder:
    """Encoder by name: pixels, proprio, a short name of `HUB`, a local folder or a hub id."""
    if name == "proprio":
        return ProprioEncoder()
    if name == "pixels":
        return PixelEncoder(camera)
    if name in HUB or "/" in name or Path(name).is_dir():
        return PretrainedEncoder(name, camera, batch_size, device)
    raise InputError(f"There is no encoder {name!r}; choose pixels, proprio, {', '.join(HUB)}, a folder or a hub id.")
