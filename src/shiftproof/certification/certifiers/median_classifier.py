"""The classifier that answers with the head on a true median, to be attacked and asked again."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from shiftproof.certification.certified_classifier import ASKING, CertifiedClassifier, Judgement, Mask, lead_of
from shiftproof.certification.certifiers.median_head import Head
from shiftproof.certification.plain_votes import noisy_copies, standard_noise
from shiftproof.errors import ModelError
from shiftproof.perturbations.noise.gaussian import Gaussian
from shiftproof.rng import numpy_generator, torch_generator
from shiftproof.statistics import quantile_lower_index
from shiftproof.types import FloatArray, IntArray

__all__ = ["CertifiedMedian"]

_TRIED = 61


@dataclass(frozen=True, eq=False)
class CertifiedMedian(CertifiedClassifier):
    """The head over the median of noisy representations; attacked through the mean of a few."""

    body: nn.Module
    head: Head
    sigma: float
    seed: int = 0
    samples: int = 16
    votes: int = 2_000
    model: nn.Module = field(init=False)

    classifier: ClassVar[str] = "median"

    def __post_init__(self) -> None:
        object.__setattr__(self, "model", nn.Sequential(self.body, self.head.module))

    @property
    def passes(self) -> int:
        """One for each noisy copy."""
        return self.samples

    def scores(self, inputs: Tensor) -> Tensor:
        """Logits of the mean of noisy representations, which is smoother than their median."""
        noise = self._noise(tuple(inputs.shape[1:]), self.samples, "attack scores")
        copies = inputs.repeat_interleave(self.samples, 0) + noise.repeat(len(inputs), *[1] * (inputs.ndim - 1))
        values = self.body(copies).flatten(1).unflatten(0, (len(inputs), self.samples)).mean(1)
        logits: Tensor = self.head.module(values)
        return logits

    def answers(self, inputs: Tensor) -> Tensor:
        """The head on the median of many samples."""
        return self.head.answers(torch.stack([self._sample(one[None]).median(0).values for one in inputs]))

    def judge(self, inputs: Tensor, classes: IntArray, level: float) -> Judgement:
        """The lead of the logits, and where the head has another answer all over the medians that the samples allow.

        The head itself is asked, at many of them, so that nothing rests on how a certificate follows boxes.
        """
        medians, disproved = [], np.zeros(len(inputs), bool)
        generator = torch_generator(self.seed, ASKING, "medians")
        for row, one in enumerate(inputs):
            sampled = self._sample(one[None])
            medians.append(sampled.median(0).values)
            ordered = sampled.sort(0).values
            k = int(quantile_lower_index(self.votes, 0.5, level / (2 * ordered.shape[1])))
            if k >= 1:
                low, high = ordered[k - 1], ordered[self.votes - k]
                points = low + (high - low) * torch.rand(_TRIED, len(low), generator=generator)
                middle = (low + high)[None] / 2
                with torch.no_grad():
                    answers = self.head.module(torch.cat([middle, low[None], high[None], points])).argmax(1)
                disproved[row] = bool((answers != int(classes[row])).all())
        return Judgement(lead_of(self.head.logits(torch.stack(medians)).numpy(), classes), disproved)

    def disproved_at(self, inputs: Tensor, classes: IntArray, level: float) -> Mask:
        """Where another class is ahead all over the medians that the samples allow: proven by boxes through the head.

        Where boxes do not pass the head, it is asked at many of these medians (`judge`).
        """
        try:
            self.head.check("box")
        except ModelError:
            return self.judge(inputs, classes, level).disproved
        bounds = [self._medians(one[None], level) for one in inputs]
        known = [one for one in bounds if one is not None]
        disproved = np.array([one is not None for one in bounds], bool)
        if known:
            low, high = (torch.stack(part) for part in zip(*known, strict=True))
            disproved[disproved] = self.head.loses(low, high, torch.from_numpy(classes[disproved]))
        return disproved

    def _medians(self, one: Tensor, level: float) -> tuple[Tensor, Tensor] | None:
        """Between which values all medians of an input are, but for a probability of `level`; None of few samples."""
        ordered = self._sample(one).sort(0).values
        k = int(quantile_lower_index(self.votes, 0.5, level / (2 * ordered.shape[1])))
        return (ordered[k - 1], ordered[self.votes - k]) if k >= 1 else None

    def representations(self, image: Tensor, draws: FloatArray) -> Tensor:
        """What the body says of an image (shape) under standard draws (N x size): N x D."""
        copies = noisy_copies(Gaussian(self.sigma), image, draws)
        return torch.cat([self.body(part).flatten(1) for part in torch.split(copies, 256)])

    def _sample(self, one: Tensor) -> Tensor:
        size = one[0].numel()
        draws = standard_noise("normal", size, self.votes, numpy_generator(self.seed, ASKING, "median", size))
        with torch.no_grad():
            return self.representations(one[0], draws)

    def _noise(self, shape: tuple[int, ...], count: int, purpose: str) -> Tensor:
        size = math.prod(shape)
        draws = standard_noise("normal", size, count, numpy_generator(self.seed, purpose, "median", size))
        return noisy_copies(Gaussian(self.sigma), torch.zeros(shape), draws)
