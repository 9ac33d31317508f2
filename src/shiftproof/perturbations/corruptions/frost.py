"""Ice on the lens."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from shiftproof.perturbations.corruptions.colour import luminance
from shiftproof.perturbations.corruptions.corruption import CORRUPTIONS, Corruption, Published, constants_for
from shiftproof.perturbations.corruptions.draws import choice
from shiftproof.perturbations.corruptions.ice import COLOURS, CONTRASTS, ice

__all__ = ["Frost"]

_SMALLER = 5


@CORRUPTIONS.register("frost", order="9", group="weather", paper="Hendrycks & Dietterich 2019")
@dataclass(frozen=True)
class Frost(Corruption):
    """A darker image and a piece of an ice texture, added."""

    # weights of the image and of the ice
    published: ClassVar[Published] = {
        "cifar": ((1, 0.2), (1, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45)),
        "imagenet": ((1, 0.4), (0.8, 0.6), (0.7, 0.7), (0.65, 0.7), (0.6, 0.75)),
    }

    def size(self, shape: tuple[int, ...]) -> int:
        """Which texture, and where the piece begins."""
        return 3

    def apply(self, images: Tensor, words: Tensor) -> Tensor:
        """The images behind ice."""
        kept, added = self.figures(images.shape)
        # small images show ice as if seen from farther away
        finest = constants_for(images.shape, self.constants) == "imagenet"
        textures = (ice() if finest else ice()[:, 2::_SMALLER, 2::_SMALLER]).to(images.device)
        which, side = choice(words[:, 0], len(textures)), textures.shape[-1]
        rows, columns = (
            (choice(words[:, 1 + axis], side)[:, None] + torch.arange(size, device=images.device)) % side
            for axis, size in enumerate(images.shape[-2:])
        )
        pieces = textures[which[:, None, None], rows[:, :, None], columns[:, None, :]]
        colours, contrasts = (images.new_tensor(each)[which] for each in (COLOURS, CONTRASTS))
        if images.shape[1] == 1:
            colours = luminance(colours[:, :, None, None])[:, :, 0, 0]
        frozen = (pieces * contrasts[:, None, None])[:, None] + colours[:, :, None, None]
        return frozen.clamp_(0, 1).mul_(added).add_(images, alpha=kept)
