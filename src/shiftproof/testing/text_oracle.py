"""A classifier of texts whose true radii in its embedding are known."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from shiftproof.domains import Domain
from shiftproof.domains.texts import text_domain
from shiftproof.models.text import EmbeddedTexts
from shiftproof.rng import numpy_generator
from shiftproof.testing.text_attacks import mean_of_words
from shiftproof.types import FloatArray

__all__ = ["TextOracle"]

_WORDS = ["good", "bad", "fine", "poor", "film", "plot", "the", "a", "we", "saw", "long", "short", "dull", "bright"]
_WEIGHTS = (1.0, -2.0, 0.5, 0.25, 3.0, -0.75)
_LONGEST = 9


class TextOracle:
    """A model of two classes that is linear in the mean of a text's embeddings, `count` texts, and their true radii.

    With k of a text's n tokens its own, the margin moves by at most |w| sqrt(k) / n where these move by 1 in l2. Noise
    is symmetric, so that the smoothed classifier has the same radii. The first text has no token of its own, and so no
    limit; the last one is a tie.
    """

    def __init__(self, count: int) -> None:
        generator = numpy_generator(0, "testing", "text oracle")
        texts = ["", *(" ".join(generator.choice(_WORDS, generator.integers(1, _LONGEST))) for _ in range(count - 1))]
        weights = torch.tensor(_WEIGHTS)
        self.model = mean_of_words(weights)
        rows = text_domain("linear", texts, np.zeros(count, np.int64), ["below", "above"]).tensors()[0]
        embedded = EmbeddedTexts.of(self.model, rows)
        real, own = embedded.tokens.real, embedded.movable.sum(1)
        with torch.no_grad():
            sums = (embedded.embed().double() * real[..., None]).sum(1)
            margins = (sums / real.sum(1)[:, None]) @ weights.double()
            assert isinstance(self.model.head, nn.Linear)
            self.model.head.bias.copy_(torch.tensor([0.5, -0.5]) * margins[-1])
        margins = margins - margins[-1]
        steepness = weights.double().norm() * own.sqrt() / real.sum(1)
        self.radii: FloatArray = np.where(own > 0, margins.abs() / steepness, np.inf)
        labels = (margins > 0).long().numpy()
        self.domain: Domain = text_domain("linear", texts, labels, ["below", "above"])
