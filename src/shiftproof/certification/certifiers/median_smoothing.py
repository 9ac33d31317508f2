"""Median smoothing: what a head makes of the median of noisy representations, certified by order statistics."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import numpy as np
import torch
from annotated_types import Interval
from torch import nn

from shiftproof.certification.bounds.ranks import order_radius
from shiftproof.certification.certificates import Certificates
from shiftproof.certification.certified_classifier import CertifiedClassifier
from shiftproof.certification.certifier import CERTIFIERS, Alpha, Certifier, Job, Memory, Sigma
from shiftproof.certification.certifiers.median_classifier import CertifiedMedian
from shiftproof.certification.certifiers.median_head import Head
from shiftproof.certification.certifiers.median_sampling import Sampled, off_grid_of
from shiftproof.certification.facts import facts_of
from shiftproof.certification.guarantees import described_classifier
from shiftproof.certification.sampling.bank import grid_of
from shiftproof.certification.sampling.budget import Levels
from shiftproof.errors import ModelError, UsageError
from shiftproof.execution import progress_bar, run_shards, slots
from shiftproof.models.split import SplitModel
from shiftproof.perturbations.noise.gaussian import Gaussian
from shiftproof.types import Cost, FloatArray, IntArray, Positive

__all__ = ["MedianSmoothing"]

Level = Literal["representation", "logits"]
Bound = Literal["box", "lipschitz"]


@CERTIFIERS.register(
    "median-smoothing",
    paper="Chiang et al. 2020; provably robust transfer, with a bound that holds",
    needs="an encoder and a head for representations; any classifier for logits",
    norm="l2",
    cost="n0 + samples forward passes a sample",
)
@dataclass(frozen=True)
class MedianSmoothing(Certifier):
    """The head's answer to the median of noisy representations (or the largest median logit).

    Order statistics at the shifted percentiles bound the medians of all inputs within a radius, in all D dimensions
    at once; `bound="box"` follows that box through the head, which is exact for one linear layer, "lipschitz" uses the
    head's true L-infinity constant. With `radius=None` each sample gets its largest certified radius, else the one
    given or none. `n0` further samples fix the class. Smoothing of labels is `RandomizedSmoothing(n=500, alpha=1e-4)`.

    `unsound="as-published"` takes L2 norms of rows for L-infinity constants, as Provably Robust Transfer does: no
    certificate.

    Medians: Chiang et al., "Detection as regression: certified object detection by median smoothing" (2020,
    arXiv:2007.03730).
    """

    level: Level = "representation"
    sigma: Sigma = 0.1
    radius: Annotated[float, Interval(gt=0, lt=math.inf)] | None = None
    samples: Annotated[int, Interval(ge=1, le=1_000_000)] = 500
    alpha: Alpha = 1e-4
    bound: Bound = "box"
    n0: Positive = 100
    unsound: Literal["", "as-published"] = ""

    classifier: ClassVar[str] = "median"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.unsound and (self.level != "representation" or self.radius is None):
            raise UsageError("the published rule is about representations at a fixed radius: give radius=0.1, say")

    @property
    def title(self) -> str:
        """What tells it from others in a table."""
        at = "" if self.radius is None else f" at {self.radius:g}"
        return f"median {self.level} {self.sigma:g}{at}{', ' + self.unsound if self.unsound else ''}"

    @property
    def scale(self) -> float:
        """A radius of interest, fixed before anything is measured: the one asked for, or that of the noise."""
        return self.sigma if self.radius is None else self.radius

    @property
    def votes(self) -> int:
        """Noisy representations between which medians are bounded."""
        return self.samples

    @property
    def passes(self) -> int:
        """Those, and the ones that choose the class."""
        return self.n0 + self.samples

    def share(self, dimensions: int) -> float:
        """Of alpha, for either side of each dimension."""
        return self.alpha / (2 * dimensions)

    def reach(self, dimensions: int) -> float:
        """What no radius can exceed with so many samples: the smallest and the largest sample bound no farther.

        >>> round(MedianSmoothing().reach(640), 4)
        0.1849
        """
        return float(order_radius(np.array([1]), self.samples, self.sigma, self.share(dimensions))[0])

    def largest_radius(self, classes: int, levels: Levels | None = None) -> float:
        """The reach in as many dimensions as alpha was shared between; infinite while that is not known."""
        return math.inf if levels is None else self.reach(self._dimensions(levels))

    def applies(self, job: Job) -> str:
        """To an encoder and a head that boxes pass, or to logits."""
        head = self.parts(job)[1]
        self.check_reach(head.shape[0])
        head.check(self.bound)
        grid_of(Gaussian(self.sigma))
        reach = self.reach(head.shape[0])
        return f"{head.shape[0]} medians; with {self.samples} samples radii up to {reach:.3g} are reachable"

    def certify(self, job: Job) -> Certificates:
        """Certificates for every sample of the job's domain."""
        began = time.perf_counter()
        work = Sampled(self, job)
        self.check_reach(work.dimensions)
        work.head.check(self.bound)
        total = len(job.domain) * (self.n0 + self.samples)
        done = len(job.record.done) * (self.n0 + self.samples)
        with progress_bar(job.label, total, job.progress, done) as bar:
            for _, (image, row) in run_shards(work, range(len(work.shards)), job.compute):
                job.record.append(str(image), row)
                bar.advance(self.n0 + self.samples)
        rows = [job.record.done[str(image)] for image in range(len(job.domain))]
        winner, k = (np.array(column, np.int64) for column in zip(*rows, strict=True))
        off = np.concatenate([off_grid_of(job, block) for block in job.domain.blocks])
        radius = self._radius(k, off, work.dimensions)
        level = self.share(work.dimensions)
        return Certificates.blank(
            job.domain.ids,
            winner,
            radius,
            count=k,
            n=np.full(len(k), self.samples),
            bound=np.full(len(k), "order-statistics"),
            off_grid=off,
            norm="l2",
            units=Gaussian.units,
            alpha=self.alpha,
            guarantee=self._guarantee(work.prepared.description),
            unsound=self.unsound,
            levels=Levels(level),
            samples=self.samples,
            **facts_of(job, self, time.perf_counter() - began, dimensions=work.dimensions, n0=self.n0),
        )

    def check_reach(self, dimensions: int) -> None:
        """Refuse a radius that no samples could certify."""
        reach = self.reach(dimensions)
        if reach <= 0:
            raise UsageError(
                f"{self.samples} samples bound no median in {dimensions} dimensions at alpha {self.alpha:g}"
            )
        if self.radius is not None and self.radius > reach:
            raise UsageError(
                f"r = {self.radius:g} is beyond the reachable {reach:.3g} with {self.samples} samples "
                f"(sigma {self.sigma:g}, {dimensions} dimensions, alpha {self.alpha:g}); more samples reach farther"
            )

    def estimate(self, job: Job) -> Cost:
        """By trying two images."""
        few = replace(
            job,
            domain=job.domain.subset(np.arange(min(2, len(job.domain)))),
            record=Memory(),
            compute=job.compute.alone(),
        )
        work = Sampled(self, few)
        list(work(0))
        began = time.perf_counter()
        list(work(0))
        passes = len(job.domain) * (self.n0 + self.samples)
        seconds = (time.perf_counter() - began) / len(few.domain) * len(job.domain) / slots(job.compute)
        return Cost(passes, seconds, passes, seconds)

    def certified_classifier(self, job: Job) -> CertifiedClassifier:
        """The head over medians."""
        body, head = self.parts(job)
        return CertifiedMedian(body, head, self.sigma, seed=job.seed)

    def guarantee_of(self, job: Job, certificates: Certificates) -> str:
        """The sentence that certificates of the job should carry."""
        return self._guarantee(described_classifier(certificates.guarantee))

    def rederive(self, certificates: Certificates) -> FloatArray:
        """The radius of the order statistic that held; whether it held only the samples know."""
        assert certificates.levels is not None
        dimensions = self._dimensions(certificates.levels)
        return np.maximum(self._radius(certificates.count, certificates.off_grid, dimensions), 0.0)

    def parts(self, job: Job) -> tuple[nn.Module, Head]:
        """What gives the numbers whose medians are taken, and the head over them."""
        if self.level == "logits":
            return job.model, Head(nn.Identity(), (job.classes,))
        if not isinstance(job.model, SplitModel):
            raise ModelError("representations need a SplitModel(encoder, head); level='logits' takes any classifier")
        with torch.no_grad():
            width = job.model.encoder(torch.zeros(1, *job.domain.shape)).flatten(1).shape[1]
        return nn.Sequential(job.model.encoder, nn.Flatten()), Head(job.model.head, (int(width),))

    def _dimensions(self, levels: Levels) -> int:
        """How many medians share alpha, by what each has of it."""
        return round(self.alpha / (2 * levels.final))

    def _radius(self, k: IntArray, off: FloatArray, dimensions: int) -> FloatArray:
        """Of order statistics that hold; k = 0 is none."""
        level = self.share(dimensions)
        reached = order_radius(np.maximum(k, 1), self.samples, self.sigma, level) - off
        if self.radius is not None:
            # rounding in the last digit must not lose a radius that was asked for
            reached = np.where(reached >= self.radius * (1 - 1e-12), self.radius, -1.0)
        return np.where(k > 0, reached, -1.0)

    def _guarantee(self, prepared: str) -> str:
        what = "logits" if self.level == "logits" else "representations"
        if self.unsound:
            return (
                f"NOT A GUARANTEE. The margin at the median of {what} against an L-infinity constant that was taken "
                "from the L2 norms of rows: the true constant can be 25 times larger."
            )
        return (
            f"The classifier that answers with {'the largest' if what == 'logits' else 'the head on the'} true median "
            f"of the {what} (model in {prepared}; inputs rounded to 1/65280) under {Gaussian(self.sigma)!r} gives the "
            f"certified class under every change of the input whose l2 norm ({Gaussian.units}) is at most the radius; "
            f"for each image fixed before the seed was drawn, wrong with probability at most {self.alpha:g}. A median "
            "of finitely many samples is another, random thing."
        )
