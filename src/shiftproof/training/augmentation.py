"""Random changes of training images that leave their class alone: DomainBed's crops, flips, colours and gray."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shiftproof.perturbations.corruptions.colour import luminance
from shiftproof.perturbations.warp import affine_warp
from shiftproof.rng import numpy_generator

__all__ = ["augment_images", "augmentation_draws"]

TRIES = 10
"""Crops that are drawn until one lies inside the image, as torchvision does."""
SMALLEST, NARROWEST = 0.7, 3 / 4
"""Share of the area that a crop has at least, and how much narrower than high it may be."""
JITTER = 0.3
GRAY = 0.1
# area and shape of every crop; place across and down; flip; four colour changes and their order; gray
_DRAWS = 2 * TRIES + 12


def augmentation_draws(seed: int, domain: str, step: int, count: int) -> NDArray[np.float64]:
    """What happens to the samples of a minibatch of a domain: numbers in [0, 1), count x what one sample takes."""
    return numpy_generator(seed, "augmentation", domain, step).random((count, _DRAWS))


def augment_images(images: Tensor, draws: NDArray[np.float64]) -> Tensor:
    """Images (N x C x H x W in [0, 1]), each changed as its row of draws says; still in [0, 1].

    Each is cut out at 70 to 100 % of its area and brought back to size, mirrored in half of the cases, changed in
    brightness, contrast, saturation and hue by up to 0.3 in a random order, and gray in one of ten. Images with one or
    two channels keep the colours they have, and change in brightness and contrast.
    """
    crops, rest = draws[:, : 2 * TRIES], draws[:, 2 * TRIES :]
    images = affine_warp(images, _crops(crops, rest[:, :3], images.shape[-2:])).clamp_(0, 1)
    images = _jitter(images, rest[:, 3:7], rest[:, 7:11])
    if images.shape[1] == 3:
        gray = torch.from_numpy(rest[:, 11] < GRAY).to(images.device)
        images[gray] = luminance(images[gray]).expand(-1, 3, -1, -1)
    return images


def _crops(candidates: NDArray[np.float64], places: NDArray[np.float64], shape: torch.Size) -> Tensor:
    """Where each pixel of the result is read (N x 2 x 3): the first candidate inside the image, else all of it."""
    area = SMALLEST + (1 - SMALLEST) * candidates[:, :TRIES]
    ratio = np.exp(math.log(NARROWEST) * (1 - 2 * candidates[:, TRIES:]))
    # shares of the sides; ratio is that of pixels
    aspect = shape[1] / shape[0]
    wide, high = np.sqrt(area * ratio / aspect), np.sqrt(area / ratio * aspect)
    inside = (wide <= 1) & (high <= 1)
    first, rows = inside.argmax(1), np.arange(len(candidates))
    fits = inside.any(1)
    wide, high = (np.where(fits, one[rows, first], 1.0) for one in (wide, high))
    across, down = ((1 - one) * (2 * place - 1) for one, place in ((wide, places[:, 0]), (high, places[:, 1])))
    mirror, none = np.where(places[:, 2] < 0.5, -1.0, 1.0), np.zeros(len(rows))
    matrices = np.stack([wide * mirror, none, across, none, high, down], 1)
    return torch.from_numpy(matrices.reshape(-1, 2, 3).astype(np.float32))


def _jitter(images: Tensor, strengths: NDArray[np.float64], keys: NDArray[np.float64]) -> Tensor:
    """Brightness, contrast, saturation and hue, by a strength each, in the order of keys of one sample."""
    changes = _COLOURS if images.shape[1] == 3 else _COLOURS[:2]
    amounts = torch.from_numpy((2 * strengths - 1) * JITTER).to(images)
    order = torch.from_numpy(keys.argsort(1)).to(images.device)
    for place in range(len(_COLOURS)):
        for number, change in enumerate(changes):
            chosen = torch.nonzero(order[:, place] == number)[:, 0]
            if len(chosen):
                images[chosen] = change(images[chosen], amounts[chosen, number, None, None, None]).clamp_(0, 1)
    return images


def _brighter(images: Tensor, amount: Tensor) -> Tensor:
    return images * (1 + amount)


def _more_contrast(images: Tensor, amount: Tensor) -> Tensor:
    mean = (luminance(images) if images.shape[1] == 3 else images).mean((1, 2, 3), keepdim=True)
    return mean + (images - mean) * (1 + amount)


def _more_colour(images: Tensor, amount: Tensor) -> Tensor:
    gray = luminance(images)
    return gray + (images - gray) * (1 + amount)


def _other_hue(images: Tensor, amount: Tensor) -> Tensor:
    """Colours turned round the circle of hues by `amount` of a turn; the largest and smallest of a pixel stay."""
    largest, smallest = images.amax(1, keepdim=True), images.amin(1, keepdim=True)
    spread = largest - smallest
    red, green, blue = images.unbind(1)
    safe = spread[:, 0].clamp(min=1e-12)
    sixth = torch.where(
        largest[:, 0] == red,
        (green - blue) / safe,
        torch.where(largest[:, 0] == green, 2 + (blue - red) / safe, 4 + (red - green) / safe),
    )
    turned = (sixth[:, None] + 6 * amount) % 6
    # each channel falls from 1 to 0 and rises again as the hue moves away from its own
    away = torch.cat([((turned - own + 3) % 6 - 3).abs() for own in (0, 2, 4)], 1)
    return smallest + spread * (2 - away).clamp(0, 1)


_COLOURS: tuple[Callable[[Tensor, Tensor], Tensor], ...] = (_brighter, _more_contrast, _more_colour, _other_hue)
