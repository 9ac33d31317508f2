"""The margin of a whole network over its Lipschitz constant."""

from __future__ import annotations

from dataclasses import dataclass

from shiftproof.certification.bounds.margins import useless
from shiftproof.certification.bounds.representations import Parts, check_precision, linear_parts
from shiftproof.certification.certificates import Certificates
from shiftproof.certification.certifier import CERTIFIERS, Job
from shiftproof.certification.certifiers.margin import MarginCertifier, margin_certificates, margin_guarantee
from shiftproof.perturbations.threat import Norm

__all__ = ["LipschitzMargin"]


@CERTIFIERS.register(
    "lipschitz-margin",
    paper="Tsuzuku et al. 2018; Li et al. 2019",
    needs="layers of known constant throughout",
    norm="l2, linf or l1",
    cost="1 forward pass a sample",
)
@dataclass(frozen=True)
class LipschitzMargin(MarginCertifier):
    """The margin of a network over its Lipschitz constant in a norm; alpha is 0. A linear last layer counts exactly.

    Tsuzuku et al., "Lipschitz-margin training" (2018, arXiv:1802.04034); Li et al., "Preventing gradient attenuation in
    Lipschitz constrained convolutional networks" (2019, arXiv:1911.00937).
    """

    norm: Norm = "l2"

    @property
    def title(self) -> str:
        """What tells it from others in a table."""
        return f"lipschitz margin {self.norm}"

    def applies(self, job: Job) -> str:
        """To a network of layers whose constants are known."""
        check_precision(job)
        parts = linear_parts(job.model, job.domain.shape, self.norm)
        before = "" if parts.weight is None else " before the last layer"
        bound = f"the {self.norm} constant{before} is at most {parts.constant:.4g}{useless(parts.constant)}"
        return f"every layer's constant is known; {bound}"

    def certify(self, job: Job) -> Certificates:
        """Certificates for every sample of the job's domain."""
        parts = linear_parts(job.model, job.domain.shape, self.norm)
        return margin_certificates(job, parts, self.norm, self._what(parts), self)

    def guarantee_of(self, job: Job, certificates: Certificates) -> str:
        """The sentence that certificates of the job should carry."""
        return margin_guarantee(self.norm, self._what(linear_parts(job.model, job.domain.shape, self.norm)))

    def _what(self, parts: Parts) -> str:
        before = "" if parts.weight is None else " before the last layer"
        return f"the margin over the network's constant{before}, {parts.constant:.7g}"
