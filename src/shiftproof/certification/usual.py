"""Which noise certificates are by, unless one is told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shiftproof.perturbations.noise import EmbeddingGaussian, Gaussian, Noise, WordDeletion

__all__ = ["applicable_noises", "trained_noises", "usual_noise"]


def usual_noise(kind: str, card: Mapping[str, Any]) -> Noise:
    """The noise for data of a kind, image | text, as strong as the model's record says that its training was.

    >>> usual_noise("text", {"objective": {"name": "word-deletion", "q": 0.9}}), usual_noise("image", {})
    (WordDeletion(q=0.9), Gaussian(sigma=0.25))
    """
    trained = card.get("objective") or {}
    if kind == "text":
        return WordDeletion(trained.get("q") or WordDeletion.usual)
    return Gaussian(trained.get("sigma") or Gaussian.usual)


def trained_noises(kind: str, card: Mapping[str, Any]) -> list[Noise]:
    """The usual noise; of a model of text that was trained under noise on its embeddings, that noise, too."""
    trained, usual = card.get("objective") or {}, usual_noise(kind, card)
    embedded = kind == "text" and trained.get("name") == "embedding-gaussian" and trained.get("sigma")
    return [usual, EmbeddingGaussian(trained["sigma"])] if embedded else [usual]


def applicable_noises(kind: str, card: Mapping[str, Any]) -> list[Noise]:
    """A noise for every kind of votes that there is on such data: of text, also one on embeddings."""
    noises = trained_noises(kind, card)
    return noises if kind != "text" or len(noises) > 1 else [*noises, EmbeddingGaussian(EmbeddingGaussian.usual)]
