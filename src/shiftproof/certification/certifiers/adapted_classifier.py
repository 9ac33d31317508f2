"""The rule over several smoothed classifiers, to be attacked and asked again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, TypeVar

import numpy as np
import torch
from scipy.special import ndtri
from torch import Tensor, nn

from shiftproof.certification.certified_classifier import CertifiedClassifier, CertifiedVote, Judgement, behind, lead_of
from shiftproof.perturbations.noise import Noise
from shiftproof.statistics import lower_bound, upper_bound
from shiftproof.types import FloatArray, IntArray

__all__ = ["CertifiedAgreement", "CertifiedLargestRadius", "CertifiedSelection"]

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class CertifiedSelection(CertifiedClassifier):
    """The class with the largest score of several smoothed classifiers, one model a noise.

    A score is sigma Phi^-1(p) of normal noise and 2 width p of uniform noise.
    """

    model: nn.ModuleList
    noises: tuple[Noise, ...]
    seed: int = 0
    samples: int = 8
    votes: int = 2_000

    classifier: ClassVar[str] = "adapted"
    counts_votes: ClassVar[bool] = True

    @property
    def passes(self) -> int:
        """One for each noisy copy and noise."""
        return self.samples * len(self.noises)

    @cached_property
    def members(self) -> list[CertifiedVote]:
        """The smoothed classifiers."""
        how = (self.samples, self.votes, self.seed)
        return [CertifiedVote(one, noise, *how) for one, noise in self.voters]

    @property
    def voters(self) -> Sequence[tuple[nn.Module, Noise]]:
        """The model of each noise."""
        return list(zip(self.model, self.noises, strict=True))

    def scores(self, inputs: Tensor) -> Tensor:
        """The largest score of the mean probability."""
        parts = []
        for member, noise in zip(self.members, self.noises, strict=True):
            share = member.scores(inputs).exp().clamp(1e-6, 1 - 1e-6)
            parts.append(2 * noise.scale * share if _is_flat(noise) else noise.scale * torch.special.ndtri(share))
        return torch.stack(parts).amax(0)

    def answers(self, inputs: Tensor) -> Tensor:
        """The class that leads."""
        return torch.from_numpy(self._measured(self.ballots(inputs)).argmax(1))

    def judge(self, inputs: Tensor, classes: IntArray, level: float) -> Judgement:
        """The lead in units of the input; disproved where the upper bound of a score is below another's lower bound."""
        counts = self.ballots(inputs)
        share = level / (2 * counts.shape[0] * counts.shape[2])
        high = self._largest(upper_bound(counts, self.votes, share))
        low = self._largest(lower_bound(counts, self.votes, share))
        rows = np.arange(len(classes))
        own = high[rows, classes]
        low[rows, classes] = -np.inf
        return Judgement(lead_of(self._measured(counts), classes), own < low.max(1))

    def ballots(self, inputs: Tensor) -> IntArray:
        """The votes of every smoothed classifier: noises x N x classes."""
        return np.stack([member.counts(inputs) for member in self.members])

    def _measured(self, counts: IntArray) -> FloatArray:
        return self._largest((counts + 0.5) / (self.votes + 1))

    def _largest(self, shares: FloatArray) -> FloatArray:
        """The largest score over noises, of probabilities (noises x N x classes)."""
        every = [
            2 * noise.scale * share if _is_flat(noise) else noise.scale * ndtri(share)
            for noise, share in zip(self.noises, shares, strict=True)
        ]
        best: FloatArray = np.max(every, axis=0)
        return best


def _is_flat(noise: Noise) -> bool:
    return noise.law == "uniform"


class CertifiedAgreement(CertifiedSelection):
    """An answer only where all smoothed classifiers agree."""

    def judge(self, inputs: Tensor, classes: IntArray, level: float) -> Judgement:
        """The smallest lead of any, in parts of all votes; disproved where one of them has another class ahead."""
        ballots, share = self.ballots(inputs), level / len(self.noises)
        lead = np.min([lead_of(counts / self.votes, classes) for counts in ballots], axis=0)
        return Judgement(lead, np.any([behind(counts, classes, share) for counts in ballots], axis=0))


@dataclass(frozen=True, eq=False)
class CertifiedLargestRadius(CertifiedSelection):
    """The class of the largest radius over noises, chosen anew at every input: what the published rule answers.

    The radius of a class under one noise is half the distance from its score to that of the best other class, or, where
    `runner_up` is not told from all others, to that of all others together.
    """

    runner_up: bool = True

    def scores(self, inputs: Tensor) -> Tensor:
        """The largest radius, of the mean probabilities."""
        shares = [member.scores(inputs).exp().clamp(1e-6, 1 - 1e-6) for member in self.members]
        return self._largest_radius([self._radius(n, s, self._rest(s, s)) for n, s in self._of_noises(shares)])

    def judge(self, inputs: Tensor, classes: IntArray, level: float) -> Judgement:
        """The lead in radius; disproved where no noise can give the class so large a radius as another class has."""
        counts = self.ballots(inputs)
        share = level / (2 * counts.shape[0] * counts.shape[2])
        high = torch.from_numpy(upper_bound(counts, self.votes, share))
        low = torch.from_numpy(lower_bound(counts, self.votes, share))
        most = [self._radius(n, h, self._rest(lo, h)) for n, (h, lo) in self._of_noises(zip(high, low, strict=True))]
        least = [self._radius(n, lo, self._rest(h, lo)) for n, (h, lo) in self._of_noises(zip(high, low, strict=True))]
        rows = np.arange(len(classes))
        own, others = self._largest_radius(most).numpy()[rows, classes], self._largest_radius(least).numpy()
        others[rows, classes] = -np.inf
        return Judgement(lead_of(self._measured(counts), classes), own < others.max(1))

    def _measured(self, counts: IntArray) -> FloatArray:
        shares = torch.from_numpy((counts + 0.5) / (self.votes + 1)).double()
        radii = [self._radius(n, s, self._rest(s, s)) for n, s in self._of_noises(shares)]
        return np.asarray(self._largest_radius(radii).numpy())

    def _of_noises(self, values: Iterable[T]) -> list[tuple[Noise, T]]:
        return list(zip(self.noises, values, strict=True))

    def _rest(self, shares: Tensor, own: Tensor) -> Tensor:
        """Beside each class: the largest of the other `shares` (N x K), or all that `own` leaves."""
        if not self.runner_up or shares.shape[1] == 2:
            return 1 - own
        first, second = shares.topk(2, 1).values.unbind(1)
        return torch.where(shares == first[:, None], second[:, None], first[:, None])

    def _radius(self, noise: Noise, own: Tensor, rest: Tensor) -> Tensor:
        # half of 2 width p for uniform noise
        ahead = 2 * (own - rest) if _is_flat(noise) else torch.special.ndtri(own) - torch.special.ndtri(rest)
        radius: Tensor = noise.scale * ahead / 2
        return radius

    def _largest_radius(self, radii: Sequence[Tensor]) -> Tensor:
        return torch.stack(list(radii)).amax(0)
