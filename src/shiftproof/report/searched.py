"""What searches reach, and how much the loss can change: tables per model and domain."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shiftproof.evidence import Evidence
from shiftproof.statistics import Sample, bootstrap_mean
from shiftproof.types import Estimate

__all__ = ["LossChange", "Searched", "loss_changes_of", "searched_of"]


@dataclass(frozen=True)
class Searched:
    """Of one model on one domain: which part of predictions a search changes within each size.

    `moved` is how far representations moved where that happened, and `nearest` how far the nearest adversarial one is,
    both over the length of the one before.
    """

    model: str
    domain: str
    norm: str
    reached: dict[float, Estimate]
    moved: float | None
    nearest: float


@dataclass(frozen=True)
class LossChange:
    """Of one model on one domain: by how much the loss changes within a threat, as found and as proven."""

    model: str
    domain: str
    title: str
    found: Estimate
    proven: Estimate | None


def searched_of(evidence: Evidence) -> list[Searched]:
    """One for each model and domain that was searched."""
    rows, found = evidence.where(probe="search"), []
    for model in rows.distinct("model"):
        for domain in rows.where(model=model).distinct("domain"):
            part = rows.where(model=model, domain=domain)
            sizes = part["eps"].astype(np.float64)
            before = part["prediction"][sizes == 0.0]
            reached, moved = {}, None
            for size in sorted(set(sizes[sizes > 0].tolist())):
                changed = part["prediction"][sizes == size] != before
                units = part.sample("prediction").units[sizes == size]
                reached[size] = bootstrap_mean(Sample(changed.astype(np.float64), units), limits=(0, 1))
                if changed.any():
                    moved = float(part["latent_distance"][sizes == size][changed].mean())
            nearest = part["latent_distance"][np.isnan(sizes)].astype(np.float64)
            finite = nearest[np.isfinite(nearest)]
            near = float(finite.mean()) if len(finite) else float("inf")
            found.append(Searched(str(model), str(domain), str(part["norm"][0]), reached, moved, near))
    return found


def loss_changes_of(evidence: Evidence) -> list[LossChange]:
    """One for each model, domain and threat."""
    rows, found = evidence.where(probe="input-robustness"), []
    for model in rows.distinct("model"):
        for setting in rows.where(model=model).distinct("setting"):
            for domain in rows.where(model=model, setting=setting).distinct("domain"):
                part = rows.where(model=model, setting=setting, domain=domain)
                bound = part.sample("loss_bound")
                proven = None if np.isnan(bound.values).any() else bootstrap_mean(bound)
                estimate = bootstrap_mean(part.sample("loss_change"))
                found.append(LossChange(str(model), str(domain), str(part["title"][0]), estimate, proven))
    return found
