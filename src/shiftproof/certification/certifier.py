"""The contract of a certifier, and what it is given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from torch import nn

from shiftproof.catalogue import Catalogue
from shiftproof.certification.certificates import Certificates
from shiftproof.domains import Domain
from shiftproof.execution import Journal, Mode
from shiftproof.models.prepare import Backend, Precision
from shiftproof.types import Cost

__all__ = ["CERTIFIERS", "Certifier", "Job", "Memory"]


class Memory:
    """A record like a `Journal`, but gone with the process."""

    def __init__(self) -> None:
        self.done: dict[str, Any] = {}

    def append(self, key: str, value: Any) -> None:
        """Remember a piece."""
        self.done[key] = value


@dataclass(frozen=True, eq=False)
class Job:
    """A checked classifier and the samples to certify, with all that says how to compute, not what."""

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


class Certifier(Protocol):
    """A frozen dataclass that turns samples into certificates of one norm."""

    def certify(self, job: Job) -> Certificates:
        """One certificate for each sample of the job's domain, in its order."""

    def estimate(self, job: Job) -> Cost:
        """What that takes, from a moment's trial; nothing is recorded."""


CERTIFIERS: Catalogue[Certifier] = Catalogue("certifier", "shiftproof.certification")
