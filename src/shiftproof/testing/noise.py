"""Whether a noise keeps its promises, on classifiers of which the true radius is known."""

from __future__ import annotations

import math
from typing import get_args

import numpy as np
import torch
from torch import Tensor

from shiftproof.perturbations.noise import Noise, draw
from shiftproof.perturbations.noise.noise import Law
from shiftproof.perturbations.norms import DUALS
from shiftproof.perturbations.text import decode, encode, parts_of, plain
from shiftproof.rng import numpy_generator, torch_generator
from shiftproof.statistics import upper_bound
from shiftproof.testing.require import require, require_method

__all__ = ["check_noise"]

_SHAPE = (3, 12, 10)
_EMBEDDED = (7, 5)
"""Tokens and numbers of each, for noise on embeddings."""
_COUNT = 6
_WIDTH = 120
_TEXTS = (
    "We stayed for a week, and it was lovely.",
    "naïve café",
    plain("a claim of a few words", "its answer"),
    "",
    "x",
)
_DRAWS = 20_000
_ALPHA = 1e-9
"""How likely one bound on a vote is wrong: so seldom that a radius above the truth is a mistake of the noise."""
_IDENTITY = 1e-5
"""What one interpolation of an image that is not moved may lose to rounding."""


def check_noise(noise: Noise) -> None:
    """Whether a noise keeps its promises.

    A frozen dataclass that can be written down and made again; draws of the size it states; no change for parameters of
    0; an image that depends on its own parameters only; radii that shrink with the votes against a class, and say
    nothing without a majority; in l2, l1 and linf none above the true one of linear classifiers of the parameters. Of
    text: rows of bytes that are texts as they are kept again, whatever parameters of 0 do. Noise on embeddings is
    checked as one on images is.
    """
    name = type(noise).__name__
    require(isinstance(noise, Noise), f"{name} should derive from shiftproof.perturbations.noise.Noise")
    require_method(noise)
    _check_facts(name, noise)
    _check_texts(name, noise) if len(_shape(noise)) == 1 else _check_images(name, noise)
    _check_radius(name, noise)
    if _order(noise) in DUALS:
        _check_truth(name, noise)


def _check_facts(name: str, noise: Noise) -> None:
    require(noise.law in get_args(Law), f"{name} has the law {noise.law!r}; known are {', '.join(get_args(Law))}")
    require(0 < noise.scale < math.inf, f"{name} has the scale {noise.scale!r}; it should be a finite number above 0")
    require(bool(noise.norm and noise.units), f"{name} does not say in which norm and units its radius is")
    require("radius" in noise.claim, f"{name} does not say in its claim what holds below the radius")
    shape = _shape(noise)
    size = noise.size(shape)
    require(isinstance(size, int) and size > 0, f"{name} draws {size!r} numbers for an input of shape {shape}")


def _shape(noise: Noise) -> tuple[int, ...]:
    """Of an input to try it on: an image, a row of bytes, or embeddings of tokens."""
    if noise.embedded:
        return _EMBEDDED
    return (_WIDTH,) if noise.kind == "text" else _SHAPE


def _order(noise: Noise) -> str:
    """The norm of its parameters: l2 for that of embeddings."""
    return noise.norm.removeprefix("embedding-") if noise.embedded else noise.norm


def _check_texts(name: str, noise: Noise) -> None:
    texts = encode(_TEXTS, _WIDTH)
    parameters = _parameters(noise, len(texts))
    noisy = _check_apply(name, noise, texts, parameters)
    require(not torch.equal(noisy, texts), f"{name} changes nothing")
    for text in decode(noisy):
        require(text == plain(*parts_of(text)), f"{name} makes {text!r}, which is no text as texts are kept")


def _check_images(name: str, noise: Noise) -> None:
    shape = _shape(noise)
    images = torch.rand(_COUNT, *shape, generator=torch_generator(0, "testing", "noise"))
    zeros = torch.zeros(_COUNT, noise.size(shape))
    unchanged = noise.apply(images, zeros)
    shown = f"{tuple(unchanged.shape)} of {unchanged.dtype}"
    same_form = unchanged.shape == images.shape and unchanged.dtype == images.dtype
    require(same_form, f"{name} makes {shown} out of images of shape {tuple(images.shape)} of {images.dtype}")
    require(_near(unchanged, images, _IDENTITY), f"{name} changes images although all parameters are 0")
    parameters = _parameters(noise, _COUNT)
    noisy = noise.apply(images, parameters)
    require(not _near(noisy, images, _IDENTITY), f"{name} changes nothing")
    if noise.additive:
        require(_near(noisy, images + parameters.view_as(images), 1e-6), f"{name} is additive, but adds something else")
    _check_apply(name, noise, images, parameters)


def _check_apply(name: str, noise: Noise, images: Tensor, parameters: Tensor) -> Tensor:
    """What holds of images and rows of text alike: an input and its own parameters, and nothing else."""
    before, state = images.clone(), torch.get_rng_state()
    noisy = noise.apply(images, parameters)
    shown = f"{tuple(noisy.shape)} of {noisy.dtype}"
    same_form = noisy.shape == images.shape and noisy.dtype == images.dtype
    require(same_form, f"{name} makes {shown} out of inputs of shape {tuple(images.shape)} of {images.dtype}")
    for row in range(len(images)):
        alone = noise.apply(images[row : row + 1], parameters[row : row + 1])
        require(_near(alone[0], noisy[row], 1e-6), f"{name}: an image depends on its company")
    many = noise.apply(images[:1], parameters)
    repeated = noise.apply(images[:1].repeat(len(images), *[1] * (images.dim() - 1)), parameters)
    require(_near(many, repeated, 1e-6), f"{name}: one image with many parameters is not that image many times")
    require(torch.equal(images, before), f"{name} overwrites the images that it is given")
    require(torch.equal(state, torch.get_rng_state()), f"{name} draws from the global random state")
    return noisy


def _check_radius(name: str, noise: Noise) -> None:
    miss, rival = np.meshgrid([0.0, 1e-12, 0.2, 0.5, 0.7, 1.0], [0.0, 1e-12, 0.2, 0.5, 1.0], indexing="ij")
    radius = noise.radius(miss, rival)
    require(radius.shape == miss.shape, f"{name} gives radii of shape {radius.shape} for bounds of {miss.shape}")
    require(not np.isnan(radius).any(), f"{name}: a radius is not a number")
    falls = (radius[:-1] >= radius[1:]).all() and (radius[:, :-1] >= radius[:, 1:]).all()
    require(bool(falls), f"{name}: a radius grows with the votes against the class")
    require(bool((radius[3:, 3:] <= 0).all()), f"{name} gives a radius to a class that may have no majority")
    require(bool((radius[-1] <= 0).all()), f"{name} gives a radius to a class of which nothing is known")
    require(bool(radius[0, 0] > 0), f"{name} gives no radius to a class that has all votes")


def _check_truth(name: str, noise: Noise) -> None:
    """Planes through the parameters: symmetric noise does not move them, so that their distance is the true radius."""
    parameters, size = _parameters(noise, _DRAWS).double().numpy(), noise.size(_shape(noise))
    generator = numpy_generator(0, "testing", "noise", "planes")
    planes = [np.eye(size)[0], np.ones(size), *generator.standard_normal((3, size))]
    for weights in planes:
        along = parameters @ weights
        for part in (0.1, 0.5, 1.0, 2.0):
            margin = part * float(along.std())
            miss = upper_bound(int((along < -margin).sum()), _DRAWS, _ALPHA)
            radius = float(noise.radius(miss, miss))
            truth = margin / float(np.linalg.norm(weights, DUALS[_order(noise)]))
            require(
                radius <= truth * (1 + 1e-9), f"{name} gives the radius {radius:.4g}, where the truth is {truth:.4g}"
            )


def _parameters(noise: Noise, count: int) -> Tensor:
    draws = draw(noise, _shape(noise), count, numpy_generator(0, "testing", "noise", "draws"))
    return torch.from_numpy(draws * noise.scale).float()


def _near(one: Tensor, other: Tensor, tolerance: float) -> bool:
    return bool(((one - other).abs() <= tolerance).all())
