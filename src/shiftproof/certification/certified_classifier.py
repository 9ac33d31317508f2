"""The classifier of which certificates speak, in a form that can be attacked and asked again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import binom
from torch import Tensor, nn

from shiftproof.attacks.victim import Base, Smoothed, frozen
from shiftproof.certification.plain_votes import count_votes_of_each, standard_noise
from shiftproof.models.text import noise_shape
from shiftproof.perturbations.noise import Noise
from shiftproof.rng import numpy_generator
from shiftproof.types import FloatArray, IntArray

__all__ = [
    "CertifiedBase",
    "CertifiedClassifier",
    "CertifiedVote",
    "Judgement",
    "Mask",
    "behind",
    "lead_of",
]

ASKING = "verification"
"""Noise that certifies nothing: it is drawn to find certificates wrong."""

Mask = NDArray[np.bool_]

_NUMBERS = 1 << 24


class Judgement(NamedTuple):
    """What is measured at inputs (N) of the classes certified for them.

    `lead` is by how much they are ahead; below 0 they are behind. `disproved` is where another class wins.
    """

    lead: FloatArray
    disproved: Mask


class CertifiedClassifier(ABC):
    """The classifier of a certificate, which gives the certified class wherever in the ball the input is.

    It can be attacked (it is a `Victim`) and evaluated again.
    """

    model: nn.Module
    """The network inside, which is kept as it is while it is attacked."""
    classifier: ClassVar[str]
    """base | smoothed | adapted | latent | median."""
    exact: ClassVar[bool] = False
    """Whether the largest score is always the answer."""
    counts_votes: ClassVar[bool] = False
    """Whether it answers by `ballots`, of `votes` noise samples each."""

    @property
    @abstractmethod
    def passes(self) -> int:
        """Forward passes of the network for the scores of one input."""

    @abstractmethod
    def scores(self, inputs: Tensor) -> Tensor:
        """N x classes, differentiable: larger is more in favour of a class."""

    @abstractmethod
    def answers(self, inputs: Tensor) -> Tensor:
        """N predictions, without gradients."""

    @abstractmethod
    def judge(self, inputs: Tensor, classes: IntArray, level: float) -> Judgement:
        """Certified classes at inputs (N x ...), from one count of votes.

        A class that does win is called disproved with probability `level` at most.
        """

    @property
    def voters(self) -> Sequence[tuple[nn.Module, Noise]]:
        """The models that vote on noisy inputs, each with its noise; none if none does."""
        return ()

    def ballots(self, inputs: Tensor) -> IntArray:
        """Votes of each of V smoothed classifiers for every class at inputs: V x N x classes; V is 0 without votes."""
        return np.zeros((0, len(inputs), 0), np.int64)

    def disproved_at(self, inputs: Tensor, classes: IntArray, level: float) -> Mask:
        """Where another class wins; a class that does win is called disproved with probability `level` at most."""
        return self.judge(inputs, classes, level).disproved


@dataclass(frozen=True, eq=False)
class CertifiedBase(Base, CertifiedClassifier):
    """The classifier itself: what it answers is known without doubt."""

    def judge(self, inputs: Tensor, classes: IntArray, level: float) -> Judgement:
        """The lead of the logits, and where the answer is another one."""
        logits = self.logits(inputs).cpu()
        return Judgement(lead_of(logits.double().numpy(), classes), logits.argmax(1).numpy() != classes)


@dataclass(frozen=True, eq=False)
class CertifiedVote(Smoothed, CertifiedClassifier):
    """The majority vote of the model itself under noise on the grid; nothing that was made for speed is used."""

    counts_votes: ClassVar[bool] = True

    @property
    def voters(self) -> Sequence[tuple[nn.Module, Noise]]:
        """The one model."""
        return [(self.model, self.noise)]

    def answers(self, inputs: Tensor) -> Tensor:
        """The class with most votes."""
        return torch.from_numpy(self.counts(inputs).argmax(1)).to(inputs.device)

    def counts(self, inputs: Tensor, shifts: FloatArray | None = None) -> IntArray:
        """Votes for every class (N x classes) at inputs (N x shape); `shifts` (N x size) are added to the noise."""
        size = self.noise.size(noise_shape(self.noise, self.model, tuple(inputs.shape[1:])))
        # the same noise for all images, in pieces: all of it at once may not fit into memory
        generator = numpy_generator(self.seed, ASKING, self.noise.law, size)
        together = max(1, min(self.votes, _NUMBERS // size))
        votes = []
        with frozen(self.model):
            for start in range(0, self.votes, together):
                draws = standard_noise(self.noise.law, size, min(together, self.votes - start), generator)
                votes.append(count_votes_of_each(self.model, self.noise, inputs, draws, shifts))
        return np.asarray(np.sum(votes, axis=0))

    def ballots(self, inputs: Tensor) -> IntArray:
        """The votes, of one smoothed classifier: 1 x N x classes."""
        return self.counts(inputs)[None]

    def judge(self, inputs: Tensor, classes: IntArray, level: float) -> Judgement:
        """The lead in parts of all votes, and where another class has so many more that chance can't have made them."""
        counts = self.counts(inputs)
        return Judgement(lead_of(counts / self.votes, classes), behind(counts, classes, level))


def lead_of(scores: FloatArray, classes: IntArray) -> FloatArray:
    """The score (N x K) of each row's class less the best other one."""
    rows = np.arange(len(scores))
    others = scores.astype(np.float64)
    own = others[rows, classes]
    others[rows, classes] = -np.inf
    return np.asarray(own - others.max(1))


def behind(counts: IntArray, classes: IntArray, level: float) -> Mask:
    """Where votes (N x K) show that some other class is likelier than the given one, wrongly with `level` at most.

    Of the votes for either of two classes, half at least would be for the likelier one; the level is shared between the
    other classes.
    """
    own = counts[np.arange(len(counts)), classes][:, None]
    chance = np.asarray(binom.sf(counts - 1, counts + own, 0.5))
    chance[np.arange(len(counts)), classes] = 1.0
    mask: Mask = (chance * (counts.shape[1] - 1)).min(1) <= level
    return mask
