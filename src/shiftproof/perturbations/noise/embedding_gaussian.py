"""Gaussian noise on the embeddings of a text's tokens."""

import math
from dataclasses import dataclass
from typing import ClassVar

from shiftproof.errors import UsageError
from shiftproof.perturbations.embedding import EmbeddingThreat
from shiftproof.perturbations.noise.noise import NOISES
from shiftproof.perturbations.noise.normal import Normal

__all__ = ["EmbeddingGaussian"]

_BALL = EmbeddingThreat("l2", 0.0)
"""What its radii speak of: the same change that the attack on embeddings makes."""


@NOISES.register(
    "embedding-gaussian",
    paper="Cohen et al. 2019",
    radius="l2 of embeddings, over the text",
    parameters="one per number of a token's embedding",
)
@dataclass(frozen=True)
class EmbeddingGaussian(Normal):
    """Normal noise of standard deviation `sigma`, added to the embeddings of a text's own tokens.

    It acts behind the first layer of the model; padding and special tokens never move. The radius is the L2 norm of a
    change of all those embeddings together, in units of the model's own embedding, and covers no exchange, insertion or
    deletion of words: two words are usually much farther apart.

    Cohen et al., "Certified adversarial robustness via randomized smoothing" (2019, arXiv:1902.02918).
    """

    kind: ClassVar[str] = "text"
    usual: ClassVar[float] = 0.1
    embedded: ClassVar[bool] = True
    norm: ClassVar[str] = _BALL.norm
    units: ClassVar[str] = _BALL.units

    @property
    def claim(self) -> str:
        """Against which changes the prediction holds, and against which it does not."""
        return (
            "every change of the embeddings of the text's own tokens whose l2 norm, over the whole text and in units "
            "of the model's own embedding, is below the radius (this covers changes of embeddings, and no exchange, "
            "insertion or deletion of words)"
        )

    def size(self, shape: tuple[int, ...]) -> int:
        """One number for every number of the embeddings of as many tokens as the model reads (tokens x width)."""
        if len(shape) != 2:
            raise UsageError(
                f"inputs of shape {shape} are no embeddings of tokens; this noise acts behind the first layer of a "
                "model of text"
            )
        return math.prod(shape)
