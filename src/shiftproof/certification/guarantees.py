"""The guarantee of a certificate, in a sentence."""

from __future__ import annotations

import re

from shiftproof.certification.sampling.bank import grid_of
from shiftproof.perturbations.noise import Noise

__all__ = ["TOGETHER", "described_classifier", "smoothing_guarantee"]

TOGETHER = (
    "For each sample, fixed before the noise seed was drawn, the probability that its radius is too large is at most "
    "alpha. Samples, domains and models in this report share noise, so errors can occur together; the expected number "
    "of wrong certificates is at most alpha x N."
)
"""What may and may not be concluded from many certificates at once."""

_EVALUATED = re.compile(
    r"\b(?:f32|bf16|tf32)(?: on [a-z]+)?(?:, \d+ BatchNorm folded)?(?:, first layer split off)?"
    r"(?:, \d+ convolutions? fused)?, (?:torch|OpenVINO) [\w.]+"
)


def described_classifier(guarantee: str) -> str:
    """How a guarantee says that the model was evaluated: precision, rewrites and version, and no other words."""
    found = _EVALUATED.search(guarantee)
    return found[0] if found else "not described"


def smoothing_guarantee(noise: Noise, alpha: float, classifier: str) -> str:
    """Of randomized smoothing: which ideal classifier, against what, with what probability."""
    rounded = "embeddings" if noise.embedded else "inputs" if noise.additive else "parameters"
    on_a_grid = f"{rounded} rounded to 1/{grid_of(noise)}"
    return (
        f"The smoothed classifier, which answers with the class that the evaluated model ({classifier}; {on_a_grid}) "
        f"gives most probably under {noise!r}, gives the certified class under {noise.claim}; for each {noise.kind} "
        f"that was fixed before the seed was drawn, this is wrong with probability at most {alpha:g} over the seed."
    )
