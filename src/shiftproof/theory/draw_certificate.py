"""The guarantee on one noisy draw of the model near a domain, from the votes that smoothing has counted."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from shiftproof.certification import Certificates
from shiftproof.certification.sampling.budget import EXACT_N, STOPPED
from shiftproof.errors import UsageError
from shiftproof.perturbations.noise.normal import Normal
from shiftproof.statistics import lower_bound
from shiftproof.theory.confidence import Terms, check_level, sampling_term, split_terms
from shiftproof.theory.one_draw import draw_share, kumar_share
from shiftproof.theory.shift_certificate import FIXED_ALPHA, read_again
from shiftproof.theory.transport import check_order
from shiftproof.theory.words import level_text, percent_down
from shiftproof.types import FloatArray

__all__ = ["DrawCertificate", "draw_certificate", "label_probability"]


@dataclass(frozen=True, eq=False, repr=False)
class DrawCertificate:
    """Accuracy of f(x + e), one draw of Gaussian noise, on every distribution near a domain.

    Another classifier than the vote that `ShiftCertificate` speaks of: the two are never mixed. `at` is the larger of
    two bounds, each at half of what may go wrong: `own` from the probabilities of all samples, and `kumar` from their
    mean alone.
    """

    probability: FloatArray
    votes: FloatArray
    terms: Terms
    mean_term: float
    sigma: float
    p: float
    norm: str
    units: str
    confidence: float
    domain: str = "the measured domain"

    def __repr__(self) -> str:
        share = percent_down(float(self.at(0.0)), 1)
        return f"DrawCertificate({share} at 0, n = {len(self.probability)}, sigma {self.sigma:g})"

    def own(self, eps: ArrayLike) -> FloatArray:
        """From the probability of each sample."""
        return np.maximum(draw_share(self.probability, eps, self.sigma, self.p) - self.terms.total, 0.0)

    def kumar(self, eps: ArrayLike) -> FloatArray:
        """From the accuracy under noise alone, by the bound of Kumar et al. (2022)."""
        return kumar_share(self.accuracy, eps, self.sigma)

    @cached_property
    def accuracy(self) -> float:
        """Lower bound of the accuracy of one draw on the domain itself, by which Kumar's bound begins."""
        return max(0.0, float(self.votes.mean()) - self.mean_term)

    def at(self, eps: ArrayLike) -> FloatArray:
        """Accuracy of one draw that is guaranteed within `eps`; an array of the same shape."""
        return np.maximum(self.own(eps), self.kumar(eps))

    @property
    def guarantee(self) -> str:
        """What is guaranteed, of which classifier, and with which probability."""
        distance = "W-infinity" if math.isinf(self.p) else f"W{self.p:g}"
        return (
            f"With probability {level_text(self.confidence)} over the samples and the noise, the model under one "
            f"draw of Gaussian noise (sigma {self.sigma:g}) is right on at least the stated share of every "
            f"distribution with the class shares of {self.domain} within {distance} eps of it ({self.norm}, "
            f"{self.units}), for all eps at once. This is not the vote."
        )


def draw_certificate(
    certificates: Certificates,
    labels: ArrayLike,
    p: float = 1.0,
    *,
    confidence: float = 0.95,
    alpha: float | None = FIXED_ALPHA,
    shared_noise: bool = True,
    domain: str = "the measured domain",
) -> DrawCertificate:
    """Accuracy of one noisy draw that is guaranteed near a domain, from the votes of Gaussian smoothing.

    Samples should be independent draws of the domain that served neither training nor selection. `alpha` is the level
    at which the probability of each sample's label is bounded; None keeps that of the certificates.
    """
    order, level = check_order(p), check_level(confidence)
    noise, wanted = certificates.noise, np.asarray(labels)
    if not isinstance(noise, Normal) or certificates.classifier != "smoothed" or certificates.unsound:
        raise UsageError(f"{certificates.title}: the bound on one draw needs votes under Gaussian noise")
    if wanted.shape != certificates.prediction.shape or not len(wanted):
        raise UsageError(f"there are {len(certificates)} certificates but labels of shape {wanted.shape}")
    # a level that was fixed in advance, and no larger than that of the certificates
    each = certificates.alpha if alpha is None else min(alpha, certificates.alpha)
    probability = label_probability(certificates, wanted, each)
    shares, drawn = _vote_shares(certificates), certificates.samples
    # Kumar's half: the draws are shared by all samples, so that their mean over samples is one number a draw
    mean_term = sampling_term(len(wanted), level / 4) + sampling_term(max(1, drawn), level / 4)
    return DrawCertificate(
        probability,
        shares,
        split_terms(len(wanted), each, level / 2, shared=shared_noise),
        mean_term,
        float(noise.sigma),
        order,
        certificates.norm,
        certificates.units,
        float(confidence),
        domain,
    )


def label_probability(certificates: Certificates, labels: ArrayLike, alpha: float) -> FloatArray:
    """Lower bounds, each wrong with probability `alpha` at most, on P[f(x + e) = y] for the labels y.

    Of a sample with all its votes by Clopper-Pearson on those for its label, which nothing has selected; of one that
    stopped early the bound on its class if that is the label, else 0; of one that was skipped 0.
    """
    wanted, read = np.asarray(labels), read_again(certificates, alpha)
    full = (read.bound == EXACT_N) & (read.n == read.samples) & (read.label_count >= 0) & ~read.skipped
    bounds = np.zeros(len(read))
    if full.any():
        # what stopping early may use is spent already
        levels = read.levels
        final = alpha if levels is None else min(alpha, levels.final + levels.final_rival)
        bounds[full] = lower_bound(read.label_count[full], read.n[full], final)
    stopped = (read.bound == STOPPED) & ~read.skipped & (read.chosen == wanted)
    bounds[stopped] = read.p_lower[stopped]
    noise = read.noise
    assert isinstance(noise, Normal)
    # the votes are of the sample's place on the grid
    return ndtr(ndtri(np.clip(bounds, 0.0, 1.0)) - read.off_grid / noise.sigma)


def _vote_shares(certificates: Certificates) -> FloatArray:
    """Votes for the label over all votes; 0 where not all were drawn, which can only lower their mean."""
    full = (certificates.n == certificates.samples) & (certificates.label_count >= 0) & ~certificates.skipped
    # a sample off the grid was voted on somewhere else
    full &= certificates.off_grid == 0
    return np.where(full, certificates.label_count / np.maximum(certificates.n, 1), 0.0)
