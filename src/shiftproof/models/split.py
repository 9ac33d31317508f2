"""A classifier as an encoder and a head."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, nn

if TYPE_CHECKING:
    from shiftproof.models.architecture import Architecture

__all__ = ["SplitModel"]


class SplitModel(nn.Module):
    """`head(encoder(x))`: the encoder gives a representation (N x D), the head logits (N x K).

    `with_head` keeps the encoder and exchanges the head, which is how a model is carried to another label space.
    `architecture` says how to build the same model again; it is None for one put together by hand.
    """

    def __init__(self, encoder: nn.Module, head: nn.Module, architecture: Architecture | None = None) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head
        self.architecture = architecture

    def forward(self, inputs: Tensor) -> Tensor:
        """Inputs in [0, 1] to logits."""
        return self.head(self.encoder(inputs))  # type: ignore[no-any-return]

    def with_head(self, head: nn.Module) -> SplitModel:
        """The same encoder (shared, not copied) under another head."""
        return SplitModel(self.encoder, head)
