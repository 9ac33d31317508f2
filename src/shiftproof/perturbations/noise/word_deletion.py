"""Deletion of words from a text."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import torch
from annotated_types import Interval
from numpy.typing import NDArray
from torch import Tensor

from shiftproof.errors import UsageError
from shiftproof.perturbations.noise.noise import NOISES, Law, Noise
from shiftproof.perturbations.noise.radii import margin
from shiftproof.perturbations.text import BETWEEN, SPACE
from shiftproof.types import FloatArray

__all__ = ["WordDeletion"]

_STEPS = 65_536
"""Steps of the grid on which coins lie, from 0 to 1; they run from -1 to 1."""
BEYOND = 1e-4
"""What a radius is larger than its number of edits: a radius tells what is below it, and 0 edits is not nothing."""


@NOISES.register(
    "word-deletion", paper="Huang et al. 2023; Levine & Feizi 2020", radius="edits", parameters="one coin per word"
)
@dataclass(frozen=True)
class WordDeletion(Noise):
    """Every word of a text is removed with probability `q`, by a coin of its own; certifies a number of word edits.

    The model sees the words that stay, with one space between two, and nothing else; what it can't read at once it cuts
    after that. k inserted, deleted or replaced words change the probability of a class by at most 1 - q^k, since the
    two texts can be thinned by the same coins, and give the same unless an edited word stays. The vote therefore holds
    for the largest k with q^k > 1 - (L - U) / 2, where L bounds the probability of its class from below and U that of
    any other from above; with two classes that is q^k > 3/2 - L. However many votes there are, q^k stays above 1/2.

    Radii are that k plus a ten-thousandth, so that k edits are below the radius. A pair of texts is thinned in both
    parts, and edits of both count together.

    Levine & Feizi, "Robustness certificates for sparse adversarial attacks by randomized ablation" (2020,
    arXiv:1911.09272); Huang et al., "RS-Del: edit distance robustness certificates for sequence classifiers via
    randomized deletion" (2023, arXiv:2302.01757).

    >>> WordDeletion(0.8).cap, WordDeletion(0.9).cap, WordDeletion(0.95).cap
    (3, 6, 13)
    """

    q: Annotated[float, Interval(gt=0, lt=1)]

    kind: ClassVar[str] = "text"
    usual: ClassVar[float] = 0.8
    law: ClassVar[Law] = "uniform"
    norm: ClassVar[str] = "edits"
    units: ClassVar[str] = "words inserted, deleted or replaced"
    additive: ClassVar[bool] = False
    scale: ClassVar[float] = 1.0

    @property
    def claim(self) -> str:
        """Against which edits the prediction holds."""
        return (
            "every insertion, deletion or replacement of words (what white space separates) whose number is at most "
            "the radius"
        )

    @property
    def cap(self) -> int:
        """The number of edits that no certificate exceeds, however many votes there are: the largest k, q^k > 1/2."""
        return int(self.edits(np.zeros(1))[0])

    def size(self, shape: tuple[int, ...]) -> int:
        """As many coins as a row of bytes can have words."""
        if len(shape) != 1:
            raise UsageError(f"inputs of shape {shape} have no words; texts are rows of bytes")
        return (shape[0] + 1) // 2

    def apply(self, images: Tensor, parameters: Tensor) -> Tensor:
        """Each of N rows of bytes (or one for all) without the words whose coin (N x size) is below the threshold."""
        rows = images.detach().to("cpu", torch.uint8).numpy()
        width = rows.shape[1]
        # most rows are far shorter than the longest text of their data set, and need far fewer coins
        rows = rows[:, : int(np.flatnonzero(rows.any(0)).max(initial=0)) + 1]
        coins = parameters[:, : self.size(rows.shape[1:])].detach().cpu().numpy()
        kept = thin(rows, coins * _STEPS >= self._threshold)
        out = np.zeros((len(kept), width), np.float32)
        out[:, : kept.shape[1]] = kept
        return torch.from_numpy(out).to(images)

    def radius(self, miss: FloatArray, rival: FloatArray) -> FloatArray:
        """The number of edits that the vote survives, and a ten-thousandth; -inf where not even 0 edits do."""
        lost = 1 - margin(miss, rival) / 2
        return np.where(lost < 1, self.edits(lost - 0.5) + BEYOND, -np.inf)

    def edits(self, doubt: FloatArray) -> FloatArray:
        """The largest whole k with q^k > 1/2 + `doubt` (0 to 1/2); -1 if there is none."""
        bound = 0.5 + np.asarray(doubt, np.float64)
        # one too many at first, because a logarithm rounds; powers say which is right
        k = np.ceil(np.log(bound) / math.log(self.q)) + 1
        for _ in range(4):
            k = np.where((k >= 0) & (self.q ** np.maximum(k, 0) <= bound), k - 1, k)
        return np.asarray(np.maximum(k, -1.0))

    @property
    def _threshold(self) -> int:
        """In steps: coins on the grid are at least this with probability 1 - q, or a little less (never more)."""
        return math.ceil(_STEPS + 0.5 - 2 * _STEPS * (1 - self.q))


def thin(rows: NDArray[np.uint8], stays: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """The words of rows (N or 1 x W) that stay (N x coins: the i-th word of a row has its i-th coin), N x W.

    >>> rows = np.frombuffer(b"one two three", np.uint8)[None]
    >>> bytes(thin(rows, np.array([[True, False, True]]))[0]).rstrip(b"\\0")
    b'one three'
    """
    between = rows == BETWEEN
    letters = (rows != SPACE) & (rows != 0) & ~between
    starts = letters.copy()
    starts[:, 1:] &= ~letters[:, :-1]
    # one space goes with the word behind it, however the row was written
    spaces = np.zeros_like(starts)
    spaces[:, :-1] = starts[:, 1:] & (rows[:, :-1] == SPACE)
    word = np.cumsum(starts, 1) - letters
    coins = np.broadcast_to(np.minimum(word, stays.shape[1] - 1), (len(stays), rows.shape[1]))
    stays_here = np.take_along_axis(stays, coins, 1)
    kept = stays_here & letters
    before = np.cumsum(kept, 1)
    if between.any():
        # of the second part of a pair, what stays of the first does not count
        before = before - np.maximum.accumulate(np.where(between, before, 0), 1)
    kept |= (stays_here & spaces & (before > 0)) | between
    out = np.zeros(kept.shape, np.uint8)
    out[np.arange(kept.shape[1]) < kept.sum(1)[:, None]] = np.broadcast_to(rows, kept.shape)[kept]
    return out
