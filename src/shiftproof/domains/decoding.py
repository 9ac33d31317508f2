"""From the bytes of an image file to pixels."""

from __future__ import annotations

import io

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageOps

__all__ = ["decode", "image_shape", "is_image"]

ENDINGS = {"png", "jpg", "jpeg", "bmp", "tif", "tiff", "webp", "pgm", "ppm", "gif"}
_SIXTEEN_BIT = {"I;16", "I;16B", "I;16L", "I;16N", "I"}


def decode(
    content: bytes, shape: tuple[int, int, int], *, square: bool = False, shorter: int | None = None
) -> NDArray[np.generic]:
    """An image file as channels x height x width: uint8, or float32 in [0, 1] where it has more than 8 bits.

    Pillow reads 16-bit gray at full depth and 16-bit colour at its upper 8 bits. Another size is stretched, not
    cropped, unless `square` asks for the central square, or `shorter` for the centre of the image after its shorter
    side was brought to so many pixels; a camera's note that an image lies on its side is obeyed.
    """
    channels, height, width = shape
    with Image.open(io.BytesIO(content)) as file:
        image: Image.Image = ImageOps.exif_transpose(file)
        if image.mode in _SIXTEEN_BIT:
            values = np.asarray(image)
            if values.min() < 0 or values.max() > 65535:
                raise ValueError(
                    f"its values run from {values.min()} to {values.max()}; 8 and 16 bits are read, not 32"
                )
            image = Image.fromarray(values.astype(np.float32) / 65535)
        elif image.mode == "F":
            values = np.asarray(image)
            if not (np.isfinite(values).all() and values.min() >= 0 and values.max() <= 1):
                raise ValueError(
                    f"its floating-point values run from {values.min():.3g} to {values.max():.3g}, not in [0, 1]"
                )
        elif image.mode != "L" or channels == 3:
            image = image.convert("RGB" if channels == 3 else "L")
        if square:
            side = min(image.size)
            left, top = (image.width - side) // 2, (image.height - side) // 2
            image = image.crop((left, top, left + side, top + side))
        if shorter is not None:
            image = _centre(image, shorter, width, height)
        if image.size != (width, height):
            image = image.resize((width, height), Image.Resampling.BILINEAR)
        pixels = np.asarray(image)
    if pixels.ndim == 2:
        return np.array(np.broadcast_to(pixels, (channels, height, width)))
    return np.array(pixels.transpose(2, 0, 1), order="C")


def _centre(image: Image.Image, shorter: int, width: int, height: int) -> Image.Image:
    """The centre of an image whose shorter side is brought to so many pixels; all is rounded as torchvision does."""
    least = min(image.size)
    size = (int(shorter * image.width / least), int(shorter * image.height / least))
    if image.size != size:
        image = image.resize(size, Image.Resampling.BILINEAR)
    left, top = round((image.width - width) / 2), round((image.height - height) / 2)
    return image.crop((left, top, left + width, top + height))


def image_shape(content: bytes) -> tuple[int, int, int]:
    """Channels (1 or 3), height and width of an image file, from its header."""
    with Image.open(io.BytesIO(content)) as image:
        gray = image.mode in {"1", "L", "LA", "F"} | _SIXTEEN_BIT
        on_its_side = image.getexif().get(ExifTags.Base.Orientation, 1) >= 5
        height, width = (image.width, image.height) if on_its_side else (image.height, image.width)
        return 1 if gray else 3, height, width


def is_image(name: str) -> bool:
    """Whether a file's ending is that of an image."""
    stem, _, ending = name.rpartition(".")
    return ending.lower() in ENDINGS and not (stem == "" or stem.endswith("/"))
