"""Pairs that differ in nothing but the domain (same digit, other colour): what a certificate carries across."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import nn

from shiftproof.certification.bounds.margins import margins, safe_margins
from shiftproof.certification.bounds.representations import encode, linear_parts, one_pass
from shiftproof.certification.certifier import Job, Memory
from shiftproof.certification.transfer import transferred_radius
from shiftproof.domains import Domain, Domains
from shiftproof.errors import DataError
from shiftproof.evidence import Column
from shiftproof.execution import Compute
from shiftproof.perturbations.noise.gaussian import Gaussian
from shiftproof.probes.blocks import ProbeTask
from shiftproof.probes.probe import PROBES, Probe, Result
from shiftproof.types import Cost

__all__ = ["Counterfactual"]


@PROBES.register("counterfactual", cost="2 forward passes a sample")
@dataclass(frozen=True)
class Counterfactual(Probe):
    """Each sample and its twin in the other domain: how far apart their representations are, and what that leaves.

    Rows are of the twins: `prediction` there, `distance` to the sample in the representation, `margin` there of the
    sample's class, and `radius`, which the sample's certificate guarantees there (GLEAN, corrected).
    """

    columns: ClassVar = (
        Column("radius", "float", "Within which the sample's certificate still guarantees its class at the twin."),
        Column("distance", "float", "Between the two representations (l2)."),
        Column("margin", "float", "Of the sample's class at the twin; negative where another wins."),
    )
    title: ClassVar[str] = "counterfactual pairs"

    def collect(self, task: ProbeTask) -> list[Result]:
        """Of the samples of a domain that knows their twins."""
        twins = _twins(task.domain)
        parts = linear_parts(task.model, task.domain.shape, "l2", needs_split=True)
        here, there = (encode(_job(task.model, domain), parts, "l2") for domain in (task.domain, twins))
        winner, _, own = safe_margins(parts, here, task.domain.shape, "l2")
        distance = np.linalg.norm(here.values.astype(np.float64) - there.values, axis=1)
        # the distance is rounded too; a constant of 0 leaves nothing to move
        apart = distance + 2 * (here.rounding + there.rounding)
        radius = transferred_radius(own, apart, parts.constant) if parts.constant > 0 else np.maximum(own, 0.0)
        prediction, lead = margins(parts.logits(there.values), parts.weight, "l2")
        n = len(task.domain)
        columns = {
            "prediction": prediction,
            "radius": radius,
            "distance": distance,
            "margin": np.where(prediction == winner, lead, -lead),
            "seconds": np.full(n, (here.seconds + there.seconds) / n),
        }
        return [Result(columns, {"norm": "l2", "units": Gaussian.units, "constant": parts.constant})]

    def check(self, model: nn.Module, domain: Domain, calibration: Domains | None) -> None:
        """Refuse data without twins, and models without a constant."""
        _twins(domain.subset([0]))
        linear_parts(model, domain.shape, "l2", needs_split=True)

    def cost(self, model: nn.Module, domain: Domain, compute: Compute) -> Cost:
        """Two passes."""
        once = one_pass(_job(model, domain))
        return Cost(2 * once.passes, 2 * once.seconds, 2 * once.passes, 2 * once.seconds)


def _twins(domain: Domain) -> Domain:
    if domain.counterfactual is None:
        raise DataError(f"{domain.name} does not know how its samples would look elsewhere; colored-digits does")
    inputs, labels = domain.tensors()
    return Domain.from_arrays(
        domain.name,
        torch.as_tensor(domain.counterfactual(inputs)),
        labels.numpy(),
        domain.classes,
        ids=list(domain.ids),
    )


def _job(model: nn.Module, domain: Domain) -> Job:
    return replace(Job(model, domain, len(domain.classes), 0, Memory()), progress="off")
