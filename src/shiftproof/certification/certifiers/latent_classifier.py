"""A head under noise on the representation, to be attacked and asked again through the model itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from shiftproof.certification.certified_classifier import ASKING, CertifiedClassifier, Judgement, behind, lead_of
from shiftproof.models.split import SplitModel
from shiftproof.rng import numpy_generator
from shiftproof.types import IntArray

__all__ = ["CertifiedLatentVote"]

_NUMBERS = 1 << 22


@dataclass(frozen=True, eq=False)
class CertifiedLatentVote(CertifiedClassifier):
    """The majority vote of a model's head with noise on what its encoder says, drawn in all dimensions."""

    model: SplitModel
    sigma: float
    votes: int
    seed: int

    classifier: ClassVar[str] = "latent"
    counts_votes: ClassVar[bool] = True
    passes: ClassVar[int] = 1

    def scores(self, inputs: Tensor) -> Tensor:
        """The logits without noise: noise that is symmetric moves no boundary of a linear head."""
        logits: Tensor = self.model(inputs)
        return logits

    def answers(self, inputs: Tensor) -> Tensor:
        """The class with most votes."""
        return torch.from_numpy(self._counts(inputs).argmax(1))

    def ballots(self, inputs: Tensor) -> IntArray:
        """The votes, of one smoothed head: 1 x N x classes."""
        return self._counts(inputs)[None]

    def judge(self, inputs: Tensor, classes: IntArray, level: float) -> Judgement:
        """The lead in parts of all votes, and where another class has so many more that chance can't have made them."""
        counts = self._counts(inputs)
        return Judgement(lead_of(counts / self.votes, classes), behind(counts, classes, level))

    def _counts(self, inputs: Tensor) -> IntArray:
        with torch.no_grad():
            representations = self.model.encoder(inputs)
            return np.stack([self._votes(one) for one in representations])

    def _votes(self, representation: Tensor) -> IntArray:
        generator = numpy_generator(self.seed, ASKING, "latent")
        together = max(1, _NUMBERS // representation.numel())
        counts = []
        for start in range(0, self.votes, together):
            shape = (min(together, self.votes - start), *representation.shape)
            noise = torch.from_numpy(self.sigma * generator.standard_normal(shape)).to(representation)
            logits = self.model.head(representation + noise)
            counts.append(torch.bincount(logits.argmax(1), minlength=logits.shape[1]).numpy())
        return np.asarray(np.sum(counts, axis=0))
