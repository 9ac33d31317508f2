"""Every noise and corruption of the catalogues keeps its promises, and the checks find those that do not."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

from shiftproof.errors import ConformanceError
from shiftproof.perturbations import noise
from shiftproof.perturbations.corruptions import CORRUPTIONS, Corruption, GaussianNoise, Typos
from shiftproof.perturbations.noise import NOISES, Noise
from shiftproof.testing import check_corruption, check_noise
from shiftproof.types import FloatArray

NOT_RISING = {
    "elastic-transform": "the affine map of small images gets smaller",
    "frost": "the image gets darker while the ice gets brighter",
    "saturate": "gray images stay as they are",
}


@pytest.mark.parametrize(
    "one", [*(entry.cls(0.3) for entry in NOISES), noise.Scaling(0.3, log=True), noise.DCT(0.2, k=3)], ids=repr
)
def test_noises_keep_their_promises(one: Noise) -> None:
    check_noise(one)


@pytest.mark.parametrize("name", [entry.name for entry in CORRUPTIONS])
def test_corruptions_keep_their_promises(name: str) -> None:
    check_corruption(CORRUPTIONS.create(name, {"severity": 3}), rising=name not in NOT_RISING)


@dataclass(frozen=True)
class Boastful(noise.Gaussian):
    """Gaussian noise with a radius that is too large."""

    def radius(self, miss: FloatArray, rival: FloatArray) -> FloatArray:
        return 1.1 * super().radius(miss, rival)


@dataclass(frozen=True)
class NotL2(noise.Uniform):
    """Uniform noise that says l2 of its l1 radius."""

    norm: ClassVar[str] = "l2"


@dataclass(frozen=True)
class Sticky(noise.Gaussian):
    """Adds the noise of the first image to all."""

    def apply(self, images: Tensor, parameters: Tensor) -> Tensor:
        return super().apply(images, parameters[:1].expand_as(parameters))


@dataclass(frozen=True)
class Clipped(noise.Gaussian):
    """Clips what should be left as it is."""

    def apply(self, images: Tensor, parameters: Tensor) -> Tensor:
        return super().apply(images, parameters).clamp(0, 1)


@dataclass(frozen=True)
class Hopeful(noise.Uniform):
    """Gives every class a radius."""

    def radius(self, miss: FloatArray, rival: FloatArray) -> FloatArray:
        return np.abs(super().radius(miss, rival))


@dataclass(frozen=True)
class Halved(noise.Translation):
    """Reads images at half of their size."""

    def apply(self, images: Tensor, parameters: Tensor) -> Tensor:
        return super().apply(images, parameters)[..., ::2, ::2]


@dataclass(frozen=True)
class Untidy(noise.WordDeletion):
    """Leaves the space of a word that it removes."""

    def apply(self, images: Tensor, parameters: Tensor) -> Tensor:
        return torch.where(images == ord("a"), 32.0, images) + 0 * parameters[:, :1]


@pytest.mark.parametrize(
    ("one", "sentence"),
    [
        (Boastful(0.3), "where the truth is"),
        (NotL2(0.3), "where the truth is"),
        (Sticky(0.3), "adds something else"),
        (Clipped(0.3), "adds something else"),
        (Hopeful(0.3), "votes against the class"),
        (Halved(0.3), r"makes \(6, 3, 6, 5\)"),
        (Untidy(0.3), "no text as texts are kept"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Noise) else "",
)
def test_the_check_finds_noises_that_do_not(one: Noise, sentence: str) -> None:
    with pytest.raises(ConformanceError, match=sentence):
        check_noise(one)


@dataclass(frozen=True)
class Weakening(GaussianNoise):
    """Changes less at higher severities."""

    def apply(self, images: Tensor, words: Tensor) -> Tensor:
        return images + (super().apply(images, words) - images) / self.severity**3


@dataclass(frozen=True)
class Average(Corruption):
    """Mixes an image with its company."""

    def apply(self, images: Tensor, words: Tensor) -> Tensor:
        return images + 0.1 * self.severity * (images.mean(0) - images)


@dataclass(frozen=True)
class Global(Corruption):
    """Draws from the global random state."""

    def apply(self, images: Tensor, words: Tensor) -> Tensor:
        return images + 0.01 * self.severity * torch.rand(images.shape)


@dataclass(frozen=True)
class Overwriting(Corruption):
    """Works in place."""

    def apply(self, images: Tensor, words: Tensor) -> Tensor:
        return images.mul_(1 - 0.1 * self.severity)


@dataclass(frozen=True)
class Spaced(Typos):
    """Puts a space where a letter was."""

    def apply(self, images: Tensor, words: Tensor) -> Tensor:
        return torch.where(images == ord("e"), 32.0, images)


@dataclass(frozen=True)
class Erasing(Typos):
    """Leaves nothing."""

    def apply(self, images: Tensor, words: Tensor) -> Tensor:
        return images * (images == 30)


@dataclass(frozen=True)
class Mild(Typos):
    """Does the same at every severity."""

    rates: ClassVar[tuple[float, ...]] = (0.1,) * 5


@pytest.mark.parametrize(
    ("one", "sentence"),
    [
        (Spaced(3), "no text as texts are kept"),
        (Erasing(3), "leaves nothing of"),
        (Mild(3), "letters at severity 1 and"),
        (Weakening(3), "at severity 5, on average"),
        (Average(3), "depends on its company"),
        (Global(3), "the same words give another image"),
        (Overwriting(3), "overwrites"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Corruption) else "",
)
def test_the_check_finds_corruptions_that_do_not(one: Corruption, sentence: str) -> None:
    with pytest.raises(ConformanceError, match=sentence):
        check_corruption(one)
