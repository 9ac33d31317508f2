"""The margin of a linear head over the constant of its encoder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from shiftproof.certification.bounds.margins import useless
from shiftproof.certification.bounds.representations import Parts, check_precision, linear_parts
from shiftproof.certification.certificates import Certificates
from shiftproof.certification.certifier import CERTIFIERS, Job
from shiftproof.certification.certifiers.margin import MarginCertifier, margin_certificates, margin_guarantee

__all__ = ["LatentMargin"]


@CERTIFIERS.register(
    "latent-margin",
    paper="in place of GLEAN's Theorem 2",
    needs="a linear head over an encoder of known constant",
    norm="l2",
    cost="1 forward pass a sample",
)
@dataclass(frozen=True)
class LatentMargin(MarginCertifier):
    """The distance to the decision boundary of a linear head, over the constant of the encoder; alpha is 0.

    Of the head, noise on the representation can't certify more: a class's region lies in a half-space for every other.
    """

    title: ClassVar[str] = "latent margin"

    def applies(self, job: Job) -> str:
        """To a linear head over an encoder whose constant is known."""
        check_precision(job)
        parts = linear_parts(job.model, job.domain.shape, "l2", needs_split=True)
        return f"a linear head over an encoder of l2 constant {parts.constant:.4g}{useless(parts.constant)}"

    def certify(self, job: Job) -> Certificates:
        """Certificates for every sample of the job's domain."""
        parts = linear_parts(job.model, job.domain.shape, "l2", needs_split=True)
        return margin_certificates(job, parts, "l2", self._what(parts), self)

    def guarantee_of(self, job: Job, certificates: Certificates) -> str:
        """The sentence that certificates of the job should carry."""
        return margin_guarantee("l2", self._what(linear_parts(job.model, job.domain.shape, "l2", needs_split=True)))

    def _what(self, parts: Parts) -> str:
        return f"the margin of the linear head over the encoder's constant, {parts.constant:.7g}"
