"""Pictures light enough to travel inside a page; apart from the figures, because it needs no matplotlib."""

from __future__ import annotations

from io import BytesIO

MAX_PIXELS = 40_000_000


def fewer_colours(png: bytes) -> bytes:
    """The same picture with a palette of 256 colours, which nobody tells from it, at a third of its weight.

    What cannot be read as a picture, or is far larger than any figure, comes back as it is.
    """
    from PIL import Image

    buffer = BytesIO()
    try:
        with Image.open(BytesIO(png), formats=["PNG"]) as picture:
            if picture.width * picture.height > MAX_PIXELS:
                return png
            few = picture.convert("RGB").quantize(256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
        few.save(buffer, format="PNG", optimize=True)
    except (OSError, ValueError, SyntaxError):  # what Pillow raises on damaged files
        return png
    return min(png, buffer.getvalue(), key=len)
