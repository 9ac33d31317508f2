"""Votes of a prepared model on one image under a block of noise: a tile."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shiftproof.certification.sampling.bank import LARGEST_DRAW, grid_of, on_grid
from shiftproof.certification.sampling.exact import ExactLayer
from shiftproof.errors import ModelError
from shiftproof.models.prepared.prepare import Prepared
from shiftproof.perturbations.noise import Noise
from shiftproof.types import FloatArray, IntArray

__all__ = ["Voter"]


@dataclass(frozen=True, eq=False)
class Voter:
    """Counts votes. A vote depends on the image and the index of its noise, because slices of a block are fixed."""

    prepared: Prepared
    noise: Noise
    shape: tuple[int, ...]
    classes: int

    @cached_property
    def _layer(self) -> ExactLayer | None:
        """The model's first layer, if noise is added behind it, and if that gives what the layer itself gives."""
        affine, first = self.prepared.affine, self.prepared.first
        if not self.noise.additive or affine is None or first is None:
            return None
        grid = grid_of(self.noise)
        layer = ExactLayer(affine, grid, most=grid * (1 + LARGEST_DRAW * self.noise.scale))
        return layer if layer.agrees(first, self.prepared.reference.inputs.to(self.prepared.place)) else None

    def place_noise(self, draws: FloatArray) -> Tensor:
        """A block of standard draws, in the form in which all images use it."""
        grid = grid_of(self.noise)
        steps = torch.from_numpy(on_grid(draws * self.noise.scale, grid))
        if not self.noise.additive:
            return (steps.float() / grid).to(self.prepared.place)
        # drawn by the CPU, moved once, and met by all images
        if self._layer is not None:
            return self._layer.of_noise(steps.to(self.prepared.place))
        return self.prepared.to_layout(steps.float().view(-1, *self.shape).to(self.prepared.place))

    def place_image(self, image: Tensor) -> Any:
        """An image (1 x shape), in the form in which it meets every block of noise."""
        place = self.prepared.place
        if not self.noise.additive:
            return image.to(place)
        steps = torch.from_numpy(on_grid(image.numpy().astype(np.float64), grid_of(self.noise)))
        if self._layer is not None:
            return self._layer.of_input(steps.to(place))
        return self.prepared.to_layout(steps.float().to(place))

    def outputs(self, image: Any, noise: Tensor, count: int) -> Tensor:
        """What the model says of the first `count` samples of a placed block (count x outputs).

        The model sees whole slices, always the same ones, so that what it says of a sample depends on nothing else.
        """
        step = min(self.slice_size(image), len(noise))
        # not inference mode: a model may take gradients in its forward pass
        with torch.no_grad():
            if self.prepared.slices is not None:
                return self.prepared.slices.map(lambda piece: self.evaluate(image, piece), noise[:count])
            pieces = [noise[start : start + step] for start in range(0, count, step)]
            return torch.cat([self.evaluate(image, piece) for piece in pieces])[:count]

    def slice_size(self, image: Any) -> int:
        """How many samples the model sees at once: a power of two that depends on nothing but model and image."""
        return self.prepared.slice_size

    def evaluate(self, image: Any, piece: Tensor) -> Tensor:
        """What the model says of a placed image under a slice of placed noise."""
        if not self.noise.additive:
            return self.prepared(self.prepared.to_layout(self.noise.apply(image, piece)))
        if self._layer is not None:
            return self.prepared.rest(self._layer.value(piece + image))
        # both are whole numbers, so that the sum is exact and the quotient a function of it alone
        return self.prepared((piece + image).div_(grid_of(self.noise)))

    def winners(self, image: Any, noise: Tensor, count: int) -> Tensor:
        """The class that wins on each of the first `count` samples of a placed block, on the CPU."""
        top, winners = (each.cpu() for each in self.outputs(image, noise, count).max(1))
        if not bool(torch.isfinite(top).all()):
            raise ModelError("the model returns values that are not numbers (NaN or infinite) on noisy inputs")
        return winners

    def count(self, winners: Tensor) -> IntArray:
        """How often each class is among the winners."""
        return torch.bincount(winners, minlength=self.classes).numpy()

    def votes(self, image: Any, noise: Tensor, count: int) -> IntArray:
        """How often each class wins on the first `count` samples of a placed block."""
        return self.count(self.winners(image, noise, count))
