"""Whether attacks on a model can be trusted, looked at before it is attacked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import nn

from shiftproof.attacks import Attack
from shiftproof.attacks.validity import validity_findings
from shiftproof.execution import Mode, progress_bar
from shiftproof.perturbations.threat import Threat, as_threat
from shiftproof.probes import Probe
from shiftproof.probes.attack import Attack as AttackProbe
from shiftproof.runs.data import StudyData
from shiftproof.types import Finding

__all__ = ["examine_models"]

EXAMINED = 32
"""Samples on which a model is examined."""
USUAL = "l2:0.5"
"""Within which gradients are looked at where all attacks deform."""


def examine_models(
    models: Mapping[str, nn.Module], data: StudyData, probes: Sequence[Probe], progress: Mode
) -> list[Finding]:
    """Whether gradients of the models tell how they can be attacked, if a study attacks any of them."""
    attacks = [probe.attack for probe in probes if isinstance(probe, AttackProbe) and probe.smoothed is None]
    pixels = list(dict.fromkeys(one.threat for one in attacks if isinstance(one.threat, Threat)))
    # of a text there are no pixels: the model itself is looked at
    threats: list[Threat] | list[None] = [None] if data.sources.kind == "text" else pixels or [as_threat(USUAL)]
    found: list[Finding] = []
    for name, model in models.items() if attacks else ():
        with progress_bar(f"examining {name}", 1, progress) as bar:
            each = _examine(model, data, threats, attacks)
            found += [replace(one, message=f"{name}: {one.message}") if len(models) > 1 else one for one in each]
            bar.advance()
    return found


def _examine(
    model: nn.Module, data: StudyData, threats: Sequence[Threat | None], attacks: Sequence[Attack]
) -> Iterator[Finding]:
    """On a few samples of all domains, for each threat to pixels; each finding once."""
    each = max(1, EXAMINED // len(data.measured))
    few = [domain.subset(np.unique(np.linspace(0, len(domain) - 1, each, dtype=np.int64))) for domain in data.measured]
    inputs, labels = (torch.cat(parts) for parts in zip(*(one.tensors() for one in few), strict=True))
    ids = [f"{one.name}/{sample}" for one in few for sample in one.ids]
    told = set()
    for threat in threats:
        attack = next((one for one in attacks if one.threat == threat), None)
        findings = validity_findings(
            model, inputs, labels, ids, threat, seed=0, classes=len(data.sources.classes), attack=attack
        )
        for finding in findings:
            if (finding.code, finding.message) not in told:
                yield finding
            told.add((finding.code, finding.message))
