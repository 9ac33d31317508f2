"""Votes of a model itself under noise, asked plainly: what a certificate speaks of, without anything made for speed.

Nothing here is shared with the sampling engine: the model is called as it is, and noise is drawn, put on the grid and
added in a few lines of their own. `verify` doubts certificates by these votes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from shiftproof.models.outputs import logits_of
from shiftproof.models.text import TextEncoder, Tokens, text_encoder_of
from shiftproof.perturbations.noise import Noise, WordDeletion
from shiftproof.types import FloatArray, IntArray

__all__ = [
    "TokenPlaces",
    "count_votes",
    "count_votes_of_each",
    "noisy_copies",
    "noisy_logits",
    "standard_noise",
    "token_places",
]

PIXEL_STEPS, PARAMETER_STEPS, EMBEDDING_STEPS = 65_280, 65_536, 262_144
"""Steps in one unit of what noise moves: pixel values, the parameters of a deformation, embeddings. Guarantees name
them.
"""
_FEWEST, _MOST, _CACHED, _NUMBERS = 128, 1_024, 1 << 17, 1 << 22
"""Copies in a batch: as many as stay in the caches, of large images some more, and never more than fit into memory."""


def standard_noise(law: str, size: int, count: int, generator: np.random.Generator) -> FloatArray:
    """Draws (count x size): normal with variance 1, or uniform between -1 and 1."""
    return generator.standard_normal((count, size)) if law == "normal" else generator.uniform(-1, 1, (count, size))


def noisy_copies(noise: Noise, image: Tensor, draws: FloatArray, shift: FloatArray | None = None) -> Tensor:
    """An image (shape) under standard draws (N x size), as the certified classifier sees it: N x shape, float32.

    Noise on pixels and the image are rounded to steps of 1/65280, the parameters of a deformation and the coins of
    words to 1/65536; `shift` (size) moves parameters inside the one interpolation.
    """
    if isinstance(noise, WordDeletion):
        return _thinned(image, np.rint(draws * PARAMETER_STEPS) / PARAMETER_STEPS, noise.q)
    if noise.additive:
        pixels = np.rint(image.double().cpu().numpy() * PIXEL_STEPS)
        moved = np.rint(draws * noise.scale * PIXEL_STEPS).reshape(len(draws), *pixels.shape)
        return torch.from_numpy((pixels + moved) / PIXEL_STEPS).float()
    parameters = torch.from_numpy(np.rint(draws * noise.scale * PARAMETER_STEPS) / PARAMETER_STEPS).float()
    if shift is not None:
        parameters = parameters + torch.from_numpy(shift).float()
    return noise.apply(image[None].cpu(), parameters)


class TokenPlaces(NamedTuple):
    """Where the tokens of one text are in a model's embedding (T x D, float64), and which are the text's own (T)."""

    encoder: TextEncoder
    tokens: Tokens
    at: FloatArray
    own: NDArray[np.bool_]


def token_places(model: nn.Module, text: Tensor) -> TokenPlaces:
    """Of a text (bytes), by the model itself."""
    encoder = text_encoder_of(model)
    assert encoder is not None
    with torch.no_grad():
        tokens = encoder.tokens(text[None])
        at = encoder.embed(tokens)[0].double().cpu().numpy()
    return TokenPlaces(encoder, tokens, at, tokens.words[0].cpu().numpy())


def noisy_logits(
    model: nn.Module, noise: Noise, image: Tensor, draws: FloatArray, shift: FloatArray | None = None
) -> Tensor:
    """What the model says (N x K) of an image (shape) or a text (bytes) under standard draws (N x size).

    Noise on embeddings, and these, are rounded to steps of 1/262144 where a token is the text's own; other tokens stay
    as they are. `shift` (size) moves embeddings before that.
    """
    if not noise.embedded:
        return logits_of(model, noisy_copies(noise, image, draws, shift))
    encoder, tokens, at, own = token_places(model, image)
    count, width = at.shape
    # the i-th token of a text has the i-th row of a draw, and a draw has rows for all tokens that the model reads
    moved = at if shift is None else at + shift.reshape(-1, width)[:count]
    spread = np.rint(draws.reshape(len(draws), -1, width)[:, :count] * noise.scale * EMBEDDING_STEPS)
    points = np.where(own[:, None], (np.rint(moved * EMBEDDING_STEPS) + spread) / EMBEDDING_STEPS, at)
    like = encoder.embed(tokens).detach()
    copies = Tokens(*(column.expand(len(draws), *column.shape[1:]) for column in tokens))
    with encoder.given(torch.from_numpy(points).to(like), copies):
        return logits_of(model, image.expand(len(draws), -1))


def _thinned(text: Tensor, coins: FloatArray, q: float) -> Tensor:
    """A text (bytes) without the words whose coin (N x words at most, from -1 to 1) lets them go, word by word."""
    parts = bytes(int(byte) for byte in text.tolist() if byte).split(b"\x1e")
    # half a step more: on a grid, that and no less makes a word go with probability q
    stays = coins >= 2 * q - 1 + 0.5 / PARAMETER_STEPS
    rows = np.zeros((len(coins), text.numel()), np.float32)
    for row, coin in zip(rows, stays, strict=True):
        own = iter(coin.tolist())
        kept = b"\x1e".join(b" ".join(word for word in part.split() if next(own)) for part in parts)
        row[: len(kept)] = list(kept)
    return torch.from_numpy(rows)


def count_votes(
    model: nn.Module, noise: Noise, image: Tensor, draws: FloatArray, shift: FloatArray | None = None
) -> IntArray:
    """How often the model gives each class (K) to an image (shape) under standard draws (N x size)."""
    together = _batch_size(image, draws)
    counts: IntArray | None = None
    for start in range(0, len(draws), together):
        logits = noisy_logits(model, noise, image, draws[start : start + together], shift)
        votes = torch.bincount(logits.argmax(1).cpu(), minlength=logits.shape[1]).numpy()
        counts = votes if counts is None else counts + votes
    assert counts is not None
    return counts


def count_votes_of_each(
    model: nn.Module, noise: Noise, images: Tensor, draws: FloatArray, shifts: FloatArray | None = None
) -> IntArray:
    """The same for several images (M x shape), each with its shift: M x K. Few votes of many images share batches."""
    # texts behind an embedding are of different lengths, and share none
    many = 0 if noise.embedded else _batch_size(images[0], draws) // len(draws)
    moves: list[FloatArray | None] = [None] * len(images) if shifts is None else list(shifts)
    if many < 2:
        return np.stack([count_votes(model, noise, one, draws, move) for one, move in zip(images, moves, strict=True)])
    counts = []
    for start in range(0, len(images), many):
        pairs = list(zip(images[start : start + many], moves[start : start + many], strict=True))
        answers = logits_of(model, torch.cat([noisy_copies(noise, one, draws, move) for one, move in pairs]))
        votes = answers.argmax(1).cpu().reshape(len(pairs), len(draws))
        counts.append(torch.nn.functional.one_hot(votes, answers.shape[1]).sum(1).numpy())
    return np.concatenate(counts)


def _batch_size(image: Tensor, draws: FloatArray) -> int:
    size: int = max(1, image.numel(), draws.shape[1])
    return max(1, min(max(_FEWEST, min(_MOST, _CACHED // size)), _NUMBERS // size))
