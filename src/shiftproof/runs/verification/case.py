"""What is doubted: certificates, and what made them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from shiftproof.certification import Certificates, Certifier, Job
from shiftproof.types import Finding

__all__ = ["SAME", "WRONGLY_BROKEN", "Case", "finding"]

WRONGLY_BROKEN = 1e-6
"""The probability that sound certificates of a case are called broken by chance, for each of the random checks."""
SAME = 1e-9


@dataclass(frozen=True, eq=False)
class Case:
    """The certificates of one model on one domain by one certifier, with what made them.

    `job` holds the seed that certified; `seed` is fresh. `part` is how many certificates are asked again and attacked.
    """

    name: str
    certificates: Certificates
    certifier: Certifier
    job: Job
    seed: int
    part: int = 24

    @property
    def slack(self) -> float:
        """What part of the votes may differ from the model's own: 0, unless something else than float32 torch voted."""
        return 0.0 if (self.job.compute.precision, self.job.compute.backend) == ("f32", "torch") else 0.05

    steps: ClassVar[int] = 10
    directions: ClassVar[int] = 4


def finding(level: Any, code: str, case: Case, message: str, **evidence: Any) -> Finding:
    """On a case."""
    return Finding(level, code, f"{case.name}: {message}", evidence)
