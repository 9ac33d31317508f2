"""Whether a model is fed the wrong scale: often wrong on [0, 1], and right with a usual normalisation in front."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import binom
from torch import Tensor, nn

from shiftproof.domains import Domain
from shiftproof.models.layers import Normalized
from shiftproof.types import Finding

BoolArray = NDArray[np.bool_]

__all__ = ["Scale", "scale_findings", "usual_scales"]

TRIED = 192
"""Samples of all sources that are tried; the data's own mean and deviation are of these."""
NEAR = 0.15
"""Above chance by less than this is near it."""
BETTER, CLEARLY_BETTER = 0.2, 0.1
"""A scale that helps by less than this is no explanation, near chance and far above it."""
UNLIKELY, VERY_UNLIKELY = 1e-3, 1e-5
"""Chance that samples turn right and wrong as unevenly as this, if the scale changes nothing; shared by all scales.
The second is for models far above chance."""


@dataclass(frozen=True)
class Scale:
    """A normalisation that models are often trained with: its name, and mean and deviation of every channel."""

    name: str
    mean: tuple[float, ...]
    std: tuple[float, ...]

    @property
    def code(self) -> str:
        """What to type."""
        mean, std = (", ".join(f"{value:.3g}" for value in values) for values in (self.mean, self.std))
        return f"sp.Normalized(model, mean=[{mean}], std=[{std}])"


def usual_scales(inputs: Tensor) -> list[Scale]:
    """ImageNet's (for colour), the data's own, [-1, 1] and 0 to 255, for images (N x C x H x W) in [0, 1]."""
    channels = inputs.shape[1]
    mean = tuple(round(float(value), 3) for value in inputs.mean((0, 2, 3)))
    std = tuple(max(0.001, round(float(value), 3)) for value in inputs.std((0, 2, 3)))
    found = [
        Scale("the data's own normalisation", mean, std),
        Scale("inputs in [-1, 1]", (0.5,) * channels, (0.5,) * channels),
        Scale("inputs from 0 to 255", (0.0,) * channels, (float(f"{1 / 255:.3g}"),) * channels),
    ]
    imagenet = Scale("ImageNet's normalisation", (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    return [imagenet, *found] if channels == 3 else found


def scale_findings(model: nn.Module, sources: Sequence[Domain]) -> Iterator[Finding]:
    """A warning that says what to type, for a model that another scale makes right on its sources far more often.

    Near chance the gain must be large; far above it a smaller one counts too, if it is beyond any doubt.
    """
    if len(sources[0].shape) != 3:
        return
    each = max(1, TRIED // len(sources))
    few = [domain.subset(np.unique(np.linspace(0, len(domain) - 1, each, dtype=np.int64))) for domain in sources]
    inputs, labels = (torch.cat(parts) for parts in zip(*(one.tensors() for one in few), strict=True))
    # one answer for all samples is right this often
    chance = float(torch.bincount(labels).max()) / len(labels)
    before = _right(model, inputs, labels)
    near = before.mean() < chance + NEAR
    scales = usual_scales(inputs)
    after = [_right(Normalized(model, scale.mean, scale.std), inputs, labels) for scale in scales]
    best = int(np.argmax([right.mean() for right in after]))
    scale, right = scales[best], after[best]
    least, level = (BETTER, UNLIKELY) if near else (CLEARLY_BETTER, VERY_UNLIKELY)
    if right.mean() < max(before.mean(), chance) + least or not _uneven(before, right, level / len(scales)):
        return
    figures = f"{before.mean():.0%} of {len(labels)} samples of its sources"
    message = (
        f"the model is right on {figures} as they are, in [0, 1], and on {right.mean():.0%} of the same samples with "
        f"{scale.name}: it may have been trained on that scale; wrap it as {scale.code}"
    )
    measured = {"as_they_are": float(before.mean()), "with": scale.name, "would_be": float(right.mean())}
    yield Finding("warn", "input-scale", message, {**measured, "mean": list(scale.mean), "std": list(scale.std)})


def _right(model: nn.Module, inputs: Tensor, labels: Tensor) -> BoolArray:
    """Whether each sample is right; outputs that are no numbers are not."""
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    model = model.to(device)
    with torch.no_grad():
        logits = torch.cat([model(part.to(device)) for part in torch.split(inputs, 64)]).cpu()
    right: BoolArray = (torch.isfinite(logits).all(1) & (logits.argmax(1) == labels)).numpy()
    return right


def _uneven(before: BoolArray, after: BoolArray, level: float) -> bool:
    """Whether more samples turned right than wrong beyond chance: the exact sign test of McNemar."""
    gained, lost = int((~before & after).sum()), int((before & ~after).sum())
    return bool(binom.sf(gained - 1, gained + lost, 0.5) <= level) if gained else False
