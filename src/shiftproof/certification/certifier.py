"""The contract of a certifier, and what it is given."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

from annotated_types import Interval
from torch import nn

from shiftproof.catalogue import Catalogue, Method, optional
from shiftproof.certification.certificates import Certificates
from shiftproof.certification.certified_classifier import CertifiedClassifier
from shiftproof.certification.checks import check_embeddings
from shiftproof.certification.sampling.budget import Levels
from shiftproof.domains import Domain, Domains
from shiftproof.errors import UsageError
from shiftproof.execution import HERE, Compute, Journal, Mode
from shiftproof.perturbations.noise import Noise
from shiftproof.perturbations.noise.gaussian import Gaussian
from shiftproof.perturbations.noise.noise import check_kind
from shiftproof.types import Cost, FloatArray

__all__ = ["CERTIFIERS", "Alpha", "Certifier", "Job", "Memory", "Sigma"]

Alpha = Annotated[float, Interval(gt=0, lt=1)]
"""The probability that a certificate is wrong, for options of certifiers."""
Sigma = Annotated[float, Interval(gt=0, lt=math.inf)]
"""The standard deviation of a noise."""


class Memory:
    """A record like a `Journal`, but gone with the process."""

    def __init__(self) -> None:
        self.done: dict[str, Any] = {}

    def append(self, key: str, value: Any) -> None:
        """Remember a piece."""
        self.done[key] = value

    def discard(self) -> None:
        """Forget everything."""
        self.done.clear()


@dataclass(frozen=True, eq=False)
class Job:
    """A checked classifier and the samples to certify, with all that says how to compute, not what.

    The model itself is on the CPU, wherever its copies compute.
    `calibration` are samples that may shape a classifier before it is certified; none of them is certified.
    """

    model: nn.Module
    domain: Domain
    classes: int
    seed: int
    record: Journal | Memory
    compute: Compute = HERE
    progress: Mode = "auto"
    label: str = "certifying"
    calibration: Domains | None = None


class Certifier(Method, ABC):
    """Turns samples into certificates of one norm: a frozen dataclass of options.

    What is abstract has to be written. The rest is what tables, plans and `verify` ask of a certifier, with defaults
    that hold for one that draws no noise and whose certificates are always right.
    """

    classifier: ClassVar[str]
    """base | smoothed | adapted | latent | median: of which classifier its certificates speak."""

    @property
    @abstractmethod
    def title(self) -> str:
        """What tells it from others in a table."""

    @abstractmethod
    def applies(self, job: Job) -> str:
        """Why it can be used on the job's classifier, in a sentence; an error says why not."""

    @abstractmethod
    def certify(self, job: Job) -> Certificates:
        """One certificate for each sample of the job's domain, in its order."""

    @abstractmethod
    def estimate(self, job: Job) -> Cost:
        """What that takes, from a moment's trial; nothing is recorded."""

    @abstractmethod
    def rederive(self, certificates: Certificates) -> FloatArray:
        """The radii that follow from what the certificates record, by the certifier's own rule; no model is asked."""

    @abstractmethod
    def certified_classifier(self, job: Job) -> CertifiedClassifier:
        """The classifier of which the certificates speak, to be attacked and evaluated again."""

    @optional
    def alpha(self) -> float:
        """The probability, over the seed, that a certificate is wrong; 0 where nothing is random."""
        return 0.0

    @optional
    def unsound(self) -> str:
        """The published rule, without a proof, that is computed for comparison; "" for a certificate."""
        return ""

    @optional
    def noise(self) -> Noise | None:
        """The noise under which the model votes on inputs; None if it does not, or under several."""
        return None

    @optional
    def kind(self) -> str:
        """Of what its certificates speak: image | text."""
        return "image" if self.noise is None else self.noise.kind

    @optional
    def norm(self) -> str:
        """The norm of its radii."""
        return "l2" if self.noise is None else self.noise.norm

    @optional
    def units(self) -> str:
        """The units of its radii."""
        return Gaussian.units if self.noise is None else self.noise.units

    @optional
    def scale(self) -> float:
        """A radius of interest, fixed before anything is measured."""
        return 0.25 if self.noise is None else self.noise.scale

    @optional
    def votes(self) -> int:
        """Noise samples that count for one certificate, at most (under each noise, if there are several)."""
        return 0

    @optional
    def passes(self) -> int:
        """Noise samples of one input at most, those that choose its class included; 1 where none are drawn."""
        return 1

    @optional
    def asked_radii(self) -> tuple[float, ...] | None:
        """The radii at which alone sampling is decided, where it stops early for them; None: all count."""
        return None

    def check_kind(self, domain: Domain) -> None:
        """Refuse images where it certifies texts, and texts where it certifies images."""
        if self.noise is not None:
            check_kind(self.noise, domain.kind, domain.name)
        elif self.kind != domain.kind:
            fitting = "word-deletion:0.8" if domain.kind == "text" else "gaussian:0.25"
            raise UsageError(
                f"{self.name} certifies changes of {self.kind}s, and {domain.name!r} holds {domain.kind}s; for these "
                f"there is randomized-smoothing with --noise {fitting}"
            )

    def check_model(self, model: nn.Module, domain: Domain) -> None:
        """Refuse, before anything is written, a model behind whose first layer its noise can't act."""
        if self.noise is not None and self.noise.embedded:
            check_embeddings(model, domain)

    def levels(self, classes: int) -> Levels | None:
        """How alpha is shared out for a classifier of so many classes; None if it is not shared between bounds."""
        return None

    def largest_radius(self, classes: int, levels: Levels | None = None) -> float:
        """What no radius can exceed, however sure the model is; infinite if nothing is known.

        `levels` are those that certificates recorded, where the limit follows from them.
        """
        return math.inf

    def guarantee_of(self, job: Job, certificates: Certificates) -> str | None:
        """The sentence that certificates of the job should carry; None if that can't be told."""
        return None

    def as_recorded(self, certificates: Certificates) -> Self:
        """The certifier with the options that it chose while it certified, as certificates record them."""
        return self

    @classmethod
    def certify_together(cls, job: Job, certifiers: Sequence[Self]) -> list[Certificates]:
        """Certificates of several certifiers of this class in one job, for those that can share work."""
        if len(certifiers) > 1:
            name = certifiers[0].name
            raise UsageError(f"several certifiers of kind {name} make no one job; certify with each in turn")
        return [one.certify(job) for one in certifiers]


CERTIFIERS: Catalogue[Certifier] = Catalogue(
    "certifier",
    "shiftproof.certification.certifiers",
    base=Certifier,
    default="randomized-smoothing",
    example="{name: randomized-smoothing, noise: gaussian:0.25}",
)
