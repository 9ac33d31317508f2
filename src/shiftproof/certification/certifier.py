"""The contract of a certifier, and what it is given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from torch import nn

from shiftproof.catalogue import Catalogue
from shiftproof.certification.certificates import Certificates
from shiftproof.certification.certified_classifier import CertifiedClassifier
from shiftproof.domains import Domain, Domains
from shiftproof.execution import Journal, Mode
from shiftproof.models.prepared.prepare import Backend, Precision
from shiftproof.types import Cost, FloatArray

__all__ = ["CERTIFIERS", "Certifier", "Described", "Job", "Memory"]


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

    `calibration` are samples that may shape a classifier before it is certified; none of them is certified.
    """

    model: nn.Module
    domain: Domain
    classes: int
    seed: int
    record: Journal | Memory
    workers: int = 1
    precision: Precision = "f32"
    backend: Backend = "torch"
    progress: Mode = "auto"
    label: str = "certifying"
    calibration: Domains | None = None


class Described(Protocol):
    """What tells certificates of one setting from others."""

    @property
    def title(self) -> str:
        """What tells it from others in a table."""

    @property
    def classifier(self) -> str:
        """base | smoothed | adapted | latent | median: of which classifier its certificates speak."""

    @property
    def scale(self) -> float:
        """A radius of interest, fixed before anything is measured."""


class Certifier(Described, Protocol):
    """A frozen dataclass that turns samples into certificates of one norm."""

    def applies(self, job: Job) -> str:
        """Why it can be used on the job's classifier, in a sentence; an error says why not."""

    def certify(self, job: Job) -> Certificates:
        """One certificate for each sample of the job's domain, in its order."""

    def estimate(self, job: Job) -> Cost:
        """What that takes, from a moment's trial; nothing is recorded."""

    def rederive(self, certificates: Certificates) -> FloatArray:
        """The radii that follow from what the certificates record, by the certifier's own rule; no model is asked."""

    def certified_classifier(self, job: Job) -> CertifiedClassifier:
        """The classifier of which the certificates speak, to be attacked and asked again."""


CERTIFIERS: Catalogue[Certifier] = Catalogue("certifier", "shiftproof.certification.certifiers")
