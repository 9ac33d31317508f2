"""Textures of ice, grown from a fixed seed: branching crystals over veins and grain."""

from functools import lru_cache

import numpy as np
import torch
from scipy.fft import irfft2, rfft2
from torch import Tensor

from shiftproof.rng import numpy_generator
from shiftproof.types import FloatArray

__all__ = ["COLOURS", "CONTRASTS", "SIDE", "ice"]

SIDE = 520
"""Pixels along a side; textures have no seams."""
# mean colours and contrasts (standard deviations) as of photographs of frost: from dark and sharp to pale and even
COLOURS = (
    (0.31, 0.58, 0.65),
    (0.79, 0.8, 0.84),
    (0.77, 0.79, 0.82),
    (0.54, 0.6, 0.65),
    (0.44, 0.48, 0.53),
    (0.28, 0.37, 0.41),
)
CONTRASTS = (0.07, 0.09, 0.09, 0.11, 0.17, 0.16)

_CRYSTALS, _SIZES, _THICKNESS = 900, (12, 24, 48, 96), 1.0
_FREQUENCIES = np.hypot(np.fft.fftfreq(SIDE)[:, None], np.fft.rfftfreq(SIDE))


@lru_cache(maxsize=1)
def ice() -> Tensor:
    """The textures (one for each colour x SIDE x SIDE) with mean 0 and variance 1, cut off at 3 to either side."""
    textures = np.stack([_texture(numpy_generator(0, "ice", number)) for number in range(len(COLOURS))])
    return torch.from_numpy(textures).float()


def _texture(generator: np.random.Generator) -> FloatArray:
    waves = np.zeros((SIDE, SIDE // 2 + 1), np.complex128)
    for size in _SIZES:
        seeds = np.zeros((SIDE, SIDE))
        count = _CRYSTALS // size
        np.add.at(seeds, tuple(generator.integers(0, SIDE, (2, count))), generator.uniform(0.5, 2, count))
        waves += rfft2(seeds) * rfft2(_crystal(size, generator.uniform(0, np.pi / 3)))
    crystals = irfft2(waves * np.exp(-2 * (np.pi * _THICKNESS * _FREQUENCIES) ** 2), (SIDE, SIDE))
    veins = -np.abs(_clouds(generator, 1.6))
    layers = (
        (1 - np.exp(-crystals), 1.0),
        (veins, 0.5),
        (_clouds(generator, 1.2), 0.5),
        (_clouds(generator, 0.5), 0.3),
    )
    mixed = np.sum([weight * (layer - layer.mean()) / layer.std() for layer, weight in layers], 0)
    return np.asarray(mixed / np.std(mixed)).clip(-3, 3)


def _crystal(size: float, angle: float) -> FloatArray:
    """Six arms of `size` pixels with side branches, about the corner of a texture."""
    along = np.arange(0, size, 0.5)
    points = []
    for arm in angle + np.arange(6) * np.pi / 3:
        direction = np.array([np.sin(arm), np.cos(arm)])
        points.append(along[:, None] * direction)
        for start in np.arange(size / 6, size, size / 6):
            branch = along[along < 0.6 * (size - start)][:, None]
            for turn in (-np.pi / 3, np.pi / 3):
                points.append(start * direction + branch * np.array([np.sin(arm + turn), np.cos(arm + turn)]))
    places = np.concatenate(points)
    fading = 1.2 - np.hypot(*places.T) / size
    kernel = np.zeros((SIDE, SIDE))
    np.add.at(kernel, tuple(np.rint(places).astype(int).T % SIDE), fading.clip(0))
    return kernel


def _clouds(generator: np.random.Generator, smoothness: float) -> FloatArray:
    """Noise whose waves are weaker by the power `smoothness` of their frequency, with variance 1."""
    waves = rfft2(generator.standard_normal((SIDE, SIDE))) / np.maximum(_FREQUENCIES * SIDE, 2) ** smoothness
    noise = irfft2(waves, (SIDE, SIDE))
    return np.asarray((noise - noise.mean()) / noise.std())
