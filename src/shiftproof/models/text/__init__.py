"""Models that read text: a tokeniser, an embedding of tokens, and what reads the embedding."""

from shiftproof.models.text.embedded import EmbeddedTexts, embedding_shape, noise_shape
from shiftproof.models.text.encoder import TextEncoder, text_encoder_of
from shiftproof.models.text.tokens import HashTokeniser, Tokeniser, Tokens

__all__ = [
    "EmbeddedTexts",
    "HashTokeniser",
    "TextEncoder",
    "Tokeniser",
    "Tokens",
    "embedding_shape",
    "noise_shape",
    "text_encoder_of",
]
