"""Votes of the fast copy compared, one by one, with the model itself on the very same noisy input, alone.

Comparing a few inputs before sampling can miss what happens on one noisy input in fifty: a branch that tracing did not
see, a hook, an overflow, an answer that depends on the others in a slice. So a random part of all votes is asked again
of the model itself, each input on its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from shiftproof.attacks.victim import frozen
from shiftproof.certification.plain_votes import noisy_logits
from shiftproof.certification.sampling.bank import FIRST
from shiftproof.errors import NotAFunction
from shiftproof.perturbations.noise import Noise
from shiftproof.rng import numpy_generator
from shiftproof.types import FloatArray, IntArray

__all__ = ["Compared", "PlainVotes"]

AT_LEAST, SHARE, FIRST_TILE, MOST = 256, 1 / 1_024, 2 / 128, 1 / 8
"""So many votes of a job are compared, this share of more, two of every image's first 128, and no more than this."""
_NEAR_TIE, _ROUNDING = 0.02, 4 * 2.0**-23
"""Of the usual lead, and of the logits: below this, rounding may change an answer."""
_FEWER_BITS = 0.05
"""What part of the answers may differ where the copy computes in fewer bits than float32."""

Chosen = tuple[int, int]
"""Which row of a block of noise, and what the copy answered."""


@dataclass
class Compared:
    """How many votes were compared, and by how much the model itself was ahead where its copy gave another class."""

    leads: list[float] = field(default_factory=list)
    sizes: list[float] = field(default_factory=list)
    other: list[bool] = field(default_factory=list)

    def add(self, more: Compared) -> None:
        """Take over what another process compared."""
        self.leads += more.leads
        self.sizes += more.sizes
        self.other += more.other

    def check(self, precision: str) -> None:
        """Refuse votes of a copy that answers otherwise than the model, but for ties; one in a job is forgiven."""
        if not self.leads:
            return
        leads, other = np.array(self.leads), np.array(self.other)
        rounding = np.maximum(_NEAR_TIE * np.median(leads), _ROUNDING * np.array(self.sizes))
        wrong = int((other & (leads > rounding)).sum())
        fewer = _FEWER_BITS * len(leads) if precision != "f32" else 0.0
        if wrong > 1 + fewer + 3 * fewer**0.5:
            raise NotAFunction(
                f"in {wrong} of {len(leads)} votes that were compared, the model itself gives another class to the "
                "same noisy input, alone, than its copy did among others: it depends on its batch, on what it was "
                "asked before, or on what a copy of it does not keep. Nothing is certified"
            )


@dataclass(frozen=True, eq=False)
class PlainVotes:
    """Asks a model itself about a random part of the votes of its copy. `share` is that part of a whole job."""

    model: nn.Module
    noise: Noise
    share: float

    @classmethod
    def of(cls, model: nn.Module, noise: Noise, votes: int) -> PlainVotes:
        """For a job of at most so many votes."""
        return cls(model, noise, min(MOST, max(AT_LEAST / max(votes, 1), SHARE)))

    def places(self, purpose: str, image: int, votes: int) -> IntArray:
        """Which of an image's votes are compared, ascending: drawn once, not for every tile."""
        drawn = numpy_generator(0, "compared votes", purpose, image).random(votes)
        chosen = drawn < self.share
        chosen[:FIRST] = drawn[:FIRST] < max(self.share, FIRST_TILE)
        return np.flatnonzero(chosen)

    def choose(self, winners: Tensor, start: int, places: IntArray) -> list[Chosen]:
        """Those of the votes from `start` on that are at one of the places."""
        first, end = np.searchsorted(places, (start, start + len(winners)))
        return [(row, int(winners[row])) for row in (places[first:end] - start).tolist()]

    def compare(self, images: Sequence[Tensor], draws: FloatArray, chosen: Sequence[list[Chosen]]) -> Compared:
        """What was chosen of the tiles of several images under one block of noise, against the model.

        All of a block one after the other: between two tiles the model's weights would leave the caches.
        """
        found = Compared()
        if not any(chosen):
            return found
        with torch.no_grad(), frozen(self.model):
            each = [
                noisy_logits(self.model, self.noise, image, draws[row : row + 1])
                for image, few in zip(images, chosen, strict=True)
                for row, _ in few
            ]
        logits = torch.cat(each).double().cpu()
        winners = torch.tensor([winner for few in chosen for _, winner in few])
        top = logits.topk(2, 1)
        found.leads = (top.values[:, 0] - top.values[:, 1]).nan_to_num(0, 0, 0).tolist()
        found.sizes = top.values.abs().amax(1).nan_to_num(0, 0, 0).tolist()
        found.other = (top.indices[:, 0] != winners).tolist()
        return found
