"""Whether attacks on a model can be trusted, looked at before it is attacked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import nn

from shiftproof.attacks.validity import validity_findings
from shiftproof.perturbations.deformation import Ball
from shiftproof.perturbations.threat import Threat
from shiftproof.probes.attack import Attack
from shiftproof.probes.probe import Probe
from shiftproof.runs.data import StudyData
from shiftproof.types import Finding

__all__ = ["examine_model"]

EXAMINED = 32
"""Samples on which a model is examined."""


def examine_model(
    model: nn.Module, data: StudyData, threats: Sequence[Ball], probes: Sequence[Probe], seed: int = 0
) -> Iterator[Finding]:
    """Whether gradients of a model tell how it can be attacked, on a few samples of all domains, for each threat to
    pixels; each finding once.
    """
    each = max(1, EXAMINED // len(data.measured))
    few = [domain.subset(np.unique(np.linspace(0, len(domain) - 1, each, dtype=np.int64))) for domain in data.measured]
    inputs, labels = (torch.cat(parts) for parts in zip(*(one.tensors() for one in few), strict=True))
    ids = [f"{one.name}/{sample}" for one in few for sample in one.ids]
    attacks = [one.attack for one in probes if isinstance(one, Attack)]
    said = set()
    for threat in [one for one in threats if isinstance(one, Threat)]:
        attack = next((one for one in attacks if one.threat == threat), None)
        found = validity_findings(
            model, inputs, labels, ids, threat, seed=seed, classes=len(data.sources.classes), attack=attack
        )
        for finding in found:
            if (finding.code, finding.message) not in said:
                yield finding
            said.add((finding.code, finding.message))
