"""Votes of a prepared model on one image under a block of noise: a tile."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from shiftproof.certification.bank import grid_of, on_grid
from shiftproof.errors import ModelError
from shiftproof.models.prepare import Prepared
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

    @property
    def _split(self) -> bool:
        """Whether noise is added behind the model's first layer, which is affine."""
        return self.noise.additive and self.prepared.first is not None

    def place_noise(self, draws: FloatArray) -> Tensor:
        """A block of standard draws, in the form in which all images use it."""
        grid = grid_of(self.noise)
        steps = torch.from_numpy(on_grid(draws * self.noise.scale, grid).astype(np.float32))
        if not self.noise.additive:
            return steps / grid
        steps = steps.view(-1, *self.shape)
        if self._split:
            assert self.prepared.linear is not None
            with torch.inference_mode():
                return self.prepared.linear(steps.mul_(1 / grid))  # type: ignore[no-any-return]
        return _channels_last(steps)

    def place_image(self, image: Tensor) -> Tensor:
        """An image (1 x shape), in the form in which it meets every block of noise."""
        if not self.noise.additive:
            return image
        grid = grid_of(self.noise)
        steps = torch.from_numpy(on_grid(image.double().numpy(), grid).astype(np.float32))
        if self._split:
            assert self.prepared.first is not None
            with torch.inference_mode():
                return self.prepared.first(steps * (1 / grid))  # type: ignore[no-any-return]
        return _channels_last(steps)

    def votes(self, image: Tensor, noise: Tensor, count: int) -> IntArray:
        """How often each class wins on the first `count` samples of a placed block; the last slice is padded."""
        step, grid = min(self.prepared.slice_size, len(noise)), grid_of(self.noise)
        winners = []
        with torch.inference_mode():
            for start in range(0, count, step):
                piece = noise[start : start + step]
                if not self.noise.additive:
                    logits = self.prepared(_channels_last(self.noise.apply(image, piece)))
                elif self._split:
                    logits = self.prepared.rest(piece + image)
                else:
                    # both are whole numbers, so that the sum is exact and the product a function of it alone
                    logits = self.prepared.rest((piece + image).mul_(1 / grid))
                top, winner = logits.max(1)
                if not bool(torch.isfinite(top).all()):
                    raise ModelError("the model returns values that are not numbers (NaN or infinite) on noisy inputs")
                winners.append(winner)
            return torch.bincount(torch.cat(winners)[:count], minlength=self.classes).numpy()


def _channels_last(images: Tensor) -> Tensor:
    return images.contiguous(memory_format=torch.channels_last) if images.ndim == 4 else images
