"""Pictures of the pages: small enough that a clone stays small."""

from __future__ import annotations

import io
from pathlib import Path

LARGEST = 150_000
"""Bytes of a picture."""


def small(figure: Path, picture: Path, width: int = 1100) -> None:
    """Write a figure as a picture with few colours, narrower if it would still be too large."""
    from PIL import Image

    with Image.open(figure) as image:
        shown = image.convert("RGB")
    if shown.width > width:
        shown = shown.resize((width, round(shown.height * width / shown.width)), Image.Resampling.LANCZOS)
    written = io.BytesIO()
    shown.quantize(128).save(written, "PNG", optimize=True)
    if written.tell() > LARGEST:
        return small(figure, picture, width * 9 // 10)
    picture.parent.mkdir(parents=True, exist_ok=True)
    picture.write_bytes(written.getvalue())
    return None
