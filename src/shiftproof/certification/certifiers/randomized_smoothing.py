"""Randomized smoothing: the majority vote under noise, certified by counting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from shiftproof.certification.certificates import Certificates
from shiftproof.certification.certified_classifier import CertifiedClassifier, CertifiedVote
from shiftproof.certification.certifier import CERTIFIERS, Job
from shiftproof.certification.guarantees import described_classifier, smoothing_guarantee
from shiftproof.certification.rederive import Record, radius_from_votes
from shiftproof.certification.sampling.bank import grid_of
from shiftproof.certification.sampling.engine import sample
from shiftproof.certification.sampling.estimate import estimate_sampling
from shiftproof.certification.sampling.setting import Setting
from shiftproof.errors import UsageError
from shiftproof.models.text import noise_shape
from shiftproof.perturbations.threat import size_text
from shiftproof.types import Cost, FloatArray

__all__ = ["RandomizedSmoothing"]


@CERTIFIERS.register(
    "randomized-smoothing",
    paper="Cohen et al. 2019",
    needs="any frozen classifier",
    norm="that of the noise",
    cost="n0 + n forward passes a sample, fewer with a stopping rule",
)
@dataclass(frozen=True)
class RandomizedSmoothing(Setting):
    """The majority vote of a classifier under noise, certified by counting votes.

    `n0` votes choose the class and never count again; up to `n` more bound its probability, and with `runner_up` that
    of the best other class. A certificate is wrong with probability `alpha` at most. `stop` says when an image has been
    sampled enough: "full", `Radii([...])` or `Within(fraction)`. `skip_wrong` does not certify wrong predictions, which
    leaves certified accuracy as it is.

    Cohen et al., "Certified adversarial robustness via randomized smoothing" (2019, arXiv:1902.02918).

    >>> from shiftproof.perturbations import noise
    >>> RandomizedSmoothing(noise.Gaussian(0.25), n=1_000).stop
    Full()
    """

    def applies(self, job: Job) -> str:
        """To any frozen classifier; noise on embeddings to one with an encoder of text."""
        most = self.largest_radius(job.classes)
        if most <= 0:
            raise UsageError(f"{self.n} votes can't certify anything at alpha {self.alpha:g}; give a larger n")
        self.check_model(job.model, job.domain)
        if self.noise.embedded and job.compute.backend != "torch":
            raise UsageError(
                f"{self.title} acts inside the model, which backend {job.compute.backend!r} does not take apart"
            )
        self.noise.size(noise_shape(self.noise, job.model, job.domain.shape))
        grid_of(self.noise)
        limit = size_text(int(most), self.norm) if self.norm == "edits" else f"{most:.4g}"
        reach = f"with n = {self.n:,} no radius can exceed {limit}"
        if self.noise.embedded:
            covers = "it covers changes of the model's own embeddings, in their units, and no change of words"
            return f"a classifier with an encoder of text can be smoothed; {reach}; {covers}"
        return f"any frozen classifier can be smoothed; {reach}"

    def certify(self, job: Job) -> Certificates:
        """Certificates for every sample of the job's domain."""
        return self.certify_together(job, [self])[0]

    def estimate(self, job: Job) -> Cost:
        """Passes and time, expected and at most."""
        return estimate_sampling(job, self)

    def rederive(self, certificates: Certificates) -> FloatArray:
        """The radii that follow from the votes."""
        record = Record(
            certificates.count,
            certificates.runner_up_count,
            certificates.n,
            self.n,
            self.alpha,
            certificates.classes,
            self.runner_up,
            self.stop.early,
        )
        radius = radius_from_votes(self.noise, record, certificates.off_grid)
        return np.where(certificates.skipped | (certificates.n == 0), 0.0, radius)

    def certified_classifier(self, job: Job) -> CertifiedClassifier:
        """The majority vote under the noise."""
        votes = max(1_000, min(self.n, 4_000))
        return CertifiedVote(job.model, self.noise, 16, votes, job.seed)

    def guarantee_of(self, job: Job, certificates: Certificates) -> str:
        """The sentence that certificates of the job should carry."""
        return smoothing_guarantee(self.noise, self.alpha, described_classifier(certificates.guarantee))

    @classmethod
    def certify_together(cls, job: Job, certifiers: Sequence[Self]) -> list[Certificates]:
        """Several settings in one job: they share the noise, not the forward passes."""
        return sample(job, certifiers)
