"""Certified classes compared with votes of the model itself, before certificates are handed out."""

from __future__ import annotations

import numpy as np
import torch
from scipy.stats import binom
from torch import nn

from shiftproof.attacks.victim import frozen
from shiftproof.certification.certificates import Certificates
from shiftproof.certification.certifier import Job
from shiftproof.certification.plain_votes import count_votes, standard_noise
from shiftproof.errors import NotAFunction
from shiftproof.models.text import noise_shape
from shiftproof.perturbations.noise import Noise
from shiftproof.rng import numpy_generator

__all__ = ["spot_check"]

IMAGES, VOTES, SHARE = 16, 32, 0.02
"""So many images get so many votes, or fewer: no more than a share of the votes that certified them all."""
WRONGLY_REFUSED = 1e-9
"""How probable it is at most that a sound job is refused."""
_SLACK = {"f32": 0.0, "bf16": 0.05, "tf32": 0.05}


def spot_check(job: Job, model: nn.Module, noise: Noise, certificates: Certificates) -> None:
    """Refuse certificates whose class the model itself, asked plainly with other noise, hardly ever gives.

    What voted is a copy that was made fast. It is compared with the model on a few inputs before it votes; this looks
    at the votes themselves, on the samples that were certified.
    """
    held = np.flatnonzero((certificates.radius > 0) & ~certificates.skipped & (certificates.p_lower > 0.5))
    # those that are surest are the easiest to find wrong
    surest = held[np.argsort(-certificates.p_lower[held], kind="stable")][:IMAGES]
    most = int(SHARE * int(certificates.n.sum()))
    chosen = surest[: max(1, most // VOTES)]
    if not len(chosen):
        return
    size = noise.size(noise_shape(noise, model, job.domain.shape))
    draws = standard_noise(noise.law, size, VOTES, numpy_generator(job.seed, "spot check", noise.law, size))
    inputs = job.domain.take(chosen)[0]
    with torch.no_grad(), frozen(model):
        for image, row in zip(inputs, chosen.tolist(), strict=True):
            votes = count_votes(model, noise, image, draws)
            expected = float(certificates.p_lower[row]) - _SLACK[job.compute.precision]
            own = int(votes[certificates.chosen[row]])
            if binom.cdf(own, VOTES, expected) < WRONGLY_REFUSED / len(chosen):
                raise NotAFunction(
                    f"the model itself gives the certified class of {certificates.ids[row]} in {own} of {VOTES} votes, "
                    f"where its copy gave it in {certificates.count[row]:,} of {certificates.n[row]:,}: what voted is "
                    "not the model, and nothing is certified"
                )
