"""Certificates as evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator
from torch import nn

from shiftproof.certification import CERTIFIERS
from shiftproof.certification.certifier import Job, Memory
from shiftproof.certification.certifiers.randomized_smoothing import RandomizedSmoothing
from shiftproof.certification.checks import check_classifier
from shiftproof.domains import Domain, Domains
from shiftproof.errors import UsageError
from shiftproof.evidence.certificates import CERTIFICATE, certificate_columns, certificate_facts
from shiftproof.models.prepared.prepare import Backend, Precision
from shiftproof.perturbations.noise import as_noise
from shiftproof.probes.blocks import ProbeTask
from shiftproof.probes.probe import PROBES, Probe, Result
from shiftproof.types import Cost

__all__ = ["Certify", "as_certifier"]


def as_certifier(value: Any) -> Any:
    """A certifier from a study file: its name, or a mapping with the name and its options."""
    if hasattr(value, "certify") and not isinstance(value, type):
        return value
    if isinstance(value, str):
        return CERTIFIERS.create(value)
    if isinstance(value, Mapping):
        options = {"name": "randomized-smoothing", **value}
        return CERTIFIERS.create(str(options.pop("name")), options)
    raise UsageError(f"the certifier is {value!r}; write {{name: randomized-smoothing, noise: gaussian:0.25}}")


@PROBES.register("certify", cost="as the certifier says: n0 + n forward passes a sample for randomized smoothing")
@dataclass(frozen=True)
class Certify(Probe):
    """Certificates: `{name: certify, certifier: {name: randomized-smoothing, noise: gaussian:0.25, n: 10000}}`."""

    columns: ClassVar = CERTIFICATE

    certifier: Annotated[Any, BeforeValidator(as_certifier)] = field(
        default_factory=lambda: RandomizedSmoothing(as_noise("gaussian:0.25"))
    )
    precision: Precision = "f32"
    backend: Backend = "torch"

    def __post_init__(self) -> None:
        object.__setattr__(self, "certifier", as_certifier(self.certifier))

    @property
    def classifier(self) -> str:
        """Of which classifier the certificates speak."""
        return str(self.certifier.classifier)

    @property
    def title(self) -> str:
        """What tells it from other certify probes of a study."""
        return f"certify, {self.certifier.title}"

    def collect(self, task: ProbeTask) -> list[Result]:
        """Certificates of all samples."""
        job = self.job(task.model, task.domain, task.workers)
        job = replace(
            job,
            seed=task.seed,
            record=task.journal,
            progress=task.progress,
            label=task.label,
            calibration=task.calibration,
        )
        certificates = self.certifier.certify(job)
        return [Result(certificate_columns(certificates), certificate_facts(certificates))]

    def check(self, model: nn.Module, domain: Domain, calibration: Domains | None) -> None:
        """Refuse a model to which the certifier does not apply."""
        self.certifier.applies(replace(self.job(model, domain), calibration=calibration))

    def cost(self, model: nn.Module, domain: Domain, workers: int) -> Cost:
        """By a trial on a few samples."""
        cost: Cost = self.certifier.estimate(self.job(model, domain, workers))
        return cost

    def passes(self, model: nn.Module) -> int:
        """Votes of one sample, at most; one where none are counted."""
        voting = self.certifier
        return int(getattr(voting, "n0", 0) + getattr(voting, "n", getattr(voting, "samples", 1)))

    def job(self, model: nn.Module, domain: Domain, workers: int = 1) -> Job:
        """What the certifier is given."""
        classes = check_classifier(model, domain)
        return Job(model, domain, classes, 0, Memory(), workers, self.precision, self.backend, "off")
