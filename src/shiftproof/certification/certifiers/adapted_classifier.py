"""The rule over several smoothed classifiers, to be attacked and asked again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import torch
from scipy.special import ndtri
from torch import Tensor, nn

from shiftproof.certification.certified_classifier import CertifiedClassifier, CertifiedVote, Judgement, behind, lead_of
from shiftproof.perturbations.noise import Noise
from shiftproof.perturbations.noise.gaussian import Gaussian
from shiftproof.statistics import lower_bound, upper_bound
from shiftproof.types import FloatArray, IntArray

__all__ = ["CertifiedAgreement", "CertifiedSelection"]


@dataclass(frozen=True, eq=False)
class CertifiedSelection(CertifiedClassifier):
    """The class with the largest sigma Phi^-1(p) of several smoothed classifiers, one model a sigma."""

    model: nn.ModuleList
    sigmas: tuple[float, ...]
    seed: int = 0
    samples: int = 8
    votes: int = 2_000

    classifier: ClassVar[str] = "adapted"
    counts_votes: ClassVar[bool] = True

    @property
    def passes(self) -> int:
        """One for each noisy copy and sigma."""
        return self.samples * len(self.sigmas)

    @cached_property
    def members(self) -> list[CertifiedVote]:
        """The smoothed classifiers."""
        pairs = zip(self.model, self.sigmas, strict=True)
        how = (self.samples, self.votes, self.seed)
        return [CertifiedVote(one, Gaussian(sigma), *how) for one, sigma in pairs]

    @property
    def voters(self) -> Sequence[tuple[nn.Module, Noise]]:
        """The model of each sigma."""
        return [(model, Gaussian(sigma)) for model, sigma in zip(self.model, self.sigmas, strict=True)]

    def scores(self, inputs: Tensor) -> Tensor:
        """The largest sigma Phi^-1 of the mean probability."""
        parts = []
        for member, sigma in zip(self.members, self.sigmas, strict=True):
            share = member.scores(inputs).exp().clamp(1e-6, 1 - 1e-6)
            parts.append(sigma * torch.special.ndtri(share))
        return torch.stack(parts).amax(0)

    def answers(self, inputs: Tensor) -> Tensor:
        """The class that leads."""
        return torch.from_numpy(self._measured(self.ballots(inputs)).argmax(1))

    def judge(self, inputs: Tensor, classes: IntArray, level: float) -> Judgement:
        """The lead in units of the input; disproved where the upper bound of a score is below another's lower bound."""
        counts = self.ballots(inputs)
        share = level / (2 * counts.shape[0] * counts.shape[2])
        scale = np.asarray(self.sigmas)[:, None, None]
        high = (scale * ndtri(upper_bound(counts, self.votes, share))).max(0)
        low = (scale * ndtri(lower_bound(counts, self.votes, share))).max(0)
        rows = np.arange(len(classes))
        own = high[rows, classes]
        low[rows, classes] = -np.inf
        return Judgement(lead_of(self._measured(counts), classes), own < low.max(1))

    def ballots(self, inputs: Tensor) -> IntArray:
        """The votes of every smoothed classifier: sigmas x N x classes."""
        return np.stack([member.counts(inputs) for member in self.members])

    def _measured(self, counts: IntArray) -> FloatArray:
        share = (counts + 0.5) / (self.votes + 1)
        best: FloatArray = (np.asarray(self.sigmas)[:, None, None] * ndtri(share)).max(0)
        return best


class CertifiedAgreement(CertifiedSelection):
    """An answer only where all smoothed classifiers agree."""

    def judge(self, inputs: Tensor, classes: IntArray, level: float) -> Judgement:
        """The smallest lead of any, in parts of all votes; disproved where one of them has another class ahead."""
        ballots, share = self.ballots(inputs), level / len(self.sigmas)
        lead = np.min([lead_of(counts / self.votes, classes) for counts in ballots], axis=0)
        return Judgement(lead, np.any([behind(counts, classes, share) for counts in ballots], axis=0))
