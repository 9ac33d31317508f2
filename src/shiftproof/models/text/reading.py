"""Whether a module of transformers can be read in two halves, how far, and in which order it answers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from shiftproof.errors import ModelError, UsageError
from shiftproof.models.text.library import first_line, quiet
from shiftproof.models.text.transformer import TransformerEncoder

__all__ = ["Reordered", "check_reading", "checked_length"]

_TRIED = ("short", "a text that is longer than the other one")
_NEAR = 1e-3
"""How far two ways through a model may be apart, relative to how large its outputs are."""


class Reordered(nn.Module):
    """Logits in another order of classes."""

    def __init__(self, order: Sequence[int]) -> None:
        super().__init__()
        self.order = tuple(order)

    def forward(self, logits: Tensor) -> Tensor:
        return logits[:, list(self.order)]


def checked_length(length: int | None, limit: int, name: str) -> int:
    """How many tokens are read: as asked, or as many as the model can."""
    if length is not None and not 1 <= length <= limit:
        raise UsageError(f"length is {length}, but {name} reads from 1 to {limit} tokens")
    return limit if length is None else length


def check_reading(encoder: TransformerEncoder, name: str) -> None:
    """Refuse a module that can't be read in two halves: embeddings, filled up, say other things than tokens alone."""
    training = encoder.training
    encoder.eval()
    place = next(encoder.parameters()).device
    try:
        with torch.no_grad(), quiet():
            tokens = encoder.tokeniser.tokens(_TRIED)
            tokens = type(tokens)(*(part.to(place) for part in tokens))
            together = encoder.encode(encoder.embed(tokens), tokens)
            alone = torch.cat([encoder.read_directly(tokens.rows(torch.tensor([row]))) for row in range(len(_TRIED))])
            far = float((together - alone).abs().max() / alone.abs().max().clamp(min=1e-6))
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(
            f"{name} can't be read from embeddings of tokens (inputs_embeds, attention_mask) to "
            f"{'logits' if encoder.pooling is None else 'hidden states'}: {first_line(error)}"
        ) from error
    finally:
        encoder.train(training)
    if not far <= _NEAR:
        raise ModelError(
            f"{name} says other things of embeddings in a batch that is filled up than of the tokens of a text alone "
            "(a decoder?): what is attacked and certified would not be the model"
        )
