"""Frames in and out of video files, through PyAV (the extra ``robots``).

Decoding is a generator that holds one frame; a file that ends too early or cannot be decoded is an
`InputError` of the caller's making, never a shorter recording.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from prism_irl.errors import brief
from prism_irl.optional import need
from prism_irl.robots.episodes import DamagedEpisodeError, Frame, damaged

MAX_PIXELS = 64_000_000
"""A larger picture is refused before it is decoded: a few bytes can claim to be gigabytes of pixels."""


def read_video(path: Path, episode: str, *, start: float = 0.0, n_frames: int | None = None) -> Iterator[Frame]:
    """Yield the frames of a video, or ``n_frames`` of them from ``start`` seconds on.

    Parameters
    ----------
    episode : str
        Named in the error when the video is missing or broken.
    """
    av = need("av", "robots")
    if not path.is_file():
        raise damaged(episode, f"its video {path.name} is missing")
    count = 0
    try:
        with av.open(str(path)) as container:
            if not container.streams.video:
                raise damaged(episode, f"{path.name} holds no video")
            stream = container.streams.video[0]
            _check_size(stream.codec_context.width, stream.codec_context.height, episode, path.name)
            stream.thread_type = "AUTO"
            rate = float(stream.average_rate or 1)
            if start > 0:  # to the key frame before; what lies between is decoded and thrown away
                container.seek(max(int((start - 0.5 / rate) / stream.time_base), 0), stream=stream, backward=True)
            for frame in container.decode(stream):
                if n_frames is not None and count >= n_frames:
                    return
                if start > 0 and frame.time is not None and frame.time < start - 0.5 / rate:
                    continue
                count += 1
                yield frame.to_ndarray(format="rgb24")
    except (av.error.FFmpegError, OSError, ValueError) as error:
        if isinstance(error, DamagedEpisodeError):
            raise
        raise damaged(episode, f"its video {path.name} breaks off after {count} frames ({brief(error)})") from None


def decode_image(data: bytes, episode: str, what: str) -> Frame:
    """One JPEG or PNG picture, (height, width, 3)."""
    image_module = need("PIL.Image", "robots")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's warning about large pictures: ours are refused below
            with image_module.open(io.BytesIO(data), formats=("JPEG", "PNG")) as image:
                _check_size(image.width, image.height, episode, what)
                return np.asarray(image.convert("RGB"), dtype=np.uint8)
    except (OSError, ValueError, SyntaxError, image_module.DecompressionBombError) as error:
        if isinstance(error, DamagedEpisodeError):
            raise
        raise damaged(episode, f"{what} cannot be decoded ({brief(error)})") from None


def _check_size(width: int, height: int, episode: str, what: str) -> None:
    if width * height > MAX_PIXELS:
        raise damaged(episode, f"{what} claims {width} × {height} pixels, more than any camera here has")
