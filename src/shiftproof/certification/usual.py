"""The noise of a certificate unless one is told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shiftproof.perturbations.noise import Noise
from shiftproof.perturbations.noise.gaussian import Gaussian
from shiftproof.perturbations.noise.word_deletion import WordDeletion

__all__ = ["usual_noise"]


def usual_noise(kind: str, card: Mapping[str, Any]) -> Noise:
    """The noise for data of a kind, image | text, as strong as the model's record says that its training was.

    >>> usual_noise("text", {"objective": {"name": "word-deletion", "q": 0.9}}), usual_noise("image", {})
    (WordDeletion(q=0.9), Gaussian(sigma=0.25))
    """
    trained = card.get("objective") or {}
    if kind == "text":
        return WordDeletion(trained.get("q") or WordDeletion.usual)
    return Gaussian(trained.get("sigma") or Gaussian.usual)
