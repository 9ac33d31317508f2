"""Samples as pictures for a page: pixels to PNG or JPEG, differences amplified."""

from __future__ import annotations

import base64
import io
import math
import re

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from shiftproof.display.pictures import amplify, pixels_of
from shiftproof.types import FloatArray

__all__ = ["EDGE", "EXACT", "amplify", "encode_picture", "is_picture", "note_on_size", "pixels_of", "stored_numbers"]

EDGE = 96
"""Pixels of the longer side of a picture, at most."""
EXACT = 32
"""Images of up to so many pixels are stored pixel by pixel (PNG); larger ones are compressed (JPEG)."""
_QUALITY = 85
_COMPRESSED = 0.25
"""Bytes a number of a compressed picture, about."""
_FORM = re.compile(r"data:image/(png|jpeg);base64,[A-Za-z0-9+/]+=*")


def encode_picture(image: NDArray[np.float32] | FloatArray, third: float = 0.0) -> str:
    """An image (C x H x W, in [0, 1]) as a data URL: small ones pixel by pixel, others at most `EDGE` wide and high."""
    whole = Image.fromarray(pixels_of(image, third))
    buffer = io.BytesIO()
    if max(whole.size) <= EXACT:
        whole.save(buffer, "PNG", optimize=True)
        return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
    if max(whole.size) > EDGE:
        whole.thumbnail((EDGE, EDGE), Image.Resampling.LANCZOS)
    whole.save(buffer, "JPEG", quality=_QUALITY)
    return f"data:image/jpeg;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def is_picture(text: str) -> bool:
    """Whether a text is a data URL that `encode_picture` may have made, and nothing that a page could load or run."""
    return _FORM.fullmatch(text) is not None


def stored_numbers(shape: tuple[int, ...]) -> int:
    """About how many bytes a picture of an image (C x H x W) takes, at most; by its shape, not by what it shows."""
    _, height, width = shape
    shrunk = min(1.0, EDGE / max(height, width))
    numbers = 3 * math.ceil(height * shrunk) * math.ceil(width * shrunk)
    return numbers if max(height, width) <= EXACT else math.ceil(_COMPRESSED * numbers)


def note_on_size(shape: tuple[int, ...]) -> str:
    """What a reader should know of pictures of images of a shape (C x H x W); nothing where they are exact."""
    channels, height, width = shape
    more = f" Of {channels} channels the first three are shown." if channels > 3 else ""
    if max(height, width) <= EXACT:
        return more.strip()
    how = "shrunk and compressed" if max(height, width) > EDGE else "compressed"
    return f"Pictures are {how}; the models saw {width} x {height} pixels.{more}"
