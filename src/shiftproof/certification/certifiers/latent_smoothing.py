"""Noise on the representation: GLEAN's certificate, where its proof holds."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from shiftproof.certification.bounds.margins import ROUNDING_WORDS, over_constant, safe_margins, useless
from shiftproof.certification.bounds.representations import (
    Parts,
    check_precision,
    diameter,
    encode,
    linear_parts,
    one_pass,
)
from shiftproof.certification.certificates import Certificates, Votes, certified_rows
from shiftproof.certification.certified_classifier import CertifiedClassifier
from shiftproof.certification.certifier import CERTIFIERS, Alpha, Certifier, Job, Sigma
from shiftproof.certification.certifiers.latent_classifier import CertifiedLatentVote
from shiftproof.certification.facts import facts_of
from shiftproof.certification.sampling.bank import CHOOSING, COUNTING
from shiftproof.certification.sampling.budget import Levels, budget
from shiftproof.errors import ModelError
from shiftproof.execution import progress_bar
from shiftproof.models.split import SplitModel
from shiftproof.perturbations.noise.gaussian import Gaussian
from shiftproof.rng import numpy_generator
from shiftproof.types import Cost, FloatArray, IntArray, Positive

__all__ = ["LatentSmoothing", "latent_votes", "logit_noise"]

TILE_DRAWS, TILE_NUMBERS = 4_096, 1 << 21
TRIED_ROWS, TRIED_DRAWS = 16, 8_192


def logit_noise(weight: FloatArray, sigma: float, count: int, generator: np.random.Generator) -> FloatArray:
    """What noise N(0, sigma^2) on a representation (D) adds to the logits of a linear head (K x D): count x K.

    Drawn in at most K dimensions, from the very law that D dimensions would give: N(0, sigma^2 W W^T).
    """
    triangle = np.linalg.qr(weight.T, mode="r")
    return np.asarray(sigma * generator.standard_normal((count, len(triangle))) @ triangle)


def latent_votes(logits: FloatArray, noise: FloatArray) -> IntArray:
    """How often each class has the largest of logits (N x K) with noise (count x K) added: N x K."""
    classes = logits.shape[1]
    votes = np.zeros(logits.shape, np.int64)
    rows = max(1, TILE_NUMBERS // (classes * min(len(noise), TILE_DRAWS)))
    shifts = torch.split(torch.from_numpy(noise), TILE_DRAWS)
    for start in range(0, len(logits), rows):
        here = torch.from_numpy(logits[start : start + rows])[:, None]
        offsets = torch.arange(len(here))[:, None] * classes
        for shift in shifts:
            winners = (here + shift).argmax(2) + offsets
            counts = torch.bincount(winners.flatten(), minlength=len(here) * classes)
            votes[start : start + rows] += counts.view(-1, classes).numpy()
    return votes


@CERTIFIERS.register(
    "latent-smoothing",
    paper="GLEAN, with the noise on z as its proof needs",
    needs="a linear head over an encoder of known constant",
    norm="l2",
    cost="1 forward pass a sample, then n votes of K numbers each",
)
@dataclass(frozen=True)
class LatentSmoothing(Certifier):
    """The majority vote of a linear head with noise on the representation, over the constant of the encoder.

    For two classes in closed form, which is the margin. For more, by votes: without `runner_up` a radius exceeds the
    margin of `LatentMargin` with probability `alpha` at most, so that it is here for comparison; with it, it may, and
    speaks of the smoothed head, not of the head.
    """

    sigma: Sigma
    n: Positive = 100_000
    n0: Positive = 100
    alpha: Alpha = 0.001
    runner_up: bool = False

    classifier: ClassVar[str] = "latent"

    @property
    def title(self) -> str:
        """What tells it from others in a table."""
        return f"latent smoothing {self.sigma:g}"

    @property
    def scale(self) -> float:
        """A radius of interest, fixed before anything is measured: that of the noise."""
        return self.sigma

    @property
    def votes(self) -> int:
        """Of the head, on one representation."""
        return self.n

    @property
    def passes(self) -> int:
        """Votes of both kinds; the encoder is passed once."""
        return self.n0 + self.n

    def levels(self, classes: int) -> Levels:
        """How alpha is shared out for a classifier of so many classes."""
        return budget(self.alpha, classes, runner_up=self.runner_up, stops_early=False)

    def applies(self, job: Job) -> str:
        """To a linear head over an encoder whose constant is known."""
        check_precision(job)
        parts = linear_parts(job.model, job.domain.shape, "l2", needs_split=True)
        what = f"a linear head over an encoder of l2 constant {parts.constant:.4g}{useless(parts.constant)}"
        if job.classes == 2:
            return f"{what}; for two classes it is latent-margin, whatever sigma, n and alpha"
        if self.runner_up:
            return f"{what}; it speaks of the smoothed head, not of the head"
        return f"{what}; but for rounding, latent-margin certifies no less"

    def certify(self, job: Job) -> Certificates:
        """Certificates for every sample of the job's domain."""
        began = time.perf_counter()
        parts = linear_parts(job.model, job.domain.shape, "l2", needs_split=True)
        assert parts.weight is not None
        encoded = encode(job, parts, "l2")
        logits = parts.logits(encoded.values)
        if job.classes == 2:
            winner, margin, radius = safe_margins(parts, encoded, job.domain.shape, "l2")
            columns: dict[str, Any] = {"chosen": winner, "margin": margin, "bound": np.full(len(winner), "exact")}
            columns["radius"] = radius
        else:
            columns = self._sampled(job, logits, parts.weight, 2 * encoded.rounding, parts.constant)
        exact = job.classes == 2
        return Certificates.blank(
            job.domain.ids,
            columns.pop("prediction", columns["chosen"]),
            columns.pop("radius"),
            **columns,
            norm="l2",
            units=Gaussian.units,
            alpha=0.0 if exact else self.alpha,
            guarantee=self._guarantee(parts, exact),
            constant=parts.constant,
            levels=None if exact else self.levels(job.classes),
            samples=0 if exact else self.n,
            **facts_of(
                job, self, time.perf_counter() - began, rounding=encoded.rounding, n0=self.n0, passes=len(job.domain)
            ),
        )

    def estimate(self, job: Job) -> Cost:
        """One forward pass, and the votes, which take longer; of those, a few are tried."""
        once = one_pass(job)
        if job.classes == 2:
            return once
        parts = linear_parts(job.model, job.domain.shape, "l2", needs_split=True)
        assert parts.weight is not None
        logits = np.zeros((TRIED_ROWS, job.classes))
        noise = logit_noise(parts.weight, self.sigma, TRIED_DRAWS, numpy_generator(0, "estimate", "latent"))
        latent_votes(logits, noise)
        began = time.perf_counter()
        latent_votes(logits, noise)
        each = (time.perf_counter() - began) / (TRIED_ROWS * TRIED_DRAWS)
        seconds = once.seconds + each * len(job.domain) * (self.n0 + self.n)
        return Cost(once.passes, seconds, once.passes, seconds)

    def certified_classifier(self, job: Job) -> CertifiedClassifier:
        """The head under noise."""
        if not isinstance(job.model, SplitModel):
            raise ModelError("a latent certificate is of a SplitModel(encoder, head)")
        return CertifiedLatentVote(job.model, self.sigma, max(2_000, min(self.n, 20_000)), job.seed)

    def guarantee_of(self, job: Job, certificates: Certificates) -> str:
        """The sentence that certificates of the job should carry."""
        parts = linear_parts(job.model, job.domain.shape, "l2", needs_split=True)
        return self._guarantee(parts, job.classes == 2)

    def rederive(self, certificates: Certificates) -> FloatArray:
        """The radii that follow from the votes; without votes, from the margin."""
        if certificates.levels is None:
            return over_constant(certificates.margin, certificates.constant, certificates.radius)
        latent = Gaussian(self.sigma)
        rows = certified_rows(latent, certificates.votes, certificates.samples, certificates.levels)
        return over_constant(rows["radius"], certificates.constant, certificates.radius)

    def _sampled(
        self, job: Job, logits: FloatArray, weight: FloatArray, rounding: float, constant: float
    ) -> dict[str, Any]:
        """Columns from votes; all samples share the noise."""
        purposes = ((CHOOSING, self.n0), (COUNTING, self.n))
        drawn = [
            logit_noise(weight, self.sigma, count, numpy_generator(job.seed, purpose, "latent"))
            for purpose, count in purposes
        ]
        chosen = latent_votes(logits, drawn[0]).argmax(1)
        counts = np.zeros(logits.shape, np.int64)
        with progress_bar(job.label, len(logits), job.progress) as bar:
            for block in job.domain.blocks:
                key = f"latent:{block[0]}"
                if key not in job.record.done:
                    job.record.append(key, latent_votes(logits[block], drawn[1]).tolist())
                counts[block] = job.record.done[key]
                bar.advance(len(block))
        rows = np.arange(len(logits))
        count, others = counts[rows, chosen], counts.copy()
        others[rows, chosen] = -1
        rival = others.argmax(1)
        # what rounding may have moved is taken off in the representation, before the constant divides
        off = np.full(len(logits), rounding)
        votes = Votes(
            chosen=chosen,
            skipped=np.zeros(len(logits), bool),
            count=count,
            runner_up=rival,
            runner_up_count=others[rows, rival],
            n=np.full(len(logits), self.n),
            off_grid=off,
        )
        columns = certified_rows(Gaussian(self.sigma), votes, self.n, self.levels(job.classes))
        if constant > 0:
            columns["radius"] = columns["radius"] / constant
        else:
            columns["radius"] = np.where(columns["radius"] > 0, diameter(job.domain.shape, "l2"), 0.0)
        return columns | {
            "label_count": counts[rows, job.domain.labels],
            **{name: getattr(votes, name) for name in ("chosen", "count", "runner_up", "runner_up_count", "n")},
            "off_grid": off,
        }

    def _guarantee(self, parts: Parts, exact: bool) -> str:
        how = (
            "for two classes that is the margin of the head, and nothing is random"
            if exact
            else f"for each image fixed before the seed was drawn, wrong with probability at most {self.alpha:g}"
        )
        return (
            f"The head's most probable class when noise N(0, {self.sigma:g}^2) is added to the representation stays "
            f"the certified one under every change of the input whose l2 norm ({Gaussian.units}) is below the radius, "
            f"with the encoder's constant {parts.constant:.7g}; {how}. {ROUNDING_WORDS}"
        )
