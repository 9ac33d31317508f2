"""Votes on one text whose embeddings meet noise: the tile of a noise behind the first layer of a model.

A text stays a row of bytes until here. Its tokens are embedded by the model itself, brought to the grid and added to
noise as whole numbers; the fast copy then reads the sums in place of its own embeddings. Tokens that are not the text's
own (padding, special ones) are handed over as they are, so that no noise reaches them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from shiftproof.certification.sampling.bank import EMBEDDING_GRID, check_exact, on_grid
from shiftproof.certification.sampling.voting import Voter
from shiftproof.errors import ModelError, UsageError
from shiftproof.models.text import EmbeddedTexts, TextEncoder, Tokens, text_encoder_of
from shiftproof.models.text.encoder import GROUP_TOKENS
from shiftproof.perturbations.noise import Noise
from shiftproof.types import FloatArray

__all__ = ["EmbeddedVoter", "off_grid_texts"]


@dataclass(frozen=True, eq=False)
class PlacedText:
    """One text on its way to many votes: its embeddings as they are and in steps of the grid (T x D each)."""

    row: Tensor
    tokens: Tokens
    clean: Tensor
    steps: Tensor

    @property
    def own(self) -> Tensor:
        """Where there is a token of the text itself (T x 1)."""
        return self.tokens.words[0, :, None]


@dataclass(frozen=True, eq=False)
class EmbeddedVoter(Voter):
    """Counts votes under noise on embeddings. `shape` is that of the embeddings of all tokens that are read.

    `model` is the model itself, which says where tokens are: a copy in fewer bits would round that before noise is
    added.
    """

    model: nn.Module

    def place_noise(self, draws: FloatArray) -> Tensor:
        """A block of standard draws as steps, for every place at which a token can be."""
        # in place: a block is as large as that of large images
        steps = draws * self.noise.scale
        steps *= EMBEDDING_GRID
        return torch.from_numpy(np.rint(steps, out=steps)).float().view(-1, *self.shape).to(self.prepared.place)

    def place_image(self, image: Tensor) -> PlacedText:
        """A text (1 x bytes), in the form in which it meets every block of noise."""
        texts = EmbeddedTexts.of(self.model, image)
        with torch.no_grad():
            clean = texts.embed()[0].cpu()
        if len(clean) > self.shape[0]:
            raise ModelError(
                f"a text has {len(clean)} tokens, but the model's tokeniser says that it reads {self.shape[0]}"
            )
        steps = torch.from_numpy(on_grid(clean.double().numpy(), EMBEDDING_GRID)).float()
        place = self.prepared.place
        tokens = Tokens(*(part.to(place) for part in texts.tokens))
        return PlacedText(image.to(place), tokens, clean.float().to(place), steps.to(place))

    def slice_size(self, image: PlacedText) -> int:
        """As many samples as an encoder reads at once of texts that long."""
        fitting = max(1, GROUP_TOKENS // len(image.steps))
        return 1 << (fitting.bit_length() - 1)

    def evaluate(self, image: PlacedText, piece: Tensor) -> Tensor:
        """Logits of the fast copy, given the sums in place of its own embeddings."""
        # both are whole numbers, and the grid is a power of two: neither the sum nor the quotient is rounded
        sums = (piece[:, : len(image.steps)] + image.steps).div_(EMBEDDING_GRID)
        points = torch.where(image.own, sums, image.clean)
        tokens = Tokens(*(part.expand(len(points), *part.shape[1:]) for part in image.tokens))
        with self._encoder.given(points.to(self._encoder.embed(image.tokens)), tokens):
            return self.prepared(image.row.expand(len(points), -1))

    @property
    def _encoder(self) -> TextEncoder:
        encoder = text_encoder_of(self.prepared.rest) if isinstance(self.prepared.rest, nn.Module) else None
        if encoder is None:
            raise UsageError("noise on embeddings acts inside the model, which backend 'openvino' does not take apart")
        return encoder


def off_grid_texts(model: nn.Module, noise: Noise, rows: Tensor) -> FloatArray:
    """How far texts (N x bytes) are from the grid, in l2 over their own tokens; refuses what is too large for it."""
    texts = EmbeddedTexts.of(model, rows)
    with torch.no_grad():
        embedded = texts.embed().double().cpu().numpy()
    own = np.where(texts.movable.cpu().numpy()[..., None], embedded, 0.0)
    check_exact(noise, float(np.abs(own).max(initial=0.0)))
    # every bit of an embedding counts: nobody writes it down in eight
    apart = own - np.rint(own * EMBEDDING_GRID) / EMBEDDING_GRID
    far: FloatArray = np.linalg.norm(apart.reshape(len(apart), -1), axis=1)
    return far
