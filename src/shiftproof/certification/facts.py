"""What every certificate says of where it comes from."""

from __future__ import annotations

from typing import Any

from shiftproof.certification.certifier import Certifier, Job
from shiftproof.models.files import fingerprint

__all__ = ["facts_of"]


def facts_of(job: Job, certifier: Certifier, seconds: float, **details: Any) -> dict[str, Any]:
    """The facts of certificates that follow from job and certifier; `details` are those of one kind alone."""
    return {
        "title": certifier.title,
        "classifier": certifier.classifier,
        "scale": certifier.scale,
        "classes": job.classes,
        "precision": job.compute.precision,
        "seed": job.seed,
        "fingerprint": fingerprint(job.model),
        "details": {
            "certifier": repr(certifier),
            "domain": job.domain.name,
            "data": job.domain.fingerprint,
            "seconds": seconds,
            **details,
        },
    }
