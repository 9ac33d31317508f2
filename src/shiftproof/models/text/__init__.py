"""Models that read text: a tokeniser, an embedding of tokens, and what reads the embedding."""

from shiftproof.models.text.encoder import TextEncoder, text_encoder_of
from shiftproof.models.text.tokens import HashTokeniser, Tokeniser, Tokens

__all__ = ["HashTokeniser", "TextEncoder", "Tokeniser", "Tokens", "text_encoder_of"]
