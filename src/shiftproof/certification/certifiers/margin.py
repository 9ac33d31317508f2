"""What certifiers by margins share: one forward pass, and nothing random."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from shiftproof.certification.bounds.margins import ROUNDING_WORDS, over_constant, safe_margins
from shiftproof.certification.bounds.representations import Parts, encode, one_pass
from shiftproof.certification.certificates import Certificates
from shiftproof.certification.certified_classifier import CertifiedBase, CertifiedClassifier
from shiftproof.certification.certifier import Certifier, Job
from shiftproof.certification.facts import facts_of
from shiftproof.perturbations.noise.gaussian import Gaussian
from shiftproof.perturbations.threat import Norm
from shiftproof.types import Cost, FloatArray

__all__ = ["MarginCertifier", "margin_certificates", "margin_guarantee"]


def margin_certificates(job: Job, parts: Parts, norm: Norm, what: str, certifier: Certifier) -> Certificates:
    """Certificates from one forward pass: margin over constant."""
    encoded = encode(job, parts, norm)
    winner, margin, radius = safe_margins(parts, encoded, job.domain.shape, norm)
    return Certificates.blank(
        job.domain.ids,
        winner,
        radius,
        bound=np.full(len(winner), "exact"),
        margin=margin,
        norm=norm,
        units=Gaussian.units,
        alpha=0.0,
        guarantee=margin_guarantee(norm, what),
        constant=parts.constant,
        **facts_of(job, certifier, encoded.seconds, rounding=encoded.rounding, passes=len(winner)),
    )


def margin_guarantee(norm: Norm, what: str) -> str:
    """The sentence that certificates of a margin carry; `what` says which margin over which constant."""
    return (
        f"The classifier itself gives the certified class under every change of the input whose {norm} norm "
        f"({Gaussian.units}) is below the radius: {what}. Nothing is random. {ROUNDING_WORDS}"
    )


class MarginCertifier(Certifier):
    """What both margins share: nothing is sampled, and what is certified is the classifier itself."""

    classifier: ClassVar[str] = "base"

    def estimate(self, job: Job) -> Cost:
        """One forward pass a sample."""
        return one_pass(job)

    def certified_classifier(self, job: Job) -> CertifiedClassifier:
        """The classifier itself."""
        return CertifiedBase(job.model)

    def rederive(self, certificates: Certificates) -> FloatArray:
        """Margin over constant; the margin itself only the model knows."""
        return over_constant(certificates.margin, certificates.constant, certificates.radius)
