"""Small images in folders for the tests of shifts: a dark and a bright half, on a background of some level."""

from pathlib import Path

import numpy as np
from PIL import Image


def write_images(folder: Path, count: int, level: int, seed: int, *, side: int = 0, size: int = 8) -> Path:
    """Gray images whose left (`side` 0) or right half is brighter than the level; the same for the same seed."""
    generator = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    for index in range(count):
        pixels = generator.random((size, size)) * 60 + level
        half = slice(0, size // 2) if side == 0 else slice(size // 2, size)
        pixels[:, half] += 90
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(folder / f"{index}.png")
    return folder
