"""Certificates as evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import BeforeValidator
from torch import nn

from shiftproof.certification import CERTIFIERS, Certificates
from shiftproof.certification.certifier import Job, Memory
from shiftproof.certification.checks import check_classifier
from shiftproof.certification.sampling.budget import EXACT_N
from shiftproof.certification.smoothing import RandomizedSmoothing
from shiftproof.domains import Domain
from shiftproof.errors import UsageError
from shiftproof.models.prepare import Backend, Precision
from shiftproof.perturbations.noise import as_noise, label
from shiftproof.probes.probe import PROBES, Columns, ProbeTask
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
class Certify:
    """Certificates of the smoothed classifier: `{name: certify, certifier: {noise: gaussian:0.25, n: 10000}}`."""

    classifier: ClassVar[str] = "smoothed"

    certifier: Annotated[Any, BeforeValidator(as_certifier)] = field(
        default_factory=lambda: RandomizedSmoothing(as_noise("gaussian:0.25"))
    )
    precision: Precision = "f32"
    backend: Backend = "torch"

    def __post_init__(self) -> None:
        object.__setattr__(self, "certifier", as_certifier(self.certifier))

    @property
    def title(self) -> str:
        """What tells it from other certify probes of a study."""
        noise = getattr(self.certifier, "noise", None)
        return f"certify, {self.certifier!r}" if noise is None else f"certify, {label(noise)}"

    def collect(self, task: ProbeTask) -> Columns:
        """Certificates of all samples, as columns."""
        job = self._job(task.model, task.domain, task.workers)
        job = replace(job, seed=task.seed, record=task.journal, progress=task.progress, label=task.label)
        return certificate_columns(self.certifier.certify(job))

    def cost(self, model: nn.Module, domain: Domain, workers: int) -> Cost:
        """By a trial on a few samples."""
        cost: Cost = self.certifier.estimate(self._job(model, domain, workers))
        return cost

    def _job(self, model: nn.Module, domain: Domain, workers: int) -> Job:
        classes = check_classifier(model, domain)
        return Job(model, domain, classes, 0, Memory(), workers, self.precision, self.backend, "off")


def certificate_columns(certificates: Certificates) -> Columns:
    """What evidence keeps of certificates: enough to derive every radius again."""
    n = len(certificates)
    full, levels = certificates.bound == EXACT_N, certificates.levels
    columns: Columns = {
        name: getattr(certificates, name)
        for name in ("radius", "skipped", "count", "runner_up", "runner_up_count", "n", "p_lower", "p_upper")
    }
    columns |= {"prediction": certificates.prediction, "bound": certificates.bound, "off_grid": certificates.off_grid}
    if levels is not None:
        columns["level"] = np.where(full, levels.final, levels.early)
        columns["rival_level"] = np.where(full, levels.final_rival, levels.early_rival)
    facts = {
        "alpha": certificates.alpha,
        "noise": "" if certificates.noise is None else label(certificates.noise),
        "norm": certificates.norm,
        "units": certificates.units,
        "guarantee": certificates.guarantee,
        "precision": certificates.precision,
        "seconds": float(certificates.details.get("seconds", 0.0)) / n,
    }
    return columns | {name: np.full(n, value) for name, value in facts.items()}
