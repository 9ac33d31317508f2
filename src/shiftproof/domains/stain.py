"""Another stain of the same tissue: haematoxylin and eosin told apart by their colours, and more or less of each."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shiftproof.types import FloatArray

__all__ = ["STAINS", "change_stain"]

HAEMATOXYLIN = (0.65, 0.70, 0.29)
EOSIN = (0.07, 0.99, 0.11)


def _unit(vector: FloatArray) -> FloatArray:
    return vector / np.linalg.norm(vector)


STAINS: FloatArray = np.stack(
    [_unit(np.array(HAEMATOXYLIN)), _unit(np.array(EOSIN)), _unit(np.cross(HAEMATOXYLIN, EOSIN))]
)
"""Optical density of red, green and blue in one unit of haematoxylin, of eosin and of what is neither (3 x 3)."""


def change_stain(images: NDArray[np.uint8], haematoxylin: float, eosin: float) -> NDArray[np.uint8]:
    """The images (N x H x W x 3) as they would be with `haematoxylin` and `eosin` times as much of each stain.

    By the law of Beer and Lambert a stain subtracts light: the optical density of a pixel, minus the logarithm of its
    light, is the sum of stains, each its amount times its own colour. Amounts are solved for, multiplied, and put
    together again; what is neither stain stays, and so does white. Light is (value + 1) / 256, so that black has a
    logarithm. Ruifrok & Johnston, "Quantification of histochemical staining by color deconvolution" (2001).

    >>> change_stain(np.array([[[[200, 100, 180], [255, 255, 255]]]], np.uint8), 1, 2).tolist()
    [[[[191, 50, 167], [255, 255, 255]]]]
    """
    factors = np.array([haematoxylin, eosin, 1.0])
    # what multiplies optical densities: into amounts of stains, by the factors, and back
    change = np.linalg.inv(STAINS) @ np.diag(factors) @ STAINS
    light = np.exp(np.log((np.arange(256) + 1) / 256)[images] @ change)
    changed: NDArray[np.uint8] = np.clip(np.rint(256 * light - 1), 0, 255).astype(np.uint8)
    return changed
